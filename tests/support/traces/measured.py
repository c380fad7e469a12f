"""What Nsight Compute measured, from literal values: the rest of a row is unknown."""

from __future__ import annotations

import polars as pl

from stepscope.trace.tables import KERNEL_METRICS

__all__ = ["kernel_metrics"]

_SHAPE = {
    "grid_x": 8,
    "grid_y": 1,
    "grid_z": 1,
    "block_x": 64,
    "block_y": 1,
    "block_z": 1,
}


def kernel_metrics(*rows: dict[str, object]) -> pl.DataFrame:
    """A table of these launches, in order; of grid 8 and block 64 where not said."""
    schema = KERNEL_METRICS.dtypes()
    return pl.DataFrame(
        [
            {name: {"launch": at, **_SHAPE, **row}.get(name) for name in schema}
            for at, row in enumerate(rows)
        ],
        schema=schema,
    )
