"""Kinds of host work in idle time, worked out by hand on tables of a few rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.support.traces.literal_tables import (
    activity_of,
    correlation_of,
    steps_of,
    tables_of,
    types_of,
)

from stepscope.derive.account.topics import (
    TOPICS,
    IdleTopics,
    idle_topics,
    scaling_gaps,
    unfed_spans,
)
from stepscope.derive.host.function_purposes import FunctionPurpose
from stepscope.derive.intervals.nesting import flatten_tracks
from stepscope.derive.intervals.spans import Spans, TrackRows
from stepscope.derive.step_time.host_time import HostCode as Code
from stepscope.derive.step_time.owners import IDLE_OWNERS
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS as MS

WHY = Unavailable(code="NOT_RECORDED", reason="no", remedy="record it")
Pairs = list[tuple[int, int]]
CHECK, KERNEL = 0, 1
CHECKS = types_of(["isfinite", "gemm"])

# From a finite check to the first kernel after the copy of its result.


def copied(
    *rows: tuple[str, int, int, int], sizes: list[int | None] | None = None
) -> Pairs:
    """(kind, type, start, length) on device 1; another device checks all the time."""
    lines = [(9, 1, *row) for row in rows]
    other = [(8, 0, "kernel", CHECK, 0, 1), (8, 0, "d2h", 0, 500, 1)]
    other += [(8, 0, "kernel", KERNEL, 600, 1)]
    size = [*(sizes or [4] * len(rows)), None, 4, None]
    activity = activity_of([*lines, *other], bytes=size)
    assert scaling_gaps(activity, types_of(["a", "b"]), 1) == Spans.empty()
    found = scaling_gaps(activity, CHECKS, 1)
    return list(zip(found.start_ps.tolist(), found.end_ps.tolist(), strict=True))


CHECKED = ("kernel", CHECK, 10, 5)
COPY = ("d2h", KERNEL, 20, 2)
NEXT = ("kernel", KERNEL, 40, 5)


def test_a_check_whose_result_is_copied_delays_the_next_kernel() -> None:
    assert copied(CHECKED, COPY, NEXT) == [(15, 40)]
    # In any order of the rows.
    assert copied(NEXT, COPY, CHECKED) == [(15, 40)]
    again = [
        (each[0], each[1], each[2] + 100, each[3]) for each in (CHECKED, COPY, NEXT)
    ]
    assert copied(CHECKED, COPY, NEXT, *again) == [(15, 40), (115, 140)]


def test_other_copies_show_no_check() -> None:
    cases: list[Any] = [
        ([("kernel", KERNEL, 10, 5), COPY, NEXT], None),  # no check
        ([CHECKED, ("h2d", KERNEL, 20, 2), NEXT], None),  # a copy to the device
        ([CHECKED, COPY, NEXT], [None, 17, None]),  # too large
        ([CHECKED, COPY, NEXT], [None, None, None]),  # of unknown size
        ([CHECKED, COPY], None),  # no kernel follows
        ([COPY, ("kernel", CHECK, 25, 5), NEXT], None),  # the check follows
        ([("h2d", CHECK, 10, 5), COPY, NEXT], None),
    ]
    for rows, sizes in cases:
        assert copied(*rows, sizes=sizes) == []


@pytest.mark.parametrize(("between", "near"), [(7, True), (8, False)])
def test_a_copy_is_of_a_check_at_most_eight_activities_before(
    between: int, *, near: bool
) -> None:
    rows = [("kernel", KERNEL, 16, 0)] * between
    assert copied(CHECKED, *rows, COPY, NEXT) == ([(15, 40)] if near else [])


def test_a_kernel_that_runs_beside_the_check_is_not_delayed() -> None:
    early = ("kernel", KERNEL, 13, 30)
    assert copied(CHECKED, ("d2h", KERNEL, 12, 1), early, NEXT) == []
    assert copied(CHECKED, ("d2h", KERNEL, 12, 1), NEXT) == [(15, 40)]


def test_a_result_of_sixteen_bytes_is_that_of_a_check() -> None:
    assert copied(CHECKED, COPY, NEXT, sizes=[None, 16, None]) == [(15, 40)]


# Before the copy of a batch.


def device_of(idle: dict[str, Pairs], *, device: int | None = 0, **fields: Any) -> Any:
    every = {name: Spans.of(idle.get(name, [])) for name in IDLE_OWNERS}
    plain = {"between": Spans.empty(), "walked_by": {}, "latency": Spans.empty()}
    return SimpleNamespace(**{"device": device, "idle": every, **plain, **fields})


def ms(*pairs: tuple[float, float]) -> Spans:
    return Spans.of([(round(a * MS), round(b * MS)) for a, b in pairs])


def unfed(
    *,
    copies: Any = ((5, 4097), (15, 4097), (25, 4097), (35, 4097), (45, 4097)),
    kind: str = "h2d",
    number: int = 0,
    doing: Spans | None = None,
    blocked: Spans | None = None,
    silences: Any = ((0, 4), (11, 15), (21, 25), (31, 35)),
    last_is_open: bool = True,
    launched: bool = True,
) -> Spans:
    """Windows of 10 ms from 0 to 50; copies are (call in ms, bytes)."""
    activity = activity_of(
        [(9, number, kind, 0, 0, 1) for _ in copies], bytes=[size for _, size in copies]
    )
    calls = [(0, 0, round(at * MS), 1) for at, _ in copies]
    of = list(range(len(copies))) if launched else [-1] * len(copies)
    windows: Any = SimpleNamespace(
        rows=pl.DataFrame(
            {
                "start_ps": [10 * MS * at for at in range(5)],
                "end_ps": [10 * MS * at + 10 * MS for at in range(5)],
                "open_end": [False] * 4 + [last_is_open],
            }
        )
    )
    idle = device_of(
        {"between": [(0, 12 * MS)], "unexplained": [(13 * MS, 30 * MS)]},
        walked_by={0: ms(*silences[:2]), 3: ms(*silences[2:])},
    )
    return unfed_spans(
        *(idle, windows, correlation_of(activity, calls, of)),
        soon_ps=MS,
        doing=doing or Spans.empty(),
        blocked=blocked or Spans.empty(),
    )


def test_long_silence_up_to_a_millisecond_before_a_batch_is_unfed() -> None:
    """Of the silences until 15 and 25, and until 4, one millisecond before a copy."""
    assert unfed() == ms((0, 4), (13, 15), (21, 25))
    assert unfed(blocked=ms((12, 13), (32, 35))) == ms(
        (0, 4), (11, 15), (21, 25), (32, 35)
    )
    assert unfed(doing=ms((1, 2.5), (13, 13.5), (24, 25))) == ms(
        (2.5, 4), (13.5, 15), (21, 24)
    )
    early = ((0, 3.9), (11, 15), (21, 25), (31, 35))
    assert unfed(silences=early) == ms((13, 15), (21, 25))
    # Of a millisecond or less, silence is no wait.
    assert unfed(doing=ms((0, 3), (14, 15))) == ms((21, 25))


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "d2h"},
        {"number": 1},
        {"launched": False},
        {"copies": [(5, 4096), (15, 4096), (25, 4096), (35, 4096)]},  # scalars
        {"copies": [(5, None), (15, None), (25, None), (35, None)]},
        {"copies": [(5, 9999), (15, 9999), (25, 9999)]},  # in 3 of 4 windows
    ],
)
def test_without_a_batch_in_nearly_every_window_nothing_is_unfed(
    change: dict[str, Any],
) -> None:
    assert unfed(**change) == Spans.empty()


def test_a_batch_in_four_of_five_windows_is_enough() -> None:
    copies = [(5, 9999), (15, 9999), (25, 9999), (35, 9999)]
    assert unfed(copies=copies, last_is_open=False) == ms((0, 4), (13, 15), (21, 25))
    assert unfed(copies=copies[:3], last_is_open=False) == Spans.empty()


# All topics.

NAMES = ["PrintV2:PrintV2", "a:StringFormat", "garbage collection", "plain", "other"]
PRINT, FORMAT, COLLECT, PLAIN, OTHER = range(30, 35)
TYPES = types_of([*map(str, range(30)), *NAMES])


class Host:
    """A step thread (0) and another one, and what they did in [0, 1000)."""

    def __init__(
        self,
        lines: list[tuple[int, int, int, int]],
        *,
        threads: tuple[int, ...] = (0,),
        doing: Pairs = (),
        work: Any = None,
        waits: Pairs = (),
    ) -> None:
        tracks, self.events = tables_of([*lines, (1, OTHER, 0, 0)], ["main", "second"])
        types = self.events["type"].to_numpy()
        code = np.where(types < 30, types, 0).astype(np.uint8)
        merged = {Code.LAUNCH: Code.LAUNCHING}
        sets = flatten_tracks(tracks, self.events, code, alike=merged)

        def code_spans(track: int, within: Spans) -> Any:
            alone = flatten_tracks(tracks, self.events, code)
            return lambda wanted: (
                within & alone.get(track, {}).get(wanted, Spans.empty())
            )

        self.states: Any = SimpleNamespace(
            marks=Spans.empty(),
            threads=threads,
            classes=SimpleNamespace(
                by_thread=sets,
                rows=TrackRows.from_tables(tracks, self.events),
                host_compute=Spans.empty() if work is None else work,
                input_wait=sets.get(0, {}).get(Code.INPUT_WAIT, Spans.empty()),
                code_spans=code_spans,
            ),
            doing_spans=lambda track, within: (
                within & (Spans.of(doing) if track == 0 else Spans.empty())
            ),
            function_spans={},
        )
        self.frames: Any = WHY
        self.purposes: Any = WHY
        if waits:
            self.frames = SimpleNamespace(
                spans=lambda chosen: Spans.of(waits) if chosen.all() else Spans.empty()
            )
            self.purposes = SimpleNamespace(purpose=np.array([FunctionPurpose.SYNC]))

    def topics(
        self,
        idle: dict[str, Pairs],
        *,
        device: int | None = 0,
        activity: Any = WHY,
        latency_ps: int | None = None,
        marked: bool = False,
        types: pl.DataFrame = TYPES,
        **fields: Any,
    ) -> dict[str, Pairs]:
        account: Any = SimpleNamespace(
            devices=[device_of(idle, device=device, **fields)]
        )
        latency: Any = WHY
        if latency_ps is not None:
            latency = SimpleNamespace(latency_ps=latency_ps)
        found = idle_topics(
            account=account,
            host_states=self.states,
            steps=steps_of([0]) if marked else WHY,
            events=self.events,
            event_types=types,
            function_frames=self.frames,
            function_purposes=self.purposes,
            device_activity=activity,
            launch_latency=latency,
            windows=SimpleNamespace(has_steps=True),
            correlation=WHY,
            iterators=WHY,
        )
        assert isinstance(found, IdleTopics)
        (one,) = found.devices
        assert one.device == device
        assert tuple(one.spans) == TOPICS
        self.missing = found.missing
        return {
            name: list(zip(spans.start_ps.tolist(), spans.end_ps.tolist(), strict=True))
            for name, spans in one.spans.items()
            if len(spans)
        }


EVERY = list(IDLE_OWNERS)


def test_only_time_of_some_owners_has_a_topic() -> None:
    """Garbage, printing, writing, and what the program does, in this order."""
    for owner in EVERY:
        host = Host(
            [
                *((0, COLLECT, 0, 100), (0, PRINT, 50, 100), (0, Code.OUTPUT, 120, 80)),
                (0, Code.SYNC, 300, 50),
            ],
            doing=[(0, 500)],
        )
        found = host.topics(
            {owner: [(0, 1000)]}, between=Spans.of([(400, 600)]), marked=False
        )
        expected: dict[str, dict[str, Pairs]] = {
            "between": {
                "garbage": [(0, 100)],
                "debugging": [(100, 150)],
                "callback": [(400, 500)],
                "unnamed": [(500, 600)],
            },
            "wait": {
                "debugging": [(50, 150)],
                "callback": [(400, 500)],
                "unnamed": [(500, 600)],
            },
            "host_compute": {"garbage": [(0, 100)], "debugging": [(100, 150)]},
            "launch": {"debugging": [(50, 150)]},
            "output": {
                "writing": [(120, 200)],
                "debugging": [(50, 120)],
                "read_back": [(0, 50), (200, 1000)],
            },
            "sync": {"debugging": [(50, 150)], "read_back": [(300, 350)]},
        }
        assert found == expected.get(owner, {})
        assert host.missing == {}


def test_between_marked_steps_computing_and_launching_are_callbacks() -> None:
    host = Host([(0, PLAIN, 0, 1)], doing=[(0, 300)])
    idle = {"host_compute": [(0, 100)], "launch": [(100, 400)]}
    fields = {"between": Spans.of([(50, 380)]), "latency": Spans.of([(150, 200)])}
    assert host.topics(idle, **fields) == {}
    assert host.topics(idle, marked=True, **fields) == {
        "callback": [(50, 150), (200, 300)],
        "unnamed": [(300, 380)],
    }
    assert host.missing.keys() == {"garbage"}


def test_without_a_device_the_host_s_own_work_is_no_chore() -> None:
    """Ops are the step's own; a step that goes on elsewhere is not delayed."""
    host = Host(
        [
            *((0, PRINT, 0, 100), (0, Code.SYNC, 200, 50)),
            (1, Code.HOST_COMPUTE, 40, 20),
        ],
        threads=(0, 1),
        doing=[(0, 1000)],
        work=Spans.of([(600, 700)]),
    )
    idle = {
        "host_compute": [(0, 150), (550, 800)],
        "sync": [(150, 300)],
        "between": [(800, 900)],
    }
    found = host.topics(idle, device=None, between=Spans.of([(0, 1000)]))
    assert found == {
        "debugging": [(0, 40), (60, 100)],
        "read_back": [(200, 250)],
        "callback": [(40, 60), (100, 150), (550, 600), (700, 900)],
    }


