"""Nodes of threads, and which thread lets another thread continue.

The nodes are pieces between the times at which other nodes depend on a thread. A thread
is also cut into pieces where it waits for a device activity.

Few formats record handovers of work between threads, so they are inferred from times.
An idle thread starts because of the program's thread, or because of a thread whose work
ended just before. A waiting thread continues when the work of another thread ends. If
no such event happened shortly before, the start stays unexplained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np

from stepscope.derive.intervals.spans import Spans, list_numbered
from stepscope.derive.replay.nodes import NEVER, NodeKind
from stepscope.frozen import Frozen
from stepscope.units import PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.array_types import Bools, Int64s, UInt8s
    from stepscope.derive.replay.activities import Activities, Pace, Sampled, Thread

#: Minimum duration, in ps, of a launch call that a copy of another thread may hold, and
#: maximum time from the end of this copy to the call's return.
_MIN_HELD_PS: Final = PS_PER_MS
_MAX_RETURN_PS: Final = 200 * PS_PER_US
#: Length of the last part of a staged copy, as 1/n of the copy.
_LAST_PART_DIVISOR: Final = 20


class Waits(NamedTuple):
    """Intervals in which a thread waits.

    Attributes:
        began_ps: When the thread has finished its previous work.
        resumed_ps: When the awaited work is done, as far as known; equal to `began_ps`
            if the thread waited for nothing.
    """

    thread: Int64s
    began_ps: Int64s
    resumed_ps: Int64s
    ended_ps: Int64s


class DeviceWaits(Frozen, frozen=True, eq=True):
    """Waits of threads for devices.

    Attributes:
        activity: By edge: index of the awaited activity.
    """

    waits: Waits
    wait: Int64s
    activity: Int64s


_NONE: Final = -1


class Lines(Frozen, frozen=True, eq=True):
    """A common axis for all threads, on which each (thread, time) has a number: a key.

    Attributes:
        origin_ps: Time at position 0 of each thread.
    """

    origin_ps: int
    length_ps: int

    @classmethod
    def fit_threads(cls, sampled: Sampled, threads: Sequence[Thread]) -> Lines:
        """Return an axis that covers the lifetime of every thread."""
        ranges = [thread.alive.time_range for thread in threads]
        first = min((bounds[0] for bounds in ranges if bounds), default=sampled.lead_ps)
        last = max((bounds[1] for bounds in ranges if bounds), default=sampled.last_ps)
        return cls(first, last - first + 2)

    def moment_keys(self, thread: Int64s | int, time_ps: Int64s) -> Int64s:
        """Return the key of each time; times outside the axis are moved to its end."""
        inside = np.clip(time_ps - self.origin_ps, 0, self.length_ps - 1)
        return thread * self.length_ps + inside

    def key_threads(self, key: Int64s) -> Int64s:
        """Return the thread of each key."""
        return key // self.length_ps

    def time_ps(self, key: Int64s) -> Int64s:
        """Return the time of each key."""
        return key % self.length_ps + self.origin_ps


class HostNodes(Frozen, frozen=True, eq=True):
    """The pieces of all threads, by thread and time.

    Attributes:
        start_key: Key of the start of each piece.
        end_key: Key of the end of each piece.
        resumed: By wait: the piece with which the thread continues; -1 for none.
        outside: By wait: the piece of an unexplained wait; -1 for any other wait.
    """

    lines: Lines
    kind: UInt8s
    start_key: Int64s
    end_key: Int64s
    resumed: Int64s
    outside: Int64s

    def find_pieces(
        self, thread: Int64s | int, time_ps: Int64s
    ) -> tuple[Int64s, Bools]:
        """Find the piece that begins or ends at a time.

        Returns:
            The piece, -1 for none, and whether the time is the start of the piece.
        """
        key = self.lines.moment_keys(thread, time_ps)
        if not len(self.start_key):
            return np.full(len(key), _NONE, np.int64), np.zeros(len(key), np.bool_)
        piece = np.searchsorted(self.start_key, key, side="right") - 1
        begins = self.start_key[piece] == key
        same = self.lines.key_threads(self.start_key[piece])
        known = (piece >= 0) & (same == self.lines.key_threads(key))
        return np.where(known, piece, _NONE), begins

    def pieces_starting(self, thread: Int64s | int, time_ps: Int64s) -> Int64s:
        """Return the piece that begins at each time, -1 for none."""
        piece, begins = self.find_pieces(thread, time_ps)
        return np.where(begins, piece, _NONE)


def host_nodes(
    threads: Sequence[Thread],
    lines: Lines,
    *,
    waits: Waits,
    explained: Bools,
    moments: Sequence[tuple[Int64s, Int64s]],
) -> HostNodes:
    """Cut the lifetime of every thread, without its waits, into pieces.

    Args:
        explained: By wait: whether its end is explained; other waits remain as pieces.
        moments: Pairs of (thread, time) at which to cut; times in a wait are ignored.
    """
    number, *bounds = list_numbered(enumerate(thread.alive for thread in threads))
    alive = Spans(*(lines.moment_keys(number, time_ps) for time_ps in bounds))
    began = lines.moment_keys(waits.thread, waits.began_ps)
    resumed = lines.moment_keys(waits.thread, waits.resumed_ps)
    ended = lines.moment_keys(waits.thread, waits.ended_ps)
    removed = explained & (resumed > began)
    order = np.argsort(began[removed], kind="stable")
    waited = Spans.from_events(
        began[removed][order], resumed[removed][order] - began[removed][order]
    )
    pieces = alive - waited
    cuts = [lines.moment_keys(thread, time) for thread, time in moments]
    edges = np.unique(
        np.concatenate([pieces.start_ps, pieces.end_ps, began, resumed, ended, *cuts])
    )
    start, end = edges[:-1], edges[1:]
    piece = np.searchsorted(pieces.start_ps, start, side="right") - 1
    inside = piece >= 0
    inside[inside] = end[inside] <= pieces.end_ps[piece[inside]]
    start, end = start[inside], end[inside]
    kind = np.full(len(start), NodeKind.HOST, np.uint8)
    after = _piece_at_begin(start, resumed)
    after[~explained] = _piece_at_begin(start, ended)[~explained]
    kind[after[after >= 0]] = NodeKind.RESUMED
    outside = _piece_at_begin(start, began)
    outside[explained] = _NONE
    kind[outside[outside >= 0]] = NodeKind.OUTSIDE
    return HostNodes(lines, kind, start, end, after, outside)


def _piece_at_begin(start: Int64s, key: Int64s) -> Int64s:
    if not len(start):
        return np.full(len(key), _NONE, np.int64)
    index = np.minimum(np.searchsorted(start, key, side="left"), len(start) - 1)
    return np.where(start[index] == key, index, _NONE)


def submitted_ps(activities: Activities, pace: Pace) -> Int64s:
    """Return when each activity was submitted within its launch call.

    Usually an activity is submitted at the start of the call. If the stream was free
    but the activity began late, the call itself took the time (it staged a copy, or
    loaded a module), and submitted the activity one launch latency before it began.
    """
    called, returned = activities.called_ps, activities.returned_ps
    latest = activities.start_ps - pace.latency_ps
    free = activities.stream_edge_ps() <= latest - pace.stream_gap_ps
    inside: Int64s = np.clip(latest, called, returned)
    return np.where(free, inside, called)


def copy_waits(
    threads: Sequence[Thread], activities: Activities, submitted: Int64s, pace: Pace
) -> DeviceWaits:
    """Find copy calls that return only when the copy is done."""
    length = activities.end_ps - activities.start_ps
    in_call = activities.returned_ps - activities.called_ps
    blocks = activities.copy & (activities.launch >= 0) & (in_call > pace.latency_ps)
    blocks &= in_call > length
    # A call that stages a copy returns when it has submitted the last part.
    last = np.maximum(pace.latency_ps, length // _LAST_PART_DIVISOR)
    blocks &= activities.end_ps <= activities.returned_ps + last
    rows = np.flatnonzero(blocks)
    place_of = {thread.track: number for number, thread in enumerate(threads)}
    thread = np.array(
        [place_of.get(int(track), _NONE) for track in activities.caller[rows]], np.int64
    )
    known = thread >= 0
    rows, thread = rows[known], thread[known]
    began = submitted[rows]
    waits = Waits(
        thread,
        began,
        np.clip(activities.end_ps[rows], began, activities.returned_ps[rows]),
        activities.returned_ps[rows],
    )
    return DeviceWaits(waits, np.arange(len(rows)), rows.astype(np.int64))


def held_waits(
    threads: Sequence[Thread], activities: Activities, copies: DeviceWaits
) -> DeviceWaits:
    """Find launching threads that a copy call of another thread holds until its end.

    A driver that stages a copy from pageable memory lets no other thread launch: their
    calls, recorded or not, return just after that of the copy.

    Args:
        copies: The calls that return only when their copy is done.
    """
    length = activities.returned_ps - activities.called_ps
    copy = copies.activity[length[copies.activity] >= _MIN_HELD_PS]
    order = np.argsort(activities.returned_ps[copy], kind="stable")
    copy = copy[order]
    called, returned = activities.called_ps[copy], activities.returned_ps[copy]
    resumed = np.minimum(returned, activities.end_ps[copy])
    callers = set(activities.caller.tolist()) if len(copy) else set()
    parts = []
    for number, thread in enumerate(threads):
        if thread.track not in callers:
            continue
        # In a gap between the starts and ends of its events a thread may be held.
        gaps = np.flatnonzero(np.diff(thread.moments) >= _MIN_HELD_PS)
        began, ended = thread.moments[gaps], thread.moments[gaps + 1]
        last = np.searchsorted(returned, ended, side="right") - 1
        held_ps = returned[last] - np.maximum(called[last], began)
        held = (last >= 0) & (2 * held_ps >= ended - began)
        held &= ended - returned[last] <= _MAX_RETURN_PS
        held &= activities.caller[copy[last]] != thread.track
        began, ended, last = began[held], ended[held], last[held]
        began = np.maximum(began, called[last])
        waits = Waits(np.full(len(last), number), began, resumed[last], ended)
        parts.append((*waits, copy[last]))
    nothing = np.empty(0, np.int64)
    columns = zip((nothing,) * 5, *parts, strict=True)
    *waits_of_all, activity = (np.concatenate(column) for column in columns)
    return DeviceWaits(Waits(*waits_of_all), np.arange(len(activity)), activity)


def device_waits(
    threads: Sequence[Thread],
    activities: Activities,
    *,
    whole_device: Sequence[Spans],
    clock_error_ps: int,
) -> DeviceWaits:
    """Find what each synchronising call waits for.

    The call waits for the last activity that ended before the call ended. A call that
    waits for a whole device also waits for the last activity of every other stream.

    Args:
        whole_device: By thread: when it waits for a whole device.
    """
    thread, began, ended = list_numbered(
        enumerate(thread.for_device for thread in threads)
    )
    is_wide = [
        spans.within(thread.for_device.start_ps, thread.for_device.end_ps) > 0
        for thread, spans in zip(threads, whole_device, strict=True)
    ]
    wide = np.concatenate([np.empty(0, np.bool_), *is_wide])
    # Find the last activity by (stream, wait) that was launched and has ended.
    edges = np.flatnonzero(np.diff(activities.track)) + 1
    last = np.full((len(edges) + 1, len(began)), _NONE, np.int64)
    for number, part in enumerate(np.split(np.arange(len(activities.row)), edges)):
        # Each activity of a stream ends after all previous activities of the stream.
        ends = np.maximum.accumulate(activities.end_ps[part])
        latest = np.searchsorted(ends, ended + clock_error_ps, side="right") - 1
        exists = latest >= 0
        exists[exists] = activities.called_ps[part[latest[exists]]] < ended[exists]
        last[number, exists] = part[latest[exists]]
    if not last.size:
        nothing = np.empty(0, np.int64)
        return DeviceWaits(Waits(thread, began, began.copy(), ended), nothing, nothing)
    ended_ps = np.where(last >= 0, activities.end_ps[last], NEVER)
    stream = np.argmax(ended_ps, axis=0)
    resumed = np.clip(ended_ps[stream, np.arange(len(began))], began, ended)
    edge = (last >= 0) & wide
    edge[stream, np.arange(len(began))] = last[stream, np.arange(len(began))] >= 0
    of_stream, wait = np.nonzero(edge)
    return DeviceWaits(
        Waits(thread, began, resumed, ended),
        wait.astype(np.int64),
        last[of_stream, wait].astype(np.int64),
    )


#: Maximum time, in ps, from the wake-up of a thread until it runs.
_MAX_WAKE_PS: Final = 200 * PS_PER_US
#: Minimum silence of the program's thread, in ps, that may be a wait for a thread.
_MIN_SILENCE_PS: Final = 100 * PS_PER_US
#: Minimum share of a silence during which other threads work.
_MIN_SHARED_SHARE: Final = 0.5
#: Maximum pause, in ps, between two ops that still counts as work of their thread.
_PAUSE_PS: Final = PS_PER_MS


class Releases(NamedTuple):
    """Times at which threads continue, and the threads that let them continue.

    Attributes:
        thread: Index of the thread that continues, in the list of threads.
        when_ps: When the thread continues; for a wait, the end of the waiting call.
        began_ps: Start of the wait; for new work, the same as `when_ps`.
        source: Index of the thread that let it continue; -1 if unknown.
        source_ps: When the source thread let it continue, at most `when_ps`.
    """

    thread: Int64s
    when_ps: Int64s
    began_ps: Int64s
    source: Int64s
    source_ps: Int64s


class Handovers(Frozen, frozen=True, eq=True):
    """All handovers between threads.

    Attributes:
        starts: Starts of work on threads other than the program's thread.
        waits: Ends of waits for another thread.
    """

    starts: Releases
    waits: Releases


def find_handovers(threads: Sequence[Thread]) -> tuple[tuple[Thread, ...], Handovers]:
    """Find what let each thread continue; the program's thread is the first thread.

    Returns:
        The threads, in which short unexplained pauses count as work, and the handovers.
    """
    work = _Work.collect_work(threads)
    quiet = [_silent_spans(threads, number) for number in range(len(threads))]
    waits = _thread_waits(threads, work, quiet)
    starts = _work_starts(threads, work, quiet[0] if quiet else Spans.empty())
    # Short unexplained pauses of a thread that drives steps count as its own work.
    is_own = np.zeros(len(starts.thread), np.bool_)
    adjusted = []
    for number, thread in enumerate(threads):
        own_rows = np.flatnonzero((starts.thread == number) & (starts.source < 0))
        if thread.is_program or not thread.silent_for or not len(own_rows):
            adjusted.append(thread)
            continue
        when = starts.when_ps[own_rows]
        index = np.searchsorted(thread.alive.end_ps, when, side="right") - 1
        ended = thread.alive.end_ps[index]
        short = (index >= 0) & (when - ended <= _PAUSE_PS)
        is_own[own_rows[short]] = True
        pauses = Spans.from_events(ended[short], (when - ended)[short])
        adjusted.append(msgspec.structs.replace(thread, alive=thread.alive | pauses))
    kept = Releases(*(column[~is_own] for column in starts))
    return tuple(adjusted), Handovers(kept, waits)


class _Work(Frozen, frozen=True, eq=True):
    """The work intervals of all threads except the program's, in two orders."""

    thread: Int64s
    start_ps: Int64s
    end_ps: Int64s
    by_end: Int64s

    @classmethod
    def collect_work(
        cls, threads: Sequence[Thread], *, of_silence: bool = False
    ) -> _Work:
        parts = [
            (number, thread.alive - thread.for_thread)
            for number, thread in enumerate(threads)
            if not thread.is_program and (thread.silent_for or not of_silence)
        ]
        thread, start, end = list_numbered(parts)
        order = np.argsort(start, kind="stable")
        end = end[order]
        return cls(thread[order], start[order], end, np.argsort(end, kind="stable"))

    def last_ended(self, when_ps: Int64s, thread: Int64s) -> tuple[Int64s, Int64s]:
        """Return, for each time, which other thread ended its work last, and when."""
        source = np.full(len(when_ps), _NONE, np.int64)
        source_ps = when_ps.copy()
        ends = self.end_ps[self.by_end]
        latest = np.searchsorted(ends, when_ps, side="right") - 1
        for back in range(min(_MAX_INTERVALS_SEARCHED, len(ends))):
            index = latest - back
            row = self.by_end[index]
            fits = (source < 0) & (latest >= back) & (self.thread[row] != thread)
            source[fits], source_ps[fits] = self.thread[row][fits], ends[index][fits]
        return source, source_ps

    def last_begun(self, when_ps: Int64s, thread: Int64s) -> Int64s:
        """Return, for each time, which of the other working threads started last."""
        source = np.full(len(when_ps), _NONE, np.int64)
        latest = np.searchsorted(self.start_ps, when_ps, side="left") - 1
        for back in range(min(_MAX_INTERVALS_SEARCHED, len(self.start_ps))):
            index = latest - back
            fits = (source < 0) & (latest >= back) & (self.thread[index] != thread)
            fits &= self.end_ps[index] >= when_ps
            source[fits] = self.thread[index][fits]
        return source


