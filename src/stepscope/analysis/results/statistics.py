"""Mean, standard deviation and order statistics of a sample, and reasons of nulls."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import ArrayLike

NO_SAMPLES: Final = Unavailable(
    code="NO_SAMPLES",
    reason="The recording contains no value for this statistic.",
    remedy="Record several complete steps.",
)
SINGLE_SAMPLE: Final = Unavailable(
    code="SINGLE_SAMPLE",
    reason="A standard deviation needs at least two values.",
    remedy="Record more than one complete step.",
)


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """Six statistics of a sample; null means undefined.

    Definition: docs/definitions/times-and-values.md#statistics.

    Attributes:
        mean: Arithmetic mean.
        std: Sample standard deviation, with n - 1; null for fewer than two values.
        min: Smallest value.
        max: Largest value.
        median: Median; the mean of the two middle values for an even number of values.
        p95: 95th percentile, by nearest rank.
    """

    mean: float | None = None
    std: float | None = None
    min: float | None = None
    max: float | None = None
    median: float | None = None
    p95: float | None = None


def percent_of(part: float | None, total: float | None) -> float | None:
    """Return a part in percent of a total; None if one is unknown or the total is 0."""
    return None if part is None or not total else 100.0 * part / total


def means_ms(frame: pl.DataFrame) -> dict[str, float]:
    """Return the mean of each column in ms, from exact sums, by name without `_ps`."""
    return {
        column.name.removesuffix("_ps"): int(column.sum()) / len(column) / PS_PER_MS
        for column in frame
        if len(column)
    }


def sample_statistics(
    values: ArrayLike, *, field: str, scale: float = 1.0
) -> tuple[Statistics, tuple[Missing, ...]]:
    """Compute statistics of values divided by `scale`, and list which are null.

    Args:
        values: Integers or reals; integers are summed exactly.
        field: Name of the field in the result, for the entries of missing values.
        scale: Number of units of `values` in one unit of the result.
    """
    sample = np.sort(np.asarray(values).ravel())
    if not len(sample):
        return Statistics(), (NO_SAMPLES.missing_field(field),)
    mean = float(sample.mean())
    std = None
    if len(sample) > 1:
        # If all values are equal, the spread is 0, even if rounding changes the mean.
        std = 0.0 if sample[0] == sample[-1] else float(sample.std(ddof=1)) / scale
    statistics = Statistics(
        mean=mean / scale,
        std=std,
        min=float(sample[0]) / scale,
        max=float(sample[-1]) / scale,
        median=float(np.median(sample)) / scale,
        p95=float(sample[math.ceil(0.95 * len(sample)) - 1]) / scale,
    )
    missing = () if std is not None else (SINGLE_SAMPLE.missing_field(f"{field}.std"),)
    return statistics, missing
