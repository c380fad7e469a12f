"""`class_totals`: what the activities of each class cost, summed once for all tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.derive.columns.arrays import ints
from stepscope.derive.columns.dense_codes import Extremes, extremes_by, totals_by
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.device.activity_classes import ActivityClasses
    from stepscope.derive.device.exposure import Exposure


class ClassTotals(Frozen, frozen=True):
    """Sums by row of `activity_classes`.

    Attributes:
        all: Counts and times; on a coarse clock many activities last 0 ps.
        alone_ps: int64; time during which nothing else ran on the device.
        step_ps: int64; time of the activities that belong to a step; None where there
            are no steps, or where no activity could be assigned to one.
    """

    all: Extremes
    alone_ps: NDArray[np.int64]
    step_ps: NDArray[np.int64] | None


def class_totals(
    *,
    device_activity: pl.DataFrame,
    activity_classes: ActivityClasses,
    exposure: Exposure,
    activity_steps: NDArray[np.int32] | Unavailable,
) -> ClassTotals:
    """Sum counts and times of each class of activities."""
    code, count = activity_classes.code, len(activity_classes.rows)
    dur_ps = ints(device_activity, "dur_ps")
    everything = extremes_by(code, dur_ps, count=count)
    step_ps = None
    if not isinstance(activity_steps, Unavailable):
        inside = activity_steps >= 0
        if inside.all():
            step_ps = everything.total
        elif inside.any():
            step_ps = totals_by(code, dur_ps, count=count, where=inside).total
    alone = totals_by(code, exposure.alone_ps, count=count).total
    return ClassTotals(everything, alone, step_ps)
