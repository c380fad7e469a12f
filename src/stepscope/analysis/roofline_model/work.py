"""What ops and kernels computed and moved: counted by Nsight Compute, or from shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from stepscope.analysis.ops.rates import COSTS, device_costs, host_costs
from stepscope.analysis.ops.rows import device_side, host_side
from stepscope.analysis.roofline_model.points import MEASURED, SHAPES
from stepscope.analysis.roofline_model.roofs import unit_peaks
from stepscope.derive.device.kernels import kernels
from stepscope.derive.device.peaks import device_peaks
from stepscope.derive.measured.join import measured_kernels
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_S

if TYPE_CHECKING:
    from stepscope.analysis.ops.rows import Side
    from stepscope.derive.profile_data import ProfileData

__all__ = ["kernel_work", "measured_alone", "op_work"]

_KEY: Final = ("kernel_name", "op_name")
#: Columns of work, of all runs.
_WORK: Final = ("flops", "accessed_bytes", "peak_flops", "peak_bytes")
#: Width that a kernel computes at → unit of its Tensor Cores.
_MATRIX: Final = {"16": "matrix_fp16", "tf32": "matrix_tf32"}
_SCHEMA: Final[dict[str, pl.DataType]] = {
    "kernel_name": pl.String(),
    "op_name": pl.String(),
    "occurrences": pl.Int64(),
    "total_ps": pl.Int64(),
    **dict.fromkeys(_WORK, pl.Float64()),
    "evidence": pl.String(),
}


def op_work(profile: ProfileData) -> tuple[pl.DataFrame, Side]:
    """Return ops with their work: those of the devices, else those of the hosts."""
    side, costs = device_side(profile), device_costs(profile)
    if not len(side.rows):
        side, costs = host_side(profile), host_costs(profile)
    rows = side.rows.join(
        costs.select(pl.col(name).cast(kind) for name, kind in COSTS.items()),
        on=("module", "name"),
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    return rows.with_columns(
        pl.col("self_ps").alias("share_ps"), pl.lit(SHAPES).alias("evidence")
    ), side


def kernel_work(profile: ProfileData, ops: pl.DataFrame) -> pl.DataFrame:
    """Return kernels with their work.

    It is what was counted of a kernel's launches, times the number of its runs; else
    that of its op, if the op runs no other kernel.

    Args:
        profile: The run.
        ops: As `op_work` returns of devices.
    """
    frames = [_of_host(profile, host) for host in profile.hosts]
    rows = pl.concat([pl.DataFrame(schema=_SCHEMA), *frames])
    merged = rows.group_by(_KEY).agg(
        pl.col("occurrences").sum(),
        pl.col("total_ps").sum(),
        # A sum that lacks the work of one launch shape would be wrong.
        *(
            pl.when(pl.col(name).null_count() == 0).then(pl.col(name).sum())
            for name in _WORK
        ),
        pl.col("evidence").drop_nulls().first(),
    )
    counted = pl.any_horizontal(
        pl.col(name).is_not_null() for name in ("flops", "accessed_bytes")
    )
    joined = merged.with_columns(counted.alias("counted")).join(
        _of_single_kernels(merged, ops), on=_KEY, how="left", suffix="_of_op"
    )
    return joined.select(
        *_KEY,
        "occurrences",
        "total_ps",
        pl.col("total_ps").alias("share_ps"),
        *(
            pl.when("counted").then(name).otherwise(f"{name}_of_op").alias(name)
            for name in _WORK
        ),
        pl.when("counted").then("evidence").otherwise(pl.lit(SHAPES)).alias("evidence"),
    )


def _of_single_kernels(merged: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Return the work of kernels that are all that their op does on the device."""
    alone = merged.filter(pl.len().over("op_name") == 1, pl.col("op_name") != "")
    of_op = ops.filter(pl.len().over("name") == 1).select(
        pl.col("name").alias("op_name"),
        pl.col("total_ps").alias("of_op_ps"),
        *_WORK,
    )
    return (
        alone.select(*_KEY, "total_ps")
        .join(of_op, on="op_name")
        # Copies and other launches have a part of an op that took longer.
        .filter(pl.col("total_ps") == pl.col("of_op_ps"))
        .select(*_KEY, *(pl.col(name).cast(pl.Float64) for name in _WORK))
    )


