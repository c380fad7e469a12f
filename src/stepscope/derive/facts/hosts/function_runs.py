"""When functions of the program run in the steps of a host without devices."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.account.function_parts import function_parts
from stepscope.derive.columns.arrays import ints
from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.hosts.own_lines import LineRuns, around_most
from stepscope.derive.facts.hosts.ran_ops import (
    RanOps,
    SampledTime,
    ran_ops,
    rows_of_threads,
)
from stepscope.derive.facts.replaying.edits import Quiet
from stepscope.derive.host.core_time import thread_places
from stepscope.derive.host.function_frames import FEW_LOOKS
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
    from stepscope.derive.account.owned_time import Account
    from stepscope.derive.facts.hosts.own_lines import OwnLines
    from stepscope.derive.host.core_time import CoreTime
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_lines import FunctionLines
    from stepscope.derive.host.function_purposes import FunctionPurposes, KnownWork
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.trace.model import TraceData

#: What takes this share of a function's time is what the function does.
MOSTLY_PERCENT: Final = 50.0
#: Nearly all of a silence in which the thread wants a core is its work.
_NEARLY_ALL: Final = 0.8
#: A function that runs for this share of the steps is their loop.
_LOOP: Final = 0.95
#: From one op to the next a caller of ops needs far less: what takes this long is work.
_SILENCE_PS: Final = PS_PER_MS


class FunctionRuns(Frozen, frozen=True, dict=True):
    """When functions ran inside the judged steps of a host without devices.

    It is no group of numbers: what a rule asks for is worked out then.

    Attributes:
        host: Name of the host.
        frames: The functions that ran.
        purposes: What functions of known libraries do.
        tracks: Rows of tracks of the threads that are asked for them: of those that
            a framework began, only what its ops call holds a step.
        inside: The judged steps, while their own work goes on.
        working: When the host's work is what the account names there.
        starts_ps: Begin of each judged step.
        ends_ps: End of each.
        threads: Rows of tracks of the threads that run the program.
        called: The ops that these threads ran.
        ran: The ops that any thread ran.
        exchanging: When the host waited for other workers, as the account has it.
        collecting: When garbage was collected.
        awake: When the program's own thread wanted a core; None where nothing tells.
        lines: The lines that ran; None where none were recorded.
        pooled: When any thread, those of pools too, ran ops.
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
        """Return a function, or some of its lines; one that never ran where unknown."""
        key = part.function, part.file, part.line
        time = self._functions.get(key) or FunctionTime(self, ())
        return time if part.lines is None else time.limited_to_lines(part.lines)

    @cached_property
    def _functions(
        self,
    ) -> dict[tuple[str | None, str | None, int | None], FunctionTime]:
        kinds = defaultdict(list)
        for kind, name in self.frames.names.items():
            kinds[name.function, name.file, name.line].append(kind)
        return {key: FunctionTime(self, tuple(of)) for key, of in kinds.items()}

    @cached_property
    def total_ps(self) -> int:
        """Return the length of all judged steps, 1 ps at least."""
        return max(int((self.ends_ps - self.starts_ps).sum()), 1)

    @cached_property
    def is_blurred(self) -> bool:
        """Return whether samples come so rarely that a step holds few of them."""
        hz = self.frames.hz
        if hz is None or not len(self.starts_ps):
            return False
        step_ps = np.median(self.ends_ps - self.starts_ps)
        return bool(step_ps <= FEW_LOOKS * PS_PER_S / hz)

    @cached_property
    def quiet(self) -> Spans:
        """Return when the host works and no thread runs an op."""
        return (self.working & self.inside) - self.ran.spans

    @cached_property
    def silence(self) -> Spans:
        """Return the long intervals of that."""
        quiet = self.quiet
        is_long = quiet.end_ps - quiet.start_ps >= _SILENCE_PS
        return Spans(quiet.start_ps[is_long], quiet.end_ps[is_long])

    @cached_property
    def types_in_silence(self) -> list[int]:
        """Return the functions that these intervals are divided among."""
        steps, silence = (self.starts_ps, self.ends_ps), self.silence
        return [
            part.type
            for track in self.tracks
            for part in function_parts(self.frames, silence, track=track, windows=steps)
            if part.type >= 0 and not part.is_loop
        ]

    @cached_property
    def line_runs(self) -> LineRuns | None:
        """Return when the lines ran; None where they are not known."""
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
        """Return the deepest function of the program that holds most collections.

        Most of it is collecting garbage: the loop around all of a step is no answer.
        """
        collections = self.collecting & self.inside
        tracks = list(self.tracks)
        part = around_most(self.frames, collections, tracks, total_ps=self.total_ps)
        return part if part is not None and part.function is not None else None

    @cached_property
    def predicts_often(self) -> bool:
        """Return whether Keras's `predict` is called several times.

        Samples may join its calls. One call is for many batches, as it should be.
        """
        kinds = self.purposes.types_with_work("predicts", "begins_prediction")
        return any(int((self.frames.type == kind).sum()) > 1 for kind in kinds)

    def own_functions(self) -> tuple[Part, ...]:
        """Return the program's own functions that mostly work in the judged steps.

        What is nearly all of them is their loop; where the steps are calls of Keras's
        `predict`, the innermost function that makes them is no loop.
        """
        working, predicting = [], []
        for kind, name in self.frames.names.items():
            # What has no name is a part of another function, or the whole program.
            if name.library is not False or name.function.endswith(">"):
                continue
            ran, part = self.spans_of_types([kind]), Part.from_function(name, 0.0)
            if ran.length_ps >= _LOOP * self.inside.length_ps:
                if self.time_of_function(part).mostly_predicts:
                    predicting.append(part)
            elif 2 * (ran & self.working).length_ps >= ran.length_ps > 0:
                working.append(part)
        # Frames are in order, outer ones first.
        predicting.sort(
            key=lambda part: int(np.argmax(self.time_of_function(part).rows))
        )
        return (*working, *predicting[-1:])

    def spans_of_types(self, kinds: Sequence[int]) -> Spans:
        """Return when functions of some types ran on the threads that are asked."""
        types, start, length = self._runs_by_type
        first = np.searchsorted(types, kinds, side="left").tolist()
        past = np.searchsorted(types, kinds, side="right").tolist()
        every = (
            Spans.from_events(start[begin:end], length[begin:end])
            for begin, end in zip(first, past, strict=True)
        )
        return Spans.union_of(every) & self.inside

    @cached_property
    def _runs_by_type(self) -> tuple[Int64s, ...]:
        of = self.frames
        asked = np.flatnonzero(np.isin(of.track, self.tracks))
        rows = asked[np.argsort(of.type[asked], kind="stable")]
        length = of.end_ps - of.start_ps
        return of.type[rows].astype(np.int64), of.start_ps[rows], length[rows]


