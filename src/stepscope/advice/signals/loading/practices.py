"""What a pipeline does not do yet, of what the guide to input pipelines advises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.advice.signals.loading.pipeline import PipelineSignals, Stage
    from stepscope.advice.signals.loading.python_elements import PythonElements

_READERS: Final = frozenset(
    {
        *("TFRecord", "SSTable", "RecordIO", "ArrayRecord", "TextLine"),
        *("FixedLengthRecord", "LMDB", "CSV"),
    }
)
_PARALLEL_READERS: Final = frozenset({"ParallelInterleave", "LegacyParallelInterleave"})
_PYTHON: Final = frozenset({"Generator", "GeneratorDatasetOp", "PyFunc"})
#: A stage or practice that takes this share of a batch's time is worth its change.
_MUCH: Final = 30.0
_PYTHON_MUCH: Final = 20.0
#: A function that waits for this share of its time holds no lock then. Between two
#: looks at clocks it is not known when a thread worked, so it waits for longer.
_WAITS: Final = 25.0
#: What is done after the prefetch is no matter below this share.
_LATE: Final = 5.0
#: A function that is called so often per batch, and works so briefly, is mostly calls.
_OFTEN: Final = 8
_BRIEF_PS: Final = 50_000_000


def missing_practices(
    found: PipelineSignals, python: PythonElements | None
) -> tuple[str, ...]:
    """Return the practices that the pipeline lacks, in the order of the guide."""
    stages = found.stages
    if not stages:
        native = ("native_code",) if _is_python({}, python) else ()
        return (*native, *(("workers",) if found.own_process else ()))
    types = {one.type for one in stages}
    share = {one.type: 0.0 for one in stages}
    for one in stages:
        share[one.type] += one.percent
    reading = sum(share[it] for it in types & _READERS)
    mapping = share.get("Map", 0.0)
    tests = (
        ("prefetch", _not_ahead(stages)),
        ("parallel_read", reading >= _MUCH and not types & _PARALLEL_READERS),
        ("parallel_map", mapping >= _MUCH),
        ("vectorise", _calls_mostly(stages)),
        ("native_code", _is_python(share, python)),
    )
    lacking = tuple(name for name, holds in tests if holds)
    if not lacking and _were_ready(stages):
        return ("ready",)
    made = reading + mapping + share.get("ParallelMap", 0.0)
    cached = ("cache",) if made >= _MUCH and "Cache" not in types else ()
    if lacking:
        return (*lacking, *cached)
    waiting = share.get("Prefetch", 0.0) >= _MUCH
    return ("upstream" if waiting else "cheaper", *cached)


def _were_ready(stages: Sequence[Stage]) -> bool:
    """Return whether a batch mostly waits for the handing over of what lay ready."""
    ahead = [one for one in stages if one.type == "Prefetch"]
    waited = sum(one.percent for one in ahead)
    ready = sum(one.percent * one.ready_percent / 100 for one in ahead)
    return waited >= _MUCH and ready >= waited / 2


def _is_python(share: Mapping[str, float], python: PythonElements | None) -> bool:
    """Return whether functions of Python that compute make the elements.

    One that waits for a store lets others run meanwhile, in parallel and ahead.
    """
    inside = 0.0 if python is None else python.percent
    if python is not None and (python.waiting or 0.0) >= _WAITS:
        return False
    stages = sum(share.get(it, 0.0) for it in _PYTHON)
    return max(inside, stages) >= _PYTHON_MUCH


def _not_ahead(stages: Sequence[Stage]) -> bool:
    """Return whether a part of each batch is made only when it is asked for."""
    ahead = [one.depth for one in stages if one.type == "Prefetch"]
    late = sum(one.percent for one in stages if not ahead or one.depth < min(ahead))
    return late >= _LATE


def _calls_mostly(stages: Sequence[Stage]) -> bool:
    """Return whether a map is called often per batch, for little work each time."""
    return any(
        one.type in {"Map", "ParallelMap"}
        and one.runs_per_call >= _OFTEN
        and one.mean_self_ps < _BRIEF_PS
        and one.percent >= _MUCH
        for one in stages
    )
