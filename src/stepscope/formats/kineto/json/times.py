"""Convert the microseconds of a trace to whole nanoseconds, with at most one rounding.

Times in a trace are whole microseconds, or microseconds with three decimals, as numbers
or as texts. For numbers below 2^43 a double is precise enough to keep the third
decimal. The decimals of larger numbers are read from the text.

Definition: docs/formats/kineto.md#time.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Int64s

#: Marks a time that is absent or not a valid number.
IMPOSSIBLE: Final = np.iinfo(np.int64).min

_NS_PER_US: Final = 1_000
#: Microseconds from which on doubles cannot represent the third decimal.
_EXACT_BELOW: Final = 2.0**43
#: Largest time, in microseconds, that fits 64 bits as nanoseconds.
_LAST_US: Final = (2**63 - 1) // _NS_PER_US - 1
#: Maximum length of a number as text; the length is checked before conversion.
_MAX_DIGITS: Final = 64

_POINT: Final = ord(".")
_COMMA: Final = ord(",")
_DECIMALS: Final = 3


class Microseconds(Frozen, frozen=True):
    """Decoded times of many events, in microseconds.

    Attributes:
        values: Numbers, texts, or None.
        numbers: The values as an array (int64 or float64), if all are numbers.
    """

    values: Sequence[float | str | None]
    numbers: NDArray[Any] | None

    @classmethod
    def of(cls, values: Sequence[float | str | None]) -> Microseconds:
        """Build the times, with an array if all values are numbers of one type."""
        kinds = set(map(type, values))
        try:
            if kinds <= {int}:
                return cls(values, np.fromiter(values, np.int64, len(values)))
            if kinds <= {int, float}:
                return cls(values, np.fromiter(values, np.float64, len(values)))
        except OverflowError:
            pass
        return cls(values, None)

    @property
    def whole(self) -> bool:
        """Whether all times are whole microseconds."""
        if self.numbers is not None:
            return self.numbers.dtype == np.int64
        return not any(
            type(us) is float or (type(us) is str and "." in us) for us in self.values
        )

    @property
    def rounded(self) -> bool:
        """Whether any time lost its decimals when it became a double."""
        numbers = self.numbers
        if numbers is None or numbers.dtype == np.int64 or not len(numbers):
            return False
        return bool(np.abs(numbers).max() >= _EXACT_BELOW)

    def to_nanoseconds(self) -> Int64s:
        """Convert to nanoseconds; a value that is not a number becomes `IMPOSSIBLE`."""
        if self.numbers is None:
            converted_values = (_nanoseconds_of_value(time) for time in self.values)
            return np.fromiter(converted_values, np.int64, len(self.values))
        if self.numbers.dtype == np.int64:
            is_far = (self.numbers > _LAST_US) | (self.numbers < -_LAST_US)
            if not is_far.any():
                return self.numbers * _NS_PER_US
            return np.where(
                is_far, IMPOSSIBLE, np.where(is_far, 0, self.numbers) * _NS_PER_US
            )
        possible = np.abs(self.numbers) < float(_LAST_US)
        sane = np.where(possible, self.numbers, 0.0)
        # Splitting off a double's fraction is exact; multiplying a double rounds.
        whole_us = np.floor(sane)
        fraction = np.rint((sane - whole_us) * _NS_PER_US).astype(np.int64)
        converted: Int64s = whole_us.astype(np.int64) * _NS_PER_US + fraction
        if possible.all():
            return converted
        return np.where(possible, converted, IMPOSSIBLE)


def nanoseconds_of_text(texts: Sequence[bytes | msgspec.Raw]) -> Int64s:
    """Convert numbers of microseconds, given as JSON text, to nanoseconds."""
    joined = b",".join(texts)
    if _have_three_decimals(joined, len(texts)):
        # Without its point, a number with three decimals is in nanoseconds; but a
        # number below 1 would start with 0, which JSON does not allow.
        listed = b"[" + joined.replace(b".", b"") + b"]"
        try:
            numbers = msgspec.json.decode(listed, type=list[int])
            return np.fromiter(numbers, np.int64, len(numbers))
        except (OverflowError, msgspec.DecodeError):
            pass
    ns = (_nanoseconds_of_value(bytes(us).decode("latin-1").strip('"')) for us in texts)
    return np.fromiter(ns, np.int64, len(texts))


def _have_three_decimals(text: bytes, count: int) -> bool:
    """Return whether all numbers have exactly three decimals and no exponent."""
    if text.count(b".") != count or any(mark in text for mark in (b"e", b"E", b'"')):
        return False
    characters = np.frombuffer(text, np.uint8)
    points = np.flatnonzero(characters == _POINT)
    ends = np.append(np.flatnonzero(characters == _COMMA), len(characters))
    return len(ends) == count and bool((ends - points == _DECIMALS + 1).all())


def _nanoseconds_of_value(value: float | str | None) -> int:
    if value is None or (isinstance(value, str) and len(value) > _MAX_DIGITS):
        return IMPOSSIBLE
    try:
        number = Decimal(value)
        if not number.is_finite() or abs(number) > _LAST_US:
            return IMPOSSIBLE
        return int((number * _NS_PER_US).to_integral_value())
    except InvalidOperation:
        return IMPOSSIBLE
