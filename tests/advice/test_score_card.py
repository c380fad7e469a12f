"""`score.card`: the guide's numbers of a known step, and nothing where nothing is."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces.training import SGEMM, findings, on_host, together

from stepscope.advice.rules.recording_quality.score_card import evaluate
from stepscope.derive.verdicts.recorded_devices import DeviceSignals
from stepscope.thresholds import THRESHOLDS

RULE = "score.card"


def facts_of(found: Any) -> dict[str, float | None]:
    return {fact.name: fact.value for fact in found.facts}


def test_the_numbers_are_those_of_the_step() -> None:
    found = findings(together())[RULE]
    assert (found.status, found.severity, found.threshold) == ("pass", "info", None)
    facts = facts_of(found)
    # 9,700 of 10,000.5 µs; 20 of 150 kernels are products, the others say "half".
    assert facts["computing"] == pytest.approx(97.0, abs=0.1)
    assert facts["copies"] == 0.0
    assert facts["narrow"] == pytest.approx(100.0)
    assert facts["narrow_eligible"] == pytest.approx(100.0)


def test_a_step_far_from_the_ideal_does_not_fail_either() -> None:
    kernels = [(SGEMM, 300.0, "m/MatMul:MatMul")]
    found = findings(together(fetch_us=9_000.0, kernels=kernels))[RULE]
    facts = facts_of(found)
    assert found.status == "pass"
    assert facts["computing"] == pytest.approx(100 * 300 / 9_486, abs=0.3)
    assert facts["narrow_eligible"] == 0.0


def test_the_numbers_are_sums_of_the_account(
    signals_of: Any, shares: Any, precision_of: Any
) -> None:
    one = shares(copy_in=1.0, copy_within=0.5, between={"between": 2.0, "sync": 1.0})
    finding = evaluate(signals_of(one, precision=precision_of()), THRESHOLDS)
    facts = facts_of(finding)
    assert facts["copies"] == pytest.approx(15.0)
    assert facts["between"] == pytest.approx(30.0)
    assert facts["computing"] == pytest.approx(55.0)
    assert facts["narrow"] == pytest.approx(100 * 6_000 / 9_700)
    assert facts["narrow_kernels"] == pytest.approx(100 * 20 / 150)


def test_what_was_not_recorded_is_null_with_its_reason(
    signals_of: Any, shares: Any
) -> None:
    finding = evaluate(signals_of(shares()), THRESHOLDS)
    unknown = {fact.name: fact.note for fact in finding.facts if fact.value is None}
    assert set(unknown) == {
        *("narrow", "narrow_eligible", "narrow_kernels"),
        *("ops", "ops_time"),
    }
    assert unknown["narrow"] == "Not here."


@pytest.mark.parametrize("table", ["device_activity", "events"])
def test_a_table_that_is_needed_and_absent_gives_no_numbers_of_time(
    table: str,
) -> None:
    found = findings(together(), without=table)[RULE]
    assert found.status == "cannot_tell" or table == "events"


def test_a_run_on_the_host_alone_is_not_applicable(
    signals_of: Any, shares: Any
) -> None:
    assert findings(on_host(), devices=None)[RULE].status == "not_applicable"
    device = DeviceSignals(recorded="host_only")
    signals = signals_of(shares(device=None), device=device)
    assert evaluate(signals, THRESHOLDS).status == "not_applicable"
