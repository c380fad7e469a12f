"""Which thread lets another one go on.

Few formats record it, so it is read from the times: a thread that had nothing to do
goes on when the program's thread, or a thread whose work ended just then, made it. A
thread that waits goes on when the work of another ends. Where nothing of the kind
happened shortly before, nothing explains it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np

from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen
from stepscope.units import PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.array_types import Int64s
    from stepscope.derive.replay.threads import Thread

#: A thread that is woken runs within this time.
_WAKES_PS: Final = 200 * PS_PER_US
#: The program's thread may wait for another where it is silent for this long.
_SILENCE_PS: Final = 100 * PS_PER_US
#: So much of its silence others have to work.
_SHARED: Final = 0.5
_NONE: Final = -1
#: A thread between two ops that are no further apart is on its way to the second.
_PAUSE_PS: Final = PS_PER_MS


class Releases(NamedTuple):
    """Moments at which threads go on, and what let them.

    Attributes:
        thread: Place of the thread that goes on, in the list of threads.
        when_ps: When it goes on: for a wait the end of the call.
        began_ps: When it began to wait; for new work the same as `when_ps`.
        source: Place of the thread that let it; -1 where nothing explains it.
        source_ps: When that one did, at most `when_ps`.
    """

    thread: Int64s
    when_ps: Int64s
    began_ps: Int64s
    source: Int64s
    source_ps: Int64s


class Handovers(Frozen, frozen=True, eq=True):
    """All that threads do for each other.

    Attributes:
        starts: Where a thread other than the program's gets something to do.
        waits: Where a wait for another thread ends.
    """

    starts: Releases
    waits: Releases


def find_handovers(threads: Sequence[Thread]) -> tuple[tuple[Thread, ...], Handovers]:
    """Find what let each thread go on; the program's thread is the first.

    Returns:
        The threads, each alive too in short pauses after which nothing but itself let
        it go on; and what let them.
    """
    work = _Work.collect_work(threads)
    quiet = [_silent_spans(threads, place) for place in range(len(threads))]
    waits = _thread_waits(threads, work, quiet)
    starts = _work_starts(threads, work, quiet[0] if quiet else Spans.empty())
    # Take short pauses of a driving thread that nothing explains for its own work. It
    # is then on its way to its next op, as the program's thread would be.
    is_own = np.zeros(len(starts.thread), np.bool_)
    found = []
    for number, one in enumerate(threads):
        mine = np.flatnonzero((starts.thread == number) & (starts.source < 0))
        if one.is_program or not one.silent_for or not len(mine):
            found.append(one)
            continue
        when = starts.when_ps[mine]
        at = np.searchsorted(one.alive.end_ps, when, side="right") - 1
        ended = one.alive.end_ps[np.maximum(at, 0)]
        short = (at >= 0) & (when - ended <= _PAUSE_PS)
        is_own[mine[short]] = True
        pauses = Spans.from_events(ended[short], (when - ended)[short])
        found.append(msgspec.structs.replace(one, alive=one.alive | pauses))
    kept = Releases(*(column[~is_own] for column in starts))
    return tuple(found), Handovers(kept, waits)


class _Work(Frozen, frozen=True, eq=True):
    """The intervals of work of all threads but the program's, two orders of them."""

    thread: Int64s
    start_ps: Int64s
    end_ps: Int64s
    by_end: Int64s

    @classmethod
    def collect_work(
        cls, threads: Sequence[Thread], *, of_silence: bool = False
    ) -> _Work:
        parts = [
            (place, one.alive - one.for_thread)
            for place, one in enumerate(threads)
            if not one.is_program and (one.silent_for or not of_silence)
        ]
        nothing = np.empty(0, np.int64)
        thread = np.concatenate(
            [nothing, *(np.full(len(spans), at, np.int64) for at, spans in parts)]
        )
        start = np.concatenate([nothing, *(spans.start_ps for _, spans in parts)])
        end = np.concatenate([nothing, *(spans.end_ps for _, spans in parts)])
        order = np.argsort(start, kind="stable")
        end = end[order]
        return cls(thread[order], start[order], end, np.argsort(end, kind="stable"))

    def last_ended(self, when_ps: Int64s, thread: Int64s) -> tuple[Int64s, Int64s]:
        """Return the last other thread whose work ended by a time, and when."""
        source = np.full(len(when_ps), _NONE, np.int64)
        source_ps = when_ps.copy()
        ends = self.end_ps[self.by_end]
        place = np.searchsorted(ends, when_ps, side="right") - 1
        for back in range(_LOOKED_BACK):
            at = np.maximum(place - back, 0)
            row = self.by_end[at] if len(ends) else at
            if not len(ends):
                break
            fits = (source < 0) & (place >= back) & (self.thread[row] != thread)
            source[fits], source_ps[fits] = self.thread[row][fits], ends[at][fits]
        return source, source_ps

    def last_begun(self, when_ps: Int64s, thread: Int64s) -> Int64s:
        """Return another thread that works at a time, the last one to begin."""
        source = np.full(len(when_ps), _NONE, np.int64)
        place = np.searchsorted(self.start_ps, when_ps, side="left") - 1
        for back in range(_LOOKED_BACK):
            if not len(self.start_ps):
                break
            at = np.maximum(place - back, 0)
            fits = (source < 0) & (place >= back) & (self.thread[at] != thread)
            fits &= self.end_ps[at] >= when_ps
            source[fits] = self.thread[at][fits]
        return source


#: This many intervals are looked at for one of another thread.
_LOOKED_BACK: Final = 8


