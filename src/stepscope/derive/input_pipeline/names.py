"""Names of input pipeline stages: which transformation, and what consumes it.

A stage is named `Iterator::<outermost>::…::<this one>`; the parts before the
last one are downstream, towards the consumer.

Definition: docs/tools/tf_data_bottleneck_analysis.md#how-to-read-a-long-name.
"""

from __future__ import annotations

from typing import Final

from stepscope.frozen import Frozen
from stepscope.patterns import Pattern

#: What the name of every stage begins with.
BEGINNING: Final = "Iterator::"
_BETWEEN: Final = "::"

#: Stages that pass every element on: they occur in names, but transform nothing.
_TRANSPARENT: Final = frozenset(
    {"Root", "Model", "MaxIntraOpParallelism", "PrivateThreadPool", "Options"}
)
#: Stages that fetch their elements on threads of their own. Definition:
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
#: Beginnings of the names that mark the making and the taking of an element.
_HANDING_OVER: Final = (
    *("Prefetch", "ParallelInterleave", "ParallelMap", "MapAndBatch"),
    *("ParseExample", "ParallelBatch"),
)
#: Name of an event → True where an element is made, False where it is taken.
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
    """What the long name of a stage says.

    Attributes:
        type: The transformation: the last part without index and version.
        depth: Number of parts of the long name.
        transparent: The stage passes every element on unchanged.
        asynchronous: The stage fetches its elements on threads of its own.
        outermost: The stage may begin a pipeline: only transparent stages lie
            downstream of it.
        feeds_device: The pipeline of a device fetches from this stage.
        consumer: Long name of the stage that consumes it; None of the last one.
    """

    type: str
    depth: int
    transparent: bool
    asynchronous: bool
    outermost: bool
    feeds_device: bool
    consumer: str | None


def read_name(long_name: str) -> StageName:
    """Take a long name apart; it begins with `BEGINNING`."""
    parts = long_name.removeprefix(BEGINNING).split(_BETWEEN)
    types = [_normalised(part) for part in parts]
    opaque = tuple(one for one in types if one not in _TRANSPARENT)
    transparent = types[-1] in _TRANSPARENT
    downstream = None
    if len(parts) > 1:
        # `A[0]::B` is consumed by `A`: the index tells its inputs apart.
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


def mark_of(name: str) -> bool | None:
    """Return True if an event makes an element, False if it takes one, else None."""
    return MARKS.get(name)


def _normalised(part: str) -> str:
    """Remove index and version, so that `ParallelMapV2` is a `ParallelMap`."""
    bare = _INDEX.sub("", part)
    return _VERSION.sub("", bare) or bare
