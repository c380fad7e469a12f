"""Calls of graph functions, CPU clocks of threads, tracers: whole, by hand."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.derive.host.core_time import CoreTime, core_time, thread_identities
from stepscope.derive.host.event_nesting import LaunchingOps, launching_ops
from stepscope.derive.host.function_calls import function_calls
from stepscope.derive.host.tracers import tracers
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import event_kinds
from stepscope.unavailable import Unavailable
from stepscope.xspace.samples_line import AWAKE, READ, SYSTEM

US = 1_000_000
GONE = Unavailable(code="LOST_EVENTS", reason="Taken away.", remedy="Put it back.")


def derived(lines: list[blueprint.Line], derivation: Any) -> Any:
    return blueprint.profile(blueprint.trace(lines)).derived("vm", derivation)


def call(
    start: float, dur: float, name: str, mode: str, *counts: int, track: str = "main"
) -> blueprint.Line:
    stats: dict[str, Any] = {"tf_function_call": mode}
    if counts:
        stats["tracing_count"] = counts[0]
    return (track, name, start, dur, stats)


def test_calls_of_graph_functions_by_function_and_mode() -> None:
    found = derived(
        [
            call(0, 100, "f", "traced-xla", 3),
            call(10, 30, "g", "concrete"),
            call(200, 20, "f", "traced-xla", 2),
            call(300, 30, "a", "concrete"),
            call(400, 30, "a", "aot"),
            call(0, 7, "f", "eager", 0, track="pool"),
            ("main", "other", 500, 90),
            ("main", "counted", 600, 90, {"tracing_count": 9}),
        ],
        function_calls,
    )
    assert found.columns == ["name", "mode", "calls", "self_ps", "tracing_count"]
    assert found.rows() == [
        ("f", "traced-xla", 2, 90 * US, 3),
        ("a", "aot", 1, 30 * US, None),
        ("a", "concrete", 1, 30 * US, None),
        ("g", "concrete", 1, 30 * US, None),
        ("f", "eager", 1, 7 * US, 0),
    ]


def test_without_calls_of_functions_the_reason_is_said() -> None:
    found = derived([("main", "other", 0, 9, {"tracing_count": 9})], function_calls)
    assert isinstance(found, Unavailable)
    assert found.code == "NOT_RECORDED"


def spans(*pairs: tuple[int, int]) -> Spans:
    return Spans.of([(begin * US, end * US) for begin, end in pairs])


CLOCKS: list[blueprint.Line] = [
    ("main", "x", 0, 1),
    ("pool", "x", 0, 1),
    ("core time of main, 100 a second", READ, 0, 50),
    ("core time of main, 100 a second", AWAKE, 0, 20),
    ("core time of main, 100 a second", SYSTEM, 30, 5),
    ("core time of main, 100 a second", READ, 60, 10),
    ("core time of other threads, 100 a second", READ, 0, 40),
    ("core time of other threads, 100 a second", AWAKE, 5, 6),
]


def test_clocks_of_threads_and_of_all_others() -> None:
    found = derived(CLOCKS, core_time)
    assert isinstance(found, CoreTime)
    ((plane, _, thread), main) = next(iter(found.threads.items()))
    assert (len(found.threads), plane, thread) == (1, "/host:CPU", 1)
    assert main.name == "main"
    assert main.seen == spans((0, 50), (60, 70))
    assert main.awake == spans((0, 20))
    assert main.system == spans((30, 35))
    assert main.asleep == spans((20, 50), (60, 70))
    ((plane, _), rest) = next(iter(found.rest.items()))
    assert (len(found.rest), plane) == (1, "/host:CPU")
    assert (rest.seen, rest.awake) == (spans((0, 40)), spans((5, 11)))
    # The clock of other threads alone says nothing of any thread.
    assert isinstance(derived([CLOCKS[0], *CLOCKS[6:]], core_time), Unavailable)
    assert isinstance(derived(CLOCKS[:2], core_time), Unavailable)


def test_tracks_of_a_thread_have_its_identity() -> None:
    tracks = blueprint.trace(CLOCKS).table("tracks")
    assert isinstance(tracks, pl.DataFrame)
    found = dict(zip(tracks["name"], thread_identities(tracks), strict=True))
    assert found["main"] == found["core time of main, 100 a second"]
    assert found["main"] == ("/host:CPU", tracks["process"][0], 1)
    assert found["pool"][2] == 2


@pytest.mark.parametrize(
    ("lines", "stored", "expected"),
    [
        ([("main", "x", 0, 1)], None, (None, None, None)),
        ([("main", "x", 0, 1)], (2, 1, 0), (2, 1, 0)),
        ([("main", "$a.py:1 f", 0, 1)], None, (None, None, 1)),
        ([("main", "$a.py:1 f", 0, 1)], (2, 0, 0), (2, 0, 1)),
        ([("main", "$a.py:1 f", 0, 1)], (2, 0, 5), (2, 0, 5)),
        ([("gpu:0/7", "k", 0, 1)], None, (None, 1, None)),
        ([("gpu:0/7", "k", 0, 1)], (1, 0, 0), (1, 1, 0)),
        ([("gpu:0/7", "k", 0, 1)], (1, 3, 0), (1, 3, 0)),
        (
            [
                ("main", "x", 0, 1),
                ("samples of main, 100 a second", "$a.py:1 f", 0, 1),
            ],
            (1, 0, 0),
            (1, 0, 0),
        ),
    ],
)
def test_tracers_are_those_stored_and_those_that_left_events(
    lines: list[blueprint.Line],
    stored: tuple[int, int, int] | None,
    expected: tuple[int | None, ...],
) -> None:
    trace = blueprint.trace(lines)
    names = ("host_tracer_level", "device_tracer_level", "python_tracer_level")
    environment: Any = GONE
    if stored is not None:
        environment = pl.DataFrame(dict(zip(names, stored, strict=True)))
    found = tracers(
        environment=environment,
        events=trace.table("events"),  # type: ignore[arg-type]
        tracks=trace.table("tracks"),  # type: ignore[arg-type]
        device_activity=trace.table("device_activity"),
        event_kinds=blueprint.profile(trace).derived("vm", event_kinds),  # type: ignore[arg-type]
    )
    assert (found.host, found.device, found.python) == expected


def test_launch_calls_belong_to_the_execution_around_them() -> None:
    found = derived(
        [
            ("main", "cuLaunchKernel", 0, 1, {"correlation_id": 1}),
            ("main", "a:A", 5, 20),
            ("main", "b:B", 8, 10),
            ("main", "cuLaunchKernel", 10, 1, {"correlation_id": 2}),
            ("main", "cuLaunchKernel", 22, 1, {"correlation_id": 3}),
            ("pool", "a:A", 5, 20),
            ("pool", "cuLaunchKernel", 6, 1, {"correlation_id": 4}),
        ],
        launching_ops,
    )
    assert isinstance(found, LaunchingOps)
    # Executions by event: `a` and `b` of the main thread, then `a` of the other one.
    assert found.execution.tolist() == [-1, 1, 0, 2]
    names = found.ops["name"].to_list()
    assert [names[op] for op in found.op[1:].tolist()] == ["b", "a", "a"]
    assert found.op[0] == -1
