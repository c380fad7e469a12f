"""Regular expressions of users, matched in time linear in the length of the text.

Python's own engine tries alternatives one after the other, so `(.*)*X` can block the
interpreter forever. The engine of polars has neither look-around nor backreferences,
and matches every pattern in linear time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.errors import BadUsage
from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.array_types import Bools

#: Maximum length of a pattern, and maximum product of its repetition counts. The time
#: of a match is linear in the length of the pattern with its repetitions written out.
_MAX_PATTERN_LENGTH: Final = 1000
_MAX_REPETITIONS: Final = 1000
_COUNTED: Final = Pattern(r"\{(\d{1,9})(?:,(\d{0,9}))?\}")


def check_pattern(pattern: str, what: str) -> None:
    """Refuse a pattern that is not a regular expression or is too expensive.

    Args:
        what: Name of the option with the pattern, for the message.

    Raises:
        BadUsage: The pattern is refused; the message gives the reason and a remedy.
    """
    shown = pattern if len(pattern) <= 80 else f"{pattern[:80]}…"
    if len(pattern) > _MAX_PATTERN_LENGTH:
        message = (
            f"{what}: {shown!r} has {len(pattern):,} characters, more than "
            f"{_MAX_PATTERN_LENGTH:,}. Give several shorter patterns, or part of a name"
        )
        raise BadUsage(message)
    # Upper bound of the repetitions: the product of all counts, as if all were nested.
    product = 1
    for low, high in _COUNTED.findall(pattern):
        product *= max(int(low), int(high or 0), 1)
        if product > _MAX_REPETITIONS:
            message = (
                f"{what}: the product of all counts {{…}} in {shown!r} is more than "
                f"{_MAX_REPETITIONS:,}. Use smaller counts, or * and +"
            )
            raise BadUsage(message)
    try:
        pl.Series([""]).str.contains(pattern)
    except pl.exceptions.ComputeError as error:
        # Keep the engine's error message without the lines that show the pattern.
        lines = [line.strip() for line in str(error).splitlines()]
        complaint = next(
            (line for line in lines if line.startswith("error: ")),
            lines[0].removeprefix("regex error: "),
        )
        reason = complaint.removeprefix("error: ").rstrip(".")
        message = (
            f"{what}: {shown!r} is not a valid regular expression: {reason}. Look-"
            "around, backreferences and \\Z are not supported. To match one of the "
            "characters . + * ? ( ) [ ] { } | ^ $ itself, put \\ before it"
        )
        raise BadUsage(message) from error


def match_whole_names(names: pl.Series, patterns: Sequence[str]) -> Bools:
    """Return for each name whether one of the checked patterns matches all of it."""
    matches = np.zeros(len(names), np.bool_)
    for pattern in patterns:
        # A pattern in verbose mode may end in a comment, which only a new line ends.
        end = "\n" if re.search(r"\(\?[a-zA-Z]*x", pattern) else ""
        matches |= match_name_parts(names, rf"(?s)\A(?:{pattern}{end})\z")
    return matches


def match_name_parts(names: pl.Series, pattern: str) -> Bools:
    """Return for each name whether a checked pattern matches a part of the name."""
    return names.str.contains(pattern).fill_null(value=False).to_numpy()
