"""Costs of ops: of each execution on the host, and of one execution on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, wanted_rows
from stepscope.derive.columns.dense_codes import Codes, number_rows
from stepscope.derive.columns.stat_values import (
    find_handle,
    rows_with_key,
    stats_at_rows,
)
from stepscope.derive.costs.families import (
    calls_only,
    execution_cost,
    plausible_cost,
    weight_sizes,
)
from stepscope.derive.costs.operands import (
    Part,
    operands_from_lists,
    operands_from_text,
)
from stepscope.derive.host.values import int_values, text_codes
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.reading.nullable import fill_nulls, nullable_series
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.costs.operands import Operands
    from stepscope.derive.device.activity_classes import ActivityClasses
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.trace.model import TraceData

#: Keys of the values with operands, in both notations and both spellings.
_SIZES: Final = (StatKey.INPUT_DIMS, StatKey.INPUT_DIMS_OLD)
_TYPES: Final = (StatKey.INPUT_TYPE,)
_VALUES: Final = (StatKey.CONCRETE_INPUTS,)
_TEXT: Final = (StatKey.SHAPE,)
_EQUATION: Final = (StatKey.EQUATION,)
_UNKNOWN: Final = -1


class ExecutionCosts(Frozen, frozen=True):
    """Costs of executions: arrays over the executions of `host_op_events`.

    Attributes:
        flops: int64; FLOPs of the execution itself, without called ops; -1 if unknown.
        accessed_bytes: int64; bytes that the execution itself read and wrote, without
            the ops it called; -1 if unknown.
        parent: int32; the execution around it on its thread, -1 for none.
        depth: int32; 0 without a parent, else one more than the parent's.
        weights: int32; row of `variables` that the execution read, -1 for none.
        variables: Distinct lists of the sizes of the variables that one execution read.
        only_calls: bool; True if the operations are 0 because the op only calls other
            ops. The cost of device work that the op itself launches is unknown.
    """

    flops: Int64s
    accessed_bytes: Int64s
    parent: Int32s
    depth: Int32s
    weights: Int32s
    variables: tuple[tuple[tuple[int, ...], ...], ...]
    recorded: int
    only_calls: Bools


class _Costs(Frozen, frozen=True, eq=True):
    """Costs by distinct combination of op type and operands.

    Attributes:
        code: int32 by row of `_Recorded`; number of the combination.
        part: int8; a `Part`, 0 if the cost is unknown.
        variables: Distinct lists of the sizes of the variables that one execution read.
    """

    code: Int32s
    flops: Int64s
    accessed: Int64s
    part: NDArray[np.int8]
    weights: Int32s
    variables: tuple[tuple[tuple[int, ...], ...], ...]


class _Recorded(Frozen, frozen=True):
    """Executions with operands, and codes of the operands' texts, -1 for none."""

    rows: Int64s
    columns: dict[tuple[str, ...], Int32s]
    texts: dict[tuple[str, ...], list[str]]

    def read(self, row: int) -> Operands | None:
        """Return the operands of a row; None if they cannot be parsed."""
        text = {
            names: self.texts[names][column[row]]
            for names, column in self.columns.items()
            if column[row] >= 0
        }
        equation = text.get(_EQUATION)
        if _SIZES in text:
            return operands_from_lists(
                text[_SIZES], text.get(_TYPES), text.get(_VALUES), equation=equation
            )
        return (
            operands_from_text(text[_TEXT], equation=equation)
            if _TEXT in text
            else None
        )


