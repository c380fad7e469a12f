"""Six numbers of a sample, and which of them a small one does not have."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from stepscope.analysis.results.statistics import Statistics, sample_statistics


def test_six_numbers_of_a_sample() -> None:
    values = [4, 1, 3, 2]
    found, missing = sample_statistics(values, field="t")
    assert found == Statistics(
        mean=2.5, std=statistics.stdev(values), min=1, max=4, median=2.5, p95=4
    )
    assert missing == ()


@pytest.mark.parametrize("n", [1, 19, 20, 21, 100, 101])
def test_the_95th_percentile_is_an_element_by_nearest_rank(n: int) -> None:
    values = list(range(1, n + 1))
    found, _ = sample_statistics(np.array(values)[::-1], field="t")
    assert found.p95 == values[math.ceil(0.95 * n) - 1]


def test_equal_values_have_no_spread_whatever_rounding_does() -> None:
    found, _ = sample_statistics([0.1] * 7, field="t")
    assert found.std == 0.0


def test_one_value_has_no_spread_and_none_has_nothing() -> None:
    one, lacks = sample_statistics([5], field="t", scale=10)
    assert (one.mean, one.std) == (0.5, None)
    assert [(it.field, it.code) for it in lacks] == [("t.std", "SINGLE_SAMPLE")]
    none, lacks = sample_statistics([], field="t")
    assert none == Statistics()
    assert [(it.field, it.code) for it in lacks] == [("t", "NO_SAMPLES")]