class FunctionTime(Frozen, frozen=True, dict=True):
    """The time of one function in the judged steps, total time.

    Attributes:
        runs: All functions.
        kinds: The types that are this function.
        only: When it counts; None for whenever it ran.
    """

    runs: FunctionRuns
    kinds: tuple[int, ...]
    only: Spans | None = None

    def limited_to_lines(self, lines: tuple[int, int]) -> FunctionTime:
        """Return the function as far as it is at some of its own lines."""
        spans = (it.spans for it in self.own_lines if (it.first, it.last) == lines)
        return FunctionTime(self.runs, self.kinds, Spans.union_of(spans))

    @cached_property
    def own_lines(self) -> tuple[OwnLines, ...]:
        """Return its lines that do work of their own; nothing where none are known."""
        lines = self.runs.line_runs
        return () if lines is None else lines.working_lines(self.kinds)

    @cached_property
    def rows(self) -> Bools:
        """Return which of all frames are calls of it."""
        return np.isin(self.runs.frames.type, self.kinds)

    @cached_property
    def called_rows(self) -> Bools:
        """Return which of all frames it called."""
        return self.runs.frames.rows_called_from(self.rows)

    @cached_property
    def seen(self) -> Spans:
        """Return when samples say that it ran."""
        seen = self.runs.spans_of_types(self.kinds)
        return seen if self.only is None else seen & self.only

    @cached_property
    def sampled(self) -> SampledTime:
        """Return when it surely ran: up to half a look beyond samples is left out."""
        hz, spans = self.runs.frames.hz, self.seen
        if hz is None:
            return SampledTime(spans, spans, 0)
        # Of a run that one look found, the middle is the surest.
        lengths = spans.end_ps - spans.start_ps
        margins = np.minimum(int(PS_PER_S / hz / 2), lengths // 4)
        ran = Spans.from_events(spans.start_ps + margins, lengths - 2 * margins)
        return SampledTime(ran, spans, self.runs.inside.length_ps)

    @cached_property
    def calls(self) -> Spans:
        """Return when it ran, total time.

        Samples may come late, so that what follows a function seems to be called by
        it: ops of kinds that mostly run at other times are none of it.
        """
        return self.seen - self.runs.called.spans_of_other_kinds(self.sampled)

    @cached_property
    def times_ps(self) -> tuple[int, ...]:
        """Return what it takes in each judged step, total time."""
        runs, spans = self.runs, self.calls
        times = spans.within(runs.starts_ps, runs.ends_ps)
        if not len(spans) or not runs.is_blurred:
            return tuple(times.tolist())
        # All samples together say how much it is, not in which of the steps it was.
        others = runs.called.spans_of_other_kinds(self.sampled) & runs.inside
        most = min(self.seen.length_ps, runs.inside.length_ps - others.length_ps)
        scaled = times * (max(most, spans.length_ps) / spans.length_ps)
        lengths = runs.ends_ps - runs.starts_ps
        return tuple(np.minimum(scaled, lengths).astype(np.int64).tolist())

    @property
    def looks(self) -> int | None:
        """Return how many samples found it; None where calls are exact."""
        hz = self.runs.frames.hz
        return None if hz is None else round(self.seen.length_ps * hz / PS_PER_S)

    @property
    def repeats(self) -> bool:
        """Return whether it, or its lines, ran more than once."""
        runs = len(self.seen) if self.only is not None else int(self.rows.sum())
        return runs > 1

    def change_without_it(self, *, effect_ms: float, only: Spans | None) -> Quiet:
        """Return the change that it goes total time.

        The threads that run the program then do nothing while it runs.

        Args:
            effect_ms: What it takes in a mean step.
            only: When it runs, if not all of that goes.
        """
        calls = self.calls if only is None else only
        return Quiet(calls, self.runs.threads, effect_ms)

    @cached_property
    def alone(self) -> Spans:
        """Return when it works itself while no op runs, if that is proven.

        What it calls counts, but for functions that have parts of their own. Pauses
        shorter than 1 ms prove nothing: whoever calls ops has them. Nor does silence in
        which the thread may wait for ops that were not recorded: its clocks show that
        it works, or most of the function is such silence.
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
            (silent & runs.awake).length_ps >= _NEARLY_ALL * silent.length_ps
        )
        least = quiet.length_ps if works else max(quiet.length_ps, sum(self.times_ps))
        return quiet if 2 * silent.length_ps >= least else Spans.empty()

    def percent_within(self, spans: Spans) -> float:
        """Return for how much of its time, in percent, something else went on."""
        return 100 * (spans & self.seen).length_ps / max(self.seen.length_ps, 1)

    def percent_of_work(self, *works: KnownWork) -> float:
        """Return for how much of its time functions of known work ran, in percent."""
        kinds = self.runs.purposes.types_with_work(*works)
        return self.percent_within(self.runs.spans_of_types(kinds)) if kinds else 0.0

    @property
    def ops_percent(self) -> float:
        """Return in how much of its time ops run, as far as it calls them."""
        running = self.runs.called.spans & self.calls
        return 100 * running.length_ps / max(self.calls.length_ps, 1)

    @property
    def collects_percent(self) -> float:
        """Return the share of the steps in which it collects garbage."""
        collections = self.runs.collecting & self.seen
        return 100 * collections.length_ps / self.runs.total_ps

    @property
    def mostly_predicts(self) -> bool:
        """Return whether calls of Keras's `predict` take half of its time."""
        predicts = self.percent_of_work("predicts")
        return self.runs.predicts_often and predicts >= MOSTLY_PERCENT

    def calls_work(self, work: KnownWork) -> bool:
        """Return whether it calls functions of a kind of work: a stack is a proof."""
        kinds = self.runs.purposes.types_with_work(work)
        return bool(np.isin(self.runs.frames.type[self.called_rows], kinds).any())

    @property
    def asks_the_model(self) -> bool:
        """Return whether it runs the model and trains nothing: validation."""
        trains = self.calls_work("trains")
        return self.calls_work("runs_the_model") and not trains

    @property
    def is_in_the_model(self) -> bool:
        """Return whether a part of the model calls it: its `forward`, say."""
        kinds = self.runs.purposes.types_with_work("runs_the_model")
        parts = np.isin(self.runs.frames.type, kinds)
        return bool((self.runs.frames.rows_called_from(parts) & self.rows).any())

    @cached_property
    def is_the_step(self) -> bool:
        """Return whether the model runs while it does: by it, or in parallel with it.

        One of its passes is enough, unless most steps do without the function, as they
        do without a validation.
        """
        all_of_it = self.runs.ran.run_within(SampledTime(self.seen, self.seen, 0))
        if 2 * self.times_ps.count(0) > len(self.times_ps):
            return all_of_it
        return all_of_it or self.runs.ran.pass_runs_within(self.sampled)

    @property
    def calls_the_model(self) -> bool:
        """Return whether it is the step and the model's ops are called from it."""
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
    """Return the functions of the hosts without devices of which any were recorded."""
    accounted = next((it for it in account.devices if it.device is None), None)
    if accounted is None:
        return None
    judged = windows.judged
    driving = host_states.classes.threads
    marked = driving.by_evidence[EVIDENCE.index("marker")].any(axis=1)
    pooled = host_states.classes.host_compute
    threads = np.flatnonzero(marked).tolist() or driving.driving_tracks()
    every = {*host_states.threads, *threads}
    own = every - (function_frames.of_framework - set(threads))
    if not own.intersection(np.unique(function_frames.track).tolist()):
        own = every
    lines = None if isinstance(function_lines, Unavailable) else function_lines.known()
    events = require_available(trace.table("events"))
    rows = rows_of_threads(host_states, [*host_states.threads])
    rows = rows[host_states.classes.code[rows] == HostCode.GARBAGE]
    start, dur = ints(events, "start_ps")[rows], ints(events, "dur_ps")[rows]
    program = None
    if not isinstance(naming, Unavailable) and not isinstance(core_time, Unavailable):
        places = thread_places(require_available(trace.table("tracks")))
        tracks = naming.function_tracks[:1]
        program = next((core_time.threads.get(places[it]) for it in tracks), None)
    return FunctionRuns(
        host=trace.host,
        frames=function_frames,
        purposes=function_purposes,
        tracks=tuple(own),
        inside=judged - accounted.between,
        working=(accounted.idle["host_compute"] & judged) - accounted.between,
        starts_ps=ints(windows.measured, "start_ps"),
        ends_ps=ints(windows.measured, "end_ps"),
        threads=tuple(threads),
        called=ran_ops(trace, host_states, threads, judged),
        ran=ran_ops(trace, host_states, driving.driving_tracks(), judged),
        exchanging=accounted.idle["peer"],
        collecting=Spans.from_events(start, dur),
        awake=None if program is None else program.awake,
        lines=lines,
        pooled=Spans.empty() if isinstance(pooled, Unavailable) else pooled,
    )