#: Number of work intervals to search for one that belongs to another thread.
_MAX_INTERVALS_SEARCHED: Final = 8


def _work_starts(threads: Sequence[Thread], work: _Work, quiet: Spans) -> Releases:
    others = [(k, part) for k, part in enumerate(threads) if not part.is_program]
    thread, when, _ = list_numbered((k, part.alive) for k, part in others)
    source, source_ps = work.last_ended(when, thread)
    late = when - source_ps > _MAX_WAKE_PS
    source[late], source_ps[late] = _NONE, when[late]
    if threads and threads[0].is_program:
        # The program's thread hands out work while it runs, or just before it waits.
        program = threads[0]
        waiting = program.for_thread | program.for_device | quiet
        index = np.searchsorted(waiting.start_ps, when, side="right") - 1
        busy = np.ones(len(when), np.bool_)
        moment = when.copy()
        if len(waiting):
            inside = (index >= 0) & (waiting.end_ps[index] > when)
            begun = waiting.start_ps[index]
            busy = ~inside | (when - begun <= _MAX_WAKE_PS)
            moment = np.where(inside, begun, when)
        alive_range = program.alive.time_range or (0, 0)
        busy &= (when >= alive_range[0]) & (when <= alive_range[1])
        source[busy], source_ps[busy] = 0, moment[busy]
    unknown = source < 0
    source[unknown] = work.last_begun(when, thread)[unknown]
    return Releases(thread, when, when.copy(), source, source_ps)


