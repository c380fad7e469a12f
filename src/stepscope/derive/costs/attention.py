"""Fused attention: the two products around the softmax, and their gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.derive.costs.family import Family, Part, Rule

if TYPE_CHECKING:
    from stepscope.derive.costs.operands import Operands

#: Number of products of the forward pass; of the backward pass, which forms the scores
#: again.
_FORWARD: Final = 2
_BACKWARD: Final = 5
#: Values of a setting that masks the future: a flag, or the kind of mask.
_CAUSAL: Final = (True, 1, 2)


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
        if _packed(given, first + 3):
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


def _packed(given: Operands, begin: int) -> bool:
    """Return whether sequences of unknown lengths are packed in one row."""
    return any(
        tensor.dtype in ("int", "int32") and len(tensor.sizes) == 1
        for operand in given.tensors[begin:]
        for tensor in operand
    )


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
