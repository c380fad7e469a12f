"""`run_costs`: what one execution of each op of a device costs, as far as recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles
from stepscope.derive.columns.stat_values import find_handle, rows_with_key
from stepscope.derive.host.values import int_values
from stepscope.trace.reading.nullable import filled, nullable
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.device.activity_classes import ActivityClasses
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.trace.model import TraceData

#: Columns of `run_costs`; null means unknown.
RUN_COSTS: Final[dict[str, pl.DataType]] = {
    "flops": pl.Int64(),  # operations of the instruction that ran
    "model_flops": pl.Int64(),  # operations of the program before a compiler changed it
    "accessed_bytes": pl.Int64(),  # read and written, each tensor once
}
#: Column → the name of the value that compilers record of an instruction.
_STORED: Final = {
    "flops": StatKey.FLOPS,
    "model_flops": StatKey.MODEL_FLOPS,
    "accessed_bytes": StatKey.BYTES_ACCESSED,
}


def run_costs(
    *,
    trace: TraceData,
    activity_classes: ActivityClasses,
    activity_ops: ActivityOps,
    instruction_costs: pl.DataFrame | Unavailable,
    type_stats: pl.DataFrame | Unavailable,
) -> pl.DataFrame:
    """Return the cost of one execution by row of the ops of `activity_ops`.

    Costs come from the program's instruction, else from what the compiler recorded.
    `model_flops` are those of the instruction where nothing else was recorded.

    Returns:
        Columns `RUN_COSTS`, one row per op.
    """
    ops, classes = activity_ops.ops, activity_classes.rows
    hlo = filled(ops["hlo"], -1)
    columns = {}
    for name, value in _STORED.items():
        cost = np.full(len(ops), -1, np.int64)
        if not isinstance(instruction_costs, Unavailable):
            cost = _of_instructions(hlo, instruction_costs, name)
        if not isinstance(type_stats, Unavailable):
            stored = _stored(trace, classes, type_stats, value, len(ops))
            cost = np.where(cost < 0, stored, cost)
        columns[name] = cost
    model = columns["model_flops"]
    columns["model_flops"] = np.where(model < 0, columns["flops"], model)
    return pl.DataFrame(
        [nullable(name, cost, cost >= 0) for name, cost in columns.items()],
        schema=RUN_COSTS,
    )


def _of_instructions(
    hlo: NDArray[np.int32], instruction_costs: pl.DataFrame, name: str
) -> NDArray[np.int64]:
    cost = np.full(len(hlo), -1, np.int64)
    if name in instruction_costs.columns:
        some = np.flatnonzero(hlo >= 0)
        values = instruction_costs[name].fill_null(-1).to_numpy()
        cost[some] = values[hlo[some]]
    return cost


def _stored(
    trace: TraceData,
    classes: pl.DataFrame,
    type_stats: pl.DataFrame,
    name: StatKey,
    count: int,
) -> NDArray[np.int64]:
    """Return by op the value recorded with its activities' names, -1 for none."""
    stored = np.full(count, -1, np.int64)
    handle = find_handle(trace.strings, name)
    owner, value = int_values(rows_with_key(type_stats, "type", handle))
    if len(owner) and len(classes):
        type_ = handles(classes, "type")
        of_type = np.full(int(max(owner.max(), type_.max())) + 1, -1, np.int64)
        of_type[owner] = value
        stored[handles(classes, "op")] = of_type[type_]
    return stored
