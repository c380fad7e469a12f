"""`trace_lanes`: the timeline by lane, so that any window of it is drawn quickly.

A lane is one row of one track of the viewer: its spans ascend and do not overlap. The
index of a track refers to spans by number and adds under six bytes per span; it holds
no second copy of them. `_core/tiles.py` describes how a window becomes slices.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepscope._core import tiles as kernels
from stepscope.derive.columns.arrays import ints
from stepscope.derive.engine.schedule import worth_threads
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.timeline.drawn_rows import TraceTimeline

__all__ = ["LaneIndex", "LaneSlices", "index_lanes", "trace_lanes"]


class LaneSlices(NamedTuple):
    """Slices by lane and then by time; arrays of int64 of equal length.

    Attributes:
        lane: Lane, counted from the first lane that was asked for.
        first: Position of the slice's first span in the index.
        spans: Number of spans in the slice.
        item: Number of the longest span, the first of equals.
        start_ps: Start of the first span.
        end_ps: End of the last span.
        busy_ps: Sum of the durations of the slice's spans.
    """

    lane: NDArray[np.int64]
    first: NDArray[np.int64]
    spans: NDArray[np.int64]
    item: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    busy_ps: NDArray[np.int64]


class LaneIndex(Frozen, frozen=True):
    """Spans by lane.

    Attributes:
        start_ps: int64 by span, as given.
        dur_ps: int64 by span, as given.
        rows: int32 by position; the row of the span in these arrays.
        lasting_ps: int64, two by block of positions; sum of the durations of its spans,
            and the longest of them.
        longest: int32 by block; the row of the span that lasts longest.
        edges: int64; lane `k` has the positions from `edges[k]` to `edges[k + 1]`.
        blocks: int64; lane `k` has the blocks from `blocks[k]` to `blocks[k + 1]`.
        first_item: Number of the span in row 0; the others follow.
    """

    start_ps: NDArray[np.int64]
    dur_ps: NDArray[np.int64]
    rows: NDArray[np.int32]
    lasting_ps: NDArray[np.int64]
    longest: NDArray[np.int32]
    edges: NDArray[np.int64]
    blocks: NDArray[np.int64]
    first_item: int

    def slices(
        self, lanes: range, *, begin_ps: int, end_ps: int, bucket_ps: int
    ) -> LaneSlices:
        """Return the slices of neighbouring lanes in [begin_ps, end_ps).

        A span of at least a bucket is a slice of its own, and so is a span that began
        before the window and runs into it. Shorter spans that start in one bucket are
        folded into one slice. A bucket of 0 folds nothing.
        """
        limits = slice(lanes.start, lanes.stop + 1)
        edges = self.edges[limits]
        spans = int(edges[-1] - edges[0]) if len(edges) else 0
        room = spans
        if bucket_ps:
            buckets = -(-max(0, end_ps - begin_ps) // bucket_ps)
            room = min(spans, len(lanes) * (2 * buckets + 1))
        # Pages of the array that no slice reaches are never allocated.
        out = np.empty((kernels.COLUMNS, room), np.int64)
        found = kernels.fold(
            self.start_ps,
            self.dur_ps,
            self.rows,
            self.lasting_ps,
            self.longest,
            edges,
            self.blocks[limits],
            begin_ps,
            end_ps,
            bucket_ps,
            out,
        )
        if found < 0:
            raise ValueError(f"the kernel refused its arrays ({found})")
        slices = LaneSlices(*(column[:found].copy() for column in out))
        return slices._replace(item=slices.item + self.first_item)

    def extent(self) -> tuple[int, int] | None:
        """Return the first start and last end of all lanes; None without any span."""
        filled = self.edges[1:] > self.edges[:-1]
        if not filled.any():
            return None
        first = self.rows[self.edges[:-1][filled]]
        last = self.rows[self.edges[1:][filled] - 1]
        ends = self.start_ps[last] + self.dur_ps[last]
        return int(self.start_ps[first].min()), int(ends.max())


def trace_lanes(
    *, events: pl.DataFrame, trace_timeline: TraceTimeline
) -> tuple[LaneIndex, ...]:
    """Index every track of the timeline; the items are those of its tracks."""
    tracks = trace_timeline.tracks.select("begin", "end", "rows").rows()
    start_ps, dur_ps = ints(events, "start_ps"), ints(events, "dur_ps")

    def indexed(track: int) -> LaneIndex:
        begin, end, rows = tracks[track]
        line, part = trace_timeline.line(track), slice(begin, end)
        if line is None:
            spans = start_ps[part], dur_ps[part], trace_timeline.row[part]
        else:
            spans = line.spans.start_ps, line.spans.dur_ps, line.row
        return index_lanes(*spans, lanes=rows, first_item=begin)

    threads = worth_threads(len(events) + trace_timeline.slice_count)
    if threads == 1:
        return tuple(map(indexed, range(len(tracks))))
    with ThreadPoolExecutor(threads) as pool:
        return tuple(pool.map(indexed, range(len(tracks))))


def index_lanes(
    start_ps: NDArray[np.int64],
    dur_ps: NDArray[np.int64],
    lane: NDArray[np.int32],
    *,
    lanes: int,
    first_item: int = 0,
) -> LaneIndex:
    """Index spans that ascend in each lane and do not overlap there.

    Args:
        start_ps: By span.
        dur_ps: By span.
        lane: By span; -1 for a span without a lane.
        lanes: Number of lanes.
        first_item: The number of the first span.

    Raises:
        ValueError: Spans of one lane overlap, or a lane is beyond their number.
    """
    count = np.zeros(lanes, np.int64)
    placed = kernels.count_lanes(lane, count)
    if placed < 0:
        raise ValueError(f"a span has a lane beyond the {lanes} there are")
    edges, blocks = _sums(count), _sums(-(-count // kernels.BLOCK))
    rows = np.empty(placed, np.int32)
    lasting_ps = np.empty((2, blocks[-1]), np.int64)
    longest = np.empty(blocks[-1], np.int32)
    starts, durs = np.ascontiguousarray(start_ps), np.ascontiguousarray(dur_ps)
    answer = kernels.fill_lanes(
        starts,
        durs,
        lane,
        edges,
        blocks,
        np.empty((2, lanes), np.int64),
        rows,
        lasting_ps,
        longest,
    )
    if answer < 0:
        raise ValueError(f"spans of one lane overlap, or do not ascend ({answer})")
    return LaneIndex(starts, durs, rows, lasting_ps, longest, edges, blocks, first_item)


def _sums(count: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(count)))
