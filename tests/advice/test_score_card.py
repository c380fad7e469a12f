"""`score.card`: the guide's numbers of a known step, and nothing where nothing is."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces.training import SGEMM, findings, on_host, together

from stepscope.advice.rules.recording_quality.score_card import evaluate
from stepscope.derive.facts.devices.op_sides import OpsOnSides, ops_on_sides
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.verdicts.recorded_devices import DeviceSignals

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
    finding = evaluate(signals_of(one, precision=precision_of()))
    facts = facts_of(finding)
    assert facts["copies"] == pytest.approx(15.0)
    assert facts["between"] == pytest.approx(30.0)
    assert facts["computing"] == pytest.approx(55.0)
    assert facts["narrow"] == pytest.approx(100 * 6_000 / 9_700)
    assert facts["narrow_kernels"] == pytest.approx(100 * 20 / 150)


def test_every_number_of_a_step_and_its_reasons(
    signals_of: Any, shares: Any, precision_of: Any
) -> None:
    """Of 10 ms 1 computes in 32 bit, 1.5 are copies and 2 of the waits are between."""
    owners = {"copy_in": 0.25, "copy_out": 0.5, "copy_within": 0.25}
    inside = {**owners, "transfer_wait": 0.5, "compute_32": 1.0, "sync": 1.0}
    one = shares(
        rest="input",
        between={"sync": 1.5, "between": 0.5},
        fields={"step_confidence": 0.7},
        **inside,
    )
    precise = precision_of(
        compute_ps=100, narrow_ps=30, eligible_ps=40, eligible_narrow_ps=10, kernels=0
    )
    ops = OpsOnSides(70.0, None)
    given = {ops_on_sides: ops, record_grade: 0.9}
    finding = evaluate(signals_of(one, given, precision=precise))
    assert (finding.confidence, finding.devices) == (0.7, ("vm:0",))
    assert facts_of(finding) == {
        "computing": 10.0,
        "copies": 15.0,
        "between": 20.0,
        "narrow": 30.0,
        "narrow_eligible": 25.0,
        "narrow_kernels": None,
        "ops": 70.0,
        "ops_time": None,
    }
    # Steps of which nobody is sure, and a recording of which nobody is.
    without = shares(fields={"step_confidence": 0.0})
    assert evaluate(signals_of(without, given)).confidence == 0.5
    unsure = {**given, record_grade: 0.6}
    finding = evaluate(signals_of(one, unsure))
    assert finding.confidence == 0.6
    finding = evaluate(signals_of(one, {record_grade: 0.6}))
    notes = {fact.name: fact.note for fact in finding.facts}
    assert notes["ops"] == notes["narrow"] == "Not here."
    assert notes["ops_time"] is None


def test_what_was_not_recorded_is_null_with_its_reason(
    signals_of: Any, shares: Any
) -> None:
    finding = evaluate(signals_of(shares()))
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
    assert evaluate(signals).status == "not_applicable"
