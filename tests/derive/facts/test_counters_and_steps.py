"""Counters, processes and slow steps of literal hosts: every field, by hand."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.traces.literal import (
    ABSENT,
    Tables,
    events_at,
    fields_of,
    spans_of,
    types_named,
    windows_at,
)

from stepscope.derive.account.naming import Name
from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.hosts.worker_processes import (
    LoaderWorkers,
    WorkerOps,
    loader_workers,
    op_runs,
    worker_time,
)
from stepscope.derive.facts.processors import (
    Processors,
    WithoutCore,
    asleep,
    mean_by_window,
    processor_signals,
    time_without_core,
    usable_cores,
)
from stepscope.derive.host.core_time import (
    CoreTime,
    Readings,
    ThreadTime,
    core_count,
    counter_readings,
)
from stepscope.derive.host.function_frames import MIN_INTERVAL_SAMPLES
from stepscope.thresholds import THRESHOLDS
from stepscope.trace.tables import DOUBLE, INT
from stepscope.unavailable import Unavailable

CORES = tuple(f"core {number} CPU (percent)" for number in range(4))
PRESSURE = "CPU pressure (percent)"
MACHINE = "machine CPU (percent)"
PROCESS = "process CPU (percent)"
WORKERS_CPU = "worker processes CPU (percent)"


def counted(
    counters: dict[str, list[tuple[int, float]]],
    *,
    cores: int = 4,
    allowed: int | None = None,
) -> Tables:
    """A host with samples of counters, in any order of time; whole numbers are ints."""
    names = [*CORES[:cores], *counters]
    rows, values, kinds = [], [], []
    for name, readings in counters.items():
        for time, value in readings:
            rows.append((names.index(name), 0, time, 0))
            real = isinstance(value, float)
            number = np.float64(value).view(np.int64) if real else np.int64(value)
            values.append(int(number))
            kinds.append(DOUBLE if real else INT)
    stats = pl.DataFrame(
        {
            "event": pl.Series(range(len(rows)), dtype=pl.Int32),
            "value": pl.Series(values, dtype=pl.Int64),
            "kind": pl.Series(kinds, dtype=pl.UInt8),
        }
    )
    return Tables(
        event_types=types_named(*names),
        events=events_at(*rows),
        stats=stats,
        environment=pl.DataFrame(
            {"cores": pl.Series([allowed], dtype=pl.Int64)},
        ),
    )


def test_a_counter_is_read_in_the_order_of_time() -> None:
    host = counted({PROCESS: [(30, 1.5), (10, 7), (20, 2.5)], MACHINE: [(5, 1)]})
    found = counter_readings(host, PROCESS)
    assert found is not None
    assert found.time_ps.tolist() == [10, 20, 30]
    assert found.value.tolist() == [7.0, 2.5, 1.5]
    assert counter_readings(host, "unknown") is None
    for table in ("event_types", "events", "stats"):
        missing = Tables(**(host.tables | {table: ABSENT}))
        assert counter_readings(missing, PROCESS) is None
    empty = Tables(**(host.tables | {"stats": host.tables["stats"].clear()}))
    assert counter_readings(empty, PROCESS) is None


def test_a_program_may_use_all_cores_unless_it_is_restricted() -> None:
    assert core_count(counted({})) == 4
    assert core_count(counted({}, cores=0)) is None
    assert core_count(Tables()) is None
    assert usable_cores(counted({})) == 4
    assert usable_cores(counted({}, allowed=2)) == 2
    assert usable_cores(counted({}, cores=0, allowed=3)) == 3
    no_environment = counted({}).tables | {"environment": ABSENT}
    assert usable_cores(Tables(**no_environment)) == 4


READINGS = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=6
)
BOUNDS = st.lists(st.integers(-5, 40), min_size=2, max_size=6, unique=True)


@settings(max_examples=40, deadline=None)
@given(READINGS, BOUNDS)
def test_the_mean_in_a_window_is_that_of_each_moment(
    steps: list[tuple[int, int]], bounds: list[int]
) -> None:
    """A sample's value is that of the time since the sample before it."""
    times = np.cumsum([length for length, _ in steps]).astype(np.int64)
    values = np.array([value for _, value in steps], np.float64)
    edges = np.array(sorted(bounds), np.int64)

    def value_at(moment: int) -> float:
        index = next((at for at, time in enumerate(times) if moment < time), -1)
        return float(values[index])

    expected = [
        np.mean([value_at(moment) for moment in range(start, end)])
        for start, end in pairwise(edges.tolist())
    ]
    found = mean_by_window(Readings(times, values), edges[:-1], edges[1:])
    assert found == pytest.approx(expected)


