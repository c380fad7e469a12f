"""Which values and intervals are shown: the largest, of equal ones the first."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.derive.facts.evidence import (
    MAX_RANGES_SHOWN,
    indices_of_largest,
    longest_intervals,
)
from stepscope.derive.intervals.spans import Spans


@pytest.mark.parametrize(
    "values", [[], [4], [1, 9, 4, 9, 9, 9], [5, 5, 5, 5], [3, 2, 1, 0], [0, 1, 2, 3]]
)
def test_the_largest_come_first_and_equal_ones_in_their_order(
    values: list[int],
) -> None:
    expected = sorted(range(len(values)), key=lambda at: (-values[at], at))[
        :MAX_RANGES_SHOWN
    ]
    assert indices_of_largest(np.array(values, np.int64)).tolist() == expected


def test_the_longest_intervals_come_first() -> None:
    spans = Spans.of([(0, 2), (10, 15), (20, 21), (30, 35), (40, 44)])
    assert longest_intervals(spans) == ((10, 15), (30, 35), (40, 44))
