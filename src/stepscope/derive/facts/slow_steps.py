"""Which steps are much slower than the usual one, and on what they spend it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.derive.facts.evidence import SHOWN, Evidence, Fact, Part
from stepscope.derive.judging.effect_status import StepSeries
from stepscope.derive.step_time.host_time import BUSY_OWNERS, IDLE_OWNERS

if TYPE_CHECKING:
    from stepscope.array_types import Bools
    from stepscope.derive.facts.hosts.function_ways import RareFunctions
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

#: Name of the fact how much of the time slow steps hold.
HELD_BY_SLOW: Final = "held_by_slow_steps"
#: A step this many median absolute deviations above the median is slow.
_DEVIATIONS: Final = 5
#: Longest period that is looked for, in steps.
_LONGEST: Final = 200
#: A period is seen from this many slow steps on.
_OFTEN: Final = 3
#: The slow steps of a period hold at least this part of what all slow steps take more:
#: of a few by chance three may stand in a row, so that there nearly all must.
_MOST: Final = 0.6
_NEARLY_ALL: Final = 0.9
_MANY: Final = 5
#: Names are told of an owner whose time lies mostly in the slow steps: in the others it
#: has at most this part of what it has there.
_ELSEWHERE: Final = 0.2


class Period(NamedTuple):
    """Steps that are slow in a fixed rhythm.

    Attributes:
        every: Every how many steps one is slow.
        slow: By judged step, whether it is one of them.
    """

    every: int
    slow: Bools


def slow_steps(shares: StepShares, thresholds: Thresholds) -> Bools:
    """Return which steps are slow: by deviation and by ratio."""
    length = np.array(shares.window_ps, np.float64)
    median = float(np.median(length))
    deviation = float(np.median(np.abs(length - median)))
    slow: Bools = (length > median + _DEVIATIONS * deviation) & (
        length > thresholds.outlier_ratio.value * median
    )
    return slow


def longest_period(steps: int) -> int:
    """Return the longest rhythm that this many steps can show."""
    return min(_LONGEST, steps // _OFTEN)


def period_of_slow_steps(shares: StepShares, slow: Bools) -> Period | None:
    """Return the shortest rhythm in which all steps are slow that should be."""
    count = len(slow)
    number = np.array(shares.numbers or range(count), np.int64)
    length = np.array(shares.window_ps, np.float64)
    more = np.where(slow, length - np.median(length), 0.0)
    for every in range(2, longest_period(count) + 1):
        for phase in np.unique(number[slow] % every).tolist():
            in_phase = number % every == phase
            if in_phase.sum() < _OFTEN or not slow[in_phase].all():
                continue
            least = _MOST if in_phase.sum() >= _MANY else _NEARLY_ALL
            if more[in_phase].sum() >= least * more.sum():
                return Period(every, in_phase)
    return None


def excess_by_owner(shares: StepShares, slow: Bools) -> StepSeries:
    """Return what the slow steps take more than a usual one, by owner.

    Where an owner takes less than usual, the others are reduced in proportion: the
    parts of a step add up to what the whole step takes more.
    """
    usual = ~slow
    length = np.array(shares.window_ps, np.int64)
    more = np.where(slow, np.maximum(length - int(np.median(length[usual])), 0), 0)
    by_owner = {}
    for owner in (*BUSY_OWNERS, *IDLE_OWNERS):
        times = np.array(shares.times(owner), np.float64)
        if times.any():
            by_owner[owner] = np.maximum(times - np.median(times[usual]), 0.0)
    total = np.sum(list(by_owner.values()), axis=0)
    parts = {
        owner: np.where(total > 0, more * times / np.maximum(total, 1), 0)
        for owner, times in by_owner.items()
    }
    return StepSeries(
        step_source=shares.step_source,
        step_confidence=shares.step_confidence,
        closed=shares.closed,
        window_ps=shares.window_ps,
        parts_ps={
            owner: tuple(np.where(slow, times, 0).astype(np.int64).tolist())
            for owner, times in parts.items()
        },
    )


def held_time(shares: StepShares, slow: Bools) -> Fact:
    """Return the share of all steps' time that the slow steps hold."""
    length = np.array(shares.window_ps, np.float64)
    share = 100 * float(length[slow].sum() / length.sum()) if slow.any() else None
    return Fact(name=HELD_BY_SLOW, value=share, unit="percent")


def rare_function(
    slow: Bools, series: StepSeries, rarely: RareFunctions | None
) -> Part | None:
    """Return the function that the slow steps alone call; None without one."""
    if rarely is None or not slow.any():
        return None
    return rarely.of(slow, sum(series.effect_ps))


def named_parts(
    shares: StepShares, slow: Bools, owner: str | None, function: Part | None
) -> tuple[Part, ...]:
    """Return what the slow steps do that the others do not.

    A function that they alone call stands first; then the names of an owner's time,
    where it lies mostly in the slow steps: of the owner of most of what they take more.
    """
    if not slow.any():
        return ()
    first = (function,) if function else ()
    if owner is None:
        return first
    times = np.array(shares.times(owner), np.float64)
    inside = float(times[slow].mean())
    if not inside or float(times[~slow].mean()) > _ELSEWHERE * inside:
        return first
    # The loop around all steps makes none of them slow, nor does a smaller part.
    parts = tuple(part for part in shares.parts(owner) if not part.loop)
    share = parts[0].share_percent if parts and parts[0].function is not None else 0.0
    if 2 * share < shares.percent(owner):
        parts = tuple(part for part in parts if part.function is None)
    return (*first, *parts)


def longest_slow_steps(shares: StepShares, slow: Bools) -> tuple[Evidence, ...]:
    """Return the longest of the slow steps."""
    length = np.array(shares.window_ps, np.int64)
    chosen = np.flatnonzero(slow)
    longest = chosen[np.argsort(-length[chosen], kind="stable")][:SHOWN]
    return tuple(
        Evidence(
            host=shares.host,
            device=shares.device,
            track=None,
            start_ps=shares.bounds[step][0],
            end_ps=shares.bounds[step][1],
            ops=(f"step {shares.numbers[step]}",) if shares.numbers else (),
        )
        for step in longest.tolist()
        if shares.bounds
    )