def test_the_mean_in_an_instant_is_zero() -> None:
    at = np.array([5], np.int64)
    readings = Readings(np.array([9], np.int64), np.array([3.0]))
    assert mean_by_window(readings, at, at).tolist() == [0.0]


STEPS = windows_at((0, 10), (10, 40))
COUNTERS: dict[str, list[tuple[int, float]]] = {
    PRESSURE: [(10, 20.0), (40, 130.0)],
    MACHINE: [(10, 400.0), (40, 200.0)],
    PROCESS: [(10, 100.0), (40, 60.0)],
    WORKERS_CPU: [(10, 40.0), (40, 0.0)],
    "threads": [(40, 5)],
    "worker processes": [(40, 2)],
}


def test_every_field_of_how_processors_are_used() -> None:
    """400 % for 10 ps and 200 % for 30 are 2.5 cores; 100 and 60 are 0.7."""
    found = processor_signals.function(trace=counted(COUNTERS), windows=STEPS)
    assert fields_of(found) == fields_of(
        Processors(
            cores=4,
            waiting_percent=(20.0, 100.0),
            machine=2.5,
            own=pytest.approx(0.7 + 0.1),
            threads=7,
            workers=pytest.approx(0.1),
        )
    )
    # All children use 1.1 cores, of which workers use 0.1.
    more = COUNTERS | {"child processes CPU (percent)": [(10, 140.0), (40, 100.0)]}
    found = processor_signals.function(trace=counted(more), windows=STEPS)
    assert (found.own, found.children) == pytest.approx((0.7 + 1.1, 1.0))
    alone = {name: of for name, of in COUNTERS.items() if "worker" not in name}
    found = processor_signals.function(trace=counted(alone), windows=STEPS)
    assert (found.own, found.threads, found.workers) == (pytest.approx(0.7), 5, None)
    bare = {name: COUNTERS[name] for name in (PRESSURE, MACHINE)}
    found = processor_signals.function(trace=counted(bare), windows=STEPS)
    assert (found.own, found.threads, found.workers) == (None, None, None)


@pytest.mark.parametrize("name", [PRESSURE, MACHINE])
def test_processors_need_pressure_use_and_cores(name: str) -> None:
    lacking = {key: of for key, of in COUNTERS.items() if key != name}
    for trace in (counted(lacking), counted(COUNTERS, cores=0)):
        why = processor_signals.function(trace=trace, windows=STEPS)
        assert isinstance(why, Unavailable)
        assert why.code == "NOT_RECORDED"


@pytest.mark.parametrize(
    ("machine", "own", "threads", "whose"),
    [
        # 80 % of ten cores are full; less than half of the use is others'.
        (7.9, 7.9, 99, None),
        (8.0, 3.9, 99, "others"),
        (8.0, 4.0, 99, "own"),
        (8.0, None, 13, "own"),
        # 1.25 threads for a core are not too many.
        (8.0, 8.0, 12, None),
        (8.0, 8.0, None, None),
    ],
)
def test_whose_threads_crowd_the_cores(
    machine: float, own: float | None, threads: int | None, whose: str | None
) -> None:
    found = Processors(10, (), machine, own, threads)
    assert found.whose_threads_crowd(THRESHOLDS) == whose
    twelve = Processors(10, (), machine, own, 12)
    assert twelve.are_full(THRESHOLDS) is (machine >= 8.0)


@pytest.mark.parametrize(
    ("children", "whose"), [(4.5, "children"), (4.4, "own"), (None, "own")]
)
def test_half_of_the_use_may_be_that_of_processes_which_the_program_started(
    children: float | None, whose: str
) -> None:
    found = Processors(10, (), 9.0, 9.0, 99, children=children)
    assert found.whose_threads_crowd(THRESHOLDS) == whose
    others = Processors(10, (), 9.0, 4.4, 99, children=children)
    assert others.whose_threads_crowd(THRESHOLDS) == "others"


# --- time without a core ---


def clock_of(awake: Any, ready: Any) -> ThreadTime:
    times = (spans_of((0, 20)), spans_of(*awake), spans_of())
    return ThreadTime("any", *times, None if ready is None else spans_of(*ready))


