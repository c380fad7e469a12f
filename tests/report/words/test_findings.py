"""What of a finding is told, and to whom."""

from __future__ import annotations

import pytest

from stepscope.advice.finding import Action, Fact, Finding
from stepscope.report.words.findings import fitting_actions, headline
from stepscope.thresholds import THRESHOLDS

ACTIONS = tuple(
    Action(cause="fetch", framework=framework, text=f"for {framework}")
    for framework in ("any", "TensorFlow", "PyTorch", "JAX")
)
FAILING = Finding(
    id="input.bound",
    title="the step waits",
    stage=1,
    status="fail",
    actions=ACTIONS,
)


@pytest.mark.parametrize(
    ("frameworks", "expected"),
    [
        ((), ["any", "TensorFlow", "PyTorch", "JAX"]),
        (("PyTorch",), ["any", "PyTorch"]),
        (("JAX", "TensorFlow"), ["any", "TensorFlow", "JAX"]),
        (("MXNet",), ["any"]),
    ],
)
def test_actions_are_those_of_the_frameworks_seen(
    frameworks: tuple[str, ...], expected: list[str]
) -> None:
    told = fitting_actions(FAILING, frameworks)
    assert [action.framework for action in told] == expected


@pytest.mark.parametrize("status", ["pass", "cannot_tell", "not_applicable"])
def test_only_a_failing_finding_asks_for_a_change(status: str) -> None:
    finding = Finding(
        id="x.y",
        title="",
        stage=1,
        status=status,  # type: ignore[arg-type]
        actions=ACTIONS,
    )
    assert fitting_actions(finding, ()) == []


def passing(**fields: object) -> Finding:
    return Finding(
        id="input.bound",
        title="the step waits for its data",
        stage=1,
        status="pass",
        threshold=THRESHOLDS.input_warn,
        steps_hit=5,
        steps_clean=10,
        **fields,  # type: ignore[arg-type]
    )


def test_a_pass_of_short_steps_is_held_against_the_time_that_decided() -> None:
    facts = (
        Fact(name="typical_effect", value=70.0, unit="us"),
        Fact(name="smallest_effect", value=100.0, unit="us"),
    )
    told = headline(passing(note="short", value=26.4, share_percent=26.4, facts=facts))
    assert told == (
        "Waiting takes only 70.0 µs of a typical step (a matter from 100 µs on). It is "
        "26.4 % of it because the steps are so short."
    )


def test_a_pass_that_half_the_steps_contradict_says_how_many() -> None:
    told = headline(passing(note="seldom", value=40.0, share_percent=40.0))
    assert "only 5 of 10 steps" in told
    assert "a matter from" not in told


def test_long_waits_of_a_few_steps_stand_beside_the_typical_one() -> None:
    told = headline(passing(value=1.0, share_percent=26.4))
    assert told == (
        "Data arrives in time: waiting takes 1.0 % of a typical step (a matter from "
        "5 % on). Over all steps it is 26.4 %: a few of them wait long."
    )
    assert "Over all" not in headline(passing(value=1.0, share_percent=1.2))
