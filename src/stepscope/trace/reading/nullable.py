"""Arrays with gaps become series with nulls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["nullable"]


def nullable(name: str, values: NDArray[Any], present: NDArray[np.bool_]) -> pl.Series:
    """Return a series that is null wherever `present` is False."""
    series = pl.Series(name, values)
    if present.all():
        return series
    nothing = pl.Series([None], dtype=series.dtype).new_from_index(0, len(series))
    return series.zip_with(pl.Series("present", present), nothing)