@pytest.mark.parametrize(
    ("main", "rest", "expected"),
    [
        # Of the first step 2, of the second 3; other threads run.
        (
            clock_of([(1, 9), (10, 17)], [(1, 3), (10, 13)]),
            clock_of([], []),
            WithoutCore((2, 3), (0, 0)),
        ),
        # It sleeps from 9 to 10 and from 17 on, while a thread of a pool is ready.
        (
            clock_of([(0, 9), (10, 17)], [(1, 3)]),
            clock_of([(2, 20)], [(8, 10), (12, 19)]),
            WithoutCore((2, 0), (1, 2)),
        ),
        (
            clock_of([(0, 9)], [(1, 3)]),
            clock_of([(2, 20)], None),
            WithoutCore((2, 0), (0, 0)),
        ),
        (clock_of([(0, 9)], None), clock_of([(2, 20)], [(8, 10)]), None),
    ],
)
def test_a_step_has_no_core_if_its_thread_or_the_one_it_waits_for_has_none(
    main: ThreadTime, rest: ThreadTime, expected: WithoutCore | None
) -> None:
    tracks = pl.DataFrame(
        {"plane": ["/host"], "process": [7], "id": [7], "name": ["main"]}
    )
    time = CoreTime({("/host", 7, 7): main}, {("/host", 7): rest})
    found = time_without_core.function(
        tracks=tracks,
        naming=SimpleNamespace(function_tracks=(0,)),
        core_time=time,
        windows=windows_at((0, 10), (10, 20)),
    )
    assert found == expected


# --- sleep ---


def sleeping(**fields: Any) -> Any:
    return SimpleNamespace(
        **{
            "spans": spans_of((2, 8), (10, 14)),
            "function": Name("wait", "for it", "acquire", "a.py", 3, loop=True),
            "thread": "pool",
            "running": Name(None, None, "work", "b.py", 5),
            "works": True,
            "of_library": False,
            "work": None,
            **fields,
        }
    )


def slept(waits: Any, processors: Any = ABSENT) -> Any:
    return asleep.function(
        host_waits={"wait": waits},
        windows=windows_at((0, 10), (10, 20)),
        processor_signals=processors,
    )["wait"]


def test_every_field_of_the_programs_sleep() -> None:
    assert fields_of(slept(sleeping())) == {
        "times_ps": (6, 4),
        "share_percent": 50.0,
        "function": fields_of(
            Part(
                name="wait",
                detail="for it",
                function="acquire",
                file="a.py",
                line=3,
                loop=True,
                share_percent=50.0,
            )
        ),
        "works": True,
        "other": fields_of(
            Part(
                name="work",
                function="work",
                file="b.py",
                line=5,
                thread="pool",
                share_percent=50.0,
            )
        ),
        "workers": None,
        "work": None,
    }
    assert slept(sleeping(thread=None)).other is None
    assert slept(sleeping(running=None)).other is None
    assert slept(sleeping(function=Name(None))).function.name == ""


@pytest.mark.parametrize(
    ("fields", "workers", "known"),
    [
        ({"works": False}, 0.1, 0.1),
        ({"works": False}, 0.09, None),
        ({"works": False}, None, None),
        ({"works": True}, 3.0, None),
        # Who works is a library's thread, which hands work to processes.
        ({"works": True, "of_library": True}, 3.0, 3.0),
    ],
)
def test_workers_count_unless_the_program_itself_works(
    fields: dict[str, Any], workers: float | None, known: float | None
) -> None:
    cores = Processors(4, (), 1.0, None, None, workers)
    assert slept(sleeping(**fields), cores).workers == known


# --- workers ---


def test_workers_are_counted_in_the_steps() -> None:
    """Before the steps 8, in them 3 and 5; after them 9. Three are the median of 3."""
    counters = {
        "worker processes": [(0, 8), (10, 2), (15, 3), (25, 5), (35, 9)],
        WORKERS_CPU: [(20, 100.0), (30, 300.0)],
        MACHINE: [(30, 320.0)],
    }
    steps = windows_at((12, 20), (20, 30))
    found = loader_workers.function(trace=counted(counters), windows=steps)
    used = (8 * 100 + 10 * 300) / 18 / 100
    assert found == LoaderWorkers(3, 4, pytest.approx(used), full=True)
    counters[MACHINE] = [(30, 319.0)]
    found = loader_workers.function(trace=counted(counters, allowed=3), windows=steps)
    assert found == LoaderWorkers(3, 3, pytest.approx(used), full=False)
    # All samples are later: the first one counts.
    late = {"worker processes": [(50, 6), (60, 4)]}
    found = loader_workers.function(trace=counted(late), windows=steps)
    assert found == LoaderWorkers(6, 4, None, full=None)
    early = {"worker processes": [(0, 6), (1, 4)]}
    found = loader_workers.function(trace=counted(early), windows=steps)
    assert found == LoaderWorkers(4, 4, None, full=None)
    none = {"worker processes": [(0, 0)]}
    assert loader_workers.function(trace=counted(none), windows=steps) is None
    assert loader_workers.function(trace=counted({}), windows=steps) is None
    no_cores = counted(late, cores=0)
    assert loader_workers.function(trace=no_cores, windows=steps) is None


