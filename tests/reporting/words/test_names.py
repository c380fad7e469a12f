"""Numbers in words: three digits, and no share that reads as none or as all."""

from __future__ import annotations

import pytest

from stepscope.reporting.words.names import percent
from stepscope.units import PS_PER_MS, duration_text


@pytest.mark.parametrize(
    ("ms", "told"),
    [
        (9.994, "9.99 ms"),
        (9.996, "10.0 ms"),
        (99.94, "99.9 ms"),
        (99.96, "100 ms"),
        (999.6, "1.00 s"),
        (0.0, "0 ps"),
    ],
)
def test_a_duration_has_three_digits_also_where_it_is_rounded_up(
    ms: float, told: str
) -> None:
    assert duration_text(ms * PS_PER_MS) == told


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0.0, "0.0 %"),
        (0.04, "<0.1 %"),
        (99.94, "99.9 %"),
        (99.96, ">99.9 %"),
        # What remains of adding up floating-point numbers is nothing.
        (100 - 1e-9, "100.0 %"),
        (100.0, "100.0 %"),
    ],
)
def test_a_share_is_never_none_that_is_some_nor_all_that_is_not(
    value: float, told: str
) -> None:
    assert percent(value) == told
