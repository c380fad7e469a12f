"""Numbers as Nsight Compute writes them: with separators, in the form of a locale.

`12,345` is twelve thousand in most locales and twelve point three in others. Other
numbers of the same file decide: `1,234,567` and `0.52` can be read in one way only.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

DECIMAL_POINT: Final = "."
DECIMAL_COMMA: Final = ","
_NUMBER: Final = re.compile(r"([+-]?)([\d.,]*\d[\d.,]*)([eE][+-]?\d{1,3})?\Z")
#: Blanks, thin blanks and apostrophes that separate thousands.
_SEPARATORS: Final = str.maketrans("", "", " \t\u00a0\u2009\u202f'\u2019_")
_GROUP: Final = 3
_GROUPS: Final = (2, 3)


class NumberForms:
    """Reads the numbers of one file.

    Attributes:
        decimal: Mark before the fraction where a number does not show it itself.
        mixed: Whether some numbers show one mark and some the other.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        shown = [_decimal_of(text) for text in texts]
        commas, points = shown.count(DECIMAL_COMMA), shown.count(DECIMAL_POINT)
        self.decimal = DECIMAL_COMMA if commas > points else DECIMAL_POINT
        self.mixed = bool(commas and points)

    def number(self, text: str) -> float | None:
        """Return the finite number that a text is; None where it is none."""
        found = _NUMBER.match(text.translate(_SEPARATORS))
        if found is None:
            return None
        decimal = _decimal_of(text) or self.decimal
        other = DECIMAL_POINT if decimal == DECIMAL_COMMA else DECIMAL_COMMA
        whole, _, fraction = found[2].partition(decimal)
        first, *groups = whole.split(other)
        # India separates pairs of digits before the last group of three.
        if not fraction.isdigit() and fraction:
            return None
        if any(len(group) not in _GROUPS for group in groups):
            return None
        value = float(f"{found[1]}{first}{''.join(groups)}.{fraction}0{found[3] or ''}")
        return value if math.isfinite(value) else None


def _decimal_of(text: str) -> str | None:
    """Return the decimal mark that a number shows beyond doubt; None for no such."""
    commas, points = text.count(","), text.count(".")
    if not commas and not points:
        return None
    found = _NUMBER.match(text.translate(_SEPARATORS))
    if found is None:
        return None
    digits = found[2]
    if commas and points:
        last = max(",.", key=digits.rfind)
        return last if digits.count(last) == 1 else None
    mark = "," if commas else "."
    other = "." if commas else ","
    if commas + points > 1:
        return other
    whole, _, fraction = digits.partition(mark)
    # Thousands have one to three digits before their first group of three.
    grouped = len(fraction) == _GROUP and 0 < len(whole) <= _GROUP and whole[0] != "0"
    return None if grouped else mark
