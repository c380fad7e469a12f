"""`kernel_costs`: what each class of kernels computed and moved, from operands.

The operands of an execution describe all of its work, so its cost is that of a kernel
only where the execution launched this one kernel and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import nullable
from stepscope.derive.columns.dense_codes import totals_by
from stepscope.derive.device.executions import executions_of_activities
from stepscope.derive.ops.costs import left_to_others
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.device.activity_classes import ActivityClasses
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.class_totals import ClassTotals
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.device.executions import DeviceExecutions
    from stepscope.derive.host.launching_ops import LaunchingOps
    from stepscope.derive.ops.execution_costs import ExecutionCosts

__all__ = ["KERNEL_COSTS", "kernel_costs"]

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
    execution_costs: ExecutionCosts | Unavailable,
) -> pl.DataFrame:
    """Add up by class; a sum is known only if the cost of every activity is.

    Definition: docs/tools/roofline_model.md#where-the-work-comes-from.
    """
    count = len(activity_classes.rows)
    execution = executions_of_activities(activity_ops, correlation, launching_ops)
    if execution is None or isinstance(execution_costs, Unavailable):
        nothing = {name: [None] * count for name in KERNEL_COSTS}
        return pl.DataFrame(nothing, schema=KERNEL_COSTS)
    costs = execution_costs
    doubtful = left_to_others(device_executions, costs)
    doubtful |= device_executions.launched & costs.only_calls
    # Work of several ops, or on several devices.
    doubtful |= device_executions.owner < 0
    launched = np.flatnonzero(execution >= 0)
    by = execution[launched]
    alone = np.bincount(by, minlength=len(costs.flops))[by] == 1
    told = launched[alone & ~doubtful[by]]
    columns = []
    for name, of_execution in (
        ("flops", costs.flops),
        ("accessed_bytes", costs.accessed_bytes),
    ):
        value = np.full(len(execution), -1, np.int64)
        value[told] = of_execution[execution[told]]
        sums = totals_by(activity_classes.code, value, count=count, where=value >= 0)
        known = (sums.count == class_totals.all.count) & (sums.count > 0)
        columns.append(nullable(name, sums.total, known))
    return pl.DataFrame(columns, schema=KERNEL_COSTS)
