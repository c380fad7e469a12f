"""What the host was doing: possible causes (owners) of idle instants.

The launching thread is considered first. While this thread has no event, or only waits
for other threads, the other threads that drive the step are considered together.

Definition: docs/where-a-steps-time-goes.md#what-the-host-did.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from msgspec.structs import replace

from stepscope.derive.account.function_states import (
    NO_SPANS,
    SPAN_FIELDS,
    FunctionSpans,
    states_by_functions,
)
from stepscope.derive.account.places import marker_names
from stepscope.derive.account.thread_waits import common_spans, off_core
from stepscope.derive.columns.arrays import handles
from stepscope.derive.host.function_purposes import work_of_call
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import SYSTEM_CLASSES, EventFlag, HostClass
from stepscope.derive.step_time.host_codes import SHORT_OP_PS
from stepscope.derive.step_time.host_time import THREAD_WAITS, HostCode
from stepscope.derive.step_time.threads import EVIDENCE, of_the_program
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import absent_mask
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from stepscope.array_types import Bools, UInt8s
    from stepscope.derive.account.thread_waits import ThreadSleep
    from stepscope.derive.device.correlation import LaunchLatency
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_lines import FunctionLines
    from stepscope.derive.host.function_purposes import FunctionPurposes
    from stepscope.derive.intervals.spans import TrackRows
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.steps.chosen import Steps

    #: Returns the times at which threads are in a state (`HostCode`).
    _State = Callable[[HostCode], Spans]

#: Pairs (cause, instants): the first match at an instant wins; causes may recur.
Claims = tuple[tuple[str, Spans], ...]

#: A gap between launches or ops counts as computing of the program if it is longer than
#: 1 ms and longer than this number of launch latencies.
_MIN_WORK_GAP_PS: Final = 1 * PS_PER_MS
_MIN_WORK_GAP_LATENCIES: Final = 20

_WRAPPERS: Final = (
    EventFlag.EAGER_WRAPPER
    | EventFlag.EXECUTOR
    | EventFlag.FUNCTION_CALL
    | EventFlag.FUNCTION_RUN
    | EventFlag.ALLOCATOR
    | EventFlag.THREADPOOL
    | EventFlag.TRACE_CONTEXT
    | EventFlag.PROFILER_STEP
    | EventFlag.CONTROL_FLOW
    | EventFlag.END_THUNK
)
#: A line with only these codes contains notes about a thread that has another track.
_NOTED: Final = frozenset({HostCode.COMPILE, HostCode.GARBAGE})
_INPUT: Final = (
    HostCode.INPUT_WAIT,
    HostCode.OWN_INPUT,
    HostCode.ITERATOR,
    HostCode.COPY_IN,
    HostCode.FILE_READ,
)
#: Codes of producing a batch, on a thread that another thread may wait for.
_PRODUCING_CODES: Final = (HostCode.OWN_INPUT, HostCode.ITERATOR)
_OUTPUT: Final = (HostCode.OUTPUT, HostCode.READ_BACK, HostCode.COPY_OUT)
#: A span with one of these codes begins when a thread goes from one op to the next.
_BEGINS: Final = (
    HostCode.LAUNCH,
    HostCode.DISPATCH,
    HostCode.HOST_COMPUTE,
    HostCode.LAUNCH_OR_COMPUTE,
    HostCode.COPY_IN,
    HostCode.COPY_OUT,
)
_LAUNCHING: Final = (HostCode.LAUNCHING, HostCode.LAUNCH_OR_COMPUTE)
_LAUNCHES: Final = (HostCode.LAUNCH, HostCode.LAUNCH_OR_COMPUTE)
_WAITING: Final = (
    *(HostCode.SYNC, HostCode.READ_BACK),
    *(HostCode.BLOCKED, HostCode.PIPELINE),
    *(HostCode.COPY_IN, HostCode.COPY_OUT),
    HostCode.SYSTEM_WAIT,
)
#: Codes of recorded events; they have priority over sampled functions.
_RECORDED_CODES: Final = (HostCode.HOST_COMPUTE, HostCode.GARBAGE)
#: Codes of computing; a computing thread does not wait for input of another thread.
_WORKING: Final = (
    *(HostCode.LAUNCHING, HostCode.HOST_COMPUTE, HostCode.LAUNCH_OR_COMPUTE),
    *(HostCode.COPY_IN, HostCode.COPY_OUT),
    *(HostCode.COMPILE, HostCode.TRACING),
    HostCode.SYSTEM_CALL,
)
#: Codes of a blocked thread, on a host without devices.
_BLOCKED: Final = (HostCode.SYNC, HostCode.READ_BACK, HostCode.SYSTEM_WAIT)


def min_work_gap_ps(latency_ps: int) -> int:
    """Return the length, in ps, from which a gap between ops counts as computing."""
    return max(_MIN_WORK_GAP_PS, _MIN_WORK_GAP_LATENCIES * latency_ps)


class HostStates(Frozen, frozen=True):
    """The times at which the threads of a host were in each state.

    Causes are computed only for short spans, such as a device's idle time.

    Attributes:
        threads: Rows of tracks of the threads whose state is considered.
        notes: Those of `threads` whose events are only notes about a thread of the
            program with a separate track.
        marks: When the program marks steps, or functions of the recorder run.
        chores: When ranges named as callbacks, metrics, evaluations or logs ran.
        dense: When ops or launches begin in quick succession on the step threads.
        function_spans: Row of tracks → what functions and annotated ranges show.
    """

    classes: HostClasses
    threads: tuple[int, ...]
    notes: tuple[int, ...]
    profiler: Spans
    marks: Spans
    chores: Spans
    between: Spans
    dense: Spans
    function_spans: dict[int, FunctionSpans]
    off_core: dict[int, Spans]

    def program_threads(self) -> tuple[int, ...]:
        """Return those of `threads` that have functions or events of the program."""
        return tuple(track for track in self.threads if track in self.function_spans)

    def thread_claims(self, track: int, within: Spans, of_any_thread: Claims) -> Claims:
        """Return the causes of the time in `within`, judged by one launching thread.

        Args:
            of_any_thread: Result of `claims_of_any_thread` for the same set.
        """
        active = self.doing_spans(track, within)
        lines = (track, *self.notes) if track in self.program_threads() else (track,)
        own = self._ordered_claims(
            _union_states([self.classes.code_spans(line, within) for line in lines]),
            self.function_spans.get(track, NO_SPANS).limit_to(within),
            within,
            active=active,
            away=self.off_core.get(track, Spans.empty()),
        )
        # `own` and `of_any_thread` have the same causes in the same order. For each
        # cause, the launching thread comes before the other threads.
        return tuple(
            claim
            for (owner, spans), (_, other) in zip(own, of_any_thread, strict=True)
            for claim in ((owner, spans), (owner, other - active))
        )

    def claims_of_any_thread(self, within: Spans) -> Claims:
        """Return the causes of the time in `within`, judged by all step threads."""
        return self._ordered_claims(
            self._state_of_threads(within),
            self._states_within(within),
            within,
            active=None,
            away=self._away_together(),
        )

    def claims_without_device(self, within: Spans) -> Claims:
        """Return the causes of time on a host without a device, from step threads."""
        functions = self._states_within(within)
        state = self._state_of_threads(within)
        work = self.classes.host_compute
        # The library communicates on a separate thread, so a thread that computes
        # meanwhile is not waiting for peers.
        peers = _code_on_any_thread(self.classes, HostCode.PEER, within)
        peers = peers - state(HostCode.HOST_COMPUTE)
        away = self._away_together().lasting(SHORT_OP_PS)
        waits = self.classes.input_wait
        return (
            ("profiler", self.profiler),
            ("compile", state(HostCode.COMPILE) | state(HostCode.TRACING)),
            (
                "peer",
                (state(HostCode.PEER) - self.classes.computing)
                | peers
                | functions.exchanging,
            ),
            # Ops and garbage collections are recorded as events. Stack samples are late
            # on a busy machine and during garbage collections.
            (
                "input",
                waits
                | state(HostCode.FILE_READ)
                | self._waits_for_batch(state, within)
                | _subtract_codes(functions.fetching, state, _RECORDED_CODES),
            ),
            ("output", state(HostCode.OUTPUT) | functions.writing),
            ("between", (self.chores | state(HostCode.GARBAGE)) & self.between),
            ("wait", functions.sleeping - functions.named - state(HostCode.GARBAGE)),
            *((("host_compute", work),) if not isinstance(work, Unavailable) else ()),
            ("host_compute", state(HostCode.GARBAGE) | state(HostCode.SYSTEM_CALL)),
            ("sync", _union_codes(state, _BLOCKED) | functions.waiting),
            ("sync", away),
            ("host_compute", functions.named | functions.calling),
            ("between", self.between),
        )

    def _ordered_claims(
        self,
        state: _State,
        functions: FunctionSpans,
        within: Spans,
        *,
        active: Spans | None,
        away: Spans,
    ) -> Claims:
        # A long time without ops is computing in the program if a function or range is
        # recorded for it. If a long op launches only at its end, the time before the
        # launch is computing. The few long intervals are found first.
        dense = within & self.dense
        long = functions.named - dense
        silent = _subtract_codes(long, state, (*_LAUNCHES, *_WAITING))
        swift = dense if active is None else dense & active
        # A thread without a core does nothing, whatever range it is in.
        unscheduled = away.lasting(SHORT_OP_PS)
        silent, swift = silent - unscheduled, swift - unscheduled
        garbage = state(HostCode.GARBAGE)
        waits = _code_on_any_thread(self.classes, HostCode.INPUT_WAIT, within)
        return (
            ("profiler", self.profiler),
            ("compile", state(HostCode.COMPILE) | state(HostCode.TRACING)),
            ("peer", state(HostCode.PEER) | functions.exchanging),
            (
                "input",
                _union_codes(state, _INPUT)
                | self._waits_for_batch(state, within)
                | _subtract_codes(waits | functions.fetching, state, _WORKING),
            ),
            ("output", _union_codes(state, _OUTPUT) | functions.writing),
            ("between", (self.chores | garbage) & self.between),
            ("wait", functions.sleeping - functions.named - garbage),
            (
                "host_compute",
                (state(HostCode.HOST_COMPUTE) - unscheduled)
                | garbage
                | silent
                | state(HostCode.SYSTEM_CALL)
                | (state(HostCode.DISPATCH) - dense - unscheduled),
            ),
            # All other host codes belong to one of the causes above.
            (
                "launch",
                (_union_codes(state, _LAUNCHING) - unscheduled)
                | (state(HostCode.LAUNCH) & unscheduled)
                | _subtract_codes(swift | functions.calling, state, _WAITING),
            ),
            (
                "sync",
                state(HostCode.SYNC)
                | state(HostCode.SYSTEM_WAIT)
                | functions.waiting
                | away,
            ),
            ("between", self.between),
        )

    def _states_within(self, within: Spans) -> FunctionSpans:
        return FunctionSpans(
            *(
                _union_within(
                    (
                        getattr(functions, field)
                        for functions in self.function_spans.values()
                    ),
                    within,
                )
                for field in SPAN_FIELDS
            )
        )

    def _waits_for_batch(self, state: _State, within: Spans) -> Spans:
        blocked = state(HostCode.SYSTEM_WAIT)
        if not len(blocked):
            return blocked
        return blocked & Spans.union_of(
            _code_on_any_thread(self.classes, code, within) for code in _PRODUCING_CODES
        )

    def _away_together(self) -> Spans:
        return common_spans(
            [self.off_core.get(track, Spans.empty()) for track in self.threads]
        )

    def loading_spans(self, within: Spans) -> Spans:
        """Return when any thread compiles or loads kernels."""
        return _code_on_any_thread(self.classes, HostCode.COMPILE, within)

    def doing_spans(self, track: int, within: Spans) -> Spans:
        """Return when a recorded event or function shows what a thread itself does."""
        if track not in self.threads:
            return Spans.empty()
        sets = self.classes.by_thread.get(track, {})
        recorded = [spans for code, spans in sets.items() if code not in THREAD_WAITS]
        functions = self.function_spans.get(track, NO_SPANS)
        return _union_within((*recorded, functions.named, functions.calling), within)

    def _state_of_threads(self, within: Spans) -> _State:
        classes = self.classes
        driving = set(classes.threads.driving_tracks())
        when = {
            track: within & classes.threads.driven_spans(track)
            if track in driving
            else within
            for track in self.threads
        }
        return _union_states(
            [classes.code_spans(track, spans) for track, spans in when.items()]
        )


def host_states(
    *,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    steps: Steps | Unavailable,
    host_classes: HostClasses,
    function_frames: FunctionFrames | Unavailable,
    profiler_work: Spans,
    function_lines: FunctionLines | Unavailable,
    function_purposes: FunctionPurposes | Unavailable,
    thread_sleep: ThreadSleep | Unavailable,
    non_step_frames: FunctionFrames | Unavailable,
    launch_latency: LaunchLatency | Unavailable,
    between_steps: Spans,
) -> HostStates:
    """Collect the states of the threads that drive the steps."""
    rows_of = host_classes.rows
    types = handles(events, "type")
    functions = states_by_functions(
        *(function_frames, function_lines, function_purposes),
        *(thread_sleep, non_step_frames),
        classes=host_classes,
    )
    calling = rows_of.tracks_having(types, of_the_program(event_types, event_kinds))
    threads, program = _considered_threads(tracks, calling, host_classes, functions)
    notes = _note_lines(tracks, calling, host_classes)
    threads += [track for track in notes if track not in threads]
    plain_classes = (HostClass.NONE, *SYSTEM_CLASSES)
    shows_activity = np.isin(event_kinds.host_class, plain_classes) & ~event_kinds.has(
        _WRAPPERS | EventFlag.PYTHON_FRAME
    )
    shows_activity &= ~event_types["name"].is_in(list(marker_names(steps))).to_numpy()
    chore = event_kinds.has(EventFlag.CHORE) & ~event_kinds.has(EventFlag.PYTHON_FRAME)
    # For threads outside `threads`, only the purposes of their functions count.
    nothing = Spans.empty()
    function_states = {
        track: replace(ran, named=nothing, sleeping=nothing, exchanging=nothing)
        for track, ran in functions.items()
    }
    for track in threads:
        # Time without events on a pool's thread does not show what the program does.
        if program[track]:
            rows = rows_of.track_rows(track)
            sets = host_classes.by_thread.get(track, {})
            plain = host_classes.code[rows] == HostCode.NOTHING
            ran = functions.get(track, NO_SPANS)
            named = rows_of.covered_spans(rows, shows_activity[types[rows]] & plain) | (
                ran.named - sets.get(HostCode.PIPELINE, Spans.empty())
            )
            named = named - ran.sleeping
            function_states[track] = replace(ran, named=named)
    latency_ps = (
        0 if isinstance(launch_latency, Unavailable) else launch_latency.latency_ps
    )
    calls = {}
    if not isinstance(function_lines, Unavailable):
        calls = function_lines.compiled_calls(threads)
    marks = (calls[name] for name in calls if work_of_call(name) == "marks_steps")
    return HostStates(
        classes=host_classes,
        threads=tuple(threads),
        notes=tuple(notes),
        profiler=profiler_work,
        marks=Spans.union_of(marks),
        chores=Spans.union_of(rows_of.spans_of_types(threads, types, chore)),
        between=between_steps,
        dense=_busy_with_ops(
            rows_of, threads, host_classes.code, max_gap_ps=min_work_gap_ps(latency_ps)
        ),
        function_spans=function_states,
        off_core=off_core(tracks, events, event_types, rows_of=rows_of),
    )


def _considered_threads(
    tracks: pl.DataFrame,
    calling: Bools,
    classes: HostClasses,
    functions: Mapping[int, FunctionSpans],
) -> tuple[list[int], Bools]:
    """Return the threads whose state matters, and whether each runs the program.

    Args:
        calling: By row of tracks: whether the track has calls or frames of the program.
    """
    on_host = absent_mask(tracks["device"])
    considered = [track for track in classes.threads.driving_tracks() if on_host[track]]
    program = on_host & calling
    program[list(functions)] = True
    if not program[considered].any():
        # Threads of a framework launch kernels for threads of the program.
        considered += np.flatnonzero(program).tolist()
    # Samples of an unknown thread count as samples of the program.
    sampled = tracks["kind"].to_numpy() == "samples"
    considered += [row for row in functions if sampled[row] and row not in considered]
    marked = classes.threads.by_evidence[EVIDENCE.index("marker")].any(axis=1)
    return considered, program | marked


def _note_lines(tracks: pl.DataFrame, calls: Bools, classes: HostClasses) -> list[int]:
    """Return the lines that contain only notes about the program's first thread.

    A profiler that numbers threads in its own way writes notes (sampled functions,
    compilations, garbage collections) on a separate line. Python calls the first thread
    `MainThread`, and on Linux its id is that of its process.
    """
    first = (pl.col("id") == pl.col("process")) | (pl.col("name") == "MainThread")
    on_host = pl.col("device").is_null() & (pl.col("kind") == "thread")
    chosen = tracks.select((first & on_host).fill_null(value=False)).to_series()
    return [
        track
        for track in np.flatnonzero(chosen.to_numpy()).tolist()
        if not calls[track]
        and _NOTED.issuperset(classes.by_thread.get(track, {}))
        and track not in classes.threads.driving_tracks()
    ]


def _union_states(threads: Sequence[_State]) -> _State:
    return cache(lambda code: Spans.union_of(state(code) for state in threads))


def _subtract_codes(spans: Spans, state: _State, codes: Iterable[HostCode]) -> Spans:
    for code in codes:
        if not len(spans):
            break
        spans = spans - state(code)
    return spans


def _union_codes(state: _State, codes: Iterable[HostCode]) -> Spans:
    return Spans.union_of(state(code) for code in codes)


def _code_on_any_thread(classes: HostClasses, code: HostCode, within: Spans) -> Spans:
    sets = (by_code[code] for by_code in classes.by_thread.values() if code in by_code)
    return _union_within(sets, within)


def _union_within(sets: Iterable[Spans], within: Spans) -> Spans:
    return Spans.union_of(within & spans for spans in sets)


def _busy_with_ops(
    rows_of: TrackRows, threads: Iterable[int], code: UInt8s, *, max_gap_ps: int
) -> Spans:
    """Return when a thread runs ops, or when a launch or op begins soon."""
    begins = np.zeros(256, np.uint8)
    begins[list(_BEGINS)] = 1
    return Spans.union_of(
        Spans.unite_near_starts(
            rows_of.start_ps[rows],
            rows_of.dur_ps[rows],
            code=code[rows],
            begins=begins,
            most_ps=max_gap_ps,
        )
        for rows in map(rows_of.track_rows, threads)
    )
