"""Whether a promised gain came, from the promise and the change of the step."""

from __future__ import annotations

from typing import Any

import pytest

from stepscope.advice.finding import Finding
from stepscope.compare.changes import StepTimeChange
from stepscope.compare.promises import (
    Outcome,
    Promise,
    judge_promises,
    promises_of_findings,
)
from stepscope.derive.facts.evidence import Saving
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

WHY = Unavailable(code="OTHER_WORK", reason="Other kernels.", remedy="Compare others.")


def finding(name: str = "input.bound", status: str = "fail", **fields: Any) -> Finding:
    known: dict[str, Any] = {"ms_per_step": 4.0, "saving_ms": Saving(low=2.0, high=4.0)}
    return Finding(id=name, title="waits", stage=1, status=status, **(known | fields))  # type: ignore[arg-type]


def gone(name: str = "input.bound") -> Finding:
    return finding(name, "pass", ms_per_step=0.1, saving_ms=None)


def change(gain: float, spread: float = 0.2) -> StepTimeChange:
    return StepTimeChange(
        base_ms=20.0,
        new_ms=20.0 - gain,
        change_ms=-gain,
        low_ms=-gain - spread,
        high_ms=-gain + spread,
        change_percent=-gain / 0.2,
        verdict="faster",
    )


def answers(
    promises: tuple[Promise, ...],
    now: list[Finding],
    time: StepTimeChange | Unavailable,
    batches: float = 1.0,
) -> tuple[Outcome, ...]:
    return judge_promises(promises, now, time, thresholds=THRESHOLDS, batches=batches)


PROMISED = promises_of_findings([finding()])


def test_nothing_is_above_a_promise_that_is_open_there() -> None:
    saving = Saving(low=2.0, high=4.0, open_above=True)
    (kept,) = answers(
        promises_of_findings([finding(saving_ms=saving)]), [gone()], change(6.0)
    )
    assert kept.verdict == "inside"


@pytest.mark.parametrize(
    ("gain", "spread", "verdict"),
    [
        (3.0, 0.2, "inside"),
        (2.0, 0.1, "inside"),
        (1.9, 0.2, "inside"),  # the promise lies within the interval
        (1.0, 0.2, "below"),
        (-2.0, 0.5, "below"),
        (6.0, 0.5, "above"),
        (4.3, 0.5, "inside"),
        (3.0, 9.0, "not_comparable"),  # nothing, or all of it
    ],
)
def test_a_gain_is_held_to_its_promise(
    gain: float, spread: float, verdict: str
) -> None:
    (found,) = answers(PROMISED, [gone()], change(gain, spread))
    assert found.verdict == verdict
    assert found.measured_ms == pytest.approx(gain)
    assert (found.reason is not None) == (verdict == "not_comparable")


@pytest.mark.parametrize("effect", [4.0, 2.5])
def test_a_cause_that_is_still_there_was_not_tried(effect: float) -> None:
    (found,) = answers(PROMISED, [finding(ms_per_step=effect)], change(3.0))
    assert (found.verdict, found.measured_ms) == ("untried", None)


def test_half_of_the_effect_gone_is_a_try() -> None:
    (found,) = answers(PROMISED, [finding(ms_per_step=2.0)], change(2.0))
    assert found.verdict == "inside"


def test_an_effect_without_time_is_tried_where_the_rule_passes() -> None:
    promised = promises_of_findings([finding(ms_per_step=None)])
    (failing,) = answers(promised, [finding(ms_per_step=None)], change(3.0))
    assert failing.verdict == "untried"
    (passing,) = answers(promised, [gone()], change(3.0))
    assert passing.verdict == "inside"


@pytest.mark.parametrize("now", [[], [finding(status="cannot_tell", ms_per_step=None)]])
def test_a_run_that_does_not_show_the_cause_gives_no_verdict(
    now: list[Finding],
) -> None:
    (found,) = answers(PROMISED, now, change(3.0))
    assert found.verdict == "not_comparable"
    assert found.measured_ms is None
    assert found.reason


def test_runs_that_are_not_comparable_give_no_number() -> None:
    (found,) = answers(PROMISED, [gone()], WHY)
    assert (found.verdict, found.measured_ms) == ("not_comparable", None)
    assert found.reason == WHY.reason


def test_several_changes_at_once_are_held_to_what_they_promised_together() -> None:
    promised = promises_of_findings([finding(), finding("launch.delay")])
    now = [gone(), gone("launch.delay")]
    joint, *single = answers(promised, now, change(6.0))
    assert joint.findings == ("input.bound", "launch.delay")
    # At least what the better one saves, at most both.
    assert (joint.low_ms, joint.high_ms, joint.verdict) == (2.0, 8.0, "inside")
    assert [(one.verdict, one.measured_ms) for one in single] == [("joint", None)] * 2


def test_one_change_of_two_is_held_to_its_own_promise() -> None:
    promised = promises_of_findings([finding(), finding("launch.delay")])
    found = answers(promised, [gone(), finding("launch.delay")], change(3.0))
    assert [one.verdict for one in found] == ["inside", "untried"]


def test_only_findings_that_fail_with_a_gain_promise_one() -> None:
    others = [
        finding("a", "pass"),
        finding("b", saving_ms=None),
        finding("c", explained_by=("input.bound",)),
    ]
    assert promises_of_findings(others) == ()


def test_promises_are_those_of_a_batch_where_a_step_has_several() -> None:
    (promise,) = promises_of_findings([finding()], batches=4)
    assert (promise.low_ms, promise.high_ms, promise.effect_ms) == (0.5, 1.0, 1.0)
    # Steps of eight batches now: 8 ms of a step is the same effect of a batch.
    (found,) = answers((promise,), [finding(ms_per_step=8.0)], change(0.7), batches=8)
    assert found.verdict == "untried"
