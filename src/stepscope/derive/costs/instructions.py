"""Costs of the instructions of compiled programs, from shapes and dimension numbers."""

from __future__ import annotations

import math
import re
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.derive.costs.families import OPCODES, plausible_cost
from stepscope.derive.costs.operands import (
    Tensor,
    operands_from_text,
    sum_known,
    total_bytes,
)
from stepscope.derive.costs.products import convolution_terms, read_window
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Columns of `instruction_costs`; null means unknown.
INSTRUCTION_COSTS: Final[dict[str, pl.DataType]] = {
    "flops": pl.Int64(),
    "accessed_bytes": pl.Int64(),
}

#: Opcodes with one operation per element of a floating-point result. Source: XLA's cost
#: analysis, plus transcendental functions.
_ELEMENTWISE: Final = OPCODES["elementwise"]
#: Opcodes without FLOPs; the instructions that they execute have separate rows.
_NOTHING: Final = OPCODES["nothing"]
#: Opcodes that sum over devices, with one addition per element.
_SUMS: Final = frozenset({"all-reduce", "all-reduce-start", "reduce-scatter"})
_NUMBERS: Final = r"=\{([\d,]*)\}"
_CONVOLUTION_CALL: Final = Pattern(r"^__cudnn\$conv(?P<way>\w*)")
#: Maximum nesting of fusions; the cost of a deeper fusion is unknown.
_MAX_FUSION_DEPTH: Final = 16


class _Instruction(Frozen, frozen=True, eq=True):
    """One row of hlo_ops."""

    name: str
    opcode: str
    custom_call: str | None
    shape: str | None
    operands: list[str] | None
    computation: str | None
    calls: list[str] | None
    attributes: str | None


def instruction_costs(*, hlo_ops: pl.DataFrame) -> pl.DataFrame:
    """Compute the cost of one execution of each instruction.

    The cost of a fusion is that of the instructions inside it. Loops and calls have no
    cost themselves; the instructions that they execute have separate rows. The cost is
    unknown for an instruction without a recorded shape, and for a library call that is
    not a known product. Fusions that contain such instructions have unknown costs, too.

    Returns:
        Columns `INSTRUCTION_COSTS`, one row per row of `hlo_ops`.
    """
    rows: list[tuple[int | None, int | None]] = []
    wanted = hlo_ops.select("program", *_Instruction.__struct_fields__)
    # A program has few distinct shapes, so each shape is parsed once.
    tensors = cache(_tensors_of_shape)
    for _, program in wanted.group_by("program", maintain_order=True):
        ops = [_Instruction(*row) for row in program.drop("program").iter_rows()]
        costs = _Program(ops, tensors)
        rows += [
            (
                plausible_cost(costs.count_flops(op)),
                plausible_cost(costs.count_bytes(op)),
            )
            for op in ops
        ]
    # Restore the order of rows: programs may be interleaved in the table.
    order = hlo_ops.with_row_index("row").group_by("program", maintain_order=True)
    row_order = order.agg("row").explode("row")["row"]
    table = pl.DataFrame(rows, schema=INSTRUCTION_COSTS, orient="row")
    return table.with_columns(row_order.alias("row")).sort("row").drop("row")


