"""`roofline_model`: FLOPs per byte and per second of ops and kernels, and peaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import polars as pl

from stepscope.analysis.ops.rows import NO_COSTS, NO_OPS
from stepscope.analysis.results.result import ToolResult
from stepscope.analysis.results.tables import (
    declared_reasons,
    missing_columns,
    package_reasons,
    share_percent,
    tool_tables,
)
from stepscope.analysis.results.tool import derived_by_host
from stepscope.analysis.roofline_model.work import (
    MEASURED,
    kernel_work,
    measured_without_recording,
    op_work,
    ops_with_counters,
    unit_peaks,
)
from stepscope.derive.device.kernels import kernels
from stepscope.derive.device.measured_kernels import measured_kernels
from stepscope.derive.device.peaks import device_peaks
from stepscope.derive.ops.costs import kernel_costs, op_costs
from stepscope.derive.ops.database import device_ops
from stepscope.hardware import device_type
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_S, PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.analysis.options import RooflineModelOptions
    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.schema import TableSchema

_WHY: Final = package_reasons("roofline_model")

_TABLES: Final = tool_tables("roofline_model")
OP_ROWS: Final = _TABLES["ops"]
KERNEL_ROWS: Final = _TABLES["kernels"]
ROOF_ROWS: Final = _TABLES["roofs"]

_GIGA: Final = 1e9
_TERA: Final = 1e12
_SECONDS: Final = pl.col("total_ps") / PS_PER_S
_RAN: Final = pl.col("total_ps") > 0
_NOTHING_KNOWN: Final = "operations and bytes"

#: Derived data of each host that the tool reads with its default options.
NEEDS: Final = (
    device_ops,
    device_peaks,
    kernel_costs,
    kernels,
    measured_kernels,
    op_costs,
)

#: Column of ops or kernels → reason, for a column that has no value at all.
_REASONS: Final = declared_reasons(
    OP_ROWS,
    {
        "type": (
            "NOT_RECORDED",
            "Record with the framework's own profiler, which writes types of ops.",
        ),
        "lacks": ("NO_SAMPLES", "Nothing to do."),
    },
)
#: Columns of points that have no values if the peak rates are unknown.
_OF_PEAKS: Final = (
    *("roof_gflops_per_s", "of_compute_percent", "of_memory_percent"),
    *("of_roof_percent", "bound_by"),
)
_OF_WORK: Final = (
    *("flops", "accessed_bytes"),
    *("operational_intensity", "gflops_per_s", "gb_per_s"),
)


class RooflineModelResult(ToolResult, frozen=True, kw_only=True):
    """Ops and kernels of all selected hosts.

    Attributes:
        ops: One row per op: the device ops, or the host ops if there are no device ops.
        kernels: One row per kernel and op.
        roofs: Peak rates of the compute units and memories of the devices in use.
        ops_on: Where the ops ran: `device` or `host`; null without ops.
        unknown_ops_percent: Share of the ops' time in ops that are not in the chart,
            because their FLOPs or bytes are unknown; null without ops.
        unknown_kernels_percent: Share of the kernels' time in kernels that are not in
            the chart; null without kernels.
        measured_kernels: Number of kernels with work counted by Nsight Compute.
        missing: Values that could not be determined, with their reasons.
    """

    ops: Annotated[pl.DataFrame, OP_ROWS]
    kernels: Annotated[pl.DataFrame, KERNEL_ROWS]
    roofs: Annotated[pl.DataFrame, ROOF_ROWS]
    ops_on: str | None
    unknown_ops_percent: float | None
    unknown_kernels_percent: float | None
    measured_kernels: int
    missing: tuple[Missing, ...]


def analyse(
    profile: ProfileData, options: RooflineModelOptions
) -> RooflineModelResult | Unavailable:
    """Place ops and kernels in the chart by FLOPs per byte and FLOPs per second.

    Definition: docs/tools/roofline_model.md.
    """
    work, side = op_work(profile)
    on_device = bool(derived_by_host(profile, kernels)[0])
    counted = (
        kernel_work(profile, work) if on_device else measured_without_recording(profile)
    )
    if not len(work) and not len(counted):
        return next(iter(side.absent.values()), NO_OPS)
    if on_device:
        work = ops_with_counters(work, counted)
    ops = roofline_points(work, OP_ROWS, options)
    kernel_points = roofline_points(counted, KERNEL_ROWS, options)
    roofs = roof_rows(profile, options)
    ops_on = ("device" if on_device else "host") if len(ops) else None
    no_peaks = _WHY["no_host_peaks"] if ops_on == "host" else _WHY["no_peaks"]
    missing: list[Missing] = []
    if roofs.is_empty():
        missing.append(no_peaks.missing_field("roofs"))
    if ops.is_empty():
        why = next(iter(side.absent.values()), NO_OPS)
        missing += map(why.missing_field, ("ops", "ops_on", "unknown_ops_percent"))
    if kernel_points.is_empty():
        missing += map(
            _WHY["host_ops"].missing_field, ("kernels", "unknown_kernels_percent")
        )
    for name, rows in (("ops", ops), ("kernels", kernel_points)):
        has_counters = (rows["evidence"] == MEASURED).any()
        no_work = _WHY["not_counted"] if has_counters else NO_COSTS
        no_place = rows["operational_intensity"].null_count() == len(rows)
        reasons = dict.fromkeys(_OF_WORK, no_work)
        reasons |= dict.fromkeys(
            _OF_PEAKS, no_work if no_place and len(roofs) else no_peaks
        )
        reasons |= {key: why for key, why in _REASONS.items() if key in rows.columns}
        missing += missing_columns(rows, reasons, prefix=f"{name}.")
    return RooflineModelResult(
        ops=ops,
        kernels=kernel_points,
        roofs=roofs,
        ops_on=ops_on,
        unknown_ops_percent=unknown_percent(ops),
        unknown_kernels_percent=unknown_percent(kernel_points),
        measured_kernels=int((kernel_points["evidence"] == MEASURED).sum()),
        missing=tuple(missing),
    )


def roof_rows(profile: ProfileData, options: RooflineModelOptions) -> pl.DataFrame:
    """Return the peak rates of the devices in use, columns `ROOF_ROWS`.

    Devices with equal peak rates share rows. Peak rates from options replace others.
    """
    rows = [row for host in profile.hosts for row in _roofs_of_host(profile, host)]
    if options.peak_tflops is not None:
        known = [row["memory_gb_per_s"] for row in rows]
        rows = [
            {
                "device": rows[0]["device"] if rows else "device",
                "unit": "given",
                "peak_gflops_per_s": options.peak_tflops * _TERA / _GIGA,
                "memory_gb_per_s": max((rate for rate in known if rate), default=None),
                "source": "given",
            }
        ]
    if options.peak_gb_per_s is not None:
        rows = [{**row, "memory_gb_per_s": options.peak_gb_per_s} for row in rows]
    ridge = pl.col("peak_gflops_per_s") / pl.col("memory_gb_per_s")
    return (
        pl.DataFrame(rows, schema=ROOF_ROWS.dtypes())
        .unique(maintain_order=True)
        .with_columns(ridge.alias("ridge_flops_per_byte"))
        .sort("device", "peak_gflops_per_s", descending=[False, True])
    )


def _roofs_of_host(profile: ProfileData, host: str) -> Iterator[dict[str, Any]]:
    peaks = profile.derived(host, device_peaks)
    devices = profile.table(host, "devices")
    if isinstance(peaks, Unavailable) or isinstance(devices, Unavailable):
        return
    used = devices.filter(pl.col("activities") > 0)
    names = {
        row["device"]: device_type(
            name=row["name"],
            vendor=row["vendor"],
            major=row["cc_major"],
            minor=row["cc_minor"],
        )
        for row in used.iter_rows(named=True)
    }
    for row in peaks.rows.iter_rows(named=True):
        if row["device"] not in names:
            continue
        memory = row["memory_bandwidth"]
        for unit, rate in unit_peaks(row).items():
            yield {
                "device": names[row["device"]] or f"device {row['device']}",
                "unit": unit,
                "peak_gflops_per_s": rate / _GIGA,
                "memory_gb_per_s": memory / _GIGA if memory else None,
                "source": row["clock_source"] or "recorded",
            }


def roofline_points(
    work: pl.DataFrame, schema: TableSchema, options: RooflineModelOptions
) -> pl.DataFrame:
    """Return the columns of a table of points, longest time first.

    Args:
        work: Columns of names, `occurrences`, `total_ps`, `share_ps` (time that counts
            in shares), `flops`, `accessed_bytes`, `peak_flops` and `peak_bytes` (what
            units and memory could do in that time), and `evidence`; null: unknown.
        options: Peak rates that replace known peak rates.
    """
    names = [key for key in ("kernel_name", "op_name", "name") if key in work.columns]
    total_ps = int(work["share_ps"].sum())
    given = {
        "peak_flops": options.peak_tflops and options.peak_tflops * 1000 * _GIGA,
        "peak_bytes": options.peak_gb_per_s and options.peak_gb_per_s * _GIGA,
    }
    no_flops, no_bytes = pl.col("flops").is_null(), pl.col("accessed_bytes").is_null()
    per_s = {"flops": "gflops_per_s", "accessed_bytes": "gb_per_s"}
    return (
        work.with_columns(
            pl.when(_RAN).then(rate * _SECONDS).alias(name)
            for name, rate in given.items()
            if rate is not None
        )
        .with_columns(
            pl.when(no_flops & no_bytes)
            .then(pl.lit(_NOTHING_KNOWN))
            .when(no_flops)
            .then(pl.lit("operations"))
            .when(no_bytes)
            .then(pl.lit("bytes"))
            .alias("lacks"),
            (pl.col("share_ps") / PS_PER_US).alias("self_us"),
            (pl.col("total_ps") / PS_PER_US).alias("total_us"),
            share_percent(pl.col("share_ps"), total_ps).alias("time_percent"),
            _operational_intensity().alias("operational_intensity"),
            *(
                pl.when(_RAN).then(pl.col(name) / _SECONDS / _GIGA).alias(rate)
                for name, rate in per_s.items()
            ),
            *_against_peaks(),
        )
        .with_columns(
            pl.when(pl.col("lacks") == _NOTHING_KNOWN)
            .then(pl.lit("unknown"))
            .otherwise("evidence")
            .alias("evidence")
        )
        .sort("share_ps", *names, descending=[True, *[False] * len(names)])
        .with_row_index("rank", offset=1)
        .select(schema.cast_columns())
    )


def _operational_intensity() -> pl.Expr:
    moved = pl.col("accessed_bytes") > 0
    return pl.when(moved).then(pl.col("flops") / pl.col("accessed_bytes"))


def _against_peaks() -> list[pl.Expr]:
    # If an op has no FLOPs, it uses no compute unit, whatever the unit's peak is.
    compute = (
        pl.when(pl.col("flops") == 0)
        .then(0.0)
        .otherwise(100.0 * pl.col("flops") / pl.col("peak_flops"))
    )
    memory = 100.0 * pl.col("accessed_bytes") / pl.col("peak_bytes")
    both = _RAN & compute.is_not_null() & memory.is_not_null()
    sloped = _operational_intensity() * pl.col("peak_bytes")
    roofed = pl.col("peak_flops").is_not_null() & sloped.is_not_null()
    roof = pl.min_horizontal(pl.col("peak_flops"), sloped) / _SECONDS / _GIGA
    return [
        pl.when(_RAN & roofed).then(roof).alias("roof_gflops_per_s"),
        pl.when(_RAN).then(compute).alias("of_compute_percent"),
        pl.when(_RAN).then(memory).alias("of_memory_percent"),
        pl.when(both).then(pl.max_horizontal(compute, memory)).alias("of_roof_percent"),
        pl.when(both & (memory >= compute))
        .then(pl.lit("Memory"))
        .when(both)
        .then(pl.lit("Compute"))
        .alias("bound_by"),
    ]


def unknown_percent(rows: pl.DataFrame) -> float | None:
    """Return the time share of rows that are not in the chart; None if nothing ran."""
    if not len(rows) or rows["time_percent"].null_count() == len(rows):
        return None
    return float(
        rows.filter(pl.col("operational_intensity").is_null())["time_percent"].sum()
    )
