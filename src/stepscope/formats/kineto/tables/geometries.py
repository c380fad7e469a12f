"""Distinct launch shapes of kernels, with what lies beyond the hardware refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.trace.reading.launch_limits import (
    MOST_GRID,
    MOST_REGISTERS,
    MOST_SHARED_BYTES,
    MOST_THREADS,
)
from stepscope.trace.tables import GEOMETRIES

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GRID: Final = ("grid_x", "grid_y", "grid_z")
_BLOCK: Final = ("block_x", "block_y", "block_z")


def geometries_of(
    frame: pl.DataFrame,
) -> tuple[NDArray[np.int32], pl.DataFrame, dict[str, int]]:
    """Number the launch shapes of kernels.

    Args:
        frame: Arguments of kernels, columns as `arguments.DEVICE`.

    Returns:
        Row of the table by kernel (-1: nothing is known), the table, and how many
        kernels had each field refused as impossible.
    """
    if frame.is_empty():
        return np.zeros(0, np.int32), pl.DataFrame(schema=GEOMETRIES.dtypes()), {}
    possible, refused = _possible(frame)
    columns = possible.select(
        # Zero registers or no such field: AMD's tracer does not know them.
        registers=pl.col("registers").replace(0, None),
        static_shared_memory_bytes=pl.lit(None),
        dynamic_shared_memory_bytes=pl.lit(None),
        shared_memory_bytes="shared",
        **{name: name for name in (*_BLOCK, *_GRID)},
        # PyTorch estimates what the grid achieves, and says 0 of every kernel with
        # more than 48 KiB of shared memory: no theoretical occupancy.
        occupancy_percent=pl.lit(None),
    )
    columns = columns.select(
        pl.col(name).cast(dtype) for name, dtype in GEOMETRIES.dtypes().items()
    )
    shapes = columns.unique(maintain_order=True)
    shapes = shapes.filter(~pl.all_horizontal(pl.all().is_null()))
    row = (
        columns.join(
            shapes.with_row_index("row"),
            on=columns.columns,
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )["row"]
        .cast(pl.Int32)
        .fill_null(-1)
    )
    return row.to_numpy(), shapes, refused


def _possible(frame: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
    """Return the arguments without impossible ones, and the number of these."""
    threads = pl.col("block_x") * pl.col("block_y") * pl.col("block_z")
    fine = {
        "registers": pl.col("registers").is_between(0, MOST_REGISTERS),
        "shared memory": pl.col("shared").is_between(0, MOST_SHARED_BYTES),
        # Each size first: a product of three could overflow.
        "block": pl.all_horizontal(pl.col(_BLOCK).is_between(1, MOST_THREADS))
        & (threads <= MOST_THREADS),
        "grid": pl.all_horizontal(pl.col(_GRID).is_between(1, MOST_GRID)),
    }
    of_field = {
        "registers": ("registers",),
        "shared memory": ("shared",),
        "block": _BLOCK,
        "grid": _GRID,
    }
    # Null where not recorded, which is no refusal.
    verdict = frame.select(**{f"{name}?": test for name, test in fine.items()})
    refused = {
        name: count
        for name in fine
        if (count := int((~verdict[f"{name}?"]).fill_null(value=False).sum()))
    }
    kept = frame.hstack(verdict).with_columns(
        pl.when(f"{name}?").then(pl.col(column)).alias(column)
        for name, columns in of_field.items()
        for column in columns
    )
    return kept, refused
