"""Which owner claims what threads did, worked out by hand, code by code."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace
from tests.support.traces.literal_tables import (
    kinds_of,
    steps_of,
    tables_of,
    types_of,
)

from stepscope.derive.account.host_states import (
    HostStates,
    host_states,
    min_work_gap_ps,
)
from stepscope.derive.account.thread_waits import (
    awaited_thread,
    common_spans,
    host_threads,
    lines_without_core,
    off_core,
    thread_sleep,
)
from stepscope.derive.host.function_frames import FunctionFrames
from stepscope.derive.host.function_names import FunctionName
from stepscope.derive.host.function_purposes import FunctionPurpose, FunctionPurposes
from stepscope.derive.host.values import profiler_work
from stepscope.derive.intervals.nesting import flatten_tracks
from stepscope.derive.intervals.spans import Spans, TrackRows
from stepscope.derive.names.event_kinds import EventFlag, HostClass
from stepscope.derive.step_time.host_classes import HostClasses
from stepscope.derive.step_time.host_codes import SHORT_OP_PS
from stepscope.derive.step_time.host_time import STICKY
from stepscope.derive.step_time.host_time import HostCode as Code
from stepscope.derive.step_time.threads import EVIDENCE, StepThreads
from stepscope.unavailable import Unavailable
from stepscope.xspace.samples_line import SamplesLine

WHY = Unavailable(code="NOT_RECORDED", reason="no", remedy="record it")
MS = 10**9

#: Kinds of events whose code is their number; then others without a code.
FRAME, RANGE, CHORE, RECORDER, PLAIN, WRAPPER, MARKER = range(30, 37)
KINDS = kinds_of(
    37,
    classes={RECORDER: HostClass.PROFILER},
    flags={
        FRAME: EventFlag.PYTHON_FRAME,
        RANGE: EventFlag.ANNOTATION,
        CHORE: EventFlag.CHORE,
        WRAPPER: EventFlag.EAGER_WRAPPER,
    },
)
NAMES = [*map(str, range(36)), "train"]
TYPES = types_of(NAMES).with_columns(annotation=pl.lit(value=True))

Line = tuple[int, int, int, int]


class Host:
    """Threads 0 (the program's, with all steps), 1 (another), and what they did."""

    def __init__(
        self,
        lines: list[Line],
        *,
        tracks: Any = ("main", "second"),
        driving: tuple[int, ...] = (0,),
        frames: FunctionFrames | Unavailable = WHY,
        beside: FunctionFrames | Unavailable = WHY,
        purposes: list[int] = (),
        between: Spans | None = None,
        latency: Any = WHY,
        work: Any = None,
        computing: Spans | None = None,
    ) -> None:
        self.tracks, self.events = tables_of(lines, list(tracks))
        types = self.events["type"].to_numpy()
        code = np.where(types < 30, types, 0).astype(np.uint8)
        evidence = np.zeros((len(EVIDENCE), len(self.tracks), 1), np.bool_)
        evidence[EVIDENCE.index("launch"), list(driving)] = True
        threads = StepThreads(evidence, np.array([0]), np.array([100 * MS]))
        rows = TrackRows.from_tables(self.tracks, self.events)
        merged = {Code.LAUNCH: Code.LAUNCHING, Code.DISPATCH: Code.LAUNCHING}
        sets = flatten_tracks(
            self.tracks, self.events, code, sticky=STICKY, alike=merged
        )
        nothing = Spans.empty()
        waits = [each.get(Code.INPUT_WAIT, nothing) for each in sets.values()]
        self.classes = HostClasses(
            input_wait=Spans.union_of(waits),
            compile=nothing,
            host_compute=sets.get(0, {}).get(Code.HOST_COMPUTE, nothing)
            if work is None
            else work,
            sync=nothing,
            by_thread=sets,
            no_device=False,
            launch_unknown=None,
            code=code,
            threads=threads,
            rows=rows,
            computing=computing or nothing,
        )
        reasons = FunctionPurposes(np.array(purposes, np.uint8), {})
        no_trace: Any = None
        sleep: Any = frames
        if not isinstance(frames, Unavailable):
            sleep = thread_sleep(
                tracks=self.tracks,
                core_time=WHY,
                function_frames=frames,
                function_lines=WHY,
                function_purposes=reasons,
                non_step_frames=beside,
                host_classes=self.classes,
            )
        self.states = host_states(
            tracks=self.tracks,
            events=self.events,
            event_types=TYPES,
            event_kinds=KINDS,
            steps=steps_of([0], marker=["train"], name=["train 0"]),
            host_classes=self.classes,
            function_frames=frames,
            profiler_work=profiler_work(
                trace=no_trace,
                tracks=self.tracks,
                events=self.events,
                event_kinds=KINDS,
                stats=WHY,
            ),
            function_lines=WHY,
            function_purposes=reasons,
            thread_sleep=sleep,
            non_step_frames=beside,
            launch_latency=latency,
            between_steps=between or nothing,
        )


def owners(claims: Any, at: list[int]) -> list[str | None]:
    """The first owner that claims each instant."""
    found = []
    for t in at:
        owned = (owner for owner, spans in claims if spans.within([t], [t + 1])[0])
        found.append(next(owned, None))
    return found


#: Code → owner of the time in which the launching thread has it, and without a device.
OWNED = {
    Code.INPUT_WAIT: ("input", "input"),
    Code.OWN_INPUT: ("input", None),
    Code.ITERATOR: ("input", None),
    Code.COMPILE: ("compile", "compile"),
    Code.TRACING: ("compile", "compile"),
    Code.LAUNCH: ("launch", None),
    Code.HOST_COMPUTE: ("host_compute", "host_compute"),
    Code.SYNC: ("sync", "sync"),
    Code.PIPELINE: (None, None),
    Code.LAUNCH_OR_COMPUTE: ("launch", None),
    Code.BLOCKED: (None, None),
    Code.DISPATCH: ("launch", None),
    Code.OUTPUT: ("output", "output"),
    Code.GARBAGE: ("host_compute", "host_compute"),
    Code.PEER: ("peer", "peer"),
    Code.READ_BACK: ("output", "sync"),
    Code.COPY_OUT: ("output", None),
    Code.COPY_IN: ("input", None),
    Code.SYSTEM_WAIT: ("sync", "sync"),
    Code.FILE_READ: ("input", "input"),
    Code.SYSTEM_CALL: ("host_compute", "host_compute"),
}
ALL = Spans.of([(0, 100 * MS)])


def test_every_code_of_a_step_thread_has_its_owner() -> None:
    for code, (with_device, without_device) in OWNED.items():
        states = Host([(0, code, 10, 10)]).states
        assert states.threads == (0,)
        times = [9, 10, 19, 20]
        expected = [None, with_device, with_device, None]
        of_any = states.claims_of_any_thread(ALL)
        assert owners(of_any, times) == expected
        assert owners(states.thread_claims(0, ALL, of_any), times) == expected
        alone = [None, without_device, without_device, None]
        assert owners(states.claims_without_device(ALL), times) == alone


def test_a_thread_that_drives_no_step_has_no_claim_but_waits_for_input() -> None:
    for code in OWNED:
        states = Host([(1, code, 10, 10), (0, PLAIN, 50, 1)]).states
        with_device = "input" if code == Code.INPUT_WAIT else None
        assert owners(states.claims_of_any_thread(ALL), [15]) == [with_device]
        # Its library talks to other processes on a thread of its own.
        without = "peer" if code == Code.PEER else with_device
        assert owners(states.claims_without_device(ALL), [15]) == [without]


def test_claims_come_in_a_fixed_order() -> None:
    """Later ones overlap all earlier ones on another step thread."""
    order = [
        *(Code.PEER, Code.FILE_READ, Code.OUTPUT, Code.HOST_COMPUTE),
        *(Code.LAUNCH_OR_COMPUTE, Code.SYSTEM_WAIT),
    ]
    names = ["peer", "input", "output", "host_compute", "launch", "sync"]
    for first, owner in enumerate(names):
        for second in range(first + 1, len(names)):
            lines = [(1, order[first], 0, 10), (0, order[second], 0, 10)]
            states = Host(lines, driving=(0, 1)).states
            assert owners(states.claims_of_any_thread(ALL), [5]) == [owner]
            # Of the launching thread, what it does itself counts, unless it waits.
            claims = states.thread_claims(0, ALL, states.claims_of_any_thread(ALL))
            waits = order[second] == Code.SYSTEM_WAIT
            assert owners(claims, [5]) == [owner if waits else names[second]]


def test_the_profiler_s_own_work_comes_first_wherever_it_is() -> None:
    lines = [(1, RECORDER, 0, 10), (0, Code.COMPILE, 5, 10), (2, RECORDER, 20, 5)]
    device = {"name": "gpu", "device": 0}
    states = Host(lines, tracks=["main", "second", device]).states
    for claims in (
        states.claims_of_any_thread(ALL),
        states.claims_without_device(ALL),
    ):
        assert owners(claims, [4, 9, 10, 22]) == [
            *("profiler", "profiler", "compile", None),
        ]


def test_chores_and_garbage_between_steps_are_between() -> None:
    lines = [
        *((0, CHORE, 0, 20), (0, Code.GARBAGE, 30, 20), (1, CHORE, 60, 20)),
        (0, Code.OUTPUT, 12, 3),
    ]
    between = Spans.of([(10, 20), (40, 70), (90, 95)])
    states = Host(lines, between=between).states
    times = [5, 11, 13, 35, 45, 65, 92]
    for claims, first in (
        (states.claims_of_any_thread(ALL), None),
        (states.claims_without_device(ALL), None),
    ):
        assert owners(claims, times) == [
            *(first, "between", "output", "host_compute", "between", "between"),
            "between",
        ]


def test_a_thread_waits_for_a_batch_while_another_one_makes_it() -> None:
    """With and without a device; a thread that computes does not wait."""
    lines = [
        *((0, Code.SYSTEM_WAIT, 0, 30), (1, Code.OWN_INPUT, 10, 5)),
        *((1, Code.ITERATOR, 20, 5), (1, Code.PIPELINE, 26, 3)),
    ]
    states = Host(lines).states
    for claims in (states.claims_of_any_thread(ALL), states.claims_without_device(ALL)):
        assert owners(claims, [5, 12, 22, 27]) == ["sync", "input", "input", "sync"]


def test_another_thread_s_wait_for_input_counts_where_this_one_does_not_work() -> None:
    lines = [
        *((1, Code.INPUT_WAIT, 0, 100), (0, Code.LAUNCH, 10, 5)),
        *((0, Code.HOST_COMPUTE, 20, 5), (0, Code.SYSTEM_CALL, 30, 5)),
        *((0, Code.SYNC, 40, 5), (0, Code.COPY_OUT, 50, 5)),
    ]
    states = Host(lines).states
    assert owners(states.claims_of_any_thread(ALL), [5, 12, 22, 32, 42, 52]) == [
        *("input", "launch", "host_compute", "host_compute", "input", "output"),
    ]


def test_peers_wait_where_no_step_thread_computes() -> None:
    """Another thread's wait; and one of a step thread while a worker computes."""
    lines = [
        *((1, Code.PEER, 0, 30), (0, Code.HOST_COMPUTE, 10, 5)),
        (0, Code.PEER, 40, 20),
    ]
    states = Host(lines, computing=Spans.of([(45, 50)])).states
    claims = states.claims_without_device(ALL)
    # From 45 to 50, the thread's wait is claimed as one of any thread.
    assert owners(claims, [5, 12, 20, 42, 47]) == [
        *("peer", "host_compute", "peer", "peer", "peer"),
    ]


def test_unknown_host_work_claims_nothing() -> None:
    states = Host([(0, Code.HOST_COMPUTE, 10, 5)], work=WHY).states
    assert owners(states.claims_without_device(ALL), [12]) == [None]


# Time without ops.


@pytest.mark.parametrize(
    ("latency_us", "gap"), [(0, MS), (50, MS), (51, 20 * 51 * 10**6)]
)
def test_a_gap_between_ops_is_work_beyond_a_millisecond_and_twenty_latencies(
    latency_us: int, gap: int
) -> None:
    assert min_work_gap_ps(latency_us * 10**6) == gap


def test_short_gaps_between_launches_are_launching_and_long_ones_computing() -> None:
    """Python runs all the time; launches begin at 0, 1, 3 and 3.5 ms."""
    lines = [(0, Code.LAUNCH, at, 10**6) for at in (0, MS, 3 * MS, 3 * MS + MS // 2)]
    lines += [(0, PLAIN, 0, 10 * MS)]
    states = Host([*lines, (0, FRAME, 20 * MS, MS)]).states
    times = [MS // 2, MS + MS // 2, 3 * MS + MS // 4, 9 * MS]
    for claims in (
        states.claims_of_any_thread(ALL),
        states.thread_claims(0, ALL, states.claims_of_any_thread(ALL)),
    ):
        assert owners(claims, times) == [
            *("launch", "host_compute", "launch", "host_compute"),
        ]
    # Without a range or function around it, nobody knows what the long gap is.
    silent = Host([*lines[:-1], (0, FRAME, 20 * MS, MS)]).states
    assert owners(silent.claims_of_any_thread(ALL), times) == [
        *("launch", None, "launch", None),
    ]


@pytest.mark.parametrize("kind", [WRAPPER, MARKER, FRAME])
def test_wrappers_and_marks_do_not_show_what_a_thread_does(kind: int) -> None:
    lines = [(0, kind, 0, 10 * MS), (0, RANGE, 20 * MS, MS)]
    states = Host(lines).states
    assert owners(states.claims_of_any_thread(ALL), [5 * MS, 20 * MS + 5]) == [
        *(None, "host_compute"),
    ]


@pytest.mark.parametrize("code", [Code.BLOCKED, Code.PIPELINE])
def test_a_range_around_a_call_that_waits_for_threads_does_not_own_it(
    code: Code,
) -> None:
    lines = [(0, RANGE, 0, 10 * MS), (0, code, 2 * MS, 3 * MS)]
    claims = Host(lines).states.claims_of_any_thread(ALL)
    assert owners(claims, [MS, 3 * MS, 6 * MS]) == [
        *("host_compute", None, "host_compute"),
    ]


def test_ranges_of_a_pool_s_thread_do_not_show_what_the_program_does() -> None:
    states = Host([(0, PLAIN, 0, 10 * MS)]).states
    assert owners(states.claims_of_any_thread(ALL), [5 * MS]) == [None]
    assert states.program_threads() == ()
    program = Host([(0, PLAIN, 0, 10 * MS), (0, FRAME, 20 * MS, MS)]).states
    assert owners(program.claims_of_any_thread(ALL), [5 * MS]) == ["host_compute"]
    assert program.program_threads() == (0,)


# Functions.


def frames_of(rows: list[tuple[int, int, int, str]]) -> FunctionFrames:
    """(track, start, length, function), none inside another."""
    names = list(dict.fromkeys(row[3] for row in rows))
    start = np.array([row[1] for row in rows])
    return FunctionFrames(
        track=np.array([row[0] for row in rows], np.int32),
        start_ps=start,
        end_ps=start + [row[2] for row in rows],
        parent=np.full(len(rows), -1, np.int32),
        self_ps=np.array([row[2] for row in rows]),
        type=np.array([names.index(row[3]) for row in rows], np.int32),
        event=np.arange(len(rows), dtype=np.int32),
        sampled=True,
        hz=100.0,
        names={
            at: FunctionName(name, f"/app/{name}.py", 1, library=False)
            for at, name in enumerate(names)
        },
    )


PURPOSES = {
    "load_batch": (FunctionPurpose.UNKNOWN, "input", "input"),
    "next": (FunctionPurpose.INPUT, "input", "input"),
    "save_checkpoint": (FunctionPurpose.UNKNOWN, "output", "output"),
    "save": (FunctionPurpose.CHECKPOINT, "output", "output"),
    "log": (FunctionPurpose.SUMMARY, "output", "output"),
    "wait": (FunctionPurpose.SYNC, "sync", "sync"),
    "launch": (FunctionPurpose.CALL, "launch", "host_compute"),
    "compute": (FunctionPurpose.UNKNOWN, "host_compute", "host_compute"),
    "join": (FunctionPurpose.AWAIT, "wait", "wait"),
    "barrier": (FunctionPurpose.PEER, "peer", "peer"),
    "reload_batcher": (FunctionPurpose.UNKNOWN, "host_compute", "host_compute"),
}


def test_a_function_s_purpose_owns_its_time_where_nothing_else_is_recorded() -> None:
    """Recorded ops and calls of a runtime come first; another thread slept before."""
    for name, (purpose, owner, without) in PURPOSES.items():
        frames = frames_of([(0, 0, 40 * MS, name), (1, 90 * MS, MS, "other")])
        lines = [(0, Code.HOST_COMPUTE, 10 * MS, MS), (0, Code.LAUNCH, 20 * MS, MS)]
        states = Host(lines, frames=frames, purposes=[purpose, 0]).states
        assert states.program_threads() == (0,)
        at = [5 * MS, 10 * MS + 5]
        compute = "output" if owner == "output" else "host_compute"
        assert owners(states.claims_of_any_thread(ALL), at) == [owner, compute]
        assert owners(states.claims_without_device(ALL), at) == [without, compute]


def test_a_wait_for_a_thread_that_fetches_a_batch_meanwhile_is_one_for_input() -> None:
    """From 10 ms on the other thread has fetched its batch, and does something else."""
    frames = frames_of([(0, 0, 40 * MS, "join")])
    rows = [(1, 0, 10 * MS, "load_batch"), (1, 10 * MS, 30 * MS, "count")]
    states = Host(
        [(0, Code.LAUNCH, 50 * MS, MS)],
        frames=frames,
        beside=frames_of(rows),
        purposes=[FunctionPurpose.AWAIT],
    ).states
    at = [5 * MS, 15 * MS]
    assert owners(states.claims_of_any_thread(ALL), at) == ["input", "wait"]
    assert owners(states.claims_without_device(ALL), at) == ["input", "wait"]


def test_a_step_thread_that_works_while_another_one_waits_owns_the_time() -> None:
    frames = frames_of([(0, 0, 40 * MS, "join"), (1, 10 * MS, 10 * MS, "compute")])
    purposes = [FunctionPurpose.AWAIT, FunctionPurpose.UNKNOWN]
    lines = [(0, Code.LAUNCH, 50 * MS, MS), (1, Code.LAUNCH, 60 * MS, MS)]
    states = Host(lines, frames=frames, purposes=purposes, driving=(0, 1)).states
    at = [5 * MS, 15 * MS, 25 * MS]
    expected = ["wait", "host_compute", "wait"]
    assert owners(states.claims_without_device(ALL), at) == expected
    of_any = states.claims_of_any_thread(ALL)
    assert owners(of_any, at) == expected
    # Of the thread that launches next, what it does itself counts.
    assert owners(states.thread_claims(0, ALL, of_any), at) == ["wait"] * 3


def test_a_thread_without_a_core_waits() -> None:
    """Of both step threads together: from 20 to 30 ms."""
    lines = [
        *((0, RANGE, 0, MS), (1, RANGE, 0, MS)),
        *((2, FRAME, 10 * MS, 20 * MS), (3, FRAME, 20 * MS, 20 * MS)),
    ]
    waits = {"name": "x", "kind": "asynchronous"}
    tracks = [
        {"name": "main", "id": 1},
        {"name": "second", "id": 2},
        {**waits, "id": 1},
        {**waits, "id": 2},
    ]
    host = Host(lines, tracks=tracks, driving=(0, 1))
    names = TYPES.with_columns(
        name=pl.Series(
            ["off the core: x" if at == FRAME else str(at) for at in range(37)]
        )
    )
    found = lines_without_core(host.tracks, host.events, names)
    assert found == {0: 2, 1: 3}
    away = off_core(host.tracks, host.events, names, rows_of=host.classes.rows)
    assert away == {
        0: Spans.of([(10 * MS, 30 * MS)]),
        1: Spans.of([(20 * MS, 40 * MS)]),
    }
    states = HostStates(
        **{name: getattr(host.states, name) for name in host.states.__struct_fields__}
        | {"off_core": away}
    )
    at = [15 * MS, 25 * MS, 35 * MS]
    together = [None, "sync", None]
    assert owners(states.claims_of_any_thread(ALL), at) == together
    assert owners(states.claims_without_device(ALL), at) == together
    claims = states.thread_claims(0, ALL, states.claims_of_any_thread(ALL))
    assert owners(claims, at) == ["sync", "sync", None]
    # Lines of other kinds, or of threads that are not recorded, are no such lines.
    other = host.tracks.with_columns(id=pl.Series([1, 5, 1, 2]))
    assert lines_without_core(other, host.events, names) == {0: 2}
    threads = host.tracks.with_columns(kind=pl.lit("thread", host.tracks["kind"].dtype))
    assert lines_without_core(threads, host.events, names) == {}
    assert lines_without_core(host.tracks, host.events, TYPES) == {}


def test_notes_about_the_program_s_first_thread_count_for_it() -> None:
    """The line's id is that of its process, and it holds only compilations."""
    tracks = [
        {"name": "python", "id": 5, "process": 9},
        {"name": "notes", "id": 9, "process": 9},
        {"name": "MainThread", "id": 7, "process": 9},
    ]
    lines = [(0, RANGE, 0, MS), (1, Code.COMPILE, 2 * MS, MS)]
    states = Host([*lines, (2, Code.OUTPUT, 3 * MS, MS)], tracks=tracks).states
    assert (states.threads, states.notes) == ((0, 1), (1,))
    claims = states.thread_claims(0, ALL, states.claims_of_any_thread(ALL))
    assert owners(claims, [2 * MS, 3 * MS]) == ["compile", None]
    named = Host([*lines, (2, Code.GARBAGE, 3 * MS, MS)], tracks=tracks).states
    assert named.notes == (1, 2)


def test_what_a_thread_does_is_recorded_work_and_named_functions() -> None:
    lines = [
        *((0, Code.SYSTEM_WAIT, 0, 5), (0, Code.BLOCKED, 10, 5), (0, Code.SYNC, 20, 5)),
        *((0, RANGE, 30, 5), (1, Code.HOST_COMPUTE, 40, 5)),
    ]
    states = Host(lines).states
    assert states.doing_spans(0, Spans.of([(0, 33)])) == Spans.of([(20, 25), (30, 33)])
    assert states.doing_spans(1, ALL) == Spans.empty()


# Which thread is awaited.


def awaited(
    lines: list[Line], *, by: int = 0, frames: FunctionFrames | None = None
) -> tuple[str, int] | None:
    host = Host([*lines, (0, Code.SYSTEM_WAIT, 0, 100)], tracks=["main", "a", "b"])
    return awaited_thread(
        host.classes,
        {0: "main", 1: "a", 2: "b"},
        Spans.of([(0, 100)]),
        types=host.events["type"].to_numpy(),
        nameless=np.arange(37) == MARKER,
        frames=frames,
        by=by,
    )


def test_a_thread_that_does_one_thing_during_half_of_a_wait_is_awaited() -> None:
    cases: list[Any] = [
        ([(1, Code.OUTPUT, 0, 50)], ("a", Code.OUTPUT)),
        ([(1, Code.OUTPUT, 0, 49)], None),  # less than half
        ([(1, Code.OUTPUT, 60, 90)], None),  # 40 of it during the wait
        ([(1, Code.OUTPUT, 0, 30), (1, Code.OUTPUT, 50, 30)], ("a", Code.OUTPUT)),
        ([(1, Code.OUTPUT, 0, 60), (2, Code.COMPILE, 0, 70)], ("b", Code.COMPILE)),
        ([(1, Code.SYNC, 0, 90)], None),  # waits itself
        ([(1, MARKER, 0, 90)], None),
        ([(0, PLAIN, 0, 90)], None),  # the thread that waits
        ([(1, PLAIN, 0, 90)], ("a", PLAIN)),
        # What is inside counts for itself.
        ([(1, PLAIN, 0, 90), (1, Code.OUTPUT, 10, 60)], ("a", Code.OUTPUT)),
        ([(1, PLAIN, 0, 90), (1, Code.OUTPUT, 10, 30)], ("a", PLAIN)),
        ([(1, PLAIN, 0, 90), (1, Code.OUTPUT, 10, 45)], None),  # 45 and 45
    ]
    for lines, expected in cases:
        assert awaited(lines) == expected


def test_functions_show_what_threads_without_events_do() -> None:
    frames = frames_of([(0, 0, 100, "main"), (1, 0, 60, "work"), (2, 0, 55, "other")])
    assert awaited([], frames=frames) == ("a", 1)
    short = frames_of([(0, 0, 100, "main"), (1, 0, 49, "work")])
    assert awaited([], frames=short) is None
    assert awaited([(2, Code.OUTPUT, 0, 50)], frames=frames) == ("b", Code.OUTPUT)
    # Time inside another function is that function's; what runs later does not count.
    rows = [(1, 0, 100, "work"), (1, 10, 51, "wait"), (1, 100, 900, "rest")]
    parent = np.array([-1, 0, -1], np.int32)
    assert awaited([], frames=replace(frames_of(rows), parent=parent)) == ("a", 1)
    rows[1] = (1, 10, 49, "wait")
    assert awaited([], frames=replace(frames_of(rows), parent=parent)) == ("a", 0)


def test_threads_of_a_host_are_named() -> None:
    samples = SamplesLine(7, "loader", 100.0)
    ran = SamplesLine(7, "loader", 100.0, "source_lines")
    tracks, _ = tables_of(
        [],
        [
            "main",
            {"name": samples.name, "kind": "samples", "id": samples.id},
            {"name": ran.name, "kind": "samples", "id": ran.id},
            {"name": samples.name, "kind": "samples", "id": 7},
            {"name": samples.name, "kind": "asynchronous", "id": samples.id},
            {"name": "gpu", "kind": "stream", "device": 0},
            {"name": "core", "kind": "thread", "device": 0},
            {"name": "counters", "kind": "counters"},
        ],
    )
    assert host_threads(tracks) == {0: "main", 1: "loader"}


def test_common_and_long_spans() -> None:
    one, other = Spans.of([(0, 10), (20, 30)]), Spans.of([(5, 25)])
    assert common_spans([one, other]) == Spans.of([(5, 10), (20, 25)])
    assert common_spans([one]) == one
    assert common_spans([]) == Spans.empty()
    long = 100 * 10**6
    spans = Spans.of([(0, long), (2 * long, 3 * long - 1), (4 * long, 6 * long)])
    assert spans.lasting(SHORT_OP_PS) == Spans.of([(0, long), (4 * long, 6 * long)])
