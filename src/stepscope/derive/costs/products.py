"""Products of matrices, those of fused attention and their gradients included."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from stepscope.derive.costs.operands import Family, Part, Rule, broadcast_sizes

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.derive.costs.operands import Operands, Tensor

#: Number of products of the forward pass; of the backward pass, which forms the scores
#: again.
_FORWARD: Final = 2
_BACKWARD: Final = 5
#: Values of a setting that masks the future: a flag, or the kind of mask.
_CAUSAL: Final = (True, 1, 2)

#: Op → place of its setting for a causal mask.
_FORWARD_HEADS_FIRST: Final = {
    "aten::scaled_dot_product_attention": 5,
    "aten::_scaled_dot_product_flash_attention": 4,
    "aten::_scaled_dot_product_efficient_attention": 6,
    "aten::_scaled_dot_product_cudnn_attention": 6,
    "aten::_scaled_dot_product_flash_attention_for_cpu": 4,
    "aten::_scaled_dot_product_fused_attention_overrideable": 5,
}
_FORWARD_LENGTH_FIRST: Final = {
    "aten::_flash_attention_forward": 8,
    "aten::_efficient_attention_forward": 9,
    "flash_attn::_flash_attn_forward": 5,
}
_BACKWARD_HEADS_FIRST: Final = {
    "aten::_scaled_dot_product_flash_attention_backward": 11,
    "aten::_scaled_dot_product_efficient_attention_backward": 11,
    "aten::_scaled_dot_product_cudnn_attention_backward": 14,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": 7,
}
_BACKWARD_LENGTH_FIRST: Final = {
    "aten::_flash_attention_backward": 11,
    "aten::_efficient_attention_backward": 14,
    "flash_attn::_flash_attn_backward": 11,
}

_Sizes = tuple[int, ...]


def _of_shape(shape: Callable[[Operands], tuple[_Sizes, int] | None]) -> Rule:
    """Make a rule from sizes of the product, and the length that is summed over."""

    def result(given: Operands) -> _Sizes | None:
        found = shape(given)
        return None if found is None else found[0]

    def flops(given: Operands) -> int | None:
        found = shape(given)
        return None if found is None else 2 * math.prod(found[0]) * found[1]

    return Rule(flops, result)


def _plain(left: int, right: int) -> Rule:
    """Make a rule for (…, m, k) times (…, k, n) with leading sizes equal or 1."""
    return _of_shape(lambda given: _shape(given.tensor(left), given.tensor(right)))


def _shape(left: Tensor | None, right: Tensor | None) -> tuple[_Sizes, int] | None:
    """Return sizes of the product, and the length that is summed over."""
    if left is None or right is None or not left.sizes or not right.sizes:
        return None
    a = left.sizes if len(left.sizes) > 1 else (1, *left.sizes)
    b = right.sizes if len(right.sizes) > 1 else (*right.sizes, 1)
    outer = broadcast_sizes(a[:-2], b[:-2])
    if a[-1] != b[-2] or outer is None:
        return None
    rows = a[-2:-1] if len(left.sizes) > 1 else ()
    columns = b[-1:] if len(right.sizes) > 1 else ()
    return (*outer, *rows, *columns), a[-1]


def _layer_flops(given: Operands) -> int | None:
    inputs, weight = given.tensor(0), given.tensor(1)
    if inputs is None or weight is None or not inputs.sizes or not weight.sizes:
        return None
    if inputs.sizes[-1] != weight.sizes[-1]:
        return None
    return 2 * inputs.elements * math.prod(weight.sizes[:-1])


def _layer_result(given: Operands) -> _Sizes | None:
    inputs, weight = given.tensor(0), given.tensor(1)
    if inputs is None or weight is None or not weight.sizes:
        return None
    return (*inputs.sizes[:-1], *weight.sizes[:-1])


def _transposable(given: Operands) -> tuple[_Sizes, int] | None:
    """Count products of matrices that may have been transposed, which is not recorded.

    Where several readings fit and give different products, none is taken.
    """
    left, right = given.tensor(0), given.tensor(1)
    if left is None or right is None or min(len(left.sizes), len(right.sizes)) < 2:
        return None
    outer = broadcast_sizes(left.sizes[:-2], right.sizes[:-2])
    if outer is None:
        return None
    a, b = left.sizes[-2:], right.sizes[-2:]
    fitting = {
        (a[1 - i], b[1 - j], a[i]) for i in (0, 1) for j in (0, 1) if a[i] == b[j]
    }
    if len({m * n * k for m, n, k in fitting}) != 1:
        return None
    m, n, k = min(fitting)
    return (*outer, m, n), k


def _einsum(given: Operands) -> tuple[_Sizes, int] | None:
    """Return sizes of the result, and the number of terms that are added up in all."""
    if given.equation is None or "->" not in given.equation or "." in given.equation:
        return None
    inputs, _, output = given.equation.replace(" ", "").partition("->")
    tensors, names = list(given.every()), inputs.split(",")
    if len(tensors) != len(names):
        return None
    length: dict[str, int] = {}
    for tensor, letters in zip(tensors, names, strict=True):
        if len(letters) != len(tensor.sizes):
            return None
        for letter, size in zip(letters, tensor.sizes, strict=True):
            if length.setdefault(letter, size) != size:
                return None
    if not set(output) <= set(length):
        return None
    return tuple(length[letter] for letter in output), math.prod(length.values())


def _einsum_flops(given: Operands) -> int | None:
    found = _einsum(given)
    if found is None or len(list(given.every())) != 2:
        return None
    return 2 * found[1]


def _einsum_result(given: Operands) -> _Sizes | None:
    found = _einsum(given)
    return None if found is None else found[0]


def _attention(
    first: int, *, heads_first: bool, products: int, causal: int | None = None
) -> Rule:
    """Make a rule for query, key and value from place `first` on.

    Sizes are (batch, heads, length, width) or (batch, length, heads, width). The
    setting at place `causal` says whether a query sees only the keys before it.
    """

    def result(given: Operands) -> tuple[int, ...] | None:
        query, value = given.tensor(first), given.tensor(first + 2)
        if query is None or value is None or len(query.sizes) != 4:
            return None
        return (*query.sizes[:-1], value.sizes[-1])

    def flops(given: Operands) -> int | None:
        found = [given.tensor(first + place) for place in range(3)]
        if any(one is None or len(one.sizes) != 4 for one in found):
            return None
        # Sequences of unknown lengths, packed in one row.
        begin = first + 3
        if any(
            tensor.dtype in ("int", "int32") and len(tensor.sizes) == 1
            for operand in given.tensors[begin:]
            for tensor in operand
        ):
            return None
        query, key, value = (one.sizes for one in found if one is not None)
        axis = 2 if heads_first else 1
        pairs = query[0] * query[3 - axis] * query[axis] * key[axis]
        # With as many products over the width of the values as over that of the
        # keys; the odd one of the backward pass forms the scores again.
        over_values = products // 2
        width = (products - over_values) * query[3] + over_values * value[3]
        # Of the pairs that a causal mask leaves, each has a multiplication and an
        # addition; it leaves half.
        masked = causal is not None and given.value(causal) in _CAUSAL
        return pairs * width if masked else 2 * pairs * width

    return Rule(flops, result)


ATTENTION: Final = Family(
    name="attention",
    part=Part.PRODUCT,
    formula="2 batch heads (length of queries) (length of keys) width for each of the "
    "products: 2 forward, 5 backward; half of that where the recorded arguments say "
    "that the mask is causal; the softmax between them is not counted",
    source="the definition; the backward pass of Dao et al. 2022 (arXiv 2205.14135), "
    "Algorithm 4, forms the scores again",
    rules={
        op: _attention(first, heads_first=heads, products=products, causal=place)
        for places, first, heads, products in (
            (_FORWARD_HEADS_FIRST, 0, True, _FORWARD),
            (_FORWARD_LENGTH_FIRST, 0, False, _FORWARD),
            (_BACKWARD_HEADS_FIRST, 1, True, _BACKWARD),
            (_BACKWARD_LENGTH_FIRST, 1, False, _BACKWARD),
        )
        for op, place in places.items()
    },
)

_LAYER: Final = Rule(_layer_flops, _layer_result)
_EITHER_WAY: Final = _of_shape(_transposable)

PRODUCTS: Final = Family(
    name="product of matrices",
    part=Part.PRODUCT,
    formula="2 m n k for (m, k) times (k, n), times the number of matrices; what is "
    "added to the product is not counted",
    source="the definition of the product: k multiplications and k additions for each "
    "element of the result",
    rules={
        **dict.fromkeys(
            ("aten::mm", "aten::bmm", "aten::matmul", "aten::mv", "aten::dot"),
            _plain(0, 1),
        ),
        "aten::_int_mm": _plain(0, 1),
        "aten::_scaled_mm": _plain(0, 1),
        **dict.fromkeys(
            ("aten::addmm", "aten::addmm_", "aten::baddbmm", "aten::addmv"),
            _plain(1, 2),
        ),
        "aten::_addmm_activation": _plain(1, 2),
        "aten::linear": _LAYER,
        **dict.fromkeys(
            ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "_FusedMatMul"),
            _EITHER_WAY,
        ),
        **dict.fromkeys(("_MklMatMul", "_MklFusedMatMul"), _EITHER_WAY),
        **dict.fromkeys(("_MklNativeMatMul", "_MklNativeFusedMatMul"), _EITHER_WAY),
        **dict.fromkeys(("_MklBatchMatMul", "_MklBatchMatMulV2"), _EITHER_WAY),
    },
)
EINSUM: Final = Family(
    name="sum over named indices of two operands",
    part=Part.PRODUCT,
    formula="2 times the product of the lengths of all indices",
    source="the definition: one multiplication and one addition for each term",
    rules=dict.fromkeys(
        ("aten::einsum", "Einsum", "_FusedEinsum"), Rule(_einsum_flops, _einsum_result)
    ),
)
