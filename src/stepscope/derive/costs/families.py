"""Floating-point operations and bytes of one op execution, by family of ops.

A family consists of its ops, the formula in words, the formula's source, and the
function that computes the formula from recorded operands. An op without a family or
without recorded operands has an unknown cost: None, never 0.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec.structs import replace

from stepscope.derive.costs.operands import (
    Family,
    Part,
    Rule,
    broadcast_sizes,
    operand_bytes,
    total_bytes,
)
from stepscope.derive.costs.products import PRODUCT_RULES, read_setting
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepscope.derive.costs.operands import Operands, Tensor

#: Ops that only call other ops; their cost is that of the called ops.
CALLERS: Final = Pattern(
    r"autograd::engine::evaluate_function: |\w+Backward\d*$|torch::autograd::\w+$"
    r"|Optimizer\.(?:step|zero_grad)#|aten::(?:dropout|cross_entropy_loss|nll_loss"
    r"|nll_loss_nd|chunk_cat|lstm|gru|multi_head_attention_forward)$"
)

#: Op type → positions of the operands that are variables of a layer. Layers call these
#: ops with their variables; nested ops read the same variables again.
WEIGHTS: Final = {
    **dict.fromkeys(
        (
            *("aten::linear", "aten::batch_norm", "aten::instance_norm"),
            *("aten::conv1d", "aten::conv2d", "aten::conv3d"),
            *("aten::conv_transpose1d", "aten::conv_transpose2d"),
            "aten::conv_transpose3d",
        ),
        (1, 2),
    ),
    "aten::embedding": (0,),
    "aten::embedding_bag": (0,),
    **dict.fromkeys(("aten::layer_norm", "aten::group_norm"), (2, 3)),
    "aten::rms_norm": (2,),
}


def broadcast_result(given: Operands) -> tuple[int, ...] | None:
    """Return the sizes after broadcasting all operands; None if that is impossible."""
    sizes: tuple[int, ...] | None = None
    for tensor in given.each_tensor():
        sizes = broadcast_sizes(sizes or (), tensor.sizes)
        if sizes is None:
            return None
    return sizes


_Sizes = tuple[int, ...]


def _rule_of_sizes(count: int, result: Callable[[Operands], _Sizes | None]) -> Rule:
    """Return the rule of `count` operations per element of given sizes."""

    def count_flops(given: Operands) -> int | None:
        sizes = result(given)
        return None if sizes is None else count * math.prod(sizes)

    return Rule(count_flops, result)


def _first_list_sizes(given: Operands) -> _Sizes | None:
    """Return the number of elements of an op's first list of tensors."""
    if not given.tensors or not given.tensors[0]:
        return None
    return (sum(tensor.elements for tensor in given.tensors[0]),)


def _no_flops(_: Operands) -> int:
    return 0


def _unknown_sizes(_: Operands) -> None:
    return None


def _joined_sizes(given: Operands) -> tuple[int, ...] | None:
    tensors = list(given.each_tensor())
    return (sum(tensor.elements for tensor in tensors),) if tensors else None


def _compared_bytes(given: Operands) -> int | None:
    """Return the bytes of all operands, plus one byte per element of the result."""
    read, sizes = operand_bytes(given), broadcast_result(given)
    return None if read is None or sizes is None else read + math.prod(sizes)


def _chosen_bytes(given: Operands) -> int | None:
    """Return the bytes of the condition, both choices and the result."""
    sizes = broadcast_result(given)
    choices = [
        tensor
        for index in (1, 2)
        if (tensor := given.tensor_at_index(index)) is not None
    ]
    if sizes is None or not choices:
        return None
    # A scalar choice is converted to the type of the other choice.
    widest = max(choices, key=lambda tensor: (len(tensor.sizes), tensor.elements))
    return total_bytes((*given.each_tensor(), replace(widest, sizes=sizes)))


def _per_input(count: int, place: int = 0) -> Rule:
    def result_sizes(given: Operands) -> _Sizes | None:
        tensor = given.tensor_at_index(place)
        return None if tensor is None else tensor.sizes

    return _rule_of_sizes(count, result_sizes)


