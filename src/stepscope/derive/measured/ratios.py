"""Means over measured launches, and what follows from them."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.trace.tables import KERNEL_METRICS

#: Columns of `kernel_metrics` that have a mean.
MEASURES: Final = tuple(
    name
    for name, dtype in KERNEL_METRICS.dtypes_from("duration_ps").items()
    if dtype != pl.String()
)
#: Below this share of the peak neither computing nor memory is what limits a kernel
#: (NVIDIA's own limit in the section Speed of Light).
_BUSY: Final = 60.0
BOUNDS: Final = ("compute", "memory", "latency")
_LIMITS: Final = {
    "block_limit_registers": "registers",
    "block_limit_shared_memory": "shared_memory",
    "block_limit_warps": "warps",
    "block_limit_blocks": "blocks",
}
_FULL: Final = 100.0


def summarized(members: pl.DataFrame) -> pl.DataFrame:
    """Return the means of each `group`, null where no launch has the metric.

    Added are the sectors per request where only their parts were measured,
    `bank_conflict_percent` (passes of shared memory that conflicts add, of all),
    `occupancy_limiter` (what leaves room for the fewest blocks; null at full occupancy)
    and `bound` (compute, memory or latency: neither is busy).
    """
    longest = pl.col("stall_reason").sort_by("duration_ps", nulls_last=True)
    means = members.group_by("group", maintain_order=True).agg(
        *(pl.col(name).cast(pl.Float64).mean() for name in MEASURES),
        longest.drop_nulls().last().alias("stall_reason"),
    )
    return means.with_columns(
        _per_request("load"),
        _per_request("store"),
        _conflicts(),
        _limiter(),
        _bound(),
    )


def _per_request(what: str) -> pl.Expr:
    requests = pl.col(f"global_{what}_requests")
    counted = pl.when(requests > 0).then(pl.col(f"global_{what}_sectors") / requests)
    given = pl.col(f"{what}_sectors_per_request")
    return pl.coalesce(counted, given).alias(f"{what}_sectors_per_request")


def _conflicts() -> pl.Expr:
    more, every = pl.col("shared_memory_conflicts"), pl.col("shared_memory_wavefronts")
    return (
        pl.when(more == 0)
        .then(pl.lit(0.0))
        .when(every > 0)
        .then(100 * (more / every).clip(0, 1))
        .alias("bank_conflict_percent")
    )


def _limiter() -> pl.Expr:
    limits = [pl.col(name) for name in _LIMITS]
    known = pl.all_horizontal(one.is_not_null() for one in limits)
    least = pl.min_horizontal(limits)
    word = pl.coalesce(
        pl.when(pl.col(name) == least).then(pl.lit(what))
        for name, what in _LIMITS.items()
    )
    partly = pl.col("theoretical_occupancy_percent").fill_null(0) < _FULL
    return pl.when(known & partly).then(word).alias("occupancy_limiter")


def _bound() -> pl.Expr:
    compute, memory = pl.col("compute_percent"), pl.col("memory_percent")
    known = compute.is_not_null() & memory.is_not_null()
    return (
        pl.when(known & (pl.max_horizontal(compute, memory) < _BUSY))
        .then(pl.lit("latency"))
        .when(known & (compute >= memory))
        .then(pl.lit("compute"))
        .when(known)
        .then(pl.lit("memory"))
        .alias("bound")
    )