class _Program:
    """The instructions of one program, by name and by computation."""

    def __init__(
        self,
        ops: Sequence[_Instruction],
        tensors: Callable[[str | None], tuple[Tensor, ...]],
    ) -> None:
        self._tensors = tensors
        self._results = {(op.computation, op.name): tensors(op.shape) for op in ops}
        self._inside: dict[str | None, list[_Instruction]] = {}
        for op in ops:
            self._inside.setdefault(op.computation, []).append(op)
        self._sums: dict[str, int | None] = {}

    def count_flops(self, op: _Instruction, depth: int = 0) -> int | None:
        """Return the floating-point operations of one execution; None if unknown."""
        if op.opcode == "fusion":
            if depth > _MAX_FUSION_DEPTH or not op.calls:
                return None
            return sum_known(
                [self._computation_flops(name, depth + 1) for name in op.calls]
            )
        if op.opcode in _NOTHING:
            return 0
        result = self._tensors(op.shape)
        if not result:
            return None
        if op.opcode in _ELEMENTWISE or op.opcode in _SUMS:
            # If there are an operand and a result, the result is the last.
            return result[-1].elements if result[-1].is_floating else 0
        return self._product_flops(op, result[0])

    def count_bytes(self, op: _Instruction) -> int | None:
        """Return the bytes of operands and result; None if unknown."""
        if op.opcode in _NOTHING - OPCODES["moving"]:
            return None
        result = self._tensors(op.shape)
        # A library call returns its result first, then its workspace.
        returned = result[:1] if op.custom_call else result
        groups = [returned, *self._operand_tensors(op)]
        return total_bytes(chain.from_iterable(groups)) if all(groups) else None

    def _operand_tensors(self, op: _Instruction) -> list[tuple[Tensor, ...]]:
        return [
            self._results.get((op.computation, name), ()) for name in op.operands or ()
        ]

    def _computation_flops(self, name: str, depth: int) -> int | None:
        if name not in self._sums:
            # The cached value ends the recursion if a damaged program calls itself.
            self._sums[name] = None
            if ops := self._inside.get(name):
                costs = [self.count_flops(op, depth) for op in ops]
                self._sums[name] = sum_known(costs)
        return self._sums[name]

    def _product_flops(self, op: _Instruction, result: Tensor) -> int | None:
        operands = [group[0] for group in self._operand_tensors(op) if group]
        if op.opcode == "dot" or "contracting" in (op.attributes or ""):
            return _dot_flops(op.attributes, result, operands)
        call = _CONVOLUTION_CALL.match(op.custom_call or "")
        if call or op.opcode == "convolution":
            direction = call["way"] if call else ""
            window = read_window(op.attributes)
            if window is None or len(operands) < 2:
                return None
            inputs, kernel, outputs = operands[0], operands[1], result
            if direction.startswith("BackwardInput"):
                inputs, outputs = outputs, inputs
            elif direction.startswith("BackwardFilter"):
                kernel, outputs = outputs, kernel
            sizes = (inputs.sizes, kernel.sizes, outputs.sizes)
            terms = convolution_terms(window, *sizes)
            return None if terms is None else 2 * terms
        return _reduction_flops(op, result, operands)


def _tensors_of_shape(shape: str | None) -> tuple[Tensor, ...]:
    operands = None if shape is None else operands_from_text(shape)
    return () if operands is None else tuple(operands.each_tensor())


def _dot_flops(
    attributes: str | None, result: Tensor, operands: Sequence[Tensor]
) -> int | None:
    contracted = re.search("lhs_contracting_dims" + _NUMBERS, attributes or "")
    if not operands:
        return None
    dims = [int(dim) for dim in contracted[1].split(",")] if contracted else []
    if any(dim >= len(operands[0].sizes) for dim in dims):
        return None
    return 2 * result.elements * math.prod(operands[0].sizes[dim] for dim in dims)


def _reduction_flops(
    op: _Instruction, result: Tensor, operands: Sequence[Tensor]
) -> int | None:
    """Count the operations of a reduction, windowed reduction or scatter.

    The result is None for other instructions.
    """
    if op.opcode == "reduce" and operands:
        return operands[0].elements - result.elements if operands[0].is_floating else 0
    if op.opcode in {"reduce-window", "select-and-scatter"}:
        window = read_window(op.attributes)
        if window is None:
            return None
        per_element = math.prod(window.size) - 1
        return result.elements * per_element if result.is_floating else 0
    if op.opcode == "scatter" and len(operands) > 2:
        # An upper bound: one addition per scattered element.
        return operands[-1].elements if result.is_floating else 0
    return None
