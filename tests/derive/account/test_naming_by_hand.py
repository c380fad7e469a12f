"""Names of owners' time, and functions, worked out by hand on tables of a few rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.traces.literal_tables import tables_of

from stepscope.derive.account.function_parts import (
    FunctionPart,
    calling_function,
    function_parts,
)
from stepscope.derive.account.naming import UNNAMED, Name, Naming
from stepscope.derive.account.parts import owner_events
from stepscope.derive.host.function_frames import FunctionFrames
from stepscope.derive.host.function_lines import FunctionLines
from stepscope.derive.host.function_names import FunctionName
from stepscope.derive.intervals.nesting import flatten_rows, flatten_tracks, nest_subset
from stepscope.derive.intervals.spans import Spans, TrackRows
from stepscope.derive.step_time.host_time import STICKY
from stepscope.derive.step_time.host_time import HostCode as Code
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS as MS

Pairs = list[tuple[int, int]]
WHY = Unavailable(code="NOT_RECORDED", reason="no", remedy="record it")


# Functions.


def frames_of(rows: list[tuple[int, str, int, int]]) -> FunctionFrames:
    """(track, function, start, length); functions of a library begin with `_`."""
    rows = sorted(rows, key=lambda row: (row[0], row[2], -row[3]))
    names = list(dict.fromkeys(row[1] for row in rows))
    track, start, dur = (
        np.array([row[at] for row in rows], np.int64) for at in (0, 2, 3)
    )
    nested = nest_subset(start, dur, track=track.astype(np.int32))
    return FunctionFrames(
        track=track.astype(np.int32),
        start_ps=start,
        end_ps=start + dur,
        parent=nested.parent,
        self_ps=nested.self_ps,
        type=np.array([names.index(row[1]) for row in rows], np.int32),
        event=np.arange(len(rows), dtype=np.int32) + 50,
        sampled=False,
        hz=None,
        names={
            at: FunctionName(
                name.removeprefix("_"), f"/{name}.py", at + 1, name.startswith("_")
            )
            for at, name in enumerate(names)
        },
    )


NO_STEPS = (np.empty(0, np.int64), np.empty(0, np.int64))


def windows(*pairs: tuple[int, int]) -> Any:
    return tuple(np.array([pair[at] for pair in pairs]) for at in (0, 1))


def parts(
    rows: list[tuple[int, str, int, int]],
    spans: Pairs,
    steps: Any = NO_STEPS,
    *,
    track: int = 0,
) -> list[tuple[str | None, str | None, bool, int]]:
    """(function, detail, whether it is a loop, time)."""
    frames = frames_of(rows)
    found = function_parts(frames, Spans.of(spans), track=track, windows=steps)

    def name(kind: int) -> str | None:
        return None if kind < 0 else frames.names[kind].function

    return [
        (name(each.type), name(each.detail), each.is_loop, each.time_ps)
        for each in found
    ]


def test_time_is_divided_along_the_calls_of_the_program() -> None:
    """The whole is 100, of one function `f`."""
    cases: list[Any] = [
        # A callee of the program with half of its caller's time is a part of its own.
        ([("g", 0, 50)], [("f", None, 50), ("g", None, 50)]),
        ([("g", 0, 49)], [("f", None, 100)]),
        # Two with a tenth each and eight tenths together.
        (
            [("g", 0, 40), ("h", 40, 40)],
            [("g", None, 40), ("h", None, 40), ("f", None, 20)],
        ),
        ([("g", 0, 40), ("h", 40, 39)], [("f", None, 100)]),
        ([("g", 0, 49), ("h", 49, 9)], [("f", None, 100)]),
        (
            [("g", 0, 70), ("h", 70, 10)],
            [("g", None, 70), ("f", None, 20), ("h", None, 10)],
        ),
        ([("g", 0, 71), ("h", 71, 9)], [("g", None, 71), ("f", None, 29)]),
        # A library's callee is a detail from half of the time on.
        ([("_g", 0, 50)], [("f", "g", 100)]),
        ([("_g", 0, 49)], [("f", None, 100)]),
        ([("_g", 0, 90), ("_h", 0, 60)], [("f", "h", 100)]),
        ([("_g", 0, 90), ("_h", 0, 40)], [("f", "g", 100)]),
        # What a library calls back.
        ([("_g", 0, 90), ("h", 0, 60)], [("h", None, 60), ("f", "g", 40)]),
        ([("_g", 0, 90), ("h", 0, 45)], [("f", "g", 100)]),
        # Without it, the library has less than half of the rest.
        ([("_g", 0, 70), ("h", 0, 60)], [("h", None, 60), ("f", None, 40)]),
        (
            [("_g", 0, 70), ("_k", 0, 65), ("h", 0, 60)],
            [("h", None, 60), ("f", None, 40)],
        ),
        (
            [("_g", 0, 80), ("_k", 0, 65), ("h", 0, 60)],
            [("h", None, 60), ("f", "g", 40)],
        ),
    ]
    for inner, expected in cases:
        rows = [(0, "f", 0, 100), *((0, *each) for each in inner)]
        found = parts(rows, [(0, 100)])
        assert [(name, detail, time) for name, detail, _, time in found] == expected
        assert not any(loop for _, _, loop, _ in found)


def test_a_loop_s_time_is_that_of_what_it_calls() -> None:
    """Every callee with 2 % of the time has a part; smaller ones stay."""
    rows = [(0, "loop", 0, 400)]
    for step in range(4):
        at = 100 * step
        rows += [(0, "step", at, 60), (0, "log", at + 60, 10), (0, "tiny", at + 70, 1)]
    steps = windows(*((100 * at, 100 * at + 100) for at in range(4)))
    assert parts(rows, [(0, 400)], steps) == [
        ("step", None, False, 240),
        ("loop", None, True, 120),
        ("log", None, False, 40),
    ]
    # Without steps it is no loop: half of its time is a single callee's.
    assert parts(rows, [(0, 400)]) == [
        ("step", None, False, 240),
        ("loop", None, False, 120),
        ("log", None, False, 40),
    ]


@pytest.mark.parametrize(
    ("start", "length", "is_loop"),
    [
        (0, 400, True),
        (50, 250, True),  # around two of four it touches
        (50, 150, False),  # around one
        (2, 96, False),
    ],
)
def test_a_loop_is_around_two_steps_and_nearly_all_that_it_touches(
    start: int, length: int, *, is_loop: bool
) -> None:
    steps = windows(*((100 * at, 100 * at + 100) for at in range(4)))
    found = parts([(0, "f", start, length)], [(start, start + length)], steps)
    assert found == [("f", None, is_loop, length)]


@pytest.mark.parametrize(
    ("start", "end", "is_loop"), [(2, 98, True), (3, 98, False), (2, 97, False)]
)
def test_a_loop_may_miss_two_percent_of_the_only_step_at_each_end(
    start: int, end: int, *, is_loop: bool
) -> None:
    found = parts([(0, "f", start, end - start)], [(0, 100)], windows((0, 100)))
    assert found[0] == ("f", None, is_loop, end - start)


def test_time_without_a_function_has_none() -> None:
    rows = [(0, "f", 10, 20), (1, "g", 0, 100)]
    assert parts(rows, [(0, 50), (90, 100)]) == [
        (None, None, False, 40),
        ("f", None, False, 20),
    ]
    assert parts(rows, [], track=0) == []
    assert parts(rows, [(0, 10)], track=2) == []
    assert parts([(0, "_lib", 0, 9), (0, "_deep", 0, 9)], [(0, 9)]) == [
        ("deep", None, False, 9)
    ]


CALLED = st.tuples(
    st.sampled_from(("f", "g", "_lib", "_other", "h")),
    st.integers(0, 40),
    st.integers(1, 30),
)


def nested(rows: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Calls end before their caller does."""
    calls: list[tuple[str, int, int]] = []
    ends: list[int] = []
    for name, start, dur in sorted(rows, key=lambda row: (row[1], -row[2])):
        ends = [end for end in ends if end > start]
        ends.append(min([start + dur, *ends]))
        calls.append((name, start, ends[-1] - start))
    return calls