def _of_host(profile: ProfileData, host: str) -> pl.DataFrame:
    """Return the kernels of one host with what was counted of them."""
    found = profile.derived(host, kernels)
    if isinstance(found, Unavailable):
        return pl.DataFrame(schema=_SCHEMA)
    rows = found.rows.select(
        *("class", "kernel_name", "op_name", "device", "precision"),
        *("count", "total_ps"),
    )
    measured = profile.derived(host, measured_kernels)
    columns = [pl.lit(None, pl.Float64).alias(name) for name in _COUNTERS]
    if isinstance(measured, Unavailable):
        rows = rows.with_columns(columns)
    else:
        rows = rows.join(
            measured.rows.select("class", *_COUNTERS), on="class", how="left"
        )
    peaks = profile.derived(host, device_peaks)
    described: dict[int, dict[str, Any]] = {}
    if not isinstance(peaks, Unavailable):
        described = {row["device"]: row for row in peaks.rows.iter_rows(named=True)}
    count, seconds = pl.col("count"), pl.col("total_ps") / PS_PER_S
    rows = rows.with_columns(_operations().alias("run_flops"))
    least_s = pl.Series(
        "least_s",
        [_least_s(row, described) for row in rows.iter_rows(named=True)],
        pl.Float64,
    )
    memory = {
        device: float(row["memory_bandwidth"])
        for device, row in described.items()
        if row["memory_bandwidth"]
    }
    bandwidth = pl.col("device").replace_strict(
        memory, default=None, return_dtype=pl.Float64
    )
    return rows.with_columns(
        pl.col("count").alias("occurrences"),
        (pl.col("run_flops") * count).alias("flops"),
        (pl.col("dram_bytes") * count).alias("accessed_bytes"),
        # At its best mix of units the time would hold so many of these operations.
        (pl.col("run_flops") / least_s * seconds).alias("peak_flops"),
        (bandwidth * seconds).alias("peak_bytes"),
        pl.when(pl.col("dram_bytes").is_not_null() | pl.col("run_flops").is_not_null())
        .then(pl.lit(MEASURED))
        .alias("evidence"),
    ).select(pl.col(name).cast(kind) for name, kind in _SCHEMA.items())


_VECTOR: Final = ("flops_fp16", "flops_fp32", "flops_fp64")
_COUNTERS: Final = (
    *_VECTOR,
    *("flops_tensor", "tensor_instructions", "tensor_pipe_percent", "dram_bytes"),
)


def _tensor_operations() -> pl.Expr:
    """Return operations of the Tensor Cores; 0 where their pipe was seen to be idle."""
    idle = (pl.col("tensor_instructions") == 0) | (pl.col("tensor_pipe_percent") == 0)
    return pl.coalesce(pl.col("flops_tensor"), pl.when(idle).then(0.0))


def _operations() -> pl.Expr:
    """Return the operations of a run; null unless those of every unit were counted."""
    parts = [*(pl.col(name) for name in _VECTOR), _tensor_operations()]
    known = pl.all_horizontal(part.is_not_null() for part in parts)
    return pl.when(known).then(pl.sum_horizontal(parts))


def _least_s(row: dict[str, Any], described: dict[int, dict[str, Any]]) -> float | None:
    """Return the time that a run's operations take at the peaks of their units."""
    if not row["run_flops"]:
        return None
    peaks = unit_peaks(described[row["device"]]) if row["device"] in described else {}
    tensor = row["run_flops"] - sum(row[name] for name in _VECTOR)
    needed = {
        "fp32": row["flops_fp32"],
        "fp16": row["flops_fp16"],
        "fp64": row["flops_fp64"],
        _MATRIX.get(row["precision"] or "", "matrix"): tensor,
    }
    total = 0.0
    for unit, count in needed.items():
        rate = peaks.get("all") or peaks.get(unit)
        if count and rate is None:
            return None
        total += count / rate if count and rate else 0.0
    return total or None


def measured_alone(profile: ProfileData) -> pl.DataFrame:
    """Return the kernels of a table of Nsight Compute that stands by itself.

    Their time is that of the measurement; the device is known by its counters alone.
    """
    frames = [pl.DataFrame(schema=_SCHEMA)]
    for host in profile.hosts:
        table = profile.table(host, "kernel_metrics")
        if isinstance(table, Unavailable):
            continue
        rows = table.filter(pl.col("duration_ps") > 0).with_columns(
            pl.col(name).cast(pl.Float64) for name in _COUNTERS
        )
        frames.append(
            rows.group_by("kernel_name").agg(
                pl.lit("").alias("op_name"),
                pl.len().cast(pl.Int64).alias("occurrences"),
                pl.col("duration_ps").sum().alias("total_ps"),
                _sum_of_all(_operations()).alias("flops"),
                _sum_of_all(pl.col("dram_bytes")).alias("accessed_bytes"),
                pl.lit(None, pl.Float64).alias("peak_flops"),
                pl.lit(None, pl.Float64).alias("peak_bytes"),
                pl.lit(MEASURED).alias("evidence"),
            )
        )
    return pl.concat(frames).with_columns(pl.col("total_ps").alias("share_ps"))


def _sum_of_all(values: pl.Expr) -> pl.Expr:
    return pl.when(values.null_count() == 0).then(values.sum())
