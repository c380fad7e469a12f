"""Stages of input pipelines: their names and parameters, and the pipelines they form.

A stage is named `Iterator::<outermost>::…::<this stage>`. All names before the last one
are stages downstream, nearer to the consumer.

Definition: docs/tools/tf_data_bottleneck_analysis.md#how-to-read-a-long-name.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles
from stepscope.derive.columns.dense_codes import number_values
from stepscope.derive.columns.stat_values import find_handle, rows_of_owners
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.trace.tables import DOUBLE, INT, PLACE_TEXT, REF, UINT

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from stepscope.array_types import Int32s, Int64s
    from stepscope.trace.model import TraceData

#: A recorded parameter value; texts that mean true or false are converted to bool.
Parameter = bool | int | float | str

#: Key of the number of elements in a buffer, which differs between executions.
FILL: Final = StatKey.BUFFERED_ELEMENTS
#: Keys of values that identify an event or a stage, and so are not parameters.
_IDENTITY: Final = frozenset(
    {"id", "parent_id", "group_id", "element_id", "flow", "step_name", "process_id"}
)
_TRUTH: Final = {"true": True, "false": False}
#: Texts that were recorded in place of an unknown value.
_UNKNOWN: Final = frozenset({"unavailable", "<unknown>", ""})

#: Prefix of the name of every stage.
BEGINNING: Final = "Iterator::"
_BETWEEN: Final = "::"

#: Stages that pass on every element unchanged; they occur only in names.
_TRANSPARENT: Final = frozenset(
    {"Root", "Model", "MaxIntraOpParallelism", "PrivateThreadPool", "Options"}
)
#: Stages that fetch their elements on separate threads. Definition:
#: docs/tools/tf_data_bottleneck_analysis.md#how-each-number-is-defined.
_ASYNCHRONOUS: Final = frozenset(
    {
        "Prefetch",
        "ParallelInterleave",
        "LegacyParallelInterleave",
        "ParallelMap",
        "ParseExample",
        "MapAndBatch",
        "DataService",
        "ParallelBatch",
    }
)
#: Prefixes of the names of events that mark the production or taking of an element.
_HANDING_OVER: Final = (
    *("Prefetch", "ParallelInterleave", "ParallelMap", "MapAndBatch"),
    *("ParseExample", "ParallelBatch"),
)
#: Stages that process several elements at the same time.
_PARALLEL: Final = _ASYNCHRONOUS - {"Prefetch"}
#: Text in the names of calls of PyTorch's loader if it has worker processes.
_WORKER_PROCESSES: Final = "MultiProcessing"
#: Name of an event → True if it produces an element, False if it takes one.
MARKS: Final = {
    f"{stage}{what}": what == "Produce"
    for stage in _HANDING_OVER
    for what in ("Produce", "Consume")
}
#: The two stages with which the pipeline of a device begins.
_ON_DEVICE: Final = ("Prefetch", "Generator")

_INDEX: Final = Pattern(r"\[\d+\]$")
_VERSION: Final = Pattern(r"V\d+$")


class StageName(Frozen, frozen=True, eq=True):
    """The parts of the long name of a stage.

    Attributes:
        type: The transformation: the last part without index and version.
        depth: Number of parts.
        transparent: The stage passes every element on unchanged.
        asynchronous: The stage fetches its elements on separate threads.
        outermost: A pipeline may begin here: all stages downstream are transparent.
        feeds_device: The stage is the generator of the pipeline of a device.
        consumer: Long name of the stage that takes its elements; None for the last.
    """

    type: str
    depth: int
    transparent: bool
    asynchronous: bool
    outermost: bool
    feeds_device: bool
    consumer: str | None


#: Columns of `PipelineGraph.stages`; the row number identifies the stage.
STAGES: Final[dict[str, pl.DataType]] = {
    "id": pl.Int64(),  # as recorded; null if 0 or absent
    "long_name": pl.String(),
    "type": pl.String(),  # the transformation, without index and version
    "depth": pl.Int32(),  # number of parts of the long name
    "transparent": pl.Boolean(),
    "asynchronous": pl.Boolean(),
    "consumer": pl.Int32(),  # row of stages; null for the last stage
}
#: Columns of `PipelineGraph.pipelines`, sorted by first call.
PIPELINES: Final[dict[str, pl.DataType]] = {
    "name": pl.String(),  # `Host:<n>` or `Device:<n>`
    "device": pl.Boolean(),
    "stage": pl.Int32(),  # the last stage, which the program calls
}


def unite_stages(listed: pl.DataFrame) -> tuple[pl.DataFrame, Int32s]:
    """Combine calls into one stage per id; if an id is 0 or absent, per long name.

    Args:
        listed: Rows of `iterators` whose long names are stages; at least one.

    Returns:
        Stages (columns: `STAGES`, fields of `read_name`), and each listed row's stage.
    """
    names = listed["long_name"].unique(maintain_order=True)
    name_code = listed["long_name"].cast(pl.Enum(names)).to_physical().to_numpy()
    ids = listed["id"].fill_null(0).to_numpy()
    by_id = number_values(ids).code
    key = np.where(ids != 0, by_id, by_id.max() + 1 + name_code.astype(np.int32))
    numbered = number_values(key.astype(np.int32))
    first = listed[numbered.first].select("id", "parent_id", "long_name")
    facts = pl.DataFrame([msgspec.structs.asdict(read_name(name)) for name in names])
    known = first.with_columns(pl.col("id").replace({0: None})).hstack(
        facts[name_code[numbered.first]].rename({"consumer": "consumer_name"})
    )
    # Find the consumer of each stage: by its id, else by its name if that is unique.
    stage_of_id: dict[int, int] = {}
    stage_of_name: dict[str, int | None] = {}
    for stage, (number, name) in enumerate(known.select("id", "long_name").rows()):
        if number is not None:
            stage_of_id.setdefault(number, stage)
        stage_of_name[name] = None if name in stage_of_name else stage
    consumer = pl.Series(
        "consumer",
        [
            stage_of_id.get(parent_id) if parent_id else stage_of_name.get(name)
            for parent_id, name in known.select("parent_id", "consumer_name").rows()
        ],
        pl.Int32,
    )
    return known.with_columns(consumer, pl.col("depth").cast(pl.Int32)), numbered.code


def last_stages(stages: pl.DataFrame) -> Int32s:
    """Follow each stage's chain of transparent consumers; return its last stage."""
    outer = (stages["outermost"] & stages["transparent"]).to_numpy()
    consumer = handles(stages, "consumer")
    last = np.where((consumer >= 0) & outer[consumer], consumer, np.arange(len(outer)))
    # Each iteration doubles the number of consumers that are followed.
    for _ in range(len(outer).bit_length()):
        last = last[last]
    return last.astype(np.int32)


