"""Memory that stages of tf.data pipelines hold, such as shuffle buffers and caches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.costs.operands import Tensor
from stepscope.derive.input_pipeline.stages import (
    FILL,
    numbers_of_key,
    recorded_parameters,
)
from stepscope.derive.run_derivation import of_each_host
from stepscope.frozen import Frozen
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.units import MB

if TYPE_CHECKING:
    import polars as pl

    from stepscope.derive.input_pipeline.graph import PipelineGraph
    from stepscope.derive.input_pipeline.stages import Parameter
    from stepscope.trace.model import TraceData

#: Transformation → kind of its buffer, by which the advice is chosen.
_BUFFER_KINDS: Final = {
    **dict.fromkeys(("Shuffle", "ShuffleAndRepeat"), "shuffle"),
    **dict.fromkeys(("MemoryCache", "MemoryCacheImpl"), "cache"),
    "Prefetch": "prefetch",
    **dict.fromkeys(("ParallelMap", "MapAndBatch", "ParallelBatch"), "parallel"),
}
#: Kinds of buffers that a pipeline may have before elements become larger.
_MOVABLE: Final = ("shuffle", "cache")


class PipelineBuffer(Frozen, frozen=True, eq=True):
    """The elements that one stage of an input pipeline holds.

    Attributes:
        held_bytes: Minimum size of the held elements, at their largest recorded number.
        element_bytes: Size of one element; None if it is not fixed.
        smallest_bytes: Size of a smaller element of an earlier stage; None if none is
            known, or if the buffer has to be behind that stage.
    """

    kind: str
    type: str
    held_bytes: int
    element_bytes: int | None
    smallest_bytes: int | None


@of_each_host
def pipeline_buffers(
    *, trace: TraceData, stats: pl.DataFrame, pipeline_graph: PipelineGraph
) -> tuple[PipelineBuffer, ...] | None:
    """Return the buffers of each host whose size is known, largest first.

    tf.data records the number and the megabytes of the elements in a buffer.
    """
    graph, stages = pipeline_graph, pipeline_graph.stages
    events, first = np.unique(graph.event, return_index=True)
    stage_of_event = graph.stage[first]
    stage, first = np.unique(stage_of_event, return_index=True)
    parameters = recorded_parameters(trace, stats, events[first])
    sizes: list[int | None] = [None] * len(stages)
    for row, event in zip(stage.tolist(), events[first].tolist(), strict=True):
        sizes[row] = _element_bytes(parameters.get(event, {}))
    held = np.zeros(len(stages))
    for key, unit in (
        (FILL, np.array([size or 0 for size in sizes])),
        (StatKey.BUFFERED_MEGABYTES, np.full(len(stages), MB)),
    ):
        owners, numbers = numbers_of_key(trace, stats, events, key)
        rows = stage_of_event[np.searchsorted(events, owners)]
        np.maximum.at(held, rows, numbers * unit[rows])
    names = stages["long_name"].to_list()
    buffers = []
    for name, kind, size, total in zip(
        names, stages["type"], sizes, held.tolist(), strict=True
    ):
        if kind not in _BUFFER_KINDS or not total:
            continue
        # `A[0]::B` produces elements for `A`, like `A::B`.
        upstream = (f"{name}::", f"{name}[")
        smaller = (
            other
            for other, long_name in zip(sizes, names, strict=True)
            if other is not None
            and other < (size or 0)
            and long_name.startswith(upstream)
        )
        movable = _BUFFER_KINDS[kind] in _MOVABLE
        buffers.append(
            PipelineBuffer(
                kind=_BUFFER_KINDS[kind],
                type=kind,
                held_bytes=int(total),
                element_bytes=size,
                smallest_bytes=min(smaller, default=None) if movable else None,
            )
        )
    return tuple(sorted(buffers, key=lambda buffer: -buffer.held_bytes)) or None


def _element_bytes(parameters: dict[str, Parameter]) -> int | None:
    """Return the size of an element, from texts such as `[16,64,3] []` and types."""
    shapes, types = (
        str(parameters.get(key, "")).split() for key in ("shapes", "types")
    )
    if not shapes or len(shapes) != len(types):
        return None
    sizes = []
    for shape, dtype in zip(shapes, types, strict=True):
        dimensions = [size for size in shape.strip("[]").split(",") if size]
        if not all(map(str.isdecimal, dimensions)):
            return None
        sizes.append(Tensor(dtype, tuple(map(int, dimensions))).size_bytes)
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None