@given(
    rows=st.lists(CALLED, max_size=7),
    spans=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=3),
)
def test_parts_add_up_and_name_functions_that_ran(
    rows: list[tuple[str, int, int]], spans: list[tuple[int, int]]
) -> None:
    frames = frames_of([(0, *row) for row in nested(rows)])
    given_spans = Spans.of((a, a + b) for a, b in spans)
    steps = windows((0, 20), (20, 40), (40, 70))
    found = function_parts(frames, given_spans, track=0, windows=steps)
    if not rows:
        assert found == ()
        return
    assert sum(part.time_ps for part in found) == given_spans.length_ps
    times = [part.time_ps for part in found]
    assert times == sorted(times, reverse=True)
    assert min(times, default=1) > 0
    for part in found:
        # No part is longer than its function ran.
        ran = given_spans
        if part.type >= 0:
            ran = given_spans & frames.spans(frames.type == part.type)
        else:
            ran = given_spans - frames.spans(frames.type >= 0)
        assert part.time_ps <= ran.length_ps
    nothing = sum(part.time_ps for part in found if part.type < 0)
    uncovered = given_spans - frames.spans(frames.type >= 0)
    assert nothing >= uncovered.length_ps


def caller(
    rows: list[tuple[int, str, int, int]], spans: Pairs, steps: Any, **options: Any
) -> tuple[str, bool, int] | None:
    frames = frames_of(rows)
    options = {"tracks": [0]} | options
    found = calling_function(frames, Spans.of(spans), windows=steps, **options)
    if found is None:
        return None
    assert found == FunctionPart(found.type, -1, found.is_loop, found.time_ps)
    return frames.names[found.type].function, found.is_loop, found.time_ps