def list_pipelines(stages: pl.DataFrame, root: Int32s) -> tuple[pl.DataFrame, Int32s]:
    """Return the pipelines, sorted by first call, and the pipeline of each call."""
    distinct, first, inverse = np.unique(root, return_index=True, return_inverse=True)
    order = np.argsort(first)
    fed = handles(stages.filter(pl.col("feeds_device")), "consumer")
    on_device = np.isin(distinct[order], last_stages(stages)[fed[fed >= 0]])
    numbers = np.where(on_device, np.cumsum(on_device), np.cumsum(~on_device)) - 1
    names = [
        f"{'Device' if device else 'Host'}:{number}"
        for device, number in zip(on_device.tolist(), numbers.tolist(), strict=True)
    ]
    frame = pl.DataFrame(
        {"name": names, "device": on_device, "stage": distinct[order]}, schema=PIPELINES
    )
    return frame, np.argsort(order)[inverse].astype(np.int32)


def read_name(long_name: str) -> StageName:
    """Parse a long name, which begins with `BEGINNING`."""
    parts = long_name.removeprefix(BEGINNING).split(_BETWEEN)
    types = [_normalise_type(part) for part in parts]
    opaque = tuple(kind for kind in types if kind not in _TRANSPARENT)
    transparent = types[-1] in _TRANSPARENT
    downstream = None
    if len(parts) > 1:
        # `A[0]::B` is consumed by `A`: the index distinguishes the inputs of `A`.
        downstream = BEGINNING + _INDEX.sub("", _BETWEEN.join(parts[:-1]))
    return StageName(
        type=types[-1],
        depth=len(parts),
        transparent=transparent,
        asynchronous=types[-1] in _ASYNCHRONOUS,
        outermost=len(opaque) == (0 if transparent else 1),
        feeds_device=opaque == _ON_DEVICE and not transparent,
        consumer=downstream,
    )


