"""`op_costs`, `host_op_costs` and `kernel_costs`: operations and bytes of executions.

A sum is known only if all its costs are known: an incomplete sum gives a wrong rate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import ACTIVITY_CODES
from stepscope.derive.columns.dense_codes import (
    extremes_by_code,
    number_rows,
    totals_by_code,
)
from stepscope.derive.costs.families import calls_only
from stepscope.derive.device.activity_classes import executions_of_activities
from stepscope.derive.device.precision import KERNEL_KIND, PrecisionEvidence
from stepscope.derive.ops.execution_costs import RUN_COSTS
from stepscope.derive.reasons import WHY
from stepscope.hardware import computing_unit, peak_flops, peak_rates
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.reading.nullable import fill_nulls, nullable_series, present_mask
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_S

if TYPE_CHECKING:
    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s
    from stepscope.derive.device.activity_classes import (
        ActivityClasses,
        ClassTotals,
        DeviceExecutions,
    )
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.device.peaks import DevicePeaks
    from stepscope.derive.device.precision import Precision, TensorCores
    from stepscope.derive.host.event_nesting import LaunchingOps
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.ops.execution_costs import ExecutionCosts

#: Columns of `op_costs`; null means unknown.
OP_COSTS: Final[dict[str, pl.DataType]] = {
    "device": pl.Int32(),
    "module": pl.String(),
    "name": pl.String(),
    **RUN_COSTS,  # totals of all executions
    "peak_flops": pl.Float64(),  # operations possible in the kernels' time
    "peak_bytes": pl.Float64(),  # bytes that the memory could move in that time
}
#: Columns of `host_op_costs`; null means unknown.
HOST_OP_COSTS: Final[dict[str, pl.DataType]] = {
    "module": pl.String(),
    "name": pl.String(),
    **RUN_COSTS,
}
_KEY: Final = ["device", "group"]
#: Pattern of opcodes of asynchronous work, such as `copy-start`, `all-reduce-done`.
DIVIDED: Final = r"-(?:start|update|done)$"
#: Activities whose speed is limited by a link (to a host or device), not by memory.
_THROUGH_A_LINK: Final = tuple(
    ACTIVITY_CODES[kind]
    for kind in ("collective", "h2d", "d2h", "p2p_copy", "transfer_wait")
)
#: Kind of copy → how often each of its bytes is read from or written to device memory.
_TIMES_MOVED: Final = {
    ACTIVITY_CODES[kind]: times
    for kind, times in (("h2d", 1), ("d2h", 1), ("local_copy", 2), ("memset", 1))
}


def op_costs(
    *,
    device_activity: pl.DataFrame,
    activity_classes: ActivityClasses,
    activity_ops: ActivityOps,
    class_totals: ClassTotals,
    device_executions: DeviceExecutions,
    run_costs: pl.DataFrame,
    precision: Precision,
    tensor_cores: TensorCores | Unavailable,
    device_peaks: DevicePeaks | Unavailable,
    execution_costs: ExecutionCosts | Unavailable,
) -> pl.DataFrame:
    """Sum costs and peaks by device and op.

    The costs of an op are those of its program's instructions times the number of their
    executions; if unknown, those of the host executions that launched its activities.
    If these are unknown too, copies have their recorded bytes.

    Definition: docs/tools/framework_op_stats.md#how-each-number-is-defined.

    Returns:
        Columns `OP_COSTS`; one row per device and op.
    """
    executions, classes = device_executions, activity_classes.rows
    # Asynchronous work runs between two instructions, so its cost is in neither.
    divided = activity_ops.ops["category"].str.contains(DIVIDED).fill_null(value=False)
    sources = [
        _costs_by_program(
            classes,
            class_totals,
            executions,
            run_costs.select(pl.when(~divided).then(pl.all())),
        )
    ]
    if not isinstance(execution_costs, Unavailable):
        sources.append(_host_costs(executions, execution_costs))
    sources.append(
        _costs_by_copies(activity_classes, class_totals, executions, device_activity)
    )
    group = executions.rows["group"].to_numpy()
    groups = activity_ops.ops["group"].to_numpy()
    # All rows of a group have the same module and name.
    first: Int64s = np.unique(groups, return_index=True)[1][group]
    named = activity_ops.ops[["module", "name"]][first]
    rates = _peak_rates(classes, precision, tensor_cores, device_peaks)
    # Compute what units and memory could have done in the time of each op's kernels.
    seconds = pl.Series(class_totals.all.total) / PS_PER_S
    peaks = (
        pl.DataFrame(
            {
                "place": executions.of_class,
                "peak_flops": rates[0] * seconds,
                "peak_bytes": rates[1] * seconds,
            }
        )
        .group_by("place")
        .agg(_sum_if_complete("peak_flops"), _sum_if_complete("peak_bytes"))
        .sort("place")
    )
    costs = [
        pl.coalesce(*(source[name] for source in sources)).alias(name)
        for name in RUN_COSTS
    ]
    return named.hstack([executions.rows["device"], *peaks.drop("place")]).select(
        "device", "module", "name", *costs, "peak_flops", "peak_bytes"
    )


def _costs_by_program(
    classes: pl.DataFrame,
    class_totals: ClassTotals,
    executions: DeviceExecutions,
    run_costs: pl.DataFrame,
) -> dict[str, pl.Series]:
    """Sum over the instructions of each op, which run at most as often as the op."""
    device_op, op = executions.of_class, classes["op"].to_numpy()
    instructions = number_rows([device_op, op])
    kernels = number_rows([instructions.code, classes["type"].to_numpy()])
    counts = totals_by_code(
        kernels.code, class_totals.all.count, count=kernels.count
    ).total
    # An instruction runs each of its kernels at least once.
    runs = extremes_by_code(
        instructions.code[kernels.first], counts, count=instructions.count
    ).greatest
    device_op = device_op[instructions.first]
    runs = np.minimum(runs, executions.rows["executions"].to_numpy()[device_op])
    per_run = run_costs[op[instructions.first]]
    count = len(executions.rows)
    return {
        name: _known_sums(
            name,
            device_op,
            np.where(
                present_mask(per_run[name]), fill_nulls(per_run[name], 0) * runs, -1
            ),
            count,
        )
        for name in RUN_COSTS
    }


def _costs_by_copies(
    activity_classes: ActivityClasses,
    class_totals: ClassTotals,
    executions: DeviceExecutions,
    device_activity: pl.DataFrame,
) -> dict[str, pl.Series]:
    moved = totals_by_code(
        activity_classes.code,
        fill_nulls(device_activity["bytes"], 0),
        count=len(activity_classes.rows),
        where=present_mask(device_activity["bytes"]),
    )
    times = np.zeros(256, np.int64)
    times[list(_TIMES_MOVED)] = list(_TIMES_MOVED.values())
    by_kind = times[activity_classes.rows["kind"].to_numpy()]
    complete = (moved.count == class_totals.all.count) & (by_kind > 0)
    nothing = np.where(complete, 0, -1)
    accessed = np.where(complete, moved.total * by_kind, -1)
    columns = {"flops": nothing, "model_flops": nothing, "accessed_bytes": accessed}
    count = len(executions.rows)
    return {
        name: _known_sums(name, executions.of_class, values, count)
        for name, values in columns.items()
    }


def _host_costs(runs: DeviceExecutions, costs: ExecutionCosts) -> dict[str, pl.Series]:
    owner = runs.owner
    candidates = (owner >= 0) & ((costs.flops >= 0) | (costs.accessed_bytes >= 0))
    if candidates.any():
        candidates &= ~encloses_unknown_costs(runs, costs)
        # If an op calls ops and also launches work itself, that work has no known cost.
        candidates &= ~(runs.launched & costs.only_calls)
    count = len(runs.rows)
    complete = runs.rows["executions"].to_numpy()
    columns = {}
    for name, of_execution in (
        ("flops", costs.flops),
        ("model_flops", costs.flops),
        ("accessed_bytes", costs.accessed_bytes),
    ):
        has_cost = candidates & (of_execution >= 0)
        sums = totals_by_code(owner, of_execution, count=count, where=has_cost)
        known = (sums.count == complete) & (complete > 0)
        columns[name] = nullable_series(name, sums.total, known)
    return columns


def encloses_unknown_costs(runs: DeviceExecutions, costs: ExecutionCosts) -> Bools:
    """Return executions that enclose device work of executions whose cost is unknown.

    The operands of the outer execution may describe the work of the inner ones.
    """
    left = np.zeros(len(costs.flops), np.bool_)
    inner = runs.launched & (costs.flops < 0)
    while inner.any():
        above = costs.parent[inner]
        above = above[above >= 0]
        # Each execution is visited only once.
        inner = np.zeros(len(left), np.bool_)
        inner[above[~left[above]]] = True
        left |= inner
    return left


def _sum_if_complete(name: str) -> pl.Expr:
    column = pl.col(name)
    return pl.when(column.null_count() == 0).then(column.sum()).alias(name)


def _peak_rates(
    classes: pl.DataFrame,
    precision: Precision,
    tensor_cores: TensorCores | Unavailable,
    device_peaks: DevicePeaks | Unavailable,
) -> tuple[pl.Series, pl.Series]:
    kinds = classes["kind"].to_numpy()
    described: dict[int, dict[str, Any]] = {}
    if not isinstance(device_peaks, Unavailable):
        peaks = device_peaks.rows.iter_rows(named=True)
        described = {row["device"]: row for row in peaks}
    rate: list[float | None] = []
    memory: list[float | None] = []
    # Each iteration handles one class of activities, that is, one distinct kernel.
    for index, device in enumerate(classes["device"].to_list()):
        row = described.get(device, {})
        local = int(kinds[index]) not in _THROUGH_A_LINK
        memory.append(row.get("memory_bandwidth") if local else None)
        if kinds[index] != KERNEL_KIND:
            rate.append(0.0)
            continue
        uses = -1
        if not isinstance(tensor_cores, Unavailable):
            uses = int(tensor_cores.of_class[index, 0])
        rate.append(_peak_rate(row, precision.of_class[index], uses))
    return pl.Series(rate, dtype=pl.Float64), pl.Series(memory, dtype=pl.Float64)


def _peak_rate(device: dict[str, Any], width: UInt8s, uses: int) -> float | None:
    if device.get("peak_flops"):
        return float(device["peak_flops"])
    given = [device.get(name) for name in ("cc_major", "cc_minor", "cores", "clock_hz")]
    bits, fp64, _, evidence = width.tolist()
    if evidence == PrecisionEvidence.DEFAULT or None in given:
        return None
    major, minor, cores, clock_hz = (int(number or 0) for number in given)
    rates = peak_rates(device.get("vendor"), major, minor)
    unit = computing_unit(
        bits=bits, fp64=bool(fp64), matrix=None if uses < 0 else uses == 1
    )
    if rates is None or unit is None:
        return None
    return peak_flops(rates, unit, cores, clock_hz)


def host_op_costs(
    *,
    host_op_events: HostOpEvents,
    execution_costs: ExecutionCosts,
    device_activity: pl.DataFrame | Unavailable,
) -> pl.DataFrame | Unavailable:
    """Sum each op's costs on a host without devices, including the ops that it called.

    Returns:
        Columns `HOST_OP_COSTS`, one row per op.
    """
    on_host = (
        isinstance(device_activity, Unavailable)
        and device_activity.code == "NO_DEVICE_PLANE"
    )
    if not on_host:
        return WHY["no_host_rates"]
    ops, costs = host_op_events, execution_costs
    types = ops.ops["type"].fill_null("").to_list()
    callers = np.array([calls_only(op_type) for op_type in types], np.bool_)
    calls = callers[ops.op] if len(types) else np.zeros(0, np.bool_)
    # Sum the operations of each execution and of all its callees, -1 if unknown.
    total = np.maximum(costs.flops, 0)
    unknown = costs.flops < 0
    order = np.argsort(costs.depth, kind="stable")
    cuts = np.flatnonzero(np.diff(costs.depth[order])) + 1
    # Each iteration handles one level of nesting, starting with the innermost.
    for rows in reversed(np.split(order, cuts)):
        above = costs.parent[rows]
        inside = rows[above >= 0]
        above = above[above >= 0]
        np.add.at(total, above, total[inside])
        doubtful = above[unknown[inside]]
        unknown[doubtful[calls[doubtful]]] = True
    flops = np.where(unknown, -1, total)
    count = len(ops.ops)
    columns = [
        _known_sums(name, ops.op, values, count)
        for name, values in (
            ("flops", flops),
            ("model_flops", flops),
            ("accessed_bytes", costs.accessed_bytes),
        )
    ]
    return (
        ops.ops.select("module", "name")
        .hstack(columns)
        .group_by("module", "name", maintain_order=True)
        .agg(_sum_if_complete(name) for name in RUN_COSTS)
        .select(pl.col(name).cast(dtype) for name, dtype in HOST_OP_COSTS.items())
    )


def _known_sums(name: str, op: Int32s, values: Int64s, count: int) -> pl.Series:
    sums = totals_by_code(op, values, count=count, where=values >= 0)
    runs = np.bincount(op, minlength=count)
    return nullable_series(name, sums.total, (sums.count == runs) & (runs > 0))


#: Columns of `kernel_costs`, one row per class of activities; null means unknown.
KERNEL_COSTS: Final[dict[str, pl.DataType]] = {
    "flops": pl.Int64(),  # total over all activities of the class
    "accessed_bytes": pl.Int64(),
}


def kernel_costs(
    *,
    activity_classes: ActivityClasses,
    activity_ops: ActivityOps,
    class_totals: ClassTotals,
    correlation: Correlation | Unavailable,
    launching_ops: LaunchingOps | Unavailable,
    device_executions: DeviceExecutions,
    run_costs: pl.DataFrame,
    execution_costs: ExecutionCosts | Unavailable,
) -> pl.DataFrame:
    """Sum costs by class of activities; null if the cost of any activity is unknown.

    Definition: docs/tools/roofline_model.md#where-the-work-comes-from.
    """
    op = activity_classes.rows["op"]
    # Asynchronous work runs between two instructions, so its cost is in neither.
    divided = activity_ops.ops["category"][op].str.contains(DIVIDED)
    rows = pl.DataFrame(
        {
            "device": activity_classes.rows["device"],
            "op": op,
            "count": class_totals.all.count,
            "divided": divided.fill_null(value=False),
            "executions": device_executions.rows["executions"].gather(
                device_executions.of_class
            ),
        }
    ).hstack(run_costs.select(KERNEL_COSTS.keys())[op])
    # An execution may run its kernel several times.
    runs = pl.min_horizontal("count", "executions")
    only_kernel = (pl.len().over("device", "op") == 1) & ~pl.col("divided")
    by_program = rows.select(
        pl.when(only_kernel).then(pl.col(name) * runs).cast(kind).alias(name)
        for name, kind in KERNEL_COSTS.items()
    )
    execution = executions_of_activities(activity_ops, correlation, launching_ops)
    if execution is None or isinstance(execution_costs, Unavailable):
        return by_program
    doubtful = encloses_unknown_costs(device_executions, execution_costs)
    doubtful |= device_executions.launched & execution_costs.only_calls
    # The costs of executions with work of several ops or devices are also doubtful.
    doubtful |= device_executions.owner < 0
    launched = np.flatnonzero(execution >= 0)
    owner = execution[launched]
    single = (
        values_by_row(np.bincount(owner, minlength=len(execution_costs.flops)), owner)
        == 1
    )
    known_rows = launched[single & ~values_by_row(doubtful, owner)]
    code, owner = activity_classes.code[known_rows], execution[known_rows]
    columns = []
    for name, of_execution in (
        ("flops", execution_costs.flops),
        ("accessed_bytes", execution_costs.accessed_bytes),
    ):
        value = values_by_row(of_execution, owner)
        count = len(activity_classes.rows)
        sums = totals_by_code(code, value, count=count, where=value >= 0)
        known = (sums.count == class_totals.all.count) & (sums.count > 0)
        columns.append(nullable_series(name, sums.total, known))
    by_host = pl.DataFrame(columns, schema=KERNEL_COSTS)
    return by_program.select(
        pl.coalesce(name, by_host[name]).alias(name) for name in KERNEL_COSTS
    )
