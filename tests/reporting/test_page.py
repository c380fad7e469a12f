"""The small drawings of a text page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.reporting.page import (
    bar,
    cut_middle,
    line,
    plain_text,
    sparkline,
    table_lines,
    wrap_text,
)
from stepscope.reporting.words.names import percent, range_ms


@pytest.mark.parametrize(
    ("share", "drawn"),
    [
        (0.0, ""),
        (1.0, "████"),
        (0.5, "██"),
        (0.28125, "█▏"),
        (0.0001, "▏"),
        (7, "████"),
    ],
)
def test_a_bar_is_as_long_as_its_share_and_never_hides_what_exists(
    share: float, drawn: str
) -> None:
    assert bar(share, 4) == drawn


def test_a_mark_for_several_values_shows_the_largest() -> None:
    assert sparkline([1, 8, 2, 2], 4) == ("▂█▃▃", 1)
    assert sparkline([1, 8, 2, 2], 2) == ("█▃", 2)
    assert sparkline([0, 0], 5) == ("▁▁", 1)
    assert sparkline([], 5) == ("", 1)


@given(st.text(), st.integers(5, 40))
def test_a_shortened_name_keeps_both_ends(name: str, width: int) -> None:
    short = cut_middle(name, width)
    assert len(short) <= width
    if len(name) > width:
        assert short[0] == name[0]
        assert short[-1] == name[-1]
    else:
        assert short == name


def test_a_namespace_without_a_name_goes_first() -> None:
    name = (
        "(anonymous namespace)::scale_few_blocks(float const*, float*, unsigned long)"
    )
    assert cut_middle(name, 40).startswith("scale_few_blocks(")
    assert cut_middle(name, 80) == name


def test_the_stretched_column_gives_way_to_the_width() -> None:
    rows = [("a" * 90, "1.0 ms"), ("b", "22 ms")]
    lines = table_lines(
        ("name", "time"), rows, align=("<", ">"), width=60, cut_column=0
    )
    written = plain_text(lines).splitlines()
    assert max(len(one) for one in written) == 60
    assert [one[-6:] for one in written] == ["  time", "1.0 ms", " 22 ms"]


def test_lines_end_without_blanks_and_wrap_within_the_width() -> None:
    lines = wrap_text("word " * 40, 50, indent=4)
    assert all(len("".join(piece.text for piece in one)) <= 50 for one in lines)
    assert plain_text([line("a  ")]) == "a\n"


def test_what_is_small_does_not_read_as_nothing() -> None:
    assert (percent(0.04), percent(0.0), percent(12.34)) == (
        "<0.1 %",
        "0.0 %",
        "12.3 %",
    )


def test_a_range_names_its_unit_once() -> None:
    assert range_ms(1.5, 3.0) == "1.50 to 3.00 ms"
    assert range_ms(0.5, 3.0) == "500 µs to 3.00 ms"
    assert range_ms(2.0, 2.0) == "2.00 ms"
