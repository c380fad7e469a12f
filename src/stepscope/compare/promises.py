"""The savings predicted by findings of a run, and whether a later run achieved them.

Definition: docs/compare.md#promises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.advice.finding import Finding
    from stepscope.compare.changes import StepTimeChange
    from stepscope.thresholds import Thresholds

#: Outcome of a predicted saving. `inside`: as predicted (`below`: less, `above`: more).
#: `untried`: the cause of the finding is still present.
#: `joint`: several causes were removed at once, so only their total saving is known.
Verdict = Literal["inside", "below", "above", "untried", "joint", "not_comparable"]

_TOO_WIDE: Final = (
    "The step times vary too much: the measured gain may be zero, or as large as "
    "predicted."
)
_Ms = Annotated[float, msgspec.Meta(ge=0)]


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """The saving that a finding predicted.

    Attributes:
        finding: Id of the finding.
        title: The problem in a few words.
        low_ms: Minimum saving per step, in ms; negative if the step may become longer.
        high_ms: Maximum saving per step, in ms.
        basis: "replay" or "bound", as in the finding's saving; "model" if one predicts
            the step after the change.
        effect_ms: Time per step that the finding is about; null if unknown.
        open_above: Whether the saving can be larger than `high_ms`.
        mid_ms: Most likely saving per step; null if no model predicts it.
    """

    finding: str
    title: str
    low_ms: float
    high_ms: _Ms
    basis: Literal["replay", "bound", "model"]
    effect_ms: _Ms | None
    open_above: bool = False
    mid_ms: _Ms | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one predicted saving, or of several together.

    Attributes:
        findings: Ids of the findings that predicted the saving.
        titles: The findings' problems in a few words.
        low_ms: Predicted minimum saving.
        high_ms: Predicted maximum saving; of several findings, of all together.
        verdict: The outcome.
        measured_ms: Decrease of the step time; null if it has other causes as well.
        measured_low_ms: Lower end of the decrease's 95 % interval; null without it.
        measured_high_ms: Upper end of the decrease's 95 % interval; null without it.
        reason: Why the saving could not be judged, as a sentence; null if it could.
    """

    findings: tuple[str, ...]
    titles: tuple[str, ...]
    low_ms: float
    high_ms: float
    verdict: Verdict
    measured_ms: float | None = None
    measured_low_ms: float | None = None
    measured_high_ms: float | None = None
    reason: str | None = None


def promises_of_findings(
    findings: Sequence[Finding], batches: float = 1.0
) -> tuple[Promise, ...]:
    """Return the predicted savings of all failing findings, largest first.

    If a step has several batches, the savings are per batch.
    """
    promises = [
        Promise(
            finding=finding.id,
            title=finding.title,
            low_ms=finding.saving_ms.low / batches,
            high_ms=finding.saving_ms.high / batches,
            basis=finding.saving_ms.basis,
            effect_ms=None
            if finding.ms_per_step is None
            else finding.ms_per_step / batches,
            open_above=finding.saving_ms.open_above,
        )
        for finding in findings
        # If a narrower finding explains this one, only the narrower one predicts.
        if finding.status == "fail"
        and finding.saving_ms is not None
        and not finding.explained_by
    ]
    return tuple(
        sorted(promises, key=lambda promise: (-promise.high_ms, promise.finding))
    )


def judge_promises(
    promises: Sequence[Promise],
    findings: Sequence[Finding],
    time: StepTimeChange | Unavailable,
    *,
    thresholds: Thresholds,
    batches: float = 1.0,
) -> tuple[Outcome, ...]:
    """Judge whether the new run achieved the predicted savings of an earlier run.

    If several causes were removed, only their total saving is known: it is compared
    with their joint prediction, and comes first. `findings` and `batches` (per step)
    are those of the new run; `time` is unavailable if the runs are not comparable.
    """
    if isinstance(time, Unavailable):
        return tuple(
            _unjudged_outcome(promise, "not_comparable", time.reason)
            for promise in promises
        )
    by_id = {finding.id: finding for finding in findings}
    states = [
        _cause_is_gone(promise, by_id.get(promise.finding), thresholds, batches)
        for promise in promises
    ]
    tried = [
        promise for promise, gone in zip(promises, states, strict=True) if gone is True
    ]
    outcomes = [judge_gain(tried, time)] if len(tried) > 1 else []
    for promise, gone in zip(promises, states, strict=True):
        if gone is None:
            outcomes.append(
                _unjudged_outcome(promise, "not_comparable", _CAUSE_UNKNOWN)
            )
        elif gone and len(tried) == 1:
            outcomes.append(judge_gain(tried, time))
        else:
            verdict: Verdict = "joint" if gone else "untried"
            outcomes.append(_unjudged_outcome(promise, verdict, None))
    return tuple(outcomes)


_CAUSE_UNKNOWN: Final = "The new run does not show whether the cause is gone."


def _cause_is_gone(
    promise: Promise, now: Finding | None, thresholds: Thresholds, batches: float
) -> bool | None:
    """Return whether the cause was removed: all or most of its lost time is gone."""
    if now is None or now.status == "cannot_tell":
        return None
    effect = None if now.ms_per_step is None else now.ms_per_step / batches
    if promise.effect_ms and effect is not None:
        return effect <= promise.effect_ms * (1 - thresholds.tried.value)
    return now.status != "fail"


def judge_gain(promises: Sequence[Promise], time: StepTimeChange) -> Outcome:
    """Compare the total saving of some changes with their joint prediction.

    The joint prediction is at least the largest minimum, and at most the sum of the
    maxima, limited by the step time. It has no upper end if a prediction has none.
    """
    low = max(promise.low_ms for promise in promises)
    high = max(
        min(sum(promise.high_ms for promise in promises), time.base_ms),
        *(promise.high_ms for promise in promises),
    )
    gained, gain_low, gain_high = -time.change_ms, -time.high_ms, -time.low_ms
    verdict: Verdict = "inside"
    reason = None
    # An interval that contains both zero and the whole prediction shows nothing.
    if gain_low <= 0 and gain_high >= high:
        verdict = "not_comparable"
        reason = _TOO_WIDE
    elif gain_low > high and not any(promise.open_above for promise in promises):
        verdict = "above"
    elif gain_high < low:
        verdict = "below"
    return Outcome(
        findings=tuple(promise.finding for promise in promises),
        titles=tuple(promise.title for promise in promises),
        low_ms=low,
        high_ms=high,
        verdict=verdict,
        measured_ms=gained,
        measured_low_ms=gain_low,
        measured_high_ms=gain_high,
        reason=reason,
    )


def _unjudged_outcome(promise: Promise, verdict: Verdict, why: str | None) -> Outcome:
    return Outcome(
        findings=(promise.finding,),
        titles=(promise.title,),
        low_ms=promise.low_ms,
        high_ms=promise.high_ms,
        verdict=verdict,
        reason=why,
    )