def test_the_deepest_function_of_the_program_with_half_of_the_time_is_the_caller() -> (
    None
):
    rows = [(0, "f", 0, 100), (0, "g", 10, 60), (0, "_lib", 10, 60), (0, "h", 12, 30)]
    steps = windows((0, 30), (30, 60), (60, 100))
    assert caller(rows, [(10, 70)], NO_STEPS) == ("h", False, 30)
    assert caller(rows, [(10, 71)], NO_STEPS) == ("g", False, 60)
    assert caller(rows, [(70, 100)], NO_STEPS) == ("f", False, 30)
    # The loop around steps is the caller where nearly all of its time is meant.
    loop = [(0, "f", 0, 100)]
    assert caller(loop, [(0, 90)], steps) == ("f", True, 90)
    assert caller(loop, [(0, 89)], steps) is None
    assert caller(loop, [(200, 300)], steps) is None
    # Its time outside of steps does not count: 72 are nine tenths of 80.
    inner = windows((10, 30), (30, 60), (60, 90))
    assert caller(loop, [(10, 82)], inner) == ("f", True, 72)
    assert caller(loop, [(10, 81)], inner) is None
    assert caller([(0, "_f", 0, 100)], [(0, 90)], NO_STEPS) is None
    assert caller(rows, [(10, 70)], NO_STEPS, tracks=[1]) is None
    assert caller(rows, [], NO_STEPS) is None


def test_next_to_the_steps_a_call_around_them_is_no_loop() -> None:
    """Unless the thread begins with a function of Python's threads."""
    steps = windows((0, 30), (30, 60), (60, 100))
    rows = [(0, "f", 0, 100)]
    assert caller(rows, [(0, 60)], steps, beside=True) == ("f", False, 60)
    assert caller(rows, [(0, 60)], steps) is None
    started = [(0, "_Thread._bootstrap", 0, 100), (0, "f", 0, 100)]
    assert caller(started, [(0, 60)], steps, beside=True) is None


# Names.

NAMES = [f"code {code}" for code in range(30)] + ["load", "train", "f", "g", "range"]
LOAD, MARK, RANGE = 30, 31, 34


def naming_of(
    lines: list[tuple[int, int, int, int]],
    *,
    threads: tuple[int, ...] = (0, 1),
    program: int | None = 0,
    frames: FunctionFrames | None = None,
    has_ops: bool = True,
    work: Any = WHY,
    off_core: dict[int, int] | None = None,
) -> Naming:
    tracks, events = tables_of(lines, ["main", "second", "waits"])
    types = events["type"].to_numpy()
    code = np.where(types < 30, types, 0).astype(np.uint8)
    rows = TrackRows.from_tables(tracks, events)
    sets = flatten_tracks(tracks, events, code, sticky=STICKY)
    nothing = Spans.empty()

    def code_spans(track: int, within: Spans) -> Any:
        part = rows.track_rows(track)
        own = flatten_rows(
            rows.start_ps[part], rows.dur_ps[part], code[part], sticky=STICKY
        )
        return lambda wanted: within & own.get(wanted, nothing)

    classes: Any = SimpleNamespace(
        rows=rows,
        code=code,
        by_thread=sets,
        host_compute=work,
        code_spans=code_spans,
        may_have=lambda track, wanted: wanted in sets.get(track, {}),
    )
    flag = np.arange(len(NAMES))
    system = np.isin(flag, (Code.SYSTEM_WAIT, Code.SYSTEM_CALL, Code.FILE_READ))
    return Naming(
        classes=classes,
        frames=frames,
        names=pl.Series(NAMES),
        marks=flag == MARK,
        passing=flag == Code.SYNC,
        calls=flag < 0,
        system=system,
        working=~system,
        op_types=flag.astype(np.int32),
        type_names=pl.Series(NAMES),
        types=types,
        has_ops=has_ops,
        threads=threads,
        program=program,
        function_tracks=() if frames is None else (0,),
        windows=NO_STEPS,
        off_core=off_core or {},
        lines={0: "main", 1: "second"},
        ran=None,
    )


