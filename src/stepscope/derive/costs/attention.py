"""Fused attention: the two products around the softmax, and their gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.derive.costs.family import Family, Part, Rule

if TYPE_CHECKING:
    from stepscope.derive.costs.operands import Operands

__all__ = ["ATTENTION"]

#: Number of products of the forward pass; of the backward pass, which forms the scores
#: again.
_FORWARD: Final = 2
_BACKWARD: Final = 5


def _attention(first: int, *, heads_first: bool, products: int) -> Rule:
    """Make a rule for query, key and value from place `first` on.

    Sizes are (batch, heads, length, width) or (batch, length, heads, width).
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
        return (
            2 * pairs * ((products - over_values) * query[3] + over_values * value[3])
        )

    return Rule(flops, result)


def _packed(given: Operands, begin: int) -> bool:
    """Return whether sequences of unknown lengths are packed in one row."""
    return any(
        tensor.dtype in ("int", "int32") and len(tensor.sizes) == 1
        for operand in given.tensors[begin:]
        for tensor in operand
    )


_HEADS_FIRST: Final = _attention(0, heads_first=True, products=_FORWARD)
_LENGTH_FIRST: Final = _attention(0, heads_first=False, products=_FORWARD)

ATTENTION: Final = Family(
    name="attention",
    part=Part.PRODUCT,
    formula="2 batch heads (length of queries) (length of keys) width for each of the "
    "products: 2 forward, 5 backward; a causal mask saves none of them, and the "
    "softmax between them is not counted",
    source="the definition; the backward pass of Dao et al. 2022 (arXiv 2205.14135), "
    "Algorithm 4, forms the scores again",
    rules={
        **dict.fromkeys(
            (
                "aten::scaled_dot_product_attention",
                "aten::_scaled_dot_product_flash_attention",
                "aten::_scaled_dot_product_efficient_attention",
                "aten::_scaled_dot_product_cudnn_attention",
                "aten::_scaled_dot_product_flash_attention_for_cpu",
                "aten::_scaled_dot_product_fused_attention_overrideable",
            ),
            _HEADS_FIRST,
        ),
        **dict.fromkeys(
            (
                "aten::_flash_attention_forward",
                "aten::_efficient_attention_forward",
                "flash_attn::_flash_attn_forward",
            ),
            _LENGTH_FIRST,
        ),
        **dict.fromkeys(
            (
                "aten::_scaled_dot_product_flash_attention_backward",
                "aten::_scaled_dot_product_efficient_attention_backward",
                "aten::_scaled_dot_product_cudnn_attention_backward",
                "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
            ),
            _attention(1, heads_first=True, products=_BACKWARD),
        ),
        **dict.fromkeys(
            (
                "aten::_flash_attention_backward",
                "aten::_efficient_attention_backward",
                "flash_attn::_flash_attn_backward",
            ),
            _attention(1, heads_first=False, products=_BACKWARD),
        ),
    },
)
