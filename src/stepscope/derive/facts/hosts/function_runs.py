"""Execution times of the program's functions in the steps of a host without devices."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.account.function_parts import function_parts
from stepscope.derive.columns.arrays import ints
from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.hosts.own_lines import LineRuns, function_around_work
from stepscope.derive.facts.hosts.ran_ops import (
    RanOps,
    SampledTime,
    ran_ops,
    rows_of_threads,
)
from stepscope.derive.facts.savings.what_if_changes import Quiet
from stepscope.derive.host.core_time import thread_identities
from stepscope.derive.host.function_frames import MIN_INTERVAL_SAMPLES
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.run_derivation import of_each_host
from stepscope.derive.step_time.host_time import HostCode
from stepscope.derive.step_time.threads import EVIDENCE
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable, require_available
from stepscope.units import PS_PER_MS, PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.array_types import Bools, Int64s
    from stepscope.derive.account.host_states import HostStates
    from stepscope.derive.account.naming import Naming
    from stepscope.derive.account.time_by_cause import Account
    from stepscope.derive.facts.hosts.own_lines import OwnLines
    from stepscope.derive.host.core_time import CoreTime
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_lines import FunctionLines
    from stepscope.derive.host.function_names import FunctionKey
    from stepscope.derive.host.function_purposes import FunctionPurposes, KnownWork
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.trace.model import TraceData

#: The main activity of a function takes at least this percentage of its time.
MIN_MAIN_PERCENT: Final = 50.0
#: Time without ops counts as computing if a thread wants a core for this share of it.
_MIN_AWAKE_SHARE: Final = 0.8
#: A function with at least this share of the steps' time is the loop around them.
_MIN_LOOP_SHARE: Final = 0.95
#: Minimum time without ops that counts as computing; gaps between ops are shorter.
_SILENCE_PS: Final = PS_PER_MS


class FunctionRuns(Frozen, frozen=True, dict=True):
    """The times at which functions ran in the judged steps of a host without devices.

    Attributes:
        frames: Calls of functions.
        purposes: Purposes of known library functions.
        tracks: Rows of tracks of the threads whose functions are used. Threads that a
            framework started are excluded, unless no other thread has functions.
        inside: Time inside the judged steps in which the program neither waits nor
            compiles: other findings are about these times.
        working: When the host computes, according to the breakdown of step time.
        starts_ps: Start of each judged step.
        ends_ps: End of each judged step.
        threads: Rows of tracks of the threads that run the program.
        called: The ops that run on `threads`.
        ran: The ops that run on any thread that drives the steps.
        exchanging: When the host waits for other workers.
        collecting: When garbage is collected.
        awake: When the program's own thread wants a core; None if unknown.
        lines: Executed lines; None if not recorded.
        pooled: When any thread, including those of thread pools, ran ops.
    """

    host: str
    frames: FunctionFrames
    purposes: FunctionPurposes
    tracks: tuple[int, ...]
    inside: Spans
    working: Spans
    starts_ps: Int64s
    ends_ps: Int64s
    threads: tuple[int, ...]
    called: RanOps
    ran: RanOps
    exchanging: Spans
    collecting: Spans
    awake: Spans | None = None
    lines: FunctionLines | None = None
    pooled: Spans = Spans.empty()

    def time_of_function(self, part: Part) -> FunctionTime:
        """Return the time of a function or of some of its lines; empty if unknown."""
        time = self._functions.get(part.key) or FunctionTime(self, ())
        return time if part.lines is None else time.limited_to_lines(part.lines)

    @cached_property
    def _functions(self) -> dict[FunctionKey, FunctionTime]:
        kinds: dict[FunctionKey, list[int]] = defaultdict(list)
        for kind, name in self.frames.names.items():
            kinds[name.key].append(kind)
        return {key: FunctionTime(self, tuple(types)) for key, types in kinds.items()}

    @cached_property
    def total_ps(self) -> int:
        """Return the length of all judged steps, at least 1 ps."""
        return max(int((self.ends_ps - self.starts_ps).sum()), 1)

    @cached_property
    def is_blurred(self) -> bool:
        """Return whether a typical step is too short to contain enough samples."""
        hz = self.frames.hz
        if hz is None or not len(self.starts_ps):
            return False
        step_ps = np.median(self.ends_ps - self.starts_ps)
        return bool(step_ps <= MIN_INTERVAL_SAMPLES * PS_PER_S / hz)

    @cached_property
    def quiet(self) -> Spans:
        """Return when the host works while no thread runs an op."""
        return (self.working & self.inside) - self.ran.spans

    @cached_property
    def silence(self) -> Spans:
        """Return the intervals of `quiet` that last at least 1 ms."""
        return self.quiet.lasting(_SILENCE_PS)

    @cached_property
    def types_in_silence(self) -> list[int]:
        """Return the types of the functions during `silence`; -1 if none runs."""
        steps, silence = (self.starts_ps, self.ends_ps), self.silence
        return [
            part.type
            for track in self.tracks
            for part in function_parts(self.frames, silence, track=track, windows=steps)
            if not part.is_loop
        ]

    @cached_property
    def line_runs(self) -> LineRuns | None:
        """Return when each line ran; None if lines were not recorded."""
        if self.lines is None or self.frames.hz is None:
            return None
        return LineRuns(
            lines=self.lines,
            frames=self.frames,
            hz=self.frames.hz,
            tracks=self.tracks,
            inside=self.inside,
            working=(self.working & self.inside) - self.called.spans,
            unshared=self.quiet - self.pooled,
        )

    @cached_property
    def collector(self) -> Part | None:
        """Return the innermost function with most of the garbage collection time.

        Collection must be most of the function's time, which excludes the step loop.
        """
        collections = self.collecting & self.inside
        part = function_around_work(
            self.frames, collections, list(self.tracks), total_ps=self.total_ps
        )
        return part if part is not None and part.function is not None else None

    @cached_property
    def predicts_often(self) -> bool:
        """Return whether Keras's `predict` is called several times.

        One call of `predict` for many batches is normal. Samples may show several calls
        as one.
        """
        kinds = self.purposes.types_with_work("predicts", "begins_prediction")
        return any(int((self.frames.type == kind).sum()) > 1 for kind in kinds)

    def own_functions(self) -> tuple[Part, ...]:
        """Return the program's own functions that mostly compute in the judged steps.

        A function that fills nearly all steps is the step loop and is excluded. If
        functions mostly call Keras's `predict`, the innermost one is included.
        """
        working, predicting = [], []
        for kind, name in self.frames.names.items():
            # Functions without a name, such as `<lambda>`, are skipped.
            if name.library is not False or name.function.endswith(">"):
                continue
            ran, part = self.spans_of_types([kind]), Part.from_function(name, 0.0)
            if ran.length_ps >= _MIN_LOOP_SHARE * self.inside.length_ps:
                if self.time_of_function(part).mostly_predicts:
                    predicting.append(part)
            elif 2 * (ran & self.working).length_ps >= ran.length_ps > 0:
                working.append(part)
        # Sort outer functions before inner ones.
        predicting.sort(
            key=lambda part: int(np.argmax(self.time_of_function(part).rows))
        )
        return (*working, *predicting[-1:])

    def innermost_called(self, times: Sequence[FunctionTime]) -> int:
        """Return the index of the callee with most of the first function's work."""
        types = [time.kinds for time in times]
        return self.frames.innermost_called(types, self.inside)

    def spans_of_types(self, kinds: Sequence[int]) -> Spans:
        """Return when functions of some types ran on `tracks`, inside the steps."""
        types, start, length = self._runs_by_type
        first = np.searchsorted(types, kinds, side="left").tolist()
        past = np.searchsorted(types, kinds, side="right").tolist()
        spans = (
            Spans.from_events(start[begin:end], length[begin:end])
            for begin, end in zip(first, past, strict=True)
        )
        return Spans.union_of(spans) & self.inside

    @cached_property
    def _runs_by_type(self) -> tuple[Int64s, ...]:
        frames = self.frames
        on_tracks = np.flatnonzero(np.isin(frames.track, self.tracks))
        rows = on_tracks[np.argsort(frames.type[on_tracks], kind="stable")]
        length = frames.end_ps - frames.start_ps
        return frames.type[rows].astype(np.int64), frames.start_ps[rows], length[rows]