def _work_starts(threads: Sequence[Thread], work: _Work, quiet: Spans) -> Releases:
    thread = np.concatenate(
        [
            np.empty(0, np.int64),
            *(
                np.full(len(one.alive), at, np.int64)
                for at, one in enumerate(threads)
                if not one.is_program
            ),
        ]
    )
    when = np.concatenate(
        [
            np.empty(0, np.int64),
            *(one.alive.start_ps for one in threads if not one.is_program),
        ]
    )
    source, source_ps = work.last_ended(when, thread)
    late = when - source_ps > _WAKES_PS
    source[late], source_ps[late] = _NONE, when[late]
    if threads and threads[0].is_program:
        # The program's thread hands out work while it runs, or before it waits.
        mine = threads[0]
        waiting = mine.for_thread | mine.for_device | quiet
        at = np.searchsorted(waiting.start_ps, when, side="right") - 1
        busy = np.ones(len(when), np.bool_)
        moment = when.copy()
        if len(waiting):
            inside = (at >= 0) & (waiting.end_ps[np.maximum(at, 0)] > when)
            begun = waiting.start_ps[np.maximum(at, 0)]
            busy = ~inside | (when - begun <= _WAKES_PS)
            moment = np.where(inside, begun, when)
        hull = mine.alive.hull or (0, 0)
        busy &= (when >= hull[0]) & (when <= hull[1])
        source[busy], source_ps[busy] = 0, moment[busy]
    rest = source < 0
    source[rest] = work.last_begun(when, thread)[rest]
    return Releases(thread, when, when.copy(), source, source_ps)


def _thread_waits(
    threads: Sequence[Thread], work: _Work, quiet: Sequence[Spans]
) -> Releases:
    found = [
        _explain_waits(work, place, one.for_thread, one.handed)
        for place, one in enumerate(threads)
    ]
    if threads and threads[0].is_program:
        waiting = threads[0].for_thread | quiet[0]
        found[1:] = [_handed_over(one, waiting) for one in found[1:]]
    driving = _Work.collect_work(threads, of_silence=True)
    for place, spans in enumerate(quiet):
        if not len(spans):
            continue
        handed = spans if threads[place].is_program else Spans.empty()
        silent = _explain_waits(driving, place, spans, handed)
        # Silence that nothing ends is the thread's own work.
        ended = silent.source >= 0
        found.append(Releases(*(column[ended] for column in silent)))
    if not found:
        nothing = np.empty(0, np.int64)
        return Releases(nothing, nothing, nothing, nothing, nothing)
    return Releases(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _explain_waits(work: _Work, place: int, spans: Spans, handed: Spans) -> Releases:
    """Explain where some waits of one thread end.

    Args:
        handed: Those of them for what it handed to threads that may go on afterwards.
    """
    began, when = spans.start_ps, spans.end_ps
    thread = np.full(len(when), place, np.int64)
    source, source_ps = work.last_ended(when, thread)
    near = when - source_ps <= np.maximum(_WAKES_PS, (when - began) // _PART)
    near &= source_ps > began
    source[~near], source_ps[~near] = _NONE, when[~near]
    still = (source < 0) & (handed.within(began, when) > 0)
    source[still] = work.last_begun(when, thread)[still]
    return Releases(thread, when.copy(), began.copy(), source, source_ps)


def _handed_over(found: Releases, waiting: Spans) -> Releases:
    """Explain waits that end as the program's thread, the first, begins to wait.

    It has handed its work on then, as to the thread that runs a backward pass.
    """
    begun = waiting.start_ps
    if not len(begun):
        return found
    source, source_ps = found.source.copy(), found.source_ps.copy()
    after = np.searchsorted(begun, found.when_ps, side="right")
    for near in (after - 1, after):
        at = np.clip(near, 0, len(begun) - 1)
        close = np.abs(begun[at] - found.when_ps) <= _WAKES_PS
        close &= (source < 0) & (begun[at] > found.began_ps)
        source[close] = 0
        source_ps[close] = np.minimum(begun[at], found.when_ps)[close]
    return found._replace(source=source, source_ps=source_ps)


#: The end of a wait is near the end of other work within this part of the wait.
_PART: Final = 20


def _silent_spans(threads: Sequence[Thread], place: int) -> Spans:
    """Return where a thread says nothing while others work, perhaps for it.

    They do so where they are there for half of the time; within an op of the program
    that launches it is enough that they begin soon and end late.
    """
    mine = threads[place]
    others = Spans.union_of(
        one.alive
        for at, one in enumerate(threads)
        if one.silent_for and not one.is_program and at != place
    )
    if not len(others) or not (mine.is_program or mine.silent_for):
        return Spans.empty()
    moments = mine.moments
    long = np.diff(moments) > _SILENCE_PS
    quiet = Spans.from_events(moments[:-1][long], np.diff(moments)[long])
    quiet = (quiet & mine.alive) - mine.for_thread - mine.for_device
    length = quiet.end_ps - quiet.start_ps
    shared = others.within(quiet.start_ps, quiet.end_ps)
    in_op = mine.dispatching.within(quiet.start_ps, quiet.end_ps) == length
    first = np.searchsorted(others.start_ps, quiet.start_ps, side="left")
    last = np.searchsorted(others.end_ps, quiet.end_ps, side="right") - 1
    some = in_op & (first <= last) & mine.is_program
    shared[some] = np.maximum(
        shared[some], others.end_ps[last[some]] - others.start_ps[first[some]]
    )
    chosen = (shared >= _SHARED * length) & (length > _SILENCE_PS)
    begun, ended = quiet.start_ps[chosen], quiet.end_ps[chosen]
    # Until the others begin, it is this thread that works.
    first = np.minimum(first[chosen], len(others) - 1)
    later = (others.within(begun, begun + 1) == 0) & (others.start_ps[first] > begun)
    begun = np.where(later, np.minimum(others.start_ps[first], ended - 1), begun)
    return Spans(begun, ended)
