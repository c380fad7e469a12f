"""What the step becomes after an action, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.reporting.words.names import UNKNOWN_SPEED, ms, range_ms
from stepscope.trials.knobs import can_try

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.advice.finding import Action, Finding
    from stepscope.derive.predictions.step_times import Parameter, StepTime

#: Text for a change of steps that no model predicts, and whether it can be tried.
_UNKNOWN_GAIN: Final = "how much is not known"
_TRIED: Final = ": `stepscope try` measures it"
#: The assumption of a model, before the step time: with a number, or without one.
_ASSUMED: Final = {
    "workers": ("with 1 worker", "with {} workers"),
    "every": ("each time", "once in {} times"),
}


def prediction_text(finding: Finding, action: Action) -> str | None:
    """Write the step after an action, and that a larger number changes little.

    None if the action changes no step, if it is not about the time of steps, or if the
    interval contains the present step: then the gain of the finding says more.
    """
    own = [one for one in finding.predictions if one.action == action.id]
    present_ms = finding.mean_step_ms
    if not own:
        is_inquiry = action.models == ("inquiry",)
        has_no_gain = finding.ms_per_step is None or is_inquiry
        return None if has_no_gain else _unknown_gain(finding, action)
    first = own[0]
    if present_ms is not None and (first.step_ms.high or 0.0) >= present_ms:
        return None
    texts = [f"{_assumption(first.parameter)}{step_text(first.step_ms)}"]
    if first.step_ms.mid is None:
        texts.append(_unknown_gain(finding, action))
    advised = 0 if first.parameter is None else first.parameter.value
    larger = next(
        (one for one in own[1:] if one.parameter and one.parameter.value > advised),
        None,
    )
    if larger is not None and larger.model == first.model:
        is_same = first.step_ms.is_as_short_as(larger.step_ms)
        more = "the same" if is_same else step_text(larger.step_ms)
        texts.append(f"{_assumption(larger.parameter)}{more}")
    return "; ".join(texts)


def predicted_gain(finding: Finding, actions: Sequence[Action]) -> str | None:
    """Write the step after the first action, of a finding that is no part of another.

    None if only a bound of the step is known: then the gain says more.
    """
    present_ms = finding.mean_step_ms
    if not actions or finding.explained_by or present_ms is None:
        return None
    known = any(
        one.action == actions[0].id and one.step_ms.mid is not None
        for one in finding.predictions
    )
    text = prediction_text(finding, actions[0]) if known else None
    saving = finding.saving_ms
    if text and saving is not None and saving.open_above:
        return f"{text}, or less: {UNKNOWN_SPEED} (now {ms(present_ms)})"
    return f"{text} (now {ms(present_ms)})" if text else None


def prediction_sentences(finding: Finding) -> Iterator[str]:
    """Write all predictions of each action, and the model that computed them."""
    for action in finding.actions:
        own = [one for one in finding.predictions if one.action == action.id]
        if own:
            steps = "; ".join(
                f"{_assumption(one.parameter)}{step_text(one.step_ms)}" for one in own
            )
            yield f"{action.text.removesuffix('.')}: {steps} (model `{own[0].model}`)."


def step_text(step: StepTime) -> str:
    """Write a step time with its 90 % interval, or its lower bound."""
    if step.mid is None or step.high is None:
        return f"a step of at least {ms(step.low)}"
    mid, ends = ms(step.mid), range_ms(step.low, step.high)
    return f"a step of {mid}" if mid == ends else f"a step of {mid}, {ends}"


def _unknown_gain(finding: Finding, action: Action) -> str:
    return _UNKNOWN_GAIN + (_TRIED if can_try(finding.id, action.id) else "")


def _assumption(parameter: Parameter | None) -> str:
    if parameter is None:
        return ""
    single, several = _ASSUMED[parameter.name]
    text = single if parameter.value == 1 else several.format(parameter.value)
    return f"{text}: "
