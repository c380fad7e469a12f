"""From an effect per step to a status and a severity: one order for every rule.

Each rule itself decides whether it applies and whether its inputs are there; this
module decides the rest.

Definition: docs/definitions/judging.md#status.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from stepscope.advice.finding import CauseShare, Fact, Severity, Status
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.advice.signals.step_series import StepSeries
    from stepscope.thresholds import Threshold, Thresholds

__all__ = ["Verdict", "busiest", "judge", "median_interval", "worst"]

#: Beyond this many steps the interval's normal limit replaces its exact sum.
_EXACT_STEPS = 1000
_TAIL = 0.025


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the steps say about one effect.

    Attributes:
        status: "fail", "pass" or "cannot_tell".
        severity: How much a fail matters.
        note: Stable word for what qualifies the verdict; None where nothing does.
        typical_percent: Median effect as a share of the median step: what the status
            rests on.
        typical_ps: Median effect.
        share_percent: Effects of all steps, untypical ones included, as a share of the
            time of these steps: what the overview shows.
        effect_ps: Mean effect of a step, untypical steps included.
        causes: The effect by cause, largest first, each as a share of the time of all
            steps.
        hit: Number of judged steps whose effect is at least half the threshold.
        clean: Number of steps that were judged.
        resolution_percent: Smallest effect that could have been seen, as a share of
            the step.
        confidence: 0 to 1, before the quality of the record is taken into account.
        unavailable: Why there is no verdict; None where there is one.
    """

    status: Status
    severity: Severity
    note: str | None
    typical_percent: float
    typical_ps: float
    share_percent: float
    effect_ps: float
    causes: tuple[CauseShare, ...]
    hit: int
    clean: int
    resolution_percent: float
    confidence: float
    unavailable: Unavailable | None = None

    def facts(self, thresholds: Thresholds) -> tuple[Fact, ...]:
        """Return the median effect in time, and the time below which it never fails."""
        least = thresholds.smallest_effect.value
        return (
            Fact(name="typical_effect", value=self.typical_ps / PS_PER_US, unit="us"),
            Fact(name="smallest_effect", value=least / PS_PER_US, unit="us"),
        )


def busiest(series: Sequence[StepSeries]) -> StepSeries:
    """Choose the device with most work per step (median): the one that is judged."""
    return max(series, key=lambda one: statistics.median(one.working_ps or (0,)))


def worst(series: Sequence[StepSeries]) -> StepSeries:
    """Choose the series with the largest share: hosts in lock step wait for it."""
    return max(
        series,
        key=lambda one: (
            statistics.median(one.effect_ps) / max(statistics.median(one.window_ps), 1)
        ),
    )


def median_interval(values: Sequence[int]) -> tuple[int, int]:
    """Return the 95 % bootstrap interval of a median, without drawing at random.

    A resample's median is at most the k-th smallest value when at least half of its n
    draws are, and that number of draws is binomial with p = k / n. Exact up to a
    thousand values, by the normal limit of the same ranks beyond.
    """
    ordered = sorted(values)
    count = len(ordered)
    if count > _EXACT_STEPS:
        half_width = statistics.NormalDist().inv_cdf(1 - _TAIL) * math.sqrt(count) / 2
        low = max(0, math.floor(count / 2 - half_width))
        high = min(count - 1, math.ceil(count / 2 + half_width))
        return ordered[low], ordered[high]
    low = _first_rank(count, _TAIL)
    high = _first_rank(count, 1 - _TAIL)
    return ordered[low], ordered[high]


def _first_rank(count: int, quantile: float) -> int:
    for rank in range(1, count):
        if _at_least_half(count, rank / count) >= quantile:
            return rank - 1
    return count - 1


def _at_least_half(count: int, chance: float) -> float:
    needed = count // 2 + 1
    log_yes, log_no = math.log(chance), math.log1p(-chance)
    return sum(
        math.exp(
            math.lgamma(count + 1)
            - math.lgamma(drawn + 1)
            - math.lgamma(count - drawn + 1)
            + drawn * log_yes
            + (count - drawn) * log_no
        )
        for drawn in range(needed, count + 1)
    )


