"""Costs: floating-point operations and bytes of one execution, by op family.

Families are data: which ops they hold, the formula in words, where it comes from, and
the function that evaluates it on recorded operands. An op that no family holds, or
whose operands were not recorded, has no cost: None, never 0.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from stepscope.derive.costs.operands import Family, Part, operand_bytes, total_bytes
from stepscope.derive.costs.pointwise import CALLERS, ELEMENT_RULES, WEIGHTS
from stepscope.derive.costs.products import PRODUCT_RULES
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from stepscope.derive.costs.operands import Operands, Rule, Tensor


class _RuleRow(
    Frozen, frozen=True, forbid_unknown_fields=True, rename={"given": "with"}
):
    """A rule with its settings, and the ops that it holds for."""

    rule: str
    settings: dict[str, int | bool | list[int]] = msgspec.field(
        name="with", default_factory=dict
    )
    aten: str = ""
    ops: str = ""


class _FamilyRow(Frozen, frozen=True, forbid_unknown_fields=True):
    name: str
    part: Literal["PRODUCT", "OTHER"]
    formula: str
    source: str
    rules: list[_RuleRow]

    def read_family(self) -> Family:
        rules: dict[str, Rule] = {}
        for row in self.rules:
            rule = _MAKERS[row.rule](**row.settings)
            aten = (f"aten::{name}" for name in row.aten.split())
            rules |= dict.fromkeys((*aten, *row.ops.split()), rule)
        return Family(self.name, Part[self.part], self.formula, self.source, rules)


class _OpTable(Frozen, frozen=True, forbid_unknown_fields=True):
    """The declared ops.

    Attributes:
        last_read: Last place of a tensor that is read → operators, whose variants with
            `out=` write what follows; from the schemas that PyTorch 2 registers.
        instructions: Kinds of instructions of compiled programs → their opcodes.
    """

    families: list[_FamilyRow]
    last_read: dict[int, str]
    instructions: dict[Literal["elementwise", "nothing", "moving"], str]


_MAKERS: Final = {**ELEMENT_RULES, **PRODUCT_RULES}
_TABLE: Final = msgspec.json.decode(
    Path(__file__).with_name("ops.json").read_bytes(), type=_OpTable
)
#: Kind of instruction of a compiled program → opcodes.
OPCODES: Final = {
    kind: frozenset(names.split()) for kind, names in _TABLE.instructions.items()
}
_LAST_PLACE: Final = {
    f"aten::{name}": place
    for place, names in _TABLE.last_read.items()
    for name in names.split()
}

#: All families; an op type is in one of them at most.
FAMILIES: Final = tuple(row.read_family() for row in _TABLE.families)
_BY_TYPE: Final = {op: family for family in FAMILIES for op in family.rules}

#: No execution computes or moves as much: an hour of work at 20 TFLOP/s.
_COST_END: Final = 2**56


class Cost(Frozen, frozen=True, eq=True):
    """What one execution costs.

    Attributes:
        part: Part of the work that the op counts, among ops that call each other.
        flops: Floating-point operations; None where they are not known.
        accessed_bytes: Bytes of all tensors read and written, each counted once; None
            where the sizes of the result or the width of an element are not known.
    """

    part: Part
    flops: int | None
    accessed_bytes: int | None


#: Kernels that a compiler made of functions of single elements and reductions. Their
#: operands are all tensors that they read or write.
_FUSED: Final = Pattern(r"triton_(?:poi|per|red)_fused_")


def calls_only(op_type: str) -> bool:
    """Return whether an op type is a range that only calls other ops."""
    return CALLERS.match(op_type) is not None


def execution_cost(op_type: str, given: Operands) -> Cost | None:
    """Return the cost of one execution with these operands; None where unknown."""
    if _FUSED.match(op_type):
        accessed = operand_bytes(given)
        return None if accessed is None else Cost(Part.OTHER, None, accessed)
    family = _BY_TYPE.get(op_type)
    if family is None:
        return None
    rule = family.rules[op_type]
    given, outputs = without_outputs(op_type, given)
    flops = rule.flops(given)
    if flops is None:
        return None
    if family.part == Part.OTHER and not any(
        one.is_floating for one in given.each_tensor()
    ):
        if any(one.size_bytes is None for one in given.each_tensor()):
            # What a list of tensors holds is not recorded.
            return None
        # Functions of integers are indices and masks; products of integers count.
        flops = 0
    return Cost(family.part, flops, _accessed_bytes(given, rule, outputs))


def plausible_cost(cost: int | None) -> int | None:
    """Return a cost that an execution can have; None where damaged sizes gave it."""
    return cost if cost is not None and 0 <= cost < _COST_END else None


def weight_sizes(op_type: str, given: Operands) -> tuple[tuple[int, ...], ...]:
    """Return sizes of the variables of a layer that an execution of its op read."""
    found = (given.tensor_at_place(place) for place in WEIGHTS.get(op_type, ()))
    return tuple(tensor.sizes for tensor in found if tensor is not None)


def _accessed_bytes(
    given: Operands, rule: Rule, outputs: tuple[Tensor, ...]
) -> int | None:
    """Return bytes: operands read once, the result or what stands for it written."""
    if rule.accessed is not None:
        return rule.accessed(given)
    tensors = list(given.each_tensor())
    result = rule.result(given)
    if result is None or not tensors:
        return None
    written = outputs or (msgspec.structs.replace(tensors[0], sizes=result),)
    return total_bytes((*tensors, *written))


def without_outputs(
    op_type: str, given: Operands
) -> tuple[Operands, tuple[Tensor, ...]]:
    """Return the operands that are read, and the tensors given to be written."""
    last = _LAST_PLACE.get(op_type)
    if last is None or not any(given.tensors[last + 1 :]):
        return given, ()
    outputs = tuple(one for operand in given.tensors[last + 1 :] for one in operand)
    read = (*given.tensors[: last + 1], *(() for _ in given.tensors[last + 1 :]))
    return msgspec.structs.replace(given, tensors=read), outputs
