"""Latency statistics of requests, and what requests spend their time on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.results.statistics import means_ms, sample_statistics
from stepscope.derive.inference_requests import REQUEST_BUCKETS
from stepscope.derive.step_time.owners import CATEGORIES
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.array_types import Int64s
    from stepscope.unavailable import Missing, Unavailable


_OTHER_BUCKET: Final = REQUEST_BUCKETS[-1]


class SlowRequests(msgspec.Struct, frozen=True, kw_only=True):
    """The slowest requests compared with typical requests of the same batch sizes.

    A request is typical if its latency is at most the median for its batch size.

    Attributes:
        threshold_ms: 95th percentile of all latencies, from which a request is slow.
        requests: Number of slow requests.
        latency_ms: Mean latency of the slow requests.
        typical_ms: Mean latency of typical requests of the same batch sizes.
        breakdown_ms: Bucket → mean time of the slow requests.
        excess_ms: Bucket → mean time of slow requests minus that of typical requests;
            the values add up to `latency_ms` - `typical_ms`.
        waited_for: Bucket with the largest excess; null if no bucket has an excess.
    """

    threshold_ms: float
    requests: int
    latency_ms: float
    typical_ms: float
    breakdown_ms: dict[str, float]
    excess_ms: dict[str, float]
    waited_for: str | None


def bucket_columns(rows: pl.DataFrame, why: Mapping[str, Unavailable]) -> pl.DataFrame:
    """Return a column per latency bucket that can be shown; they add up to `dur_ps`.

    A bucket that is unknown for some requests counts as unexplained. If time of a
    category was not recorded (for other reasons than a missing device), its buckets are
    shown only if they contain time, because a zero would mean no time at all.

    Args:
        rows: `dur_ps` and the columns of the buckets.
        why: Bucket → why it could not be measured.
    """
    known = {
        bucket.name: bucket.category
        for bucket in REQUEST_BUCKETS
        if not rows[f"{bucket.name}_ps"].null_count()
    }
    lost = {
        bucket.category
        for bucket in REQUEST_BUCKETS
        if bucket.name not in known
        and bucket.name in why
        and why[bucket.name].code != "NO_DEVICE_PLANE"
    }
    names = [
        name
        for name, category in known.items()
        if name != _OTHER_BUCKET.name
        and (
            category not in lost
            or category == _OTHER_BUCKET.category
            or rows[f"{name}_ps"].sum()
        )
    ]
    columns = [pl.col(f"{name}_ps").alias(name) for name in names]
    remainder = pl.col("dur_ps") - (pl.sum_horizontal(*columns) if columns else 0)
    return rows.select(*columns, remainder.alias(_OTHER_BUCKET.name))


def category_columns(buckets: pl.DataFrame) -> pl.DataFrame:
    """Return one column per category that can be shown, in category order."""
    parts = {
        category: [
            bucket.name
            for bucket in REQUEST_BUCKETS
            if bucket.category == category and bucket.name in buckets.columns
        ]
        for category in CATEGORIES
    }
    return buckets.select(
        pl.sum_horizontal(*names).alias(category)
        for category, names in parts.items()
        if names
    )


def left_out(
    buckets: pl.DataFrame, missing: Mapping[str, Unavailable]
) -> list[Missing]:
    """Return why categories and buckets are not shown."""
    shown = category_columns(buckets).columns
    entries = []
    for category in CATEGORIES:
        bucket_names = [
            bucket.name for bucket in REQUEST_BUCKETS if bucket.category == category
        ]
        why = next((missing[name] for name in bucket_names if name in missing), None)
        if category not in shown and why is not None:
            entries.append(why.missing_field(f"breakdown_ms.{category}"))
    entries += [
        missing[bucket.name].missing_field(f"breakdown_detail_ms.{bucket.name}")
        for bucket in REQUEST_BUCKETS
        if bucket.name not in buckets.columns and bucket.name in missing
    ]
    return entries


def slow_requests(
    rows: pl.DataFrame, buckets: pl.DataFrame, *, threshold_ps: int
) -> SlowRequests:
    """Compare the slow requests with typical requests of the same batch sizes.

    Args:
        rows: `dur_ps` and `batch_size` of at least two requests.
        threshold_ps: Minimum latency of a slow request.
    """
    names = buckets.columns
    requests = rows.select("dur_ps", "batch_size").hstack(buckets)
    slow = requests.filter(pl.col("dur_ps") >= threshold_ps)
    usual = (
        requests.filter(
            pl.col("dur_ps") <= pl.col("dur_ps").median().over("batch_size")
        )
        .group_by("batch_size")
        .agg(pl.col("dur_ps", *names).mean().name.suffix("_usual"))
    )
    paired = slow.join(usual, on="batch_size", how="left", nulls_equal=True)
    excess = {
        name: _mean_time(paired[name] - paired[f"{name}_usual"]) / PS_PER_MS
        for name in names
    }
    largest = max(excess, key=lambda name: excess[name])
    return SlowRequests(
        threshold_ms=threshold_ps / PS_PER_MS,
        requests=slow.height,
        latency_ms=means_ms(slow.select("dur_ps"))["dur"],
        typical_ms=_mean_time(paired["dur_ps_usual"]) / PS_PER_MS,
        breakdown_ms=means_ms(slow.select(names)),
        excess_ms=excess,
        waited_for=largest if excess[largest] > 0 else None,
    )


def _mean_time(times: pl.Series) -> float:
    return float(times.to_numpy().mean())


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Latency statistics, in ms.

    Definition: docs/tools/inference_profile.md#how-each-number-is-defined.

    Attributes:
        mean: Arithmetic mean.
        std: Sample standard deviation, with n - 1; null for one request.
        min: Shortest latency.
        p50: Median; for an even number of requests, the mean of the middle two.
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


#: Field → percentile, in per mille.
_RANKS: Final = {"p75": 750, "p90": 900, "p95": 950, "p99": 990, "p999": 999}


def nearest_rank(ascending: Int64s, per_mille: int) -> int:
    """Return a percentile by nearest rank.

    Args:
        ascending: At least one value.
        per_mille: The percentile, from 1 to 1000.
    """
    # Integers, because 0.07 * 100 is slightly more than 7.
    rank = -(-per_mille * len(ascending) // 1000)
    return int(ascending[rank - 1])


def describe_latency(durations: Int64s, *, scale: float = PS_PER_MS) -> Latency:
    """Return statistics of at least one duration, divided by `scale`."""
    ordered = np.sort(durations)
    ranks = {name: nearest_rank(ordered, rank) for name, rank in _RANKS.items()}
    return Latency(
        mean=float(ordered.mean()) / scale,
        std=sample_statistics(ordered, field="", scale=scale)[0].std,
        min=int(ordered[0]) / scale,
        p50=float(np.median(ordered)) / scale,
        **{name: value / scale for name, value in ranks.items()},
        max=int(ordered[-1]) / scale,
    )
