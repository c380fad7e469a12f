"""`execution_costs`: what each execution of an op on the host computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.arrays import handles, ints
from stepscope.derive.costs import calls_only, cost_of, weights_of
from stepscope.derive.costs.family import Part
from stepscope.derive.costs.operands import from_lists, from_text
from stepscope.derive.dense_codes import combined
from stepscope.derive.host_values import picked, text_codes
from stepscope.derive.nesting import nest_subset
from stepscope.derive.stat_values import StatRows, find_handle
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.costs import Cost
    from stepscope.derive.costs.operands import Operands
    from stepscope.derive.host_op_events import HostOpEvents
    from stepscope.derive.nesting import Nesting
    from stepscope.trace.model import TraceData

__all__ = ["ExecutionCosts", "execution_costs"]

#: Names of the values that hold operands, in both notations and both spellings.
_SIZES: Final = ("Input Dims", "Input dims")
_TYPES: Final = ("Input type",)
_VALUES: Final = ("Concrete Inputs",)
_TEXT: Final = ("shape",)
_EQUATION: Final = ("equation",)
_UNKNOWN: Final = -1


@dataclass(frozen=True, eq=False)
class ExecutionCosts:
    """Arrays over the executions of `host_op_events`.

    Attributes:
        flops: int64; floating-point operations of the execution itself, without those
            of the ops it called; -1 where they are not known.
        accessed_bytes: int64; bytes read and written likewise; -1 unknown.
        parent: int32; the execution around it on its thread, -1 for none.
        weights: int32; a row of `variables` for an execution that read variables of
            the model, -1 for any other.
        variables: Distinct lists of sizes of variables that one execution read.
        recorded: How many executions have operands on record.
    """

    flops: NDArray[np.int64]
    accessed_bytes: NDArray[np.int64]
    parent: NDArray[np.int32]
    weights: NDArray[np.int32]
    variables: tuple[tuple[tuple[int, ...], ...], ...]
    recorded: int


def execution_costs(
    trace: TraceData,
    events: pl.DataFrame,
    host_op_events: HostOpEvents,
    stats: pl.DataFrame | Unavailable,
    instruction_costs: pl.DataFrame | Unavailable,
) -> ExecutionCosts:
    """Work out the costs of executions whose operands were recorded.

    Each distinct combination of op and operands is worked out once. Of ops that call
    each other for one piece of work the inner ones are charged with it first.
    """
    found = host_op_events
    nested = nest_subset(
        found.start_ps, found.dur_ps, track=handles(events, "track")[found.event]
    )
    count = len(found.event)
    flops = np.full(count, _UNKNOWN, np.int64)
    accessed = np.full(count, _UNKNOWN, np.int64)
    weights = np.full(count, -1, np.int32)
    variables: dict[tuple[tuple[int, ...], ...], int] = {}
    part = np.zeros(count, np.int8)
    recorded = 0
    if not isinstance(stats, Unavailable):
        given = _recorded(trace, stats, found.event)
        recorded = len(given.rows)
        for rows, operands, op_type in given.distinct(found):
            weight = weights_of(op_type, operands)
            if weight:
                weights[rows] = variables.setdefault(weight, len(variables))
            cost = cost_of(op_type, operands)
            if cost is not None:
                _charge(rows, cost, flops=flops, accessed=accessed, part=part)
    for number in Part:
        _take_inner(flops, part == int(number), nested)
    _charge_instructions(found, instruction_costs, flops=flops, accessed=accessed)
    types = found.ops["type"].fill_null("").to_list()
    callers = np.array([calls_only(one) for one in types], np.bool_)
    if len(callers):
        flops[callers[found.op] & (flops < 0)] = 0
    return ExecutionCosts(
        flops, accessed, nested.parent, weights, tuple(variables), recorded
    )


def _charge(
    rows: NDArray[np.int64],
    cost: Cost,
    *,
    flops: NDArray[np.int64],
    accessed: NDArray[np.int64],
    part: NDArray[np.int8],
) -> None:
    flops[rows] = cost.flops
    part[rows] = int(cost.part)
    if cost.accessed_bytes is not None:
        accessed[rows] = cost.accessed_bytes


def _charge_instructions(
    found: HostOpEvents,
    instruction_costs: pl.DataFrame | Unavailable,
    *,
    flops: NDArray[np.int64],
    accessed: NDArray[np.int64],
) -> None:
    """Executions of instructions of compiled programs, by their rows of hlo_ops."""
    if isinstance(instruction_costs, Unavailable) or not len(found.ops):
        return
    row = found.ops["hlo"].fill_null(-1).to_numpy()[found.op]
    known = np.flatnonzero(row >= 0)
    for column, target in (("flops", flops), ("accessed_bytes", accessed)):
        values = instruction_costs[column].fill_null(_UNKNOWN).to_numpy()
        target[known] = values[row[known]]


@dataclass(frozen=True, eq=False)
class _Recorded:
    """Executions with operands, and handles of the texts that hold them, -1 none."""

    rows: NDArray[np.int64]
    columns: dict[tuple[str, ...], NDArray[np.int32]]
    texts: dict[tuple[str, ...], list[str]]

    def distinct(
        self, found: HostOpEvents
    ) -> list[tuple[NDArray[np.int64], Operands, str]]:
        """Rows of each combination of op type and operands that can be read."""
        if not len(self.rows):
            return []
        types = found.ops["type"].fill_null("")
        number = types.rank("dense").to_numpy().astype(np.int32)
        of_row = number[found.op[self.rows]]
        combos = combined([of_row, *self.columns.values()])
        order = np.argsort(combos.code, kind="stable")
        ends = np.cumsum(np.bincount(combos.code, minlength=combos.count))
        answers = []
        begin = 0
        for code, end in enumerate(ends.tolist()):
            first = int(combos.first[code])
            operands = self._read(first)
            if operands is not None:
                rows = self.rows[order[begin:end]]
                answers.append((rows, operands, types[int(found.op[rows[0]])]))
            begin = end
        return answers

    def _read(self, row: int) -> Operands | None:
        text = {
            names: self.texts[names][column[row]]
            for names, column in self.columns.items()
            if column[row] >= 0
        }
        equation = text.get(_EQUATION)
        if _SIZES in text:
            return from_lists(
                text[_SIZES], text.get(_TYPES), text.get(_VALUES), equation=equation
            )
        return from_text(text[_TEXT], equation=equation) if _TEXT in text else None


def _recorded(
    trace: TraceData, stats: pl.DataFrame, event: NDArray[np.int32]
) -> _Recorded:
    """Collect the operands of executions in one pass over the values."""
    kinds = (_SIZES, _TYPES, _VALUES, _TEXT, _EQUATION)
    by_handle = {
        find_handle(trace.strings, name): names for names in kinds for name in names
    }
    by_handle.pop(-1, None)
    wanted = np.zeros(len(trace.strings) + 1, np.uint8)
    wanted[list(by_handle)] = 1
    rows = picked(handles(stats, "key"), wanted, 0, len(stats))
    values = _rows(stats, rows)
    is_execution = np.isin(values.owner, event)
    values = values.only(is_execution)
    columns: dict[tuple[str, ...], NDArray[np.int32]] = {}
    texts: dict[tuple[str, ...], list[str]] = {}
    has = np.zeros(len(event), np.bool_)
    for names in kinds:
        keys = [key for key, one in by_handle.items() if one == names]
        owner, code, found = text_codes(trace, values.only(np.isin(values.key, keys)))
        column = np.full(len(event), -1, np.int32)
        at = np.searchsorted(event, owner)
        column[at] = code
        columns[names], texts[names] = column, list(found)
        if names in (_SIZES, _TEXT):
            has[at] = True
    chosen = np.flatnonzero(has)
    return _Recorded(
        chosen, {names: one[chosen] for names, one in columns.items()}, texts
    )


def _rows(stats: pl.DataFrame, rows: NDArray[np.int64]) -> StatRows:
    some = stats[rows]
    return StatRows(
        handles(some, "event"),
        handles(some, "key"),
        some["kind"].to_numpy(),
        ints(some, "value"),
        handles(some, "length"),
    )


def _take_inner(
    flops: NDArray[np.int64], chosen: NDArray[np.bool_], nested: Nesting
) -> None:
    """Leave to the chosen what those inside them do not count, in place.

    The work of an op that calls others for it is the greater of what its own operands
    say and what theirs add up to; the difference is what it did itself.
    """
    whole = np.where(chosen, flops, 0)
    inner = np.zeros(len(flops), np.int64)
    order = np.argsort(nested.depth, kind="stable")
    cuts = np.flatnonzero(np.diff(nested.depth[order])) + 1
    # One round per level of nesting, the innermost first.
    for rows in reversed(np.split(order, cuts)):
        above = nested.parent[rows]
        inside = above >= 0
        done = np.maximum(whole[rows], inner[rows])
        np.add.at(inner, above[inside], done[inside])
    flops[chosen] = np.maximum(whole - inner, 0)[chosen]
