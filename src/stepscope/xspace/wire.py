"""Fields of small serialized protobuf messages, with every length checked.

`_core/_fields.py` has the same rules. A message is malformed if it has a number of more
than ten bytes, a length beyond the message, a field number of 0 or more than 29 bits, a
group or an undefined wire type. Bits beyond the 64th are dropped.
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
_MAX_VARINT_BYTES: Final = 10
#: Field numbers are below this value.
_FIELD_NUMBERS_END: Final = 2**29
#: Largest number that is encoded in one byte.
_MAX_ONE_BYTE_NUMBER: Final = 0x7F


class MalformedMessage(Exception):
    """A message violates the wire format."""


def read_varint(message: bytes | memoryview, offset: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it.

    Raises:
        MalformedMessage: The number is truncated or too long.
    """
    value = shift = 0
    end = min(len(message), offset + _MAX_VARINT_BYTES)
    while offset < end:
        byte = message[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte <= _MAX_ONE_BYTE_NUMBER:
            return value & 0xFFFF_FFFF_FFFF_FFFF, offset
        shift += 7
    raise MalformedMessage


def read_fields(message: bytes | memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield each field's number and value: a number, or the bytes of a sized field.

    Fields of fixed width are skipped.

    Raises:
        MalformedMessage: The message violates the wire format.
    """
    view = memoryview(message)
    offset, end = 0, len(view)
    while offset < end:
        # Nearly all tags and lengths have one byte and are read without a call.
        tag = view[offset]
        offset += 1
        if tag > _MAX_ONE_BYTE_NUMBER:
            tag, offset = read_varint(view, offset - 1)
        field, wire = tag >> 3, tag & 7
        if not 0 < field < _FIELD_NUMBERS_END:
            raise MalformedMessage
        if wire == _VARINT:
            value, offset = read_varint(view, offset)
            yield field, value
        elif wire == _LENGTH:
            if offset < end and view[offset] <= _MAX_ONE_BYTE_NUMBER:
                length = view[offset]
                offset += 1
            else:
                length, offset = read_varint(view, offset)
            if length > end - offset:
                raise MalformedMessage
            yield field, view[offset : offset + length]
            offset += length
        elif wire in (_FIXED64, _FIXED32):
            offset += 8 if wire == _FIXED64 else 4
            if offset > end:
                raise MalformedMessage
        else:
            raise MalformedMessage


def number_fields(message: bytes | memoryview) -> dict[int, int]:
    """Return the fields that are numbers; of a repeated field, the last value."""
    return {
        field: value for field, value in read_fields(message) if isinstance(value, int)
    }


def packed_numbers(value: int | memoryview) -> list[int]:
    """Return the numbers of a repeated field, which may be packed or not."""
    if isinstance(value, int):
        return [value]
    numbers = []
    offset = 0
    while offset < len(value):
        number, offset = read_varint(value, offset)
        numbers.append(number)
    return numbers


def field_text(value: int | memoryview) -> str:
    """Return the text of a sized field, with invalid UTF-8 replaced."""
    return "" if isinstance(value, int) else bytes(value).decode("utf-8", "replace")
