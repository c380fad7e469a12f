"""`first_compute`: when each device began to compute in each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.columns.dense_codes import combined, hulls_by
from stepscope.derive.device.precision import KERNEL_KIND
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

FIRST_COMPUTE: Final[dict[str, pl.DataType]] = {
    "step_row": pl.Int32(),  # row of steps; null where there are no steps
    "device": pl.Int32(),
    "first_compute_ps": pl.Int64(),
}


def first_compute(
    *, device_activity: pl.DataFrame, activity_steps: NDArray[np.int32] | Unavailable
) -> pl.DataFrame:
    """Find the earliest kernel of every step and device, collectives left out.

    Returns:
        Columns `FIRST_COMPUTE`; no row where a device computed nothing in a step.
    """
    device = handles(device_activity, "device")
    wanted = codes(device_activity, "kind") == KERNEL_KIND
    step = np.zeros(len(device), np.int32)
    if not isinstance(activity_steps, Unavailable):
        step = activity_steps
    # -1: an activity that belongs to no step.
    wanted &= step >= 0
    groups = combined((step, device))
    found = hulls_by(
        np.where(wanted, groups.code, np.int32(-1)),
        ints(device_activity, "start_ps"),
        ints(device_activity, "dur_ps"),
        count=groups.count,
    )
    some = np.flatnonzero(found.count)
    first = groups.first[some]
    rows = pl.DataFrame(
        {
            "step_row": step[first],
            "device": device[first],
            "first_compute_ps": found.first_ps[some],
        },
        schema=FIRST_COMPUTE,
    ).sort("step_row", "device")
    if isinstance(activity_steps, Unavailable):
        return rows.with_columns(step_row=pl.lit(None, pl.Int32))
    return rows
