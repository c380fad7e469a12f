"""Distinct launch shapes of kernels, without values that the hardware cannot have.

Every GPU built so far has at most 255 registers per thread, 1,024 threads per block and
227 KiB of shared memory (CUDA programming guide, compute capabilities). The limits here
on registers and shared memory are higher, so that the next GPU generation is accepted.
Values above the limits are uninitialised fields or damage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.trace.tables import GEOMETRIES

if TYPE_CHECKING:
    from stepscope.array_types import Int32s, Int64s

MAX_REGISTERS: Final = 512
MAX_THREADS: Final = 1024
MAX_GRID: Final = 2**31 - 1
MAX_SHARED_BYTES: Final = 2**20

#: Field of a launch → the columns of `geometries` with values of the field.
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
        recorded: Launches, with the columns of `geometries` that the format has. If
            static and dynamic shared memory are given, their sum is not checked.
        counts: Number of kernels for each row of `recorded`.

    Returns:
        The table `geometries`, the table row of each launch (-1 if nothing is known),
        and per field the number of kernels whose value was refused as impossible.
    """
    # One column per field: True where its values are possible; null if not recorded.
    parts = [name for name in _COLUMNS_OF["shared memory"][:2] if name in recorded]
    shared = parts or ["shared_memory_bytes"]
    block, grid = _COLUMNS_OF["block"], _COLUMNS_OF["grid"]
    threads = pl.col("block_x") * pl.col("block_y") * pl.col("block_z")
    fits = recorded.select(
        **{
            "registers": pl.col("registers").is_between(0, MAX_REGISTERS),
            "shared memory": pl.all_horizontal(
                pl.col(shared).is_between(0, MAX_SHARED_BYTES)
            ),
            # Check each size first: the product of unchecked sizes could overflow.
            "block": pl.all_horizontal(pl.col(block).is_between(1, MAX_THREADS))
            & (threads <= MAX_THREADS),
            "grid": pl.all_horizontal(pl.col(grid).is_between(1, MAX_GRID)),
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
            # A value that was not recorded stays null and does not count as refused.
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
