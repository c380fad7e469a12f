"""Costs of a program by op and place, from which the views of a model are made.

A charge is what all executions of one op at one place cost together. Every execution
on the host and every activity of a device is in exactly one charge, so in whatever tree
the charges are placed, its roots hold all of the time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import codes
from stepscope.derive.columns.dense_codes import combined, distinct_runs, totals_by
from stepscope.derive.names.op_names import read_annotations
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import by_row
from stepscope.trace.tables import ALLOCATIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.columns.dense_codes import Codes
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.ops.execution_costs import ExecutionCosts

#: Columns of charges; null means unknown.
CHARGES: Final[dict[str, pl.DataType]] = {
    "name": pl.String(),
    "type": pl.String(),
    "source": pl.String(),  # `file:line` of the op itself, where it was recorded
    "place": pl.Int32(),  # a place of the tree that was asked for; -1 for none
    "occurrences": pl.Int64(),
    "host_ps": pl.Int64(),
    "device_ps": pl.Int64(),
    "flops": pl.Int64(),  # of the executions whose operations are known
    "known": pl.Int64(),  # number of executions whose operations are known
    "allocated_bytes": pl.Int64(),
    "parameters": pl.Int64(),  # elements of the distinct variables that were read
}
#: The type that a variable of the model has among ops.
VARIABLE: Final = "Variable"
#: Rows of a table: all of them without a copy, or some.
Rows = slice | np.ndarray
_KEY: Final = ("name", "type", "source", "place")
_DOUBTFUL: Final = ("host_ps", "device_ps", "flops", "parameters")
_DEVICE: Final = 1
_ALLOCATE: Final = ALLOCATIONS.categories("kind").categories.to_list().index("allocate")


class VariableReads(Frozen, frozen=True):
    """Which variables of the model executions read.

    Attributes:
        unit: int32 by execution; one number for all executions that read one set of
            variables of one layer, -1 for those that read none.
        elements: int64 by unit; number of elements of its variables.
    """

    unit: NDArray[np.int32]
    elements: NDArray[np.int64]


class DeviceWork(Frozen, frozen=True):
    """What is known of each device activity.

    Attributes:
        device: int32 by row of device_activity; ordinal of the device.
        op: int32; a row of the ops of `activity_ops`.
        kernel: int32; the kernel by its name, a row of event_types; -1 for activities
            that no op names, each of which counts as an execution.
        dur_ps: int64; duration of the activity.
        execution: int32; the execution of its own op that launched it, -1 for none.
        execution_count: Number of executions on the host.
        flops_of_op: int64 by row of the ops of `activity_ops`: operations of one
            execution, -1 where unknown.
    """

    device: NDArray[np.int32]
    op: NDArray[np.int32]
    kernel: NDArray[np.int32]
    dur_ps: NDArray[np.int64]
    execution: NDArray[np.int32]
    execution_count: int
    flops_of_op: NDArray[np.int64]


def host_charges(
    found: HostOpEvents,
    costs: ExecutionCosts,
    *,
    place: NDArray[np.int32],
    chosen: NDArray[np.bool_],
    reads: VariableReads | None,
) -> pl.DataFrame:
    """Charge executions on the host.

    Args:
        found: The executions.
        costs: What each of them computed.
        place: By execution.
        chosen: By execution: whether it counts.
        reads: Variables that they read, where that is known.

    Returns:
        Columns `CHARGES` without `device_ps` and `allocated_bytes`.
    """
    rows: Rows = slice(None) if chosen.all() else np.flatnonzero(chosen)
    op, where = found.op[rows], place[rows]
    distinct = combined([op, where])
    count = distinct.count
    flops = costs.flops[rows]
    own = totals_by(distinct.code, found.self_ps[rows], count=count)
    work = totals_by(distinct.code, flops, count=count, where=flops >= 0)
    ops = found.ops[op[distinct.first]]
    named = ops.select("name", "type", source=_source())
    return named.with_columns(
        pl.Series("place", where[distinct.first]),
        pl.Series("occurrences", own.count),
        pl.Series("host_ps", own.total),
        _known_only("flops", work.total, work.count),
        pl.Series("known", work.count),
        _parameters(reads, rows, distinct.code, count),
    )


def _parameters(
    reads: VariableReads | None,
    rows: Rows,
    code: NDArray[np.int32],
    count: int,
) -> pl.Series:
    """Return elements of variables by code; null for a code that reads none.

    A variable counts where it is read first, so that it counts once.
    """
    nothing = np.zeros(count, np.int64)
    if reads is None:
        return _known_only("parameters", nothing, nothing)
    unit = reads.unit[rows]
    some = np.flatnonzero(unit >= 0)
    unit = unit[some]
    _, first = np.unique(unit, return_index=True)
    found = totals_by(code[some][first], reads.elements[unit[first]], count=count)
    return _known_only("parameters", found.total, found.count)


def device_charges(
    ops: ActivityOps,
    work: DeviceWork,
    *,
    place: NDArray[np.int32],
    chosen: NDArray[np.bool_],
) -> pl.DataFrame:
    """Charge activities of devices.

    Activities belong to the execution that launched them. Activities that no execution
    of their own op launched count by the kernel that occurs most often among them,
    because an execution runs each of its kernels at least once.

    Returns:
        Columns `CHARGES` without `host_ps` and `allocated_bytes`.
    """
    rows: Rows = slice(None) if chosen.all() else np.flatnonzero(chosen)
    group = ops.ops["group"].to_numpy().astype(np.int32)
    op, device, where = work.op[rows], work.device[rows], place[rows]
    charge = combined([by_row(group, op), where])
    spent = totals_by(charge.code, work.dur_ps[rows], count=charge.count).total
    by_device = combined([charge.code, device])
    runs = _executions(work, rows, by_device)
    occurrences = np.bincount(
        charge.code[by_device.first], weights=runs, minlength=charge.count
    ).astype(np.int64)
    flops = totals_by(np.empty(0, np.int32), np.empty(0, np.int64), count=charge.count)
    known = np.zeros(charge.count, np.int64)
    if (work.flops_of_op >= 0).any():
        # Each instruction of an op has costs of its own.
        instruction = combined([charge.code, device, op])
        if instruction.count == by_device.count:
            runs = runs[by_device.code[instruction.first]]
        else:
            runs = _executions(work, rows, instruction)
        per_run = work.flops_of_op[op[instruction.first]]
        of_charge = charge.code[instruction.first]
        some = per_run >= 0
        flops = totals_by(of_charge, per_run * runs, count=charge.count, where=some)
        known = _known_runs(of_charge, some, occurrences)
    named = ops.ops[op[charge.first]].select("name", "type", source=_source())
    return named.with_columns(
        pl.Series("place", where[charge.first]),
        pl.Series("occurrences", occurrences),
        pl.Series("device_ps", spent),
        _known_only("flops", flops.total, flops.count),
        pl.Series("known", known),
    )


def allocation_charges(
    allocations: pl.DataFrame, *, place: NDArray[np.int32], chosen: NDArray[np.bool_]
) -> pl.DataFrame:
    """Charge allocated bytes to the ops that asked for them.

    Args:
        allocations: The table of that name.
        place: By row of allocations.
        chosen: By row of allocations: whether it counts.

    Returns:
        `name`, `place`, `allocated_bytes`, without allocations that no op asked for.
    """
    taken = (codes(allocations, "kind") == _ALLOCATE) & chosen
    asked = (
        allocations.select("op", "allocated_bytes", place=pl.Series(place))
        .filter(
            pl.Series(taken),
            pl.col("op").is_not_null(),
            pl.col("allocated_bytes").is_not_null(),
        )
        .group_by("op", "place", maintain_order=True)
        .agg(pl.col("allocated_bytes").sum())
    )
    texts = asked["op"].unique(maintain_order=True)
    read = read_annotations(texts.to_list())
    names = pl.DataFrame({"op": texts, "name": read["name"]})
    return (
        asked.join(names, on="op", how="left", maintain_order="left")
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
        parameters: The table of that name.
        trainable_only: Leave out those that are known not to be trained.
    """
    some = parameters
    if trainable_only:
        some = parameters.filter(pl.col("trainable").fill_null(value=True))
    columns = some.select("name", "scope", "shape")
    rows = pl.DataFrame(
        # Over the variables of a model, not over what ran.
        [
            (_path(name, scope), None if sizes is None else math.prod(sizes))
            for name, scope, sizes in columns.iter_rows()
        ],
        schema={"name": pl.String, "parameters": pl.Int64},
        orient="row",
    ).with_columns(
        place=pl.lit(-1),
        type=pl.lit(VARIABLE),
        occurrences=pl.lit(0),
        known=pl.lit(0),
    )
    return rows.select(
        (pl.col(name) if name in rows.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in CHARGES.items()
    )


def _path(name: str, scope: str) -> str:
    divider = name[len(scope) : len(scope) + 1]
    if not scope or not divider or not name.startswith(scope):
        return name
    return name.replace(divider, "/")


def merged_charges(
    host: pl.DataFrame | None,
    device: pl.DataFrame | None,
    allocated: pl.DataFrame | None,
) -> pl.DataFrame:
    """Return one row per op and place, columns `CHARGES`.

    Executions that both sides show are counted once: the greater count is taken, and
    their operations count once.
    """
    sides = [
        _completed(side).with_columns(pl.lit(number).alias("side"))
        for number, side in enumerate((host, device))
        if side is not None
    ]
    if not sides:
        return pl.DataFrame(schema=CHARGES)
    # Types and sources that one side lacks are taken from the other, by name.
    whole = pl.concat(sides).with_columns(
        pl.col("type").drop_nulls().last().over("name", "place"),
        pl.col("source").drop_nulls().last().over("name", "place"),
    )
    by_side = whole.group_by(*_KEY, "side", maintain_order=True).agg(
        *(pl.col(name).sum() for name in ("occurrences", "known")),
        *(_sum_of_known(name) for name in _DOUBTFUL),
    )
    merged = (
        _once(by_side)
        .group_by(_KEY, maintain_order=True)
        .agg(
            pl.col("occurrences").max(),
            *(_sum_of_known(name) for name in _DOUBTFUL),
            (pl.col("known") / pl.col("runs")).max().alias("share"),
        )
    )
    merged = merged.with_columns(
        known=(pl.col("share").fill_nan(0) * pl.col("occurrences")).round()
    )
    merged = _with_allocations(merged, allocated)
    return merged.select(pl.col(name).cast(dtype) for name, dtype in CHARGES.items())


def _once(by_side: pl.DataFrame) -> pl.DataFrame:
    """Count the costs and executions of an op that both sides show on one side only.

    The device's costs are those of what ran, so the host's are used only where the
    device has none. Executions of an op on the device that no launch call ties to the
    host are taken for the host's executions where the host has the op.
    """
    on_device = pl.col("side") == _DEVICE
    told = (on_device & pl.col("flops").is_not_null()).any().over("name")
    stands_in = ~told | on_device
    on_host = (~on_device).any().over("name")
    here = (~on_device).any().over("name", "place")
    repeated = on_device & on_host & ~here
    return by_side.with_columns(
        runs=pl.col("occurrences"),
        flops=pl.when(stands_in).then("flops"),
        known=pl.when(stands_in).then("known").otherwise(0),
    ).with_columns(
        occurrences=pl.when(repeated).then(0).otherwise("occurrences"),
    )


def _with_allocations(
    merged: pl.DataFrame, allocated: pl.DataFrame | None
) -> pl.DataFrame:
    """Add `allocated_bytes` by op and place, else by op alone."""
    if allocated is None:
        return merged.with_columns(pl.lit(None, pl.Int64).alias("allocated_bytes"))
    here = merged.select("name", "place").unique()
    placed = allocated.join(here, on=["name", "place"], how="semi")
    others = (
        allocated.join(here, on=["name", "place"], how="anti")
        .group_by("name", maintain_order=True)
        .agg(pl.col("allocated_bytes").sum().alias("elsewhere"))
    )
    # Rows of one op and place, and of one op, share what was allocated: the first of
    # them holds it.
    first = pl.int_range(pl.len()).over("name", "place") == 0
    first_of_op = pl.int_range(pl.len()).over("name") == 0
    joined = merged.join(
        placed, on=["name", "place"], how="left", maintain_order="left"
    ).join(others, on="name", how="left", maintain_order="left")
    parts = joined.select(
        pl.when(first).then("allocated_bytes"), pl.when(first_of_op).then("elsewhere")
    )
    total = pl.sum_horizontal("allocated_bytes", "elsewhere")
    some = pl.any_horizontal(pl.all().is_not_null())
    return joined.with_columns(
        parts.select(pl.when(some).then(total).alias("allocated_bytes")).to_series()
    )


def _executions(work: DeviceWork, rows: Rows, by: Codes) -> NDArray[np.int64]:
    """Count executions by code: distinct ones, and the others by commonest kernel."""
    execution = work.execution[rows]
    runs = distinct_runs(
        by.code, execution, places=by.count, executions=work.execution_count
    ).count
    others = np.flatnonzero(execution < 0)
    if len(others):
        of_code, often = _pairs(by.code[others], work.kernel[rows][others])
        most = np.zeros(by.count, np.int64)
        np.maximum.at(most, of_code, often)
        runs += most
    return runs


def _pairs(
    code: NDArray[np.int32], value: NDArray[np.signedinteger]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the code of each distinct pair with a value, and how often it occurs.

    Sorting bare keys is several times faster than numbering the rows would be.
    """
    if not len(code):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    least = int(value.min())
    width = np.int64(int(value.max()) - least + 1)
    key = np.sort(code * width + (value.astype(np.int64) - least))
    first = np.flatnonzero(np.diff(key, prepend=key[0] - 1))
    return key[first] // width, np.diff(first, append=len(key))


def _known_runs(
    charge: NDArray[np.int32], known: NDArray[np.bool_], runs: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Count executions whose instructions all have known costs."""
    complete = np.ones(len(runs), np.bool_)
    complete[charge[~known]] = False
    return np.where(complete, runs, 0)


def _known_only(
    name: str, values: NDArray[np.int64], count: NDArray[np.int64]
) -> pl.Series:
    present = pl.Series(count > 0)
    return pl.select(
        pl.when(present).then(pl.Series(values)).otherwise(None).alias(name)
    ).to_series()


def _sum_of_known(name: str) -> pl.Expr:
    column = pl.col(name)
    return pl.when(column.is_not_null().any()).then(column.sum()).alias(name)


def _source() -> pl.Expr:
    return pl.coalesce(pl.format("{}:{}", "source_file", "source_line"), "source_file")


def _completed(side: pl.DataFrame) -> pl.DataFrame:
    return side.select(
        pl.col(name).cast(dtype)
        if name in side.columns
        else pl.lit(None, dtype).alias(name)
        for name, dtype in CHARGES.items()
        if name != "allocated_bytes"
    )