def device_of(**fields: Any) -> Any:
    plain = {"device": 0, "walked_by": {}, "latency": Spans.empty()}
    return SimpleNamespace(**plain | fields)


def named(
    naming: Naming, owner: str, spans: Pairs, **fields: Any
) -> list[tuple[str | None, str | None, int]]:
    """(name, detail, time); also that all events add up to the same time."""
    device, given_spans = device_of(**fields), Spans.of(spans)
    found = naming.named_parts(device, owner, given_spans)
    assert sum(time for _, time in found) == given_spans.length_ps
    every = owner_events(naming, device, owner, given_spans, most=10**6)
    assert sum(each.time_ps for each in every.ran) == given_spans.length_ps
    assert every.number == len(every.ran)
    few = owner_events(naming, device, owner, given_spans, most=1)
    assert [each.time_ps for each in few.ran] == [
        each.time_ps for each in every.ran[:1]
    ]
    assert few.number == every.number or len(every.ran) > 1
    return [(name.name, name.detail, time) for name, time in found]


def test_an_owner_s_time_is_named_by_its_events_thread_by_thread() -> None:
    """The first thread covers [10, 30), the second what is left of [20, 50)."""
    cases: list[Any] = [
        ("input", Code.INPUT_WAIT),
        ("input", Code.FILE_READ),
        ("output", Code.READ_BACK),
        ("host_compute", Code.DISPATCH),
        ("between", Code.GARBAGE),
        ("compile", Code.TRACING),
        ("peer", Code.PEER),
    ]
    for owner, code in cases:
        naming = naming_of(
            [(0, code, 10, 20), (1, code, 20, 30), (0, Code.PROFILER, 60, 9)]
        )
        found = named(naming, owner, [(10, 50)])
        assert found == [(f"code {code}", None, 20)] * 2
        # The thread that launched the next work comes first.
        first = naming.naming_threads(device_of(walked_by={1: 0, -1: 0}))
        assert first == (1, 0)


def test_inner_events_of_an_owner_have_their_own_time() -> None:
    compute, dispatch = Code.HOST_COMPUTE, Code.DISPATCH
    naming = naming_of([(0, compute, 0, 100), (0, dispatch, 20, 30)])
    found = named(naming, "host_compute", [(10, 90)])
    assert sorted(found, key=lambda part: -part[2]) == [
        *((f"code {compute}", None, 50), (f"code {dispatch}", None, 30)),
    ]


def test_launching_is_named_by_the_outermost_op_and_its_calls() -> None:
    """An op from 0 to 40 with a call from 10 to 15; a call alone from 60 to 70."""
    launch, dispatch = Code.LAUNCH, Code.DISPATCH
    naming = naming_of(
        [(0, Code.LAUNCH_OR_COMPUTE, 0, 40), (0, launch, 10, 5), (0, launch, 60, 10)]
    )
    found = named(naming, "launch", [(5, 70)])
    op = f"code {Code.LAUNCH_OR_COMPUTE}"
    assert sorted(map(str, found)) == sorted(
        map(
            str,
            [
                (op, "launch call", 5),
                (f"code {launch}", "launch call", 10),
                (op, "dispatch", 30),
                ("Python between ops", None, 20),
            ],
        )
    )
    silent = naming_of([(0, dispatch, 90, 1)], has_ops=False)
    assert named(silent, "launch", [(5, 70)]) == [("between launches", None, 65)]


