"""When functions of the program run in the steps of a host without devices."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from stepscope.derive.account.function_parts import function_parts
from stepscope.derive.columns.arrays import ints
from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.hosts.own_lines import LineRuns, around_most
from stepscope.derive.facts.hosts.ran_ops import Looks, RanOps, ran_ops, rows_of
from stepscope.derive.facts.replaying.edits import Quiet
from stepscope.derive.host.called_below import called_by
from stepscope.derive.host.core_time import places_of
from stepscope.derive.host.function_frames import FEW_LOOKS
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.run_derivation import of_each_host
from stepscope.derive.step_time.host_time import HostCode
from stepscope.derive.step_time.threads import EVIDENCE
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.unavailable import Unavailable, present
from stepscope.units import PS_PER_MS, PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from stepscope.derive.account.host_states import HostStates
    from stepscope.derive.account.naming import Naming
    from stepscope.derive.account.owned_time import Account
    from stepscope.derive.facts.hosts.own_lines import OwnLines
    from stepscope.derive.host.core_time import CoreTime
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_lines import FunctionLines
    from stepscope.derive.host.function_names import FunctionName
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.trace.model import TraceData

#: Function, file and line of the function's first line.
_Key: TypeAlias = "tuple[str | None, str | None, int | None]"

#: What has this share of a set of time is what it is.
_MOST: Final = 0.8
#: A function that runs for this share of the steps is their loop.
_ALL: Final = 0.95
_PREDICT: Final = Pattern(r"Trainer\.predict$")
#: What each call of it begins with.
_PREDICT_BEGINS: Final = Pattern(r"EpochIterator\.__init__$")
#: Functions of frameworks that update a model's weights, or compute its gradients;
#: PyTorch's own profiler leaves out the names of classes.
_TRAIN: Final = Pattern(
    r"^(?:Tensor\.)?backward$|^GradientTape\.gradient$|Trainer\.(?:train_on_batch|fit)$"
)
#: From one op to the next a caller of ops needs far less. What takes this long is work.
_SILENCE_PS: Final = PS_PER_MS
#: A function with so much of such work does not only call ops.
_ALONE: Final = 0.5
#: What PyTorch and Keras call a part of a model by, with and without its class.
_MODEL: Final = Pattern(r"^(?:Module\.)?_call_impl$|^Layer\.__call__$")


class FunctionRuns(Frozen, frozen=True, dict=True):
    """When functions ran inside the judged steps of a host without devices.

    It is no group of numbers: what a rule asks for is worked out then.

    Attributes:
        host: Name of the host.
        frames: The functions that ran.
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
    tracks: tuple[int, ...]
    inside: Spans
    working: Spans
    starts_ps: NDArray[np.int64]
    ends_ps: NDArray[np.int64]
    threads: tuple[int, ...]
    called: RanOps
    ran: RanOps
    exchanging: Spans
    collecting: Spans
    awake: Spans | None = None
    lines: FunctionLines | None = None
    pooled: Spans = Spans.empty()

    def times_ps(self, part: Part) -> tuple[int, ...]:
        """Return what a function takes in each judged step, with all that it calls."""
        return self._function(part).times_ps

    @cached_property
    def is_blurred(self) -> bool:
        """Return whether looks come so seldom that a step holds few of them."""
        hz = self.frames.hz
        if hz is None or not len(self.starts_ps):
            return False
        return bool(
            np.median(self.ends_ps - self.starts_ps) <= FEW_LOOKS * PS_PER_S / hz
        )

    def looks_at(self, part: Part) -> int | None:
        """Return how many looks found a function; None where calls are exact."""
        hz, seen = self.frames.hz, self._function(part).seen
        return None if hz is None else round(seen.length_ps * hz / PS_PER_S)

    def repeats(self, part: Part) -> bool:
        """Return whether a function, or a line, was seen to run more than once."""
        if part.lines is not None:
            return len(self._function(part).seen) > 1
        return int(self._function(part).frames.sum()) > 1

    def without(
        self, part: Part, *, effect_ms: float, only: Spans | None = None
    ) -> Quiet:
        """Return the change that a function goes with all that it calls.

        The threads that run the program then do nothing while it runs.

        Args:
            part: The function.
            effect_ms: What it takes in a mean step.
            only: When it runs, if not all of that goes.
        """
        calls = self._function(part).calls if only is None else only
        return Quiet(calls, self.threads, effect_ms)

    def alone(self, part: Part) -> Spans:
        """Return when a function itself works while no op runs, if that is proven.

        What it calls counts, but for functions that are told apart from it. Pauses
        shorter than 1 ms prove nothing: whoever calls ops has them. Nor does silence in
        which the thread may wait for ops that were not recorded: its clocks show that
        it works, or most of the function is such silence.
        """
        mine = self._function(part)
        told = self._told_in_silence
        if not np.isin(told, mine.kinds).any():
            return Spans.empty()
        below = called_by(mine.frames, self.frames.parent)
        called = set(self.frames.type[below].tolist()) - set(mine.kinds)
        itself = mine.seen - self.of([kind for kind in told if kind in called])
        quiet, silent = itself & self._quiet, itself & self._silence
        least = _ALONE * sum(mine.times_ps)
        if self.awake is not None:
            awake_ps = (silent & self.awake).length_ps
            least = 0.0 if awake_ps >= _MOST * silent.length_ps else least
        proven = silent.length_ps >= max(_ALONE * quiet.length_ps, least)
        return quiet if proven else Spans.empty()

    @cached_property
    def _quiet(self) -> Spans:
        """When the host works and no thread runs an op."""
        ops = self.ran
        running = Spans.from_events(ops.start_ps, ops.end_ps - ops.start_ps)
        return (self.working & self.inside) - running

    @cached_property
    def _silence(self) -> Spans:
        """The long stretches of that."""
        quiet = self._quiet
        long = quiet.end_ps - quiet.start_ps >= _SILENCE_PS
        return Spans(quiet.start_ps[long], quiet.end_ps[long])

    @cached_property
    def _told_in_silence(self) -> list[int]:
        """The functions that these stretches are divided among."""
        steps, silence = (self.starts_ps, self.ends_ps), self._silence
        return [
            part.type
            for track in self.tracks
            for part in function_parts(self.frames, silence, track=track, windows=steps)
            if part.type >= 0 and not part.is_loop
        ]

    def own_lines(self, part: Part) -> tuple[OwnLines, ...]:
        """Return the lines of a function that do work of their own, in their order.

        Nothing where the lines are not known.
        """
        return self._function(part).own_lines

    @cached_property
    def line_runs(self) -> LineRuns | None:
        """When the lines ran; None where they are not known."""
        hz, ops = self.frames.hz, self.called
        if self.lines is None or hz is None:
            return None
        called = Spans.from_events(ops.start_ps, ops.end_ps - ops.start_ps)
        return LineRuns(
            lines=self.lines,
            frames=self.frames,
            hz=hz,
            tracks=self.tracks,
            inside=self.inside,
            working=(self.working & self.inside) - called,
            unshared=self._quiet - self.pooled,
        )

    def ops_percent(self, part: Part) -> float:
        """Return in how much of a function's time ops run, as far as it calls them."""
        calls, ops = self._function(part).calls, self.called
        running = Spans.from_events(ops.start_ps, ops.end_ps - ops.start_ps)
        return 100 * (running & calls).length_ps / max(calls.length_ps, 1)

    def mostly_predicts(self, part: Part) -> bool:
        """Return whether calls of Keras's `predict` take half of a function's time.

        One call that goes through many batches is what `predict` is for.
        """
        return self._predicts_anew and self._is_mostly_of(part, self._predicting)

    def mostly_in(self, part: Part, chosen: Callable[[FunctionName], bool]) -> bool:
        """Return whether chosen functions of libraries take half of a function's time.

        Only what the function calls is asked for.
        """
        return self._is_mostly_of(part, self._of_libraries(chosen))

    def _is_mostly_of(self, part: Part, kinds: list[int]) -> bool:
        seen = self._function(part).seen
        return bool(kinds) and 2 * (self.of(kinds) & seen).length_ps >= seen.length_ps

    def mostly_exchanges(self, part: Part) -> bool:
        """Return whether waiting for other workers is half of a function's time."""
        return self._mostly(self.exchanging, part)

    def mostly_collects(self, part: Part) -> bool:
        """Return whether collecting garbage is half of a function's time."""
        return self._mostly(self.collecting, part)

    def collects_percent(self, part: Part) -> float:
        """Return for how much of the steps garbage is collected within a function."""
        held = self.collecting & self._function(part).seen
        whole = int((self.ends_ps - self.starts_ps).sum())
        return 100 * held.length_ps / max(whole, 1)

    @cached_property
    def collector(self) -> Part | None:
        """Return the deepest function of the program that holds most collections.

        Most of it is collecting garbage: the loop around all of a step is no answer.
        """
        found = self.collecting & self.inside
        whole = int((self.ends_ps - self.starts_ps).sum())
        part = around_most(
            self.frames, found, list(self.tracks), total_ps=max(whole, 1)
        )
        own = part is not None and part.function is not None
        return part if own else None

    def _mostly(self, spans: Spans, part: Part) -> bool:
        seen = self._function(part).seen
        return bool(len(seen)) and 2 * (spans & seen).length_ps >= seen.length_ps

    def _of_libraries(self, chosen: Callable[[FunctionName], bool]) -> list[int]:
        names = self.frames.names.items()
        return [kind for kind, name in names if name.library and chosen(name)]

    def trains(self, part: Part) -> bool:
        """Return whether a function calls what trains a model: a stack is a proof."""
        if not self._training:
            return False
        called = called_by(self._function(part).frames, self.frames.parent)
        return bool((called & np.isin(self.frames.type, self._training)).any())

    def asks_the_model(self, part: Part) -> bool:
        """Return whether a function runs the model and trains nothing: validation."""
        called = called_by(self._function(part).frames, self.frames.parent)
        return bool((called & self._of_the_model).any()) and not self.trains(part)

    def is_in_the_model(self, part: Part) -> bool:
        """Return whether a part of the model calls a function: its `forward`, say."""
        return bool((self._called_by_the_model & self._function(part).frames).any())

    @cached_property
    def _predicting(self) -> list[int]:
        return self._of_libraries(lambda name: bool(_PREDICT.search(name.function)))

    @cached_property
    def _predicts_anew(self) -> bool:
        """Whether `predict` was called several times: looks may join its calls."""
        begins = self._of_libraries(
            lambda name: bool(_PREDICT_BEGINS.search(name.function))
        )
        kinds = (*self._predicting, *begins)
        return any(int((self.frames.type == kind).sum()) > 1 for kind in kinds)

    @cached_property
    def _training(self) -> list[int]:
        return self._of_libraries(lambda name: bool(_TRAIN.search(name.function)))

    @cached_property
    def _of_the_model(self) -> NDArray[np.bool_]:
        kinds = self._of_libraries(lambda name: bool(_MODEL.search(name.function)))
        return np.isin(self.frames.type, kinds)

    @cached_property
    def _called_by_the_model(self) -> NDArray[np.bool_]:
        return called_by(self._of_the_model, self.frames.parent)

    def own_functions(self) -> tuple[Part, ...]:
        """Return the program's own functions that mostly work in the judged steps.

        What is nearly all of them is their loop; where the steps are calls of Keras's
        `predict`, the innermost function that makes them is no loop.
        """
        found, around = [], []
        whole = self.inside.length_ps
        for kind, name in self.frames.names.items():
            # What has no name is a part of another function, or the whole program.
            if name.library is not False or name.function.endswith(">"):
                continue
            ran = self.of([kind])
            part = Part.of_function(name, 0.0)
            if ran.length_ps >= _ALL * whole:
                around.append(part)
            elif 2 * (ran & self.working).length_ps >= ran.length_ps > 0:
                found.append(part)
        around = [part for part in around if self.mostly_predicts(part)]
        inner = max(around, key=self._depth, default=None)
        return (*found, *(() if inner is None else (inner,)))

    def _depth(self, part: Part) -> int:
        """Return how many functions are around the first call of one."""
        row, depth = int(np.argmax(self._function(part).frames)), 0
        while self.frames.parent[row] >= 0:
            row, depth = int(self.frames.parent[row]), depth + 1
        return depth

    def is_the_step(self, part: Part) -> bool:
        """Return whether the model runs while a function does: by it, or beside it.

        One of its passes is enough, unless most steps do without the function, as they
        do without a validation.
        """
        return self._function(part).is_the_step

    def calls_the_model(self, part: Part) -> bool:
        """Return whether a function is the step and its ops are called from it."""
        called = self.called.are_of(self._function(part).looks)
        return called and self.is_the_step(part)

    def of(self, kinds: Sequence[int]) -> Spans:
        """Return when functions of some types ran on the threads that are asked."""
        types, start, length = self._by_type
        first = np.searchsorted(types, kinds, side="left").tolist()
        past = np.searchsorted(types, kinds, side="right").tolist()
        every = (
            Spans.from_events(start[begin:end], length[begin:end])
            for begin, end in zip(first, past, strict=True)
        )
        return Spans.union_of(every) & self.inside

    @cached_property
    def _by_type(self) -> tuple[NDArray[np.int64], ...]:
        of = self.frames
        mine = np.flatnonzero(np.isin(of.track, self.tracks))
        rows = mine[np.argsort(of.type[mine], kind="stable")]
        length = of.end_ps - of.start_ps
        return of.type[rows].astype(np.int64), of.start_ps[rows], length[rows]

    def _function(self, part: Part) -> _Function:
        key = part.function, part.file, part.line
        found = self._functions.get(key) or _Function(self, ())
        return found if part.lines is None else found.at(part.lines)

    @cached_property
    def _functions(self) -> dict[_Key, _Function]:
        kinds: dict[_Key, list[int]] = defaultdict(list)
        for kind, name in self.frames.names.items():
            kinds[name.function, name.file, name.line].append(kind)
        return {key: _Function(self, tuple(of)) for key, of in kinds.items()}


