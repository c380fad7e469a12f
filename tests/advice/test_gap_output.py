"""`gap.output` over literal accounts and on whole traces."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces.training import beside, findings, on_host, paused

from stepscope.advice.rules.idle_gaps.gaps import judge_output as evaluate
from stepscope.derive.facts.evidence import Saving


def test_checkpoints_in_every_third_step_are_found(
    signals_of: Any, shares: Any
) -> None:
    one = shares(between={"writing": [0.0, 0.0, 4.5] * 4})
    finding = evaluate(signals_of(one))
    assert (finding.status, finding.severity) == ("fail", "warn")
    assert finding.share_percent == pytest.approx(15.0)
    assert finding.pattern.kind == "bursts"
    assert finding.saving_ms == Saving(high=1.5)
    assert {one.cause for one in finding.actions} == {"writing"}


def test_copies_of_results_have_other_remedies(signals_of: Any, shares: Any) -> None:
    finding = evaluate(signals_of(shares(copy_out=3.0)))
    assert (finding.status, finding.severity) == ("fail", "critical")
    assert finding.owners == ("copy_out",)
    assert {one.cause for one in finding.actions} == {"copies"}


@pytest.mark.parametrize(("ms", "status"), [(0.51, "fail"), (0.49, "pass")])
def test_a_twentieth_of_the_time_is_the_limit(
    signals_of: Any, shares: Any, ms: float, status: str
) -> None:
    assert evaluate(signals_of(shares(writing=ms))).status == status


def test_one_checkpoint_is_a_note(signals_of: Any, shares: Any) -> None:
    one = shares(between={"writing": [0.0] * 11 + [9.0]})
    finding = evaluate(signals_of(one))
    assert (finding.status, finding.severity, finding.note) == ("fail", "info", "once")


def test_none_is_said_to_be_none(signals_of: Any, shares: Any) -> None:
    finding = evaluate(signals_of(shares()))
    assert (finding.status, finding.note) == ("pass", "none")


def test_what_was_not_recorded_cannot_tell(signals_of: Any, shares: Any) -> None:
    for signals in (
        signals_of(),
        signals_of(shares(writing=5.0, missing=["writing"])),
        signals_of(shares(writing=5.0, missing=["output"])),
        signals_of(shares(writing=5.0, missing=["copy_out"])),
        signals_of(shares(between={"unnamed": 0.6})),
    ):
        assert evaluate(signals).status == "cannot_tell"


def test_a_checkpoint_under_an_idle_device_explains_the_gap() -> None:
    found = findings(paused("checkpoint", 4_000.0, every=3))
    finding = found["gap.output"]
    assert (finding.status, finding.severity) == ("fail", "warn")
    assert finding.parts[0].name == "checkpoint"
    assert found["gaps.between"].explained_by == ("gap.output",)


@pytest.mark.parametrize("track", ["writer", "main"])
def test_a_checkpoint_under_a_busy_device_is_none(track: str) -> None:
    lines = beside("checkpoint", 6_000.0, track=track)
    assert findings(lines)["gap.output"].status == "pass"


def test_without_a_device_the_steps_wait_for_checkpoints_too() -> None:
    found = findings(on_host(pause="checkpoint", pause_us=3_000.0, every=2))
    one = found["gap.output"]
    assert (one.status, one.explained_by) == ("fail", ())
    # After 9 of the 19 steps before the last, which ends with its marker.
    time_us = 9 * 13_005 + 10 * 10_000 + 9_990
    assert one.share_percent == pytest.approx(100 * 9 * 3_000 / time_us, abs=0.001)


@pytest.mark.parametrize("table", ["device_activity", "events"])
def test_without_a_table_it_cannot_tell(table: str) -> None:
    found = findings(paused("checkpoint", 4_000.0, every=3), without=table)
    assert found["gap.output"].status == "cannot_tell"
