"""Picking values by row: both forms of the kernel, and what calls it, against NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.trace.reading.by_row import values_by_row

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

Forms = dict[str, "ModuleType"]
TYPES = (np.uint8, np.bool_, np.int32, np.int64, np.float64)


@given(
    rows=st.lists(st.integers(0, 6), max_size=20),
    type_=st.sampled_from([np.uint8, np.int32, np.int64]),
)
def test_each_row_gets_its_value(
    kernel_forms: Callable[[str], Forms], rows: list[int], type_: type[np.generic]
) -> None:
    values = np.array([7, 1, 0, 255, 3, 3, 9], type_)
    expected = values[np.array(rows, np.int64)]
    for form in kernel_forms("numbering").values():
        out = np.empty(len(rows), type_)
        at = np.array(rows, np.int32)
        assert form.gather_values(values, at, values[:0], out) == len(rows)
        assert out.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("rows", "none"), [([7], []), ([-1], []), ([7], [0]), ([0], [0, 0])]
)
def test_a_row_without_a_value_is_refused(
    kernel_forms: Callable[[str], Forms], rows: list[int], none: list[int]
) -> None:
    values = np.arange(7, dtype=np.int64)
    for form in kernel_forms("numbering").values():
        at, out = np.array(rows, np.int32), np.empty(len(rows), np.int64)
        nothing = np.array(none, np.int64)
        assert form.gather_values(values, at, nothing, out) == form.BAD_RANGE
        assert form.gather_values(values, at, values[:0], out[:0]) == form.BAD_RANGE


@pytest.mark.parametrize("type_", TYPES)
def test_values_of_every_width_keep_their_type(type_: type[np.generic]) -> None:
    values = np.array([0, 1, 1, 0, 1], type_)
    rows = np.array([4, 0, -1, 2], np.int32)
    found = values_by_row(values[::1], rows, none=1)
    assert found.dtype == values.dtype
    assert found.tolist() == [values[4], values[0], type_(1), values[2]]


def test_values_that_are_not_side_by_side_are_found_too() -> None:
    table = np.arange(8, dtype=np.uint8).reshape(4, 2)
    assert values_by_row(table[:, 1], np.array([3, 0], np.int32)).tolist() == [7, 1]


def test_a_row_below_0_is_an_error_unless_it_stands_for_none() -> None:
    with pytest.raises(IndexError, match="outside the 3 values"):
        values_by_row(np.arange(3), np.array([-1], np.int32))
