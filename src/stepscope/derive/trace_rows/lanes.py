"""`trace_lanes`: an index of the timeline by lane, for drawing any window quickly.

A lane is one row of one track of the viewer; its spans are in start order and do not
overlap. The index of a track refers to spans by number. The index does not copy spans
and takes less than eight bytes per span. `_core/tiles.py` describes how the spans of a
window become slices, and `_core/coarse.py` which slices are prepared for wide windows.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np
import polars as pl

from stepscope._core import coarse
from stepscope._core import tiles as kernels
from stepscope.derive.columns.arrays import accepted_answer, handles, ints
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.schedule import worth_threads
from stepscope.derive.trace_rows.op_spans import OP_VIEWS, computing_rows
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.array_types import Int32s, Int64s
    from stepscope.derive.trace_rows.drawn_rows import TraceTimeline

#: Maximum level of coarse slices; a bucket of a level lasts 2**level ps.
MAX_COARSE_LEVEL: Final = 61
#: Maximum distance from time 0, in ps, of a window that is drawn from coarse slices.
MAX_DRAWN_PS: Final = 1 << 62
#: Minimum number of spans for coarse slices; folding fewer spans takes only 1 ms.
MIN_COARSE_SPANS: Final = 1 << 16
#: Minimum average number of spans per coarse slice.
MIN_SPANS_PER_SLICE: Final = 16


class LaneSlices(NamedTuple):
    """Slices by lane and then by time; int64 arrays of equal length.

    Attributes:
        lane: Lane, counted from the first requested lane.
        first: Position of the slice's first span in the index.
        item: Number of the longest span; of equally long spans, the first.
        busy_ps: Total duration of the slice's spans. If a span summarises work, only
            the time of that work counts.
    """

    lane: Int64s
    first: Int64s
    spans: Int64s
    item: Int64s
    start_ps: Int64s
    end_ps: Int64s
    busy_ps: Int64s


class CoarseSlices(NamedTuple):
    """All spans of an index, folded into buckets of 2**level ps that start at time 0.

    Attributes:
        parts: int64; the slices of lane `k` begin at `parts[k]`.
        places: int32, two per slice: position of the first span, row of the longest.
        times: int64, four per slice: start, end, total duration, longest duration.
    """

    level: int
    parts: Int64s
    filled: Int64s
    places: Int32s
    times: Int64s

    def fits(self, begin_ps: int, end_ps: int, bucket_ps: int) -> bool:
        """Return whether a window's buckets consist of whole buckets of this level."""
        inside = -MAX_DRAWN_PS < begin_ps <= end_ps < MAX_DRAWN_PS
        fraction = (begin_ps | end_ps | bucket_ps) & ((1 << self.level) - 1)
        return inside and 0 < bucket_ps < MAX_DRAWN_PS and not fraction