def test_how_many_workers_there_could_be() -> None:
    cases: list[tuple[int, int, float | None, bool | None, int | None]] = [
        (4, 8, 2.0, False, 8),
        (4, 4, 2.0, False, None),
        (4, 8, 2.0, True, None),
        (4, 8, None, None, 8),
        (4, 4, None, None, None),
        # Workers that wait: twice as many, or one for each core.
        (4, 6, 1.9, False, 8),
        (2, 6, 0.9, False, 6),
        # On a busy machine, too; there, workers that compute get less than a core.
        (4, 6, 0.39, True, 8),
        (4, 6, 0.4, True, None),
    ]
    for workers, cores, used, full, could_be in cases:
        found = LoaderWorkers(workers, cores, used, full)
        assert found.could_be == could_be
        compute = None if used is None else used >= workers / (10 if full else 2)
        assert found.compute is compute


def function(name: str, time: int) -> Any:
    return SimpleNamespace(
        function=name, inside=f"in {name}", file=f"{name}.py", line=7, time_ps=time
    )


def sampled(**fields: Any) -> Any:
    functions = [function(name, 100 - at) for at, name in enumerate("abcd")]
    return worker_time.function(
        worker_functions=SimpleNamespace(
            **{
                "looks": 100,
                "functions": functions,
                "worth_naming": functions[1],
                "awaited_ps": 50,
                "sampled_ps": 500,
                "waits_ps": 125,
                "idle_ps": 25,
                "workers": 3,
                "waited_ps": 40,
                "alone_ps": 30,
                **fields,
            }
        )
    )


def test_every_field_of_the_workers_time() -> None:
    def part(name: str, share: float) -> Part:
        return Part(
            name=name,
            detail=f"in {name}",
            function=name,
            file=f"{name}.py",
            line=7,
            share_percent=share,
            inclusive=True,
        )

    found = sampled()
    assert fields_of(found) == fields_of(
        {
            "workers": 3,
            "waits_percent": 25.0,
            "functions": (part("a", 20.0), part("b", 19.8), part("c", 19.6)),
            "most": part("b", 19.8),
            "idle_percent": 50.0,
            "alone_percent": 75.0,
        }
    )
    assert found.are_idle
    assert found.place == "`b` (b.py:7)"
    assert sampled(workers=1).alone_percent is None
    assert sampled(waited_ps=14).alone_percent is None
    nameless = sampled(worth_naming=None, idle_ps=24)
    assert (nameless.most, nameless.place, nameless.are_idle) == (None, None, False)


@pytest.mark.parametrize(("awaited_ps", "known"), [(0, False), (-1, False), (0, True)])
def test_rare_waits_say_nothing_about_workers(awaited_ps: int, *, known: bool) -> None:
    """Of 100 samples in 500 ps a fifth of the waits' length is in waits."""
    least = 5 * MIN_INTERVAL_SAMPLES if known or awaited_ps else 0
    found = sampled(awaited_ps=least + awaited_ps, idle_ps=least)
    assert found.idle_percent == (100.0 if known else None)
    assert found.are_idle is known


@pytest.mark.parametrize(("more", "known"), [(0, True), (-1, False)])
def test_few_samples_say_nothing_about_workers(more: int, *, known: bool) -> None:
    assert (sampled(looks=MIN_INTERVAL_SAMPLES + more) is not None) is known


def test_ops_that_only_one_worker_runs_are_extra() -> None:
    ops = WorkerOps(
        {
            "a": {"x": 4.0, "y": 2.0, "z": 2.0},
            "b": {"x": 1.0, "y": 3.0},
            "c": {"x": 3.0, "z": 2.0},
        }
    )
    # Others run x twice in the median, y 1.5 times and z once: 2 + 0.5 + 1 of 8.
    assert ops.extra_ops_percent("a") == pytest.approx(100 * 3.5 / 8)
    assert ops.runs_op("a", "z")
    assert not ops.runs_op("b", "z")
    assert not ops.runs_op("nobody", "x")
    assert ops.extra_ops_percent("nobody") is None
    assert WorkerOps({"a": {"x": 1.0}}).extra_ops_percent("a") is None
    assert WorkerOps({"a": {"x": 1.0}, "b": {}}).extra_ops_percent("a") is None


def test_ops_are_counted_in_the_judged_steps() -> None:
    found = op_runs(
        event_kinds=SimpleNamespace(is_op=lambda: np.array([True, False, True])),
        windows=windows_at((0, 10), (10, 20)),
        events=events_at(
            *((kind, 0, at, 1) for kind, at in ((0, 0), (0, 9), (0, 15), (1, 5))),
            *((0, 0, 20, 1), (2, 0, 19, 9), (2, 0, 25, 1)),
        ),
        event_types=types_named("a", "b", "c"),
    )
    assert found == {"a": 1.5, "c": 0.5}
