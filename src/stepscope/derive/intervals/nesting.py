"""Nesting of the events of a track: parents, depths, self times, and flat classes.

Compiled functions do the work, one track at a time, largest first, on all cores.

Definition: docs/definitions/names-and-events.md#nesting-and-self-time.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope._core import nesting as kernels
from stepscope.derive.columns.arrays import (
    TRACK_CODES,
    accepted_answer,
    codes,
    ints,
)
from stepscope.derive.intervals.spans import LIMIT_PS, Spans
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    import polars as pl

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s

#: Kinds of track whose events nest; on all other tracks events are siblings.
NESTED_KINDS: Final = ("thread", "core", "derived", "samples")

#: Depth of the first stack buffer, enough for nearly every track. Deeper tracks are
#: nested again with a buffer for all their rows.
_USUAL_DEPTH: Final = 1024
#: Minimum number of rows for several threads, because starting threads takes time.
_MIN_ROWS_FOR_THREADS: Final = 100_000


class Nesting(Frozen, frozen=True):
    """How rows nest: arrays in the order of the rows, and counts per track.

    Attributes:
        parent: int32; the row that contains this row, -1 for none.
        depth: int32; 0 without a parent, else one more than the parent's.
        self_ps: int64, at least 0. Any time belongs to the most recently started row
            that still runs, so that the self times of a nested track add up to its busy
            time. On a flat track the self time is the duration.
        overhangs: int64 by row of `tracks`; number of rows that end after their parent.
    """

    parent: Int32s
    depth: Int32s
    self_ps: Int64s
    overhangs: Int64s


def nest_events(
    tracks: pl.DataFrame, events: pl.DataFrame, *, flat_rows: Int64s | None = None
) -> Nesting:
    """Nest the events of every track whose kind is one of `NESTED_KINDS`.

    Args:
        events: The table `events`; its rows are those of the result.
        flat_rows: Rows of events that get no parents and children on any track, because
            they are marked as asynchronous work.
    """
    start_ps, dur_ps = ints(events, "start_ps"), ints(events, "dur_ps")
    begins, ends = ints(tracks, "event_begin"), ints(tracks, "event_end")
    # Check that each row has a track; results of rows without one are uninitialised.
    order = np.lexsort((ends, begins))
    edges = np.concatenate(([0], ends[order]))
    if not np.array_equal(edges[:-1], begins[order]) or edges[-1] != len(start_ps):
        raise ValueError("the tracks do not contain each row of events exactly once")
    nested = np.isin(codes(tracks, "kind"), [TRACK_CODES[k] for k in NESTED_KINDS])
    work = _Work(start_ps, dur_ps, _unfilled_nesting(len(start_ps), len(begins)))
    flat = np.unique(flat_rows) if flat_rows is not None else np.empty(0, np.int64)

    def nest_track(track: int) -> None:
        begin, end = int(begins[track]), int(ends[track])
        first, last = np.searchsorted(flat, (begin, end))
        if not nested[track]:
            work.lay_flat(slice(begin, end))
        elif first == last:
            work.nest_range(track, begin, end)
        else:
            work.lay_flat(flat[first:last])
            kept = np.ones(end - begin, np.bool_)
            kept[flat[first:last] - begin] = False
            work.nest_rows(track, np.flatnonzero(kept) + begin)

    _run_largest_first(nest_track, ends - begins)
    return work.found


def nest_subset(start_ps: Int64s, dur_ps: Int64s, *, track: Int32s) -> Nesting:
    """Nest chosen rows as if all other rows did not exist.

    Args:
        start_ps: Starts of the chosen rows, in the order of the table of events.
        track: Tracks of the chosen rows, ascending.

    Returns:
        Arrays over the chosen rows; a parent is an index into them. All tracks nest.
    """
    if (track[1:] < track[:-1]).any():
        raise ValueError("the rows are not grouped by track in ascending order")
    edges = np.flatnonzero(track[1:] != track[:-1]) + 1
    begins = np.concatenate(([0], edges))
    ends = np.concatenate((edges, [len(track)]))
    track_count = int(track[-1]) + 1 if len(track) else 0
    starts, durs = np.ascontiguousarray(start_ps), np.ascontiguousarray(dur_ps)
    work = _Work(starts, durs, _unfilled_nesting(len(track), track_count))

    def nest_group(group: int) -> None:
        begin, end = int(begins[group]), int(ends[group])
        if begin < end:
            work.nest_range(int(track[begin]), begin, end)

    _run_largest_first(nest_group, ends - begins)
    return work.found


def flatten_tracks(
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    code: UInt8s,
    *,
    sticky: Collection[int] = (),
    alike: Mapping[int, int] = MappingProxyType({}),
) -> dict[int, dict[int, Spans]]:
    """Divide the time of each track by the code of the innermost event with a code.

    Definition: docs/definitions/host-time.md#classes.

    Args:
        code: Code by row of events; for 0 the code of the next outer event applies.
        sticky: Codes that also apply to all nested events; the outermost wins.
        alike: Code → code that replaces it in the result. Codes that alternate often
            form fewer intervals if they are merged.

    Returns:
        For each row of `tracks`, a dictionary from code to the track's spans with that
        code. Tracks and codes without spans are left out. Spans of two codes on one
        track do not overlap.
    """
    start_ps, dur_ps = ints(events, "start_ps"), ints(events, "dur_ps")
    begins, ends = ints(tracks, "event_begin"), ints(tracks, "event_end")
    shown = np.arange(256, dtype=np.uint8)
    shown[list(alike)] = list(alike.values())
    by_track: dict[int, dict[int, Spans]] = {}

    def nest_track(track: int) -> None:
        rows = slice(int(begins[track]), int(ends[track]))
        coded = np.flatnonzero(code[rows])
        if not len(coded):
            return
        # Skip rows with code 0, which often are most rows.
        starts, durs = start_ps[rows][coded], dur_ps[rows][coded]
        sets = flatten_rows(starts, durs, shown[code[rows][coded]], sticky=sticky)
        if sets:
            by_track[track] = sets

    _run_largest_first(nest_track, ends - begins)
    return dict(sorted(by_track.items()))


class _Work(Frozen, frozen=True):
    """Inputs and outputs that all tracks share; each track writes its own rows."""

    start_ps: Int64s
    dur_ps: Int64s
    found: Nesting

    def lay_flat(self, rows: slice | Int64s) -> None:
        self.found.parent[rows] = -1
        self.found.depth[rows] = 0
        self.found.self_ps[rows] = self.dur_ps[rows]

    def nest_range(self, track: int, begin: int, end: int) -> None:
        overhangs = _nest_range(self.start_ps, self.dur_ps, begin, end, self.found)
        if overhangs == kernels.OUT_OF_ORDER:
            self.nest_rows(track, np.arange(begin, end))
        else:
            self.found.overhangs[track] = overhangs

    def nest_rows(self, track: int, rows: Int64s) -> None:
        starts, durs = self.start_ps[rows], self.dur_ps[rows]
        if kernels.first_unordered(starts, durs, 0, len(rows)) < len(rows):
            order = _nesting_order(starts, durs)
            rows, starts, durs = rows[order], starts[order], durs[order]
        inner = _unfilled_nesting(len(rows), 0)
        self.found.overhangs[track] = _nest_range(starts, durs, 0, len(rows), inner)
        self.found.parent[rows] = np.where(inner.parent < 0, -1, rows[inner.parent])
        self.found.depth[rows] = inner.depth
        self.found.self_ps[rows] = inner.self_ps


def _nest_range(
    start_ps: Int64s, dur_ps: Int64s, begin: int, end: int, into: Nesting
) -> int:
    for depth in (_USUAL_DEPTH, end - begin):
        stack = np.empty((2, depth), np.int64)
        answer: int = kernels.nest_track_rows(
            start_ps, dur_ps, begin, end, into.parent, into.depth, into.self_ps, stack
        )
        if answer != kernels.NO_ROOM:
            break
    return answer if answer == kernels.OUT_OF_ORDER else accepted_answer(answer)


def flatten_rows(
    start_ps: Int64s, dur_ps: Int64s, code: UInt8s, *, sticky: Collection[int] = ()
) -> dict[int, Spans]:
    """Divide the time of one track's rows by the code of the innermost row.

    Args:
        start_ps: Starts of the rows, in the order of the table of events.
        code: Codes of the rows, none of them 0.
        sticky: Codes that also apply to all rows nested in theirs; the outermost wins.

    Returns:
        Code → spans with that code; codes without spans are left out.
    """
    is_sticky = np.zeros(256, np.uint8)
    is_sticky[list(sticky)] = 1
    count = len(code)
    if kernels.first_unordered(start_ps, dur_ps, 0, count) < count:
        order = _nesting_order(start_ps, dur_ps)
        start_ps, dur_ps, code = start_ps[order], dur_ps[order], code[order]
    out = np.empty((3, 2 * count), np.int64)
    for capacity in (_USUAL_DEPTH, count):
        running = np.empty((4, capacity), np.int64)
        segments: int = kernels.flatten_track_rows(
            start_ps, dur_ps, code, is_sticky, 0, count, running, out
        )
        if segments != kernels.NO_ROOM:
            break
    starts, ends, classes = out[:, : accepted_answer(segments)]
    sets = {}
    for value in np.flatnonzero(np.bincount(classes, minlength=1)).tolist():
        chosen = classes == value
        spans = Spans(starts[chosen], ends[chosen]).clip(-LIMIT_PS, LIMIT_PS)
        if len(spans):
            sets[value] = spans
    return sets


def _nesting_order(start_ps: Int64s, dur_ps: Int64s) -> Int64s:
    """Order rows by start, then by duration descending; ties keep their order."""
    return np.lexsort((-dur_ps, start_ps))


def self_times(time_ps: Int64s, parent: Int32s) -> Int64s:
    """Return the time of each event without that of the events directly inside it."""
    own, inside = time_ps.copy(), parent >= 0
    np.subtract.at(own, parent[inside], time_ps[inside])
    return own


def nearest_above(parent: Int32s, rows: Int64s, stops: Bools) -> Int64s:
    """Return the nearest ancestor of each row that is in `stops`, -1 for none."""
    nearest = np.full(len(rows), -1, np.int64)
    ancestor, index = parent[rows], np.arange(len(rows))
    # Each iteration handles one level of nesting for the rows that have an ancestor.
    while len(index):
        inside = ancestor >= 0
        ancestor, index = ancestor[inside], index[inside]
        hit = stops[ancestor]
        nearest[index[hit]] = ancestor[hit]
        ancestor, index = parent[ancestor[~hit]], index[~hit]
    return nearest


def innermost_rows(
    times_ps: Int64s,
    start_ps: Int64s,
    dur_ps: Int64s,
    parent: Int32s,
    *,
    rows: tuple[int, int],
) -> Int32s:
    """Return the innermost row of one track that runs at each time, -1 for none.

    The interval of a row is half-open.

    Args:
        times_ps: The times, in any order.
        parent: The row that contains each row, -1 for none.
        rows: The first row of the track, and the one after the track's last row.
    """
    begin, end = rows
    order = np.argsort(times_ps, kind="stable")
    times, inner = times_ps[order], np.empty(len(order), np.int32)
    if kernels.first_unordered(start_ps, dur_ps, begin, end) == end:
        answer = kernels.running_rows(
            start_ps, dur_ps, parent, begin, end, times, inner
        )
    else:
        row_order = _nesting_order(start_ps[begin:end], dur_ps[begin:end]) + begin
        rank = np.full(end + 1, -1, np.int32)
        rank[row_order] = np.arange(len(row_order))
        answer = kernels.running_rows(
            *(start_ps[row_order], dur_ps[row_order], rank[parent[row_order]]),
            *(0, len(row_order), times, inner),
        )
        inner = np.where(inner >= 0, row_order[inner], -1).astype(np.int32)
    accepted_answer(answer)
    innermost = np.empty(len(order), np.int32)
    innermost[order] = inner
    return innermost


def _unfilled_nesting(row_count: int, track_count: int) -> Nesting:
    return Nesting(
        parent=np.empty(row_count, np.int32),
        depth=np.empty(row_count, np.int32),
        self_ps=np.empty(row_count, np.int64),
        overhangs=np.zeros(track_count, np.int64),
    )


def _run_largest_first(work: Callable[[int], None], sizes: Int64s) -> None:
    """Run `work` per track on all cores; the compiled functions release the GIL."""
    order: Iterable[int] = np.argsort(-sizes, kind="stable").tolist()
    if int(sizes.sum()) < _MIN_ROWS_FOR_THREADS:
        for track in order:
            work(track)
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(work, order):
            pass
