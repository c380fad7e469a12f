"""What a change did to the step time and to the losses, from turns with and without."""

from __future__ import annotations

import math
from itertools import chain
from statistics import fmean, variance
from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.compare.changes import StepTimeChange, step_time_change
from stepscope.compare.timing import RunTimes
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

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


#: Turns with and without a change → 97.5 % quantile of Student's t for their means,
#: which have 2n − 2 degrees of freedom.
_T_QUANTILES: Final = {2: 4.303, 3: 2.776}


def compare_turns(
    before: Sequence[RunTimes], after: Sequence[RunTimes]
) -> StepTimeChange:
    """Compare as many turns without a change as with it.

    Steps of one turn resemble each other more than those of two turns. So the interval
    is the wider one of two: the 95 % interval of the steps (block bootstrap), and that
    of the turns' means (Student's t), which needs two turns each.
    """
    steps = [[_steps_of(turn) for turn in turns] for turns in (before, after)]
    change = step_time_change(
        *(RunTimes(window_ps=tuple(chain.from_iterable(turns))) for turns in steps)
    )
    if len(before) not in _T_QUANTILES:
        return change
    means_ms = [[fmean(turn) / PS_PER_MS for turn in turns] for turns in steps]
    spread_ms = math.sqrt(fmean(variance(turns) for turns in means_ms))
    half_ms = _T_QUANTILES[len(before)] * spread_ms * math.sqrt(2 / len(before))
    low_ms = min(change.low_ms, change.change_ms - half_ms)
    high_ms = max(change.high_ms, change.change_ms + half_ms)
    is_certain = low_ms > 0 or high_ms < 0
    return msgspec.structs.replace(
        change,
        low_ms=low_ms,
        high_ms=high_ms,
        verdict=change.verdict if is_certain else "noise",
    )


def _steps_of(turn: RunTimes) -> list[int]:
    """Return the length of each step, in ps: the mean over processes in lock step."""
    return [round(value) for value in turn.values_by_step(turn.window_ps)]


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
