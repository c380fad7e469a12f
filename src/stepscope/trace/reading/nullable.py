"""Conversion between arrays with missing values and series with nulls.

Most columns have either no nulls or only nulls. The null count shows both cases without
a polars expression, which takes at least 40 us however short the column is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.array_types import Bools

#: Minimum number of values for polars; for fewer, its fixed cost of 50 us is too high.
_MIN_VALUES: Final = 20_000


def nullable_series(name: str, values: NDArray[Any], present: Bools) -> pl.Series:
    """Return a series that is null wherever `present` is False.

    The values of a long series are not copied, so they must not be changed afterwards.
    """
    series = pl.Series(name, values)
    if present.all():
        return series
    if len(series) >= _MIN_VALUES and present.any():
        marked = pl.when(pl.Series("present", present)).then(series)
        return pl.select(marked).to_series()
    nothing = pl.Series([None], dtype=series.dtype).new_from_index(0, len(series))
    return series.zip_with(pl.Series("present", present), nothing)


def present_mask(series: pl.Series) -> Bools:
    """Return True where a series has a value."""
    missing = series.null_count()
    if 0 < missing < len(series):
        array: Bools = series.is_not_null().to_numpy()
        return array
    return np.full(len(series), not missing)


def absent_mask(series: pl.Series) -> Bools:
    """Return True where a series is null."""
    return ~present_mask(series)


def fill_nulls(series: pl.Series, value: float) -> NDArray[Any]:
    """Return the values of a series, with `value` instead of every null."""
    missing = series.null_count()
    if missing and missing == len(series):
        return np.full(missing, value, series.clear().to_numpy().dtype)
    if missing:
        series = series.fill_null(value)
    return series.to_numpy()


def is_true(series: pl.Series) -> Bools:
    """Return True where a boolean series is true, False where it is false or null."""
    if series.null_count():
        series = series.fill_null(value=False)
    return series.to_numpy()
