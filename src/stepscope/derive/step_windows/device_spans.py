"""The time range in which each device worked on each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.columns.dense_codes import number_rows, time_ranges_by_code
from stepscope.derive.device.precision import KERNEL_KIND
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.array_types import Int32s
    from stepscope.derive.steps.chosen import Steps

FIRST_COMPUTE: Final[dict[str, pl.DataType]] = {
    "step_row": pl.Int32(),  # row of steps; null if the profile has no steps
    "device": pl.Int32(),
    "first_compute_ps": pl.Int64(),
}

#: Columns of the frame that `device_spans` returns.
DEVICE_SPANS: Final[dict[str, pl.DataType]] = {
    "step_row": pl.Int32(),
    "device": pl.Int32(),
    "first_begin_ps": pl.Int64(),  # null without activity
    "last_end_ps": pl.Int64(),  # null without activity
    "stored_start_ps": pl.Int64(),  # null without a stored span
    "stored_end_ps": pl.Int64(),  # null without a stored span
    "device_step_time_ps": pl.Int64(),
}

#: Columns that follow from device activity alone, without stored spans.
_RANGE_COLUMNS: Final = dict(list(DEVICE_SPANS.items())[:4])


def device_spans(
    steps: Steps,
    activity_steps: Int32s | None,
    device_activity: pl.DataFrame | None,
    *,
    is_ended: bool = False,
) -> pl.DataFrame:
    """Return one row per (step, device) that has activity or a stored span.

    The device's step time is the length of the step's longest stored span, else the
    time from the start of the step's first activity to the end of its last one.

    Definition: docs/how-steps-are-found.md#windows.

    Args:
        is_ended: Whether the last stored span may include work after the last step.
    """
    measured = pl.DataFrame(schema=_RANGE_COLUMNS)
    if activity_steps is not None and device_activity is not None:
        measured = _step_ranges(activity_steps, device_activity)
    if measured.is_empty() and steps.stored.is_empty():
        return pl.DataFrame(schema=DEVICE_SPANS)
    if steps.stored.is_empty():
        nothing = pl.lit(None, pl.Int64)
        both = measured.with_columns(stored_start_ps=nothing, stored_end_ps=nothing)
    else:
        keyed = steps.stored.with_columns(
            pl.Series("step_row", _step_of_stored(steps), dtype=pl.Int32)
        ).filter((pl.col("step_row") >= 0) & pl.col("device").is_not_null())
        length_ps = pl.col("end_ps") - pl.col("start_ps")
        both = measured.join(
            keyed.sort("step_row", "device", length_ps, descending=[False, False, True])
            .group_by("step_row", "device", maintain_order=True)
            .agg(
                pl.col("start_ps").first().alias("stored_start_ps"),
                pl.col("end_ps").first().alias("stored_end_ps"),
            ),
            on=["step_row", "device"],
            how="full",
            coalesce=True,
        ).sort("step_row", "device")
    if is_ended:
        is_last = pl.col("step_row") == steps.rows.height - 1
        end = pl.min_horizontal("stored_end_ps", "last_end_ps")
        both = both.with_columns(
            pl.when(is_last).then(end).otherwise("stored_end_ps").alias("stored_end_ps")
        )
    length = pl.col("stored_end_ps") - pl.col("stored_start_ps")
    range_ps = pl.col("last_end_ps") - pl.col("first_begin_ps")
    return both.with_columns(device_step_time_ps=pl.coalesce(length, range_ps)).select(
        pl.col(name).cast(kind) for name, kind in DEVICE_SPANS.items()
    )


def _step_ranges(activity_steps: Int32s, device_activity: pl.DataFrame) -> pl.DataFrame:
    if not len(activity_steps):
        return pl.DataFrame(schema=_RANGE_COLUMNS)
    device = handles(device_activity, "device")
    width = int(device.max()) + 1
    # The code is negative on every device if the activity has no step.
    code = activity_steps if width == 1 else activity_steps * np.int32(width) + device
    ranges = time_ranges_by_code(
        code,
        ints(device_activity, "start_ps"),
        ints(device_activity, "dur_ps"),
        count=max(int(code.max()) + 1, 0),
    )
    used = np.flatnonzero(ranges.count)
    return pl.DataFrame(
        {
            "step_row": (used // width).astype(np.int32),
            "device": (used % width).astype(np.int32),
            "first_begin_ps": ranges.first_ps[used],
            "last_end_ps": ranges.last_ps[used],
        }
    )


def _step_of_stored(steps: Steps) -> Int32s:
    rows, stored = steps.rows, steps.stored
    for own_name, name in (("group", "group"), ("step", "number")):
        if rows[own_name].null_count() or stored[name].null_count() or not len(stored):
            continue
        row_of = {value: row for row, value in enumerate(rows[own_name].to_list())}
        step_rows = [row_of.get(value, -1) for value in stored[name].to_list()]
        return np.array(step_rows, np.int32)
    starts = ints(rows, "start_ps")
    begun = np.searchsorted(starts, ints(stored, "start_ps"), side="right") - 1
    return begun.astype(np.int32)


def first_compute(
    *, device_activity: pl.DataFrame, activity_steps: Int32s | Unavailable
) -> pl.DataFrame:
    """Find the earliest kernel of every step and device; collectives do not count.

    Returns:
        Columns `FIRST_COMPUTE`; a step and device without a kernel has no row.
    """
    device = handles(device_activity, "device")
    wanted = codes(device_activity, "kind") == KERNEL_KIND
    step = np.zeros(len(device), np.int32)
    if not isinstance(activity_steps, Unavailable):
        step = activity_steps
    # -1 marks an activity that belongs to no step.
    wanted &= step >= 0
    groups = number_rows((step, device))
    ranges = time_ranges_by_code(
        np.where(wanted, groups.code, np.int32(-1)),
        ints(device_activity, "start_ps"),
        ints(device_activity, "dur_ps"),
        count=groups.count,
    )
    present = np.flatnonzero(ranges.count)
    first = groups.first[present]
    rows = pl.DataFrame(
        {
            "step_row": step[first],
            "device": device[first],
            "first_compute_ps": ranges.first_ps[present],
        },
        schema=FIRST_COMPUTE,
    ).sort("step_row", "device")
    if isinstance(activity_steps, Unavailable):
        return rows.with_columns(step_row=pl.lit(None, pl.Int32))
    return rows
