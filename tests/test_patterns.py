"""Patterns are compiled on first use, and answer as `re` and polars would."""

from __future__ import annotations

import re

import polars as pl
import pytest

from stepscope.patterns import Pattern, ascii_only

TEXT = "conv_1, Conv_22 and pool"


def test_a_pattern_is_compiled_when_it_is_first_used() -> None:
    # It would be refused if it were compiled here.
    broken = Pattern("(")
    with pytest.raises(re.error):
        broken.search("")


@pytest.mark.parametrize("flags", [re.NOFLAG, re.IGNORECASE])
def test_each_method_answers_as_the_compiled_pattern_does(flags: re.RegexFlag) -> None:
    lazy, plain = Pattern(r"conv_(\d+)", flags), re.compile(r"conv_(\d+)", flags)
    assert str(lazy.search(TEXT)) == str(plain.search(TEXT))
    assert str(lazy.match(TEXT[8:])) == str(plain.match(TEXT[8:]))
    assert str(lazy.fullmatch("Conv_22")) == str(plain.fullmatch("Conv_22"))
    assert lazy.findall(TEXT) == plain.findall(TEXT)
    assert [str(it) for it in lazy.finditer(TEXT)] == [
        str(it) for it in plain.finditer(TEXT)
    ]
    assert lazy.sub("x", TEXT) == plain.sub("x", TEXT)


def test_bytes_are_searched_by_patterns_of_bytes() -> None:
    found = Pattern(rb"rank\D*(\d+)").search(b'"rank": 12')
    assert found is not None
    assert found.group(1) == b"12"


@pytest.mark.parametrize("pattern", [r"^\w+::\d$", r"\blogging\b", r"(?i)[\w.]\d\b"])
def test_names_match_as_with_the_classes_of_all_of_unicode(pattern: str) -> None:
    names = ["aten::1", "aten::x", "logging", "my_logging", "a logging.", "V8", "v.8x"]
    series = pl.Series(names)
    expected = [re.search(pattern, name) is not None for name in names]
    assert any(expected)
    assert not all(expected)
    assert series.str.contains(ascii_only(pattern)).to_list() == expected
