"""Op tables of several hosts merged by module and name, and rates of work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.analysis.results.tables import (
    complete_sum,
    package_reasons,
    sum_of_known,
)
from stepscope.derive.device.correlation import correlation, idle_waits_ps, typical_ps
from stepscope.derive.names.event_kinds import OpCategory
from stepscope.derive.ops.costs import host_op_costs, op_costs
from stepscope.derive.ops.database import device_ops, host_ops
from stepscope.derive.step_windows.windows import windows
from stepscope.derive.steps.chosen import steps
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.units import GIB, PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.derive.ops.database import DeviceOps, HostOps
    from stepscope.derive.profile_data import ProfileData

_WHY: Final = package_reasons("ops")

#: Columns of host ops and of device ops after merging; null means unknown.
MERGED_ROWS: Final[dict[str, pl.DataType]] = {
    "name": pl.String(),
    "type": pl.String(),
    "category": pl.String(),
    "evidence": pl.UInt8(),  # an `OpEvidence`; null for host ops
    "module": pl.String(),
    "instructions": pl.List(pl.String()),
    "source_file": pl.String(),
    "source_line": pl.Int64(),
    "occurrences": pl.Int64(),
    "activities": pl.Int64(),
    "total_ps": pl.Int64(),
    "self_ps": pl.Int64(),
    "exposed_ps": pl.Int64(),
    "kernel_ps": pl.Int64(),
    "tensor_core_ps": pl.Int64(),
    "tensor_core_unknown_ps": pl.Int64(),
    "tensor_core_eligible": pl.Boolean(),
    "eager": pl.Int64(),
    "function": pl.Int64(),
    "step_ps": pl.Int64(),
    "hosts": pl.List(pl.String()),
}
_SUMS: Final = (
    *("occurrences", "activities", "total_ps", "self_ps", "exposed_ps", "kernel_ps"),
    *("tensor_core_ps", "tensor_core_unknown_ps", "eager", "function", "step_ps"),
)

#: Columns that `work_rates` returns; null means unknown.
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
#: Latency limits an op that uses at most this fraction of each peak rate.
_IN_USE: Final = 0.01


NO_COSTS: Final = _WHY["no_costs"]


def why_no_rates(rows: pl.DataFrame) -> dict[str, Unavailable]:
    """Return why columns of `RATES` can be null in all of these rows."""
    return dict.fromkeys(RATES, NO_COSTS) | (
        {"bound_by": _WHY["no_peaks"]} if rows["operational_intensity"].count() else {}
    )


def device_costs(profile: ProfileData) -> pl.DataFrame:
    """Return `COSTS` by device op over all hosts and devices."""
    return profile.kept(_merged_costs, op_costs, device_ops)


def host_costs(profile: ProfileData) -> pl.DataFrame:
    """Return `COSTS` by host op, for hosts that do the model's work themselves."""
    return profile.kept(_merged_costs, host_op_costs, host_ops)


def _merged_costs(
    profile: ProfileData,
    costs: Callable[..., pl.DataFrame | Unavailable],
    ops: Callable[..., DeviceOps | HostOps | Unavailable],
) -> pl.DataFrame:
    """Add up costs by op; a sum is unknown if the value of any device is unknown."""
    frames = [pl.DataFrame(schema=COSTS)]
    of_host = {host: profile.derived(host, costs) for host in profile.hosts}
    if all(isinstance(host_costs, Unavailable) for host_costs in of_host.values()):
        return frames[0]
    for host, host_costs in of_host.items():
        rows = profile.derived(host, ops)
        if isinstance(rows, Unavailable):
            continue
        costs_or_ops = rows.rows if isinstance(host_costs, Unavailable) else host_costs
        frames.append(
            costs_or_ops.select(
                (pl.col(name) if name in costs_or_ops.columns else pl.lit(None))
                .cast(dtype)
                .alias(name)
                for name, dtype in COSTS.items()
            )
        )
    counts = [pl.col(name) for name in COSTS if name not in _KEY]
    return pl.concat(frames).group_by(_KEY).agg(*map(complete_sum, counts))


def work_rates(rows: pl.DataFrame, costs: pl.DataFrame) -> pl.DataFrame:
    """Return the columns `RATES` by row.

    `bound_by` is the resource whose use is nearest to its peak: the units that the op's
    kernels compute with (Compute), or the device's memory (HBM). `bound_by` is Latency
    if both are used less than 1 %. `bound_by` is null if a rate exceeds its peak,
    because caches served the accesses or the recorded peak is too low.

    Definition: docs/tools/framework_op_stats.md#how-each-number-is-defined.

    Args:
        rows: Ops with `module`, `name`, `total_ps`.
        costs: Result of `device_costs` or `host_costs`.
    """
    if costs.is_empty():
        return pl.DataFrame(dict.fromkeys(RATES, [None] * len(rows)), schema=RATES)
    joined = rows[[*_KEY, "total_ps"]].join(
        costs, on=_KEY, how="left", nulls_equal=True, maintain_order="left"
    )
    # If an op has no FLOPs, it uses no compute unit, whatever the unit's peak is.
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
        *(
            pl.when(ran).then(pl.col(work) * per_s / unit).alias(rate)
            for rate, work, unit in (
                ("measured_flop_rate", "flops", _GIGA),
                ("model_flop_rate", "model_flops", _GIGA),
                ("measured_memory_bw", "accessed_bytes", GIB),
            )
        ),
        pl.when(moved)
        .then(pl.col("flops") / pl.col("accessed_bytes"))
        .alias("operational_intensity"),
        pl.when(known & possible).then(bound).alias("bound_by"),
    )


