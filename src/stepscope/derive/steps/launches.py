"""Repeated launches of one program, as boundaries of steps.

A launch is a host call that runs a compiled program or a graph function, or a program
on a device's line of modules. The work between two launches shows whether it repeats.

Definition: docs/how-steps-are-found.md#the-sources-most-certain-first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import (
    LINE_CODES,
    codes,
    handles,
    ints,
    wanted_rows,
)
from stepscope.derive.columns.dense_codes import number_rows
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.derive.sequences import program_threads, sequence_of_events
from stepscope.derive.steps.periods import MIN_STEPS
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    import polars as pl

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.sequences import SymbolSequence

#: Kinds of events that run a program.
PROGRAM_CALLS: Final = (
    EventFlag.FUNCTION_CALL
    | EventFlag.PJIT
    | EventFlag.EXECUTABLE
    | EventFlag.FUNCTION_RUN
    | EventFlag.SERVING
)
#: Maximum number of programs to try, in order of total launch time.
_MAX_PROGRAMS_TRIED: Final = 16


class Launch(Frozen, frozen=True, eq=True):
    """The launches of one program on one track.

    Attributes:
        start_ps: Starts, ascending; nested launches of the same program do not count.
    """

    track: int
    type: int
    start_ps: Int64s


def host_launches(
    tracks: pl.DataFrame, events: pl.DataFrame, event_kinds: EventKinds
) -> list[Launch]:
    """Return the launches on host threads, except launches of an input pipeline.

    An outermost module call counts as a launch, because it runs a whole model.
    """
    event = program_rows(tracks, events, event_kinds.has(PROGRAM_CALLS))
    captured_types = event_kinds.has(EventFlag.CAPTURED_FUNCTION)
    captured = wanted_rows(handles(events, "type"), captured_types)
    inside = _begins_inside(events, event, captured)
    call = program_rows(tracks, events, event_kinds.has(EventFlag.MODULE_CALL))
    models = outermost_by_thread(events, call).values()
    return _repeated_launches(
        events, np.unique(np.concatenate([event[~inside], *models]))
    )


def program_rows(tracks: pl.DataFrame, events: pl.DataFrame, types: Bools) -> Int64s:
    """Return the events of some types on threads of the program, by row."""
    rows = wanted_rows(handles(events, "type"), types)
    return rows[program_threads(tracks)[handles(events, "track")[rows]]]


def outermost_by_thread(events: pl.DataFrame, rows: Int64s) -> dict[int, Int64s]:
    """Return those of some events that are outermost on their thread, by thread."""
    thread, start = handles(events, "track")[rows], ints(events, "start_ps")[rows]
    end = start + ints(events, "dur_ps")[rows]
    outermost = {}
    for track in np.unique(thread).tolist():
        own = np.flatnonzero(thread == track)
        outermost[track] = rows[own[is_outermost(start[own], end[own])]]
    return outermost


def program_runs(
    tracks: pl.DataFrame, events: pl.DataFrame, event_kinds: EventKinds
) -> dict[int, Spans]:
    """Return when programs ran on each host thread; nested runs are merged."""
    program = program_rows(tracks, events, event_kinds.has(PROGRAM_CALLS))
    thread = handles(events, "track")[program]
    return {
        track: Spans.from_rows(events, program[thread == track])
        for track in np.unique(thread).tolist()
    }


def count_runs(runs: dict[int, Spans], launches: pl.DataFrame, launch: Int32s) -> int:
    """Count the program executions that contain the given launch calls.

    Several calls inside one execution count once, as do repetitions of one graph call.

    Args:
        runs: Result of `program_runs`.
        launch: Rows of launches, at least 0.
    """
    called = np.unique(launch)
    thread = handles(launches, "track")[called]
    begins = ints(launches, "start_ps")[called]
    count = 0
    for track in np.unique(thread).tolist():
        run = runs.get(track, Spans.empty()).holding(begins[thread == track])
        count += len(np.unique(run[run >= 0])) + int((run < 0).sum())
    return count


def module_launches(
    tracks: pl.DataFrame, events: pl.DataFrame
) -> list[tuple[SymbolSequence, list[Launch]]]:
    """Return each device line of modules as a sequence, with its program launches."""
    launches = []
    lines = np.flatnonzero(codes(tracks, "derived") == LINE_CODES["xla_modules"])
    begin, end = ints(tracks, "event_begin"), ints(tracks, "event_end")
    for line in lines.tolist():
        event = np.arange(begin[line], end[line])
        if len(event) < MIN_STEPS:
            continue
        what = f"programs of {tracks['name'][line]} of device {tracks['device'][line]}"
        sequence = sequence_of_events(what, events, event, on_device=True)
        launches.append((sequence, _repeated_launches(events, event)))
    return launches


def is_outermost(start: Int64s, end: Int64s) -> Bools:
    """Return a mask of a thread's outermost events; the events are in time order."""
    reach = np.maximum.accumulate(end)
    outer: Bools = np.ones(len(start), np.bool_)
    outer[1:] = start[1:] >= reach[:-1]
    return outer


def _repeated_launches(events: pl.DataFrame, event: Int64s) -> list[Launch]:
    if not len(event):
        return []
    track, of_type = (handles(events, name)[event] for name in ("track", "type"))
    start, dur = (ints(events, name)[event] for name in ("start_ps", "dur_ps"))
    program = number_rows([track, of_type])
    often = np.bincount(program.code) >= MIN_STEPS
    order = np.argsort(-np.bincount(program.code, weights=dur), kind="stable")
    launches = []
    for code in order[often[order]][:_MAX_PROGRAMS_TRIED].tolist():
        rows = np.flatnonzero(program.code == code)
        first = program.first[code]
        # Keep the starts of the outermost events.
        end = start[rows] + dur[rows]
        inside = np.concatenate([[False], end[1:] <= np.maximum.accumulate(end)[:-1]])
        starts: Int64s = start[rows][~inside]
        launches.append(Launch(int(track[first]), int(of_type[first]), starts))
    return [launch for launch in launches if len(launch.start_ps) >= MIN_STEPS]


def _begins_inside(events: pl.DataFrame, event: Int64s, outer: Int64s) -> Bools:
    inside = np.zeros(len(event), np.bool_)
    if not len(outer):
        return inside
    start, track = ints(events, "start_ps"), handles(events, "track")
    for thread in np.unique(track[outer]).tolist():
        spans = Spans.from_rows(events, outer[track[outer] == thread])
        rows = np.flatnonzero(track[event] == thread)
        inside[rows] = spans.holding(start[event[rows]]) >= 0
    return inside