def _thread_waits(
    threads: Sequence[Thread], work: _Work, quiet: Sequence[Spans]
) -> Releases:
    releases = [
        _explain_waits(work, number, thread.for_thread, thread.handed)
        for number, thread in enumerate(threads)
    ]
    if threads and threads[0].is_program:
        waiting = threads[0].for_thread | quiet[0]
        releases[1:] = [_handed_over(waits, waiting) for waits in releases[1:]]
    driving = _Work.collect_work(threads, of_silence=True)
    for number, spans in enumerate(quiet):
        if not len(spans):
            continue
        handed = spans if threads[number].is_program else Spans.empty()
        silent = _explain_waits(driving, number, spans, handed)
        # A silence whose end is unexplained is the thread's own work.
        ended = silent.source >= 0
        releases.append(Releases(*(column[ended] for column in silent)))
    if not releases:
        nothing = np.empty(0, np.int64)
        return Releases(nothing, nothing, nothing, nothing, nothing)
    return Releases(*(np.concatenate(column) for column in zip(*releases, strict=True)))


def _explain_waits(work: _Work, number: int, spans: Spans, handed: Spans) -> Releases:
    """Find out which thread ends each wait of one thread.

    Args:
        handed: Waits for work handed to threads that may go on working after the wait.
    """
    began, when = spans.start_ps, spans.end_ps
    thread = np.full(len(when), number, np.int64)
    source, source_ps = work.last_ended(when, thread)
    near = when - source_ps <= np.maximum(
        _MAX_WAKE_PS, (when - began) // _MAX_DELAY_DIVISOR
    )
    near &= source_ps > began
    source[~near], source_ps[~near] = _NONE, when[~near]
    still = (source < 0) & (handed.within(began, when) > 0)
    source[still] = work.last_begun(when, thread)[still]
    return Releases(thread, when.copy(), began.copy(), source, source_ps)