def test_a_launch_on_its_way_is_latency_unless_its_call_is_long() -> None:
    naming = naming_of([(0, Code.LAUNCH, 0, MS), (0, Code.LAUNCH, 2 * MS, MS - 1)])
    latency = Spans.of([(0, 100), (2 * MS, 2 * MS + 50)])
    found = naming.named_parts(
        device_of(latency=latency),
        "launch",
        Spans.of([(0, 200), (2 * MS, 2 * MS + 70)]),
    )
    launch = Name(f"code {Code.LAUNCH}", "launch call")
    assert found == [(Name("launch latency"), 50), (launch, 200 + 20)]


def test_what_neither_events_nor_functions_name_is_named_by_ranges() -> None:
    frames = frames_of([(0, "f", 40, 20)])
    naming = naming_of(
        [(0, RANGE, 0, 30), (0, MARK, 0, 200), (1, LOAD, 60, 30)], frames=frames
    )
    assert named(naming, "host_compute", [(0, 100)]) == [
        *(("f", None, 20), ("range", None, 30), ("load", None, 30), (None, None, 20)),
    ]
    alone = named(naming, "host_compute", [(95, 100)], device=None)
    assert alone == [("tasks of thread pools", None, 5)]
    pools = naming_of([(0, RANGE, 0, 30)], frames=frames, work=Spans.of([(45, 55)]))
    assert named(pools, "host_compute", [(40, 60)], device=None) == [
        *(("tasks of thread pools", None, 10), ("f", None, 10)),
    ]


@pytest.mark.parametrize(
    ("owner", "functions"),
    [("input", True), ("output", True), ("peer", False), ("compile", False)],
)
def test_only_some_owners_have_functions(owner: str, *, functions: bool) -> None:
    naming = naming_of([], frames=frames_of([(0, "f", 0, 20)]))
    found = named(naming, owner, [(0, 30)])
    assert found == (
        [("f", None, 20), (None, None, 10)] if functions else [(None, None, 30)]
    )


def test_owners_without_names_have_none() -> None:
    naming = naming_of([(0, Code.LAUNCH, 0, 30)])
    for owner in ("switch", "queued"):
        assert named(naming, owner, [(0, 30)]) == [(None, None, 30)]


def test_waiting_without_a_core_is_named_by_its_line() -> None:
    naming = naming_of([(2, RANGE, 0, 30), (0, LOAD, 0, 50)], off_core={0: 2})
    assert named(naming, "sync", [(0, 40)]) == [("range", None, 30), (None, None, 10)]


def test_a_wait_is_named_with_what_the_other_thread_did() -> None:
    """A system call; what else waits keeps its name."""
    wait, sync = Code.SYSTEM_WAIT, Code.SYNC
    naming = naming_of([(0, wait, 0, 40), (0, sync, 50, 10), (1, Code.OUTPUT, 0, 30)])
    found = named(naming, "sync", [(0, 60)])
    text = f"code {wait}, while second is in code {Code.OUTPUT}"
    assert found == [(f"code {sync}", None, 10), (text, None, 40), (None, None, 10)]
    alone = naming_of([(0, wait, 0, 40), (1, Code.OUTPUT, 0, 19)])
    assert named(alone, "sync", [(0, 40)]) == [(f"code {wait}", None, 40)]


def test_read_backs_and_checks_are_named_by_the_events_of_waiting_and_launching() -> (
    None
):
    sync, launch = Code.SYNC, Code.LAUNCH
    naming = naming_of([(0, launch, 0, 20), (0, sync, 30, 20), (0, RANGE, 60, 10)])
    for topic in ("read_back", "scaling"):
        assert named(naming, topic, [(0, 80)]) == [
            (f"code {sync}", None, 20),
            (f"code {launch}", "launch call", 20),
            ("range", None, 10),
            (None, None, 30),
        ]


@pytest.mark.parametrize("owner", ["between", "unfed", "unnamed"])
def test_time_between_is_named_by_its_neighbours(owner: str) -> None:
    lines = [(0, LOAD, 0, MS), (0, RANGE, 3 * MS, MS), (0, MARK, 8 * MS, MS)]
    lines.append((0, MARK, 10 * MS, MS))
    naming = naming_of(lines)
    spans = [(MS, 3 * MS), (9 * MS, 10 * MS)]
    assert named(naming, owner, spans) == [
        ("after load, before range", None, 2 * MS),
        ("from one step's range to the next", None, MS),
    ]
    unknown = naming_of(lines, program=None)
    assert named(unknown, owner, spans) == [(None, None, 3 * MS)]


