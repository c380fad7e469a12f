"""Fields of a serialized protobuf message, every length checked, for small messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH: Final = 2
_FIXED32: Final = 5
#: Largest number that is written in one byte.
_LAST_OF_ONE_BYTE: Final = 0x7F


class MalformedMessage(Exception):
    """A length or a number runs beyond its message."""


def fields_of(message: bytes | memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield each field's number and value: a number, or the bytes of a sized field.

    Fields of fixed width are passed over.

    Raises:
        MalformedMessage: A length or a number runs beyond the message.
    """
    view = memoryview(message)
    at, end = 0, len(view)
    while at < end:
        # Nearly all tags and lengths have one byte, which needs no call.
        tag = view[at]
        at += 1
        if tag > _LAST_OF_ONE_BYTE:
            tag, at = _varint(view, at - 1)
        wire = tag & 7
        if wire == _VARINT:
            value, at = _varint(view, at)
            yield tag >> 3, value
        elif wire == _LENGTH:
            if at < end and view[at] <= _LAST_OF_ONE_BYTE:
                length = view[at]
                at += 1
            else:
                length, at = _varint(view, at)
            if length > end - at:
                raise MalformedMessage
            yield tag >> 3, view[at : at + length]
            at += length
        elif wire in (_FIXED64, _FIXED32):
            at += 8 if wire == _FIXED64 else 4
            if at > end:
                raise MalformedMessage
        else:
            raise MalformedMessage


def numbers_of(message: bytes | memoryview) -> dict[int, int]:
    """Return the fields that are numbers; the last value of a field wins."""
    return {
        field: value for field, value in fields_of(message) if isinstance(value, int)
    }


def packed(value: int | memoryview) -> list[int]:
    """Return the numbers of a repeated field, which is written packed or one by one."""
    if isinstance(value, int):
        return [value]
    numbers = []
    at = 0
    while at < len(value):
        number, at = _varint(value, at)
        numbers.append(number)
    return numbers


def text_of(value: int | memoryview) -> str:
    """Return the text of a sized field; what is not UTF-8 is replaced."""
    return "" if isinstance(value, int) else bytes(value).decode("utf-8", "replace")


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    end = len(view)
    value = shift = 0
    while at < end and shift < 70:
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
    raise MalformedMessage
