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


def test_no_wait_at_all_is_nothing_and_no_zero() -> None:
    assert headline(passing(value=0.0, share_percent=0.0)) == (
        "Data arrives in time: waiting takes nothing of a typical step (a matter from "
        "5 % on)."
    )


def test_a_remark_of_a_rule_is_said_with_the_fact_it_names() -> None:
    facts = (Fact(name="mean_fetch", value=6000.0, unit="us"),)
    told = headline(passing(note="hidden", value=1.0, share_percent=1.0, facts=facts))
    assert "But fetches find no batch ready (6.00 ms each): they stay hidden" in told


def test_a_sentence_without_its_number_is_left_out() -> None:
    unmeasured = Fact(name="mean_fetch", value=None, unit="us")
    told = headline(passing(note="hidden", value=1.0, facts=(unmeasured,)))
    assert told.endswith("(a matter from 5 % on).")


@pytest.mark.parametrize(
    ("ms_per_step", "size"),
    [(3.0, "23.1 % of the step time, 3.00 ms a step"), (None, "23.1 % of the time")],
)
def test_the_size_of_an_effect_is_told_as_far_as_it_is_known(
    ms_per_step: float | None, size: str
) -> None:
    finding = Finding(
        id="launch.delay",
        title="the device waits",
        stage=3,
        status="fail",
        value=23.1,
        share_percent=23.1,
        ms_per_step=ms_per_step,
    )
    assert headline(finding) == f"The device waits: {size}."


def test_without_work_for_16_bit_no_share_is_told() -> None:
    finding = Finding(id="amp.share", title="", stage=6, status="pass", value=None)
    assert headline(finding) == "No kernel does work that could run in 16 bit."
