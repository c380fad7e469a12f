"""The threads of the replayed windows: when they are alive, and when they may wait.

The program's own thread is always alive: times without events are unrecorded work. Any
other thread without events is waiting for work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.intervals.spans import Spans, TrackRows
from stepscope.derive.step_time.host_time import HostCode
from stepscope.derive.step_time.threads import EVIDENCE
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import absent_mask
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import polars as pl

    from stepscope.array_types import Bools, Int64s
    from stepscope.derive.replay.activities import Activities, Sampled
    from stepscope.derive.step_time.host_classes import HostClasses

#: Minimum time without events, in ps, after which a thread counts as having no work.
_MIN_SILENCE_PS: Final = 50 * PS_PER_US
#: Maximum duration, in ps, of a wait for other threads that still counts as work.
MAX_SHORT_WAIT_PS: Final = 20 * PS_PER_US
#: A wait counts as work, such as producing the batch, if it contains at least
#: `_MIN_EVENTS_INSIDE` events, and one event per `_MAX_PS_PER_EVENT` on average.
_MIN_EVENTS_INSIDE: Final = 4
_MAX_PS_PER_EVENT: Final = 500 * PS_PER_US
_FOR_DEVICE: Final = (HostCode.SYNC, HostCode.READ_BACK)
_FOR_THREAD: Final = (
    *(HostCode.BLOCKED, HostCode.INPUT_WAIT),
    *(HostCode.PEER, HostCode.SYSTEM_WAIT),
)


class Thread(Frozen, frozen=True):
    """One thread in the replayed windows.

    Attributes:
        is_program: Whether the thread runs the program itself.
        alive: When the thread has work, including waits.
        for_device: When the thread is in calls that wait for device work.
        for_thread: When the thread is in calls that wait for anything else.
        handed: The part of `for_thread` in which other threads do work of this thread.
        dispatching: When the thread is in an op that launches, on any thread.
        silent_for: Whether the program's thread may wait for this one without an event.
    """

    track: int
    is_program: bool
    alive: Spans
    for_device: Spans
    for_thread: Spans
    handed: Spans
    dispatching: Spans
    silent_for: bool
    moments: Int64s


def find_threads(
    sampled: Sampled,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    *,
    classes: HostClasses,
    programs: Collection[int],
    activities: Activities | None,
) -> tuple[Thread, ...]:
    """Find the threads that launch, that drive steps, or that work for such threads.

    Args:
        programs: Rows of tracks of threads that run calls or frames of the program.
        activities: Device activities; None if there are none.

    Returns:
        The program's own thread first, then the other threads.
    """
    on_host = absent_mask(tracks["device"])
    driving = [track for track in classes.threads.driving_tracks() if on_host[track]]
    callers = [] if activities is None else np.unique(activities.caller).tolist()
    working = [track for track, sets in classes.by_thread.items() if sets]
    needed = (*driving, *callers, *working)
    chosen = dict.fromkeys(track for track in needed if track >= 0)
    reader = _ThreadReader(sampled, tracks, events, classes, activities)
    # Choose the thread that is the program itself.
    marks = classes.threads.by_evidence[EVIDENCE.index("marker")].sum(axis=1)

    def rank(track: int) -> tuple[int, bool, bool, int, int]:
        calls = 0 if activities is None else int((activities.caller == track).sum())
        sets = classes.by_thread.get(track, {})
        time = sum(spans.length_ps for spans in sets.values())
        asks = HostCode.INPUT_WAIT in sets
        return int(marks[track]), track in programs, asks, calls, time

    program = max(driving or list(chosen), key=rank, default=-1)
    threads = [
        reader.describe_thread(track, is_program=track == program) for track in chosen
    ]
    return tuple(
        sorted(
            (thread for thread in threads if len(thread.alive)),
            key=lambda thread: (not thread.is_program, thread.track),
        )
    )


class _ThreadReader:
    def __init__(
        self,
        sampled: Sampled,
        tracks: pl.DataFrame,
        events: pl.DataFrame,
        classes: HostClasses,
        activities: Activities | None,
    ) -> None:
        on_device = activities is not None
        self._activities = activities
        # Without a device, synchronising calls wait for another thread.
        self._for_device = _FOR_DEVICE if on_device else ()
        self._for_thread = _FOR_THREAD if on_device else (*_FOR_THREAD, *_FOR_DEVICE)
        self._on_device = on_device
        self._driving = frozenset(classes.threads.driving_tracks())
        self._from, self._to = sampled.lead_ps, sampled.last_ps
        self._open_end = sampled.open_end
        self._events = TrackRows.from_tables(tracks, events)
        self._classes = classes

    def describe_thread(self, track: int, *, is_program: bool) -> Thread:
        rows = self._events.track_rows(track)
        start = self._events.start_ps[rows]
        last = int(np.searchsorted(start, self._to, side="left"))
        start, dur = start[:last], self._events.dur_ps[rows][:last]
        inside = start + dur > self._from
        start, dur = start[inside], dur[inside]
        ran = Spans.from_events(start, dur).clip(self._from, self._to)
        sets = self._classes.by_thread.get(track, {})
        for_device = self._union_codes(sets, self._for_device)
        for_thread = self._union_codes(sets, self._for_thread) - for_device
        waits = _waits_without_work(for_thread, start)
        if self._activities is None:
            for_thread = waits
        else:
            is_caller = self._activities.caller == track
            called = np.sort(self._activities.called_ps[is_caller])
            first = np.searchsorted(called, waits.start_ps, side="left")
            plain = np.searchsorted(called, waits.end_ps, side="left") == first
            for_thread = Spans(waits.start_ps[plain], waits.end_ps[plain])
        return Thread(
            track,
            is_program,
            self._alive_spans(ran, is_program=is_program),
            for_device,
            for_thread,
            for_thread & self._union_codes(sets, (HostCode.BLOCKED,)),
            self._classes.code_spans(track, Spans.of([(self._from, self._to)]))(
                HostCode.DISPATCH
            ),
            self._on_device and track in self._driving,
            np.sort(np.concatenate((start, start + dur))),
        )

    def _alive_spans(self, ran: Spans, *, is_program: bool) -> Spans:
        bounds = ran.time_range
        if bounds is None:
            return ran
        if is_program:
            # The program works until `_to`, when the next window begins.
            end = bounds[1] if self._open_end else self._to + 1
            return Spans.of([(min(bounds[0], self._from), end)])
        pauses = ran.start_ps[1:] - ran.end_ps[:-1] > _MIN_SILENCE_PS
        return Spans(
            ran.start_ps[np.concatenate(([True], pauses))],
            ran.end_ps[np.concatenate((pauses, [True]))],
        )

    def _union_codes(
        self, sets: Mapping[int, Spans], codes: tuple[HostCode, ...]
    ) -> Spans:
        spans = (sets[code] for code in codes if code in sets)
        return Spans.union_of(spans).clip(self._from, self._to)


def _waits_without_work(waits: Spans, start: Int64s) -> Spans:
    long = waits.end_ps - waits.start_ps > MAX_SHORT_WAIT_PS
    waits = Spans(waits.start_ps[long], waits.end_ps[long])
    first = np.searchsorted(start, waits.start_ps, side="right")
    last = np.searchsorted(start, waits.end_ps, side="left")
    held = last - first
    is_dense: Bools = waits.end_ps - waits.start_ps < held * _MAX_PS_PER_EVENT
    works = (held >= _MIN_EVENTS_INSIDE) & is_dense
    return Spans(waits.start_ps[~works], waits.end_ps[~works])
