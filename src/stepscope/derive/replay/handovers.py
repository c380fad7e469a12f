"""Which thread lets another thread continue.

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
from stepscope.frozen import Frozen
from stepscope.units import PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.array_types import Int64s
    from stepscope.derive.replay.activities import Thread

#: Maximum time, in ps, from the wake-up of a thread until it runs.
_MAX_WAKE_PS: Final = 200 * PS_PER_US
#: Minimum silence of the program's thread, in ps, that may be a wait for a thread.
_MIN_SILENCE_PS: Final = 100 * PS_PER_US
#: Minimum share of a silence during which other threads work.
_MIN_SHARED_SHARE: Final = 0.5
_NONE: Final = -1
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
