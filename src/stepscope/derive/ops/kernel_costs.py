"""`kernel_costs`: what each class of kernels computed and moved, from operands.

The operands of an execution, and an instruction of a program, describe all of their
work, so their cost is that of a kernel only where they run this one kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.dense_codes import totals_by
from stepscope.derive.device.executions import executions_of_activities
from stepscope.derive.ops.costs import DIVIDED, left_to_others
from stepscope.trace.reading.by_row import by_row
from stepscope.trace.reading.nullable import nullable
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.device.activity_classes import ActivityClasses, ClassTotals
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.device.executions import DeviceExecutions
    from stepscope.derive.host.event_nesting import LaunchingOps
    from stepscope.derive.ops.execution_costs import ExecutionCosts

#: Columns of `kernel_costs`, one row per class of activities; null means unknown.
KERNEL_COSTS: Final[dict[str, pl.DataType]] = {
    "flops": pl.Int64(),  # of all activities of the class
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
    """Add up by class; a sum is known only if the cost of every activity is.

    Definition: docs/tools/roofline_model.md#where-the-work-comes-from.
    """
    op = activity_classes.rows["op"]
    # Work that begins with one instruction and ends with another is done between them.
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
    # A run may need its kernel several times.
    runs = pl.min_horizontal("count", "executions")
    only_kernel = (pl.len().over("device", "op") == 1) & ~pl.col("divided")
    by_program = rows.select(
        pl.when(only_kernel).then(pl.col(name) * runs).cast(kind).alias(name)
        for name, kind in KERNEL_COSTS.items()
    )
    execution = executions_of_activities(activity_ops, correlation, launching_ops)
    if execution is None or isinstance(execution_costs, Unavailable):
        return by_program
    doubtful = left_to_others(device_executions, execution_costs)
    doubtful |= device_executions.launched & execution_costs.only_calls
    # Work of several ops, or on several devices.
    doubtful |= device_executions.owner < 0
    launched = np.flatnonzero(execution >= 0)
    by = execution[launched]
    alone = by_row(np.bincount(by, minlength=len(execution_costs.flops)), by) == 1
    told = launched[alone & ~by_row(doubtful, by)]
    code, by = activity_classes.code[told], execution[told]
    columns = []
    for name, of_execution in (
        ("flops", execution_costs.flops),
        ("accessed_bytes", execution_costs.accessed_bytes),
    ):
        value = by_row(of_execution, by)
        count = len(activity_classes.rows)
        sums = totals_by(code, value, count=count, where=value >= 0)
        known = (sums.count == class_totals.all.count) & (sums.count > 0)
        columns.append(nullable(name, sums.total, known))
    by_host = pl.DataFrame(columns, schema=KERNEL_COSTS)
    return by_program.select(
        pl.coalesce(name, by_host[name]).alias(name) for name in KERNEL_COSTS
    )