def _over_dimensions(count: int) -> Rule:
    """Return the rule of a sum over the dimensions that operand 1 lists.

    `count` is the number of operations per element. If no dimensions are recorded (the
    short form), the result is one number.
    """

    def result_sizes(given: Operands) -> _Sizes | None:
        tensor = given.tensor_at_index(0)
        if tensor is None:
            return None
        if len(given.tensors) < _MIN_LONG_FORM_OPERANDS:
            return ()
        dims = given.value_at_index(1)
        if isinstance(dims, int):
            dims = [dims]
        if not given.values or not isinstance(dims, list | None):
            return None
        rank = len(tensor.sizes)
        removed = {dim % rank for dim in dims or range(rank)} if rank else set()
        return tuple(size for i, size in enumerate(tensor.sizes) if i not in removed)

    return Rule(_per_input(count).flops, result_sizes)


def _normalised_elements(place: int, weights: Sequence[int]) -> Rule:
    """Return the rule of normalisation: 5 operations per element, plus 1 per weight."""

    def count_flops(given: Operands) -> int | None:
        tensor = given.tensor_at_index(place)
        if tensor is None:
            return None
        present = sum(given.tensor_at_index(weight) is not None for weight in weights)
        return (_OPS_PER_NORMALISED_ELEMENT + present) * tensor.elements

    return Rule(count_flops, _per_input(0, place).result)


def _pooled_windows() -> Rule:
    """Return the rule of pooling; window, stride and padding set the result sizes."""

    def result_sizes(given: Operands) -> _Sizes | None:
        tensor = given.tensor_at_index(0)
        if tensor is None or given.value_at_index(4) not in ([1], [1, 1]):
            return None
        rank = len(tensor.sizes) - 2
        if rank < 1 or given.value_at_index(5) is not False:
            return None
        window = read_setting(given, 1, rank, 1)
        padding = read_setting(given, 3, rank, 0)
        # Without a stride, windows do not overlap.
        steps = (
            window
            if given.value_at_index(2) in (None, [])
            else read_setting(given, 2, rank, 1)
        )
        if window is None or padding is None or steps is None:
            return None
        sizes = tuple(
            (length + 2 * pad - size) // step + 1
            for length, size, pad, step in zip(
                tensor.sizes[-rank:], window, padding, steps, strict=True
            )
        )
        return (*tensor.sizes[:-rank], *sizes)

    def count_flops(given: Operands) -> int | None:
        sizes = result_sizes(given)
        if sizes is None:
            return None
        window = read_setting(given, 1, len(sizes) - 2, 1)
        return None if window is None else math.prod(sizes) * math.prod(window)

    return Rule(count_flops, result_sizes)


#: Minimum number of operands of a sum over given dimensions: the tensor, the
#: dimensions, and whether to keep them.
_MIN_LONG_FORM_OPERANDS: Final = 3
#: Operations per element of a normalisation: mean, deviation, square, variance, and the
#: product with the inverse square root.
_OPS_PER_NORMALISED_ELEMENT: Final = 5


#: Name of a rule in ops.json → function that returns the rule.
ELEMENT_RULES: Final[dict[str, Callable[..., Rule]]] = {
    "per_element": lambda count: _rule_of_sizes(count, broadcast_result),
    "lists": lambda count: _rule_of_sizes(count, _first_list_sizes),
    "per_input": _per_input,
    "reading": lambda count: Rule(_per_input(count).flops, _unknown_sizes),
    "over_dimensions": _over_dimensions,
    "normalised": _normalised_elements,
    "pooled": _pooled_windows,
    "nothing": lambda: Rule(_no_flops, _unknown_sizes),
    "in_place": lambda: Rule(_no_flops, _unknown_sizes, operand_bytes),
    "same_sizes": lambda: Rule(_no_flops, _per_input(0).result),
    "joined": lambda: Rule(_no_flops, _joined_sizes),
    "compared": lambda: Rule(_no_flops, _unknown_sizes, _compared_bytes),
    "chosen": lambda: Rule(_no_flops, _unknown_sizes, _chosen_bytes),
    # The accessed bytes are unknown: recordings do not show which rows are accessed.
    "embedding_gradient": lambda: Rule(_per_input(1).flops, _unknown_sizes),
    "scatter_add": lambda: Rule(_per_input(1, 3).flops, _per_input(0).result),
}


class _RuleRow(
    Frozen, frozen=True, forbid_unknown_fields=True, rename={"given": "with"}
):
    """A cost rule, its settings, and the ops for which it is used."""

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
            rule = _RULE_BUILDERS[row.rule](**row.settings)
            aten = (f"aten::{name}" for name in row.aten.split())
            rules |= dict.fromkeys((*aten, *row.ops.split()), rule)
        return Family(self.name, Part[self.part], self.formula, self.source, rules)


