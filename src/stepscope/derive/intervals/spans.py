"""`Spans`: a set of times as disjoint half-open intervals, with set operations."""

from __future__ import annotations

import heapq
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope._core import rows as row_kernels
from stepscope._core import spans as kernels
from stepscope.derive.columns.arrays import accepted_answer, ints
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import polars as pl
    from numpy.typing import ArrayLike, NDArray

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s


class TrackRows(Frozen, frozen=True):
    """Starts and durations of events, and the range of event rows of each track."""

    start_ps: Int64s
    dur_ps: Int64s
    begins: Int64s
    ends: Int64s

    @classmethod
    def from_tables(cls, tracks: pl.DataFrame, events: pl.DataFrame) -> TrackRows:
        """Read the needed columns of `tracks` and `events`."""
        return cls(
            ints(events, "start_ps"),
            ints(events, "dur_ps"),
            ints(tracks, "event_begin"),
            ints(tracks, "event_end"),
        )

    def track_rows(self, track: int) -> slice:
        """Return the rows of a track."""
        return slice(int(self.begins[track]), int(self.ends[track]))

    def covered_spans(self, rows: slice, chosen: Bools | None = None) -> Spans:
        """Return the union of all events in `rows`, or of the chosen events."""
        starts, durs = self.start_ps[rows], self.dur_ps[rows]
        if chosen is not None:
            starts, durs = starts[chosen], durs[chosen]
        return Spans.from_events(starts, durs)

    def spans_of_types(
        self, tracks: Iterable[int], types: Int32s, wanted: Bools
    ) -> list[Spans]:
        """Return, by track, when events of the wanted types run."""
        ranges = map(self.track_rows, tracks if wanted.any() else ())
        found = [self.covered_spans(rows, wanted[types[rows]]) for rows in ranges]
        return found or [Spans.empty() for _ in tracks]

    def tracks_having(self, types: Int32s, wanted: Bools) -> Bools:
        """Return for each row of tracks whether it has an event of a wanted type."""
        has_event = np.zeros(len(self.begins), np.bool_)
        if wanted.any():
            for track in range(len(has_event)):
                has_event[track] = wanted[types[self.track_rows(track)]].any()
        return has_event

    def meeting_rows(
        self,
        track: int,
        spans: Spans,
        *,
        code: UInt8s,
        wanted: Iterable[int],
        outermost: bool = False,
    ) -> Int64s:
        """Return the rows of a track's events that overlap a set and are longer than 0.

        Args:
            wanted: Codes of the events to return.
            outermost: Skip events that begin while an earlier wanted event runs.
        """
        begin, end = int(self.begins[track]), int(self.ends[track])
        if len(spans):
            # Events that begin after the end of the set cannot overlap it.
            end = begin + int(self.start_ps[begin:end].searchsorted(spans.end_ps[-1]))
        rows = slice(begin, end)
        marked = np.zeros(256, np.uint8)
        marked[list(wanted)] = 1
        out = np.empty(rows.stop - rows.start, np.int64)
        count = accepted_answer(
            row_kernels.rows_meeting_set(
                self.start_ps[rows],
                self.dur_ps[rows],
                code[rows],
                marked,
                spans.start_ps,
                spans.end_ps,
                int(outermost),
                out,
            )
        )
        # Copy the rows, so that the buffer for all rows is freed.
        return out[:count] + rows.start


#: Maximum absolute time in ps (53 days), so that differences of times fit into int64.
LIMIT_PS: Final = 2**62 - 1

#: Minimum average length of sorted runs of intervals; shorter runs are sorted together.
_MIN_RUN_LENGTH: Final = 64


