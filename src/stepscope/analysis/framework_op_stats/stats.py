"""`framework_op_stats`: the time of every op, on the host and on the devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.analysis.framework_op_stats.result import (
    OP_ROWS,
    FrameworkOpStatsResult,
    Pie,
    Pies,
)
from stepscope.analysis.ops.rows import (
    NO_OPS,
    RATES,
    Side,
    device_costs,
    device_side,
    host_costs,
    host_side,
    launch_latency_ps,
    why_no_rates,
    without_steps,
    work_rates,
)
from stepscope.analysis.ops.selection import select_ops
from stepscope.analysis.results.tables import (
    declared_reasons,
    largest_slices,
    missing_columns,
    package_reasons,
    share_percent,
)
from stepscope.derive.ops.costs import host_op_costs, op_costs
from stepscope.derive.ops.database import device_ops, host_ops
from stepscope.remedies import Remedy
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.analysis.options import FrameworkOpStatsOptions
    from stepscope.derive.profile_data import ProfileData

_WHY: Final = package_reasons("framework_op_stats")

#: Derived data of each host that the tool reads with its default options.
NEEDS: Final = (device_ops, host_op_costs, host_ops, op_costs)

_IDLE: Final = "IDLE"

_REASONS: Final = declared_reasons(
    OP_ROWS,
    {
        "eager": ("NOT_RECORDED", Remedy.RECORD_OP_MODES),
        "source": ("NO_HLO", Remedy.COMPILE_FOR_LINES),
        "module": ("NO_HLO", Remedy.COMPILE_FOR_LINES),
    },
)


def analyse(
    profile: ProfileData, options: FrameworkOpStatsOptions
) -> FrameworkOpStatsResult | Unavailable:
    """Merge the ops of all hosts into one table.

    Definition: docs/tools/framework_op_stats.md#how-each-number-is-defined.

    Raises:
        BadUsage: The requested op or scope does not exist.
    """
    host, device = host_side(profile), device_side(profile)
    if not len(host.rows) and not len(device.rows):
        return next(iter((*host.absent.values(), *device.absent.values())), NO_OPS)
    latency_ps, samples = launch_latency_ps(profile)
    shown = [
        _rows_of_side(
            side, name, costs, idle=options.include_idle, latency_ps=latency_ps
        )
        for side, name, costs in (
            (device, "Device", device_costs(profile)),
            (host, "Host", host_costs(profile)),
        )
        if len(side.rows)
    ]
    rows = pl.concat(shown).with_row_index("rank", offset=1)
    rows = rows.select(OP_ROWS.cast_columns())
    meant = select_ops(options.op, options.scope, rows["name"])
    missing = _missing_entries(profile, rows, host, device)
    inputs: dict[str, dict[str, int]] = {name: {} for name in profile.hosts}
    for name, read in inputs.items():
        on_host = profile.derived(name, host_ops)
        on_device = profile.derived(name, device_ops)
        if not isinstance(on_host, Unavailable):
            read["host_op_executions"] = int(on_host.rows["occurrences"].sum())
        if not isinstance(on_device, Unavailable):
            read["device_activities"] = int(on_device.rows["activities"].sum())
    stats = FrameworkOpStatsResult(
        rows=rows if meant is None else rows.filter(meant.matches_names("name")),
        pies=Pies(
            host_by_op=_time_pie(host, "name"),
            host_by_type=_time_pie(host, "type"),
            device_by_op=_time_pie(device, "name"),
            device_by_type=_time_pie(device, "type"),
        ),
        device_idle_us=device.idle_ps / PS_PER_US if len(device.rows) else None,
        host_idle_us=host.idle_ps / PS_PER_US if len(host.rows) else None,
        launch_latency_us=latency_ps / PS_PER_US,
        launch_latency_samples=samples,
        missing=tuple(missing),
        inputs=inputs,
    )
    if meant is None:
        return stats
    # Details are computed only for ops that the options select.
    from stepscope.analysis.framework_op_stats.detail import op_detail  # noqa: PLC0415

    return op_detail(profile, stats, meant, most_calls=options.most_calls)


def _rows_of_side(
    side: Side, name: str, costs: pl.DataFrame, *, idle: bool, latency_ps: float
) -> pl.DataFrame:
    """Return a side's ops (host or device) by rank, without the column `rank`."""
    merged = side.rows.hstack(work_rates(side.rows, costs))
    total_ps = int(merged["self_ps"].sum())
    if idle:
        total_ps += side.idle_ps
        row = {"name": [_IDLE], "type": [_IDLE], "category": [_IDLE]}
        times = {"total_ps": [side.idle_ps], "self_ps": [side.idle_ps]}
        own = pl.DataFrame(row | times | {"occurrences": [0]})
        merged = pl.concat([merged, own], how="diagonal_relaxed").sort(
            "self_ps", "name", "module", descending=[True, False, False]
        )
    on_device = name == "Device"
    percent = share_percent(pl.col("self_ps"), total_ps)
    cumulative = share_percent(pl.col("self_ps").cum_sum(), total_ps)
    zero = pl.lit(0.0)
    known = (pl.col("kernel_ps") > 0) & (pl.col("tensor_core_unknown_ps") == 0)
    eager, function = pl.col("eager") > 0, pl.col("function") > 0
    per_step = pl.lit(None, pl.Float64)
    if side.step_count:
        per_step = pl.col("step_ps") / (PS_PER_US * side.step_count)
    return merged.select(
        pl.lit(name).alias("host_or_device"),
        "type",
        "name",
        "occurrences",
        (pl.col("total_ps") / PS_PER_US).alias("total_time_us"),
        _mean_us("total_ps").alias("avg_time_us"),
        (pl.col("self_ps") / PS_PER_US).alias("total_self_time_us"),
        _mean_us("self_ps").alias("avg_self_time_us"),
        (percent if on_device else zero).alias("device_self_percent"),
        (cumulative if on_device else zero).alias("device_cumulative_percent"),
        (zero if on_device else percent).alias("host_self_percent"),
        (zero if on_device else cumulative).alias("host_cumulative_percent"),
        *(pl.col(column) for column in RATES),
        pl.when(known)
        .then(100.0 * pl.col("tensor_core_ps") / pl.col("kernel_ps"))
        .alias("tensor_core_utilization_percent"),
        pl.when(eager & function)
        .then(pl.lit("Mixed"))
        .when(eager)
        .then(pl.lit("Eager"))
        .when(function)
        .then(pl.lit("Function"))
        .alias("eager"),
        (pl.col("exposed_ps") / PS_PER_US).alias("exposed_time_us"),
        "module",
        "hosts",
        per_step.alias("per_step_us"),
        "activities",
        _is_small_op(side.step_count, latency_ps).alias("small_op"),
        "tensor_core_eligible",
        "instructions",
        (
            pl.col("source_file")
            + pl.concat_str(
                [pl.lit(":"), pl.col("source_line").cast(pl.String)]
            ).fill_null("")
        ).alias("source"),
    )


