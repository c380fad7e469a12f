"""What launching costs on a host: whole results, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from msgspec.structs import asdict
from tests.support.traces import blueprint

from stepscope.derive.device.correlation import (
    Correlation,
    DeviceRows,
    LaunchFacts,
    LaunchLatency,
    correlation,
    device_timeline,
    idle_waits_ps,
    launch_facts,
    launch_latency,
)

US = 1_000_000
GPU, OTHER = "gpu:0/7", "gpu:0/9"


def call(start: float, dur: float, number: int, **more: str) -> blueprint.Line:
    """A launch call of the main thread."""
    name, track = more.get("name", "cuLaunchKernel"), more.get("track", "main")
    return (track, name, start, dur, {"correlation_id": number})


def work(
    start: float, dur: float, number: int, name: str = "k", stream: str = GPU
) -> blueprint.Line:
    return (stream, name, start, dur, {"correlation_id": number})


def facts(*lines: blueprint.Line) -> LaunchFacts:
    found = blueprint.profile(blueprint.trace(lines)).derived("vm", launch_facts)
    assert isinstance(found, LaunchFacts)
    return found


def latency(*lines: blueprint.Line) -> LaunchLatency:
    found = blueprint.profile(blueprint.trace(lines)).derived("vm", launch_latency)
    assert isinstance(found, LaunchLatency)
    return found


FEW = [
    call(10, 4, 1),
    work(20, 30, 1, "CudaGraphExec:7"),
    call(60, 6, 2),
    work(58, 10, 2),
    call(100, 5, 3),
    work(110, 3, 3, "MemcpyH2D", "gpu:0/8(MemcpyH2D)"),
    call(115, 3, 4),
    work(119, 18, 4),
    # A kernel whose call was not recorded.
    work(200, 22, 99),
]


def test_everything_about_a_few_launches() -> None:
    found = facts(*FEW, ("main", "cudaDeviceSynchronize", 120, 10))
    assert asdict(found) == asdict(
        LaunchFacts(
            latency_ps=20 * US,
            latency_samples=0,
            median_call_ps=4_500_000,
            median_kernel_ps=20 * US,
            kernels=4,
            graph_percent=100 * 30 / 80,
            # The device finished at 137; the call that waited for it returned at 130.
            clock_error_ps=7 * US,
            lost=0,
            lost_ps=0,
        )
    )


def test_without_kernels_nothing_is_said_of_them() -> None:
    copy = work(12, 3, 1, "MemcpyH2D", "gpu:0/8(MemcpyH2D)")
    found = facts(call(10, 4, 1), copy)
    assert (found.median_kernel_ps, found.kernels, found.graph_percent) == (
        None,
        0,
        None,
    )
    assert found.median_call_ps == 4 * US
    found = facts(call(10, 4, 1), work(20, 3, 2))
    assert (found.median_call_ps, found.median_kernel_ps) == (None, 3 * US)
    assert found.graph_percent == 0


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ([], 2),  # a kernel begins 2 before its call
        ([("main", "cudaDeviceSynchronize", 120, 20)], 2),
        ([("main", "hipDeviceSynchronize", 120, 11)], 6),
        ([("main", "cuCtxSynchronize", 120, 11)], 6),
        # The call of the last kernel returns at 118: it is waited for from then on.
        ([("main", "cudaDeviceSynchronize", 118, 4)], 15),
        ([("main", "cudaDeviceSynchronize", 117, 4)], 2),
        # There are two streams: which of them was waited for is not known.
        ([("main", "cudaStreamSynchronize", 120, 10)], 2),
        # There are two devices.
        (
            [
                ("main", "cudaDeviceSynchronize", 120, 10),
                work(300, 5, 5, stream="gpu:1/7"),
            ],
            2,
        ),
        # Before the first launch there is nothing to wait for.
        ([("main", "cudaDeviceSynchronize", 2, 3)], 2),
        # The call of a copy into pageable memory returns when it has ended.
        (
            [
                call(400, 10, 5),
                work(402, 13, 5, "DtoH (Device -> Pageable)", "gpu:0/8(MemcpyD2H)"),
            ],
            5,
        ),
        (
            [
                call(400, 10, 5),
                work(402, 13, 6, "DtoH (Device -> Pageable)", "gpu:0/8(MemcpyD2H)"),
            ],
            2,
        ),
        (
            [
                call(400, 10, 5),
                work(402, 13, 5, "DtoH (Device -> Pinned)", "gpu:0/8(MemcpyD2H)"),
            ],
            2,
        ),
    ],
)
def test_clocks_differ_by_what_cannot_have_happened(
    lines: list[blueprint.Line], error: int
) -> None:
    assert facts(*FEW, *lines).clock_error_ps == error * US


@pytest.mark.parametrize("name", ["cudaStreamSynchronize", "hipStreamSynchronize"])
def test_a_wait_for_the_only_stream_is_a_wait_for_the_device(name: str) -> None:
    lines = [call(10, 4, 1), work(20, 30, 1), ("main", name, 30, 12)]
    assert facts(*lines).clock_error_ps == 8 * US


def test_what_ends_last_of_all_that_was_launched_before_was_waited_for() -> None:
    lines = [
        *(call(10, 4, 1), call(20, 4, 2), call(300, 4, 3)),
        *(work(30, 90, 1), work(40, 30, 2, stream=OTHER), work(310, 90, 3)),
    ]
    wait = ("main", "cudaDeviceSynchronize", 50, 60)
    assert facts(*lines, wait).clock_error_ps == 10 * US
    # The same, with activities in another order than their calls.
    turned = [
        *(call(10, 4, 1), call(20, 4, 2), call(300, 4, 3)),
        *(work(30, 90, 2), work(125, 5, 1), work(310, 90, 3)),
    ]
    assert facts(*turned, wait).clock_error_ps == 20 * US


def test_the_error_of_the_clocks_leaves_one_in_a_hundred_out() -> None:
    lines = [
        line
        for k in range(1, 102)
        for line in (call(1000 * k, 5, k), work(1000 * k - k, 900, k))
    ]
    # Kernels begin from 1 to 101 µs before their calls.
    assert facts(*lines).clock_error_ps == 100 * US


LOSING = [
    call(5, 1, 90),
    *(call(10, 1, 1), work(12, 30, 1)),
    *(call(50, 1, 91), call(55, 1, 2), work(60, 10, 2)),
    *(call(57, 1, 3), work(70, 20, 3)),
    call(90, 1, 92),
]


def test_calls_without_work_between_calls_with_work_are_lost() -> None:
    found = facts(*LOSING)
    # Of 10, 20 and 30 µs the 95th percentile is 29.
    assert (found.lost, found.lost_ps) == (1, 29 * US)


@pytest.mark.parametrize(
    ("lines", "lost"),
    [
        # Half of six calls have work; then, fewer than half of seven.
        ([], 1),
        ([call(95, 1, 93)], 0),
        # Calls of another name, or inside of something else, do not count with them.
        ([call(52, 1, 93, name="cuMemsetAsync")], 1),
        ([("main", "around", 51, 3), call(52, 1, 93)], 1),
        ([call(52, 1, 93, track="pool"), call(95, 1, 94, track="pool")], 1),
        # On another thread, between calls that have work.
        (
            [
                *(call(20, 1, 4, track="pool"), work(100, 5, 4)),
                call(52, 1, 93, track="pool"),
                *(call(95, 1, 5, track="pool"), work(120, 5, 5)),
            ],
            2,
        ),
    ],
)
def test_a_lost_call_is_one_of_many_alike(
    lines: list[blueprint.Line], lost: int
) -> None:
    assert facts(*LOSING, *lines).lost == lost


def test_lost_time_is_that_of_calls_of_the_same_name() -> None:
    copies = [
        *(call(40, 1, 7, name="cuMemcpyAsync"), work(130, 3, 7)),
        call(52, 1, 93, name="cuMemcpyAsync"),
        call(53, 1, 94, name="cuMemcpyAsync"),
        *(call(54, 1, 8, name="cuMemcpyAsync"), work(140, 3, 8)),
    ]
    found = facts(*LOSING, *copies)
    assert (found.lost, found.lost_ps) == (3, (29 + 2 * 3) * US)


def test_nothing_is_lost_if_no_call_has_work() -> None:
    found = facts(call(10, 1, 1), call(20, 1, 2), work(30, 5, 3))
    assert (found.lost, found.lost_ps, found.median_call_ps) == (0, 0, None)


def queued(gaps: list[int], ahead: int = 10_000) -> list[blueprint.Line]:
    """Kernels of 10 µs with these gaps, long after their calls."""
    starts = np.cumsum([ahead, *(10 + gap for gap in gaps)]).tolist()
    calls = [call(2 * k, 1, k) for k in range(len(starts))]
    return [*calls, *(work(start, 10, k) for k, start in enumerate(starts))]


@pytest.mark.parametrize(
    ("gaps", "switch"),
    [
        (list(range(1, 31)), 3.9),  # a tenth of the way from 1 to 30
        (list(range(30, 0, -1)), 3.9),
        (list(range(1, 30)), 1),  # too few
        ([3] * 30, 3),
        ([40] * 30, 10),  # so long is none
        ([0] * 10 + [4] * 30, 4),
    ],
)
def test_short_gaps_between_queued_kernels_are_switches(
    gaps: list[int], switch: float
) -> None:
    assert latency(*queued(gaps)).switch_ps == round(switch * US)


@pytest.mark.parametrize(("ahead", "switch"), [(0, 3), (-1, 1)])
def test_a_call_two_latencies_ahead_of_a_gap_did_not_cause_it(
    ahead: int, switch: int
) -> None:
    # 31 kernels of 10 µs, 3 apart; the call ends 40 µs before the gap, or 39.
    lines = [
        line
        for k in range(31)
        for line in (
            call(1000 + 13 * k - 3 - 40 - ahead - 1, 1, k),
            work(1000 + 13 * k, 10, k),
        )
    ]
    found = latency(*lines)
    assert (found.latency_ps, found.switch_ps) == (20 * US, switch * US)


def test_the_longest_wait_for_a_program_is_two_latencies() -> None:
    lines = [
        line
        for k in range(30)
        for line in (call(1000 * k, 5, k), work(1000 * k + 60, 20, k))
    ]
    profile = blueprint.profile(blueprint.trace(lines))
    found: Any = profile.derived("vm", correlation)
    assert isinstance(found, Correlation)
    for kinds, most in ((["thread", "stream"], 100), (["thread", "core"], 120)):
        tracks = pl.DataFrame({"kind": kinds})
        assert asdict(launch_latency(tracks=tracks, correlation=found)) == {
            "latency_ps": 60 * US,
            "latency_samples": 30,
            "switch_ps": US,
            "max_wait_ps": most * US,
        }
    few: Any = blueprint.profile(blueprint.trace(FEW)).derived("vm", correlation)
    tracks = pl.DataFrame({"kind": ["core"]})
    assert launch_latency(tracks=tracks, correlation=few).max_wait_ps == 100 * US


def test_waits_of_an_idle_device_are_those_of_an_empty_queue() -> None:
    found = blueprint.profile(blueprint.trace(FEW)).derived("vm", correlation)
    # 20 - 10, 58 - 60, 110 - 100; 119 - 115 found the queue empty, too.
    assert sorted(idle_waits_ps(found).tolist()) == [-2 * US, 4 * US, 10 * US, 10 * US]


def test_activities_of_each_device_by_their_start() -> None:
    trace = blueprint.trace(
        [
            work(50, 5, 1, stream="gpu:2/7"),
            work(60, 1, 2, stream="gpu:2/7"),
            work(40, 7, 3, stream="gpu:2/9"),
            work(50, 8, 4, stream="gpu:2/9"),
            work(5, 3, 5),
        ]
    )
    table = trace.table("device_activity")
    assert isinstance(table, pl.DataFrame)
    for rows in (table, table.filter(pl.col("device") == 2)):
        found = device_timeline(device_activity=rows)
        assert found.row_count == len(rows)
        expected = {}
        for number in sorted(set(rows["device"].to_list())):
            mine = [
                row for row, device in enumerate(rows["device"]) if device == number
            ]
            mine.sort(key=lambda row: rows["start_ps"][row])
            expected[number] = mine
        assert [each.device for each in found.devices] == list(expected)
        for each in found.devices:
            assert isinstance(each, DeviceRows)
            assert each.rows.tolist() == expected[each.device]
            assert (
                each.start_ps.tolist() == rows["start_ps"].gather(each.rows).to_list()
            )
            assert each.dur_ps.tolist() == rows["dur_ps"].gather(each.rows).to_list()
    assert device_timeline(device_activity=table.head(0)).devices == ()
