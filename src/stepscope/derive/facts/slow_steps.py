"""Steps that are much slower than the usual step, and what takes the extra time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.derive.facts.evidence import MAX_RANGES_SHOWN, Evidence, Fact, Part
from stepscope.derive.step_time.owners import BUSY_OWNERS, IDLE_OWNERS

if TYPE_CHECKING:
    from stepscope.array_types import Bools
    from stepscope.derive.facts.hosts.function_divisions import RareFunctions
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.derive.verdicts.effect_status import StepSeries
    from stepscope.thresholds import Thresholds

#: Name of the fact with the percentage of all steps' time that is in slow steps.
HELD_BY_SLOW: Final = "held_by_slow_steps"
#: A slow step is at least this many median absolute deviations above the median.
_MIN_SLOW_DEVIATIONS: Final = 5
#: Longest period between slow steps that is searched for, in steps.
_MAX_PERIOD_STEPS: Final = 200
#: Minimum number of slow steps from which a period is inferred.
_MIN_SLOW_STEPS: Final = 3
#: Minimum share of all slow steps' extra time that the steps of a period must contain.
#: If there are fewer than `_MIN_MANY_STEPS` slow steps, a higher share is required:
#: three slow steps may be at equal distances by chance.
_MIN_SHARE: Final = 0.6
_MIN_SHARE_OF_FEW: Final = 0.9
_MIN_MANY_STEPS: Final = 5
#: The named parts of a cause are reported if its mean time in other steps is at most
#: this fraction of its mean time in slow steps.
_MAX_OTHER_STEPS_RATIO: Final = 0.2


class Period(NamedTuple):
    """A fixed period with which slow steps repeat.

    Attributes:
        every: Number of steps from one slow step to the next.
        slow: Whether each judged step is one of these slow steps.
    """

    every: int
    slow: Bools


def slow_steps(shares: StepShares, thresholds: Thresholds) -> Bools:
    """Return whether each step is much longer than the median step."""
    length = np.array(shares.window_ps, np.float64)
    median = float(np.median(length))
    deviation = float(np.median(np.abs(length - median)))
    return (length > median + _MIN_SLOW_DEVIATIONS * deviation) & (
        length > thresholds.outlier_ratio.value * median
    )


def longest_period(steps: int) -> int:
    """Return the longest period that can be found in a recording of `steps` steps."""
    return min(_MAX_PERIOD_STEPS, steps // _MIN_SLOW_STEPS)


def period_of_slow_steps(shares: StepShares, slow: Bools) -> Period | None:
    """Return the shortest period with which slow steps repeat; None if none."""
    count = len(slow)
    number = np.array(shares.numbers or range(count), np.int64)
    length = np.array(shares.window_ps, np.float64)
    excess = np.where(slow, length - np.median(length), 0.0)
    for period in range(2, longest_period(count) + 1):
        for phase in np.unique(number[slow] % period).tolist():
            in_phase = number % period == phase
            # What slows the first or last step may lie outside its window.
            for end in (0, -1):
                in_phase[end] &= slow[end]
            if in_phase.sum() < _MIN_SLOW_STEPS or not slow[in_phase].all():
                continue
            has_many = in_phase.sum() >= _MIN_MANY_STEPS
            min_share = _MIN_SHARE if has_many else _MIN_SHARE_OF_FEW
            if excess[in_phase].sum() >= min_share * excess.sum():
                return Period(period, in_phase)
    return None


def excess_by_owner(shares: StepShares, slow: Bools) -> StepSeries:
    """Return, by cause, the extra time of slow steps compared with a usual step.

    If one cause takes less time than usual, the extra time of the other causes is
    reduced in proportion. The extra times then add up to that of the whole step.
    """
    usual = ~slow
    length = np.array(shares.window_ps, np.int64)
    excess = np.where(slow, np.maximum(length - int(np.median(length[usual])), 0), 0)
    by_owner = {}
    for owner in (*BUSY_OWNERS, *IDLE_OWNERS):
        times = np.array(shares.times(owner), np.float64)
        if times.any():
            by_owner[owner] = np.maximum(times - np.median(times[usual]), 0.0)
    total = np.sum(list(by_owner.values()), axis=0)
    parts = {
        owner: excess * times / np.maximum(total, 1)
        for owner, times in by_owner.items()
    }
    return shares.lost_time(
        {
            owner: tuple(np.where(slow, times, 0).astype(np.int64).tolist())
            for owner, times in parts.items()
        }
    )


def held_time(shares: StepShares, slow: Bools) -> Fact:
    """Return the percentage of all steps' time that is in slow steps."""
    length = np.array(shares.window_ps, np.float64)
    share = 100 * float(length[slow].sum() / length.sum()) if slow.any() else None
    return Fact(name=HELD_BY_SLOW, value=share, unit="percent")


def rare_function(
    slow: Bools, series: StepSeries, rarely: RareFunctions | None
) -> Part | None:
    """Return the function that only slow steps call; None without such a function."""
    if rarely is None or not slow.any():
        return None
    return rarely.of(slow, sum(series.effect_ps))


def named_parts(
    shares: StepShares, slow: Bools, owner: str | None, function: Part | None
) -> tuple[Part, ...]:
    """Return the parts of step time that only slow steps have.

    A function that only slow steps call is first. The named parts of the main cause
    (`owner`) of the extra time follow, if its time is mostly in slow steps.
    """
    if not slow.any():
        return ()
    first = (function,) if function else ()
    if owner is None:
        return first
    times = np.array(shares.times(owner), np.float64)
    inside = float(times[slow].mean())
    if not inside or float(times[~slow].mean()) > _MAX_OTHER_STEPS_RATIO * inside:
        return first
    # The loop around all steps does not make steps slow. A function with less than half
    # of the cause's time does not explain the cause.
    parts = tuple(part for part in shares.parts(owner) if not part.loop)
    share = parts[0].share_percent if parts and parts[0].function is not None else 0.0
    if 2 * share < shares.percent(owner):
        parts = tuple(part for part in parts if part.function is None)
    return (*first, *parts)


def longest_slow_steps(shares: StepShares, slow: Bools) -> tuple[Evidence, ...]:
    """Return the longest of the slow steps."""
    length = np.array(shares.window_ps, np.int64)
    chosen = np.flatnonzero(slow)
    longest = chosen[np.argsort(-length[chosen], kind="stable")][:MAX_RANGES_SHOWN]
    return tuple(
        Evidence.of_range(
            *(shares.host, shares.device, *shares.bounds[step]),
            op=f"step {shares.numbers[step]}" if shares.numbers else None,
        )
        for step in longest.tolist()
        if shares.bounds
    )
