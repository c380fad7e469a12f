"""Reading JSON that breaks the rules: as much of it as makes sense.

Producers write `NaN`, a comma too many, bytes that are no UTF-8; disks fill up in the
middle of an event. The strict decoder refuses all that. What it refuses is read here,
one value at a time.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec

#: What the strict decoder raises on input that may still be readable.
LENIENT_ERRORS: Final = (
    msgspec.MsgspecError,
    UnicodeDecodeError,
    RecursionError,
    OverflowError,
)
#: And what the lenient one does.
_ERRORS: Final = (ValueError, RecursionError)
#: Containers within one another; recorded arguments have three. Deeper ones could be
#: read, and not be written again.
_DEEPEST: Final = 64

_EXTRA_COMMA: Final = re.compile(r",(?=\s*[}\]])")


def _no_number(_: str) -> None:
    """Read `NaN` and the infinities as unknown."""


def _decimal(text: str) -> Decimal | None:
    """Read a number with all its digits; one whose exponent is absurd as unknown."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


# Decimals keep every digit; control characters inside texts are let through.
_DECODER: Final = json.JSONDecoder(
    parse_float=_decimal,
    parse_constant=_no_number,
    strict=False,
)
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


def value_end(text: str, at: int) -> int | None:
    """Return the place after the value that begins at a place; None if it is broken."""
    try:
        return _DECODER.raw_decode(text, at)[1]
    except _ERRORS:
        return None


def json_value(data: bytes) -> Any:
    """Return a value from its bytes; None where they make no sense.

    Bytes that are no UTF-8 are replaced, a comma before a closing bracket is left
    out, and what is no number becomes None.
    """
    text = data.decode("utf-8", "replace")
    for candidate in (text, _EXTRA_COMMA.sub("", text)):
        try:
            value = _DECODER.decode(candidate)
        except _ERRORS:
            continue
        return None if _is_too_deep(value) else _without_surrogates(value, candidate)
    return None


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def _without_surrogates(value: Any, source: str) -> Any:
    """Return the value with every half of a pair that lacks the other half replaced."""
    if "\\ud" not in source and "\\uD" not in source:
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_without_surrogates(it, source) for it in value]
    if isinstance(value, dict):
        return {
            _without_surrogates(key, source): _without_surrogates(it, source)
            for key, it in value.items()
        }
    return value


def encoded(value: object) -> bytes:
    """Return a leniently read value as JSON that the strict decoder accepts."""
    return _ENCODER.encode(value)