class _Function(Frozen, frozen=True, dict=True):
    """One of the functions, of which several rules ask the same.

    Attributes:
        runs: All of them.
        kinds: The types that are this function.
        only: When it counts; None for whenever it ran.
    """

    runs: FunctionRuns
    kinds: tuple[int, ...]
    only: Spans | None = None

    def at(self, lines: tuple[int, int]) -> _Function:
        """Return the function as far as it is at some of its own lines."""
        spans = (it.spans for it in self.own_lines if (it.first, it.last) == lines)
        return _Function(self.runs, self.kinds, Spans.union_of(spans))

    @cached_property
    def own_lines(self) -> tuple[OwnLines, ...]:
        """Its lines that do work of their own."""
        lines = self.runs.line_runs
        return () if lines is None else lines.own(self.kinds)

    @cached_property
    def frames(self) -> NDArray[np.bool_]:
        """Which of all frames are calls of it."""
        return np.isin(self.runs.frames.type, self.kinds)

    @cached_property
    def seen(self) -> Spans:
        """When looks say that it ran."""
        seen = self.runs.of(self.kinds)
        return seen if self.only is None else seen & self.only

    @cached_property
    def looks(self) -> Looks:
        """Leave out what lies up to half a look beyond the looks of samples."""
        hz = self.runs.frames.hz
        half_ps = 0 if hz is None else int(PS_PER_S / hz / 2)
        spans = self.seen
        # Of a run that one look found, the middle is the surest.
        lengths = spans.end_ps - spans.start_ps
        margins = np.minimum(half_ps, lengths // 4)
        ran = Spans.from_events(spans.start_ps + margins, lengths - 2 * margins)
        if hz is None:
            return Looks(ran, 0)
        start = np.maximum(spans.start_ps - half_ps, 0)
        near = Spans.from_events(start, spans.end_ps + half_ps - start)
        inside = self.runs.inside
        return Looks(ran, inside.length_ps, seen=spans, near=near & inside)

    @cached_property
    def others(self) -> Spans:
        """When ops ran that seem to be called by it and are none of it."""
        return self.runs.called.of_kinds_elsewhere(self.looks)

    @cached_property
    def calls(self) -> Spans:
        """When it ran, with all that it calls.

        Looks at a stack may come late, so that what follows a function seems to be
        called by it: ops of kinds that mostly run at other times are none of it.
        """
        return self.seen - self.others

    @cached_property
    def times_ps(self) -> tuple[int, ...]:
        """What it takes in each judged step, with all that it calls."""
        runs, spans = self.runs, self.calls
        times = spans.within(runs.starts_ps, runs.ends_ps)
        if not len(spans) or not runs.is_blurred:
            return tuple(times.tolist())
        # All looks together say how much it is, not in which of the steps it was.
        most = runs.inside.length_ps - (self.others & runs.inside).length_ps
        most = max(min(self.seen.length_ps, most), spans.length_ps)
        scaled = times * (most / spans.length_ps)
        lengths = runs.ends_ps - runs.starts_ps
        return tuple(np.minimum(scaled, lengths).astype(np.int64).tolist())

    @cached_property
    def is_the_step(self) -> bool:
        """Whether the model runs while it does, by it or beside it."""
        times, ran = self.times_ps, self.runs.ran
        all_of_it = ran.are_of(Looks(self.seen, 0))
        if 2 * times.count(0) > len(times):
            return all_of_it
        return ran.are_partly_of(self.looks) or all_of_it


@of_each_host
def function_runs(
    *,
    trace: TraceData,
    account: Account,
    function_frames: FunctionFrames,
    host_states: HostStates,
    function_lines: FunctionLines | Unavailable,
    windows: Windows,
    naming: Naming | Unavailable,
    core_time: CoreTime | Unavailable,
) -> FunctionRuns | None:
    """Return the functions of the hosts without devices of which any were recorded."""
    accounted = next((one for one in account.devices if one.device is None), None)
    if accounted is None:
        return None
    measured = windows.measured
    starts, ends = ints(measured, "start_ps"), ints(measured, "end_ps")
    judged = Spans.from_events(starts, ends - starts)
    driving = host_states.classes.threads
    marked = driving.by_evidence[EVIDENCE.index("marker")].any(axis=1)
    pooled = host_states.classes.host_compute
    threads = np.flatnonzero(marked).tolist() or driving.driving_tracks()
    every = {*host_states.threads, *threads}
    own = every - (function_frames.of_framework - set(threads))
    if not own.intersection(np.unique(function_frames.track).tolist()):
        own = every
    lines = None if isinstance(function_lines, Unavailable) else function_lines.known()
    return FunctionRuns(
        host=trace.host,
        frames=function_frames,
        tracks=tuple(own),
        inside=judged - accounted.between,
        working=(accounted.idle["host_compute"] & judged) - accounted.between,
        starts_ps=starts,
        ends_ps=ends,
        threads=tuple(threads),
        called=ran_ops(trace, host_states, threads, judged),
        ran=ran_ops(trace, host_states, driving.driving_tracks(), judged),
        exchanging=accounted.idle["peer"],
        collecting=_collections(trace, host_states),
        awake=_awake(trace, naming, core_time),
        lines=lines,
        pooled=Spans.empty() if isinstance(pooled, Unavailable) else pooled,
    )


def _awake(
    trace: TraceData, named: Naming | Unavailable, clocks: CoreTime | Unavailable
) -> Spans | None:
    """Return when the program's own thread wanted a core, where its clocks tell."""
    if (
        isinstance(named, Unavailable)
        or isinstance(clocks, Unavailable)
        or not named.function_tracks
    ):
        return None
    places = places_of(present(trace.table("tracks")))
    own = clocks.threads.get(places[named.function_tracks[0]])
    return None if own is None else own.awake


def _collections(trace: TraceData, states: HostStates) -> Spans:
    """Return when any thread that is asked what it does collected garbage."""
    events = present(trace.table("events"))
    rows = rows_of(states, [*states.threads])
    rows = rows[states.classes.code[rows] == HostCode.GARBAGE]
    return Spans.from_events(
        ints(events, "start_ps")[rows], ints(events, "dur_ps")[rows]
    )
