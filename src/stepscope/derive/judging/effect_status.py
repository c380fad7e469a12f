"""Whether an effect over steps is a finding, and how grave: one order for everybody.

Rules and the verdicts of tools both come from here.

Definition: docs/definitions/judging.md#status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from stepscope.derive.judging.bootstrap import is_hit, ratio_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.derive.judging.step_series import StepSeries
    from stepscope.thresholds import Threshold, Thresholds

#: Rounding may make a share this much higher than it is.
_NEARLY: Final = 1 - 1e-9


class EffectStatus(NamedTuple):
    """What the steps say about an effect.

    Attributes:
        status: Whether it is a finding.
        severity: How much a fail matters.
        note: Stable word for what qualifies the status; None where nothing does.
    """

    status: Literal["fail", "pass", "cannot_tell"]
    severity: Literal["info", "warn", "critical"] = "info"
    note: str | None = None


def status_of(
    series: StepSeries, *, warn: Threshold, critical: Threshold, thresholds: Thresholds
) -> EffectStatus:
    """Compare the effect of a series with at least one step with two thresholds."""
    if _flips(series, warn, thresholds):
        return EffectStatus("cannot_tell")
    return _status(series, warn, critical, thresholds)


def pattern_kind(
    effect_ps: Sequence[int], *, every_percent: float
) -> Literal["every", "bursts", "once"]:
    """Return how an effect is spread over the steps.

    Args:
        effect_ps: The effect of each step.
        every_percent: Share of the steps from which "every" is said.
    """
    count = len(effect_ps)
    mean = sum(effect_ps) / max(count, 1)
    hit = sum(is_hit(one, mean) for one in effect_ps)
    if 100 * hit >= every_percent * count:
        return "every"
    return "once" if hit == 1 else "bursts"


def percent_of(part: float, whole: float) -> float:
    """Return a part in percent of a whole; 0 of nothing."""
    return 100 * part / whole if whole else 0.0


def _flips(series: StepSeries, warn: Threshold, thresholds: Thresholds) -> bool:
    """Return whether the status would be another one within its doubt."""
    effect, bar = sum(series.effect_ps), sum(series.window_ps) * warn.value / 100
    if effect >= bar:
        return effect - series.doubt_ps - series.excess_ps < bar
    highest = effect + series.doubt_ps + series.unknown_ps
    smallest = thresholds.smallest_effect.value * len(series.window_ps)
    return highest >= bar and highest >= smallest


def _status(
    series: StepSeries,
    warn: Threshold,
    critical: Threshold,
    thresholds: Thresholds,
) -> EffectStatus:
    effects, windows = series.effect_ps, series.window_ps
    share = percent_of(sum(effects), sum(windows))
    few = len(effects) < thresholds.few_steps.value
    once = pattern_kind(effects, every_percent=thresholds.steps_share.value) == "once"
    shares = 100 * np.array(effects, float) / np.maximum(windows, 1)
    if share < warn.value:
        high = share
        # No draw of steps has a higher share than the step with the highest.
        if not few and shares.max() >= _NEARLY * warn.value:
            high = ratio_interval(effects, windows)[1]
        return EffectStatus("pass", note="borderline" if high >= warn.value else None)
    # The share is large and yet no finding: the note gives the reason.
    if sum(effects) < thresholds.smallest_effect.value * len(effects):
        return EffectStatus("pass", note="short")
    if few:
        few_steps = EffectStatus("fail", "warn", "few_steps")
        return EffectStatus("fail", "info", "once") if once else few_steps
    # What a single step carries is no habit, unless the others are a finding.
    left = _without_worst(effects, windows)
    if left < warn.value / (1 if once else 2):
        return EffectStatus("fail", "info", "once")
    # Nor has one a lower share than the step with the lowest.
    some = _NEARLY * shares.min() < warn.value / 2
    if some and ratio_interval(effects, windows)[0] < warn.value / 2:
        return EffectStatus("fail", "info", "noisy")
    enough = (
        len(effects) >= thresholds.many_steps.value
        or share >= thresholds.dominant.value
    )
    grave = share >= critical.value and enough
    return EffectStatus("fail", "critical" if grave else "warn")


def _without_worst(effects: Sequence[int], windows: Sequence[int]) -> float:
    """Return the share that remains where the worst single step is left out."""
    most = max(effects)
    window = windows[effects.index(most)]
    return percent_of(sum(effects) - most, sum(windows) - window)
