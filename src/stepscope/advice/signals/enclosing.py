"""Functions and the work of the steps: which holds most of it, and what each takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.finding import Part
from stepscope.advice.signals.replaying.change import Quiet
from stepscope.advice.signals.signal import signal
from stepscope.derive.account.host_states import host_states
from stepscope.derive.account.owned_time import account
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.host.called_below import called_by
from stepscope.derive.host.function_frames import function_frames
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.host_codes import HostCode
from stepscope.derive.step_time.threads import EVIDENCE
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.unavailable import Unavailable, present
from stepscope.units import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from stepscope.derive.account.host_states import HostStates
    from stepscope.derive.account.owned_time import DeviceAccount
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_names import FunctionName
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

__all__ = ["FunctionRuns", "enclosing_functions", "function_runs"]

#: The function must hold this share of the work, …
_MOST: Final = 0.8
#: … and the work this share of the function: the training loop is no answer.
_OWN: Final = 0.6
#: A function that runs for this share of the steps is their loop.
_ALL: Final = 0.95
#: A node of PyTorch's graph of gradients, and the op that it is of.
_NODE: Final = Pattern(r"^(?:autograd::engine::\w+: )?([A-Za-z]\w*)Backward\d*$")
_ATEN: Final = "aten::"
_PREDICT: Final = Pattern(r"Trainer\.predict$")
#: Functions of frameworks that update a model's weights, or compute its gradients.
_TRAIN: Final = Pattern(
    r"^Tensor\.backward$|^GradientTape\.gradient$|Trainer\.(?:train_on_batch|fit)$"
)
#: Ops of a kind that run so many times as densely within a function's looks as they do
#: in all steps are called by it, however few of its calls were looked at.
_DENSELY: Final = 2
#: Steps of so few looks do not say what each of them ran.
_FEW_LOOKS: Final = 3
#: What PyTorch and Keras call a part of a model by.
_MODEL: Final = Pattern(r"^Module\._call_impl$|^Layer\.__call__$")


@signal(account, function_frames, windows)
def enclosing_functions(profile: ProfileData, _: Thresholds) -> dict[str, Part]:
    """Return the deepest function around most of the work, by `host:device`.

    Devices of which no function holds most of it are left out. Without a device the
    work is the ops of the model too, and the parts by name say which is which.
    """
    found: dict[str, Part] = {}
    for host in profile.hosts:
        accounted = profile.derived(host, account)
        frames = profile.derived(host, function_frames)
        if isinstance(accounted, Unavailable) or isinstance(frames, Unavailable):
            continue
        measured = present(profile.derived(host, windows)).measured
        starts, ends = ints(measured, "start_ps"), ints(measured, "end_ps")
        judged = Spans.from_events(starts, ends - starts)
        for one in accounted.devices:
            work = (one.idle["host_compute"] & judged) - one.between
            launching = [track for track in one.walked_by if track >= 0]
            part = _around(frames, work, launching, total_ps=judged.length_ps)
            if part is not None:
                found[f"{host}:{one.device}"] = part
    return found


def _around(
    frames: FunctionFrames, work: Spans, tracks: list[int], *, total_ps: int
) -> Part | None:
    """Return the deepest function of some threads that holds most of the work."""
    chosen = np.isin(frames.track, tracks)
    if not len(work) or not chosen.any():
        return None
    start, end, kind = (
        column[chosen] for column in (frames.start_ps, frames.end_ps, frames.type)
    )
    covered = work.within(start, end)
    kinds, place = np.unique(kind, return_inverse=True)
    at_most = np.zeros(len(kinds), np.int64)
    np.add.at(at_most, place, covered)
    best: tuple[int, int, int] | None = None
    for at in np.flatnonzero(at_most >= _MOST * work.length_ps).tolist():
        mine = place == at
        calls = Spans.from_events(start[mine], end[mine] - start[mine])
        held = (work & calls).length_ps
        if held < _MOST * work.length_ps or held < _OWN * calls.length_ps:
            continue
        if best is None or calls.length_ps < best[0]:
            best = (calls.length_ps, held, int(kinds[at]))
    if best is None:
        return None
    name = frames.names[best[2]]
    return Part.of_function(name, 100 * best[1] / total_ps)


class _Looks(Frozen, frozen=True):
    """When a function ran, and of how much time that was found by looks.

    Attributes:
        ran: When it ran.
        of_ps: The time of all steps, where it is known from samples; 0 for exact calls.
    """

    ran: Spans
    of_ps: int


class _Ops(Frozen, frozen=True):
    """The ops of the judged steps on some threads, one entry each.

    Attributes:
        start_ps: When each began.
        end_ps: When it ended.
        kind: Number of its kind: ops of one name are of one kind.
        backward: Of each kind, whether it is a node of the graph of gradients.
        forward: Of each kind, whether it has such a node.
    """

    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    kind: NDArray[np.intp]
    backward: NDArray[np.bool_]
    forward: NDArray[np.bool_]

    def mostly_in(self, spans: _Looks) -> NDArray[np.bool_]:
        """Return of each kind whether at least half of its time lies within a set.

        Of what looks found, the time in which it surely ran need not be half: a look
        comes seldom in each call. There ops that run far more densely count too.
        """
        # An op of no length counts too.
        length = self.end_ps - self.start_ps + 1
        held = np.bincount(
            self.kind, weights=spans.ran.within(self.start_ps, self.end_ps + 1)
        )
        every = np.bincount(self.kind, weights=length)
        found = 2 * held >= every
        if spans.of_ps:
            found |= held * spans.of_ps >= _DENSELY * every * spans.ran.length_ps
        return found

    def of_kinds_elsewhere(self, spans: _Looks) -> Spans:
        """Return when ops run whose kinds mostly run at other times than a function.

        A call of the framework around an op that is the function's own is its own too.
        """
        own = self.mostly_in(spans)[self.kind]
        length = self.end_ps - self.start_ps
        others = Spans.from_events(self.start_ps[~own], length[~own])
        return others - Spans.from_events(self.start_ps[own], length[own])

    def are_of(self, spans: _Looks) -> bool:
        """Return whether most kinds mostly run within a set.

        By kinds, since one of them may run any number of times. Where gradients are
        computed the model is what has them: most of them, and most of the ops that
        they belong to, begin within the set.
        """
        inside = self.mostly_in(spans)
        if not self.forward.any():
            return _most(inside)
        return _most(inside[self.forward]) and _most(inside[self.backward])

    def are_partly_of(self, spans: _Looks) -> bool:
        """Return whether a pass of the model, or all of it, runs within a set."""
        inside = self.mostly_in(spans)
        if not self.forward.any():
            return _most(inside)
        return _most(inside[self.forward]) or _most(inside[self.backward])


def _most(flags: NDArray[np.bool_]) -> bool:
    return 2 * int(flags.sum()) > len(flags)


class FunctionRuns(Frozen, frozen=True):
    """When functions ran inside the judged steps of a host without devices.

    It is no group of numbers: what a rule asks for is worked out then.

    Attributes:
        host: Name of the host.
        frames: The functions that ran.
        tracks: Rows of tracks of the threads that are asked for them.
        inside: The judged steps, while their own work goes on.
        working: When the host's work is what the account names there.
        starts_ps: Begin of each judged step.
        ends_ps: End of each.
        threads: Rows of tracks of the threads that run the program.
        called: The ops that these threads ran.
        ran: The ops that any thread ran.
    """

    host: str
    frames: FunctionFrames
    tracks: tuple[int, ...]
    inside: Spans
    working: Spans
    starts_ps: NDArray[np.int64]
    ends_ps: NDArray[np.int64]
    threads: tuple[int, ...]
    called: _Ops
    ran: _Ops

    def times_ps(self, part: Part) -> tuple[int, ...]:
        """Return what a function takes in each judged step, with all that it calls."""
        spans = self._calls(part)
        times = spans.within(self.starts_ps, self.ends_ps)
        if not len(spans) or not self._is_blurred():
            return tuple(times.tolist())
        # All looks together say how much it is, not in which of the steps it was.
        others = self.called.of_kinds_elsewhere(self._looks(part))
        most = self.inside.length_ps - (others & self.inside).length_ps
        most = max(min(self._seen(part).length_ps, most), spans.length_ps)
        scaled = times * (most / spans.length_ps)
        lengths = self.ends_ps - self.starts_ps
        return tuple(np.minimum(scaled, lengths).astype(np.int64).tolist())

    def _is_blurred(self) -> bool:
        """Return whether looks come so seldom that a step holds few of them."""
        hz = self.frames.hz
        if hz is None or not len(self.starts_ps):
            return False
        return bool(
            np.median(self.ends_ps - self.starts_ps) <= _FEW_LOOKS * PS_PER_S / hz
        )

    def without(self, part: Part, *, effect_ms: float) -> Quiet:
        """Return the change that a function goes with all that it calls.

        The threads that run the program then do nothing while it runs.

        Args:
            part: The function.
            effect_ms: What it takes in a mean step.
        """
        return Quiet(self._calls(part), self.threads, effect_ms)

    def ops_percent(self, part: Part) -> float:
        """Return in how much of a function's time ops run, as far as it calls them."""
        calls, ops = self._calls(part), self.called
        running = Spans.from_events(ops.start_ps, ops.end_ps - ops.start_ps)
        return 100 * (running & calls).length_ps / max(calls.length_ps, 1)

    def mostly_predicts(self, part: Part) -> bool:
        """Return whether Keras's `predict` takes at least half of a function's time."""
        return self.mostly_in(part, lambda name: bool(_PREDICT.search(name.function)))

    def mostly_in(self, part: Part, chosen: Callable[[FunctionName], bool]) -> bool:
        """Return whether chosen functions of libraries take half of a function's time.

        Only what the function calls is asked for.
        """
        kinds = self._of_libraries(chosen)
        seen = self._seen(part)
        return bool(kinds) and 2 * (self._of(kinds) & seen).length_ps >= seen.length_ps

    def _of_libraries(self, chosen: Callable[[FunctionName], bool]) -> list[int]:
        names = self.frames.names.items()
        return [kind for kind, name in names if name.library and chosen(name)]

    def trains(self, part: Part) -> bool:
        """Return whether a function calls what trains a model: a stack is a proof."""
        kinds = self._of_libraries(lambda name: bool(_TRAIN.search(name.function)))
        if not kinds:
            return False
        mine = np.isin(self.frames.type, self._kinds(part))
        training = np.isin(self.frames.type, kinds)
        return bool((called_by(mine, self.frames.parent) & training).any())

    def asks_the_model(self, part: Part) -> bool:
        """Return whether a function runs the model and trains nothing: validation."""
        kinds = self._of_libraries(lambda name: bool(_MODEL.search(name.function)))
        mine = np.isin(self.frames.type, self._kinds(part))
        asked = called_by(mine, self.frames.parent) & np.isin(self.frames.type, kinds)
        return bool(asked.any()) and not self.trains(part)

    def is_in_the_model(self, part: Part) -> bool:
        """Return whether a part of the model calls a function: its `forward`, say."""
        kinds = self._of_libraries(lambda name: bool(_MODEL.search(name.function)))
        mine = np.isin(self.frames.type, self._kinds(part))
        calling = np.isin(self.frames.type, kinds)
        return bool((called_by(calling, self.frames.parent) & mine).any())

    def own_functions(self) -> tuple[Part, ...]:
        """Return the program's own functions that mostly work in the judged steps.

        What is nearly all of them is their loop.
        """
        found = []
        whole = self.inside.length_ps
        for kind, name in self.frames.names.items():
            # What has no name is a part of another function, or the whole program.
            if name.library is not False or name.function.endswith(">"):
                continue
            ran = self._of([kind])
            if not 0 < ran.length_ps < _ALL * whole:
                continue
            if 2 * (ran & self.working).length_ps >= ran.length_ps:
                found.append(Part.of_function(name, 0.0))
        return tuple(found)

    def _calls(self, part: Part) -> Spans:
        """Return when a function ran, with all that it calls.

        Looks at a stack may come late, so that what follows a function seems to be
        called by it: ops of kinds that mostly run at other times are none of it.
        """
        return self._seen(part) - self.called.of_kinds_elsewhere(self._looks(part))

    def is_the_step(self, part: Part) -> bool:
        """Return whether the model runs while a function does: by it, or beside it.

        One of its passes is enough, unless most steps do without the function, as they
        do without a validation.
        """
        times, seen = self.times_ps(part), self._seen(part)
        all_of_it = self.ran.are_of(_Looks(seen, 0))
        if 2 * times.count(0) > len(times):
            return all_of_it
        return self.ran.are_partly_of(self._looks(part)) or all_of_it

    def calls_the_model(self, part: Part) -> bool:
        """Return whether a function is the step and its ops are called from it."""
        called = self.called.are_of(self._looks(part))
        return called and self.is_the_step(part)

    def _looks(self, part: Part) -> _Looks:
        """Leave out what lies up to half a look beyond the looks of samples."""
        half_ps = 0 if self.frames.hz is None else int(PS_PER_S / self.frames.hz / 2)
        spans = self._seen(part)
        # Of a run that one look found, the middle is the surest.
        lengths = spans.end_ps - spans.start_ps
        margins = np.minimum(half_ps, lengths // 4)
        ran = Spans.from_events(spans.start_ps + margins, lengths - 2 * margins)
        of_ps = 0 if self.frames.hz is None else self.inside.length_ps
        return _Looks(ran, of_ps)

    def _seen(self, part: Part) -> Spans:
        return self._of(self._kinds(part))

    def _kinds(self, part: Part) -> list[int]:
        return [
            kind
            for kind, name in self.frames.names.items()
            if (name.function, name.file, name.line)
            == (part.function, part.file, part.line)
        ]

    def _of(self, kinds: list[int]) -> Spans:
        mine = np.isin(self.frames.type, kinds)
        mine &= np.isin(self.frames.track, self.tracks)
        start = self.frames.start_ps[mine]
        spans = Spans.from_events(start, self.frames.end_ps[mine] - start)
        return spans & self.inside


@signal(account, host_states, function_frames, windows)
def function_runs(profile: ProfileData, _: Thresholds) -> dict[str, FunctionRuns]:
    """Return the functions of the hosts without devices of which any were recorded."""
    found: dict[str, FunctionRuns] = {}
    for host in profile.hosts:
        accounted = profile.derived(host, account)
        frames = profile.derived(host, function_frames)
        states = profile.derived(host, host_states)
        if (
            isinstance(accounted, Unavailable)
            or isinstance(frames, Unavailable)
            or isinstance(states, Unavailable)
        ):
            continue
        for one in accounted.devices:
            if one.device is None:
                found[host] = _runs(profile, host, one, frames=frames, states=states)
    return found


def _runs(
    profile: ProfileData,
    host: str,
    accounted: DeviceAccount,
    *,
    frames: FunctionFrames,
    states: HostStates,
) -> FunctionRuns:
    measured = present(profile.derived(host, windows)).measured
    starts, ends = ints(measured, "start_ps"), ints(measured, "end_ps")
    judged = Spans.from_events(starts, ends - starts)
    driving = states.classes.threads
    marked = driving.by_evidence[EVIDENCE.index("marker")].any(axis=1)
    threads = np.flatnonzero(marked).tolist() or driving.tracks()
    return FunctionRuns(
        host=host,
        frames=frames,
        tracks=tuple({*states.threads, *threads}),
        inside=judged - accounted.between,
        working=(accounted.idle["host_compute"] & judged) - accounted.between,
        starts_ps=starts,
        ends_ps=ends,
        threads=tuple(threads),
        called=_ops(profile, host, states, threads, judged),
        ran=_ops(profile, host, states, driving.tracks(), judged),
    )


def _ops(
    profile: ProfileData,
    host: str,
    states: HostStates,
    threads: list[int],
    judged: Spans,
) -> _Ops:
    """Return what some threads ran in the judged steps."""
    events = present(profile.table(host, "events"))
    mine = [states.classes.rows.rows(track) for track in threads]
    rows = np.concatenate(
        [np.empty(0, np.int64), *(np.arange(it.start, it.stop) for it in mine)]
    )
    rows = rows[states.classes.code[rows] == HostCode.HOST_COMPUTE]
    start = ints(events, "start_ps")[rows]
    begun = judged.within(start, start + 1) > 0
    rows, start = rows[begun], start[begun]
    types, kind = np.unique(handles(events, "type")[rows], return_inverse=True)
    every = present(profile.table(host, "event_types"))["name"]
    backward, forward = _passes([every[int(one)] or "" for one in types])
    end = start + ints(events, "dur_ps")[rows]
    kind = kind.ravel()
    # The same ops run in both passes: those of the backward one are kinds of their own.
    node = backward[kind]
    nodes = Spans.from_events(start[node], (end - start)[node])
    kind = kind + len(types) * (forward[kind] & (nodes.within(start, start + 1) > 0))
    kinds, kind = np.unique(kind, return_inverse=True)
    first = kinds < len(types)
    kinds = kinds % max(len(types), 1)
    return _Ops(*(start, end, kind.ravel()), backward[kinds], forward[kinds] & first)


def _passes(names: list[str]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which ops PyTorch's graph of gradients names, and which it belongs to."""
    nodes = [_NODE.match(name) for name in names]
    differentiated = {_bare(node[1]) for node in nodes if node is not None}
    return (
        np.array([node is not None for node in nodes], bool),
        np.array(
            [
                name.startswith(_ATEN) and _bare(name[len(_ATEN) :]) in differentiated
                for name in names
            ],
            bool,
        ),
    )


def _bare(name: str) -> str:
    """Return an op's name as both spellings have it: `_log_softmax`, `LogSoftmax`."""
    return name.replace("_", "").lower()
