"""How fast ops computed and moved data, and what held them: rates against peaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.derive.ops.costs import host_op_costs, op_costs
from stepscope.derive.ops.database import device_ops, host_ops
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable
from stepscope.units import GIB, PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.derive.ops.database import DeviceOps, HostOps
    from stepscope.derive.profile_data import ProfileData

#: Columns that `rates` gives; null means unknown.
RATES: Final[dict[str, pl.DataType]] = {
    "measured_flop_rate": pl.Float64(),  # GFLOP/s
    "model_flop_rate": pl.Float64(),
    "measured_memory_bw": pl.Float64(),  # GiB/s
    "operational_intensity": pl.Float64(),  # FLOP per byte
    "bound_by": pl.String(),
}
_KEY: Final = ("module", "name")
#: Columns of the costs of all executions of an op; null means unknown.
COSTS: Final[dict[str, pl.DataType]] = {
    "module": pl.String(),
    "name": pl.String(),
    "flops": pl.Int64(),
    "model_flops": pl.Int64(),
    "accessed_bytes": pl.Int64(),
    "peak_flops": pl.Float64(),
    "peak_bytes": pl.Float64(),
}
_GIGA: Final = 1e9
#: An op that uses less than this of any unit waits for something else.
_IN_USE: Final = 0.01


NO_COSTS: Final = Unavailable(
    code="NO_SHAPES",
    reason="the work of these ops is not known: the sizes of their operands were not "
    "recorded, no formula is known for them, or a device does the work of a host op.",
    remedy=Remedy.RECORD_SHAPES,
)
_NO_PEAKS: Final = Unavailable(
    code="NO_PEAKS",
    reason="for these ops it is not known how much of a peak they use: the units that "
    "their kernels compute with or the peak rates of the device are unknown, or caches "
    "gave more than its memory can.",
    remedy="Hold the rates against the device's data sheet.",
)


def why_no_rates(rows: pl.DataFrame) -> dict[str, Unavailable]:
    """Return the reason why each of `RATES` can be null in all of these rows."""
    told = rows["operational_intensity"].count()
    return dict.fromkeys(RATES, NO_COSTS) | ({"bound_by": _NO_PEAKS} if told else {})


def device_costs(profile: ProfileData) -> pl.DataFrame:
    """Return `COSTS` by device op over all hosts and devices."""
    return profile.kept(_merged, op_costs, device_ops)


def host_costs(profile: ProfileData) -> pl.DataFrame:
    """Return `COSTS` by host op, where the hosts do the work themselves."""
    return profile.kept(_merged, host_op_costs, host_ops)


def _merged(
    profile: ProfileData,
    costs: Callable[..., pl.DataFrame | Unavailable],
    ops: Callable[..., DeviceOps | HostOps | Unavailable],
) -> pl.DataFrame:
    """Sum by op; what is unknown on one host or device is unknown in the sum."""
    frames = [pl.DataFrame(schema=COSTS)]
    of_host = {host: profile.derived(host, costs) for host in profile.hosts}
    if all(isinstance(found, Unavailable) for found in of_host.values()):
        return frames[0]
    for host, found in of_host.items():
        rows = profile.derived(host, ops)
        if isinstance(rows, Unavailable):
            continue
        told = rows.rows if isinstance(found, Unavailable) else found
        frames.append(
            told.select(
                (pl.col(name) if name in told.columns else pl.lit(None))
                .cast(dtype)
                .alias(name)
                for name, dtype in COSTS.items()
            )
        )
    counts = [pl.col(name) for name in COSTS if name not in _KEY]
    return (
        pl.concat(frames)
        .group_by(_KEY)
        .agg(pl.when(one.null_count() == 0).then(one.sum()) for one in counts)
    )


def rates(rows: pl.DataFrame, costs: pl.DataFrame) -> pl.DataFrame:
    """Return the columns `RATES` by row.

    `bound_by` is what is used most of what it could give in the time: the units that
    the op's kernels compute with (Compute), or the device's memory (HBM); Latency
    where neither is used for 1 %. A memory that gave more than it can is null: caches
    gave the rest, or its recorded rate is too low.

    Definition: docs/tools/framework_op_stats.md#how-each-number-is-defined.

    Args:
        rows: With `module`, `name`, `total_ps`.
        costs: As `device_costs` or `host_costs` returns.
    """
    if costs.is_empty():
        return pl.DataFrame(dict.fromkeys(RATES, [None] * len(rows)), schema=RATES)
    joined = rows[[*_KEY, "total_ps"]].join(
        costs, on=_KEY, how="left", nulls_equal=True, maintain_order="left"
    )
    # What does not compute uses no unit, whatever that could do.
    idle = pl.col("flops") == 0
    ran = pl.col("total_ps") > 0
    per_s = PS_PER_S / pl.col("total_ps")
    moved = pl.col("accessed_bytes") > 0
    compute = pl.when(idle).then(0.0).otherwise(pl.col("flops") / pl.col("peak_flops"))
    memory = pl.col("accessed_bytes") / pl.col("peak_bytes")
    possible = ran & (pl.max_horizontal(compute, memory) <= 1.0)
    bound = (
        pl.when(pl.max_horizontal(compute, memory) < _IN_USE)
        .then(pl.lit("Latency"))
        .when(compute >= memory)
        .then(pl.lit("Compute"))
        .when(memory > compute)
        .then(pl.lit("HBM"))
    )
    known = compute.is_not_null() & memory.is_not_null()
    return joined.select(
        pl.when(ran).then(pl.col("flops") * per_s / _GIGA).alias("measured_flop_rate"),
        pl.when(ran)
        .then(pl.col("model_flops") * per_s / _GIGA)
        .alias("model_flop_rate"),
        pl.when(ran)
        .then(pl.col("accessed_bytes") * per_s / GIB)
        .alias("measured_memory_bw"),
        pl.when(moved)
        .then(pl.col("flops") / pl.col("accessed_bytes"))
        .alias("operational_intensity"),
        pl.when(known & possible).then(bound).alias("bound_by"),
    )
