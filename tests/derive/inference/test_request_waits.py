"""`request_waits`: every instant of a request is charged to one cause."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.derive.inference_requests import (
    REQUEST_BUCKETS,
    RequestWaits,
    request_waits,
    requests,
)
from stepscope.unavailable import Unavailable

US = 1_000_000
WHY = Unavailable(code="LOST_EVENTS", reason="taken away.", remedy="Put it back.")


def charged(*lines: blueprint.Line, **more: Any) -> list[dict[str, int]]:
    """Times of each request in µs; zeros and unknown ones left out."""
    profile = blueprint.profile(blueprint.trace(list(lines), **more))
    waits = profile.derived("vm", request_waits)
    assert isinstance(waits, RequestWaits), waits
    durations = profile.derived("vm", requests).rows["dur_ps"]
    total = waits.rows.select(pl.sum_horizontal(pl.all())).to_series()
    assert total.to_list() == durations.to_list()
    return [
        {name.removesuffix("_ps"): ps // US for name, ps in row.items() if ps}
        for row in waits.rows.to_dicts()
    ]


def serve(thread: str, start: float, dur: float, number: int = 1) -> blueprint.Line:
    return (thread, "serve", start, dur, {"request_id": number})


def test_a_request_is_charged_with_what_its_own_thread_does() -> None:
    assert charged(
        serve("a", 0, 200),
        ("a", "load_batch", 10, 30),
        ("a", "TraceFunction", 50, 20),
        ("a", "x/MatMul:MatMul", 80, 60),
        ("a", "cudaStreamSynchronize", 150, 25),
        ("b", "y/MatMul:MatMul", 0, 200),
    ) == [
        {
            "input": 30,
            "compile": 20,
            "host_compute": 60,
            "blocked": 25,
            "unexplained": 65,
        }
    ]


def test_time_outside_of_requests_is_nobodys() -> None:
    assert charged(
        serve("a", 100, 50),
        ("a", "x/MatMul:MatMul", 80, 40),
        serve("a", 200, 50, 2),
        ("a", "x/MatMul:MatMul", 240, 40),
    ) == [
        {"host_compute": 20, "unexplained": 30},
        {"host_compute": 10, "unexplained": 40},
    ]


def pool(thread: str, name: str, at: float, **values: int) -> blueprint.Line:
    return (thread, f"ThreadpoolListener::{name}", at, 0, values)


def test_tasks_on_other_threads_belong_to_the_request_that_handed_them_over() -> None:
    first, second = charged(
        serve("a", 0, 100),
        ("a", "FunctionRun", 10, 80),
        pool("a", "Record", 20, _pt=15, _p=1),
        pool("pool", "StartRegion", 30, _ct=15, _c=1),
        ("pool", "x/MatMul:MatMul", 31, 28),
        # A task hands over a task, which waits while the thread is busy.
        pool("pool", "Record", 40, _pt=15, _p=2),
        pool("pool", "StopRegion", 60),
        pool("pool", "StartRegion", 70, _ct=15, _c=2),
        pool("pool", "StopRegion", 85),
        serve("b", 0, 100, 2),
        ("b", "FunctionRun", 10, 80),
    )
    # [20,30) and [60,70) in the queue, [30,60) and [70,85) at work.
    assert first == {
        "other_threads": 45,
        "thread_queue": 20,
        "blocked": 15,
        "unexplained": 20,
    }
    assert second == {"blocked": 80, "unexplained": 20}


def test_device_work_counts_for_the_request_that_launched_it() -> None:
    first, second = charged(
        serve("a", 0, 100),
        ("a", "cudaLaunchKernel", 10, 5, {"correlation_id": 1}),
        ("a", "cudaLaunchKernel", 20, 5, {"correlation_id": 2}),
        ("a", "cudaMemcpyAsync", 30, 5, {"correlation_id": 3}),
        serve("a", 200, 100, 2),
        ("gpu:0/7", "sgemm", 12, 20, {"correlation_id": 1}),
        # Cut at the end of the request; the rest is not the next one's.
        ("gpu:0/7", "h884gemm_fp16", 90, 150, {"correlation_id": 2}),
        ("gpu:0/8", "MemcpyH2D", 60, 10, {"correlation_id": 3}),
        devices={0: blueprint.A100},
    )
    assert first == {
        "compute_32": 20,
        "compute_16": 10,
        "copy_in": 10,
        "launch": 2 + 3,
        "unexplained": 55,
    }
    assert second == {"unexplained": 100}


def test_a_launch_by_a_task_is_one_by_the_request() -> None:
    (only,) = charged(
        serve("a", 0, 100),
        ("a", "FunctionRun", 0, 100),
        pool("a", "Record", 10, _pt=15, _p=1),
        pool("pool", "StartRegion", 20, _ct=15, _c=1),
        ("pool", "cudaLaunchKernel", 25, 5, {"correlation_id": 1}),
        pool("pool", "StopRegion", 40),
        # Launched when the task was over.
        ("pool", "cudaLaunchKernel", 50, 5, {"correlation_id": 2}),
        ("gpu:0/7", "sgemm", 60, 20, {"correlation_id": 1}),
        ("gpu:0/7", "sgemm", 85, 10, {"correlation_id": 2}),
        devices={0: blueprint.A100},
    )
    assert only["compute_32"] == 20
    assert only["other_threads"] == 20
    assert only["thread_queue"] == 10


@pytest.mark.parametrize(
    ("table", "unknown"),
    [
        ("device_activity", {"sgemm": "compute_32"}),
        ("launches", {"sgemm": "compute_32"}),
    ],
)
def test_a_lost_table_leaves_device_work_unknown(
    table: str, unknown: dict[str, str]
) -> None:
    trace = blueprint.trace(
        [
            serve("a", 0, 100),
            ("a", "cudaLaunchKernel", 10, 5, {"correlation_id": 1}),
            ("gpu:0/7", "sgemm", 12, 20, {"correlation_id": 1}),
        ]
    )
    waits = blueprint.profile(trace).without(table, WHY).derived("vm", request_waits)
    assert isinstance(waits, RequestWaits)
    for bucket in unknown.values():
        assert waits.rows[f"{bucket}_ps"].to_list() == [None]
        assert waits.missing[bucket] == WHY
    known = waits.rows.select(pl.sum_horizontal(pl.all())).item()
    assert known == 100 * US


def test_every_bucket_has_a_category_of_the_results() -> None:
    from stepscope.derive.step_time.owners import CATEGORIES  # noqa: PLC0415

    assert {bucket.category for bucket in REQUEST_BUCKETS} == set(CATEGORIES)
