"""What is not recorded of an operand leaves its op without a cost, never with a 0."""

from __future__ import annotations

import pytest

from stepscope.derive.costs.families import execution_cost
from stepscope.derive.costs.operands import Operands, Tensor

SETTINGS = ("stride", "padding", "dilation")


@pytest.mark.parametrize("unknown", SETTINGS)
def test_a_convolution_without_one_of_its_settings_has_no_cost(unknown: str) -> None:
    settings = [None if name == unknown else [1, 1] for name in SETTINGS]
    image, weight = Tensor("float", (2, 3, 8, 8)), Tensor("float", (4, 3, 3, 3))
    given = Operands(((image,), (weight,), ()), (None, None, None, *settings, 1))
    assert execution_cost("aten::conv2d", given) is None


def test_indices_next_to_a_tensor_of_unknown_type_have_no_cost() -> None:
    known, unknown = Tensor("int32", (4, 3)), Tensor("", (4, 3))
    assert execution_cost("aten::add", Operands(((known,), (known,)))) is not None
    assert execution_cost("aten::add", Operands(((known,), (unknown,)))) is None
