"""Which windows are replayed, their device activities with launch calls, and threads.

The program's own thread is always alive: times without events are unrecorded work. Any
other thread without events is waiting for work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import ACTIVITY_CODES, codes, handles, ints
from stepscope.derive.device.correlation import ASSUMED_LATENCY_PS
from stepscope.derive.intervals.spans import Spans, TrackRows
from stepscope.derive.reasons import WHY
from stepscope.derive.step_time.host_time import HostCode
from stepscope.derive.step_time.threads import EVIDENCE
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import absent_mask, fill_nulls
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import polars as pl

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.device.correlation import Correlation, LaunchFacts
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.step_windows.windows import Windows

#: Maximum number of replayed windows; more windows cost time and add little accuracy.
MAX_WINDOWS: Final = 20

#: A step with all of these flags does setup for later steps and is not replayed.
_COLD: Final = frozenset(("first", "compile", "outlier"))

NO_STEPS: Final = WHY["no_replayed_steps"]


class Sampled(Frozen, frozen=True):
    """Consecutive windows that are replayed.

    Attributes:
        bounds_ps: Starts of these windows, followed by the end of the last one.
        lead_ps: Start of the preceding window, which is replayed but not measured. If
            no window precedes: start of the first window; if windows begin with device
            work, earlier by the longest window.
        open_end: Whether no window begins at the end of the last one, which is when its
            work was done.
    """

    rows: Int64s
    bounds_ps: Int64s
    lead_ps: int
    by_device: bool
    open_end: bool

    @property
    def count(self) -> int:
        """Number of windows."""
        return len(self.rows)

    @property
    def first_ps(self) -> int:
        """Start of the measured time."""
        return int(self.bounds_ps[0])

    @property
    def last_ps(self) -> int:
        """End of the measured time."""
        return int(self.bounds_ps[-1])


_COPIES: Final = tuple(
    ACTIVITY_CODES[kind] for kind in ("h2d", "d2h", "p2p_copy", "local_copy")
)
#: Lower bound, in ps, for the usual gap between queued activities of a stream. The
#: usual gap is the percentile `_STREAM_GAP_PERCENTILE` of the measured gaps.
_MIN_STREAM_GAP_PS: Final = 3 * PS_PER_US
_STREAM_GAP_PERCENTILE: Final = 90
#: Edges explain a start up to this time (or one launch latency) after its due time.
_MAX_EXPLAINED_DELAY_PS: Final = 10 * PS_PER_US


class Pace(Frozen, frozen=True):
    """Usual delays of a device and its host; longer delays have other causes.

    Attributes:
        latency_ps: Time from a launch call to its activity on an idle stream.
        stream_gap_ps: Gap between two activities of a stream if the second is queued.
        late_ps: A start is unexplained if its edges allow it this much earlier.
    """

    latency_ps: int
    stream_gap_ps: int
    late_ps: int

    @classmethod
    def measure_pace(
        cls, facts: LaunchFacts | Unavailable, activities: Activities | None
    ) -> Pace:
        """Measure the usual delays from launches and from gaps on streams."""
        latency = ASSUMED_LATENCY_PS
        if not isinstance(facts, Unavailable):
            latency = facts.latency_ps
        late = max(_MAX_EXPLAINED_DELAY_PS, latency)
        gap = _MIN_STREAM_GAP_PS
        if activities is not None:
            free = activities.stream_edge_ps()
            waited = activities.start_ps - free
            in_time = activities.returned_ps <= free - 2 * latency
            usual = waited[in_time & (waited > 0) & (waited <= late)]
            if len(usual):
                gap = max(gap, int(np.percentile(usual, _STREAM_GAP_PERCENTILE)))
        return cls(latency, gap, late)


class Activities(Frozen, frozen=True):
    """Activities of the replayed windows, by stream and start.

    Attributes:
        number: Number that links the activity to its launch call; -1 if not recorded.
        launch: Row of launches; -1 if unknown or before the windows.
        caller: Row of tracks of the calling thread; -1 if `launch` is -1.
        called_ps: Start of the call; start of the activity if `launch` is -1.
        returned_ps: End of the call; start of the activity if `launch` is -1.
    """

    row: Int32s
    track: Int32s
    device: Int32s
    stream: Int64s
    number: Int64s
    start_ps: Int64s
    end_ps: Int64s
    launch: Int32s
    caller: Int32s
    called_ps: Int64s
    returned_ps: Int64s
    copy: Bools

    @property
    def previous(self) -> Int64s:
        """Index of the previous activity on the same stream; -1 for none."""
        before = np.arange(len(self.row), dtype=np.int64) - 1
        before[:1] = -1
        before[1:][self.track[1:] != self.track[:-1]] = -1
        return before

    def stream_edge_ps(self) -> Int64s:
        """Return the end of the previous activity on each stream; `-2**61` for none."""
        before = self.previous
        free = np.full(len(self.row), -(2**61), np.int64)
        has_before = before >= 0
        free[has_before] = self.end_ps[before[has_before]]
        return free


def collect_activities(
    sampled: Sampled,
    device_activity: pl.DataFrame | Unavailable,
    correlation: Correlation | Unavailable,
) -> Activities | None:
    """Return the device activities that ran or were launched in the windows.

    Returns:
        None if there are no such activities.
    """
    if isinstance(device_activity, Unavailable):
        return None
    start = ints(device_activity, "start_ps")
    chosen = (start >= sampled.lead_ps) & (start < sampled.last_ps)
    launch_of = np.full(len(start), -1, np.int32)
    called = dur = np.empty(0, np.int64)
    caller = np.empty(0, np.int32)
    if not isinstance(correlation, Unavailable):
        launches, launch_of = correlation.launches, correlation.launch_of_activity
        called, dur = ints(launches, "start_ps"), ints(launches, "dur_ps")
        caller = handles(launches, "track")
        # An activity after the windows belongs to them if it was launched in them.
        late = np.flatnonzero((start >= sampled.last_ps) & (launch_of >= 0))
        chosen[late] = called[launch_of[late]] < sampled.last_ps
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return None
    track = handles(device_activity, "track")[rows]
    order = np.lexsort((start[rows], track))
    rows = rows[order]
    launch = launch_of[rows].astype(np.int32)
    known = launch >= 0
    known[known] = called[launch[known]] >= sampled.lead_ps
    launch = np.where(known, launch, np.int32(-1)).astype(np.int32)
    begun = start[rows]
    returned = begun.copy()
    when = begun.copy()
    threads = np.full(len(rows), -1, np.int32)
    when[known] = called[launch[known]]
    returned[known] = when[known] + dur[launch[known]]
    threads[known] = caller[launch[known]]
    return Activities(
        row=rows.astype(np.int32),
        track=track[order],
        device=handles(device_activity, "device")[rows],
        stream=ints(device_activity, "stream")[rows],
        number=fill_nulls(device_activity["correlation"][rows], -1),
        start_ps=begun,
        end_ps=begun + ints(device_activity, "dur_ps")[rows],
        launch=launch,
        caller=threads,
        called_ps=when,
        returned_ps=returned,
        copy=np.isin(codes(device_activity, "kind")[rows], _COPIES),
    )


def sample_windows(windows: Windows) -> Sampled | Unavailable:
    """Choose the last windows of the longest run of consecutive typical windows."""
    if not windows.has_steps:
        return NO_STEPS
    # Leave out long first steps that compile, unless only such steps exist.
    typical = np.flatnonzero(windows.typical)
    # Loop in Python: windows are few, and polars expressions over lists start slowly.
    cold = np.array(
        [_COLD.issubset(flags) for flags in windows.rows["flags"].to_list()], np.bool_
    )
    warm = typical[~cold[typical]]
    kept = warm if len(warm) else typical
    starts, ends = ints(windows.rows, "start_ps"), ints(windows.rows, "end_ps")
    kept = kept[ends[kept] > starts[kept]]
    if not len(kept):
        return NO_STEPS
    runs = np.split(kept, np.flatnonzero(np.diff(kept) != 1) + 1)
    rows = max(runs, key=len)[-MAX_WINDOWS:]
    first = int(rows[0])
    lead = int(starts[max(first - 1, 0)])
    if not first and windows.anchor == "device":
        # The host launched the first work before the first window begins.
        lead -= int((ends[rows] - starts[rows]).max())
    return Sampled(
        rows=rows,
        bounds_ps=np.append(starts[rows], ends[rows[-1]]),
        lead_ps=lead,
        by_device=windows.anchor == "device",
        open_end=int(rows[-1]) == len(starts) - 1,
    )


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
