"""Microseconds in every form become whole nanoseconds, never rounded twice."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.formats.kineto.json.times import (
    IMPOSSIBLE,
    Microseconds,
    nanoseconds_of_text,
)


def text_of(nanoseconds: int) -> str:
    sign = "-" if nanoseconds < 0 else ""
    return f"{sign}{abs(nanoseconds) // 1000}.{abs(nanoseconds) % 1000:03d}"


@given(st.lists(st.integers(-(10**15), 2**43 * 1000 - 1), min_size=1))
def test_three_decimals_survive_a_double_below_the_limit(times: list[int]) -> None:
    given_us = Microseconds.of([float(text_of(time)) for time in times])
    assert not given_us.rounded
    assert given_us.to_nanoseconds().tolist() == times


@given(st.lists(st.integers(0, 9 * 10**18), min_size=1))
def test_three_decimals_as_written_are_exact_whatever_the_size(
    times: list[int],
) -> None:
    texts = [text_of(time).encode() for time in times]
    assert nanoseconds_of_text(texts).tolist() == times


@given(st.decimals(min_value=0, max_value=10**12, allow_nan=False, places=7))
def test_other_numbers_of_decimals_round_to_the_nearest(time: Decimal) -> None:
    (found,) = nanoseconds_of_text([str(time).encode()]).tolist()
    assert abs(found - time * 1000) <= Decimal("0.5")


@given(st.lists(st.integers(-(10**15), 10**15)))
def test_whole_microseconds_are_exact(times: list[int]) -> None:
    given_us = Microseconds.of(times)
    assert given_us.whole
    assert given_us.to_nanoseconds().tolist() == [time * 1000 for time in times]


def test_a_double_that_lost_its_decimals_says_so() -> None:
    assert Microseconds.of([1, 1_694_128_201_435_418.125]).rounded
    assert not Microseconds.of([1_694_128_201_435_418]).rounded


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("12.5", 12_500),
        ("7", 7_000),
        (None, IMPOSSIBLE),
        ("", IMPOSSIBLE),
        ("soon", IMPOSSIBLE),
        ("NaN", IMPOSSIBLE),
        ("1e40", IMPOSSIBLE),
        ("9" * 100, IMPOSSIBLE),
        (2**70, IMPOSSIBLE),
        (1e18, IMPOSSIBLE),
    ],
)
def test_what_is_no_time_is_marked(value: float | str | None, expected: int) -> None:
    mixed: list[float | str | None] = [3, value]
    assert Microseconds.of(mixed).to_nanoseconds().tolist() == [3_000, expected]


def test_text_among_numbers_changes_none_of_them() -> None:
    found = Microseconds.of([1.5, "2.25", 3]).to_nanoseconds()
    np.testing.assert_array_equal(found, [1_500, 2_250, 3_000])
