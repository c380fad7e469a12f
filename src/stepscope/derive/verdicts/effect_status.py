"""Whether an effect (lost time) over steps is a finding, and its severity.

Rules and tools get their verdicts from this module. A block bootstrap recognises
effects that may be due to chance: each draw takes blocks of ⌈∛n⌉ consecutive steps,
wrapped around the end, so that waits that occur in bursts stay together. The random
numbers are fixed, so equal input gives an equal interval.

Definition: docs/definitions/judging.md#status.
"""

from __future__ import annotations

import math
import random
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.derive.steps.chosen import Steps
    from stepscope.thresholds import Threshold

NO_JUDGED_STEPS: Final = Unavailable(
    code="NO_STEPS",
    reason="Without steps a share of the step cannot be formed.",
    remedy=Remedy.MARK_STEPS,
)


def step_basis(steps: Steps | Unavailable) -> tuple[str | None, float]:
    """Return the source of steps and the confidence in them; None and 0 without."""
    if isinstance(steps, Unavailable):
        return None, 0.0
    return steps.source, steps.confidence


class JudgedSteps(Frozen, frozen=True, kw_only=True):
    """The judged steps of one device, or of one host's step threads.

    Attributes:
        step_source: Source of the steps; null if the whole profile is one window.
        step_confidence: Confidence in the steps, 0 to 1; 0 without steps.
        closed: Whether each window ends where the next step starts; false for one step.
        window_ps: Length of each judged window.
    """

    step_source: str | None
    step_confidence: float
    closed: bool = True
    window_ps: tuple[int, ...]

    @property
    def total_ps(self) -> int:
        """Return the length of all judged windows."""
        return sum(self.window_ps)

    def lost_time(
        self, parts_ps: dict[str, tuple[int, ...]], **doubts: int
    ) -> StepSeries:
        """Return time lost in these steps; `doubts` are fields of `StepSeries`."""
        return StepSeries(
            step_source=self.step_source,
            step_confidence=self.step_confidence,
            closed=self.closed,
            window_ps=self.window_ps,
            parts_ps=parts_ps,
            **doubts,
        )


class StepSeries(JudgedSteps, frozen=True, eq=True, kw_only=True, dict=True):
    """Lost time in judged steps.

    Attributes:
        parts_ps: Cause → lost time in each window; times of two causes never overlap.
        unknown_ps: Time of all windows whose cause is unknown and may be the effect.
        doubt_ps: Maximum error of the effect, up or down, due to clock offsets.
        excess_ps: Part of the effect over all windows that lost records may cause.
        idle_ps: Time without recorded work in a recording without steps; it may be
            outside of the steps.
    """

    parts_ps: dict[str, tuple[int, ...]]
    unknown_ps: int = 0
    doubt_ps: int = 0
    excess_ps: int = 0
    idle_ps: int = 0

    @cached_property
    def effect_ps(self) -> tuple[int, ...]:
        """Return the effect in each window, summed over its causes."""
        if not self.parts_ps:
            return (0,) * len(self.window_ps)
        return tuple(map(sum, zip(*self.parts_ps.values(), strict=True)))


_BOOTSTRAP_DRAWS: Final = 1000
_INTERVAL: Final = (2.5, 97.5)
#: Minimum number of steps for computing an interval of the mean effect.
_MIN_STEPS_FOR_INTERVAL: Final = 3
_PAIR: Final = 2

#: Tolerance for rounding when a share is compared with a threshold.
_ROUNDING_FACTOR: Final = 1 - 1e-9


class EffectStatus(NamedTuple):
    """The judgement of an effect (lost time) over steps.

    Attributes:
        status: Whether the effect is a finding.
        note: Stable word that qualifies the status; None if there is none.
    """

    status: Literal["fail", "pass", "cannot_tell"]
    severity: Literal["info", "warn", "critical"] = "info"
    note: str | None = None


def status_of(
    series: StepSeries, *, warn: Threshold, critical: Threshold
) -> EffectStatus:
    """Compare the effect in a series of steps (at least one) with two thresholds."""
    if _may_flip(series, warn):
        return EffectStatus("cannot_tell")
    return _status_by_levels(series, warn, critical)


def pattern_kind(
    effect_ps: Sequence[int], *, every_percent: float
) -> Literal["every", "bursts", "once"]:
    """Return whether the effect is in "every" step, in "bursts" or only "once".

    Args:
        every_percent: Minimum share of affected steps for "every", in percent.
    """
    count = len(effect_ps)
    mean = sum(effect_ps) / max(count, 1)
    hit = sum(is_hit(effect, mean) for effect in effect_ps)
    if 100 * hit >= every_percent * count:
        return "every"
    return "once" if hit == 1 else "bursts"


def percent_of(part: float, total: float) -> float:
    """Return a part as a percentage of a whole; 0 if the whole is 0."""
    return 100 * part / total if total else 0.0


def _may_flip(series: StepSeries, warn: Threshold) -> bool:
    effect, bar = sum(series.effect_ps), sum(series.window_ps) * warn.value / 100
    smallest = THRESHOLDS.smallest_effect.value * len(series.window_ps)
    if effect >= bar and effect >= smallest:
        return effect - series.doubt_ps - series.excess_ps < bar
    highest = effect + series.doubt_ps + series.unknown_ps
    # Of the steps alone, the effect may be a larger share than of the recording.
    lowest_bar = (sum(series.window_ps) - series.idle_ps) * warn.value / 100
    return highest >= lowest_bar and highest >= smallest


