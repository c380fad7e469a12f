"""What a launch usually takes, on hand-made launches whose latency is plain."""

from __future__ import annotations

import pytest
from tests.support.traces import blueprint

from stepscope.derive.device.correlation import launch_latency

GPU = "gpu:0/7"
US = 1_000_000


def launches(lags: list[float]) -> list[blueprint.Line]:
    """One launch call of 5 µs each millisecond, and its work so long after."""
    lines: list[blueprint.Line] = []
    for number, lag in enumerate(lags):
        at, stats = 1_000 * (number + 1), {"correlation_id": number}
        lines.append(("main", "cuLaunchKernel", at, 5, stats))
        lines.append((GPU, "k", at + lag, 20, stats))
    return lines


def measured(lags: list[float]) -> tuple[int, int]:
    profile = blueprint.profile(blueprint.trace(launches(lags)))
    found = profile.derived("vm", launch_latency)
    return found.latency_ps, found.latency_samples


def test_the_latency_counts_from_the_begin_of_the_call() -> None:
    # Work that begins while its call still runs has waited all the same.
    assert measured([4] * 40) == (4 * US, 40)


def test_few_launches_have_no_typical_latency() -> None:
    assert measured([4] * 29) == (20 * US, 0)


@pytest.mark.parametrize(
    ("early", "told"),
    [
        pytest.param(4, (4 * US, 36), id="a tenth is damage"),
        pytest.param(5, (20 * US, 0), id="more is the clocks"),
    ],
)
def test_work_before_its_call_tells_of_clocks(
    early: int, told: tuple[int, int]
) -> None:
    assert measured([4] * (40 - early) + [-3] * early) == told
