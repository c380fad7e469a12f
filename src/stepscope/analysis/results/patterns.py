"""Regular expressions that users give, matched in a time linear in the text.

Python's own engine tries alternatives one after the other: `(.*)*X` keeps it busy for
ever, and the interpreter with it. The engine that polars uses has no look-around and no
references back, and so no such pattern.
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

#: The time is also linear in the pattern, counted repetitions written out.
_LONGEST: Final = 1000
_MOST_REPEATED: Final = 1000
_COUNTED: Final = Pattern(r"\{(\d{1,9})(?:,(\d{0,9}))?\}")


def check_pattern(pattern: str, what: str) -> None:
    """Refuse what is no regular expression, or costs too much.

    Args:
        what: Where it was given.

    Raises:
        BadUsage: It says what is wrong with it, and the way out.
    """
    shown = pattern if len(pattern) <= 80 else f"{pattern[:80]}…"
    if len(pattern) > _LONGEST:
        message = (
            f"{what}: {shown!r} has {len(pattern):,} characters, more than "
            f"{_LONGEST:,}. Give several shorter ones, or a part of the name"
        )
        raise BadUsage(message)
    # All counts of a pattern multiplied, as if each were inside the others.
    product = 1
    for least, most in _COUNTED.findall(pattern):
        product *= max(int(least), int(most or 0), 1)
        if product > _MOST_REPEATED:
            break
    if product > _MOST_REPEATED:
        message = (
            f"{what}: {shown!r} repeats more than {_MOST_REPEATED:,} times, its counts "
            "{…} multiplied. Use smaller counts, or * and +"
        )
        raise BadUsage(message)
    try:
        pl.Series([""]).str.contains(pattern)
    except pl.exceptions.ComputeError as error:
        # What the engine says, without the picture that it draws.
        lines = [line.strip() for line in str(error).splitlines()]
        said = next(
            (line for line in lines if line.startswith("error: ")),
            lines[0].removeprefix("regex error: "),
        )
        reason = said.removeprefix("error: ").rstrip(".")
        message = (
            f"{what}: {shown!r} is no regular expression here: {reason}. Look-"
            "around, references back and \\Z are not known; to look for the characters "
            "themselves put \\ before each of . + * ? ( ) [ ] { } | ^ $"
        )
        raise BadUsage(message) from error


def match_whole_names(names: pl.Series, patterns: Sequence[str]) -> Bools:
    """Return by name whether one of the checked patterns matches all of it."""
    found = np.zeros(len(names), np.bool_)
    for pattern in patterns:
        # A comment of a pattern in the verbose mode ends with its line.
        end = "\n" if re.search(r"\(\?[a-zA-Z]*x", pattern) else ""
        found |= _match_names(names, rf"(?s)\A(?:{pattern}{end})\z")
    return found


def match_name_parts(names: pl.Series, pattern: str) -> Bools:
    """Return by name whether a checked pattern matches a part of it."""
    return _match_names(names, pattern)


def _match_names(names: pl.Series, pattern: str) -> Bools:
    return names.str.contains(pattern).fill_null(value=False).to_numpy()
