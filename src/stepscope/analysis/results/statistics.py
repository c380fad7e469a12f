"""Mean, spread and order statistics of a sample, and why one is missing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepscope.unavailable import Missing, Unavailable

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

NO_SAMPLES: Final = Unavailable(
    code="NO_SAMPLES",
    reason="There is no value to form a statistic from.",
    remedy="Record some complete steps.",
)
SINGLE_SAMPLE: Final = Unavailable(
    code="SINGLE_SAMPLE",
    reason="One value has no spread.",
    remedy="Record more than one complete step.",
)


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """A sample in six numbers; null means not defined.

    Definition: docs/definitions/times-and-values.md#statistics.

    Attributes:
        mean: Arithmetic mean.
        std: Sample standard deviation, with n - 1; null of fewer than two values.
        min: Least value.
        max: Greatest value.
        median: Mean of the two middle values for an even number of them.
        p95: 95th percentile, by nearest rank.
    """

    mean: float | None = None
    std: float | None = None
    min: float | None = None
    max: float | None = None
    median: float | None = None
    p95: float | None = None


def sample_statistics(
    values: ArrayLike, *, field: str, scale: float = 1.0
) -> tuple[Statistics, tuple[Missing, ...]]:
    """Compute statistics of values divided by `scale`, and list their nulls.

    Args:
        values: Integers or reals; integers are summed exactly.
        field: Name of the field in the result, for the entries of what is missing.
        scale: Units of the values in one unit of the result.
    """
    sample = np.sort(np.asarray(values).ravel())
    if not len(sample):
        return Statistics(), (NO_SAMPLES.missing_field(field),)
    mean = float(sample.mean())
    std = None
    if len(sample) > 1:
        # Equal values have no spread, whatever rounding makes of their mean.
        equal = sample[0] == sample[-1]
        std = 0.0 if equal else float(sample.std(ddof=1)) / scale
    found = Statistics(
        mean=mean / scale,
        std=std,
        min=float(sample[0]) / scale,
        max=float(sample[-1]) / scale,
        median=float(np.median(sample)) / scale,
        p95=float(sample[math.ceil(0.95 * len(sample)) - 1]) / scale,
    )
    missing = () if std is not None else (SINGLE_SAMPLE.missing_field(f"{field}.std"),)
    return found, missing
