"""The queue of a device over the time of a step, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.training import findings, paced, together

from stepscope.advice.engine import signals_of
from stepscope.derive.facts.devices.launching import Queue, queue_signals
from stepscope.unavailable import Unavailable


def queues(lines: list[Any], *, without: str | None = None) -> dict[str, Queue]:
    profile = blueprint.profile(blueprint.trace(lines, devices={0: blueprint.A100}))
    if without is not None:
        why = Unavailable(code="NOT_RECORDED", reason="Deleted.", remedy="Keep it.")
        profile = profile.without(without, why)
    return signals_of(profile).of(queue_signals)


def steps_of_two_kernels() -> list[Any]:
    """Steps of 1,000 µs: both kernels are launched in its first tenths, and begin late.

    The first one is launched at 0 and begins at 500; the second one at 100 and 600.
    """
    lines: list[Any] = []
    for step in range(5):
        begin = 1_000 * step
        lines.append(("main", "train", begin, 1_000, {"_r": 1, "step_num": step}))
        for called, lasts, begun in ((0, 5, 500), (100, 60, 600)):
            stats = {"correlation_id": 10 * step + called + 1}
            lines += [
                ("main", "cudaLaunchKernel", begin + called, lasts, stats),
                ("gpu:0/7(Compute)", "gemm", begin + begun, 50, stats),
            ]
    return lines


def test_the_queue_is_followed_through_a_step() -> None:
    (queue,) = queues(steps_of_two_kernels()).values()
    expected = (1, 2, 2, 2, 2, 1, 0, 0, 0, 0)
    assert queue.lengths == pytest.approx(expected, abs=1e-6)
    assert queue.longest == 2


def test_calls_that_last_and_starts_that_come_late_are_counted() -> None:
    """One call of a step lasts 60 µs; one kernel begins late on an idle device."""
    (queue,) = queues(steps_of_two_kernels()).values()
    assert queue.slow_calls == 1
    # The second one had the first one to wait for.
    assert queue.late_starts == 1


@pytest.mark.parametrize("table", ["device_activity", "launches"])
def test_without_launches_or_work_there_is_no_queue(table: str) -> None:
    assert queues(steps_of_two_kernels(), without=table) == {}


@pytest.mark.slow(seconds=0.4)
def test_a_finding_about_late_launches_tells_of_the_queue() -> None:
    """400 kernels in 10 ms, one every 20 µs, each in the queue for half of that.

    The first of 14 steps holds 4.5 of the 8 ms of its own kernels, and no others.
    """
    found = findings(paced(early_us=10.0))["launch.delay"]
    facts = {fact.name: fact for fact in found.facts}
    assert found.status == "fail"
    assert facts["queue_length"].value == pytest.approx(
        (13 * 0.4 + 0.225) / 14, abs=1e-3
    )
    assert "per tenth of a step" in (facts["queue_length"].note or "")
    assert facts["late_starts"].value == 0
    passed = {fact.name for fact in findings(together())["launch.delay"].facts}
    assert "queue_length" not in passed
