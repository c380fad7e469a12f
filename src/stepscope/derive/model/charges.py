"""Costs of a program by op and tree node, from which the trees of a model are built.

A charge is the cost of all executions of one op at one node. Every execution on the
host and every activity of a device is in exactly one charge, so the roots of every tree
contain all of the time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import codes
from stepscope.derive.columns.dense_codes import (
    distinct_runs,
    number_rows,
    totals_by_code,
)
from stepscope.derive.names.op_names import read_annotations
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.reading.nullable import nullable_series
from stepscope.trace.tables import ALLOCATIONS

if TYPE_CHECKING:
    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.columns.dense_codes import Codes
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.ops.execution_costs import ExecutionCosts

#: Columns of charges; null means unknown.
CHARGES: Final[dict[str, pl.DataType]] = {
    "name": pl.String(),
    "type": pl.String(),
    "source": pl.String(),  # `file:line` of the op itself, if recorded
    "place": pl.Int32(),  # node of the requested tree; -1 for none
    "occurrences": pl.Int64(),
    "host_ps": pl.Int64(),
    "device_ps": pl.Int64(),
    "flops": pl.Int64(),  # sum over the executions with known operations
    "known": pl.Int64(),  # number of executions with known operations
    "allocated_bytes": pl.Int64(),
    "parameters": pl.Int64(),  # elements of the distinct variables that were read
}
#: Op type of the rows for variables of the model.
VARIABLE: Final = "Variable"
#: Rows of a table: a slice (for all rows, without a copy) or row numbers.
Rows = slice | np.ndarray
_KEY: Final = ("name", "type", "source", "place")
_NULLABLE_SUMS: Final = ("host_ps", "device_ps", "flops", "parameters")
_ALLOCATE: Final = ALLOCATIONS.categories("kind").categories.to_list().index("allocate")


class VariableReads(Frozen, frozen=True):
    """The variables of the model that executions read.

    Attributes:
        unit: int32 by execution; one number for all executions that read the same
            variables of one layer, -1 for executions that read none.
        elements: int64 by unit; number of elements in the unit's variables.
    """

    unit: Int32s
    elements: Int64s


class DeviceWork(Frozen, frozen=True):
    """Op, kernel, duration and execution of each device activity.

    Attributes:
        device: int32 by row of device_activity; ordinal of the device.
        op: int32; a row of the ops of `activity_ops`.
        kernel: int32; the kernel by its name, a row of event_types; -1 for an activity
            without a named op. Activities with -1 count as executions of one kernel.
        dur_ps: int64; duration of the activity.
        execution: int32; the execution of the same op that launched it, -1 for none.
        execution_count: Number of executions on the host.
        flops_of_op: int64 by row of the ops of `activity_ops`: operations of one
            execution, -1 if unknown.
    """

    device: Int32s
    op: Int32s
    kernel: Int32s
    dur_ps: Int64s
    execution: Int32s
    execution_count: int
    flops_of_op: Int64s


def host_charges(
    host: HostOpEvents,
    costs: ExecutionCosts,
    *,
    place: Int32s,
    chosen: Bools,
    reads: VariableReads | None,
) -> pl.DataFrame:
    """Charge the costs of executions on the host to ops and nodes.

    Args:
        place: Node of each execution.
        chosen: Whether each execution counts.

    Returns:
        Columns `CHARGES` without `device_ps` and `allocated_bytes`.
    """
    rows: Rows = slice(None) if chosen.all() else np.flatnonzero(chosen)
    op, where, flops = host.op[rows], place[rows], costs.flops[rows]
    distinct = number_rows([op, where])
    count = distinct.count
    spent = totals_by_code(distinct.code, host.self_ps[rows], count=count)
    work = totals_by_code(distinct.code, flops, count=count, where=flops >= 0)
    elements = readers = np.zeros(count, np.int64)
    if reads is not None:
        # Each variable counts once, at the op that reads it first.
        unit = reads.unit[rows]
        assigned = np.flatnonzero(unit >= 0)
        units, first = np.unique(unit[assigned], return_index=True)
        read = totals_by_code(
            distinct.code[assigned[first]], reads.elements[units], count=count
        )
        elements, readers = read.total, read.count
    return _named_ops(host.ops, op[distinct.first]).with_columns(
        pl.Series("place", where[distinct.first]),
        pl.Series("occurrences", spent.count),
        pl.Series("host_ps", spent.total),
        nullable_series("flops", work.total, work.count > 0),
        pl.Series("known", work.count),
        nullable_series("parameters", elements, readers > 0),
    )


def device_charges(
    ops: ActivityOps, work: DeviceWork, *, place: Int32s, chosen: Bools
) -> pl.DataFrame:
    """Charge the costs of device activities to ops and nodes.

    Each activity belongs to the execution that launched it. If no execution of the same
    op launched them, the number of executions is the count of their most frequent
    kernel, because an execution runs each of its kernels at least once.

    Returns:
        Columns `CHARGES` without `host_ps` and `allocated_bytes`.
    """
    rows: Rows = slice(None) if chosen.all() else np.flatnonzero(chosen)
    group = ops.ops["group"].to_numpy().astype(np.int32)
    op, device, where = work.op[rows], work.device[rows], place[rows]
    charge = number_rows([values_by_row(group, op), where])
    spent = totals_by_code(charge.code, work.dur_ps[rows], count=charge.count).total
    by_device = number_rows([charge.code, device])
    runs = _count_executions(work, rows, by_device)
    occurrences = np.bincount(
        charge.code[by_device.first], weights=runs, minlength=charge.count
    ).astype(np.int64)
    # Each instruction of an op has separate costs.
    instruction = number_rows([charge.code, device, op])
    if instruction.count == by_device.count:
        runs = runs[by_device.code[instruction.first]]
    else:
        runs = _count_executions(work, rows, instruction)
    per_run = work.flops_of_op[op[instruction.first]]
    charges = charge.code[instruction.first]
    known = per_run >= 0
    flops = totals_by_code(charges, per_run * runs, count=charge.count, where=known)
    # The cost of an execution is known if the costs of all its instructions are.
    complete = np.ones(charge.count, np.bool_)
    complete[charges[~known]] = False
    return _named_ops(ops.ops, op[charge.first]).with_columns(
        pl.Series("place", where[charge.first]),
        pl.Series("occurrences", occurrences),
        pl.Series("device_ps", spent),
        nullable_series("flops", flops.total, flops.count > 0),
        pl.Series("known", np.where(complete, occurrences, 0)),
    )


def allocation_charges(
    allocations: pl.DataFrame, *, place: Int32s, chosen: Bools
) -> pl.DataFrame:
    """Charge allocated bytes to the ops that requested them.

    Returns:
        `name`, `place`, `allocated_bytes`; without allocations whose op is unknown.
    """
    taken = (codes(allocations, "kind") == _ALLOCATE) & chosen
    named = allocations.select("op", "allocated_bytes", place=pl.Series(place)).filter(
        pl.Series(taken),
        pl.col("op").is_not_null(),
        pl.col("allocated_bytes").is_not_null(),
    )
    texts = named["op"].unique(maintain_order=True)
    read = read_annotations(texts.to_list())
    names = pl.DataFrame({"op": texts, "name": read["name"]})
    return (
        named.join(names, on="op", how="left", maintain_order="left")
        .filter(pl.col("name").is_not_null())
        .group_by("name", "place", maintain_order=True)
        .agg(pl.col("allocated_bytes").sum())
    )


def parameter_charges(
    parameters: pl.DataFrame, *, trainable_only: bool
) -> pl.DataFrame:
    """Return the variables of the model, each in its scope; columns `CHARGES`.

    A variable's whole name begins with its scope; the character after the scope is the
    separator of names in that framework.

    Args:
        trainable_only: Leave out variables that are known not to be trained.
    """
    counted = parameters
    if trainable_only:
        counted = parameters.filter(pl.col("trainable").fill_null(value=True))
    rows = []
    for name, scope, sizes in counted.select("name", "scope", "shape").iter_rows():
        divider = name[len(scope) : len(scope) + 1]
        inside = scope and divider and name.startswith(scope)
        path = name.replace(divider, "/") if inside else name
        rows.append((path, None if sizes is None else math.prod(sizes)))
    return (
        pl.DataFrame(rows, {"name": pl.String, "parameters": pl.Int64}, orient="row")
        .select(
            *("name", "parameters"),
            type=pl.lit(VARIABLE),
            place=pl.lit(-1),
            occurrences=pl.lit(0),
            known=pl.lit(0),
        )
        .pipe(_with_all_columns)
    )


def merged_charges(
    host: pl.DataFrame | None,
    device: pl.DataFrame | None,
    allocated: pl.DataFrame | None,
) -> pl.DataFrame:
    """Return one row per op and node, columns `CHARGES`.

    Executions recorded on both host and device count once: the greater of both counts.
    Operations also count once: those of the device if known, as they really ran. Device
    executions without a launch call count as host executions of the same op.
    """
    sides = [
        _with_all_columns(side).with_columns(on_device=pl.lit(on_device))
        for on_device, side in ((False, host), (True, device))
        if side is not None
    ]
    if not sides:
        return pl.DataFrame(schema=CHARGES)
    on_device, place = pl.col("on_device"), ("name", "place")
    device_knows = (on_device & pl.col("flops").is_not_null()).any().over("name")
    counts = on_device | ~device_knows
    repeated = (
        on_device & (~on_device).any().over("name") & ~(~on_device).any().over(place)
    )
    sums = [_sum_of_known(name) for name in _NULLABLE_SUMS]
    merged = (
        # Op types and sources that only one side recorded apply to both sides.
        pl.concat(sides)
        .with_columns(pl.col("type", "source").drop_nulls().last().over(place))
        .group_by(*_KEY, "on_device", maintain_order=True)
        .agg(pl.col("occurrences", "known").sum(), *sums)
        .with_columns(
            flops=pl.when(counts).then("flops"),
            share=pl.when(counts).then("known").otherwise(0) / pl.col("occurrences"),
            occurrences=pl.when(repeated).then(0).otherwise("occurrences"),
        )
        .group_by(_KEY, maintain_order=True)
        .agg(pl.col("occurrences", "share").max(), *sums)
        .with_columns(
            known=(pl.col("share").fill_nan(0) * pl.col("occurrences")).round()
        )
    )
    if allocated is not None:
        merged = _add_allocations(merged, allocated)
    return _with_all_columns(merged)


def _add_allocations(merged: pl.DataFrame, allocated: pl.DataFrame) -> pl.DataFrame:
    """Add `allocated_bytes` by op and node; if no row has both, by op alone.

    If several rows have the same op (and node), the bytes are added to the first one.
    """
    key = ["name", "place"]
    unplaced = (
        allocated.join(merged.select(key).unique(), on=key, how="anti")
        .group_by("name", maintain_order=True)
        .agg(pl.col("allocated_bytes").sum().alias("elsewhere"))
    )
    parts = [
        pl.when(pl.int_range(pl.len()).over(columns) == 0).then(name)
        for name, columns in (("allocated_bytes", key), ("elsewhere", ["name"]))
    ]
    has_part = pl.any_horizontal(part.is_not_null() for part in parts)
    return (
        merged.join(allocated, on=key, how="left", maintain_order="left")
        .join(unplaced, on="name", how="left", maintain_order="left")
        .with_columns(allocated_bytes=pl.when(has_part).then(pl.sum_horizontal(parts)))
    )


def _count_executions(work: DeviceWork, rows: Rows, groups: Codes) -> Int64s:
    """Count executions by code; if unknown, count those of the most frequent kernel."""
    execution = work.execution[rows]
    runs = distinct_runs(
        groups.code, execution, groups=groups.count, executions=work.execution_count
    ).count
    unknown = np.flatnonzero(execution < 0)
    if len(unknown):
        code = groups.code[unknown]
        kernels = number_rows([code, work.kernel[rows][unknown]])
        max_runs = np.zeros(groups.count, np.int64)
        np.maximum.at(max_runs, code[kernels.first], np.bincount(kernels.code))
        runs += max_runs
    return runs


def _named_ops(ops: pl.DataFrame, rows: Int32s) -> pl.DataFrame:
    line = pl.format("{}:{}", "source_file", "source_line")
    return ops[rows].select("name", "type", source=pl.coalesce(line, "source_file"))


def _sum_of_known(name: str) -> pl.Expr:
    column = pl.col(name)
    return pl.when(column.is_not_null().any()).then(column.sum()).alias(name)


def _with_all_columns(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(
        (pl.col(name) if name in rows.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in CHARGES.items()
    )