def recorded_practices(names: Collection[str]) -> tuple[bool | None, bool | None]:
    """Return whether pipelines process in parallel, and ahead; None if unknown.

    A practice is absent only if the recording has all stages: the stages before one
    that fetches ahead run on other threads, and may not be recorded.

    Args:
        names: Names of stages and of loaders' calls.
    """
    stages = [name for name in names if name.startswith(BEGINNING)]
    parts = {part for name in stages for part in name.split(_BETWEEN)}
    types = {_normalise_type(part) for part in parts}
    workers = any(_WORKER_PROCESSES in name for name in names)
    unknown = not names or any(is_cut_off(name, stages) for name in stages)
    absent = None if unknown else False
    parallel = workers or bool(types & _PARALLEL)
    return parallel or absent, workers or "Prefetch" in types or absent


def is_cut_off(long_name: str, recorded: Collection[str]) -> bool:
    """Return whether no stage is recorded before a stage that fetches ahead."""
    # `A[0]::B` produces elements for `A`: the index distinguishes the inputs of `A`.
    before = (f"{long_name}{_BETWEEN}", f"{long_name}[")
    return read_name(long_name).asynchronous and not any(
        name.startswith(before) for name in recorded
    )


def _normalise_type(part: str) -> str:
    """Remove index and version, so that `ParallelMapV2` becomes `ParallelMap`."""
    bare = _INDEX.sub("", part)
    return _VERSION.sub("", bare) or bare


def recorded_parameters(
    trace: TraceData, stats: pl.DataFrame, events: Int64s
) -> dict[int, dict[str, Parameter]]:
    """Read the stage parameters of events: row of events → name → value.

    Args:
        events: A few rows of events, in any order; each is decoded separately.
    """
    rows = rows_of_owners(stats, "event", np.unique(events).astype(np.int32))
    parameters: dict[int, dict[str, Parameter]] = defaultdict(dict)
    for owner, key, kind, value, length in zip(
        *(column.tolist() for column in rows), strict=True
    ):
        name = trace.strings[key]
        read = _python_value(trace, kind, value, length)
        if name in _IDENTITY or name.startswith("_") or read is None:
            continue
        parameters[owner][name] = read
    return dict(parameters)


def numbers_of_key(
    trace: TraceData, stats: pl.DataFrame, events: Int64s, key: StatKey = FILL
) -> tuple[Int64s, NDArray[np.float64]]:
    """Return the events with an integer under a key, and the integers."""
    rows = rows_of_owners(stats, "event", np.unique(events).astype(np.int32))
    plain = rows.only(rows.key == find_handle(trace.strings, key))
    fill = plain.only((plain.kind == INT) | (plain.kind == UINT))
    return fill.owner.astype(np.int64), fill.value.astype(np.float64)


def _python_value(
    trace: TraceData, kind: int, value: int, length: int
) -> Parameter | None:
    if kind in {REF, PLACE_TEXT}:
        text = trace.strings[value] if kind == REF else trace.text(value, length)
        return None if text in _UNKNOWN else _TRUTH.get(text, text)
    if kind == DOUBLE:
        real = float(np.int64(value).view(np.float64))
        return real if np.isfinite(real) else None
    if kind == UINT:
        return value % 2**64
    return value if kind == INT else None
