"""`account_parts`: the time of each owner by name: ops, calls, functions, lines.

Definition: docs/where-a-steps-time-goes.md#names.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl

from stepscope.derive.account.function_parts import calling_function, function_parts
from stepscope.derive.account.host_states import PROGRAM
from stepscope.derive.account.places import marker_names
from stepscope.derive.account.topics import TOPICS
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.intervals.nesting import nest_subset
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag, HostClass
from stepscope.derive.step_time.host_codes import STICKY, HostCode
from stepscope.derive.step_time.owners import IDLE_OWNERS, PLACES
from stepscope.derive.step_time.threads import EVIDENCE
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from stepscope.derive.account.owned_time import Account, DeviceAccount
    from stepscope.derive.account.topics import IdleTopics
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps

__all__ = ["CALLER_ROWS", "PART_ROWS", "AccountParts", "account_parts"]

#: Columns of `AccountParts.rows`.
PART_ROWS: Final[dict[str, pl.DataType]] = {
    "device": pl.Int32(),  # null where no device could be looked at
    "owner": pl.String(),
    "place": pl.String(),  # one of `PLACES`
    "name": pl.String(),  # null where nobody named it
    "detail": pl.String(),  # what most of it is, beside the name; null for nothing
    "function": pl.String(),  # null where the name is no function
    "file": pl.String(),
    "line": pl.Int64(),
    "loop": pl.Boolean(),  # whether the function runs around steps: none of their work
    "time_ps": pl.Int64(),
}
#: Columns of `AccountParts.callers`.
CALLER_ROWS: Final[dict[str, pl.DataType]] = {
    name: kind
    for name, kind in PART_ROWS.items()
    if name not in ("name", "detail", "loop")
}
_CODES: Final[dict[str, tuple[HostCode, ...]]] = {
    "profiler": (HostCode.PROFILER,),
    "compile": (HostCode.COMPILE, HostCode.TRACING),
    "peer": (HostCode.PEER,),
    "input": (
        *(HostCode.INPUT_WAIT, HostCode.OWN_INPUT, HostCode.ITERATOR),
        HostCode.COPY_IN,
    ),
    "output": (HostCode.OUTPUT, HostCode.READ_BACK, HostCode.COPY_OUT),
    "host_compute": (HostCode.HOST_COMPUTE, HostCode.GARBAGE, HostCode.DISPATCH),
    "launch": (HostCode.LAUNCH, HostCode.DISPATCH, HostCode.LAUNCH_OR_COMPUTE),
    "sync": (HostCode.SYNC, HostCode.READ_BACK),
    "between": (HostCode.GARBAGE,),
    # Topics. Some are told by functions first, which say where in the program.
    "garbage": (HostCode.GARBAGE,),
    "writing": (HostCode.OUTPUT,),
    "read_back": (),
    "callback": (),
    "unnamed": (),
}
#: Owners whose time functions may have, where no op or call does.
_OF_FUNCTIONS: Final = frozenset(
    {
        *("host_compute", "between", "input", "output"),
        *("writing", "read_back", "callback"),
    }
)
#: Topic that functions do not name → owners whose events do.
_NAMED_AS: Final = {"callback": ("host_compute",), "read_back": ("sync", "launch")}


class _Name(NamedTuple):
    name: str | None
    detail: str | None = None
    function: str | None = None
    file: str | None = None
    line: int | None = None
    loop: bool = False


_NO_DETAIL: Final = -1
#: What takes less than this share of the windows need not be called by anybody.
_CALLED: Final = 0.02
#: Shorter events than this do not say where the program was.
_NEIGHBOUR_PS: Final = 100 * PS_PER_US

_UNNAMED: Final = _Name(None)
_LATENCY: Final = _Name("launch latency")
_BETWEEN_OPS: Final = _Name("Python between ops")
_POOL_TASKS: Final = _Name("tasks of thread pools")


class AccountParts(Frozen, frozen=True):
    """The idle time of the measured windows, by owner, place and name.

    Attributes:
        rows: Columns `PART_ROWS`, most time first. The parts of one (device, owner,
            place) add up to the owner's time there.
        topics: Columns `PART_ROWS`, likewise of the topics of idle time, which stand in
            place of owners.
        callers: Columns `CALLER_ROWS`: of a (device, owner, place) the program's own
            deepest function within a step from which most of that time is called, with
            the time inside it. What takes next to nothing of the windows has none.
        window_ps: Sum of the measured windows.
        windows: Number of measured windows.
    """

    rows: pl.DataFrame
    topics: pl.DataFrame
    callers: pl.DataFrame
    window_ps: int
    windows: int


def account_parts(
    *,
    account: Account,
    idle_topics: IdleTopics,
    windows: Windows,
    steps: Steps | Unavailable,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    host_classes: HostClasses | Unavailable,
    function_frames: FunctionFrames | Unavailable,
) -> AccountParts:
    """Name the time of each owner as exactly as the recording does.

    Args:
        account: The account.
        idle_topics: What of the idle time is one matter.
        windows: The windows.
        steps: The steps, whose marks name nothing.
        tracks: The table.
        events: The table.
        event_types: The table.
        event_kinds: What the names of the events say.
        host_classes: What each host event does.
        function_frames: The functions that ran.
    """
    measured = windows.measured
    starts, ends = ints(measured, "start_ps"), ints(measured, "end_ps")
    judged = Spans.from_events(starts, ends - starts)
    namer = None
    if not isinstance(host_classes, Unavailable):
        namer = _Namer(
            tracks,
            events,
            event_types["name"],
            kinds=event_kinds,
            marks=marker_names(steps),
            classes=host_classes,
            frames=None
            if isinstance(function_frames, Unavailable)
            else function_frames,
            windows=(starts, ends),
        )
    found, callers = [], []
    for device in account.devices:
        for owner in (one for one in IDLE_OWNERS if one not in account.missing):
            for place, spans in _places(device, device.idle[owner] & judged):
                key = (device.device, owner, place)
                found += [
                    (*key, *name, time)
                    for name, time in _parts(namer, device, owner, spans)
                ]
                if namer is not None and spans.length_ps >= _CALLED * judged.length_ps:
                    callers += [
                        (*key, name.function, name.file, name.line, time)
                        for name, time in namer.callers(owner, spans)
                    ]
    topics = [
        (one.device, topic, place, *name, time)
        for device, one in zip(account.devices, idle_topics.devices, strict=False)
        for topic in TOPICS
        for place, spans in _places(device, one.spans[topic] & judged)
        for name, time in _parts(namer, device, topic, spans)
    ]
    return AccountParts(
        _grouped(found),
        _grouped(topics),
        pl.DataFrame(callers, schema=CALLER_ROWS, orient="row"),
        int((ends - starts).sum()),
        len(starts),
    )


def _grouped(found: list[tuple[Any, ...]]) -> pl.DataFrame:
    rows = pl.DataFrame(found, schema=PART_ROWS, orient="row")
    grouped = rows.group_by(list(PART_ROWS)[:-1], maintain_order=True).agg(
        pl.col("time_ps").sum()
    )
    return grouped.sort("time_ps", descending=True, maintain_order=True)


def _places(device: DeviceAccount, spans: Spans) -> Iterator[tuple[str, Spans]]:
    for place, part in zip(
        PLACES, (spans - device.between, spans & device.between), strict=True
    ):
        if len(part):
            yield place, part


def _parts(
    namer: _Namer | None, device: DeviceAccount, owner: str, spans: Spans
) -> list[tuple[_Name, int]]:
    if namer is None or owner not in _CODES:
        return [(_UNNAMED, spans.length_ps)]
    found: list[tuple[_Name, int]] = []
    left = spans
    if owner == "launch":
        way = left & device.latency
        found += [(_LATENCY, way.length_ps)] if len(way) else []
        left = left - way
    first = [track for track in device.walked_by if track >= 0]
    for track in dict.fromkeys((*first, *namer.threads)):
        if not len(left):
            break
        named = namer.by_events(track, owner, left)
        found += named.parts
        left = left - named.spans
    for track in namer.function_tracks if owner in _OF_FUNCTIONS else ():
        if not len(left):
            break
        named = namer.by_functions(track, left)
        found += named.parts
        left = left - named.spans
    if len(left):
        found += namer.rest(owner, left, on_device=device.device is not None)
    return found


class _Named(Frozen, frozen=True, eq=True):
    """Parts of a set, and the instants that they are."""

    parts: list[tuple[_Name, int]]
    spans: Spans


class _Namer:
    """The events and functions that give time its names."""

    def __init__(
        self,
        tracks: pl.DataFrame,
        events: pl.DataFrame,
        names: pl.Series,
        *,
        kinds: EventKinds,
        marks: Collection[str],
        classes: HostClasses,
        frames: FunctionFrames | None,
        windows: tuple[NDArray[np.int64], NDArray[np.int64]],
    ) -> None:
        self._classes = classes
        self._frames = frames
        # An op has one name wherever it is told.
        self._names = pl.select(pl.coalesce(kinds.op_name, names)).to_series()
        self._marks = names.is_in(list(marks)).to_numpy()
        self._windows = windows
        self._types = handles(events, "type")
        self._rows = classes.rows
        on_host = tracks["device"].is_null().to_numpy()
        driving = [track for track in classes.threads.tracks() if on_host[track]]
        others = [track for track in classes.by_thread if track not in driving]
        self.threads = (*driving, *others)
        self._calls = kinds.has(PROGRAM)
        # What only hands work on says nothing of where the program was.
        passing = np.isin(
            kinds.host_class, (HostClass.SYNC, HostClass.READ_BACK, HostClass.LAUNCH)
        )
        self._passing = passing | kinds.has(EventFlag.ALLOCATOR | EventFlag.THREADPOOL)
        self.function_tracks: tuple[int, ...] = ()
        if frames is not None:
            # TensorFlow numbers threads its own way: samples of the program's thread
            # are on a track beside that of its events.
            started = frames.in_modules()
            self.function_tracks = tuple(
                sorted(
                    np.unique(frames.track).tolist(),
                    key=lambda it: (
                        it != self._program,
                        it not in started,
                        it not in driving,
                        it,
                    ),
                )
            )

    def by_events(self, track: int, owner: str, spans: Spans) -> _Named:
        """Name what one thread's own events of an owner's codes cover of a set."""
        when, has = self._classes.when, self._classes.has
        wanted = [code for code in _CODES[owner] if has(track, code)]
        covered = Spans.union_of(when(track, code, spans) for code in wanted)
        if not len(covered):
            return _Named([], covered)
        if owner == "launch":
            parts = self._launching(track, covered, wanted)
        elif set(wanted) <= set(STICKY):
            at = self._meeting(track, covered, wanted, outermost=True)
            parts = self._by_type(at, self._within(covered, at))
        else:
            at = self._meeting(track, covered, wanted)
            parts = self._by_type(at, self._own(at, covered))
        rest = covered.length_ps - sum(time for _, time in parts)
        if rest > 0:
            parts.append((_UNNAMED, rest))
        return _Named(parts, covered)

    def _launching(
        self, track: int, spans: Spans, wanted: Collection[HostCode]
    ) -> list[tuple[_Name, int]]:
        """Name launching by the outermost op around it, calls apart."""
        calls = self._classes.when(track, HostCode.LAUNCH, spans)
        outer = self._meeting(track, spans, wanted, outermost=True)
        found = []
        for detail, part in (("launch call", calls), ("dispatch", spans - calls)):
            # A call outside of any op is named by itself.
            found += [
                (_Name(name.name, detail), spent)
                for name, spent in self._by_type(outer, self._within(part, outer))
            ]
        return found

    def _meeting(
        self,
        track: int,
        spans: Spans,
        wanted: Collection[int],
        *,
        outermost: bool = False,
    ) -> NDArray[np.int64]:
        """Return the rows of a thread that have wanted codes and meet a set."""
        return self._rows.meeting(
            track, spans, code=self._classes.code, wanted=wanted, outermost=outermost
        )

    def _within(self, spans: Spans, at: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how much of a set each row covers."""
        start = self._rows.start_ps[at]
        return spans.within(start, start + self._rows.dur_ps[at])

    def _own(self, at: NDArray[np.int64], spans: Spans) -> NDArray[np.int64]:
        """Return what each row covers of a set while no row inside it runs."""
        start, dur = self._rows.start_ps[at], self._rows.dur_ps[at]
        nested = nest_subset(start, dur, track=np.zeros(len(at), np.int32))
        time = self._within(spans, at)
        own = time.copy()
        inside = nested.parent >= 0
        np.subtract.at(own, nested.parent[inside], time[inside])
        return np.maximum(own, 0)

    def _by_type(
        self, at: NDArray[np.int64], time: NDArray[np.int64]
    ) -> list[tuple[_Name, int]]:
        kind, place = np.unique(self._types[at], return_inverse=True)
        total = np.zeros(len(kind), np.int64)
        np.add.at(total, place, time)
        names = self._names.gather(kind).to_list()
        return [
            (_Name(name), int(spent))
            for name, spent in zip(names, total.tolist(), strict=True)
            if spent
        ]

    def by_functions(self, track: int, spans: Spans) -> _Named:
        """Name a set by the functions that ran on one thread."""
        frames = self._frames
        if frames is None:
            return _Named([], Spans.empty())
        mine = frames.track == track
        start = frames.start_ps[mine]
        covered = spans & Spans.from_events(start, frames.end_ps[mine] - start)
        found = function_parts(frames, covered, track=track, windows=self._windows)
        parts = [
            (
                self._function(frames, part.type, part.detail)._replace(
                    loop=part.is_loop
                ),
                part.time_ps,
            )
            for part in found
        ]
        return _Named(parts, covered)

    def callers(self, owner: str, spans: Spans) -> list[tuple[_Name, int]]:
        """Return the function of the program that calls most of a set, if one does.

        Only batches are made on other threads than the program's first one.
        """
        frames = self._frames
        if frames is None:
            return []
        first, others = self.function_tracks[:1], self.function_tracks[1:]
        found = [
            called
            for tracks in ((first, others) if owner == "input" else (first,))
            if (
                called := calling_function(
                    frames,
                    spans,
                    tracks=tracks,
                    windows=self._windows,
                    beside=tracks is others,
                )
            )
        ]
        # The loop is told where nothing else is.
        found.sort(key=lambda called: called.is_loop)
        return [
            (self._function(frames, called.type, _NO_DETAIL), called.time_ps)
            for called in found[:1]
        ]

    def _function(self, frames: FunctionFrames, kind: int, detail: int) -> _Name:
        if kind < 0:
            return _UNNAMED
        name = frames.names[kind]
        told = None if detail < 0 else frames.names[detail].function
        return _Name(name.function, told, name.function, name.file, name.line)

    def rest(
        self, owner: str, spans: Spans, *, on_device: bool
    ) -> list[tuple[_Name, int]]:
        """Name what neither events of the owner nor functions name."""
        if owner == "launch":
            return [(_BETWEEN_OPS, spans.length_ps)]
        if owner in _NAMED_AS:
            return self._by_ops(_NAMED_AS[owner], spans)
        if owner == "host_compute":
            return self._by_ranges(spans, _UNNAMED if on_device else _POOL_TASKS)
        if owner in {"between", "unnamed"}:
            return self._by_neighbours(spans)
        return [(_UNNAMED, spans.length_ps)]

    def _by_ranges(self, spans: Spans, last: _Name) -> list[tuple[_Name, int]]:
        """Name by the innermost range around, thread after thread."""
        found: list[tuple[_Name, int]] = []
        for track in self.threads:
            if not len(spans):
                break
            at = self._meeting(track, spans, [HostCode.NOTHING])
            at = at[~self._marks[self._types[at]]]
            start = self._rows.start_ps[at]
            covered = spans & Spans.from_events(start, self._rows.dur_ps[at])
            found += self._by_type(at, self._own(at, covered))
            spans = spans - covered
        if len(spans):
            found.append((last, spans.length_ps))
        return found

    def _by_ops(self, owners: tuple[str, ...], spans: Spans) -> list[tuple[_Name, int]]:
        """Name by events of some owners, thread after thread, then by ranges."""
        found: list[tuple[_Name, int]] = []
        for owner in owners:
            for track in self.threads:
                named = self.by_events(track, owner, spans)
                found += named.parts
                spans = spans - named.spans
        return found + (self._by_ranges(spans, _UNNAMED) if len(spans) else [])

    def _by_neighbours(self, spans: Spans) -> list[tuple[_Name, int]]:
        """Name each stretch by what the program did before and after it."""
        track = self._program
        if track is None:
            return [(_UNNAMED, spans.length_ps)]
        mine = self._rows.rows(track)
        long = np.flatnonzero(self._rows.dur_ps[mine] >= _NEIGHBOUR_PS) + mine.start
        calls = self._classes.code[long] == HostCode.LAUNCH
        rows = long[~self._passing[self._types[long]] & ~calls]
        start = self._rows.start_ps[rows]
        end = start + self._rows.dur_ps[rows]
        outer = _outermost(start, end)
        start, end, types = start[outer], end[outer], self._types[rows[outer]]
        before = np.searchsorted(end, spans.start_ps, side="right") - 1
        after = np.searchsorted(start, spans.end_ps, side="left")

        @cache
        def name(first: int, last: int) -> _Name:
            told = []
            if first >= 0:
                told.append(f"after {self._names[first]}")
            if last >= 0:
                told.append(f"before {self._names[last]}")
            return _Name(", ".join(told) or None)

        # One more at the end: nothing before the first one, nothing after the last.
        around = np.append(types, np.int32(-1))
        return [
            (name(first, last), length)
            for first, last, length in zip(
                around[before].tolist(),
                around[after].tolist(),
                (spans.end_ps - spans.start_ps).tolist(),
                strict=True,
            )
        ]

    @cached_property
    def _program(self) -> int | None:
        """Return the thread that carries the marks, else the one that calls most."""
        by_evidence = self._classes.threads.by_evidence
        marked = by_evidence[EVIDENCE.index("marker")].any(axis=1)
        pool = [track for track in self.threads if marked[track]] or self.threads
        if len(pool) < 2:
            return pool[0] if pool else None

        def calls(track: int) -> int:
            return int(self._calls[self._types[self._rows.rows(track)]].sum())

        return max(pool, key=calls)


def _outermost(
    start_ps: NDArray[np.int64], end_ps: NDArray[np.int64]
) -> NDArray[np.intp]:
    """Return the places that no earlier row contains; rows ascend by start."""
    if not len(start_ps):
        return np.empty(0, np.intp)
    reach = np.maximum.accumulate(end_ps)
    outside = np.concatenate(([True], start_ps[1:] >= reach[:-1]))
    return np.flatnonzero(outside)