class _OpTable(Frozen, frozen=True, forbid_unknown_fields=True):
    """Contents of ops.json.

    Attributes:
        last_read: Position of the last tensor operand that is read → operators of
            PyTorch 2. Operators called with `out=` write the operands after it.
        instructions: Kinds of instructions of compiled programs → their opcodes.
    """

    families: list[_FamilyRow]
    last_read: dict[int, str]
    instructions: dict[Literal["elementwise", "nothing", "moving"], str]


_RULE_BUILDERS: Final = {**ELEMENT_RULES, **PRODUCT_RULES}
_TABLE: Final = msgspec.json.decode(
    Path(__file__).with_name("ops.json").read_bytes(), type=_OpTable
)
#: Kind of instruction of a compiled program → its opcodes.
OPCODES: Final = {
    kind: frozenset(names.split()) for kind, names in _TABLE.instructions.items()
}
_LAST_READ_OPERAND: Final = {
    f"aten::{name}": place
    for place, names in _TABLE.last_read.items()
    for name in names.split()
}

#: All families; an op type belongs to at most one family.
FAMILIES: Final = tuple(row.read_family() for row in _TABLE.families)
_BY_TYPE: Final = {op: family for family in FAMILIES for op in family.rules}

#: Upper bound of plausible operations or bytes of one execution: an hour at 20 TFLOP/s.
#: Larger costs are due to damaged sizes.
_MAX_PLAUSIBLE_COST: Final = 2**56


class Cost(Frozen, frozen=True, eq=True):
    """Cost of one execution.

    Attributes:
        part: Kind of computation that the op's rule counts.
        flops: Floating-point operations; None if unknown.
        accessed_bytes: Bytes of all tensors read and written, each counted once; None
            if the sizes of the result or the bytes per element are unknown.
    """

    part: Part
    flops: int | None
    accessed_bytes: int | None


#: Kernels that a compiler generated from elementwise functions and reductions. Every
#: operand of a generated kernel is a tensor that the kernel reads or writes.
_FUSED: Final = Pattern(r"triton_(?:poi|per|red)_fused_")


def calls_only(op_type: str) -> bool:
    """Return whether ops of this type only call other ops."""
    return CALLERS.match(op_type) is not None


def execution_cost(op_type: str, given: Operands) -> Cost | None:
    """Return the cost of one execution with the given operands; None if unknown."""
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
        tensor.is_floating for tensor in given.each_tensor()
    ):
        if any(tensor.size_bytes is None for tensor in given.each_tensor()):
            # The contents of a list of tensors are not recorded.
            return None
        # Integer functions compute indices and masks; their operations are not counted.
        flops = 0
    return Cost(family.part, flops, _accessed_bytes(given, rule, outputs))


def plausible_cost(cost: int | None) -> int | None:
    """Return the cost, or None if it is implausible because of damaged sizes."""
    return cost if cost is not None and 0 <= cost < _MAX_PLAUSIBLE_COST else None


def weight_sizes(op_type: str, given: Operands) -> tuple[tuple[int, ...], ...]:
    """Return the sizes of the layer variables that one op execution reads."""
    tensors = (given.tensor_at_index(index) for index in WEIGHTS.get(op_type, ()))
    return tuple(tensor.sizes for tensor in tensors if tensor is not None)


def _accessed_bytes(given: Operands, rule: Rule, out: tuple[Tensor, ...]) -> int | None:
    """Return the bytes of all operands, plus those of the result or `out=` tensors."""
    if rule.accessed is not None:
        return rule.accessed(given)
    tensors = list(given.each_tensor())
    result = rule.result(given)
    if result is None or not tensors:
        return None
    written = out or (replace(tensors[0], sizes=result),)
    return total_bytes((*tensors, *written))


def without_outputs(
    op_type: str, given: Operands
) -> tuple[Operands, tuple[Tensor, ...]]:
    """Return the operands that are read, and the `out=` tensors, which are written."""
    last = _LAST_READ_OPERAND.get(op_type)
    if last is None or not any(given.tensors[last + 1 :]):
        return given, ()
    outputs = tuple(
        tensor for operand in given.tensors[last + 1 :] for tensor in operand
    )
    read = (*given.tensors[: last + 1], *(() for _ in given.tensors[last + 1 :]))
    return replace(given, tensors=read), outputs
