"""Distance of ops from the device's roofline, and kernel metrics of Nsight Compute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.derive.run_derivation import of_run
from stepscope.derive.verdicts.recorded_devices import NO_KERNELS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.device.measured_kernels import MeasuredKernels
    from stepscope.derive.facts.devices.kernel_work import KernelWork
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