def test_only_long_unexplained_time_is_named_by_its_neighbours() -> None:
    naming = naming_of([(0, LOAD, 0, MS), (0, RANGE, 3 * MS, MS)])
    found = naming.named_parts(
        device_of(), "unexplained", Spans.of([(MS, 2 * MS), (2 * MS + 1, 3 * MS)])
    )
    long = Name("after load, before range")
    assert found == [(long, MS), (UNNAMED, MS - 1)]
    short = naming.named_parts(device_of(), "unexplained", Spans.of([(MS, MS + 5)]))
    assert short == [(UNNAMED, 5)]
    whole = naming.named_parts(device_of(), "unexplained", Spans.of([(MS, 2 * MS)]))
    assert whole == [(long, MS)]
    assert naming.named_parts(device_of(), "unexplained", Spans.empty()) == [
        (UNNAMED, 0)
    ]


def test_the_largest_events_of_an_owner_and_the_number_of_all() -> None:
    """A thread covers [10, 100), another one [100, 120); functions [130, 140)."""
    compute, dispatch = Code.HOST_COMPUTE, Code.DISPATCH
    naming = naming_of(
        [(0, compute, 0, 100), (0, dispatch, 20, 30), (1, compute, 90, 30)],
        frames=frames_of([(0, "f", 130, 20), (0, "g", 135, 5)]),
    )
    spans = Spans.of([(10, 140)])
    found = owner_events(naming, device_of(), "host_compute", spans, most=9)
    assert [tuple(event) for event in found.ran] == [
        (0, 100, 0, Name(f"code {compute}"), 60),
        (20, 50, 1, Name(f"code {dispatch}"), 30),
        (90, 120, 2, Name(f"code {compute}"), 20),
        (120, 130, -1, UNNAMED, 10),
        (130, 150, 50, Name("f", None, "f", "/f.py", 1), 5),
        (135, 140, 51, Name("g", None, "g", "/g.py", 2), 5),
    ]
    assert found.number == 6
    few = owner_events(naming, device_of(), "host_compute", spans, most=3)
    assert (few.ran, few.number) == (found.ran[:3], 6)


def test_the_largest_events_of_launching() -> None:
    naming = naming_of([(0, Code.LAUNCH, 10, 10)])
    device = device_of(latency=Spans.of([(0, 5)]))
    found = owner_events(naming, device, "launch", Spans.of([(0, 30)]), most=9)
    assert [tuple(event) for event in found.ran] == [
        (10, 20, 0, Name(f"code {Code.LAUNCH}"), 10),
        (20, 30, -1, Name("Python between ops"), 10),
        (0, 5, -1, Name("launch latency"), 5),
        (5, 10, -1, Name("Python between ops"), 5),
    ]
    assert found.number == 4


def test_other_threads_call_only_for_input_and_a_loop_is_the_last_choice() -> None:
    frames = frames_of([(0, "f", 0, 100), (1, "make", 0, 90)])
    naming = replace(naming_of([], frames=frames), function_tracks=(0, 1))
    around = replace(naming, windows=windows((0, 30), (30, 60), (60, 100)))
    spans = Spans.of([(0, 100)])
    loop = (Name("f", None, "f", "/f.py", 1), 100)
    make = (Name("make", None, "make", "/make.py", 2), 90)
    assert around.calling_functions("input", spans) == [make]
    assert around.calling_functions("sync", spans) == [loop]
    assert naming.calling_functions("input", spans) == [loop]
    assert around.calling_functions("sync", Spans.of([(0, 50)])) == []
    assert naming_of([]).calling_functions("input", spans) == []


@pytest.mark.parametrize(("end", "detail"), [(150, "line 7"), (149, None)])
def test_a_loop_is_named_with_the_line_of_half_of_its_time(
    end: int, detail: str | None
) -> None:
    frames = frames_of([(0, "f", 0, 300)])
    zero = np.zeros(3, np.int32)
    bounds = np.array([0, end, 225, 300])
    ran = FunctionLines(
        *(zero, bounds[:-1], bounds[1:], zero),
        *(np.array([7, 8, 9], np.int32), frames.names),
    )
    steps = windows((0, 100), (100, 200), (200, 300))
    naming = replace(naming_of([], frames=frames), ran=ran, windows=steps)
    found = naming.named_parts(device_of(), "host_compute", Spans.of([(0, 300)]))
    assert found == [(Name("f", detail, "f", "/f.py", 1, loop=True), 300)]