def test_formatting_a_text_is_debugging_where_the_program_prints() -> None:
    host = Host([(0, PRINT, 0, 10), (0, FORMAT, 20, 10)])
    assert host.topics({"sync": [(0, 100)]}) == {"debugging": [(0, 10), (20, 30)]}
    silent = Host([(0, FORMAT, 20, 10)])
    names = TYPES.with_columns(name=pl.col("name").replace({"PrintV2:PrintV2": "x"}))
    assert silent.topics({"sync": [(0, 100)]}, types=names) == {}


def test_functions_that_wait_for_the_device_read_back() -> None:
    host = Host([(0, PLAIN, 0, 1)], doing=[(0, 100)], waits=[(20, 60)])
    found = host.topics(
        {"sync": [(0, 50)], "between": [(50, 100)]}, between=Spans.of([(50, 100)])
    )
    assert found == {
        "read_back": [(20, 50)],
        "callback": [(60, 100)],
        "unnamed": [(50, 60)],
    }


def test_without_states_no_topic_is_known() -> None:
    found = idle_topics(
        account=None,
        host_states=WHY,
        **dict.fromkeys(
            (
                *("steps", "events", "event_types", "function_frames"),
                *("function_purposes", "device_activity", "launch_latency"),
                *("windows", "correlation", "iterators"),
            )
        ),
    )
    assert found.devices == ()
    assert found.missing == dict.fromkeys(TOPICS, WHY)


