"""Costs: floating-point operations and bytes of one execution, by op family.

Families are data: which ops they hold, the formula in words, where it comes from, and
the function that evaluates it on recorded operands. An op that no family holds, or
whose operands were not recorded, has no cost: None, never 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.derive.costs.operands import Part, operand_bytes, total_bytes
from stepscope.derive.costs.pointwise import (
    CALLERS,
    LISTS,
    MOVEMENT,
    NORMALISATIONS,
    POINTWISE,
    POOLING,
    REDUCTIONS,
    SOFTMAX,
    WEIGHTS,
    WITHOUT_ARITHMETIC,
)
from stepscope.derive.costs.products import ATTENTION, CONVOLUTIONS, EINSUM, PRODUCTS
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from stepscope.derive.costs.operands import Family, Operands, Rule, Tensor

#: Last place of a tensor that is read → operators, whose variants with `out=` write
#: what follows; from the schemas that PyTorch 2 registers.
_LAST_READ: Final[dict[int, str]] = {
    0: (
        "abs all amax amin any argmax argmin atan bitwise_not cat ceil celu clone "
        "concat constant_pad_nd cos cumprod cumsum digamma elu erf erfc erfinv exp "
        "exp2 expm1 flip floor gelu hardsigmoid hardswish hardtanh hstack isinf isnan "
        "leaky_relu lgamma linalg_vector_norm log log10 log1p log2 log_softmax "
        "_log_softmax logical_not logsumexp max_pool2d_with_indices mean mish neg "
        "nonzero norm prod reciprocal relu repeat roll round rsqrt sigmoid sign silu "
        "sin softmax _softmax softplus sort sqrt square stack std sum tan tanh "
        "threshold topk tril triu trunc var vstack adaptive_avg_pool1d "
        "adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d"
    ),
    1: (
        "_adaptive_avg_pool2d_backward _int_mm _log_softmax_backward_data "
        "_softmax_backward_data add atan2 bitwise_and bitwise_or bmm clamp_max "
        "clamp_min dot eq fmax fmin fmod ge gelu_backward gt hardswish_backward "
        "hardtanh_backward hypot le leaky_relu_backward logaddexp logical_and "
        "logical_or logical_xor lt matmul max maximum min minimum mm mse_loss mul mv "
        "native_dropout_backward ne pow remainder rsub sigmoid_backward silu_backward "
        "smooth_l1_loss softplus_backward sub tanh_backward threshold_backward "
        "true_divide div xlogy"
    ),
    2: (
        "_addmm_activation addcdiv addcmul addmm addmv baddbmm clamp convolution "
        "gather index_select lerp linear masked_fill where"
    ),
}
_LAST_PLACE: Final = {
    f"aten::{name}": place
    for place, names in _LAST_READ.items()
    for name in names.split()
}

#: All families; an op type is in one of them at most.
FAMILIES: Final[tuple[Family, ...]] = (
    PRODUCTS,
    EINSUM,
    CONVOLUTIONS,
    ATTENTION,
    POINTWISE,
    LISTS,
    REDUCTIONS,
    SOFTMAX,
    NORMALISATIONS,
    POOLING,
    MOVEMENT,
    WITHOUT_ARITHMETIC,
)
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


def cost_of(op_type: str, given: Operands) -> Cost | None:
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
    if family.part == Part.OTHER and not any(one.is_floating for one in given.every()):
        if any(one.size_bytes is None for one in given.every()):
            # What a list of tensors holds is not recorded.
            return None
        # Functions of integers are indices and masks; products of integers count.
        flops = 0
    return Cost(family.part, flops, _accessed(given, rule, outputs))


def countable(cost: int | None) -> int | None:
    """Return a cost that an execution can have; None where damaged sizes gave it."""
    return cost if cost is not None and 0 <= cost < _COST_END else None


def weights_of(op_type: str, given: Operands) -> tuple[tuple[int, ...], ...]:
    """Return sizes of the variables of a layer that an execution of its op read."""
    found = (given.tensor(place) for place in WEIGHTS.get(op_type, ()))
    return tuple(tensor.sizes for tensor in found if tensor is not None)


def _accessed(given: Operands, rule: Rule, outputs: tuple[Tensor, ...]) -> int | None:
    """Return bytes: operands read once, the result or what stands for it written."""
    if rule.accessed is not None:
        return rule.accessed(given)
    tensors = list(given.every())
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