class Side(Frozen, frozen=True):
    """All ops of the hosts, or of the devices.

    Attributes:
        rows: One row per (module, name), columns `MERGED_ROWS`, by self time
            descending, then name, then module.
        idle_ps: Idle time summed over all hosts (or devices).
        step_count: Number of steps of all hosts; None if no host has steps.
        absent: Host → why it has no ops on this side.
    """

    rows: pl.DataFrame
    idle_ps: int
    step_count: int | None
    absent: dict[str, Unavailable]


def host_side(profile: ProfileData) -> Side:
    """Merge the host ops of all hosts of a profile."""
    return profile.kept(_merged_side, host_ops)


def device_side(profile: ProfileData) -> Side:
    """Merge the device ops of all hosts and devices of a profile."""
    return profile.kept(_merged_side, device_ops)


def _merged_side(
    profile: ProfileData, ops: Callable[..., DeviceOps | HostOps | Unavailable]
) -> Side:
    names = {int(category): category.name.lower() for category in OpCategory}
    on_device = ops is device_ops
    added = [pl.col("total_ps").alias("self_ps")]
    if not on_device:
        category = pl.col("category").replace_strict(names, return_dtype=pl.String)
        added = [category, pl.col("step_self_ps").alias("step_ps")]
    frames: list[pl.DataFrame] = []
    absent: dict[str, Unavailable] = {}
    idle_ps, step_counts = 0, []
    for host in profile.hosts:
        of_host = profile.derived(host, ops)
        if isinstance(of_host, Unavailable):
            absent[host] = of_host
        elif on_device and not len(of_host.rows):
            absent[host] = NO_ACTIVITY
        else:
            frames.append(of_host.rows.with_columns(*added, host=pl.lit(host)))
            idle = of_host.idle_ps
            idle_ps += idle if isinstance(idle, int) else sum(idle.values())
            step_counts.append(of_host.step_count)
    known = [count for count in step_counts if count is not None]
    return Side(_merge_ops(frames), idle_ps, sum(known) if known else None, absent)


#: Reason for a listed device without activity: nothing is known of its work.
NO_ACTIVITY: Final = _WHY["no_activity"]
NO_OPS: Final = _WHY["no_ops"]


def without_steps(profile: ProfileData) -> Unavailable:
    """Return why no time per step of a run is known."""
    for host in profile.hosts:
        for derived in (profile.derived(host, steps), profile.derived(host, windows)):
            if isinstance(derived, Unavailable):
                return derived
    return _WHY["no_step_of_activity"]


def launch_latency_ps(profile: ProfileData) -> tuple[int, int]:
    """Return the median launch latency of all hosts, and the number of launches.

    Definition: docs/definitions/device-work.md#launch-latency.
    """
    waits = [np.empty(0, np.int64)]
    for host in profile.hosts:
        matched = profile.derived(host, correlation)
        if not isinstance(matched, Unavailable):
            waits.append(idle_waits_ps(matched))
    return typical_ps(np.concatenate(waits))


def _merge_ops(frames: list[pl.DataFrame]) -> pl.DataFrame:
    if not frames:
        return pl.DataFrame(schema=MERGED_ROWS)
    all_rows = pl.concat(
        [
            frame.select(
                "host",
                *(
                    pl.col(name).cast(dtype)
                    if name in frame.columns
                    else pl.lit(None, dtype).alias(name)
                    for name, dtype in MERGED_ROWS.items()
                    if name != "hosts"
                ),
            )
            for frame in frames
        ]
    )
    grouped = all_rows.group_by("module", "name", maintain_order=True).agg(
        *(
            pl.col(name).drop_nulls().first()
            for name in ("type", "category", "source_file", "source_line")
        ),
        pl.col("instructions").explode().drop_nulls().unique().sort(),
        pl.col("evidence").min(),
        *map(sum_of_known, _SUMS),
        pl.col("tensor_core_eligible").any(ignore_nulls=False),
        pl.col("host").unique().sort().alias("hosts"),
    )
    return grouped[list(MERGED_ROWS)].sort(
        "self_ps", "name", "module", descending=[True, False, False]
    )
