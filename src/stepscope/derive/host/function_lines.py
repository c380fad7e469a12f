"""`recorded_lines`: when each line of each function ran, on which thread.

A stack sample may contain the line as well as the function. If samples contain lines,
the time of a function is divided among its lines; if not, it is as in
`recorded_frames`. The total time of each function is the same in both derivations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.stat_values import (
    find_handle,
    owner_numbers,
    owner_texts,
    rows_of_owners,
)
from stepscope.derive.host.function_frames import sampled_threads
from stepscope.derive.host.function_names import is_nameless
from stepscope.derive.intervals.nesting import nest_subset
from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen
from stepscope.patterns import LOOP_CALL
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import polars as pl

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_names import FunctionName, FunctionNames
    from stepscope.patterns import Pattern
    from stepscope.trace.model import TraceData
    from stepscope.xspace.samples_line import SamplesKind

_LAST: Final = np.iinfo(np.int64).max
_NONE: Final = np.int32(-1)


class FunctionLines(Frozen, frozen=True):
    """Executed lines of Python functions: by thread, then start, outer first.

    On a thread, the rows of a function's lines and of unknown lines cover the time of
    the function's frames. A new row begins when the line, or that of a caller, changes.

    Definition: docs/definitions/host-time.md#functions.

    Attributes:
        track: int32; as in `FunctionFrames`.
        start_ps: int64.
        end_ps: int64.
        type: int32; row of `event_types`, the same for each row of a function.
        line: int32; the executed line, -1 if only the function was recorded.
        names: Function of each `type`.
        called: int32; index in `callees` of what the line calls, -1 if not recorded.
        callees: Names of called functions and operators, as in the source.
        unused: Whether the line does not use what this call returns.
    """

    track: Int32s
    start_ps: Int64s
    end_ps: Int64s
    type: Int32s
    line: Int32s
    names: Mapping[int, FunctionName]
    called: Int32s | None = None
    callees: tuple[str, ...] = ()
    unused: Bools | None = None

    def known(self) -> FunctionLines | None:
        """Return the executed lines; None if no line is known."""
        return self if (self.line >= 0).any() else None

    def spans_of_rows(self, chosen: Bools) -> Spans:
        """Return when the line of at least one of the chosen rows ran."""
        return Spans.from_bounds(self.start_ps[chosen], self.end_ps[chosen])

    def chosen_rows(self, rows: Bools | Int64s) -> FunctionLines:
        """Return some of the rows, chosen by index or by flag."""
        return FunctionLines(
            *(self.track[rows], self.start_ps[rows], self.end_ps[rows]),
            *(self.type[rows], self.line[rows], self.names),
            *(None if self.called is None else self.called[rows], self.callees),
            None if self.unused is None else self.unused[rows],
        )

    def depth_of_runs(self) -> Int32s:
        """Return the nesting depth of each row."""
        length = self.end_ps - self.start_ps
        return nest_subset(self.start_ps, length, track=self.track).depth

    def own_spans(
        self, kinds: Sequence[int], *, tracks: Sequence[int]
    ) -> dict[int, Spans]:
        """Return the time of each line of a function, without called program functions.

        Time in libraries and nameless functions (lambdas) counts as the line's.

        Args:
            kinds: The types of the function, as in `type`.
            tracks: Rows of tracks of the threads to include.
        """
        types = [
            kind
            for kind in self._types_of_program()
            if not is_nameless(self.names[kind].function)
        ]
        own = self.chosen_rows(np.isin(self.track, tracks) & np.isin(self.type, types))
        start, dur = own.start_ps, own.end_ps - own.start_ps
        around = nest_subset(start, dur, track=own.track).parent
        of_function = np.isin(own.type, kinds)
        called = ~of_function & (around >= 0)
        called[called] = of_function[around[called]]
        callees = Spans.from_events(start[called], dur[called])
        return {
            line: Spans.from_events(start[rows], dur[rows]) - callees
            for line in np.unique(own.line[of_function]).tolist()
            if line >= 0
            for rows in (of_function & (own.line == line),)
        }

    def _types_of_program(self) -> list[int]:
        return [kind for kind, name in self.names.items() if name.library is False]

    def compiled_calls(self, tracks: Sequence[int]) -> dict[str, Spans]:
        """Return when lines of the program call each function that has no frame.

        The time of functions of the program that a line calls is not included.
        """
        if self.called is None:
            return {}
        rows = self.chosen_rows(np.isin(self.track, tracks))
        start, dur = rows.start_ps, rows.end_ps - rows.start_ps
        called, caller = self.called[np.isin(self.track, tracks)], rows.calling_names()
        return {
            name: Spans.from_events(start[calls], dur[calls])
            - Spans.from_events(start[inside], dur[inside])
            for number, name in enumerate(self.callees)
            for calls, inside in ((called == number, caller == number),)
            if calls.any() and name != LOOP_CALL
        }

    def spans_without_call(self, track: int) -> Spans:
        """Return when a line of the program runs on a thread and calls no function.

        Empty if calls were not recorded.
        """
        rows = self.chosen_rows(self.track == track)
        if rows.called is None or not any(self.callees):
            return Spans.empty()
        alone = (rows.line >= 0) & (rows.called < 0)
        alone &= np.isin(rows.type, self._types_of_program())
        depth = rows.depth_of_runs()
        return Spans.union_of(
            rows.spans_of_rows(alone & (depth == level))
            - rows.spans_of_rows(depth == level + 1)
            for level in np.unique(depth[alone]).tolist()
        )

    def calling_spans(
        self, track: int, waits: Spans
    ) -> Iterator[tuple[str, bool, Spans]]:
        """Yield what lines of a thread's functions call, if the result is unused, when.

        Only lines that run during `waits` count, one at a time for each function and
        callee, without the time of functions of the program that the line calls.
        """
        chosen = (self.track == track) & np.isin(self.type, self._types_of_program())
        own = self.chosen_rows(chosen)
        start, dur = own.start_ps, own.end_ps - own.start_ps
        around = nest_subset(start, dur, track=own.track).parent
        if own.called is None or own.unused is None:
            return
        key = np.stack((own.type, own.called, own.unused.astype(np.int32)), axis=1)
        during = (waits.within(start, own.end_ps) > 0) & (own.called >= 0)
        for kind, called, unused in np.unique(key[during], axis=0).tolist():
            rows = (key == (kind, called, unused)).all(axis=1)
            inner = (around >= 0) & rows[around]
            spans = own.spans_of_rows(rows) - own.spans_of_rows(inner)
            yield self.callees[called], bool(unused), spans

    def types_called_as(self, pattern: Pattern[str]) -> list[int]:
        """Return the program's functions that its lines call by a matching name.

        Libraries may be in between: `for` calls a generator through `enumerate`.
        """
        wanted = [i for i, name in enumerate(self.callees) if pattern.search(name)]
        types = self.type[np.isin(self.calling_names(), wanted)] if wanted else ()
        return list(set(types))

    def calling_names(self) -> Int32s:
        """Return what the program's line that calls each of its functions calls."""
        caller = np.full(len(self.type), _NONE)
        if self.called is not None:
            own = np.flatnonzero(np.isin(self.type, self._types_of_program()))
            start, dur = self.start_ps[own], (self.end_ps - self.start_ps)[own]
            around = nest_subset(start, dur, track=self.track[own]).parent
            caller[own] = np.where(around >= 0, self.called[own[around]], _NONE)
        return caller


