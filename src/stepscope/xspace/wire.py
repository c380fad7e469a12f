"""Fields of small serialized protobuf messages, with every length checked.

As in the compiled functions (`_core/_fields.py`), a message is malformed if it has a
number of more than ten bytes, a length beyond the message, field number 0, a field
number of more than 29 bits, a group or an undefined wire type. Bits beyond the 64th are
dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH: Final = 2
_FIXED32: Final = 5
#: Maximum number of bytes of a number.
_MOST_BYTES: Final = 10
#: Field numbers are below this value.
_FIELDS: Final = 2**29
#: Largest number that is encoded in one byte.
_LAST_OF_ONE_BYTE: Final = 0x7F


class MalformedMessage(Exception):
    """A message violates the wire format."""


def read_varint(message: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it.

    Raises:
        MalformedMessage: The number is truncated or too long.
    """
    value = shift = 0
    end = min(len(message), at + _MOST_BYTES)
    while at < end:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte <= _LAST_OF_ONE_BYTE:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
    raise MalformedMessage


def read_fields(message: bytes | memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield each field's number and value: a number, or the bytes of a sized field.

    Fields of fixed width are skipped.

    Raises:
        MalformedMessage: The message violates the wire format.
    """
    view = memoryview(message)
    at, end = 0, len(view)
    while at < end:
        # Nearly all tags and lengths have one byte and are read without a call.
        tag = view[at]
        at += 1
        if tag > _LAST_OF_ONE_BYTE:
            tag, at = read_varint(view, at - 1)
        field, wire = tag >> 3, tag & 7
        if not 0 < field < _FIELDS:
            raise MalformedMessage
        if wire == _VARINT:
            value, at = read_varint(view, at)
            yield field, value
        elif wire == _LENGTH:
            if at < end and view[at] <= _LAST_OF_ONE_BYTE:
                length = view[at]
                at += 1
            else:
                length, at = read_varint(view, at)
            if length > end - at:
                raise MalformedMessage
            yield field, view[at : at + length]
            at += length
        elif wire in (_FIXED64, _FIXED32):
            at += 8 if wire == _FIXED64 else 4
            if at > end:
                raise MalformedMessage
        else:
            raise MalformedMessage


def number_fields(message: bytes | memoryview) -> dict[int, int]:
    """Return the fields that are numbers; the last value of a field wins."""
    return {
        field: value for field, value in read_fields(message) if isinstance(value, int)
    }


def packed_numbers(value: int | memoryview) -> list[int]:
    """Return the numbers of a repeated field, which may be packed or not."""
    if isinstance(value, int):
        return [value]
    numbers = []
    at = 0
    while at < len(value):
        number, at = read_varint(value, at)
        numbers.append(number)
    return numbers


def field_text(value: int | memoryview) -> str:
    """Return the text of a sized field, with invalid UTF-8 replaced."""
    return "" if isinstance(value, int) else bytes(value).decode("utf-8", "replace")
