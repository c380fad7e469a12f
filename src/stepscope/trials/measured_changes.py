"""What a change did to the step time and to the losses, from turns with and without."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from stepscope.compare.changes import StepTimeChange, step_time_change

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.compare.timing import RunTimes

#: Losses at the end of the compared part of two curves whose means are shown.
_LAST_LOSSES: Final = 10
#: Losses without which there is no curve to compare.
_MIN_LOSSES: Final = 3


class LossChange(msgspec.Struct, frozen=True, kw_only=True):
    """The loss curve with and without a change, as far as both turns reach.

    Attributes:
        losses: Number of losses compared, from the first on.
        before: Mean of the last ten of them without the change.
        after: Mean of the same ones with the change.
        largest_percent: Largest difference of two losses of the same number, as a share
            of the loss without the change; null if that is 0.
    """

    losses: int
    before: float
    after: float
    largest_percent: float | None


def compare_turns(
    before: Sequence[RunTimes], after: Sequence[RunTimes]
) -> StepTimeChange:
    """Compare turns without and with a change, which alternate.

    Steps of one turn resemble each other more than those of two turns. So the interval
    of the change covers the 95 % intervals of all pairs of neighbouring turns.

    Args:
        before: Turns without the change: the first, third, … of all turns.
        after: Turns with the change: the second, fourth, … of all turns.
    """
    turns = [turn for pair in zip(before, after, strict=True) for turn in pair]
    pairs = [
        step_time_change(*(pair if index % 2 == 0 else pair[::-1]))
        for index, pair in enumerate(pairwise(turns))
    ]
    base_ms, new_ms = (
        sum(turn.mean_ms or 0.0 for turn in each) / len(each)
        for each in (before, after)
    )
    low = min(pair.low_ms for pair in pairs)
    high = max(pair.high_ms for pair in pairs)
    verdict: Literal["faster", "slower", "noise"]
    verdict = "faster" if high < 0 else "slower" if low > 0 else "noise"
    return StepTimeChange(
        base_ms=base_ms,
        new_ms=new_ms,
        change_ms=new_ms - base_ms,
        low_ms=low,
        high_ms=high,
        change_percent=100 * (new_ms - base_ms) / base_ms if base_ms else 0.0,
        verdict=verdict,
    )


def compare_losses(
    before: Sequence[float], after: Sequence[float]
) -> LossChange | None:
    """Compare two loss curves; None if one of them is unknown."""
    count = min(len(before), len(after))
    if count < _MIN_LOSSES:
        return None
    pairs = list(zip(before[:count], after[:count], strict=True))
    last = pairs[-_LAST_LOSSES:]
    differences = [
        100 * abs(new - old) / abs(old) if old else None for old, new in pairs
    ]
    known = [value for value in differences if value is not None]
    return LossChange(
        losses=count,
        before=sum(old for old, _ in last) / len(last),
        after=sum(new for _, new in last) / len(last),
        largest_percent=max(known) if len(known) == count else None,
    )