#: Columns of `run_costs`; null means unknown.
RUN_COSTS: Final[dict[str, pl.DataType]] = {
    "flops": pl.Int64(),  # operations of the instruction
    "model_flops": pl.Int64(),  # operations of the program before compiler changes
    "accessed_bytes": pl.Int64(),  # read and written, each tensor once
}
#: Column → key of the value that compilers record for an instruction.
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
    """Return the cost of one execution of each op, by row of the ops of `activity_ops`.

    Costs are those of the program's instruction; if unknown, the compiler's record.
    `model_flops` equals `flops` unless the recording has another value.

    Returns:
        Columns `RUN_COSTS`, one row per op.
    """
    ops, classes = activity_ops.ops, activity_classes.rows
    hlo = fill_nulls(ops["hlo"], -1)
    columns = {}
    for name, value in _STORED.items():
        cost = np.full(len(ops), -1, np.int64)
        if (
            not isinstance(instruction_costs, Unavailable)
            and name in instruction_costs.columns
        ):
            known = np.flatnonzero(hlo >= 0)
            of_instruction = instruction_costs[name].fill_null(-1).to_numpy()
            cost[known] = of_instruction[hlo[known]]
        if not isinstance(type_stats, Unavailable):
            # Collect by op the value recorded with its activities' names; -1 for none.
            stored = np.full(len(ops), -1, np.int64)
            handle = find_handle(trace.strings, value)
            owner, number = int_values(rows_with_key(type_stats, "type", handle))
            if len(owner) and len(classes):
                type_ = handles(classes, "type")
                of_type = np.full(int(max(owner.max(), type_.max())) + 1, -1, np.int64)
                of_type[owner] = number
                stored[handles(classes, "op")] = of_type[type_]
            cost = np.where(cost < 0, stored, cost)
        columns[name] = cost
    model = columns["model_flops"]
    columns["model_flops"] = np.where(model < 0, columns["flops"], model)
    return pl.DataFrame(
        [nullable_series(name, cost, cost >= 0) for name, cost in columns.items()],
        schema=RUN_COSTS,
    )


def execution_costs(
    *,
    trace: TraceData,
    host_op_events: HostOpEvents,
    stats: pl.DataFrame | Unavailable,
    instruction_costs: pl.DataFrame | Unavailable,
) -> ExecutionCosts:
    """Compute the costs of executions whose operands were recorded.

    Each distinct combination of op and operands is computed once. If nested ops
    describe the same work, the work is charged to the inner ops first.
    """
    ops = host_op_events
    count = len(ops.event)
    flops = np.full(count, _UNKNOWN, np.int64)
    accessed = np.full(count, _UNKNOWN, np.int64)
    weights = np.full(count, -1, np.int32)
    variables: tuple[tuple[tuple[int, ...], ...], ...] = ()
    recorded = 0
    if not isinstance(stats, Unavailable):
        given = _read_operands(trace, stats, ops.event)
        recorded = len(given.rows)
        costs = _distinct_costs(given, ops)
        variables = costs.variables
        part = np.zeros(count, np.int8)
        for column, target in (
            (costs.flops, flops),
            (costs.accessed, accessed),
            (costs.weights, weights),
            (costs.part, part),
        ):
            target[given.rows] = values_by_row(column, costs.code)
        # Handle nested executions level by level, the innermost first.
        inner = np.flatnonzero(ops.parent >= 0)
        order = inner[np.argsort(ops.depth[inner], kind="stable")]
        cuts = np.flatnonzero(np.diff(ops.depth[order])) + 1
        inside_out = np.split(order, cuts)[::-1]
        for number in Part:
            _take_inner(flops, part == int(number), ops.parent, inside_out)
    if len(ops.ops) and not isinstance(instruction_costs, Unavailable):
        row = fill_nulls(ops.ops["hlo"], -1)[ops.op]
        known = np.flatnonzero(row >= 0)
        for name, target in (("flops", flops), ("accessed_bytes", accessed)):
            target[known] = fill_nulls(instruction_costs[name], _UNKNOWN)[row[known]]
    types = ops.ops["type"].fill_null("").to_list()
    callers = np.array([calls_only(op_type) for op_type in types], np.bool_)
    only_calls = np.zeros(count, np.bool_)
    if len(callers):
        only_calls = values_by_row(callers, ops.op) & (flops < 0)
        flops[only_calls] = 0
    return ExecutionCosts(
        flops, accessed, ops.parent, ops.depth, weights, variables, recorded, only_calls
    )