class FunctionTime(Frozen, frozen=True, dict=True):
    """The total time of one function in the judged steps.

    Attributes:
        runs: Data of all functions of the host.
        kinds: Event types of this function.
        only: Time to which the function is limited; None for all calls.
    """

    runs: FunctionRuns
    kinds: tuple[int, ...]
    only: Spans | None = None

    def limited_to_lines(self, lines: tuple[int, int]) -> FunctionTime:
        """Return the time of the function in a range of its lines."""
        spans = (
            line.spans for line in self.own_lines if (line.first, line.last) == lines
        )
        return FunctionTime(self.runs, self.kinds, Spans.union_of(spans))

    @cached_property
    def own_lines(self) -> tuple[OwnLines, ...]:
        """Return the lines that do host work other than calling ops."""
        lines = self.runs.line_runs
        return () if lines is None else lines.working_lines(self.kinds)

    @cached_property
    def rows(self) -> Bools:
        """Return, by row of frames, whether the frame is a call of this function."""
        return np.isin(self.runs.frames.type, self.kinds)

    @cached_property
    def called_rows(self) -> Bools:
        """Return by row of frames whether this function called it, directly or not."""
        return self.runs.frames.rows_called_from(self.rows)

    @cached_property
    def seen(self) -> Spans:
        """Return when the function ran according to samples or recorded calls."""
        sampled = self.runs.spans_of_types(self.kinds)
        return sampled if self.only is None else sampled & self.only

    @cached_property
    def sampled(self) -> SampledTime:
        """Return when the function certainly ran, without a margin at each end.

        The margin of a sampled call is half a sample period, the error of its times.
        """
        hz, spans = self.runs.frames.hz, self.seen
        if hz is None:
            return SampledTime(spans, spans, 0)
        # At most a quarter of each span is removed at each end, so the middle remains.
        lengths = spans.end_ps - spans.start_ps
        margins = np.minimum(int(PS_PER_S / hz / 2), lengths // 4)
        ran = Spans.from_events(spans.start_ps + margins, lengths - 2 * margins)
        return SampledTime(ran, spans, self.runs.inside.length_ps)

    @cached_property
    def calls(self) -> Spans:
        """Return when the function or its callees ran.

        A late sample shows a function that has already ended while the next ops run.
        Time of ops that mostly run outside the function is therefore excluded.
        """
        return self.seen - self.runs.called.spans_of_other_kinds(self.sampled)

    @cached_property
    def times_ps(self) -> tuple[int, ...]:
        """Return the total time of the function in each judged step."""
        runs, spans = self.runs, self.calls
        times = spans.within(runs.starts_ps, runs.ends_ps)
        if not len(spans) or not runs.is_blurred:
            return tuple(times.tolist())
        # With few samples per step, only the function's time in all steps is reliable.
        ops = runs.called.spans_of_other_kinds(self.sampled) & runs.inside
        max_ps = min(self.seen.length_ps, runs.inside.length_ps - ops.length_ps)
        scaled = times * (max(max_ps, spans.length_ps) / spans.length_ps)
        lengths = runs.ends_ps - runs.starts_ps
        return tuple(np.minimum(scaled, lengths).astype(np.int64).tolist())

    @property
    def looks(self) -> int | None:
        """Return the number of samples of the function; None if calls were recorded."""
        hz = self.runs.frames.hz
        return None if hz is None else round(self.seen.length_ps * hz / PS_PER_S)

    @property
    def repeats(self) -> bool:
        """Return whether the function, or the chosen lines, ran more than once."""
        runs = len(self.seen) if self.only is not None else int(self.rows.sum())
        return runs > 1

    def removal_change(self, *, effect_ms: float, only: Spans | None) -> Quiet:
        """Return the what-if edit that removes the function from the threads.

        Args:
            effect_ms: Time of the function in a mean step.
            only: Time that is removed; None for all calls.
        """
        return Quiet(self.calls if only is None else only, self.runs.threads, effect_ms)

    @cached_property
    def alone(self) -> Spans:
        """Return when the function itself works while no op runs; empty if unproven.

        Callees are included, except those that have their own parts of `silence`. Gaps
        below 1 ms prove nothing, because every caller of ops has them. Longer gaps may
        be waits for unrecorded ops. Longer gaps count if the thread's CPU time shows
        that it works, or if the gaps are most of the function's time.
        """
        runs = self.runs
        in_silence = runs.types_in_silence
        if not np.isin(in_silence, self.kinds).any():
            return Spans.empty()
        called = set(runs.frames.type[self.called_rows].tolist()) - set(self.kinds)
        itself = self.seen - runs.spans_of_types(
            [kind for kind in in_silence if kind in called]
        )
        quiet, silent = itself & runs.quiet, itself & runs.silence
        works = runs.awake is not None and (
            (silent & runs.awake).length_ps >= _MIN_AWAKE_SHARE * silent.length_ps
        )
        min_ps = quiet.length_ps if works else max(quiet.length_ps, sum(self.times_ps))
        return quiet if 2 * silent.length_ps >= min_ps else Spans.empty()

    def percent_within(self, spans: Spans) -> float:
        """Return the percentage of the function's time that is within some spans."""
        return 100 * (spans & self.seen).length_ps / max(self.seen.length_ps, 1)

    def percent_of_work(self, *works: KnownWork) -> float:
        """Return the percentage of the function's time in some kinds of work."""
        kinds = self.runs.purposes.types_with_work(*works)
        return self.percent_within(self.runs.spans_of_types(kinds)) if kinds else 0.0

    @property
    def ops_percent(self) -> float:
        """Return the percentage of the function's time in which ops run."""
        running = self.runs.called.spans & self.calls
        return 100 * running.length_ps / max(self.calls.length_ps, 1)

    @property
    def collects_percent(self) -> float:
        """Return the share of step time in which the function collects garbage."""
        collections = self.runs.collecting & self.seen
        return 100 * collections.length_ps / self.runs.total_ps

    @property
    def mostly_predicts(self) -> bool:
        """Return whether repeated `predict` calls take half of the function's time."""
        predicts = self.percent_of_work("predicts")
        return self.runs.predicts_often and predicts >= MIN_MAIN_PERCENT

    def calls_work(self, work: KnownWork) -> bool:
        """Return whether the function calls library functions of a kind of work."""
        kinds = self.runs.purposes.types_with_work(work)
        return bool(np.isin(self.runs.frames.type[self.called_rows], kinds).any())

    @property
    def calls_numpy(self) -> bool:
        """Return whether code of the program, not of a library, calls NumPy in it."""
        frames = self.runs.frames
        kinds = self.runs.purposes.types_with_work("computes_in_numpy")
        called = np.isin(frames.type, kinds) & self.called_rows & (frames.parent >= 0)
        callers = set(frames.type[frames.parent[called]].tolist())
        return any(not frames.names[caller].library for caller in callers)

    @property
    def asks_the_model(self) -> bool:
        """Return whether the function runs the model but does not train it."""
        return self.calls_work("runs_the_model") and not self.calls_work("trains")

    @property
    def is_in_the_model(self) -> bool:
        """Return whether a part of the model, such as `forward`, calls the function."""
        kinds = self.runs.purposes.types_with_work("runs_the_model")
        parts = np.isin(self.runs.frames.type, kinds)
        return bool((self.runs.frames.rows_called_from(parts) & self.rows).any())

    @cached_property
    def is_the_step(self) -> bool:
        """Return whether the model runs during the function, called by it or not.

        A function in at least half of the steps needs to contain the forward or the
        backward pass. A function in fewer steps, such as validation, must contain both.
        """
        contains_model = self.runs.ran.run_within(SampledTime(self.seen, self.seen, 0))
        if 2 * self.times_ps.count(0) > len(self.times_ps):
            return contains_model
        return contains_model or self.runs.ran.pass_runs_within(self.sampled)

    @property
    def calls_the_model(self) -> bool:
        """Return whether the function is a step that calls the model's ops."""
        trains = self.calls_work("trains")
        return trains or (
            self.runs.called.run_within(self.sampled) and self.is_the_step
        )


@of_each_host
def function_runs(
    *,
    trace: TraceData,
    account: Account,
    function_frames: FunctionFrames,
    function_purposes: FunctionPurposes,
    host_states: HostStates,
    function_lines: FunctionLines | Unavailable,
    windows: Windows,
    naming: Naming | Unavailable,
    core_time: CoreTime | Unavailable,
) -> FunctionRuns | None:
    """Collect the function times of each host without devices."""
    host = next((device for device in account.devices if device.device is None), None)
    if host is None:
        return None
    judged = windows.judged
    driving = host_states.classes.threads
    marked = driving.by_evidence[EVIDENCE.index("marker")].any(axis=1)
    pooled = host_states.classes.host_compute
    threads = np.flatnonzero(marked).tolist() or driving.driving_tracks()
    all_threads = {*host_states.threads, *threads}
    own = all_threads - (function_frames.of_framework - set(threads))
    if not own.intersection(np.unique(function_frames.track).tolist()):
        own = all_threads
    lines = None if isinstance(function_lines, Unavailable) else function_lines.known()
    events = require_available(trace.table("events"))
    rows = rows_of_threads(host_states, [*host_states.threads])
    rows = rows[host_states.classes.code[rows] == HostCode.GARBAGE]
    program = None
    if not isinstance(naming, Unavailable) and not isinstance(core_time, Unavailable):
        ids = thread_identities(require_available(trace.table("tracks")))
        tracks = naming.function_tracks[:1]
        program = next((core_time.threads.get(ids[track]) for track in tracks), None)
    return FunctionRuns(
        host=trace.host,
        frames=function_frames,
        purposes=function_purposes,
        tracks=tuple(own),
        inside=judged - host.between - host.idle["wait"] - host.idle["compile"],
        working=(host.idle["host_compute"] & judged) - host.between,
        starts_ps=ints(windows.measured, "start_ps"),
        ends_ps=ints(windows.measured, "end_ps"),
        threads=tuple(threads),
        called=ran_ops(trace, host_states, threads, judged),
        ran=ran_ops(trace, host_states, driving.driving_tracks(), judged),
        exchanging=host.idle["peer"],
        collecting=Spans.from_rows(events, rows),
        awake=None if program is None else program.awake,
        lines=lines,
        pooled=Spans.empty() if isinstance(pooled, Unavailable) else pooled,
    )
