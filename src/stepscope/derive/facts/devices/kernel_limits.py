"""Distance of ops from the device's roofline, and kernel metrics of Nsight Compute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.derive.device.kernel_names import plain_name
from stepscope.derive.device.measured_kernels import SHAPE, summarise_groups
from stepscope.derive.facts.devices.kernel_kinds import FusableRuns
from stepscope.derive.facts.devices.kernel_work import KernelWork
from stepscope.derive.run_derivation import known_hosts, of_run
from stepscope.derive.verdicts.recorded_devices import NO_KERNELS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.device.measured_kernels import MeasuredKernels
    from stepscope.derive.facts.step_shares import AccountSignals
    from stepscope.derive.ops.database import DeviceOps
    from stepscope.derive.run_derivation import OfHosts

_KEY: Final = ["device", "module", "name"]


@of_run
def op_roofs(
    *,
    account_signals: AccountSignals,
    device_ops: OfHosts[DeviceOps],
    op_costs: OfHosts[pl.DataFrame],
) -> pl.DataFrame | Unavailable:
    """Return how close ops of the judged device are to the device's roofline.

    Returns:
        One row per op, most time first: `op`; `share` of the time of all kernels in
        percent; `of_limit`, the reached percentage of peak FLOP/s or of peak bandwidth,
        whichever is larger (null if FLOPs, bytes or peaks are unknown); and `bound`
        ("memory" or "compute").
    """
    judged = account_signals.judged()
    if judged.device is None:
        return NO_KERNELS
    ops, costs = device_ops[judged.host], op_costs[judged.host]
    if isinstance(ops, Unavailable):
        return ops
    if isinstance(costs, Unavailable):
        return costs
    chosen = ops.rows.filter(pl.col("device") == judged.device, pl.col("kernel_ps") > 0)
    compute = pl.col("flops") / pl.col("peak_flops")
    memory = pl.col("accessed_bytes") / pl.col("peak_bytes")
    known = compute.is_not_null() & memory.is_not_null() & compute.is_finite()
    return (
        chosen.join(costs, on=_KEY, how="left", maintain_order="left", nulls_equal=True)
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


@of_run
def measured_work(
    *, kernel_work: KernelWork, measured_kernels: OfHosts[MeasuredKernels]
) -> pl.DataFrame | Unavailable:
    """Return the compute kernels of the judged device with their metrics.

    Returns:
        The rows of `KernelWork.rows` except collectives, with the added columns of
        `MeasuredKernels.rows`: null for a kernel that was not measured.
    """
    measured = measured_kernels[kernel_work.label.rpartition(":")[0]]
    if isinstance(measured, Unavailable):
        return measured
    rows = kernel_work.rows.filter(~pl.col("collective"))
    return rows.join(measured.rows, on="class", how="left", maintain_order="left")


@of_run
def measured_alone(
    *, kernel_metrics: OfHosts[pl.DataFrame], device_activity: OfHosts[pl.DataFrame]
) -> tuple[KernelWork, pl.DataFrame] | Unavailable:
    """Return the kernels of the first table of Nsight Compute without a recording.

    Returns:
        The kernels, and their rows with the columns of `MeasuredKernels.rows`.
    """
    tables = known_hosts(kernel_metrics)
    if not tables or known_hosts(device_activity):
        return NO_KERNELS
    host, table = next(iter(tables.items()))
    launch = pl.concat_str("kernel_name", *SHAPE, separator=" ", ignore_nulls=True)
    members = table.filter(pl.col("duration_ps") > 0).with_columns(
        group=launch.rank("dense").cast(pl.Int64)
    )
    rows = members.group_by("group", maintain_order=True).agg(
        pl.col("kernel_name").first().alias("kernel"),
        pl.col("duration_ps").sum().alias("time_ps"),
    )
    if rows.is_empty():
        return NO_KERNELS
    plain = [plain_name(name) for name in rows["kernel"].to_list()]
    rows = rows.with_columns(
        pl.lit(0, pl.Int32).alias("class"),
        pl.Series("kernel", plain),
        op=pl.lit(None, pl.String),
        confidence=1.0,
    ).sort("time_ps", descending=True, maintain_order=True)
    total_ps = int(rows["time_ps"].sum())
    work = KernelWork(
        label=f"{host}:{table['device'].fill_null(0)[0]}",
        step_ps=total_ps,
        device_ps=total_ps,
        rows=rows,
        shown=pl.DataFrame(schema=["class", "start_ps", "end_ps"]),
        tracks={},
        runs=FusableRuns(rows.clear(), 0),
        is_alone=True,
    )
    return work, rows.join(summarise_groups(members), on="group", maintain_order="left")
