"""Field numbers of the profile message, shared by decoder and writer.

In a serialized message a tag precedes each value: the field number times eight, plus
the wire type (0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes). The compiled
functions in `_core` repeat the tags of lines, events and stats; a test compares both.

Definition: docs/formats/xplane.md#the-message.
"""

from __future__ import annotations

from typing import Final


def _varint_tag(number: int) -> int:
    return number << 3


def _sized_tag(number: int) -> int:
    return number << 3 | 2


#: Kind of a stat's value: the number of the XStat field that contains the value.
NO_VALUE: Final = 0
DOUBLE: Final = 2
UINT: Final = 3
INT: Final = 4
TEXT: Final = 5
BYTES: Final = 6
REF: Final = 7


class SpaceTag:
    """Tags of XSpace."""

    PLANE: Final = _sized_tag(1)
    ERROR: Final = _sized_tag(2)
    WARNING: Final = _sized_tag(3)
    HOSTNAME: Final = _sized_tag(4)


class PlaneTag:
    """Tags of XPlane."""

    ID: Final = _varint_tag(1)
    NAME: Final = _sized_tag(2)
    LINE: Final = _sized_tag(3)
    EVENT_METADATA: Final = _sized_tag(4)
    STAT_METADATA: Final = _sized_tag(5)
    STAT: Final = _sized_tag(6)


class Entry:
    """Tags of an entry of either metadata map of a plane."""

    KEY: Final = _varint_tag(1)
    VALUE: Final = _sized_tag(2)


class LineTag:
    """Tags of XLine."""

    ID: Final = _varint_tag(1)
    NAME: Final = _sized_tag(2)
    TIMESTAMP_NS: Final = _varint_tag(3)
    EVENT: Final = _sized_tag(4)
    DURATION_PS: Final = _varint_tag(9)
    DISPLAY_ID: Final = _varint_tag(10)
    DISPLAY_NAME: Final = _sized_tag(11)


class EventTag:
    """Tags of XEvent; an event has either a start offset or a number of occurrences."""

    METADATA_ID: Final = _varint_tag(1)
    OFFSET_PS: Final = _varint_tag(2)
    DURATION_PS: Final = _varint_tag(3)
    STAT: Final = _sized_tag(4)
    OCCURRENCES: Final = _varint_tag(5)


class StatTag:
    """Tags of XStat; a stat has at most one value."""

    METADATA_ID: Final = _varint_tag(1)
    DOUBLE: Final = DOUBLE << 3 | 1
    UINT: Final = _varint_tag(UINT)
    INT: Final = _varint_tag(INT)
    TEXT: Final = _sized_tag(TEXT)
    BYTES: Final = _sized_tag(BYTES)
    REF: Final = _varint_tag(REF)


class EventMetadata:
    """Tags of XEventMetadata."""

    ID: Final = _varint_tag(1)
    NAME: Final = _sized_tag(2)
    METADATA: Final = _sized_tag(3)
    DISPLAY_NAME: Final = _sized_tag(4)
    STAT: Final = _sized_tag(5)


class StatMetadata:
    """Tags of XStatMetadata."""

    ID: Final = _varint_tag(1)
    NAME: Final = _sized_tag(2)