def _status_by_levels(
    series: StepSeries, warn: Threshold, critical: Threshold
) -> EffectStatus:
    effects, windows = series.effect_ps, series.window_ps
    share = percent_of(sum(effects), sum(windows))
    too_few = len(effects) < THRESHOLDS.few_steps.value
    once = pattern_kind(effects, every_percent=THRESHOLDS.steps_share.value) == "once"
    shares = 100 * np.array(effects, float) / np.maximum(windows, 1)
    if share < warn.value:
        high = share
        # No bootstrap draw has a higher share than the step with the highest share.
        if not too_few and shares.max() >= _ROUNDING_FACTOR * warn.value:
            high = ratio_interval(effects, windows)[1]
        return EffectStatus("pass", note="borderline" if high >= warn.value else None)
    # The share is large, but the effect is too short to be a finding.
    if sum(effects) < THRESHOLDS.smallest_effect.value * len(effects):
        return EffectStatus("pass", note="short")
    if too_few:
        short = EffectStatus("fail", "warn", "few_steps")
        return EffectStatus("fail", "info", "once") if once else short
    # Report an effect of a single step as `once`, unless the other steps alone are a
    # finding. The share of the other steps excludes the step with the largest effect.
    largest = max(effects)
    window = windows[effects.index(largest)]
    left = percent_of(sum(effects) - largest, sum(windows) - window)
    if left < warn.value / (1 if once else 2):
        return EffectStatus("fail", "info", "once")
    # No bootstrap draw has a lower share than the step with the lowest share.
    some = _ROUNDING_FACTOR * shares.min() < warn.value / 2
    if some and ratio_interval(effects, windows)[0] < warn.value / 2:
        return EffectStatus("fail", "info", "noisy")
    enough = (
        len(effects) >= THRESHOLDS.many_steps.value
        or share >= THRESHOLDS.dominant.value
    )
    grave = share >= critical.value and enough
    return EffectStatus("fail", "critical" if grave else "warn")


def ratio_interval(
    effect_ps: Sequence[int], window_ps: Sequence[int]
) -> tuple[float, float]:
    """Return the 95 % interval of Σ effect ÷ Σ window, in percent."""
    effects, windows = _bootstrap_sums((effect_ps, window_ps), stream=0)
    low, high = np.percentile(100 * effects / np.maximum(windows, 1), _INTERVAL)
    return float(low), float(high)


def mean_interval_ms(effect_ps: Sequence[int]) -> tuple[float, float]:
    """Return the 95 % interval of the mean effect, given the number of affected steps.

    Hit steps (`is_hit`) and other steps are drawn separately, because a gain refers to
    the recorded steps, whose number of hits is known. If all effects are equal, or if
    there are fewer than three steps, both ends are the mean.
    """
    count = max(len(effect_ps), 1)
    mean = sum(effect_ps) / count
    if len(effect_ps) < _MIN_STEPS_FOR_INTERVAL:
        return mean / PS_PER_MS, mean / PS_PER_MS
    drawn = np.zeros(_BOOTSTRAP_DRAWS)
    for stream, hit in enumerate((True, False)):
        group = [effect for effect in effect_ps if is_hit(effect, mean) is hit]
        if len(set(group)) > 1:
            sums, counts = _bootstrap_sums((group, [1] * len(group)), stream=stream)
            drawn += len(group) * sums / counts
        else:
            drawn += sum(group)
    low, high = np.percentile(drawn / count, _INTERVAL)
    return min(float(low), mean) / PS_PER_MS, max(float(high), mean) / PS_PER_MS


def is_hit(effect_ps: float, mean_ps: float) -> bool:
    """Return whether the effect on a step is at least half of the mean effect."""
    return effect_ps > 0 and 2 * effect_ps >= mean_ps


def difference_interval(
    base: Sequence[float], new: Sequence[float]
) -> tuple[float, float]:
    """Return the 95 % interval of the mean of `new` minus the mean of `base`.

    Args:
        base: At least one value, in the order of the steps.
        new: At least one value of the other run; both runs are drawn independently.
    """
    means = []
    for stream, values in enumerate((base, new)):
        sums, counts = _bootstrap_sums((values, [1] * len(values)), stream=stream)
        means.append(sums / counts)
    low, high = np.percentile(means[1] - means[0], _INTERVAL)
    return float(low), float(high)


def _bootstrap_sums(
    columns: Sequence[Sequence[float]], *, stream: int
) -> list[NDArray[np.float64]]:
    count = len(columns[0])
    # If there are two steps, a block of two steps would always be all steps.
    length = math.ceil(count ** (1 / 3)) if count > _PAIR else 1
    blocks = math.ceil(count / length)
    # Python's generator is already imported; importing numpy's takes 8 ms.
    drawn = random.Random(stream).randbytes(4 * _BOOTSTRAP_DRAWS * blocks)  # noqa: S311 - no secret
    # The modulo of 2³² values makes each step equally likely, up to one in millions.
    starts = (np.frombuffer(drawn, np.uint32) % count).reshape(_BOOTSTRAP_DRAWS, blocks)
    sums = []
    for values in columns:
        around = np.concatenate((values, values[: length - 1])).astype(np.float64)
        summed = np.concatenate(([0.0], np.cumsum(around)))
        of_block = summed[length:] - summed[:-length]
        sums.append(of_block[starts].sum(axis=1))
    return sums
