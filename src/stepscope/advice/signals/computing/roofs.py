"""Signals about ops: how close each comes to what the device allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.signals.device import NO_KERNELS
from stepscope.advice.signals.shares import account_signals
from stepscope.advice.signals.signal import signal
from stepscope.derive.account.owned_time import account
from stepscope.derive.ops.costs import op_costs
from stepscope.derive.ops.database import device_ops
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals.shares import AccountSignals
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

_KEY: Final = ["device", "module", "name"]


@signal(account, device_ops, op_costs, reads=(account_signals,))
def op_roofs(
    profile: ProfileData,
    _: Thresholds,
    found: AccountSignals | Unavailable,
) -> pl.DataFrame | Unavailable:
    """Return how close the ops of the judged device come to its limits.

    Returns:
        One row per op, most time first: `op`, `share` of all kernels' time in percent,
        `of_limit`: the part of the limit that it reaches in percent (the larger of its
        operations over those that its kernels could have done, and its bytes over those
        that the memory could have moved), null where work or limit are unknown; `bound`
        ("memory" or "compute").
    """
    if isinstance(found, Unavailable):
        return found
    judged = found.judged()
    if judged.device is None:
        return NO_KERNELS
    ops = profile.derived(judged.host, device_ops)
    costs = profile.derived(judged.host, op_costs)
    if isinstance(ops, Unavailable):
        return ops
    if isinstance(costs, Unavailable):
        return costs
    mine = ops.rows.filter(
        (pl.col("device") == judged.device) & (pl.col("kernel_ps") > 0)
    )
    compute = pl.col("flops") / pl.col("peak_flops")
    memory = pl.col("accessed_bytes") / pl.col("peak_bytes")
    known = compute.is_not_null() & memory.is_not_null() & compute.is_finite()
    return (
        mine.join(costs, on=_KEY, how="left", maintain_order="left", nulls_equal=True)
        .select(
            pl.col("name").alias("op"),
            (100 * pl.col("kernel_ps") / pl.col("kernel_ps").sum()).alias("share"),
            pl.when(known)
            .then(100 * pl.max_horizontal(compute, memory))
            .alias("of_limit"),
            pl.when(memory >= compute)
            .then(pl.lit("memory"))
            .otherwise(pl.lit("compute"))
            .alias("bound"),
        )
        .sort("share", "op", descending=[True, False])
    )
