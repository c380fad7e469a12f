"""Operands as recorders write them, and sizes that are broadcast."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.derive.costs.operands import (
    Tensor,
    broadcast_sizes,
    operands_from_lists,
)


@given(st.lists(st.sampled_from([1, 2, 3]), max_size=4), st.data())
def test_sizes_are_broadcast_as_by_numpy(first: list[int], data: st.DataObject) -> None:
    second = data.draw(st.lists(st.sampled_from([1, 2, 3]), max_size=4))
    try:
        expected = np.broadcast_shapes(tuple(first), tuple(second))
    except ValueError:
        expected = None
    assert broadcast_sizes(first, second) == expected


def test_plain_values_as_a_recorder_writes_them() -> None:
    given = operands_from_lists(
        "[[], [], [], [], [], [], []]",
        '["", "Scalar", "ScalarList", "", "", "", ""]',
        '["True", "False", "[True, False]", "same", "2.5", "", 7]',
    )
    assert given is not None
    assert given.tensors == ((),) * 7
    assert [type(value) for value in given.values[:2]] == [bool, bool]
    assert given.values == (True, False, [True, False], "same", 2.5, None, None)
    assert given.value_at_index(4) == 2.5
    assert given.value_at_index(7) is None
    assert given.tensor_at_index(7) is None


def test_sizes_that_are_not_numbers_are_not_tensors() -> None:
    given = operands_from_lists(
        '[[[2], "x", [3, "y"]], "z", [4], [5]]', '["float", "float", 1, "float"]', "{}"
    )
    assert given is not None
    assert given.tensors == ((Tensor("float", (2,)),), (), (), (Tensor("float", (5,)),))
    assert given.values == ()


@pytest.mark.parametrize(
    ("width", "names"),
    [
        (1, "bool uint8 int8 pred s8 u8 f8e5m2 f8e4m3fn float8_e4m3fn char"),
        (1, "c10::Float8_e4m3fn c10::Float8_e5m2 c10::Float8_e4m3fnuz"),
        (2, "c10::Half c10::BFloat16 half bfloat16 short int16 uint16 f16 bf16"),
        (4, "float int int32 uint32 f32 s32 u32"),
        (8, "double int64 uint64 complex64 long f64 s64 u64 c64 c10::complex<float>"),
        (16, "complex128 c128 c10::complex<double>"),
    ],
)
def test_element_types_have_their_width(width: int, names: str) -> None:
    for name in names.split():
        assert Tensor(name, (3, 5)).size_bytes == 15 * width
