"""What is said first of kernels that Nsight Compute measured, without a recording."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from stepscope.reporting.words.first_sentence import measured_sentence
from stepscope.unavailable import Unavailable

US = 1_000_000
Row = tuple[str, int | None, float | None, float | None]
MISSING = Unavailable(code="NOT_RECORDED", reason="None.", remedy="Measure.")


def table(*rows: Row) -> pl.DataFrame:
    names = ("kernel_name", "duration_ps", "compute_percent", "memory_percent")
    types: dict[str, Any] = dict(
        zip(names, (pl.String, pl.Int64, pl.Float64, pl.Float64), strict=True)
    )
    return pl.DataFrame(rows, schema=types, orient="row")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            # Launches of one kernel count together, and its longest one is looked at.
            [
                ("a", 40 * US, 90.0, 20.0),
                ("b", 20 * US, 30.0, 10.0),
                ("b", 30 * US, 32.6, 4.8),
                ("c", None, 1.0, 1.0),
            ],
            (
                "The kernel b takes 55.6 % of the 90.0 µs of 3 measured launches; its "
                "longest launch (30.0 µs) reaches 32.6 % of the peak compute rate and "
                "4.8 % of the peak memory rate."
            ),
        ),
        (
            [("a", 40 * US, None, 20.0)],
            (
                "The kernel a takes 100.0 % of the 40.0 µs of 1 measured launch; it "
                "reaches 20.0 % of the peak memory rate."
            ),
        ),
        (
            [("a", 40 * US, None, None)],
            "The kernel a takes 100.0 % of the 40.0 µs of 1 measured launch.",
        ),
    ],
)
def test_the_kernel_with_most_of_the_measured_time_is_named(
    rows: list[Row], said: str
) -> None:
    assert measured_sentence([table(*rows), MISSING]) == said


def test_without_durations_nothing_is_said() -> None:
    assert measured_sentence([MISSING]) is None
    assert measured_sentence([table(("a", None, 1.0, 1.0))]) is None


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ((0.5, 21.0, 92.0), "92.0 % of the peak memory rate (L1; DRAM 0.5 %)."),
        ((92.0, 40.0, 30.0), "92.0 % of the peak memory rate (DRAM)."),
        ((None, 40.0, 92.0), "92.0 % of the peak memory rate."),
    ],
)
def test_the_busiest_level_of_memory_is_named(
    levels: tuple[float | None, ...], said: str
) -> None:
    """A product that is bound by the L1 cache was said to use the peak of "memory"."""
    names = ("dram_percent", "l2_percent", "l1_percent")
    rows = table(("gemm", 40 * US, 64.0, 92.0)).with_columns(
        pl.lit(level, pl.Float64).alias(name)
        for name, level in zip(names, levels, strict=True)
    )
    assert str(measured_sentence([rows])).endswith(said)