class LaneIndex(Frozen, frozen=True):
    """Spans by lane.

    Attributes:
        rows: int32 by position; the span's row in `start_ps` and `dur_ps`.
        timing_ps: int64, three per block of positions: total duration, longest
            duration, and start of the first span.
        longest: int32 by block; row of the longest span.
        edges: int64; lane `k` has the positions from `edges[k]` to `edges[k + 1]`.
        blocks: int64; lane `k` has the blocks from `blocks[k]` to `blocks[k + 1]`.
        first_item: Number of the span in row 0; the spans are numbered in row order.
        coarse: Coarse slices for windows with wide buckets; None with few spans.
        busy_before: int64 by position, plus one for the end; total work of all earlier
            spans. None if all of a span's duration is work.
    """

    start_ps: Int64s
    dur_ps: Int64s
    rows: Int32s
    timing_ps: Int64s
    longest: Int32s
    edges: Int64s
    blocks: Int64s
    first_item: int
    coarse: CoarseSlices | None = None
    busy_before: Int64s | None = None

    def slices(
        self, lanes: range, *, begin_ps: int, end_ps: int, bucket_ps: int
    ) -> LaneSlices:
        """Return the slices of adjacent lanes in [begin_ps, end_ps).

        A span that is at least one bucket long, or that begins before the window and
        reaches into it, has its own slice. Shorter spans that start in one bucket are
        folded into one slice. If `bucket_ps` is 0, no span is folded.
        """
        limits = slice(lanes.start, lanes.stop + 1)
        edges = self.edges[limits]
        spans = int(edges[-1] - edges[0])
        capacity = spans
        if bucket_ps:
            buckets = -(-max(0, end_ps - begin_ps) // bucket_ps)
            capacity = min(spans, len(lanes) * (2 * buckets + 1))
        # The system allocates no memory for pages of the array that are never written.
        out = np.empty((kernels.COLUMNS, capacity), np.int64)
        window = begin_ps, end_ps, bucket_ps
        if self.coarse is not None and self.coarse.fits(*window):
            count = coarse.fold_slices(
                *(self.start_ps, self.dur_ps, self.rows, edges),
                *(
                    self.coarse.parts[limits],
                    self.coarse.filled[lanes.start : lanes.stop],
                ),
                *(self.coarse.places, self.coarse.times, *window, out),
            )
        else:
            count = kernels.fold_window(
                *(self.start_ps, self.dur_ps, self.rows, self.timing_ps, self.longest),
                *(edges, self.blocks[limits], *window, out),
            )
        used = out[:, : accepted_answer(count)]
        slices = LaneSlices(*(column.copy() for column in used))
        slices = slices._replace(item=slices.item + self.first_item)
        return slices._replace(busy_ps=self.busy_of(slices))

    def busy_of_item(self, item: int) -> int | None:
        """Return the work time in a span, in ps; None if spans are work themselves."""
        if self.busy_before is None:
            return None
        index = int(np.flatnonzero(self.rows == item - self.first_item)[0])
        return int(self.busy_before[index + 1] - self.busy_before[index])

    def busy_of(self, slices: LaneSlices) -> Int64s:
        """Return the work time in each slice, in ps."""
        if self.busy_before is None:
            return slices.busy_ps
        first, end = slices.first, slices.first + slices.spans
        busy: Int64s = self.busy_before[end] - self.busy_before[first]
        return busy

    def extent(self) -> tuple[int, int] | None:
        """Return the first start and last end over all lanes; None without spans."""
        filled = self.edges[1:] > self.edges[:-1]
        if not filled.any():
            return None
        first = self.rows[self.edges[:-1][filled]]
        last = self.rows[self.edges[1:][filled] - 1]
        ends = self.start_ps[last] + self.dur_ps[last]
        return int(self.start_ps[first].min()), int(ends.max())


def trace_lanes(
    *,
    events: pl.DataFrame,
    trace_timeline: TraceTimeline,
    device_activity: pl.DataFrame | Unavailable,
) -> tuple[LaneIndex, ...]:
    """Index every track; an item is a row of events, or of `slices` for a derived line.

    The busy time of a span of a derived line is the time of the work that it
    summarises. For lines of the producer, it is all computation of the device.
    """
    tracks = trace_timeline.tracks.select("begin", "end", "rows").rows()
    start_ps, dur_ps = ints(events, "start_ps"), ints(events, "dur_ps")
    stand_for = _stored_lines(trace_timeline, device_activity)

    def indexed(track: int) -> LaneIndex:
        begin, end, rows = tracks[track]
        line, part = trace_timeline.line(track), slice(begin, end)
        if line is not None:
            spans, row = line.spans, line.row
            times = spans.start_ps, spans.dur_ps, row, spans.busy_ps
            return index_lanes(*times, lanes=rows, first_item=begin)
        start, dur, work = start_ps[part], dur_ps[part], stand_for.get(track)
        return index_lanes(
            start,
            dur,
            trace_timeline.row[part],
            None if work is None else work.within(start, start + np.maximum(dur, 0)),
            lanes=rows,
            first_item=begin,
        )

    threads = worth_threads(len(events) + trace_timeline.slice_count)
    with ThreadPoolExecutor(threads) as pool:
        return tuple(pool.map(indexed, range(len(tracks))))


def _stored_lines(
    timeline: TraceTimeline, device_activity: pl.DataFrame | Unavailable
) -> dict[int, Spans]:
    """Return by track the device work that each op line of the producer summarises."""
    if isinstance(device_activity, Unavailable):
        return {}
    tracks = timeline.tracks.with_row_index("track").with_columns(
        device=timeline.sections["device"].gather(timeline.tracks["section"])
    )
    stored = tracks.filter(
        pl.col("source").is_not_null(),
        pl.col("view").is_in(OP_VIEWS) & pl.col("device").is_not_null(),
    )
    if stored.is_empty():
        return {}
    device = handles(device_activity, "device")
    computes = computing_rows(device_activity)
    start_ps, dur_ps = (ints(device_activity, name) for name in ("start_ps", "dur_ps"))
    work = {}
    for ordinal in stored["device"].unique().to_list():
        rows = np.flatnonzero(computes & (device == ordinal))
        work[ordinal] = Spans.from_events(start_ps[rows], dur_ps[rows])
    return {
        track: work[ordinal]
        for track, ordinal in stored.select("track", "device").iter_rows()
    }


def index_lanes(
    start_ps: Int64s,
    dur_ps: Int64s,
    lane: Int32s,
    busy_ps: Int64s | None = None,
    *,
    lanes: int,
    first_item: int = 0,
    many_spans: int = MIN_COARSE_SPANS,
) -> LaneIndex:
    """Index spans that are in start order and do not overlap within their lane.

    Args:
        lane: By span; -1 for a span without a lane.
        busy_ps: By span, time of its work; None if spans are work themselves.
        many_spans: Minimum number of spans for which coarse slices are built.

    Raises:
        ValueError: Spans of one lane overlap, or a lane number is too large.
    """
    count = np.zeros(lanes, np.int64)
    placed = kernels.count_lanes(lane, count)
    if placed < 0:
        raise ValueError(f"the lane of a span is not one of the {lanes} lanes")
    edges, blocks = _zero_sums(count), _zero_sums(-(-count // kernels.BLOCK))
    rows = np.empty(placed, np.int32)
    timing_ps = np.empty((blocks[-1], 3), np.int64)
    longest = np.empty(blocks[-1], np.int32)
    starts, durs = np.ascontiguousarray(start_ps), np.ascontiguousarray(dur_ps)
    answer = kernels.fill_lanes(
        *(starts, durs, lane, edges, blocks),
        *(np.empty((2, lanes), np.int64), rows, timing_ps, longest),
    )
    if answer < 0:
        raise ValueError(f"spans of one lane overlap, or do not ascend ({answer})")
    index = LaneIndex(
        *(starts, durs, rows, timing_ps, longest, edges, blocks, first_item),
        busy_before=None if busy_ps is None else _zero_sums(busy_ps[rows]),
    )
    if placed < many_spans:
        return index
    return msgspec.structs.replace(index, coarse=_coarse_slices(index, lane))


def _coarse_slices(index: LaneIndex, lane: Int32s) -> CoarseSlices | None:
    lanes, spans = len(index.edges) - 1, len(index.rows)
    full = np.flatnonzero(np.diff(index.edges))
    first = int(index.start_ps[index.rows[index.edges[full]]].min(initial=MAX_DRAWN_PS))
    last = int(index.start_ps[index.rows[index.edges[full + 1] - 1]].max(initial=first))
    if first <= -MAX_DRAWN_PS or last >= MAX_DRAWN_PS:
        return None
    # A lane has at most two slices per bucket.
    max_buckets = max(1, spans // (2 * MIN_SPANS_PER_SLICE * lanes))
    level = ((last - first) // max_buckets).bit_length()
    if level > MAX_COARSE_LEVEL:
        return None
    buckets = ((last - first) >> level) + 2
    parts = _zero_sums(np.minimum(np.diff(index.edges), 2 * buckets))
    full = np.empty(lanes, np.int64)
    positions = np.empty((parts[-1], 2), np.int32)
    times = np.empty((parts[-1], 4), np.int64)
    accepted_answer(
        coarse.fold_rows(
            *(index.start_ps, index.dur_ps, lane, index.edges, parts, level),
            *(np.empty((2, lanes), np.int64), full, positions, times),
        )
    )
    return CoarseSlices(level, parts, full, positions, times)


def _zero_sums(count: Int64s) -> Int64s:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(count)))
