"""Grouped totals: both forms against sums over plain lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

GROUPS = 4
ROWS = st.lists(st.tuples(st.integers(0, GROUPS - 1), st.integers(-(2**40), 2**40)))


@pytest.fixture(params=["plain", "compiled"])
def kernels(
    request: pytest.FixtureRequest,
    kernel_forms: Callable[[str], dict[str, ModuleType]],
) -> ModuleType:
    forms = kernel_forms("numbering")
    if request.param not in forms:
        pytest.skip("the kernels are not compiled here")
    return forms[request.param]


#: What `where` is if all rows count.
ALL = np.zeros(0, np.uint8)


def columns(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return (
        np.array([code for code, _ in rows], np.int32),
        np.array([value for _, value in rows], np.int64),
    )


@given(rows=ROWS)
def test_totals_are_the_sums_of_the_lists(
    kernel_forms: Callable[[str], dict[str, ModuleType]],
    rows: list[tuple[int, int]],
) -> None:
    expected = []
    for group in range(GROUPS):
        values = [value for code, value in rows if code == group]
        expected.append(
            (len(values), sum(values), min(values, default=0), max(values, default=0))
        )
    for form in kernel_forms("numbering").values():
        out = [np.zeros(GROUPS, np.int64) for _ in range(4)]
        assert form.sum_groups(*columns(rows), ALL, *out) == len(rows)
        assert expected == list(zip(*(column.tolist() for column in out), strict=True))


def test_sums_beyond_the_precision_of_a_real_are_exact(kernels: ModuleType) -> None:
    out = [np.zeros(1, np.int64) for _ in range(4)]
    code, value = columns([(0, 2**60), (0, 1), (0, 1)])
    kernels.sum_groups(code, value, ALL, *out)
    assert out[1].tolist() == [2**60 + 2]


def test_a_code_beyond_the_groups_is_refused(kernels: ModuleType) -> None:
    out = [np.zeros(GROUPS, np.int64) for _ in range(4)]
    assert kernels.sum_groups(*columns([(GROUPS, 1)]), ALL, *out) == kernels.BAD_RANGE


def test_a_row_of_no_group_is_left_out(kernels: ModuleType) -> None:
    out = [np.zeros(1, np.int64) for _ in range(4)]
    assert kernels.sum_groups(*columns([(-1, 7), (0, 2), (-1, -7)]), ALL, *out) == 3
    assert [column.tolist() for column in out] == [[1], [2], [2], [2]]


def test_only_rows_that_are_asked_for_count(kernels: ModuleType) -> None:
    out = [np.zeros(2, np.int64) for _ in range(4)]
    where = np.array([1, 0, 1, 0], np.uint8)
    rows = [(0, 5), (0, 7), (1, -3), (GROUPS, 2)]
    assert kernels.sum_groups(*columns(rows), where, *out) == 4
    assert [column.tolist() for column in out] == [[1, 1], [5, -3], [5, -3], [5, -3]]
    assert kernels.sum_groups(*columns(rows), where[1:], *out) == kernels.BAD_RANGE


def test_outputs_that_are_empty_are_not_filled(kernels: ModuleType) -> None:
    rows = columns([(0, 5), (1, -3), (0, 2)])
    none = np.zeros(0, np.int64)
    count, total = np.zeros(2, np.int64), np.zeros(2, np.int64)
    assert kernels.sum_groups(*rows, ALL, count, total, none, none) == 3
    assert [count.tolist(), total.tolist()] == [[2, 1], [7, -3]]
    refused = kernels.sum_groups(*rows, ALL, count, none, total, total)
    assert refused == kernels.BAD_RANGE
    assert (
        kernels.sum_groups(*rows, ALL, count, total, total, none) == kernels.BAD_RANGE
    )


def test_arrays_of_different_lengths_are_refused(kernels: ModuleType) -> None:
    code, _ = columns([(0, 1)])
    out = [np.zeros(GROUPS, np.int64) for _ in range(4)]
    assert (
        kernels.sum_groups(code, np.zeros(2, np.int64), ALL, *out) == kernels.BAD_RANGE
    )
    out[3] = np.zeros(1, np.int64)
    assert (
        kernels.sum_groups(code, np.zeros(1, np.int64), ALL, *out) == kernels.BAD_RANGE
    )