# Idle time after a wait.


def drained(
    lines: list[tuple[int, int, int, int]],
    idle: dict[str, Pairs],
    *,
    copies: list[tuple[int, int, int | None]] = (),
    doing: Pairs = (),
    number: int = 0,
    threads: tuple[int, ...] = (0,),
) -> Pairs:
    """A latency is 5; copies to the host are (start, length, bytes)."""
    activity = activity_of(
        [(9, number, "d2h", 0, start, dur) for start, dur, _ in copies],
        bytes=[size for _, _, size in copies],
    )
    host = Host(lines, doing=doing, threads=threads)
    found = host.topics(idle, activity=activity, latency_ps=5)
    return found.get("read_back", [])


def test_idle_time_up_to_the_length_of_the_wait_comes_from_the_wait() -> None:
    """The wait from 100 lasts until the device is idle, at 140, and at most 10 more."""
    idle: dict[str, Pairs] = {"launch": [(140, 170)], "compile": [(170, 300)]}
    for end in (140, 145, 150):
        wait = (0, Code.SYNC, 100, end - 100)
        assert drained([wait], idle) == [(140, 170)]
    assert drained([(0, Code.SYNC, 100, 51)], idle) == []
    assert drained([(0, Code.SYNC, 100, 39)], idle) == []
    assert drained([(0, Code.SYNC, 100, 39)], idle, copies=[(130, 10, 4)]) == []
    # It began 15 before the device was idle, or when it already was.
    assert drained([(0, Code.SYNC, 125, 20)], idle) == [(140, 155)]
    assert drained([(0, Code.SYNC, 140, 5)], idle) == []
    # The interval is shorter than the wait.
    short: dict[str, Pairs] = {"launch": [(140, 150)]}
    assert drained([(0, Code.READ_BACK, 100, 42)], short) == [(140, 150)]


