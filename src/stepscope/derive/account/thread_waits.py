"""When threads waited or had no core, and what other threads did meanwhile.

Few profilers record when a thread has a core. A wait for a thread is recorded as a
system call.

Definition: docs/where-a-steps-time-goes.md#waits-for-other-threads.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles
from stepscope.derive.host.core_time import thread_identities
from stepscope.derive.host.function_purposes import (
    AWAITING,
    WAITING_WORKS,
    FunctionPurpose,
    work_of_call,
)
from stepscope.derive.intervals.nesting import nest_subset, self_times
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.host_time import THREAD_WAITS, HostCode
from stepscope.frozen import Frozen
from stepscope.trace.tables import OFF_CORE
from stepscope.unavailable import Unavailable
from stepscope.xspace.samples_line import SamplesLine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.host.core_time import CoreTime, ThreadTime
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_lines import FunctionLines
    from stepscope.derive.host.function_purposes import FunctionPurposes
    from stepscope.derive.intervals.spans import TrackRows
    from stepscope.derive.step_time.host_classes import HostClasses

#: Codes of a waiting thread; no other thread waits for such a thread.
_WAITS: Final = (
    *(HostCode.SYSTEM_WAIT, HostCode.BLOCKED, HostCode.INPUT_WAIT),
    *(HostCode.SYNC, HostCode.READ_BACK, HostCode.PEER),
)
_WORK: Final = tuple(code for code in HostCode if code not in _WAITS)
#: An event type is the cause of a wait if it runs for at least this share of the wait.
_MIN_CAUSE_SHARE: Final = 0.5


def off_core(
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    *,
    rows_of: TrackRows,
) -> dict[int, Spans]:
    """Return the times without a core: row of tracks of the thread → spans."""
    return {
        thread: rows_of.covered_spans(rows_of.track_rows(line))
        for thread, line in lines_without_core(tracks, events, event_types).items()
    }


def common_spans(sets: Sequence[Spans]) -> Spans:
    """Return the intersection of all sets of spans; empty without sets."""
    return reduce(and_, sets) if sets else Spans.empty()


def lines_without_core(
    tracks: pl.DataFrame, events: pl.DataFrame, event_types: pl.DataFrame
) -> dict[int, int]:
    """Return row of tracks of a thread → row of its line of time without a core."""
    named: Bools
    named = event_types["name"].str.starts_with(OFF_CORE).to_numpy()
    if not named.any():
        return {}
    lines = np.unique(handles(events, "track")[named[handles(events, "type")]])
    ids = tracks.select("plane", "process", "id").rows()
    kinds = tracks["kind"].to_list()
    threads = {key: row for row, key in enumerate(ids) if kinds[row] == "thread"}
    return {
        threads[ids[line]]: line
        for line in lines.tolist()
        if ids[line] in threads and kinds[line] == "asynchronous"
    }


def host_threads(tracks: pl.DataFrame) -> dict[int, str]:
    """Return the name of each thread of a host by row of tracks.

    A thread that has only stack samples gets the row of the samples' track.
    """
    named = tracks.with_row_index("row").filter(
        pl.col("device").is_null(), pl.col("kind").is_in(["thread", "samples"])
    )
    name_of_track = {}
    for row, kind, line, name in named[["row", "kind", "id", "name"]].rows():
        samples = SamplesLine.of(line, name) if kind == "samples" else None
        if kind == "thread":
            name_of_track[row] = name
        elif samples is not None and samples.kind == "functions":
            name_of_track[row] = samples.thread_name
    return name_of_track


def awaited_thread(
    classes: HostClasses,
    threads: Mapping[int, str],
    waits: Spans,
    *,
    types: Int32s,
    nameless: Bools,
    frames: FunctionFrames | None,
    by: int,
) -> tuple[str, int] | None:
    """Return the thread and the event type that ran during most of the waits.

    If no event ran long enough, the innermost functions of the other threads are used:
    a call such as `pthread_join` waits for a thread that may have only stack samples.

    Args:
        threads: Row of tracks of each thread of the host → its name.
        nameless: By row of event_types: whether the type hides what a thread does.
        by: Row of tracks of the thread that waits.

    Returns:
        Name of the thread and row of event_types; None if no type ran during half of
        the waits.
    """
    candidates: list[tuple[int, str, int]] = []
    rows = classes.rows
    for track, name in threads.items():
        if track == by:
            continue
        event_rows = rows.meeting_rows(track, waits, code=classes.code, wanted=_WORK)
        event_rows = event_rows[~nameless[types[event_rows]]]
        if not len(event_rows):
            continue
        start, dur = rows.start_ps[event_rows], rows.dur_ps[event_rows]
        nested = nest_subset(start, dur, track=np.zeros(len(event_rows), np.int32))
        own = self_times(waits.within(start, start + dur), nested.parent)
        time, kind = _largest_type(types[event_rows], own)
        candidates.append((time, name, kind))
    names = {track: name for track, name in threads.items() if name != threads.get(by)}
    for timed in (
        candidates,
        [] if frames is None else _innermost_functions(frames, names, waits),
    ):
        longest = max(timed, default=None)
        if longest is not None and longest[0] >= _MIN_CAUSE_SHARE * waits.length_ps:
            return longest[1:]
    return None


def _innermost_functions(
    frames: FunctionFrames, threads: Mapping[int, str], waits: Spans
) -> list[tuple[int, str, int]]:
    time = waits.within(frames.start_ps, frames.end_ps)
    own = self_times(time, frames.parent)
    functions = []
    for track in threads.keys() & set(frames.track[time > 0].tolist()):
        rows = np.flatnonzero((frames.track == track) & (time > 0))
        own_ps, kind = _largest_type(frames.type[rows], own[rows])
        functions.append((own_ps, threads[track], kind))
    return functions


def _largest_type(types: Int32s, own_ps: Int64s) -> tuple[int, int]:
    """Return the largest total time of the events of one type, and this type."""
    kind, index = np.unique(types, return_inverse=True)
    total = np.zeros(len(kind), np.int64)
    np.add.at(total, index, own_ps)
    largest = int(total.argmax())
    return int(total[largest]), int(kind[largest])


#: Maximum share of the sleep in which threads outside of Python may compute for the
#: sleeping thread; if all cores are in use, such threads rarely get a core.
_MAX_UNKNOWN_SHARE: Final = 0.1
_MAX_UNKNOWN_SHARE_IF_FULL: Final = 0.02
#: A thread sleeps in its waits if it sleeps for this part of their time at least.
_MIN_SLEPT: Final = 0.8
_NO_SLEEP: Final = Spans.empty()
#: Purposes of functions that wait for a thread, a process, a message or a worker.
_WAIT_PURPOSES: Final = (*AWAITING, FunctionPurpose.PEER)
#: Purposes of functions whose time belongs to other owners, even if they sleep.
_OTHER_PURPOSES: Final = (
    FunctionPurpose.SYNC,
    FunctionPurpose.CALL,
    FunctionPurpose.COMPILE,
)


class ThreadSleep(Frozen, frozen=True):
    """When threads wait in functions, outside of recorded ops and calls.

    Attributes:
        spans: Row of tracks → when the thread sleeps, polls, or waits.
        for_threads: The parts of `spans` in functions that wait for other threads.
        for_peers: The parts of `spans` in functions that wait for other workers.
    """

    spans: Mapping[int, Spans]
    for_threads: Mapping[int, Spans]
    for_peers: Mapping[int, Spans]


def thread_sleep(
    *,
    tracks: pl.DataFrame,
    core_time: CoreTime | Unavailable,
    function_frames: FunctionFrames,
    function_lines: FunctionLines | Unavailable,
    function_purposes: FunctionPurposes,
    non_step_frames: FunctionFrames | Unavailable,
    host_classes: HostClasses,
) -> ThreadSleep:
    """Find when threads wait, from their clocks and the functions that they are in.

    Definition: docs/definitions/host-time.md#waiting-and-working.
    """
    frames, thread_ids = function_frames, thread_identities(tracks)
    work = host_classes.host_compute
    tasks = work if host_classes.no_device and isinstance(work, Spans) else None
    clocks = {} if isinstance(core_time, Unavailable) else core_time.threads
    running = {
        track: ran_by.spans(ran_by.track == track) & clocks[thread_ids[track]].awake
        for ran_by in (frames, non_step_frames)
        if not isinstance(ran_by, Unavailable)
        for track in np.unique(ran_by.track).tolist()
        if thread_ids[track] in clocks
    }
    spans, for_threads, for_peers = {}, {}, {}
    for track in np.unique(frames.track).tolist():
        on_track = frames.track == track

        def spans_of(*purposes: FunctionPurpose, chosen: Bools = on_track) -> Spans:
            return frames.spans(chosen & np.isin(function_purposes.purpose, purposes))

        recorded = host_classes.by_thread.get(track, {})
        ran = Spans.union_of(
            done for code, done in recorded.items() if code not in THREAD_WAITS
        )
        named = frames.spans(on_track) - spans_of(*_OTHER_PURPOSES) - ran
        named = named if tasks is None else named - tasks
        waits = named & spans_of(*_WAIT_PURPOSES)
        waiting, computing = _calls_by_kind(frames, function_lines, track)
        system_calls = named & waiting
        clock = clocks.get(thread_ids[track])
        if clock is not None and not isinstance(core_time, Unavailable):
            rest = core_time.rest.get(thread_ids[track][:2])
            # Where between two readings a thread sleeps is unknown. It sleeps in all
            # waits, however short, if it sleeps about as long in all.
            slept_ps = clock.asleep.length_ps - spans_of(FunctionPurpose.SYNC).length_ps
            sleeps = waits if slept_ps >= _MIN_SLEPT * waits.length_ps else _NO_SLEEP
            waits = sleeps | _clocked_waits(
                *(named, waits, clock, rest),
                are_full=core_time.are_full,
                on_device=not host_classes.no_device,
            )
            python = Spans.union_of(
                times for other, times in running.items() if other != track
            )
            # A line that computes can wait only for the interpreter's lock, and in the
            # system for memory.
            waits = waits - (computing - python - clock.system)
            if tasks is not None:
                # The result is there, and another thread has the interpreter's lock.
                ready = (spans_of(FunctionPurpose.SYNC) & clock.asleep) - ran - tasks
                waits = waits | (ready & python)
        spans[track] = waits = waits | system_calls
        for_threads[track] = waits & spans_of(FunctionPurpose.AWAIT)
        for_peers[track] = waits & spans_of(FunctionPurpose.PEER)
    return ThreadSleep(spans, for_threads, for_peers)


def _calls_by_kind(
    frames: FunctionFrames, lines: FunctionLines | Unavailable, track: int
) -> tuple[Spans, Spans]:
    """Return when lines of the program call the system to wait, and when they compute.

    What the system computes for such a call is part of the wait. Lines compute if they
    call nothing, or a compiled function that is known to compute; what Python functions
    of a library do that have such a name is unknown.
    """
    if isinstance(lines, Unavailable):
        return Spans.empty(), Spans.empty()
    by_name = lines.compiled_calls([track])
    works = {name: work_of_call(name) for name in by_name}
    waiting, computing = (
        Spans.union_of(by_name[name] for name in by_name if works[name] in kinds)
        for kinds in (WAITING_WORKS, {*works.values()} - {None, *WAITING_WORKS})
    )
    calls = waiting | computing
    # Innermost frames, for a sampled function is as long as its only callee.
    program = [kind for kind, name in frames.names.items() if name.library is False]
    is_calling = (frames.track == track) & np.isin(frames.type, program)
    is_calling &= calls.within(frames.start_ps, frames.end_ps) > 0
    around = frames.parent[is_calling]
    while len(around := around[around >= 0]):
        is_calling[around] = True
        around = frames.parent[around]
    called = (frames.track == track) & ~is_calling & ~np.isin(frames.type, program)
    in_library = frames.spans(called & frames.rows_called_from(is_calling))
    alone = lines.spans_without_call(track)
    return waiting - in_library, (computing - in_library) | alone


def _clocked_waits(
    named: Spans,
    waits: Spans,
    clock: ThreadTime,
    rest: ThreadTime | None,
    *,
    are_full: bool,
    on_device: bool,
) -> Spans:
    """Return the waits of a thread whose CPU clock was read.

    No thread computes for a thread that is in a system call or a wait of Python. For
    any other sleeping thread a device, or threads outside of Python, may compute.
    """
    asleep = named & clock.asleep
    surely = asleep & (clock.system | waits)
    pooled = asleep - surely
    unknown = pooled if rest is None or on_device else pooled & rest.awake
    max_share = _MAX_UNKNOWN_SHARE_IF_FULL if are_full else _MAX_UNKNOWN_SHARE
    is_proven = unknown.length_ps <= max_share * asleep.length_ps
    return (asleep if is_proven else surely) | (waits - clock.seen)
