"""What the host was doing, as candidates for the owner of an idle instant.

The launching thread is looked at first. Where it has no event at all, or only waits for
other threads, the other threads that drive the step are looked at together.

Definition: docs/where-a-steps-time-goes.md#what-the-host-did.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.derive.account.places import marker_names
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.host.function_purposes import FunctionPurpose
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag, HostClass
from stepscope.derive.step_time.host_codes import HostCode
from stepscope.derive.step_time.threads import EVIDENCE
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.device.launch_facts import LaunchFacts
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_purposes import FunctionPurposes
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.steps.chosen import Steps

    #: Where a thread, or any step thread, has a code.
    _State = Callable[[HostCode], Spans]

__all__ = ["PROGRAM", "Claims", "HostStates", "host_states", "long_stretch_ps"]

#: Owners with their instants in the order in which they claim them; an owner may claim
#: twice.
Claims = tuple[tuple[str, Spans], ...]

#: A stretch without the begin of an op or a launch that is longer than this, and than
#: so many launch latencies, is work of the program itself.
_LONG_STRETCH_PS: Final = 1 * PS_PER_MS
_LONG_LATENCIES: Final = 20
_NEVER: Final = np.iinfo(np.int64).max

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
#: A thread with one of these runs the program itself, not tasks of others.
PROGRAM: Final = EventFlag.PYTHON_FRAME | EventFlag.PJIT | EventFlag.FUNCTION_CALL
_INPUT: Final = (
    HostCode.INPUT_WAIT,
    HostCode.OWN_INPUT,
    HostCode.ITERATOR,
    HostCode.COPY_IN,
)
_OUTPUT: Final = (HostCode.OUTPUT, HostCode.READ_BACK, HostCode.COPY_OUT)
#: Codes whose begin shows that the thread is on its way from op to op.
_BEGINS: Final = (
    HostCode.LAUNCH,
    HostCode.DISPATCH,
    HostCode.HOST_COMPUTE,
    HostCode.LAUNCH_OR_COMPUTE,
    HostCode.COPY_IN,
    HostCode.COPY_OUT,
)
_LAUNCHING: Final = (
    HostCode.LAUNCH,
    HostCode.DISPATCH,
    HostCode.LAUNCH_OR_COMPUTE,
)
_LAUNCHES: Final = (HostCode.LAUNCH, HostCode.LAUNCH_OR_COMPUTE)
_WAITING: Final = (
    *(HostCode.SYNC, HostCode.READ_BACK),
    *(HostCode.BLOCKED, HostCode.PIPELINE),
    *(HostCode.COPY_IN, HostCode.COPY_OUT),
)
#: A thread that does one of these does not wait for the input of another thread.
_WORKING: Final = (*_BEGINS, HostCode.COMPILE, HostCode.TRACING)


def long_stretch_ps(latency_ps: int) -> int:
    """Return the length beyond which silence between ops is work of the program."""
    return max(_LONG_STRETCH_PS, _LONG_LATENCIES * latency_ps)


class _Told(NamedTuple):
    """What functions and ranges tell of a thread, or of all step threads."""

    named: Spans
    fetching: Spans
    writing: Spans


class _Functions(NamedTuple):
    """When functions ran on one thread: any, those that fetch, those that write."""

    all: Spans
    fetching: Spans
    writing: Spans


_NO_FUNCTIONS: Final = _Functions(Spans.empty(), Spans.empty(), Spans.empty())
#: What programs call their own functions that make or fetch a batch, or write a
#: checkpoint; those of known libraries have a purpose.
_FETCHES: Final = re.compile(
    r"(?:^|\.)(?:(?:get_)?next_?(?:batch|element)"
    r"|(?:load|get|fetch|read|make|prepare)_?(?:next_?)?(?:batch|inputs?)(?:es)?)$"
)
_WRITES: Final = re.compile(r"(?:^|\.)(?:save_|write_)checkpoint\w*$")
_WRITING: Final = (FunctionPurpose.CHECKPOINT, FunctionPurpose.SUMMARY)


def _by_track(
    frames: FunctionFrames, purposes: FunctionPurposes
) -> dict[int, _Functions]:
    fetching = purposes.purpose == FunctionPurpose.INPUT
    fetching |= _are_named(frames, _FETCHES)
    writing = np.isin(purposes.purpose, _WRITING) | _are_named(frames, _WRITES)
    found = {}
    for track in np.unique(frames.track).tolist():
        mine = frames.track == track
        found[track] = _Functions(
            _runs(frames, mine),
            _runs(frames, mine & fetching),
            _runs(frames, mine & writing),
        )
    return found


def _are_named(frames: FunctionFrames, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    wanted = [
        kind for kind, name in frames.names.items() if pattern.search(name.function)
    ]
    found: NDArray[np.bool_] = np.isin(frames.type, wanted)
    return found


def _runs(frames: FunctionFrames, chosen: NDArray[np.bool_]) -> Spans:
    starts = frames.start_ps[chosen]
    return Spans.from_events(starts, frames.end_ps[chosen] - starts)


class HostStates(Frozen, frozen=True):
    """When the threads of a host were in which state.

    Attributes:
        classes: The classes of host time.
        united: `HostCode` → where any step thread has it.
        waits: Waiting for input on any thread.
        peers: Communicating with other processes on any thread.
        profiler: The recording's own work on any thread.
        chores: Ranges named as callbacks, metrics, evaluations or logs.
        between: Where no step's own work goes on.
        dense: Where ops or launches begin in quick succession on the step threads.
        doing: Row of tracks → where something says what the thread itself does.
        named: Row of tracks → where a function or a range of the user shows what the
            thread does.
        fetching: Row of tracks → where a function fetches or makes a batch.
        writing: Row of tracks → where a function writes a checkpoint or a model.
    """

    classes: HostClasses
    united: dict[int, Spans]
    waits: Spans
    peers: Spans
    profiler: Spans
    chores: Spans
    between: Spans
    dense: Spans
    doing: dict[int, Spans]
    named: dict[int, Spans]
    fetching: dict[int, Spans]
    writing: dict[int, Spans]

    def claims(self, track: int, of_any_thread: Claims) -> Claims:
        """Return what the state of one launching thread claims, in order.

        Args:
            track: Row of tracks.
            of_any_thread: What `claims_of_any_thread` returns.
        """
        one = self._only(track)
        active = self.doing.get(track, Spans.empty())
        told = _Told(
            self.named.get(track, Spans.empty()),
            self.fetching.get(track, Spans.empty()),
            self.writing.get(track, Spans.empty()),
        )
        own = self._claims(one, told, active)
        # Both are in the same order: one owner's own claim, then that of others.
        return tuple(
            claim
            for (owner, mine), (_, theirs) in zip(own, of_any_thread, strict=True)
            for claim in ((owner, mine), (owner, theirs - active))
        )

    def claims_of_any_thread(self) -> Claims:
        """Return what the states of all step threads together claim, in order."""
        return self._claims(self._any, self._told(), None)

    def _told(self) -> _Told:
        return _Told(
            Spans.union_of(self.named.values()),
            Spans.union_of(self.fetching.values()),
            Spans.union_of(self.writing.values()),
        )

    def claims_without_device(self) -> Claims:
        """Return what the step threads claim where the host itself runs the program."""
        told = self._told()
        state = self._any
        work = self.classes.host_compute
        waits = self.classes.input_wait
        return (
            ("profiler", self.profiler),
            ("compile", state(HostCode.COMPILE) | state(HostCode.TRACING)),
            # The library communicates on a thread of its own; what computes meanwhile
            # does not wait for it.
            (
                "peer",
                state(HostCode.PEER) | (self.peers - state(HostCode.HOST_COMPUTE)),
            ),
            ("input", waits | told.fetching),
            ("output", state(HostCode.OUTPUT) | told.writing),
            (
                "between",
                (self.chores | state(HostCode.GARBAGE)) & self.between,
            ),
            *((("host_compute", work),) if not isinstance(work, Unavailable) else ()),
            ("host_compute", state(HostCode.GARBAGE)),
            ("sync", state(HostCode.SYNC) | state(HostCode.READ_BACK)),
            ("host_compute", told.named),
            ("between", self.between),
        )

    def _claims(self, state: _State, told: _Told, active: Spans | None) -> Claims:
        # Long silence is work of the program where something says whose; the rest of
        # a long op that launches at its end is the op's own. Few stretches are that
        # long, so that they are found first.
        long = told.named - self.dense
        silent = _without(long, state, (*_LAUNCHES, *_WAITING))
        swift = self.dense if active is None else self.dense & active
        garbage = state(HostCode.GARBAGE)
        return (
            ("profiler", self.profiler),
            ("compile", state(HostCode.COMPILE) | state(HostCode.TRACING)),
            ("peer", state(HostCode.PEER)),
            (
                "input",
                _union(state, _INPUT)
                | _without(self.waits | told.fetching, state, _WORKING),
            ),
            (
                "output",
                _union(state, _OUTPUT) | told.writing,
            ),
            ("between", (self.chores | garbage) & self.between),
            (
                "host_compute",
                state(HostCode.HOST_COMPUTE)
                | garbage
                | silent
                | (state(HostCode.DISPATCH) - self.dense),
            ),
            # Earlier claims have all other codes.
            ("launch", _union(state, _LAUNCHING) | _without(swift, state, _WAITING)),
            ("sync", state(HostCode.SYNC)),
            ("between", self.between),
        )

    def _only(self, track: int) -> _State:
        sets = self.classes.by_thread.get(track, {})
        return lambda code: sets.get(code, Spans.empty())

    def _any(self, code: HostCode) -> Spans:
        return self.united.get(code, Spans.empty())


def host_states(
    *,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    steps: Steps | Unavailable,
    host_classes: HostClasses,
    function_frames: FunctionFrames | Unavailable,
    function_purposes: FunctionPurposes | Unavailable,
    launch_facts: LaunchFacts | Unavailable,
    between_steps: Spans,
) -> HostStates:
    """Collect the states of the threads that drive the steps.

    Definition: docs/where-a-steps-time-goes.md#what-the-host-did.

    Args:
        tracks: The table.
        events: The table.
        event_types: The table.
        event_kinds: What the names of the events say.
        steps: The steps, whose marks say nothing of what is done.
        host_classes: The classes of host time.
        function_frames: The functions that ran.
        function_purposes: What those of libraries are for.
        launch_facts: What a launch usually takes.
        between_steps: Where no step's own work goes on.
    """
    rows_of = _RowsOfTracks(tracks, events)
    types = handles(events, "type")
    functions: dict[int, _Functions] = {}
    if not isinstance(function_frames, Unavailable) and not isinstance(
        function_purposes, Unavailable
    ):
        functions = _by_track(function_frames, function_purposes)
    threads, program = _threads(tracks, events, event_kinds, host_classes, functions)
    telling = (event_kinds.host_class == 0) & ~event_kinds.has(
        _WRAPPERS | EventFlag.PYTHON_FRAME
    )
    telling &= ~event_types["name"].is_in(list(marker_names(steps))).to_numpy()
    plain = host_classes.code == HostCode.NOTHING
    chore = event_kinds.has(EventFlag.CHORE) & ~event_kinds.has(EventFlag.PYTHON_FRAME)
    doing, named, chores = {}, {}, []
    for track in threads:
        rows = rows_of.of(track)
        mine = types[rows]
        sets = host_classes.by_thread.get(track, {})
        # The silence of a thread of a pool says nothing of the program.
        if program[track]:
            told = rows_of.spans(rows, telling[mine] & plain[rows])
            named[track] = told | _of_the_step(functions.get(track), sets)
        doing[track] = Spans.union_of(
            [
                named.get(track, Spans.empty()),
                *(spans for code, spans in sets.items() if code != HostCode.BLOCKED),
            ]
        )
        chores.append(rows_of.spans(rows, chore[mine]))
    return HostStates(
        classes=host_classes,
        united=_united(host_classes, threads),
        waits=_anywhere(host_classes, HostCode.INPUT_WAIT),
        peers=_anywhere(host_classes, HostCode.PEER),
        profiler=_recording(tracks, rows_of, event_kinds.host_class[types]),
        chores=Spans.union_of(chores),
        between=between_steps,
        dense=_dense(
            rows_of,
            threads,
            host_classes.code,
            limit_ps=long_stretch_ps(
                0 if isinstance(launch_facts, Unavailable) else launch_facts.latency_ps
            ),
        ),
        doing=doing,
        named=named,
        fetching={track: ran.fetching for track, ran in functions.items()},
        writing={track: ran.writing for track, ran in functions.items()},
    )


def _of_the_step(functions: _Functions | None, sets: Mapping[int, Spans]) -> Spans:
    """Return when functions ran that no input pipeline called: it works ahead."""
    ran = Spans.empty() if functions is None else functions.all
    return ran - sets.get(HostCode.PIPELINE, Spans.empty())


def _recording(
    tracks: pl.DataFrame, rows_of: _RowsOfTracks, host_class: NDArray[np.uint8]
) -> Spans:
    """Return when the recorder worked, on threads or on a line beside them."""
    on_host = np.flatnonzero(tracks["device"].is_null().to_numpy())
    return Spans.union_of(
        rows_of.spans(rows, host_class[rows] == HostClass.PROFILER)
        for rows in map(rows_of.of, on_host.tolist())
    )


def _threads(
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    kinds: EventKinds,
    classes: HostClasses,
    functions: Mapping[int, _Functions],
) -> tuple[list[int], NDArray[np.bool_]]:
    """Return the threads that are asked what they do, and which run the program."""
    on_host = tracks["device"].is_null().to_numpy()
    found = [track for track in classes.threads.tracks() if on_host[track]]
    program = on_host & _tracks_with(
        kinds, handles(events, "type"), handles(events, "track"), len(tracks)
    )
    program[list(functions)] = True
    if not program[found].any():
        # What launches are threads of the framework; the program feeds them.
        found += np.flatnonzero(program).tolist()
    # Samples that no recorded thread is known to be of are of the program's own.
    sampled = tracks["kind"].to_numpy() == "samples"
    found += [row for row in functions if sampled[row] and row not in found]
    marked = classes.threads.by_evidence[EVIDENCE.index("marker")].any(axis=1)
    return found, program | marked


def _united(classes: HostClasses, threads: Collection[int]) -> dict[int, Spans]:
    """Return where any of some threads has a code, while it drives a step."""
    driving = set(classes.threads.tracks())
    found: dict[int, list[Spans]] = {}
    for track in threads:
        when = classes.threads.when(track) if track in driving else None
        for code, spans in classes.by_thread.get(track, {}).items():
            mine = spans if when is None else spans & when
            found.setdefault(code, []).append(mine)
    return {code: Spans.union_of(sets) for code, sets in found.items()}


def _tracks_with(
    kinds: EventKinds,
    types: NDArray[np.int32],
    tracks: NDArray[np.int32],
    count: int,
) -> NDArray[np.bool_]:
    """Return by row of tracks whether it holds calls or frames of the program."""
    found = np.zeros(count, np.bool_)
    found[tracks[kinds.has(PROGRAM)[types]]] = True
    return found


def _without(spans: Spans, state: _State, codes: Iterable[HostCode]) -> Spans:
    for code in codes:
        spans = spans - state(code)
    return spans


def _union(state: _State, codes: Iterable[HostCode]) -> Spans:
    return Spans.union_of(state(code) for code in codes)


def _anywhere(classes: HostClasses, code: HostCode) -> Spans:
    return Spans.union_of(
        found[code] for found in classes.by_thread.values() if code in found
    )


def _dense(
    rows_of: _RowsOfTracks,
    threads: Iterable[int],
    code: NDArray[np.uint8],
    *,
    limit_ps: int,
) -> Spans:
    """Return where a thread is busy with ops, or a begin soon follows what it did.

    What it did is anything with a code: the program is on its way from the end of a
    wait to the next op as well as from op to op.
    """
    is_begin = np.zeros(256, np.bool_)
    is_begin[list(_BEGINS)] = True
    found = []
    for track in threads:
        rows = rows_of.of(track)
        start, end = (
            rows_of.start_ps[rows],
            rows_of.start_ps[rows] + rows_of.dur_ps[rows],
        )
        does = code[rows] != HostCode.NOTHING
        start, end, begins = start[does], end[does], is_begin[code[rows][does]]
        if not begins.any():
            continue
        # To the next begin; where that is far away or none, to the event's own end.
        next_begin = _following(np.where(begins, start, _NEVER))
        length = np.where(next_begin == _NEVER, limit_ps + 1, next_begin - start)
        length = np.where(length <= limit_ps, length, end - start)
        quick = begins & (length <= limit_ps)
        # From the end of all that came before to a begin.
        reach = np.maximum.accumulate(end)
        before = np.concatenate(([_NEVER], reach[:-1]))
        near = begins & (before < start) & (start - before <= limit_ps)
        found.append(Spans.from_events(start[quick], length[quick]))
        found.append(Spans.from_events(before[near], (start - before)[near]))
    return Spans.union_of(found)


def _following(begins: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each place the least value after it."""
    least = np.minimum.accumulate(begins[::-1])[::-1]
    return np.append(least[1:], _NEVER)


class _RowsOfTracks:
    """The rows of events of each track."""

    def __init__(self, tracks: pl.DataFrame, events: pl.DataFrame) -> None:
        self.start_ps = ints(events, "start_ps")
        self.dur_ps = ints(events, "dur_ps")
        self._begins = ints(tracks, "event_begin")
        self._ends = ints(tracks, "event_end")

    def of(self, track: int) -> slice:
        return slice(int(self._begins[track]), int(self._ends[track]))

    def spans(self, rows: slice, chosen: NDArray[np.bool_] | None = None) -> Spans:
        starts, durs = self.start_ps[rows], self.dur_ps[rows]
        if chosen is not None:
            starts, durs = starts[chosen], durs[chosen]
        return Spans.from_events(starts, durs)