@pytest.mark.parametrize(
    ("owner", "counts"),
    [("launch", True), ("sync", True), ("between", True), ("host_compute", False)],
)
def test_only_time_in_which_the_host_refills_the_device_comes_from_a_wait(
    owner: str, *, counts: bool
) -> None:
    found = drained([(0, Code.SYNC, 100, 40)], {owner: [(140, 170)]})
    assert found == ([(140, 170)] if counts else [])


def test_recorded_work_between_steps_does_not_come_from_a_wait() -> None:
    idle: dict[str, Pairs] = {"between": [(140, 150)], "launch": [(150, 170)]}
    found = drained([(0, Code.SYNC, 100, 40)], idle, doing=[(145, 160)])
    assert found == [(140, 145), (150, 170)]


def test_a_call_that_copies_a_small_result_waits_for_it() -> None:
    cases: list[Any] = [
        ((130, 10, 4096), (100, 45), [(140, 170)]),
        ((130, 10, 4097), (100, 45), []),
        ((130, 10, None), (100, 45), []),
        ((130, 9, 4), (100, 45), []),  # ended before the device was idle
        ((130, 10, 4), (125, 20), [(140, 155)]),
        ((130, 10, 4), (100, 40), [(140, 170)]),
        ((130, 10, 4), (100, 39), []),  # returned before
        ((130, 10, 4), (100, 51), []),  # returned too late
    ]
    for copy, call, expected in cases:
        lines = [(0, Code.LAUNCH, *call)]
        idle: dict[str, Pairs] = {"launch": [(140, 170)]}
        assert drained(lines, idle, copies=[copy]) == expected
        assert drained(lines, idle, copies=[copy], number=1) == []


def test_calls_of_several_threads_that_touch_are_one_call() -> None:
    cases: list[Any] = [
        ((100, 30), (130, 15), [(140, 170)]),  # one after the other
        ((100, 35), (130, 15), [(140, 170)]),  # overlapping
        ((100, 29), (130, 15), [(140, 150)]),
        ((100, 45), (110, 15), [(140, 170)]),
        ((130, 12), (142, 8), [(140, 150)]),
        ((130, 12), (142, 9), []),  # together they return too late
        ((130, 12), (143, 9), [(140, 150)]),
    ]
    for first, second, expected in cases:
        lines = [(0, Code.LAUNCH, *first), (1, Code.LAUNCH, *second)]
        idle: dict[str, Pairs] = {"launch": [(140, 170)]}
        copies: Any = [(130, 10, 4)]
        found = drained(lines, idle, copies=copies, threads=(0, 1))
        assert found == expected
