"""`first_compute`: when each device began to compute in each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FIRST_COMPUTE", "first_compute"]

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
    steps: pl.Series | pl.Expr = pl.lit(None, pl.Int32)
    if not isinstance(activity_steps, Unavailable):
        steps = pl.Series("step_row", activity_steps)
    return (
        device_activity.lazy()
        .select("device", "kind", "start_ps", step_row=steps)
        .filter(pl.col("kind") == "kernel")
        .group_by("step_row", "device")
        .agg(pl.col("start_ps").min().alias("first_compute_ps"))
        # -1: an activity that belongs to no step.
        .filter(pl.col("step_row").is_null() | (pl.col("step_row") >= 0))
        .sort("step_row", "device")
        .select(*FIRST_COMPUTE)
        .collect()
    )