def recorded_lines(
    *,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    stats: pl.DataFrame | Unavailable,
    recorded_frames: FunctionFrames | Unavailable,
    function_names: FunctionNames,
) -> FunctionLines | Unavailable:
    """Split frames of threads of the program where the executed line changed.

    Definition: docs/definitions/host-time.md#functions.
    """
    lines = _line_runs(
        trace, tracks, events, stats, function_names, wanted="source_lines"
    )
    return _cut_frames(recorded_frames, lines, tracks)


def worker_lines(
    *,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    stats: pl.DataFrame | Unavailable,
    worker_frames: FunctionFrames | Unavailable,
    function_names: FunctionNames,
) -> FunctionLines | Unavailable:
    """Split frames of worker processes where the executed line changed.

    Definition: docs/definitions/host-time.md#worker-processes.
    """
    lines = _line_runs(
        trace, tracks, events, stats, function_names, wanted="source_lines_of_worker"
    )
    return _cut_frames(worker_frames, lines, tracks)


def _cut_frames(
    frames: FunctionFrames | Unavailable,
    lines: FunctionLines | None,
    tracks: pl.DataFrame,
) -> FunctionLines | Unavailable:
    """Replace frames by recorded lines, from the time at which the lines are known."""
    if isinstance(frames, Unavailable):
        return frames
    framed = FunctionLines(
        *(frames.track, frames.start_ps, frames.end_ps, frames.type),
        np.full(len(frames.track), _NONE),
        frames.names,
    )
    if lines is None:
        return framed
    since = np.full(len(tracks), _LAST)
    known = _known_since(framed, lines)
    since[list(known)] = list(known.values())
    framed_until, lines_from = since[framed.track], since[lines.track]
    framed_end = np.minimum(framed.end_ps, framed_until)
    lines_start = np.maximum(lines.start_ps, lines_from)
    before, after = framed.start_ps < framed_until, lines.end_ps > lines_from
    both = FunctionLines(
        np.concatenate((framed.track[before], lines.track[after])),
        np.concatenate((framed.start_ps[before], lines_start[after])),
        np.concatenate((framed_end[before], lines.end_ps[after])),
        np.concatenate((framed.type[before], lines.type[after])),
        np.concatenate((framed.line[before], lines.line[after])),
        frames.names,
        None
        if lines.called is None
        else np.concatenate((np.full(before.sum(), _NONE), lines.called[after])),
        lines.callees,
        None
        if lines.unused is None
        else np.concatenate((np.zeros(before.sum(), np.bool_), lines.unused[after])),
    )
    order = np.lexsort((both.start_ps - both.end_ps, both.start_ps, both.track))
    return both.chosen_rows(order)


