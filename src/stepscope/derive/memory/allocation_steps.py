"""`allocation_steps`: the step of each allocator event, and where steps begin and end.

Allocator events are host events, so their step is the one in whose host interval they
lie, however far the device lags.

Definition: docs/tools/memory_profile.md#timeline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import ints
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import nullable
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps

#: Columns of `AllocationSteps.intervals`.
STEP_INTERVALS: Final[dict[str, pl.DataType]] = {
    "step": pl.Int64(),  # the number to show
    "name": pl.String(),
    "start_ps": pl.Int64(),
    "end_ps": pl.Int64(),  # start of the next step; the last ends with its activity
    "open_end": pl.Boolean(),  # the last one
}


class AllocationSteps(Frozen, frozen=True):
    """Allocator events beside the steps.

    Attributes:
        step: Int64 by row of allocations: number of the step of the event; null where
            it lies in no step, and where no steps are known.
        intervals: The steps in time order, columns `STEP_INTERVALS`; empty where
            there are none. The times are those of the device where the boundaries of
            the steps are.
        why: Why there are no intervals; None where there are some.
    """

    step: pl.Series
    intervals: pl.DataFrame
    why: Unavailable | None


def allocation_steps(
    *,
    allocations: pl.DataFrame,
    steps: Steps | Unavailable,
    windows: Windows | Unavailable,
) -> AllocationSteps:
    """Assign each event to the step of its stored group, else by host interval."""
    group = allocations["group"]
    if isinstance(steps, Unavailable):
        # Groups are the producer's steps, even if it is unknown when they began.
        empty = pl.DataFrame(schema=STEP_INTERVALS)
        return AllocationSteps(group.alias("step"), empty, steps)
    intervals = _intervals(steps, windows)
    number = ints(intervals, "step")
    if steps.on_device:
        # Device times say nothing about when the host worked for a step.
        at = np.full(len(allocations), -1)
    else:
        at = _interval_at(intervals, ints(allocations, "start_ps"))
    # Index -1 reads the last number, which the condition beside it rules out.
    found = nullable("step", number[at], at >= 0)
    return AllocationSteps(_by_group(steps, group).fill_null(found), intervals, None)


def _intervals(steps: Steps, windows: Windows | Unavailable) -> pl.DataFrame:
    rows = steps.rows
    start = ints(rows, "start_ps")
    ends = [int(start[-1]), steps.last_end_ps, rows["end_ps"][-1]]
    if (
        not isinstance(windows, Unavailable)
        and windows.has_steps
        # Windows by device times of steps by host times lie elsewhere.
        and (steps.on_device or windows.anchor == "host")
    ):
        ends.append(windows.rows["end_ps"][-1])
    last = max(end for end in ends if end is not None)
    return pl.DataFrame(
        {
            "step": rows["step"],
            "name": rows["name"],
            "start_ps": start,
            "end_ps": np.append(start[1:], last),
            "open_end": np.arange(len(start)) == len(start) - 1,
        },
        schema=STEP_INTERVALS,
    )


def _interval_at(
    intervals: pl.DataFrame, time_ps: NDArray[np.int64]
) -> NDArray[np.intp]:
    """Return the place of the interval that holds each time, -1 for none."""
    at = np.searchsorted(ints(intervals, "start_ps"), time_ps, side="right") - 1
    outside = time_ps >= ints(intervals, "end_ps")[at]
    return np.where((at >= 0) & outside, -1, at)


def _by_group(steps: Steps, group: pl.Series) -> pl.Series:
    """Return the number of the step that carries each stored group, null for none."""
    of_group = (
        steps.rows.select("group", "step")
        .drop_nulls()
        .unique("group", keep="first", maintain_order=True)
    )
    if not len(of_group) or group.null_count() == len(group):
        return pl.repeat(None, len(group), dtype=pl.Int64, eager=True).alias("step")
    return group.replace_strict(
        of_group["group"], of_group["step"], default=None, return_dtype=pl.Int64
    ).alias("step")