def _distinct_costs(given: _Recorded, ops: HostOpEvents) -> _Costs:
    types = ops.ops["type"].fill_null("")
    number = types.rank("dense").to_numpy().astype(np.int32)
    combos = Codes(np.empty(0, np.int32), np.empty(0, np.int64))
    if len(given.rows):
        of_row = values_by_row(number, ops.op[given.rows])
        combos = number_rows([of_row, *given.columns.values()])
    flops, accessed = (np.full(combos.count, _UNKNOWN, np.int64) for _ in range(2))
    part = np.zeros(combos.count, np.int8)
    weights = np.full(combos.count, -1, np.int32)
    variables: dict[tuple[tuple[int, ...], ...], int] = {}
    for code, first in enumerate(combos.first.tolist()):
        operands = given.read(first)
        if operands is None:
            continue
        op_type = types[int(ops.op[given.rows[first]])]
        weight = weight_sizes(op_type, operands)
        if weight:
            weights[code] = variables.setdefault(weight, len(variables))
        cost = execution_cost(op_type, operands)
        if cost is not None:
            computed = plausible_cost(cost.flops)
            if computed is not None:
                flops[code], part[code] = computed, int(cost.part)
            moved = plausible_cost(cost.accessed_bytes)
            if moved is not None:
                accessed[code] = moved
    return _Costs(combos.code, flops, accessed, part, weights, tuple(variables))


def _read_operands(trace: TraceData, stats: pl.DataFrame, event: Int32s) -> _Recorded:
    kinds = (_SIZES, _TYPES, _VALUES, _TEXT, _EQUATION)
    by_handle = {
        find_handle(trace.strings, name): names for names in kinds for name in names
    }
    by_handle.pop(-1, None)
    wanted = np.zeros(len(trace.strings) + 1, np.uint8)
    wanted[list(by_handle)] = 1
    owners = handles(stats, "event")
    first, beyond = (event[0], event[-1] + 1) if len(event) else (0, 0)
    bounds = np.searchsorted(owners, np.array([first, beyond], owners.dtype)).tolist()
    rows = wanted_rows(handles(stats, "key"), wanted, *bounds)
    # Find the execution of each event; -1 for none.
    execution_of = np.full(beyond - first, -1, np.int32)
    execution_of[event - first] = np.arange(len(event), dtype=np.int32)
    owner = values_by_row(execution_of, owners[rows] - first)
    known = owner >= 0
    if not known.all():
        rows, owner = rows[known], owner[known]
    values = stats_at_rows(stats, rows, owner)
    columns: dict[tuple[str, ...], Int32s] = {}
    texts: dict[tuple[str, ...], list[str]] = {}
    has = np.zeros(len(event), np.bool_)
    for names in kinds:
        keys = [key for key, listed in by_handle.items() if listed == names]
        if not keys:
            continue
        chosen = np.zeros(len(rows), np.bool_)
        for key in keys:
            chosen |= values.key == key
        events, code, distinct = text_codes(trace, values.only(chosen))
        column = np.full(len(event), -1, np.int32)
        column[events] = code
        columns[names], texts[names] = column, list(distinct)
        if names in (_SIZES, _TEXT):
            has[events] = True
    kept = np.flatnonzero(has)
    return _Recorded(
        kept, {names: column[kept] for names, column in columns.items()}, texts
    )


def _take_inner(
    flops: Int64s, chosen: Bools, parent: Int32s, inside_out: list[Int64s]
) -> None:
    """Subtract from chosen executions, in place, the FLOPs of nested executions.

    The FLOPs of an op with callees are the greater of two numbers: those according to
    its own operands, and the sum over its callees. The op itself is charged with that
    number minus the sum over its callees.
    """
    chosen_rows = np.flatnonzero(chosen)
    if not len(chosen_rows):
        return
    inner = np.zeros(len(flops), np.int64)
    for rows in inside_out:
        own = np.where(chosen[rows], flops[rows], 0)
        np.add.at(inner, parent[rows], np.maximum(own, inner[rows]))
    flops[chosen_rows] = np.maximum(flops[chosen_rows] - inner[chosen_rows], 0)
