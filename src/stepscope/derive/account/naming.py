"""`naming`: names for the time of each cause, from a host's events and functions.

Definition: docs/where-a-steps-time-goes.md#names.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from stepscope.derive.account.function_parts import calling_function, function_parts
from stepscope.derive.account.places import marker_names
from stepscope.derive.account.thread_waits import (
    awaited_thread,
    host_threads,
    lines_without_core,
)
from stepscope.derive.columns.arrays import handles
from stepscope.derive.intervals.nesting import nest_subset, self_times
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import SYSTEM_CLASSES, EventFlag, HostClass
from stepscope.derive.step_time.host_time import (
    HOST_TIMES,
    STICKY,
    HostCode,
    codes_that_name,
)
from stepscope.derive.step_time.neighbours import Surroundings, neighbours_text
from stepscope.derive.step_time.pool_tasks import (
    ThreadOps,
    hand_on_work,
    time_by_op_type,
)
from stepscope.derive.step_time.threads import EVIDENCE, of_the_program
from stepscope.derive.step_windows.windows import window_bounds
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.reading.nullable import absent_mask
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Collection

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.account.time_by_cause import DeviceAccount
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_lines import FunctionLines
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps

#: Owners (causes) and topics (kinds of host work) whose time is divided by name.
NAMED_OWNERS: Final = frozenset(
    {
        *(name for it in HOST_TIMES for name in it.names),
        # These topics have no events: functions show what the program does meanwhile.
        *("wait", "scaling", "read_back", "callback", "unfed", "unnamed"),
    }
)
#: Causes and topics whose time is named by functions if no op or call names it.
OF_FUNCTIONS: Final = frozenset(
    {
        *("wait", "host_compute", "between", "input", "output", "sync", "startup"),
        *("writing", "debugging", "scaling", "read_back", "callback"),
    }
)
#: Topic → causes: if no function names the topic's time, events of these causes do.
_NAMED_AS: Final = {
    "callback": ("host_compute",),
    "scaling": ("sync", "launch"),
    "read_back": ("sync", "launch"),
}


class Name(NamedTuple):
    """Name of a part of a cause's time.

    Attributes:
        name: The name; None for time without a name.
        detail: What takes most of the time, shown next to the name; None for nothing.
        function: The function that gives the name; None if no function does.
        file: The file that contains the function; None if unknown.
        line: First line of the function; None if unknown.
        loop: Whether the function is the loop that executes the steps.
    """

    name: str | None
    detail: str | None = None
    function: str | None = None
    file: str | None = None
    line: int | None = None
    loop: bool = False


#: A launch call longer than this gets a name instead of counting as launch latency.
_LONG_CALL_PS: Final = PS_PER_MS

UNNAMED: Final = Name(None)
LAUNCH_LATENCY: Final = Name("launch latency")
_BETWEEN_OPS: Final = Name("Python between ops")
_BETWEEN_LAUNCHES: Final = Name("between launches")
_FROM_STEP_TO_STEP: Final = Name("from one step's range to the next")
_POOL_TASKS: Final = Name("tasks of thread pools")


class _Named(NamedTuple):
    """Named parts of some spans, and the time that these parts cover."""

    parts: list[tuple[Name, int]]
    spans: Spans


class Naming(Frozen, frozen=True, dict=True):
    """The events and functions that show what the time of owners (causes) was spent on.

    Attributes:
        names: Name by row of event_types; an op has the same name wherever it occurs.
        marks: By row of event_types: whether the type marks steps and names no time.
        passing: By row of event_types: whether a runtime, allocator or pool is called.
        calls: By row of event_types: whether it calls a graph or a compiled function.
        system: By row of event_types: whether the type is a system library's function.
        working: By row of event_types: whether it neither hands ops on and waits for
            them, nor is a system library's function.
        op_types: Code of the type of the op, by row of event_types.
        type_names: Name of the type by this code; for other events, the event's name.
        has_ops: Whether any op of a framework, or any Python call, was recorded.
        threads: Rows of tracks of the host's threads, those that drive steps first.
        program: Row of tracks of the thread that runs the program; None if unknown.
        function_tracks: Rows of tracks with functions, the program's own first.
        off_core: Row of tracks of a thread → row of its line of time without a core.
        lines: Row of tracks of each thread of the host → its name.
        ran: The executed lines of functions; None if no lines were recorded.
    """

    classes: HostClasses
    frames: FunctionFrames | None
    names: pl.Series
    marks: Bools
    passing: Bools
    calls: Bools
    system: Bools
    working: Bools
    op_types: Int32s
    type_names: pl.Series
    types: Int32s
    has_ops: bool
    threads: tuple[int, ...]
    program: int | None
    function_tracks: tuple[int, ...]
    windows: tuple[Int64s, Int64s]
    off_core: dict[int, int]
    lines: dict[int, str]
    ran: FunctionLines | None

    def named_parts(
        self, device: DeviceAccount, owner: str, spans: Spans
    ) -> list[tuple[Name, int]]:
        """Return the named parts of one cause's time; they add up to the spans."""
        if owner == "unexplained":
            long_spans = spans.lasting(_LONG_CALL_PS)
            parts = self._parts_by_neighbours(long_spans) if len(long_spans) else []
            short_ps = spans.length_ps - long_spans.length_ps
            return [*parts, (UNNAMED, short_ps)] if short_ps or not parts else parts
        if owner not in NAMED_OWNERS:
            return [(UNNAMED, spans.length_ps)]
        times, left = self._parts_before_threads(device, owner, spans)
        for track in self.naming_threads(device):
            if not len(left):
                break
            named = self._parts_by_events(track, owner, left)
            times += named.parts
            left = left - named.spans
        tasks = self.tasks_of_ops(device, owner, left)
        if len(tasks):
            times += self.remaining_parts(owner, tasks, on_device=False)
            left = left - tasks
        # If the program has no recorded ops, its own functions run between launches.
        by_functions = owner in OF_FUNCTIONS or (owner == "launch" and not self.has_ops)
        for track in self.function_tracks if by_functions else ():
            if not len(left):
                break
            named = self._parts_by_functions(track, left)
            times += named.parts
            left = left - named.spans
        if len(left):
            times += self.remaining_parts(
                owner, left, on_device=device.device is not None
            )
        return times

    def _parts_before_threads(
        self, device: DeviceAccount, owner: str, spans: Spans
    ) -> tuple[list[tuple[Name, int]], Spans]:
        """Name what no single thread names: launches in transit, and types of ops."""
        if owner == "host_compute" and device.device is None:
            return self.parts_by_op_types(device, spans)
        if owner != "launch":
            return [], spans
        transit = spans & device.latency
        # A call that is far longer than a launch also does something else.
        transit = transit - self._long_calls(device, transit)
        times = [(LAUNCH_LATENCY, transit.length_ps)] if len(transit) else []
        return times, spans - transit

    def _long_calls(self, device: DeviceAccount, spans: Spans) -> Spans:
        call_spans = []
        for track in self.naming_threads(device) if len(spans) else ():
            if not self.classes.may_have(track, HostCode.LAUNCH):
                continue
            rows = self._meeting_rows(track, spans, [HostCode.LAUNCH])
            long = rows[self.classes.rows.dur_ps[rows] >= _LONG_CALL_PS]
            start = self.classes.rows.start_ps[long]
            call_spans.append(Spans.from_events(start, self.classes.rows.dur_ps[long]))
        return spans & Spans.union_of(call_spans)

    def tasks_of_ops(self, device: DeviceAccount, owner: str, spans: Spans) -> Spans:
        """Return when a thread pool runs tasks of ops while the caller waits for them.

        The result is empty for a device and for causes other than `host_compute`.
        """
        work = self.classes.host_compute
        if (
            owner != "host_compute"
            or device.device is not None
            or isinstance(work, Unavailable)
        ):
            return Spans.empty()
        return spans & work

    def naming_threads(self, device: DeviceAccount) -> tuple[int, ...]:
        """Return the threads whose events name idle time, launching threads first."""
        first = [track for track in device.walked_by if track >= 0]
        return tuple(dict.fromkeys((*first, *self.threads)))

    def covering_rows(
        self, track: int, owner: str, spans: Spans
    ) -> tuple[Spans, Int64s, Int64s]:
        """Return the spans that events with an owner's codes cover on a thread.

        Returns:
            The covered spans, the rows of these events, and the time of each in ps.
        """
        has = self.classes.may_have
        wanted = [code for code in codes_that_name(owner) if has(track, code)]
        covered = Spans.union_of(map(self.classes.code_spans(track, spans), wanted))
        if not len(covered):
            nothing = np.empty(0, np.int64)
            return covered, nothing, nothing
        outermost = owner == "launch" or set(wanted) <= set(STICKY)
        rows = self._meeting_rows(track, covered, wanted, outer=outermost)
        time = (
            self._time_within(covered, rows)
            if outermost
            else self._self_time(rows, covered)
        )
        return covered, rows, time

    def _parts_by_events(self, track: int, owner: str, spans: Spans) -> _Named:
        """Name the spans that events with an owner's codes cover on a thread."""
        covered, rows, time = self.covering_rows(track, owner, spans)
        if not len(covered):
            return _Named([], covered)
        if owner == "launch":
            # Launching is named by the outermost op, except the time in launch calls.
            calls = self.classes.code_spans(track, covered)(HostCode.LAUNCH)
            parts = []
            for detail, part in (("launch call", calls), ("dispatch", covered - calls)):
                # A launch call outside of any op gets its own name.
                parts += [
                    (Name(name.name, detail), spent)
                    for name, spent in self._parts_by_type(
                        rows, self._time_within(part, rows)
                    )
                ]
        else:
            parts = self._parts_by_type(rows, time)
        if owner == "sync":
            parts = self._add_awaited(track, covered, parts)
        unnamed_ps = covered.length_ps - sum(time for _, time in parts)
        if unnamed_ps > 0:
            parts.append((UNNAMED, unnamed_ps))
        return _Named(parts, covered)

    def parts_by_op_types(
        self, device: DeviceAccount, spans: Spans
    ) -> tuple[list[tuple[Name, int]], Spans]:
        """Name host work by types of ops; return also the time that no op explains."""
        threads: list[ThreadOps] = []
        instances: dict[int, set[str]] = defaultdict(set)
        for track in self.naming_threads(device):
            covered, rows, self_ps = self.covering_rows(track, "host_compute", spans)
            works = self.working[self.types[rows]]
            rows, self_ps = rows[works], self_ps[works]
            kinds = self.types[rows]
            starts, durs = self.classes.rows.start_ps, self.classes.rows.dur_ps
            op_types = self.op_types[kinds]
            if len(rows):
                threads.append(
                    ThreadOps(covered, starts[rows], durs[rows], self_ps, op_types)
                )
            for kind in np.unique(kinds).tolist():
                instances[int(self.op_types[kind])].add(self.names[kind])
        times, left = time_by_op_type(threads, spans)
        # A type with one op is named as this op.
        names = {kind: min(ops) for kind, ops in instances.items() if len(ops) == 1}
        types = ((names.get(kind, self.type_names[kind]), time) for kind, time in times)
        return [(Name(name), time) for name, time in types], left

    def _add_awaited(
        self, track: int, spans: Spans, parts: list[tuple[Name, int]]
    ) -> list[tuple[Name, int]]:
        """Add to the name of a wait what the awaited thread was doing."""
        waits = self.classes.code_spans(track, spans)(HostCode.SYSTEM_WAIT)
        if not len(waits):
            return parts
        awaited = awaited_thread(
            self.classes,
            self.lines,
            waits,
            types=self.types,
            nameless=self.marks | self.passing,
            frames=self.frames,
            by=track,
        )
        if awaited is None:
            return parts
        activity_text = f"while {awaited[0]} is in {self._location_text(awaited[1])}"
        return [
            (Name(f"{name.name}, {activity_text}") if name.function else name, time)
            for name, time in parts
        ]

    def _meeting_rows(
        self, track: int, spans: Spans, wanted: Collection[int], *, outer: bool = False
    ) -> Int64s:
        return self.classes.rows.meeting_rows(
            track, spans, code=self.classes.code, wanted=wanted, outermost=outer
        )

    def _time_within(self, spans: Spans, rows: Int64s) -> Int64s:
        start = self.classes.rows.start_ps[rows]
        return spans.within(start, start + self.classes.rows.dur_ps[rows])

    def _self_time(self, rows: Int64s, spans: Spans) -> Int64s:
        start, dur = self.classes.rows.start_ps[rows], self.classes.rows.dur_ps[rows]
        nested = nest_subset(start, dur, track=np.zeros(len(rows), np.int32))
        return np.maximum(self_times(self._time_within(spans, rows), nested.parent), 0)

    def _parts_by_type(self, rows: Int64s, time: Int64s) -> list[tuple[Name, int]]:
        kind, index = np.unique(self.types[rows], return_inverse=True)
        total = np.zeros(len(kind), np.int64)
        np.add.at(total, index, time)
        return [
            (self.type_name(row), spent)
            for row, spent in zip(kind.tolist(), total.tolist(), strict=True)
            if spent
        ]

    def type_name(self, kind: int) -> Name:
        """Return the name of an event type, by its row of event_types."""
        name = self.names[kind]
        return Name(name, function=name) if self.system[kind] else Name(name)

    def _parts_by_functions(self, track: int, spans: Spans) -> _Named:
        frames = self.frames
        if frames is None:
            return _Named([], Spans.empty())
        covered = spans & frames.spans(frames.track == track)
        parts = []
        for part in function_parts(
            frames, covered, track=track, windows=self.windows, lines=self.ran
        ):
            name = self.function_name(frames, part.type, part.detail)
            line = name.detail if part.line < 0 else f"line {part.line}"
            name = name._replace(loop=part.is_loop, detail=line)
            parts.append((name, part.time_ps))
        return _Named(parts, covered)

    def calling_functions(self, owner: str, spans: Spans) -> list[tuple[Name, int]]:
        """Return the program's function that calls most of a cause's time, if any.

        Threads other than the program's first one are searched only for `input`, since
        they only produce batches.
        """
        frames = self.frames
        if frames is None:
            return []
        first, other_tracks = self.function_tracks[:1], self.function_tracks[1:]
        callers = [
            called
            for tracks in ((first, other_tracks) if owner == "input" else (first,))
            if (
                called := calling_function(
                    frames,
                    spans,
                    tracks=tracks,
                    windows=self.windows,
                    beside=tracks is other_tracks,
                )
            )
        ]
        # A loop gives the name only if there is no other function.
        callers.sort(key=lambda called: called.is_loop)
        return [
            (self.function_name(frames, called.type), called.time_ps)
            for called in callers[:1]
        ]

    def function_name(self, frames: FunctionFrames, row: int, detail: int = -1) -> Name:
        """Return the name of a function, by row of event_types; -1 for none."""
        if row < 0:
            return UNNAMED
        name = frames.names[row]
        detail_name = None if detail < 0 else frames.names[detail].function
        return Name(name.function, detail_name, name.function, name.file, name.line)

    def remaining_parts(
        self, owner: str, spans: Spans, *, on_device: bool
    ) -> list[tuple[Name, int]]:
        """Name the cause's time that its events and functions do not name."""
        if owner == "launch":
            between = _BETWEEN_OPS if self.has_ops else _BETWEEN_LAUNCHES
            return [(between, spans.length_ps)]
        if owner in _NAMED_AS:
            return self._parts_by_ops(_NAMED_AS[owner], spans)
        if owner in {"host_compute", "debugging", "startup"}:
            pool = owner == "host_compute" and not on_device
            last = _POOL_TASKS if pool else UNNAMED
            return self._parts_by_ranges(spans, None if owner == "startup" else last)
        if owner == "sync":
            lines = (
                self.off_core[track] for track in self.threads if track in self.off_core
            )
            return self._parts_by_ranges(spans, UNNAMED, tuple(lines))
        if owner in {"between", "unfed", "unnamed"}:
            return self._parts_by_neighbours(spans)
        return [(UNNAMED, spans.length_ps)]

    def _parts_by_ranges(
        self, spans: Spans, last: Name | None, tracks: tuple[int, ...] | None = None
    ) -> list[tuple[Name, int]]:
        """Name time by the innermost enclosing range, one thread after the other.

        Args:
            last: Name of the remaining time; None to name it by the work around it.
        """
        parts: list[tuple[Name, int]] = []
        for track in self.threads if tracks is None else tracks:
            if not len(spans):
                break
            rows = self._meeting_rows(track, spans, [HostCode.NOTHING])
            rows = rows[~self.marks[self.types[rows]]]
            start = self.classes.rows.start_ps[rows]
            covered = spans & Spans.from_events(start, self.classes.rows.dur_ps[rows])
            parts += self._parts_by_type(rows, self._self_time(rows, covered))
            spans = spans - covered
        if len(spans) and last is None:
            parts += self._parts_by_neighbours(spans)
        elif len(spans):
            parts.append((last or UNNAMED, spans.length_ps))
        return parts

    def _parts_by_ops(
        self, owners: tuple[str, ...], spans: Spans
    ) -> list[tuple[Name, int]]:
        """Name time by the causes' events on each thread, then by enclosing ranges."""
        parts: list[tuple[Name, int]] = []
        for owner in owners:
            for track in self.threads:
                named = self._parts_by_events(track, owner, spans)
                parts += named.parts
                spans = spans - named.spans
        return parts + (self._parts_by_ranges(spans, UNNAMED) if len(spans) else [])

    @cached_property
    def _surroundings(self) -> Surroundings | None:
        """Events on the program's thread that name the time between them, or None."""
        if self.program is None:
            return None
        return Surroundings.observe_thread(
            *(self.classes.rows, self.program),
            code=self.classes.code,
            types=self.types,
            passing=self.passing,
            calls=self.calls | self.marks,
            marks=self.marks,
        )

    def _location_text(self, kind: int) -> str:
        function = None if self.frames is None else self.frames.names.get(kind)
        return str(self.names[kind]) if function is None else function.placed()

    def _parts_by_neighbours(self, spans: Spans) -> list[tuple[Name, int]]:
        if self._surroundings is None:
            return [(UNNAMED, spans.length_ps)]
        around = self._surroundings.nearest_events(spans)

        @cache
        def name_between(first: int, last: int, *, inside: bool) -> Name:
            if first >= 0 and last >= 0 and self.marks[[first, last]].all():
                return _FROM_STEP_TO_STEP
            texts = (
                None if kind < 0 else self._location_text(kind)
                for kind in (first, last)
            )
            return Name(neighbours_text(*texts, inside=inside))

        lengths = spans.end_ps - spans.start_ps
        rows = zip(*(column.tolist() for column in (*around, lengths)), strict=True)
        return [
            (name_between(first, last, inside=inside), length)
            for first, last, inside, length in rows
        ]


