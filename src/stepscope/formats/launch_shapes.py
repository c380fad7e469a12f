"""Distinct launch shapes of kernels, with what lies beyond the hardware refused.

Limits of every GPU built so far (CUDA programming guide, compute capabilities): 255
registers a thread, 1,024 threads a block, 227 KiB of shared memory. The first and the
last are taken generously, so that the next generation is not refused. Values beyond
them were never written, or damaged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.trace.tables import GEOMETRIES

if TYPE_CHECKING:
    from stepscope.array_types import Int32s, Int64s

MOST_REGISTERS: Final = 512
MOST_THREADS: Final = 1024
MOST_GRID: Final = 2**31 - 1
MOST_SHARED_BYTES: Final = 2**20

#: Field of a launch → the columns of `geometries` that it fills.
_COLUMNS_OF: Final = {
    "registers": ("registers",),
    "shared memory": (
        "static_shared_memory_bytes",
        "dynamic_shared_memory_bytes",
        "shared_memory_bytes",
    ),
    "block": ("block_x", "block_y", "block_z"),
    "grid": ("grid_x", "grid_y", "grid_z"),
}


def number_shapes(
    recorded: pl.DataFrame, counts: Int64s
) -> tuple[pl.DataFrame, Int32s, dict[str, int]]:
    """Number launch shapes in the order of their first rows.

    Args:
        recorded: Launches, with those columns of `geometries` that the format has.
            Shared memory that is declared and asked for counts apart from their sum.
        counts: How many kernels each of them is.

    Returns:
        The table `geometries`, its row by launch (-1: nothing is known), and how many
        kernels had each field refused as impossible.
    """
    # By field whether its values can be; null where it is not recorded.
    parts = [name for name in _COLUMNS_OF["shared memory"][:2] if name in recorded]
    shared = parts or ["shared_memory_bytes"]
    block, grid = _COLUMNS_OF["block"], _COLUMNS_OF["grid"]
    threads = pl.col("block_x") * pl.col("block_y") * pl.col("block_z")
    fits = recorded.select(
        **{
            "registers": pl.col("registers").is_between(0, MOST_REGISTERS),
            "shared memory": pl.all_horizontal(
                pl.col(shared).is_between(0, MOST_SHARED_BYTES)
            ),
            # Each size first: a product of three could overflow.
            "block": pl.all_horizontal(pl.col(block).is_between(1, MOST_THREADS))
            & (threads <= MOST_THREADS),
            "grid": pl.all_horizontal(pl.col(grid).is_between(1, MOST_GRID)),
        }
    )
    refused = {
        field: count
        for field in fits.columns
        if (count := int(counts[~fits[field].fill_null(value=True).to_numpy()].sum()))
    }
    judged = recorded.hstack(fits.rename(lambda field: f"{field}?"))
    field_of = {name: field for field, names in _COLUMNS_OF.items() for name in names}
    shapes = judged.select(
        (
            # Null where not recorded, which is no refusal.
            pl.when(f"{field_of[name]}?").then(name)
            if name in recorded.columns
            else pl.lit(None)
        )
        .cast(dtype, strict=False)
        .alias(name)
        for name, dtype in GEOMETRIES.dtypes().items()
    )
    known = shapes.unique(maintain_order=True)
    known = known.filter(~pl.all_horizontal(pl.all().is_null()))
    rows = shapes.join(
        known.with_row_index("row"),
        on=shapes.columns,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )["row"]
    return known, rows.cast(pl.Int32).fill_null(-1).to_numpy(), refused
