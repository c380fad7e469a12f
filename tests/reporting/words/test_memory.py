"""What is said first of a recording that holds memory alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from stepscope.reporting.words.first_sentence import peak_sentence
from stepscope.unavailable import Unavailable

GIB = 2**30


def result(
    peaks: dict[str, int | None],
    lines: list[tuple[str | None, int]],
    level: str = "recorded",
    region: str | None = None,
) -> Any:
    """Memories with their peaks, and what lines hold at the peak of 8 GiB."""
    rows = pl.DataFrame({"memory_id": list(peaks), "peak_bytes": list(peaks.values())})
    held = pl.DataFrame(
        {
            "source": [it for it, _ in lines],
            "allocation_bytes": [size for _, size in lines],
            "share_percent": [100 * size / (8 * GIB) for _, size in lines],
        },
        schema_overrides={"source": pl.String, "allocation_bytes": pl.Int64},
    )
    regions = pl.DataFrame({"region_type": [region]})
    memory = SimpleNamespace(lines=held, level=level, breakdown=regions)
    memories = dict.fromkeys(peaks, memory)
    return SimpleNamespace(rows=rows, memories=memories)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            # Memory that no line is known of is no line that holds most.
            [(None, 4 * GIB), ("optim.py:82 step", 2 * GIB), ("a.py:1 f", GIB)],
            (
                "The memory cuda:1 peaks at 8.00 GiB; 2.00 GiB of it (25.0 %) is in "
                "tensors of optim.py:82 step, and 50.0 % has no known program line."
            ),
        ),
        (
            [("optim.py:82 step", 5 * GIB), (None, 2 * GIB)],
            (
                "The memory cuda:1 peaks at 8.00 GiB; 5.00 GiB of it (62.5 %) is in "
                "tensors of optim.py:82 step."
            ),
        ),
        (
            [(None, 6 * GIB), ("optim.py:80 step", GIB // 2)],
            (
                "The memory cuda:1 peaks at 8.00 GiB; 75.0 % of it has no known "
                "program line."
            ),
        ),
        (
            # Many small lines that are known, and a little of none.
            [("optim.py:80 step", GIB // 2), (None, GIB // 4)],
            (
                "The memory cuda:1 peaks at 8.00 GiB; 512 MiB of it (6.2 %) is in "
                "tensors of optim.py:80 step."
            ),
        ),
        ([(None, 8 * GIB)], "The memory cuda:1 peaks at 8.00 GiB."),
        ([], "The memory cuda:1 peaks at 8.00 GiB."),
    ],
)
def test_the_fullest_memory_and_its_largest_line_are_named(
    lines: list[tuple[str | None, int]], said: str
) -> None:
    peaks = {"cuda:0": GIB, "cuda:1": 8 * GIB, "cuda:2": None}
    assert peak_sentence(result(peaks, lines)) == said


def test_without_a_peak_nothing_is_said() -> None:
    assert peak_sentence(result({"cuda:0": None}, [])) is None
    why = Unavailable(code="NOT_RECORDED", reason="None.", remedy="Record.")
    assert peak_sentence(why) is None


def test_what_a_file_of_one_instant_shows_is_called_no_peak() -> None:
    """A device memory profile was said to show the peak, at 0 ps."""
    said = peak_sentence(result({"cuda:1": 8 * GIB}, [], level="one_instant"))
    assert said == "The memory cuda:1 held 8.00 GiB when the profile was saved."


def test_code_of_compiled_programs_is_in_no_tensors() -> None:
    found = result({"a": 8 * GIB}, [("train.py:9 f", 8 * GIB)], region="executable")
    said = peak_sentence(found)
    assert said is not None
    assert said.endswith("is in programs compiled for train.py:9 f.")
