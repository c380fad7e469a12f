"""`trace_lanes`: the timeline by lane, so that any window of it is soon drawn.

A lane is one row of one track of the viewer: its spans ascend and do not overlap. The
index names events by their row numbers and adds 12 bytes an event; it holds no second
copy of them. How a window becomes slices is told in `_core/tiles.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope._core import tiles as kernels
from stepscope.derive.arrays import ints

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.trace_timeline import TraceTimeline

__all__ = ["LaneIndex", "LaneSlices", "TraceLanes", "index_lanes", "trace_lanes"]


class LaneSlices(NamedTuple):
    """Slices by lane and then by time; arrays of int64 of equal length.

    Attributes:
        lane: Counted from the first lane that was asked for.
        first: Position of the first span in the index.
        spans: How many the slice stands for.
        item: The span that lasts longest, the first of equals; the only one of one.
        start_ps: Start of the first span.
        end_ps: End of the last span.
        busy_ps: How long all of them last together.
    """

    lane: NDArray[np.int64]
    first: NDArray[np.int64]
    spans: NDArray[np.int64]
    item: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    busy_ps: NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class LaneIndex:
    """Spans by lane; a span is named by its row in the arrays that were indexed.

    Attributes:
        start_ps: int64 by span, as given.
        dur_ps: int64 by span, as given.
        rows: int32 by position; the span that has it.
        before_ps: int64 by position; how long the earlier spans of the lane last.
        longest: int32 by block of positions; the one that lasts longest.
        edges: int64; lane `k` has the positions from `edges[k]` to `edges[k + 1]`.
    """

    start_ps: NDArray[np.int64]
    dur_ps: NDArray[np.int64]
    rows: NDArray[np.int32]
    before_ps: NDArray[np.int64]
    longest: NDArray[np.int32]
    edges: NDArray[np.int64]

    def slices(
        self, lanes: range, *, begin_ps: int, end_ps: int, bucket_ps: int
    ) -> LaneSlices:
        """What neighbouring lanes show in [begin_ps, end_ps).

        A span of at least a bucket comes as it is, and so does the one that began
        before the window and runs into it. Shorter ones that start in one bucket are
        one slice. A bucket of 0 folds nothing.
        """
        edges = self.edges[lanes.start : lanes.stop + 1]
        spans = int(edges[-1] - edges[0]) if len(edges) else 0
        room = spans
        if bucket_ps:
            buckets = -(-max(0, end_ps - begin_ps) // bucket_ps)
            room = min(spans, len(lanes) * (2 * buckets + 1))
        # Pages of it that no slice reaches are never made.
        out = np.empty((kernels.COLUMNS, room), np.int64)
        found = kernels.fold(
            self.start_ps,
            self.dur_ps,
            self.rows,
            self.before_ps,
            self.longest,
            edges,
            begin_ps,
            end_ps,
            bucket_ps,
            out,
        )
        if found < 0:
            raise ValueError(f"the kernel refused its arrays ({found})")
        return LaneSlices(*(column[:found].copy() for column in out))

    def extent(self) -> tuple[int, int] | None:
        """First start and last end of all lanes; None without any span."""
        filled = self.edges[1:] > self.edges[:-1]
        if not filled.any():
            return None
        first = self.rows[self.edges[:-1][filled]]
        last = self.rows[self.edges[1:][filled] - 1]
        ends = self.start_ps[last] + self.dur_ps[last]
        return int(self.start_ps[first].min()), int(ends.max())


@dataclass(frozen=True, eq=False, slots=True)
class TraceLanes:
    """The lanes of all tracks of a timeline.

    Attributes:
        events: Lanes of tracks that were recorded; a span is a row of `events`.
        slices: Lanes of tracks that were derived; a span is a row of the timeline's
            `slices`.
        recorded: By track of the timeline: which of the two has it.
        first_lane: int64 by track; its lanes stand there from this one on.
        lane_count: int64 by track.
    """

    events: LaneIndex
    slices: LaneIndex
    recorded: NDArray[np.bool_]
    first_lane: NDArray[np.int64]
    lane_count: NDArray[np.int64]

    def of_track(self, track: int) -> tuple[LaneIndex, range]:
        """The index that has a track, and its lanes there, the top one first."""
        index = self.events if self.recorded[track] else self.slices
        first = int(self.first_lane[track])
        return index, range(first, first + int(self.lane_count[track]))


def trace_lanes(events: pl.DataFrame, timeline: TraceTimeline) -> TraceLanes:
    """Index the rows of every track of the timeline."""
    tracks = timeline.tracks
    recorded = tracks["source"].is_not_null().to_numpy()
    lane_count = ints(tracks, "rows")
    first_lane = np.zeros(len(tracks), np.int64)
    for chosen in (recorded, ~recorded):
        counts = lane_count[chosen]
        first_lane[chosen] = np.cumsum(counts) - counts
    slices = timeline.slices
    return TraceLanes(
        events=_indexed(
            tracks.filter(recorded),
            first_lane[recorded],
            start_ps=ints(events, "start_ps"),
            dur_ps=ints(events, "dur_ps"),
            row=timeline.row,
        ),
        slices=_indexed(
            tracks.filter(~recorded),
            first_lane[~recorded],
            start_ps=slices.start_ps,
            dur_ps=slices.dur_ps,
            row=slices.row,
        ),
        recorded=recorded,
        first_lane=first_lane,
        lane_count=lane_count,
    )


def _indexed(
    tracks: pl.DataFrame,
    first_lane: NDArray[np.int64],
    *,
    start_ps: NDArray[np.int64],
    dur_ps: NDArray[np.int64],
    row: NDArray[np.int32],
) -> LaneIndex:
    """The lanes of some tracks, one track after the other."""
    begins, ends = ints(tracks, "begin").tolist(), ints(tracks, "end").tolist()
    lane = np.full(len(start_ps), _NO_LANE, np.int32)
    for first, begin, end in zip(first_lane.tolist(), begins, ends, strict=True):
        lane[begin:end] = row[begin:end] + np.int32(first)
    lanes = int(ints(tracks, "rows").sum())
    return index_lanes(start_ps, dur_ps, lane, lanes=lanes)


def index_lanes(
    start_ps: NDArray[np.int64],
    dur_ps: NDArray[np.int64],
    lane: NDArray[np.int32],
    *,
    lanes: int,
) -> LaneIndex:
    """Index spans that ascend in each lane and do not overlap there.

    Args:
        start_ps: By span.
        dur_ps: By span.
        lane: By span; -1 for one that has none.
        lanes: How many lanes there are.

    Raises:
        ValueError: Spans of one lane overlap, or a lane is beyond their number.
    """
    count = np.zeros(lanes, np.int64)
    placed = kernels.count_lanes(lane, count)
    if placed < 0:
        raise ValueError(f"a span has a lane beyond the {lanes} there are")
    edges = np.concatenate((np.zeros(1, np.int64), np.cumsum(count)))
    rows, before_ps = np.empty(placed, np.int32), np.empty(placed, np.int64)
    starts, durs = np.ascontiguousarray(start_ps), np.ascontiguousarray(dur_ps)
    state = np.empty((3, lanes), np.int64)
    answer = kernels.fill_lanes(starts, durs, lane, edges, state, rows, before_ps)
    if answer < 0:
        raise ValueError(f"spans of one lane overlap, or do not ascend ({answer})")
    longest = np.empty(-(-placed // kernels.BLOCK), np.int32)
    kernels.find_longest(durs, rows, longest)
    return LaneIndex(starts, durs, rows, before_ps, longest, edges)


_NO_LANE: Final = -1
