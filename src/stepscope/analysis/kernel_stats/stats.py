"""`kernel_stats`: device time by kernel, and how the kernels were launched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import polars as pl

from stepscope.analysis.kernel_stats.measured import (
    LAUNCH_ROWS,
    NVIDIA_ROWS,
    launch_rows,
    measured_columns,
    merged_measures,
    nvidia_rows,
    without_measures,
)
from stepscope.analysis.ops.rows import without_steps
from stepscope.analysis.ops.selection import select_ops
from stepscope.analysis.results.result import ToolResult
from stepscope.analysis.results.tables import (
    declared_reasons,
    declared_rows,
    largest_slices,
    missing_columns,
    package_reasons,
    share_percent,
    shared_value,
    sum_of_known,
    tool_tables,
)
from stepscope.analysis.results.tool import derived_by_host
from stepscope.derive.device.kernels import KERNEL_KEY, kernels, launch_dimensions
from stepscope.derive.device.measured_kernels import measured_kernels
from stepscope.derive.model.call_trees import kernel_places
from stepscope.derive.step_windows.windows import windows
from stepscope.derive.steps.chosen import steps
from stepscope.remedies import Remedy
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.options import KernelStatsOptions
    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.schema import TableSchema

_WHY: Final = package_reasons("kernel_stats")

_TABLES: Final = tool_tables("kernel_stats")
KERNEL_ROWS: Final = _TABLES["rows"]
PAIR_ROWS: Final = _TABLES["by_pair"]
NAME_ROWS: Final = _TABLES["by_kernel"]
PIE_ROWS: Final = _TABLES["pie"]

#: Derived data of each host that the tool reads with its default options.
NEEDS: Final = (kernel_places, kernels, measured_kernels, windows)

#: Columns that distinguish rows. Older recordings have only the total shared memory.
_KEY: Final = (*KERNEL_KEY, "shared_memory_bytes")
_ORDER: Final = (
    "kernel_name",
    *(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"),
    *("registers", "static_shared_memory_bytes", "dynamic_shared_memory_bytes"),
    *("uses_tensor_core", "tensor_core_eligible", "op_name"),
)

#: Column → code and remedy, for a column that has no value at all.
_REASONS: Final = declared_reasons(
    KERNEL_ROWS,
    {
        **dict.fromkeys(
            (
                *("registers", "shared_memory_bytes", "static_shared_memory_bytes"),
                *("dynamic_shared_memory_bytes", "block_dim", "grid_dim"),
                *("occupancy_percent", "occupancy_max_percent", "occupancy_limiter"),
            ),
            ("NO_KERNEL_DETAILS", Remedy.OTHER_DEVICE_TRACER),
        ),
        "tensor_core_eligible": (
            "NOT_RECORDED",
            "Record with the framework's own profiler, which writes this value.",
        ),
        "source": ("NOT_RECORDED", Remedy.RECORD_LINES),
        "module": (
            "NOT_RECORDED",
            "Record with PyTorch's profiler: `with_stack=True, with_modules=True`.",
        ),
        "uses_tensor_core": ("NOT_RECORDED", Remedy.COUNT_MATRIX_INSTRUCTIONS),
    },
)


class KernelStatsResult(ToolResult, frozen=True, kw_only=True):
    """Kernels of all selected hosts and devices.

    Attributes:
        rows: One row per kernel, op and launch shape, by total time. Percentages refer
            to the time of all kernels, shown or not.
        by_pair: One row per kernel and op, with the launch shapes as a list.
        by_kernel: One row per kernel, over all its ops and launch shapes.
        pie: The kernels with the highest total time and `other`.
        measured: Kernels that Nsight Compute measured, whether in the recording or not;
            no rows without its table (`--kernels`).
        nvidia_rules: Results of NVIDIA's rules for measured kernels, in its own words.
        kernel_count: Number of kernel executions, shown or not.
        kernel_time_us: Total duration of all kernels, shown or not.
        time_us_by_precision: Precision of the computation (16, 32, tf32 or 64) → time
            of the kernels, shown or not; without collectives and copies.
        missing: Columns and hosts that could not be analysed.
        inputs: Host → number of kernels, devices and launch shapes that were read.
    """

    rows: Annotated[pl.DataFrame, KERNEL_ROWS]
    by_pair: Annotated[pl.DataFrame, PAIR_ROWS]
    by_kernel: Annotated[pl.DataFrame, NAME_ROWS]
    pie: Annotated[pl.DataFrame, PIE_ROWS]
    measured: Annotated[pl.DataFrame, LAUNCH_ROWS]
    nvidia_rules: Annotated[pl.DataFrame, NVIDIA_ROWS]
    kernel_count: int
    kernel_time_us: float
    time_us_by_precision: dict[str, float]
    missing: tuple[Missing, ...]
    inputs: dict[str, dict[str, int]]


def analyse(
    profile: ProfileData, options: KernelStatsOptions
) -> KernelStatsResult | Unavailable:
    """Merge the kernels of all hosts into one table.

    Definition: docs/tools/kernel_stats.md#what-is-a-row.

    Raises:
        BadUsage: No kernel belongs to the requested op or scope.
    """
    by_host, absent = derived_by_host(profile, kernels)
    frames = [
        of_host.rows.with_columns(host=pl.lit(host))
        .join(
            measured_columns(profile, host),
            on="class",
            how="left",
            maintain_order="left",
        )
        .with_columns(_kernel_sources(profile, host, of_host.rows["class"]))
        for host, of_host in by_host.items()
    ]
    everything = pl.concat(frames) if frames else pl.DataFrame()
    if everything.is_empty():
        return next(iter(absent.values()), _WHY["no_kernels"])
    stepped, _ = derived_by_host(profile, steps, by_host)
    step_count = sum(len(host_steps.rows) for host_steps in stepped.values())
    total_ps = int(everything["total_ps"].sum())
    merged = _merge_by_key(everything)
    named = merged.filter(pl.col("op_name") != "")["op_name"]
    meant = select_ops(options.op, options.scope, named, what="op with kernels")
    chosen = merged if meant is None else merged.filter(meant.matches_names("op_name"))
    rows = _kernel_rows(chosen, total_ps=total_ps, step_count=step_count)
    reasons = _REASONS | {"per_step_us": without_steps(profile)}
    reasons |= without_measures(profile)
    missing = missing_columns(rows, reasons, prefix="rows.")
    nvidia_results = nvidia_rows(profile)
    if isinstance(nvidia_results, Unavailable):
        missing.append(nvidia_results.missing_field("nvidia_rules"))
        nvidia_results = pl.DataFrame(schema=NVIDIA_ROWS.dtypes())
    missing += [why.missing_field(f"hosts.{host}") for host, why in absent.items()]
    computes = everything.filter(pl.col("precision").is_not_null())
    time = computes.group_by("precision").agg(pl.col("total_ps").sum())
    slices = largest_slices(everything, label="kernel_name", value="total_ps")
    return KernelStatsResult(
        rows=rows,
        by_pair=_rows_by_name(
            chosen, PAIR_ROWS, ("kernel_name", "op_name"), total_ps=total_ps
        ),
        by_kernel=_rows_by_name(chosen, NAME_ROWS, ("kernel_name",), total_ps=total_ps),
        pie=declared_rows(slices, PIE_ROWS),
        measured=launch_rows(profile),
        nvidia_rules=nvidia_results,
        kernel_count=int(everything["count"].sum()),
        kernel_time_us=total_ps / PS_PER_US,
        time_us_by_precision={
            precision: ps / PS_PER_US
            for precision, ps in time.sort("precision").iter_rows()
        },
        missing=tuple(missing),
        inputs={
            host: {
                "kernels": int(of_host.rows["count"].sum()),
                "devices": of_host.rows["device"].n_unique(),
                "distinct_launches": len(of_host.rows),
            }
            for host, of_host in by_host.items()
        },
    )


def _kernel_sources(run: ProfileData, host: str, of_class: pl.Series) -> pl.DataFrame:
    places = run.derived(host, kernel_places)
    if isinstance(places, Unavailable):
        nothing = pl.Series([None] * len(of_class), dtype=pl.String)
        return pl.DataFrame({"source": nothing, "module": nothing})
    return places[of_class]


def _merge_by_key(everything: pl.DataFrame) -> pl.DataFrame:
    return everything.group_by(_KEY).agg(
        pl.col("count").sum(),
        pl.col("total_ps").sum(),
        pl.col("min_ps").min(),
        pl.col("max_ps").max(),
        pl.col("exposed_ps").sum(),
        sum_of_known("step_ps"),
        pl.col("occupancy_percent").min(),
        pl.col("occupancy_percent").max().alias("occupancy_max_percent"),
        *(
            shared_value(column)
            for column in (
                *("occupancy_limiter", "tensor_core_evidence"),
                *("precision", "precision_evidence", "source", "module"),
            )
        ),
        *merged_measures(),
        pl.col("host").unique().sort().alias("hosts"),
        pl.col("device").unique().sort().alias("devices"),
    )


def _kernel_rows(rows: pl.DataFrame, *, total_ps: int, step_count: int) -> pl.DataFrame:
    ordered = rows.sort("total_ps", *_ORDER, descending=[True, *[False] * len(_ORDER)])
    per_step = (
        pl.col("step_ps") / (PS_PER_US * step_count)
        if step_count
        else pl.lit(None, pl.Float64)
    )
    ranked = ordered.with_row_index("rank", offset=1).with_columns(
        launch_dimensions("block"),
        launch_dimensions("grid"),
        *_time_columns(total_ps),
        per_step.alias("per_step_us"),
        (pl.col("exposed_ps") / PS_PER_US).alias("exposed_time_us"),
    )
    return declared_rows(ranked, KERNEL_ROWS)


def _time_columns(total_ps: int) -> list[pl.Expr]:
    return [
        pl.col("count").alias("occurrences"),
        (pl.col("total_ps") / pl.col("count")).alias("avg_ps"),
        share_percent(pl.col("total_ps"), total_ps).alias("device_time_percent"),
    ]


def _rows_by_name(
    merged: pl.DataFrame, schema: TableSchema, key: Sequence[str], *, total_ps: int
) -> pl.DataFrame:
    """Return one row per kernel, or per kernel and op, over all launch shapes."""
    shape = pl.concat_str(
        [
            pl.lit("grid "),
            launch_dimensions("grid"),
            pl.lit(" block "),
            launch_dimensions("block"),
        ]
    )
    op = pl.col("op_name")
    united = merged.group_by(key).agg(
        pl.col("count").sum(),
        pl.col("total_ps").sum(),
        pl.col("min_ps").min(),
        pl.col("max_ps").max(),
        pl.col("tensor_core_eligible").any(ignore_nulls=False),
        pl.col("uses_tensor_core").any(ignore_nulls=False),
        op.filter(op != "").unique().sort().alias("ops"),
        shape.drop_nulls().unique().sort().alias("launch_shapes"),
    )
    ranked = (
        united.sort("total_ps", *key, descending=[True, *[False] * len(key)])
        .with_row_index("rank", offset=1)
        .with_columns(*_time_columns(total_ps))
    )
    return declared_rows(ranked, schema)