class Spans(Frozen, frozen=True, dict=True):
    """A set of half-open intervals.

    Two intervals never overlap or touch, so equal sets have equal arrays. The
    constructor requires arrays of this form; the class methods take any arrays.

    Definition: docs/definitions/times-and-values.md#sets-of-time.

    Attributes:
        start_ps: int64, ascending.
        end_ps: int64, each above its start and below the next start.
    """

    start_ps: Int64s
    end_ps: Int64s

    @classmethod
    def empty(cls) -> Spans:
        """Return the empty set."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> Spans:
        """Return the union of (start, end) pairs in any order; a pair may be empty."""
        listed = sorted(pairs)
        for start, end in listed:
            if not -LIMIT_PS <= start <= end <= LIMIT_PS:
                raise ValueError(
                    f"[{start}, {end}) is not an interval within ±{LIMIT_PS}"
                )
        bounds = np.array(listed, np.int64).reshape(-1, 2)
        start_ps = np.ascontiguousarray(bounds[:, 0])
        return cls.from_bounds(start_ps, bounds[:, 1])

    @classmethod
    def from_bounds(cls, start_ps: Int64s, end_ps: Int64s) -> Spans:
        """Return the union of intervals in any order, without empty ones."""
        return cls.from_events(start_ps, end_ps - start_ps)

    @classmethod
    def from_events(cls, start_ps: ArrayLike, dur_ps: ArrayLike) -> Spans:
        """Return the union of events in any order, without events shorter than 1 ps.

        Sorted runs of intervals (for example the tracks of a table) are united one by
        one and then with each other; short runs are sorted. Times are cut at ±LIMIT_PS.
        """
        starts, durs = _as_int64(start_ps), _as_int64(dur_ps)
        if len(starts) != len(durs):
            raise ValueError(f"{len(starts)} starts for {len(durs)} durations")
        turns = np.flatnonzero(starts[1:] < starts[:-1]) + 1
        if len(turns) * _MIN_RUN_LENGTH > len(starts):
            order = np.argsort(starts, kind="stable")
            return _unite_events(starts[order], durs[order], 0, len(starts))
        edges = [0, *turns.tolist(), len(starts)]
        return cls.union_of(
            _unite_events(starts, durs, begin, end) for begin, end in pairwise(edges)
        )

    @classmethod
    def from_rows(cls, frame: pl.DataFrame, rows: Int64s) -> Spans:
        """Return the union of the events in some rows of a table."""
        return cls.from_events(
            ints(frame, "start_ps")[rows], ints(frame, "dur_ps")[rows]
        )

    @classmethod
    def unite_near_starts(
        cls,
        start_ps: Int64s,
        dur_ps: Int64s,
        *,
        code: UInt8s,
        begins: UInt8s,
        most_ps: int,
    ) -> Spans:
        """Return the times between chosen events that start shortly after each other.

        Each event with a code of `begins` adds the time until the next such event; if
        that is too long, it adds its own duration. Such an event also adds the time
        since the end of all earlier events. Times longer than `most_ps` are not added.

        Args:
            start_ps: Starts of events, ascending.
            code: Code of each event; events of code 0 are skipped.
            begins: By code, 1 if events of that code are chosen.
        """
        out = np.empty((2, len(start_ps)), np.int64)
        count = row_kernels.union_quick(
            start_ps, dur_ps, code, begins, most_ps, 0, len(start_ps), out
        )
        return _trim_output(out, count)

    @classmethod
    def union_of(cls, sets: Iterable[Spans]) -> Spans:
        """Return the union of any number of sets, uniting the smallest first."""
        waiting = [(len(spans), turn, spans) for turn, spans in enumerate(sets)]
        heapq.heapify(waiting)
        turn = len(waiting)
        while len(waiting) > 1:
            merged = heapq.heappop(waiting)[2] | heapq.heappop(waiting)[2]
            turn += 1
            heapq.heappush(waiting, (len(merged), turn, merged))
        return waiting[0][2] if waiting else cls.empty()

    def __len__(self) -> int:
        return len(self.start_ps)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spans):
            return NotImplemented
        return np.array_equal(self.start_ps, other.start_ps) and np.array_equal(
            self.end_ps, other.end_ps
        )

    __hash__ = None  # type: ignore[assignment]  # arrays have no hash

    def __repr__(self) -> str:
        pairs = zip(self.start_ps[:4].tolist(), self.end_ps[:4].tolist(), strict=True)
        shown = ", ".join(f"({start}, {end})" for start, end in pairs)
        more = f", … {len(self)} in all" if len(self) > 4 else ""
        return f"Spans.of([{shown}{more}])"

    def __or__(self, other: Spans) -> Spans:
        if not len(other):
            return self
        if not len(self):
            return other
        return _merge_sets(kernels.union_sets, self, other)

    def __and__(self, other: Spans) -> Spans:
        if not len(self) or not len(other):
            return Spans.empty()
        for inner, outer in ((self, other), (other, self)):
            index = int(outer.end_ps.searchsorted(inner.end_ps[-1], side="left"))
            if index < len(outer) and bool(outer.start_ps[index] <= inner.start_ps[0]):
                return inner
        # Visit only intervals near the other set: of millions, these may be few.
        left, right = self._near_part(other), other._near_part(self)
        return _merge_sets(kernels.intersect_sets, left, right)

    def __sub__(self, other: Spans) -> Spans:
        if not len(self) or not len(other):
            return self
        return _merge_sets(kernels.subtract_sets, self, other._near_part(self))

    @cached_property
    def length_ps(self) -> int:
        """Sum of the lengths of all intervals."""
        return int(np.sum(self.end_ps - self.start_ps, dtype=np.int64))

    @property
    def time_range(self) -> tuple[int, int] | None:
        """Range from the first start to the last end; None for an empty set."""
        if not len(self):
            return None
        return int(self.start_ps[0]), int(self.end_ps[-1])

    def clip(self, start_ps: int, end_ps: int) -> Spans:
        """Return the part of the set in a window."""
        if end_ps <= start_ps:
            return Spans.empty()
        first = int(self.end_ps.searchsorted(start_ps, side="right"))
        last = int(self.start_ps.searchsorted(end_ps, side="left"))
        starts = np.maximum(self.start_ps[first:last], start_ps)
        return Spans(starts, np.minimum(self.end_ps[first:last], end_ps))

    def gaps(self, start_ps: int, end_ps: int) -> Spans:
        """Return the times of one window that the set does not cover."""
        if end_ps <= start_ps:
            return Spans.empty()
        inside = self.clip(start_ps, end_ps)
        starts = np.concatenate(([start_ps], inside.end_ps))
        ends = np.concatenate((inside.start_ps, [end_ps]))
        # There is always a gap between two intervals. The first and the last interval
        # also have a gap outside, unless they reach the window's edge.
        first = int(starts[0] >= ends[0])
        last = len(ends) - int(len(ends) > first and starts[-1] >= ends[-1])
        return Spans(starts[first:last], ends[first:last])

    def lasting(self, min_ps: int) -> Spans:
        """Return the intervals that are at least `min_ps` long."""
        chosen = self.end_ps - self.start_ps >= min_ps
        return Spans(self.start_ps[chosen], self.end_ps[chosen])

    def meeting(self, other: Spans) -> Spans:
        """Return the whole intervals that overlap another set."""
        if not len(self) or not len(other):
            return Spans.empty()
        return self._ranges_as_spans(*self._ranges_meeting(other))

    def holding(self, times_ps: Int64s) -> NDArray[np.intp]:
        """Return for each time the interval that contains it, -1 for none."""
        index = self.start_ps.searchsorted(times_ps, side="right") - 1
        ended = self.end_ps.searchsorted(times_ps, side="right")
        return np.where(ended == index, index, -1)

    def covered_before(self, times_ps: ArrayLike) -> Int64s:
        """Return the covered length before each time; ascending times are fastest."""
        times = _as_int64(times_ps)
        if _MIN_LENGTH_RATIO * len(times) < len(self):
            return self._covered_before_times(times)
        covered = np.empty(len(times), np.int64)
        accepted_answer(
            kernels.covered_before(
                self.start_ps, self.end_ps, self._lengths_before, times, covered
            )
        )
        return covered

    def within(self, starts_ps: ArrayLike, ends_ps: ArrayLike) -> Int64s:
        """Return the covered length of each window; windows may overlap."""
        starts, ends = _as_int64(starts_ps), _as_int64(ends_ps)
        if len(starts) != len(ends):
            raise ValueError(f"{len(starts)} starts for {len(ends)} ends")
        if (ends < starts).any():
            raise ValueError("a window ends before it starts")
        if 2 * _MIN_LENGTH_RATIO * len(starts) >= len(self):
            return self.covered_before(ends) - self.covered_before(starts)
        # Read all intervals only once, for starts and ends together.
        before = self._covered_before_times(np.concatenate((starts, ends)))
        return before[len(starts) :] - before[: len(starts)]

    def _covered_before_times(self, times: Int64s) -> Int64s:
        """Return `covered_before` of few times without an array as long as the set."""
        order = np.argsort(times, kind="stable")
        ascending = np.empty(len(times), np.int64)
        accepted_answer(
            kernels.covered_until(self.start_ps, self.end_ps, times[order], ascending)
        )
        covered = np.empty(len(times), np.int64)
        covered[order] = ascending
        return covered

    @cached_property
    def _lengths_before(self) -> Int64s:
        """By interval, and for the end, the total length of all earlier intervals."""
        lengths = np.zeros(len(self) + 1, np.int64)
        np.cumsum(self.end_ps - self.start_ps, out=lengths[1:])
        return lengths

    def _near_part(self, other: Spans) -> Spans:
        if _MIN_LENGTH_RATIO * len(other) < len(self):
            first, count = self._ranges_meeting(other)
            if 2 * int(count.sum()) <= len(self):
                return self._ranges_as_spans(first, count)
        begin = int(self.end_ps.searchsorted(other.start_ps[0], side="right"))
        end = int(self.start_ps.searchsorted(other.end_ps[-1], side="left"))
        if begin == 0 and end == len(self):
            return self
        return Spans(self.start_ps[begin:end], self.end_ps[begin:end])

    def _ranges_meeting(self, other: Spans) -> tuple[Int64s, Int64s]:
        """Return by interval of `other` the first overlapping interval and the number.

        An interval that overlaps two intervals of `other` counts for the first only.
        """
        first = self.end_ps.searchsorted(other.start_ps, side="right")
        last = self.start_ps.searchsorted(other.end_ps, side="left")
        first[1:] = np.maximum(first[1:], last[:-1])
        return first, last - first

    def _ranges_as_spans(self, first: Int64s, count: Int64s) -> Spans:
        before = np.repeat(first - (np.cumsum(count) - count), count)
        row = before + np.arange(len(before))
        return Spans(self.start_ps[row], self.end_ps[row])


#: Minimum ratio of two sets' lengths at which binary search is faster than reading.
_MIN_LENGTH_RATIO: Final = 16


def charge_first(
    sets: Mapping[str, Spans], starts_ps: Int64s, ends_ps: Int64s
) -> dict[str, Int64s]:
    """Return by window the time of each set that no earlier set contains, in ps."""
    charged: dict[str, Int64s] = {}
    taken, covered = Spans.empty(), np.zeros(len(starts_ps), np.int64)
    for name, spans in sets.items():
        taken |= spans
        now = taken.within(starts_ps, ends_ps)
        charged[name], covered = now - covered, now
    return charged


def list_numbered(
    sets: Iterable[tuple[int, Spans]],
) -> tuple[Int64s, Int64s, Int64s]:
    """Return number, start and end of the intervals of numbered sets, set by set."""
    parts = [
        (np.full(len(spans), number, np.int64), spans.start_ps, spans.end_ps)
        for number, spans in sets
    ]
    columns = zip((np.empty(0, np.int64),) * 3, *parts, strict=True)
    numbers, starts, ends = (np.concatenate(column) for column in columns)
    return numbers, starts, ends


def _as_int64(values: ArrayLike) -> Int64s:
    return np.ascontiguousarray(values, dtype=np.int64)


def _unite_events(starts: Int64s, durs: Int64s, begin: int, end: int) -> Spans:
    out = np.empty((2, end - begin), np.int64)
    return _trim_output(out, kernels.union_events(starts, durs, begin, end, out))


def _merge_sets(kernel: Callable[..., int], a: Spans, b: Spans) -> Spans:
    out = np.empty((2, len(a) + len(b)), np.int64)
    return _trim_output(out, kernel(a.start_ps, a.end_ps, b.start_ps, b.end_ps, out))


def _trim_output(out: Int64s, count: int) -> Spans:
    used = out[:, : accepted_answer(count)]
    # A view of a nearly full array wastes little memory; a view of a nearly empty one
    # would keep all of its memory allocated.
    if 2 * count < out.shape[1]:
        used = used.copy()
    return Spans(used[0], used[1])