def _line_runs(
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    stats: pl.DataFrame | Unavailable,
    names: FunctionNames,
    *,
    wanted: SamplesKind,
) -> FunctionLines | None:
    """Return the recorded lines with their times; None if none were recorded."""
    thread, hz = sampled_threads(tracks, wanted)
    if not hz or isinstance(stats, Unavailable):
        return None
    begins, ends = ints(tracks, "event_begin"), ints(tracks, "event_end")
    parts = [np.arange(begins[track], ends[track]) for track in sorted(hz)]
    rows = np.concatenate(parts).astype(np.int32)
    # Lines with a duration of 0 add no time, and may start when their caller does.
    rows = rows[ints(events, "dur_ps")[rows] > 0]
    key = find_handle(trace.strings, StatKey.SOURCE_LINE)
    of_rows = rows_of_owners(stats, "event", rows)
    number, present = owner_numbers(of_rows, rows, key)
    key = find_handle(trace.strings, StatKey.CALLED)
    called = [name or "" for name in owner_texts(trace, of_rows, rows, key)]
    key = find_handle(trace.strings, StatKey.RESULT_UNUSED)
    _, unused = owner_numbers(of_rows, rows, key)
    callees, index = np.unique(np.array(called, dtype=np.str_), return_inverse=True)
    start, dur = ints(events, "start_ps")[rows], ints(events, "dur_ps")[rows]
    track = thread[handles(events, "track")[rows]]
    runs = FunctionLines(
        *(track, start, start + dur),
        names.canonical[handles(events, "type")[rows]],
        np.where(present, number, _NONE).astype(np.int32),
        names.names,
        np.where(callees[index] == "", _NONE, index).astype(np.int32),
        tuple(callees.tolist()),
        unused,
    )
    return runs.chosen_rows(np.lexsort((-dur, start, track)))


def _known_since(frames: FunctionLines, lines: FunctionLines) -> dict[int, int]:
    """Return, by thread, the time from which the lines of all frames are known.

    A recording that keeps only its last samples has whole frames but lacks some of
    their lines. A thread may be sampled before its lines are recorded.
    """
    frames = frames.chosen_rows(
        (frames.end_ps > frames.start_ps) & np.isin(frames.track, lines.track)
    )
    if not len(frames.track):
        return {}
    frame_row = _last_begun(frames, lines)
    around = frames.chosen_rows(np.maximum(frame_row, 0))
    fits = frame_row >= 0
    fits &= (around.type == lines.type) & (around.end_ps >= lines.end_ps)
    # Sort by frame, then start: a line begins with its frame or after the line before.
    order = np.lexsort((lines.start_ps, frame_row))
    meets = np.zeros(len(order), np.bool_)
    meets[1:] = (frame_row[order][1:] == frame_row[order][:-1]) & (
        lines.end_ps[order][:-1] == lines.start_ps[order][1:]
    )
    joined = np.empty(len(order), np.bool_)
    joined[order] = meets
    joined |= lines.start_ps == around.start_ps
    reached = frames.start_ps.copy()
    np.maximum.at(reached, frame_row[fits], lines.end_ps[fits])
    known: dict[int, int] = {}
    for track in np.unique(lines.track).tolist():
        on_track = lines.track == track
        of_thread = frames.track == track
        gaps = [
            lines.start_ps[on_track & ~joined],
            frames.end_ps[of_thread & (reached < frames.end_ps)],
            np.full(int((on_track & ~fits).any() or not of_thread.any()), _LAST),
        ]
        known[track] = max((int(gap.max()) for gap in gaps if len(gap)), default=-_LAST)
    return known


def _last_begun(frames: FunctionLines, lines: FunctionLines) -> Int64s:
    """Return, by line, the last frame of equal depth begun before it; -1 for none."""
    end, total = len(frames.track), len(frames.track) + len(lines.track)
    track, depth, start = (
        np.concatenate(columns)
        for columns in (
            (frames.track, lines.track),
            (frames.depth_of_runs(), lines.depth_of_runs()),
            (frames.start_ps, lines.start_ps),
        )
    )
    order = np.lexsort((np.arange(total) >= end, start, depth, track))
    position = np.where(order < end, np.arange(total), -1)
    last = order[np.maximum(np.maximum.accumulate(position), 0)]
    same = (last < end) & (track[last] == track[order]) & (depth[last] == depth[order])
    rows = np.empty(total, np.int64)
    rows[order] = np.where(same, last, -1)
    return rows[end:]
