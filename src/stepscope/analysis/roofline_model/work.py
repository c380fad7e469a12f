"""FLOPs and bytes of ops and kernels, from Nsight Compute or from operand shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, get_args

import polars as pl

from stepscope.analysis.ops.rows import (
    COSTS,
    device_costs,
    device_side,
    host_costs,
    host_side,
)
from stepscope.analysis.results.tables import complete_sum
from stepscope.analysis.results.tool import host_tables
from stepscope.derive.device.kernels import kernels
from stepscope.derive.device.measured_kernels import measured_kernels
from stepscope.derive.device.peaks import device_peaks
from stepscope.derive.ops.costs import kernel_costs
from stepscope.hardware import Unit, computing_unit, peak_flops, peak_rates
from stepscope.unavailable import Unavailable, require_available
from stepscope.units import PS_PER_S

if TYPE_CHECKING:
    from stepscope.analysis.ops.rows import Side
    from stepscope.derive.profile_data import ProfileData

MEASURED: Final = "measured"
SHAPES: Final = "shapes"
_KEY: Final = ("kernel_name", "op_name")
#: Columns of FLOPs, bytes and peaks, summed over all executions.
_WORK: Final = ("flops", "accessed_bytes", "peak_flops", "peak_bytes")
#: Precision of a kernel → Tensor Core unit of that precision.
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
    """Return ops with FLOPs and bytes: device ops or, if there are none, host ops."""
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
    """Return kernels with their FLOPs and bytes.

    The numbers come, in order of preference, from: the counters of a kernel's launches,
    times the number of executions; the op executions that launch only this kernel; the
    kernel's op, if the op runs no other kernel.
    """
    frames = [_kernels_of_host(profile, host) for host in profile.hosts]
    rows = pl.concat([pl.DataFrame(schema=_SCHEMA), *frames])
    merged = rows.group_by(_KEY).agg(
        pl.col("occurrences", "total_ps").sum(),
        # If one launch shape is unknown, so is the sum: it would be too small.
        *(complete_sum(pl.col(name)) for name in _WORK),
        # "shapes" sorts after "measured": the maximum is "shapes" if any row is.
        pl.col("evidence").max(),
    )
    counted = pl.any_horizontal(
        pl.col(name).is_not_null() for name in ("flops", "accessed_bytes")
    )
    singles = merged.filter(pl.len().over("op_name") == 1, pl.col("op_name") != "")
    of_op = ops.filter(pl.len().over("name") == 1).select(
        pl.col("name").alias("op_name"), pl.col("total_ps").alias("of_op_ps"), *_WORK
    )
    joined = merged.with_columns(counted.alias("counted")).join(
        singles.select(*_KEY, "total_ps")
        .join(of_op, on="op_name")
        # If an op took longer than its kernel, it also has copies or other launches.
        .filter(pl.col("total_ps") == pl.col("of_op_ps"))
        .select(*_KEY, *(pl.col(name).cast(pl.Float64) for name in _WORK)),
        on=_KEY,
        how="left",
        suffix="_of_op",
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


def ops_with_counters(ops: pl.DataFrame, counted: pl.DataFrame) -> pl.DataFrame:
    """Return ops; if all kernels of an op were measured, with the kernels' numbers."""
    known = (pl.col("evidence") == MEASURED) & pl.col("flops").is_not_null()
    known &= pl.col("accessed_bytes").is_not_null()
    of_op = (
        counted.group_by(pl.col("op_name").alias("name"))
        .agg(
            known.all().alias("whole"),
            pl.col("total_ps").sum().alias("measured_ps"),
            *(pl.col(name).sum().alias(f"{name}_measured") for name in _WORK[:2]),
            *(
                complete_sum(pl.col(rate)).alias(f"{rate}_measured")
                for rate in _WORK[2:]
            ),
        )
        .filter("whole")
    )
    joined = ops.join(of_op, on="name", how="left", maintain_order="left")
    # Exclude ops with copies, and names in several modules, which share kernels.
    is_measured = (pl.len().over("name") == 1) & (
        pl.col("measured_ps") == pl.col("total_ps")
    )
    is_measured = is_measured.fill_null(value=False)
    return joined.with_columns(
        *(
            pl.when(is_measured).then(f"{name}_measured").otherwise(name).alias(name)
            for name in _WORK
        ),
        pl.when(is_measured)
        .then(pl.lit(MEASURED))
        .otherwise("evidence")
        .alias("evidence"),
    ).select(ops.columns)


