"""Frames become arrays, and arrays frames."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from stepscope.derive.columns.arrays import wanted_rows
from stepscope.trace.reading.nullable import (
    absent_mask,
    fill_nulls,
    is_true,
    nullable_series,
    present_mask,
)


@pytest.mark.parametrize("length", [1, 7, 19_999, 20_000, 20_001])
def test_values_that_are_absent_are_null_in_short_and_in_long_columns(
    length: int,
) -> None:
    values = np.arange(length) - 3
    for present in (values % 3 == 0, values < -9, values >= -3):
        found = nullable_series("number", values, present)
        expected = [
            value if is_there else None
            for value, is_there in zip(values.tolist(), present.tolist(), strict=True)
        ]
        assert found.to_list() == expected
        assert (found.name, found.dtype) == ("number", pl.Int64())


@pytest.mark.parametrize(
    "values",
    [[], [4, 5], [None, None], [4, None, 5]],
    ids=["no", "full", "empty", "some"],
)
def test_gaps_of_a_column_are_found_and_filled_as_expressions_do(
    values: list[int | None],
) -> None:
    for dtype in (pl.Int64(), pl.Int32(), pl.Float64()):
        series = pl.Series("number", values, dtype=dtype)
        assert present_mask(series).tolist() == [it is not None for it in values]
        assert absent_mask(series).tolist() == [it is None for it in values]
        found, expected = fill_nulls(series, -1), series.fill_null(-1).to_numpy()
        assert found.tolist() == expected.tolist()
        assert found.dtype == expected.dtype
        assert present_mask(series).dtype == absent_mask(series).dtype == np.bool_


@pytest.mark.parametrize("values", [[], [True, False], [None], [True, None, False]])
def test_a_truth_value_that_is_absent_is_not_true(values: list[bool | None]) -> None:
    found = is_true(pl.Series(values, dtype=pl.Boolean))
    assert found.tolist() == [it is True for it in values]
    assert found.dtype == np.bool_


def test_rows_are_picked_by_key_from_a_range() -> None:
    key = np.array([2, 0, 1, 2, 2, 1], np.int32)
    for wanted in (np.array([False, False, True]), np.array([0, 0, 1], np.uint8)):
        assert wanted_rows(key, wanted).tolist() == [0, 3, 4]
        assert wanted_rows(key, wanted, 1, 4).tolist() == [3]
        assert wanted_rows(key, wanted, 4).tolist() == [4]
    nothing = wanted_rows(key, np.zeros(3, np.bool_))
    assert nothing.tolist() == []
    assert nothing.dtype == np.int64


def test_a_key_beyond_what_may_be_wanted_is_refused() -> None:
    with pytest.raises(ValueError, match="refused"):
        wanted_rows(np.array([0, 3], np.int32), np.ones(3, np.bool_))
