"""Launch shapes: every kernel has the number of its shape in place of nine columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Columns of a shape → those of the file.
SHAPE: Final = {
    "registers": "registersPerThread",
    "static": "staticSharedMemory",
    "dynamic": "dynamicSharedMemory",
    **{
        f"{it}_{axis}": f"{it}{axis.upper()}"
        for it in ("block", "grid")
        for axis in "xyz"
    },
}
#: Two values below it make one that fits 64 bits.
_MOST: Final = 2**31


def distinct_rows(frame: pl.DataFrame) -> tuple[pl.DataFrame, NDArray[np.int32]]:
    """Return the distinct rows of columns of integers, and which one each row is.

    Values of most columns lie close together, so that a few multiplications turn
    several columns into one.
    """
    key, width = np.zeros(frame.height, np.int64), 1
    for column in frame.get_columns():
        values, own = _from_zero(column)
        if own == 1:
            continue
        if width > 1 and width * own > _MOST**2:
            key, width = _numbered(pl.Series(key))
        key, width = key * own + values, width * own
    key, count = _numbered(pl.Series(key))
    row = np.empty(count, np.int64)
    row[key] = np.arange(frame.height)
    return frame[row], key.astype(np.int32)


def _from_zero(column: pl.Series) -> tuple[NDArray[np.int64], int]:
    """Return numbers from 0 up that differ where the values do, and their bound."""
    least, most = column.min(), column.max()
    if not isinstance(least, int) or not isinstance(most, int):
        return np.zeros(len(column), np.int64), 1
    if column.null_count() or most - least >= _MOST:
        return _numbered(column)
    return column.to_numpy() - least, most - least + 1


def _numbered(values: pl.Series) -> tuple[NDArray[np.int64], int]:
    """Number the distinct values, null among them."""
    distinct = values.drop_nulls().unique().sort().to_numpy()
    number = np.searchsorted(distinct, values.fill_null(0).to_numpy())
    if not values.null_count():
        return number, len(distinct)
    number[values.is_null().to_numpy()] = len(distinct)
    return number, len(distinct) + 1
