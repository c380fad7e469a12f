"""`amp.scaling` over literal accounts and on whole traces."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces.training import (
    findings,
    on_host,
    read_back,
    scaled,
    together,
)

from stepscope.advice.rules.precision.narrow_kernels import judge_scaling as evaluate
from stepscope.derive.facts.devices.kernel_precision import finite_checks


@pytest.mark.parametrize(
    ("ms", "status", "severity"),
    [(0.11, "fail", "warn"), (0.09, "pass", "info"), (0.31, "fail", "critical")],
)
def test_a_hundredth_of_the_time_is_the_limit(
    signals_of: Any, shares: Any, ms: float, status: str, severity: str
) -> None:
    finding = evaluate(signals_of(shares(scaling=ms), {finite_checks: 12}))
    assert (finding.status, finding.severity) == (status, severity)


def test_a_program_that_checks_nothing_scales_nothing(
    signals_of: Any, shares: Any
) -> None:
    finding = evaluate(signals_of(shares(), {finite_checks: None}))
    assert finding.status == "not_applicable"


def test_the_hole_before_the_optimizer_is_found() -> None:
    found = findings(scaled(hole_us=350.0))
    finding = found["amp.scaling"]
    # The copy's 2 µs are no idle time.
    assert (finding.status, finding.severity) == ("fail", "critical")
    assert finding.share_percent == pytest.approx(100 * 348 / 10_360.5, abs=0.05)
    assert finding.ms_per_step == pytest.approx(0.348, abs=0.001)
    # It is no waiting for results that reading fewer of them would end.
    assert found["gap.readback"].status == "pass"


def test_an_answer_that_stays_on_the_device_leaves_none() -> None:
    finding = findings(scaled(hole_us=350.0, fused=True))["amp.scaling"]
    assert (finding.status, finding.value) == ("pass", 0.0)


def test_a_check_now_and_then_costs_little() -> None:
    finding = findings(scaled(hole_us=350.0, every=7))["amp.scaling"]
    # 2 of 14 steps: 0.5 %.
    assert finding.status == "pass"
    assert finding.share_percent == pytest.approx(100 * 348 / 7 / 10_061, abs=0.05)


@pytest.mark.parametrize(
    "lines",
    [together(), read_back(idle_us=400.0), on_host()],
    ids=["nothing is checked", "a loss is read", "no device"],
)
def test_without_a_check_it_does_not_apply(lines: list[Any]) -> None:
    assert findings(lines)["amp.scaling"].status == "not_applicable"


@pytest.mark.parametrize("table", ["device_activity", "launches", "events"])
@pytest.mark.sweep(every=3)
def test_without_a_table_it_cannot_tell(table: str) -> None:
    found = findings(scaled(hole_us=350.0), without=table)["amp.scaling"]
    assert found.status == "cannot_tell"
    assert found.unavailable is not None
    assert found.unavailable.remedy
