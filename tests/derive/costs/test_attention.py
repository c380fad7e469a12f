"""Attention: what a causal mask leaves of its products."""

from __future__ import annotations

import pytest

from stepscope.derive.costs.families import execution_cost
from stepscope.derive.costs.operands import Operands, Tensor


def tensors(
    *sizes: tuple[int, ...] | None, values: tuple[object, ...] = ()
) -> Operands:
    """Operands of floats; None stands for one that is no tensor."""
    return Operands(
        tuple(() if one is None else (Tensor("float", one),) for one in sizes), values
    )


def flops(op: str, given: Operands) -> int | None:
    cost = execution_cost(op, given)
    return None if cost is None else cost.flops


@pytest.mark.parametrize(
    ("op", "places", "setting"),
    [
        ("aten::scaled_dot_product_attention", 8, 5),
        ("aten::_scaled_dot_product_flash_attention", 7, 4),
        ("aten::_scaled_dot_product_efficient_attention", 8, 6),
        ("aten::_flash_attention_forward", 15, 8),
        ("flash_attn::_flash_attn_forward", 8, 5),
    ],
)
def test_a_causal_mask_leaves_half_of_the_products(
    op: str, places: int, setting: int
) -> None:
    qkv = [(2, 6, 6, 8)] * 3
    rest: list[None] = [None] * (places - 3)
    values: list[object] = [None] * places
    whole = flops(op, tensors(*qkv, *rest, values=tuple(values)))
    values[setting] = False
    assert flops(op, tensors(*qkv, *rest, values=tuple(values))) == whole
    values[setting] = True
    # Two products of 2 x 6 pairs of heads with 6 x 6 pairs of places, 8 wide.
    assert whole == 2 * 2 * (2 * 6) * (6 * 6) * 8
    assert flops(op, tensors(*qkv, *rest, values=tuple(values))) == whole // 2


@pytest.mark.parametrize(
    ("op", "setting", "kinds"),
    [
        ("aten::_flash_attention_backward", 11, (False, True)),
        ("aten::_efficient_attention_backward", 14, (0, 2)),
        ("aten::_scaled_dot_product_efficient_attention_backward", 11, (False, True)),
    ],
)
def test_a_causal_mask_leaves_half_of_the_gradients_too(
    op: str, setting: int, kinds: tuple[object, object]
) -> None:
    given = [(2, 6, 6, 8)] * 4 + [None] * 11
    found = []
    for kind in kinds:
        values: list[object] = [None] * 15
        values[setting] = kind
        found.append(flops(op, tensors(*given, values=tuple(values))))
    assert found == [5 * 2 * (2 * 6) * (6 * 6) * 8, 5 * (2 * 6) * (6 * 6) * 8]