def naming(
    *,
    windows: Windows,
    steps: Steps | Unavailable,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    host_classes: HostClasses,
    function_frames: FunctionFrames | Unavailable,
    function_lines: FunctionLines | Unavailable,
) -> Naming:
    """Collect the events and functions that name the time of causes."""
    names, types = event_types["name"], handles(events, "type")
    on_host = absent_mask(tracks["device"])
    driving = [
        track for track in host_classes.threads.driving_tracks() if on_host[track]
    ]
    of_program = of_the_program(event_types, event_kinds)
    frames = None if isinstance(function_frames, Unavailable) else function_frames
    framed = [] if frames is None else np.unique(frames.track).tolist()
    # A thread that only has annotated ranges of the program has no host class.
    ranges = of_program & ~event_kinds.has(EventFlag.PYTHON_FRAME)
    ranging = on_host & host_classes.rows.tracks_having(types, ranges)
    recorded_tracks = (*host_classes.by_thread, *np.flatnonzero(ranging).tolist())
    threads = tuple(dict.fromkeys((*driving, *recorded_tracks)))
    # The program's thread has the step marks or, without marks, most calls.
    marked = host_classes.threads.by_evidence[EVIDENCE.index("marker")].any(axis=1)
    pool = [track for track in threads if marked[track]] or list(threads)
    calls = values_by_row(of_program, types)
    call_counts = {
        track: int(calls[host_classes.rows.track_rows(track)].sum()) for track in pool
    }
    program = max(pool, key=call_counts.__getitem__, default=None)
    # Calls of a device's runtime do not show what the program was doing.
    passing = np.isin(
        event_kinds.host_class,
        (HostClass.SYNC, HostClass.READ_BACK, HostClass.LAUNCH, HostClass.API),
    )
    # TensorFlow numbers threads itself: a thread's samples are on another track.
    started = () if frames is None else frames.threads_in_modules()
    # Instructions of XLA are numbered: `dot.3` is one of its `dot`.
    named = pl.select(pl.coalesce(event_kinds.op_type, names)).to_series()
    named = named.str.replace(r"\.\d+$", "")
    type_names = named.unique(maintain_order=True)
    op_types = named.cast(pl.Enum(type_names)).to_physical().cast(pl.Int32)
    system = np.isin(event_kinds.host_class, SYSTEM_CLASSES)

    def sort_key(track: int) -> tuple[bool, bool, bool, int]:
        return track != program, track not in started, track not in driving, track

    return Naming(
        classes=host_classes,
        frames=frames,
        names=pl.select(pl.coalesce(event_kinds.op_name, names)).to_series(),
        marks=names.is_in(list(marker_names(steps))).to_numpy(),
        passing=passing | event_kinds.has(EventFlag.ALLOCATOR | EventFlag.THREADPOOL),
        calls=event_kinds.has(EventFlag.FUNCTION_CALL | EventFlag.PJIT),
        system=system,
        working=~hand_on_work(event_kinds) & ~system,
        op_types=op_types.to_numpy(),
        type_names=type_names,
        types=types,
        has_ops=(frames is not None and frames.of_python())
        or bool((event_kinds.is_op() | event_kinds.has(EventFlag.PJIT)).any()),
        threads=threads,
        program=program,
        function_tracks=tuple(sorted(framed, key=sort_key)),
        windows=window_bounds(windows.measured),
        off_core=lines_without_core(tracks, events, event_types),
        lines=host_threads(tracks),
        ran=None if isinstance(function_lines, Unavailable) else function_lines.known(),
    )
