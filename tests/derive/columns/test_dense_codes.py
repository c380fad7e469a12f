"""Numbering distinct rows, against Python's own dictionaries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.derive.columns.dense_codes import (
    Codes,
    extremes_by_code,
    number_rows,
    number_values,
    totals_by_code,
)

NARROW = st.integers(-3, 3)
WIDE = st.sampled_from([-(2**62), -1, 0, 7, 2**40, 2**62])


def consistent(codes: Codes, rows: list[object]) -> bool:
    """Equal rows have equal codes, others have not, and `first` names a row of each."""
    pairs = set(zip(rows, codes.code.tolist(), strict=True))
    distinct = {row for row, _ in pairs}
    by_code = {code: row for row, code in pairs}
    return (
        len(pairs) == len(distinct) == codes.count
        and sorted(by_code) == list(range(codes.count))
        and [rows[row] for row in codes.first] == [by_code[c] for c in sorted(by_code)]
    )


@given(rows=st.lists(NARROW | WIDE, min_size=1))
def test_one_column_is_numbered_by_what_is_distinct(rows: list[int]) -> None:
    assert consistent(number_values(np.array(rows, np.int64)), list(rows))


@given(rows=st.lists(st.tuples(NARROW, WIDE, NARROW), min_size=1))
def test_columns_are_numbered_by_their_distinct_rows(
    rows: list[tuple[int, int, int]],
) -> None:
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)]
    assert consistent(number_rows(columns), list(rows))


def test_many_wide_columns_fall_back_to_sorting() -> None:
    rng = np.random.default_rng(5)
    columns = [rng.integers(-(2**62), 2**62, 3000) for _ in range(2)]
    columns.append(columns[0][::-1].copy())
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    assert consistent(number_rows(columns), rows)


def test_nothing_has_no_codes() -> None:
    assert number_values(np.empty(0, np.int64)).count == 0
    assert number_rows([np.empty(0, np.int32), np.empty(0, np.int64)]).count == 0


def test_totals_of_a_code_without_rows_are_zero() -> None:
    code, values = np.array([2, 0, 2], np.int32), np.array([5, 1, 3], np.int64)
    extremes = extremes_by_code(code, values, count=3)
    assert extremes.count.tolist() == [1, 0, 2]
    assert extremes.total.tolist() == [1, 0, 8]
    assert extremes.least.tolist() == [1, 0, 3]
    assert extremes.greatest.tolist() == [1, 0, 5]
    totals = totals_by_code(code, values, count=3)
    assert totals.count.tolist() == [1, 0, 2]
    assert totals.total.tolist() == [1, 0, 8]
    some = np.array([True, False, False])
    assert totals_by_code(code, values, count=3, where=some).total.tolist() == [0, 0, 5]


def test_a_code_beyond_the_count_is_an_error() -> None:
    with pytest.raises(ValueError, match="refused"):
        totals_by_code(np.array([1], np.int32), np.array([1], np.int64), count=1)
