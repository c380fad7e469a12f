"""Times as people write them: exact, with a unit, or one clear line."""

from __future__ import annotations

import pytest

from stepscope.cli.explain import time_ps
from stepscope.errors import BadUsage


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.2345s", 1_234_500_000_000),
        ("12ms", 12_000_000_000),
        ("12 ms", 12_000_000_000),
        ("1,234.5 ms", 1_234_500_000_000),
        ("850us", 850_000_000),
        ("850µs", 850_000_000),
        ("850μs", 850_000_000),
        ("7ns", 7_000),
        ("3ps", 3),
        (".5ms", 500_000_000),
        ("0s", 0),
        (" 2s ", 2_000_000_000_000),
        # No float has so many digits.
        ("9007199254.740993s", 9_007_199_254_740_993_000_000),
    ],
)
def test_a_number_with_a_unit_is_exact(text: str, expected: int) -> None:
    assert time_ps("--at", text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("12", "has no unit"),
        ("", "is not a time"),
        ("ms", "is not a time"),
        ("-5ms", "is not a time"),
        ("nan s", "is not a time"),
        ("1e3ms", "there is no unit 'e3ms'"),
        ("12parsecs", "there is no unit 'parsecs'; known: s, ms, us"),
        ("12 ms later", "there is no unit 'ms later'"),
        ("1,23ms", "there is no unit ',23ms'"),
        ("1.2.3s", "there is no unit '.3s'"),
    ],
)
def test_anything_else_is_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(BadUsage) as refused:
        time_ps("--at", text)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "--at" in str(refused.value)