def _handed_over(waits: Releases, waiting: Spans) -> Releases:
    """Explain waits that end when the program's thread, `threads[0]`, begins to wait.

    The program's thread has then handed work over, as in a backward pass.
    """
    begun = waiting.start_ps
    if not len(begun):
        return waits
    source, source_ps = waits.source.copy(), waits.source_ps.copy()
    after = np.searchsorted(begun, waits.when_ps, side="right")
    for near in (after - 1, after):
        index = np.clip(near, 0, len(begun) - 1)
        close = np.abs(begun[index] - waits.when_ps) <= _MAX_WAKE_PS
        close &= (source < 0) & (begun[index] > waits.began_ps)
        source[close] = 0
        source_ps[close] = np.minimum(begun[index], waits.when_ps)[close]
    return waits._replace(source=source, source_ps=source_ps)


#: Maximum time, as 1/n of a wait, from the end of the awaited work to the wait's end.
_MAX_DELAY_DIVISOR: Final = 20


def _silent_spans(threads: Sequence[Thread], number: int) -> Spans:
    """Return when a thread is silent while other threads work, perhaps for that thread.

    A silent interval counts only if other threads work for at least half of the
    interval. Within a launching op of the program, the time from the first start to the
    last end of other threads counts as work.
    """
    own = threads[number]
    busy = Spans.union_of(
        thread.alive
        for index, thread in enumerate(threads)
        if thread.silent_for and not thread.is_program and index != number
    )
    if not len(busy) or not (own.is_program or own.silent_for):
        return Spans.empty()
    moments = own.moments
    long = np.diff(moments) > _MIN_SILENCE_PS
    quiet = Spans.from_events(moments[:-1][long], np.diff(moments)[long])
    quiet = (quiet & own.alive) - own.for_thread - own.for_device
    length = quiet.end_ps - quiet.start_ps
    shared = busy.within(quiet.start_ps, quiet.end_ps)
    in_op = own.dispatching.within(quiet.start_ps, quiet.end_ps) == length
    first = np.searchsorted(busy.start_ps, quiet.start_ps, side="left")
    last = np.searchsorted(busy.end_ps, quiet.end_ps, side="right") - 1
    inside = in_op & (first <= last) & own.is_program
    shared[inside] = np.maximum(
        shared[inside], busy.end_ps[last[inside]] - busy.start_ps[first[inside]]
    )
    chosen = (shared >= _MIN_SHARED_SHARE * length) & (length > _MIN_SILENCE_PS)
    begun, ended = quiet.start_ps[chosen], quiet.end_ps[chosen]
    # Before the other threads begin, the silent thread itself works.
    first = np.minimum(first[chosen], len(busy) - 1)
    later = (busy.within(begun, begun + 1) == 0) & (busy.start_ps[first] > begun)
    begun = np.where(later, busy.start_ps[first], begun)
    return Spans(begun, ended)
