"""Latencies of requests in a few numbers: the true mean and percentiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies in ms.

    Definition: docs/tools/inference_profile.md#how-each-number-is-defined.

    Attributes:
        mean: Arithmetic mean.
        std: Sample standard deviation, with n - 1; null of one request.
        min: Shortest latency.
        p50: Median: of an even number of requests the mean of the two middle ones.
        p75: 75th percentile, by nearest rank.
        p90: 90th percentile, by nearest rank.
        p95: 95th percentile, by nearest rank.
        p99: 99th percentile, by nearest rank.
        p999: 99.9th percentile, by nearest rank.
        max: Longest latency.
    """

    mean: float
    std: float | None
    min: float
    p50: float
    p75: float
    p90: float
    p95: float
    p99: float
    p999: float
    max: float


#: Field → per mille.
_RANKS: Final = {"p75": 750, "p90": 900, "p95": 950, "p99": 990, "p999": 999}


def nearest_rank(ascending: NDArray[np.int64], per_mille: int) -> int:
    """Return the smallest value that at least so many of all values do not exceed.

    Args:
        ascending: At least one value.
        per_mille: From 1 to 1000.
    """
    # Whole numbers: 0.07 * 100 is a little more than 7.
    rank = -(-per_mille * len(ascending) // 1000)
    return int(ascending[rank - 1])


def latency_of(durations: NDArray[np.int64], *, scale: float) -> Latency:
    """Describe some durations, at least one, divided by `scale`."""
    ordered = np.sort(durations)
    std = None
    if len(ordered) > 1:
        equal = ordered[0] == ordered[-1]
        std = 0.0 if equal else float(ordered.std(ddof=1)) / scale
    ranks = {name: nearest_rank(ordered, rank) for name, rank in _RANKS.items()}
    return Latency(
        mean=float(ordered.mean()) / scale,
        std=std,
        min=int(ordered[0]) / scale,
        p50=float(np.median(ordered)) / scale,
        **{name: value / scale for name, value in ranks.items()},
        max=int(ordered[-1]) / scale,
    )