#: Columns whose values follow from the names of kernels.
_TENSOR_CORES: Final = ("tensor_core_utilization_percent", "tensor_core_eligible")


def _mean_us(column: str) -> pl.Expr:
    """Return the mean per execution, in µs; null without executions."""
    ran = pl.col("occurrences") > 0
    return pl.when(ran).then(pl.col(column) / pl.col("occurrences") / PS_PER_US)


def _is_small_op(step_count: int | None, latency_ps: float) -> pl.Expr:
    """Mark ops with many short kernels per step; null on hosts, or without steps."""
    if not step_count:
        return pl.lit(None, pl.Boolean)
    longest_ps = THRESHOLDS.small_op_latencies.value * latency_ps
    frequent = pl.col("occurrences") / step_count >= THRESHOLDS.small_op_runs.value
    short = pl.col("total_ps") / pl.col("activities") < longest_ps
    return pl.when(pl.col("activities").is_not_null()).then(frequent & short)


def _time_pie(side: Side, label: str) -> Pie | None:
    if not len(side.rows):
        return None
    ops = side.rows.select(label, "self_ps")
    idle = pl.DataFrame({label: [_IDLE], "self_ps": [side.idle_ps]})

    def slices(frame: pl.DataFrame) -> pl.DataFrame:
        largest = largest_slices(frame, label=label, value="self_ps")
        times = (pl.col("self_ps") / PS_PER_US).alias("self_time_us")
        return largest.select("name", times, "percent")

    return Pie(without_idle=slices(ops), with_idle=slices(pl.concat([ops, idle])))


def _missing_entries(
    profile: ProfileData, rows: pl.DataFrame, host: Side, device: Side
) -> list[Missing]:
    reasons = why_no_rates(rows) | _REASONS
    no_device = next(iter(device.absent.values()), _WHY["no_units"])
    no_steps = without_steps(profile)
    reasons["per_step_us"] = no_steps
    reasons["small_op"] = no_steps if len(device.rows) else no_device
    reasons |= dict.fromkeys(("exposed_time_us", "activities"), no_device)
    units = _WHY["no_units"] if len(device.rows) else no_device
    reasons |= dict.fromkeys(_TENSOR_CORES, units)
    missing = missing_columns(rows, reasons, prefix="rows.")
    for side, word in ((device, "device"), (host, "host")):
        if side.absent and not len(side.rows):
            why = next(iter(side.absent.values()))
            names = (f"rows[{word}]", f"pies.{word}_by_op", f"pies.{word}_by_type")
            missing += [why.missing_field(name) for name in (*names, f"{word}_idle_us")]
        else:
            missing += [
                why.missing_field(f"rows[{word}, {name}]")
                for name, why in side.absent.items()
            ]
    for name in profile.hosts:
        ops = profile.derived(name, host_ops)
        if not isinstance(ops, Unavailable) and ops.without_values is not None:
            field = f"rows[host, {name}, compiled programs]"
            missing.append(ops.without_values.missing_field(field))
    return missing
