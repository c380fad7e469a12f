"""Idle time of a device, followed back to what it waited for.

Definition: docs/definitions/idle-time.md#blame.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint

from stepscope.derive.device.launch_facts import launch_facts
from stepscope.derive.step_time.blame import blame

US = 1_000_000
MARK = {"_r": 1, "step_num": 0}


def blamed(lines: list[Any]) -> Any:
    trace = blueprint.trace(lines, devices={0: blueprint.A100})
    (device,) = blueprint.profile(trace).derived("vm", blame).devices
    return device


def microseconds(causes: Any) -> dict[str, float]:
    return {
        cause: spans.length_ps / US for cause, spans in causes.items() if len(spans)
    }


def call(number: int, start: float, dur: float = 5) -> Any:
    return ("main", "cuLaunchKernel", start, dur, {"correlation_id": number})


def kernel(number: int, start: float, dur: float) -> Any:
    stats = {"correlation_id": number}
    return ("gpu:0/7(Compute)", f"kernel_{number}", start, dur, stats)


def test_a_wait_is_cut_at_the_launch_call_and_by_what_the_host_did_before() -> None:
    device = blamed(
        [
            ("main", "train", 0, 1000, MARK),
            call(1, 0),
            kernel(1, 10, 90),
            ("main", "IteratorGetNext", 150, 50),
            ("main", "a/Late:Late", 220, 30),
            ("main", "cudaStreamSynchronize", 260, 20),
            call(2, 300),
            kernel(2, 320, 680),
        ]
    )
    assert microseconds(device.inside) == {
        "input": 50.0,
        "host_compute": 30.0,
        "sync": 20.0,
        "latency": 20.0,
        "unknown": 100.0,
    }
    assert microseconds(device.between) == {"latency": 10.0}


def test_work_that_was_queued_in_time_waited_for_the_device() -> None:
    device = blamed(
        [
            ("main", "train", 0, 1000, MARK),
            call(1, 0),
            call(2, 6),
            kernel(1, 10, 490),
            kernel(2, 700, 300),
        ]
    )
    assert microseconds(device.inside) == {"device": 200.0}
    assert device.starved.height == 0


def test_a_launch_that_returned_less_than_a_latency_before_came_too_late() -> None:
    # The latency is assumed to be 20 µs: too few launches to measure it.
    device = blamed(
        [
            ("main", "train", 0, 1000, MARK),
            call(1, 0),
            kernel(1, 10, 490),
            call(2, 480, 5),
            kernel(2, 520, 480),
        ]
    )
    assert microseconds(device.inside) == {"latency": 20.0}
    assert device.starved.rows(named=True) == [
        {
            "start_ps": 500 * US,
            "end_ps": 520 * US,
            "activity": 1,
            "launch": 1,
            "after_sync": False,
        }
    ]


def test_a_synchronisation_before_the_launch_drained_the_queue() -> None:
    device = blamed(
        [
            ("main", "train", 0, 1000, MARK),
            call(1, 0),
            kernel(1, 10, 490),
            ("main", "cudaStreamSynchronize", 300, 205),
            call(2, 510),
            kernel(2, 530, 470),
        ]
    )
    assert device.starved["after_sync"].to_list() == [True]


def test_the_first_work_of_a_step_ends_a_wait_between_steps() -> None:
    lines: list[Any] = []
    for number in range(4):
        begin = 1000 * number
        lines += [
            ("main", "train", begin, 900, {"_r": 1, "step_num": number}),
            call(2 * number, begin + 100),
            kernel(2 * number, begin + 120, 200),
            call(2 * number + 1, begin + 400),
            kernel(2 * number + 1, begin + 420, 300),
        ]
    device = blamed(lines)
    assert microseconds(device.inside)["latency"] == 4 * 20.0
    between = microseconds(device.between)
    assert between["latency"] == 4 * 20.0
    # Before the first launch, from a step's last kernel to the next step's first
    # launch, and after the last kernel until its marker ends.
    assert between["unknown"] == 100.0 + 3 * 380.0 + 180.0


def test_a_gap_as_short_as_any_blames_nobody() -> None:
    device = blamed(
        [
            ("main", "train", 0, 1000, MARK),
            call(1, 0),
            kernel(1, 10, 490),
            call(2, 495, 2),
            kernel(2, 501, 499),
        ]
    )
    assert microseconds(device.inside) == {"switch": 1.0}


@pytest.mark.parametrize(("samples", "latency", "rests_on"), [(29, 20, 0), (30, 7, 30)])
def test_the_latency_is_measured_from_thirty_launches_on(
    samples: int, latency: int, rests_on: int
) -> None:
    lines: list[Any] = [("main", "train", 0, 100 * samples, MARK)]
    for number in range(samples):
        lines += [call(number, 100 * number), kernel(number, 100 * number + 7, 50)]
    trace = blueprint.trace(lines, devices={0: blueprint.A100})
    facts = blueprint.profile(trace).derived("vm", launch_facts)
    assert facts.latency_ps == latency * US
    assert facts.latency_samples == rests_on
    assert facts.median_kernel_ps == 50 * US
    assert facts.median_call_ps == 5 * US


def test_a_call_without_its_kernel_is_a_loss_unless_it_came_last() -> None:
    lines: list[Any] = [("main", "train", 0, 1000, MARK)]
    lines += [call(number, 100 * number) for number in range(8)]
    lines += [kernel(number, 100 * number + 20, 50) for number in (0, 1, 3, 4, 6)]
    lines.append(("main", "cuMemAlloc", 450, 5, {"correlation_id": 99}))
    trace = blueprint.trace(lines, devices={0: blueprint.A100})
    facts = blueprint.profile(trace).derived("vm", launch_facts)
    assert facts.lost == 2
    assert facts.long_kernel_ps == 50 * US


def test_kernels_before_their_launch_tell_the_clocks_apart() -> None:
    lines: list[Any] = [("main", "train", 0, 1000, MARK)]
    for number in range(5):
        lines += [
            call(number, 100 * number + 30),
            kernel(number, 100 * number + 20, 50),
        ]
    trace = blueprint.trace(lines, devices={0: blueprint.A100})
    facts = blueprint.profile(trace).derived("vm", launch_facts)
    assert facts.clock_error_ps == 10 * US


def test_replayed_graphs_without_nodes_are_counted() -> None:
    stats = {"correlation_id": 1}
    lines = [
        ("main", "train", 0, 1000, MARK),
        call(1, 0),
        call(2, 10),
        ("gpu:0/7(Compute)", "CudaGraphExec:3", 10, 300, stats),
        kernel(2, 400, 100),
    ]
    trace = blueprint.trace(lines, devices={0: blueprint.A100})
    facts = blueprint.profile(trace).derived("vm", launch_facts)
    assert facts.graph_percent == 75.0