def _kernels_of_host(profile: ProfileData, host: str) -> pl.DataFrame:
    host_kernels = profile.derived(host, kernels)
    if isinstance(host_kernels, Unavailable):
        return pl.DataFrame(schema=_SCHEMA)
    costs = require_available(profile.derived(host, kernel_costs))
    rows = host_kernels.rows.select(
        *("class", *_KEY, "device", "precision", "precision_evidence"),
        *("uses_tensor_core", "total_ps"),
        pl.col("count").alias("occurrences"),
    ).with_columns(costs.select("flops", "accessed_bytes")[host_kernels.rows["class"]])
    measured = profile.derived(host, measured_kernels)
    if isinstance(measured, Unavailable):
        schema = {"class": pl.Int32(), **dict.fromkeys(_COUNTERS, pl.Float64())}
        counters = pl.DataFrame(schema=schema)
    else:
        counters = measured.rows.select(pl.col("class").cast(pl.Int32), *_COUNTERS)
    rows = rows.join(counters, on="class", how="left")
    rows = rows.with_columns(_counted_operations().alias("run_flops"))
    counted = pl.any_horizontal(
        pl.col(name).is_not_null() for name in ("run_flops", "dram_bytes")
    )
    peaks = profile.derived(host, device_peaks)
    specs: dict[int, dict[str, Any]] = {}
    if not isinstance(peaks, Unavailable):
        specs = {row["device"]: row for row in peaks.rows.iter_rows(named=True)}
    # This loop runs once per class of kernels: there are as many as distinct launches.
    rates = [_peak_rate(row, specs) for row in rows.iter_rows(named=True)]
    memory = [
        specs.get(device, {}).get("memory_bandwidth") for device in rows["device"]
    ]
    runs, seconds = pl.col("occurrences"), pl.col("total_ps") / PS_PER_S
    return rows.with_columns(
        pl.when(counted)
        .then(pl.col("run_flops") * runs)
        .otherwise("flops")
        .alias("flops"),
        pl.when(counted)
        .then(pl.col("dram_bytes") * runs)
        .otherwise("accessed_bytes")
        .alias("accessed_bytes"),
        (pl.Series(rates, dtype=pl.Float64) * seconds).alias("peak_flops"),
        (pl.Series(memory, dtype=pl.Float64) * seconds).alias("peak_bytes"),
        pl.when(counted)
        .then(pl.lit(MEASURED))
        .otherwise(pl.lit(SHAPES))
        .alias("evidence"),
    ).select(pl.col(name).cast(kind) for name, kind in _SCHEMA.items())


_VECTOR: Final = ("flops_fp16", "flops_fp32", "flops_fp64")
_COUNTERS: Final = (
    *_VECTOR,
    *("flops_tensor", "tensor_instructions", "tensor_pipe_percent", "dram_bytes"),
)


def _counted_operations() -> pl.Expr:
    """Return the FLOPs of an execution; null unless every unit was counted."""
    # Idle Tensor Cores did no FLOPs.
    idle = (pl.col("tensor_instructions") == 0) | (pl.col("tensor_pipe_percent") == 0)
    of_matrices = pl.coalesce(pl.col("flops_tensor"), pl.when(idle).then(0.0))
    parts = [*(pl.col(name) for name in _VECTOR), of_matrices]
    known = pl.all_horizontal(part.is_not_null() for part in parts)
    return pl.when(known).then(pl.sum_horizontal(parts))


def _peak_rate(row: dict[str, Any], specs: dict[int, dict[str, Any]]) -> float | None:
    """Return the FLOP/s of the units that a kernel computes with; None if unknown."""
    if row["device"] not in specs:
        return None
    peaks = unit_peaks(specs[row["device"]])
    if "all" in peaks:
        return peaks["all"]
    if row["run_flops"]:
        # Weight the units' peak rates by the mix of units that the counters show.
        tensor = row["run_flops"] - sum(row[name] for name in _VECTOR)
        counts = {
            "fp32": row["flops_fp32"],
            "fp16": row["flops_fp16"],
            "fp64": row["flops_fp64"],
            _MATRIX.get(row["precision"] or "", "matrix"): tensor,
        }
        used = {unit: count for unit, count in counts.items() if count}
        if not used.keys() <= peaks.keys():
            return None
        least_s = sum(count / peaks[unit] for unit, count in used.items())
        return float(row["run_flops"] / least_s)
    if row["precision_evidence"] in (None, "default"):
        return None
    unit = computing_unit(
        bits=16 if row["precision"] == "16" else 32,
        fp64=row["precision"] == "64",
        matrix=row["uses_tensor_core"],
    )
    return None if unit is None else peaks.get(unit)


def unit_peaks(row: dict[str, Any]) -> dict[str, float]:
    """Return FLOP/s by unit of a device, a row of `device_peaks`; empty if unknown."""
    if row["peak_flops"]:
        return {"all": float(row["peak_flops"])}
    major, minor = row["cc_major"], row["cc_minor"]
    cores, clock_hz = row["cores"], row["clock_hz"]
    if major is None or not cores or not clock_hz:
        return {}
    rates = peak_rates(row["vendor"], major, minor or 0)
    if rates is None:
        return {}
    units: tuple[Unit, ...] = get_args(Unit)
    peaks = {unit: peak_flops(rates, unit, cores, clock_hz) for unit in units}
    return {unit: rate for unit, rate in peaks.items() if rate}


def measured_without_recording(profile: ProfileData) -> pl.DataFrame:
    """Return the kernels of an Nsight Compute table without a recording.

    Times are those that Nsight Compute measured; the device's peaks are unknown.
    """
    frames = [pl.DataFrame(schema=_SCHEMA)]
    for table in host_tables(profile, "kernel_metrics"):
        rows = table.filter(pl.col("duration_ps") > 0).with_columns(
            pl.col(name).cast(pl.Float64) for name in _COUNTERS
        )
        frames.append(
            rows.group_by("kernel_name").agg(
                pl.lit("").alias("op_name"),
                pl.len().cast(pl.Int64).alias("occurrences"),
                pl.col("duration_ps").sum().alias("total_ps"),
                complete_sum(_counted_operations()).alias("flops"),
                complete_sum(pl.col("dram_bytes")).alias("accessed_bytes"),
                pl.lit(None, pl.Float64).alias("peak_flops"),
                pl.lit(None, pl.Float64).alias("peak_bytes"),
                pl.lit(MEASURED).alias("evidence"),
            )
        )
    return pl.concat(frames).with_columns(pl.col("total_ps").alias("share_ps"))
