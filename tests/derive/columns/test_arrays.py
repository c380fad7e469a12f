"""Frames become arrays, and arrays frames."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from stepscope.derive.columns.arrays import nullable, picked


@pytest.mark.parametrize("length", [1, 7, 19_999, 20_000, 20_001])
def test_values_that_are_absent_are_null_in_short_and_in_long_columns(
    length: int,
) -> None:
    values = np.arange(length) - 3
    for present in (values % 3 == 0, values < -9, values >= -3):
        found = nullable("number", values, present)
        expected = [
            value if is_there else None
            for value, is_there in zip(values.tolist(), present.tolist(), strict=True)
        ]
        assert found.to_list() == expected
        assert (found.name, found.dtype) == ("number", pl.Int64())


def test_rows_are_picked_by_key_from_a_range() -> None:
    key = np.array([2, 0, 1, 2, 2, 1], np.int32)
    for wanted in (np.array([False, False, True]), np.array([0, 0, 1], np.uint8)):
        assert picked(key, wanted).tolist() == [0, 3, 4]
        assert picked(key, wanted, 1, 4).tolist() == [3]
        assert picked(key, wanted, 4).tolist() == [4]
    nothing = picked(key, np.zeros(3, np.bool_))
    assert nothing.tolist() == []
    assert nothing.dtype == np.int64


def test_a_key_beyond_what_may_be_wanted_is_refused() -> None:
    with pytest.raises(ValueError, match="refused"):
        picked(np.array([0, 3], np.int32), np.ones(3, np.bool_))
