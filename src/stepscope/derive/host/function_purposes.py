"""`function_purposes`: what functions are called for.

Functions of known libraries that write checkpoints or summaries, fetch a batch, compile
or call a device's runtime have that purpose with all that they call.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_names import FunctionName


class FunctionPurpose(IntEnum):
    """What a function is called for.

    Definition: docs/definitions/host-time.md#functions.
    """

    UNKNOWN = 0
    INPUT = 1
    CHECKPOINT = 2
    SUMMARY = 3
    COMPILE = 4
    SYNC = 5
    CALL = 6
    AWAIT = 7


class _Rule(Frozen, frozen=True, eq=True):
    purpose: FunctionPurpose
    file: str
    function: str


#: Path of the file and name of the function; the first pair that matches decides.
_RULES: Final = (
    _Rule(
        FunctionPurpose.INPUT,
        r"/torch/utils/data/(?:dataloader|_utils/fetch)\.py$"
        r"|/tensorflow/python/data/ops/iterator_ops\.py$",
        r"(?:^|\.)(?:__next__|fetch|next|get_next)$",
    ),
    _Rule(FunctionPurpose.INPUT, r"/grain/", r"(?:^|\.)__next__$"),
    _Rule(
        FunctionPurpose.CHECKPOINT,
        r"/torch/serialization\.py$|/torch/distributed/checkpoint/"
        r"|/tensorflow/python/(?:checkpoint|saved_model)/"
        r"|/tensorflow/python/training/saver\.py$|/keras/(?:src/)?saving/"
        r"|/orbax/checkpoint/|/flax/training/checkpoints\.py$|/safetensors/"
        r"|/numpy/lib/_?npyio(?:_impl)?\.py$|/joblib/numpy_pickle\.py$",
        r"(?:^|\.)_*(?:save\w*|write|async_save|export|dump)$",
    ),
    _Rule(
        FunctionPurpose.SUMMARY,
        r"/torch/utils/tensorboard/writer\.py$|/tensorboardX/"
        r"|/tensorflow/python/ops/summary_ops_v2\.py$"
        r"|/tensorboard/(?:summary|plugins)/|/wandb/|/mlflow/",
        r"",
    ),
    _Rule(
        FunctionPurpose.COMPILE,
        r"/torch/(?:_dynamo|_inductor)/",
        r"(?:^|\.)(?:_?compile\w*|_compile_inner)$|compile_fx",
    ),
    _Rule(
        FunctionPurpose.COMPILE,
        r"/jax/_src/(?:compiler|interpreters/(?:mlir|partial_eval|pxla))\.py$",
        r"(?:^|\.)(?:backend_compile\w*|compile_or_get_cached"
        r"|lower_jaxpr_to_module|trace_to_jaxpr\w*|UnloadedMeshExecutable\.\w+)$",
    ),
    _Rule(
        FunctionPurpose.COMPILE,
        r"/tensorflow/python/eager/polymorphic_function/tracing_compilation\.py$",
        r"",
    ),
    _Rule(
        FunctionPurpose.SYNC,
        r"/torch/(?:cuda|xpu|mps)/(?:__init__|streams)\.py$|/jax/_src/\w+\.py$",
        r"(?:^|\.)(?:synchronize|block_until_ready)$",
    ),
    # The tracer of older versions keeps the file's name alone.
    _Rule(FunctionPurpose.SYNC, r"^(?:api|array)\.py$", r"^block_until_ready$"),
    # Of compiled programs, whose files have no such ending.
    _Rule(FunctionPurpose.SYNC, r"(?<!\.py)$", r"^(?:cu|cuda|hip)[A-Z]\w*Synchronize$"),
    _Rule(FunctionPurpose.CALL, r"(?<!\.py)$", r"^(?:cu|cuda|hip)[A-Z]\w*$"),
    # Python's own ways to wait for another thread, another process or a message.
    _Rule(
        FunctionPurpose.AWAIT,
        r"(?:^|/)(?:threading|queue)\.py$"
        r"|/(?:concurrent/futures|multiprocessing)/\w+\.py$",
        r"(?:^|\.)(?:wait|wait_for|get|put|join|result|acquire|_wait_for_tstate_lock)$",
    ),
    _Rule(
        FunctionPurpose.AWAIT,
        r"(?:^|/)(?:selectors|socket|subprocess)\.py$|(?:^|/zmq/sugar/)poll\.py$",
        r"(?:^|\.)(?:select|poll|accept|recv\w*|readinto|wait|communicate)$",
    ),
)


@cache
def _rules() -> tuple[tuple[FunctionPurpose, re.Pattern[str], re.Pattern[str]], ...]:
    """Return the rules for matching: most recordings hold no functions."""
    return tuple(
        (rule.purpose, re.compile(rule.file), re.compile(rule.function))
        for rule in _RULES
    )


class FunctionPurposes(Frozen, frozen=True):
    """By row of `function_frames`.

    Attributes:
        purpose: uint8; `FunctionPurpose` codes. What a function calls has its purpose;
            of several around a frame the outermost counts.
    """

    purpose: NDArray[np.uint8]


def function_purposes(*, function_frames: FunctionFrames) -> FunctionPurposes:
    """Find purposes, from the outermost frames inwards.

    Definition: docs/definitions/host-time.md#functions.
    """
    frames = function_frames
    size = max(frames.names, default=-1) + 1
    of_type = np.zeros(size, np.uint8)
    for kind, name in frames.names.items():
        of_type[kind] = _purpose(name)
    purpose = of_type[frames.type]
    for level in _levels(frames.parent):
        above = frames.parent[level]
        purpose[level] = np.where(purpose[above] > 0, purpose[above], purpose[level])
    return FunctionPurposes(purpose)


def is_wait(name: FunctionName) -> bool:
    """Return whether Python itself waits in a function for another thread."""
    return _purpose(name) is FunctionPurpose.AWAIT


def idle_waits(frames: FunctionFrames, purposes: FunctionPurposes) -> Spans:
    """Return where a thread waits for another one, and none that was recorded works.

    Where the functions of one thread alone were recorded it is not known what it waits
    for: then this is empty.

    Args:
        frames: The functions that ran.
        purposes: What they are called for.
    """
    if not len(frames.track) or frames.track.min() == frames.track.max():
        return Spans.empty()
    awaits = purposes.purpose == FunctionPurpose.AWAIT
    waiting, working = [], []
    for track in np.unique(frames.track).tolist():
        mine = frames.track == track
        waiting.append(frames.spans(mine & awaits))
        working.append(frames.spans(mine) - waiting[-1])
    return Spans.union_of(waiting) - Spans.union_of(working)


def _levels(parent: NDArray[np.int32]) -> list[NDArray[np.int64]]:
    """Return the rows that have a parent, by depth, the outer ones first."""
    depth = np.zeros(len(parent), np.int64)
    above = parent
    while (inside := above >= 0).any():
        depth[inside] += 1
        above = np.where(inside, parent[above], -1)
    order = np.argsort(depth, kind="stable")
    edges = np.searchsorted(depth[order], np.arange(1, depth.max(initial=0) + 1))
    return np.split(order, edges)[1:]


def _purpose(name: FunctionName) -> FunctionPurpose:
    if name.file is None:
        return FunctionPurpose.UNKNOWN
    path = name.file.replace("\\", "/")
    # Without its folder it is not known whose a file is: rules name such files whole.
    if not name.library and "/" in path:
        return FunctionPurpose.UNKNOWN
    if "/" in path:
        # The folder before it may have been cut off.
        path = f"/{path}"
    for purpose, file, function in _rules():
        if file.search(path) and function.search(name.function):
            return purpose
    return FunctionPurpose.UNKNOWN