def judge(
    series: StepSeries,
    *,
    warn: Threshold,
    critical: Threshold,
    thresholds: Thresholds,
) -> Verdict:
    """Compare the effect of a series with at least one step with two thresholds."""
    effects = series.effect_ps
    step = statistics.median(series.window_ps)
    effect = statistics.median(effects)
    bar = step * warn.value / 100
    low, high = median_interval(effects)
    unknown = statistics.median(series.unknown_ps)
    hit = sum(one >= bar / 2 for one in effects)
    status, severity, note = _status(
        effect,
        bar,
        hit_share=100 * hit / len(effects),
        interval=(low, high),
        doubt=(series.doubt_ps + series.excess_ps, unknown + series.doubt_ps),
        thresholds=thresholds,
    )
    typical = _percent(effect, step)
    if status == "fail" and note is None:
        severity, note = _severity(typical, len(effects), critical, thresholds)
    whole = _Whole.of(series)
    return Verdict(
        status=status,
        severity=severity,
        note=note,
        typical_percent=typical,
        typical_ps=effect,
        share_percent=_percent(sum(whole.parts_ps.values()), whole.window_ps),
        effect_ps=sum(whole.parts_ps.values()) / whole.steps,
        causes=whole.causes(),
        hit=hit,
        clean=len(effects),
        resolution_percent=_percent(
            max(unknown + series.doubt_ps, high - effect), step
        ),
        confidence=_confidence(series, unknown, step, thresholds),
        unavailable=_doubtful(series, typical, step, warn)
        if status == "cannot_tell"
        else None,
    )


def _status(
    effect: float,
    bar: float,
    *,
    hit_share: float,
    interval: tuple[int, int],
    doubt: tuple[float, float],
    thresholds: Thresholds,
) -> tuple[Status, Severity, str | None]:
    lower, upper = doubt
    smallest = thresholds.smallest_effect.value
    could_fall = effect >= bar > effect - lower
    could_rise = effect < bar <= effect + upper and effect + upper >= smallest
    if could_fall or could_rise:
        return "cannot_tell", "info", None
    if effect < bar:
        return "pass", "info", "borderline" if interval[1] >= bar else None
    # The share is large and yet no finding: the note gives the reason.
    if effect < smallest:
        return "pass", "info", "short"
    if hit_share < thresholds.steps_share.value:
        return "pass", "info", "seldom"
    if interval[0] < bar / 2:
        return "fail", "info", "noisy"
    return "fail", "warn", None


def _severity(
    share: float, clean: int, critical: Threshold, thresholds: Thresholds
) -> tuple[Severity, str | None]:
    if clean < thresholds.few_steps.value:
        return "warn", "few_steps"
    enough = clean >= thresholds.many_steps.value or share >= thresholds.dominant.value
    return ("critical" if share >= critical.value and enough else "warn"), None


class _Whole(NamedTuple):
    """An effect over all closed windows, untypical steps included."""

    window_ps: int
    parts_ps: dict[str, int]
    steps: int

    @classmethod
    def of(cls, series: StepSeries) -> _Whole:
        if series.total_window_ps is not None:
            return cls(
                series.total_window_ps, series.total_parts_ps, series.total_steps
            )
        parts = {name: sum(times) for name, times in series.parts_ps.items()}
        return cls(sum(series.window_ps), parts, len(series.window_ps))

    def causes(self) -> tuple[CauseShare, ...]:
        shares = [
            CauseShare(cause=name, share_percent=_percent(time, self.window_ps))
            for name, time in self.parts_ps.items()
            if time
        ]
        return tuple(sorted(shares, key=lambda cause: -cause.share_percent))


def _confidence(
    series: StepSeries, unknown: float, step: float, thresholds: Thresholds
) -> float:
    confidence = 1 - unknown / step if step else 0.0
    if series.step_source is not None:
        confidence = min(confidence, series.step_confidence)
    if len(series.window_ps) < thresholds.few_steps.value or not series.closed:
        return min(confidence, 0.5)
    return confidence


def _doubtful(
    series: StepSeries, share: float, step: float, warn: Threshold
) -> Unavailable:
    """Say why the verdict may be wrong: time of unknown cause, or lost records."""
    if share >= warn.value:
        made_up = _percent(series.doubt_ps + series.excess_ps, step)
        return Unavailable(
            code="LOST_EVENTS",
            reason=f"The effect is {share:.1f} % of the step, but lost records or "
            f"differing clocks may account for {made_up:.1f} %, and the verdict "
            f"changes at {warn.value:g} %.",
            remedy="Record a shorter window, so that no record is dropped.",
        )
    unknown = _percent(statistics.median(series.unknown_ps) + series.doubt_ps, step)
    return Unavailable(
        code="NOT_RECORDED",
        reason=f"The effect is {share:.1f} % of the step, but another {unknown:.1f} % "
        f"has no known cause, and the verdict changes at {warn.value:g} %.",
        remedy="Record again at host tracer level 2 with the device tracer on, and "
        "with the Python tracer if Python code runs between the ops.",
    )


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0
