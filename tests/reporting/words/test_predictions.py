"""The step after an action, in words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stepscope.advice.finding import Action, Finding
from stepscope.derive.facts.evidence import Saving
from stepscope.derive.predictions.step_times import Parameter, Prediction, StepTime
from stepscope.reporting.words.predictions import (
    predicted_gain,
    prediction_sentences,
    prediction_text,
    step_text,
)

ACTION = Action(cause="any", framework="any", text="Do.", id="do", models=("queue",))
BOUND = StepTime(low=38.0)


def known(low: float, mid: float, high: float) -> StepTime:
    return StepTime(low=low, mid=mid, high=high)


def finding(*steps: tuple[str | None, int, StepTime], **fields: Any) -> Finding:
    predictions = tuple(
        Prediction(
            action="do",
            parameter=None if name is None else Parameter(name=name, value=value),
            step_ms=step_ms,
            model="queue",
        )
        for name, value, step_ms in steps
    )
    return Finding(
        id="input.bound",
        title="",
        stage=1,
        status="fail",
        # 3 % of a step of 100 ms.
        ms_per_step=3.0,
        share_percent=3.0,
        predictions=predictions,
        **fields,
    )


@pytest.mark.parametrize(
    ("step_ms", "text"),
    [
        (known(38.0, 41.0, 44.0), "a step of 41.0 ms, 38.0 to 44.0 ms"),
        (known(0.9, 1.0, 1.1), "a step of 1.00 ms, 900 µs to 1.10 ms"),
        (known(7.0, 7.0, 7.0), "a step of 7.00 ms"),
        (BOUND, "a step of at least 38.0 ms"),
    ],
)
def test_a_step_has_its_interval_or_a_bound(step_ms: StepTime, text: str) -> None:
    assert step_text(step_ms) == text


def test_the_advised_number_comes_with_the_next_larger_one() -> None:
    two, one, four = (
        ("workers", number, known(ms - 3, ms, ms + 3))
        for number, ms in ((2, 41.0), (1, 80.0), (4, 40.8))
    )
    assert prediction_text(finding(two, one, four), ACTION) == (
        "with 2 workers: a step of 41.0 ms, 38.0 to 44.0 ms; with 4 workers: the same"
    )
    assert prediction_text(finding(one, two), ACTION) == (
        "with 1 worker: a step of 80.0 ms, 77.0 to 83.0 ms; "
        "with 2 workers: a step of 41.0 ms, 38.0 to 44.0 ms"
    )
    assert prediction_text(finding(four, one), ACTION) == (
        "with 4 workers: a step of 40.8 ms, 37.8 to 43.8 ms"
    )


def test_rare_work_says_how_rare_it_is() -> None:
    rare = finding(("every", 10, known(5.0, 6.0, 7.0)))
    text = "once in 10 times: a step of 6.00 ms, 5.00 to 7.00 ms"
    assert prediction_text(rare, ACTION) == text


def test_no_model_promises_no_number() -> None:
    inquiry = Action(
        cause="any", framework="any", text="Look.", id="look", models=("inquiry",)
    )
    assert prediction_text(finding(), ACTION) == "how much is not known"
    assert prediction_text(finding(), inquiry) is None


def test_a_bound_names_the_command_that_measures_what_a_knob_can_try() -> None:
    cached, loaded = (
        msgspec.structs.replace(ACTION, id=name)
        for name in ("cache_epochs", "load_in_workers")
    )
    text = "a step of at least 38.0 ms; how much is not known"
    for action, told in (
        (cached, text),
        (loaded, f"{text}: `stepscope try` measures it"),
    ):
        bound = Prediction(action=action.id, step_ms=BOUND, model="bound")
        made = msgspec.structs.replace(finding(), predictions=(bound,))
        assert prediction_text(made, action) == told


def test_the_gain_is_the_predicted_step_unless_another_finding_has_it() -> None:
    one = ("workers", 1, known(38.0, 41.0, 44.0))
    text = "with 1 worker: a step of 41.0 ms, 38.0 to 44.0 ms (now 100 ms)"
    assert predicted_gain(finding(one), (ACTION,)) == text
    # The step may stay as it is.
    unsure = ("workers", 1, known(38.0, 41.0, 100.0))
    assert predicted_gain(finding(unsure), (ACTION,)) is None
    assert predicted_gain(finding(one, explained_by=("host.work",)), (ACTION,)) is None
    assert predicted_gain(finding((None, 0, BOUND)), (ACTION,)) is None
    assert predicted_gain(finding(), (ACTION,)) is None
    fast = Saving(low=56.0, high=62.0, basis="replay", open_above=True)
    assert predicted_gain(finding(one, saving_ms=fast), (ACTION,)) == text.replace(
        " (", ", or less: the computing speed after the change cannot be predicted ("
    )
    assert predicted_gain(finding(one), ()) is None


def test_all_predictions_of_an_action_are_told_with_their_model() -> None:
    two = ("workers", 2, known(38.0, 41.0, 44.0))
    one = ("workers", 1, known(75.0, 80.0, 85.0))
    (told,) = prediction_sentences(finding(two, one, actions=(ACTION,)))
    assert told == (
        "Do: with 2 workers: a step of 41.0 ms, 38.0 to 44.0 ms; "
        "with 1 worker: a step of 80.0 ms, 75.0 to 85.0 ms (model `queue`)."
    )
    assert list(prediction_sentences(finding(actions=(ACTION,)))) == []
