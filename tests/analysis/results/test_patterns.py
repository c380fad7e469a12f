"""Patterns that users give: what matches, what is refused, and how long it takes."""

from __future__ import annotations

import time

import polars as pl
import pytest

from stepscope.analysis.results.patterns import (
    check_pattern,
    match_name_parts,
    match_whole_names,
)
from stepscope.errors import BadUsage

NAMES = pl.Series(["dense", "dense_1", "a\nb", "", None], dtype=pl.String)


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        (".*", [True, True, True, True, False]),
        ("dense", [True, False, False, False, False]),
        ("dense|a.b", [True, False, True, False, False]),
        ("(?x) dense # as it is", [True, False, False, False, False]),
        (r"\w+_\d", [False, True, False, False, False]),
    ],
)
def test_a_pattern_matches_a_whole_name(pattern: str, matching: list[bool]) -> None:
    check_pattern(pattern, "names")
    assert match_whole_names(NAMES, [pattern]).tolist() == matching


def test_one_of_several_patterns_is_enough_and_none_match_nothing() -> None:
    assert match_whole_names(NAMES, ["dense", ""]).tolist() == [
        True,
        False,
        False,
        True,
        False,
    ]
    assert not match_whole_names(NAMES, []).any()


def test_a_part_of_a_name_can_be_looked_for() -> None:
    assert match_name_parts(NAMES, "se$").tolist() == [True, False, False, False, False]


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("(", "unclosed group"),
        # It would close the group around it.
        ("a)|(b", "unopened group"),
        ("(?=a)", "look-around"),
        (r"(a)\1", "backreferences are not supported"),
        ("(a{100}){100}", "counts"),
        (r"\w{990}", "size limit"),
        ("a" * 1001, "1,001 characters"),
    ],
)
def test_what_the_engine_does_not_have_is_one_line_with_the_way_out(
    pattern: str, told: str
) -> None:
    with pytest.raises(BadUsage, match="names: ") as refused:
        check_pattern(pattern, "names")
    message = str(refused.value)
    assert told in message
    assert "\n" not in message
    assert len(message) < 500


@pytest.mark.parametrize("pattern", ["(.*)*X", "(a|a?)+X", "(a*)*b", "(.?){1000}X"])
def test_no_pattern_takes_more_than_linear_time(pattern: str) -> None:
    check_pattern(pattern, "names")
    long = pl.Series(["a" * 10_000])
    begun = time.monotonic()
    assert not match_whole_names(long, [pattern]).any()
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(
    ("pattern", "refused"),
    [
        ("a" * 1000, False),
        ("a" * 1001, True),
        ("a{1000}", False),
        ("a{1001}", True),
        ("a{0,1000}", False),
        ("a{2,1001}", True),
        ("(a{40}){25}", False),
        ("(a{40}){26}", True),
        ("a{0}b{0,0}", False),
        ("a{7,}b{143}", True),
    ],
)
def test_long_patterns_and_many_repetitions_are_refused(
    pattern: str, *, refused: bool
) -> None:
    if refused:
        with pytest.raises(BadUsage, match=r"more than 1,000"):
            check_pattern(pattern, "names")
    else:
        check_pattern(pattern, "names")


def test_of_a_refused_pattern_the_first_eighty_characters_are_shown() -> None:
    for length in (80, 81):
        pattern = "(" + "a" * (length - 1)
        with pytest.raises(BadUsage) as caught:
            check_pattern(pattern, "names")
        shown = pattern if length == 80 else pattern[:80] + "…"
        assert repr(shown) in str(caught.value)
