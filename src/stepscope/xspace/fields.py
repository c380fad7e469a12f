"""Field numbers of the profile message, once for decoder and writer.

A tag comes before each value on the wire: the field number times eight, plus the
wire type (0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes). The kernels in
`_core` repeat the tags of lines, events and stats as literals: a test compares them.

Definition: docs/formats/xplane.md#the-message.
"""

from __future__ import annotations

from typing import Final


def _varint(number: int) -> int:
    return number << 3


def _sized(number: int) -> int:
    return number << 3 | 2


#: Kinds of a stat's value: the XStat field number that holds it.
NO_VALUE: Final = 0
DOUBLE: Final = 2
UINT: Final = 3
INT: Final = 4
TEXT: Final = 5
BYTES: Final = 6
REF: Final = 7


class SpaceTag:
    """XSpace."""

    PLANE: Final = _sized(1)
    ERROR: Final = _sized(2)
    WARNING: Final = _sized(3)
    HOSTNAME: Final = _sized(4)


class PlaneTag:
    """XPlane."""

    ID: Final = _varint(1)
    NAME: Final = _sized(2)
    LINE: Final = _sized(3)
    EVENT_METADATA: Final = _sized(4)
    STAT_METADATA: Final = _sized(5)
    STAT: Final = _sized(6)


class Entry:
    """An entry of a map: both metadata maps of a plane."""

    KEY: Final = _varint(1)
    VALUE: Final = _sized(2)


class LineTag:
    """XLine."""

    ID: Final = _varint(1)
    NAME: Final = _sized(2)
    TIMESTAMP_NS: Final = _varint(3)
    EVENT: Final = _sized(4)
    DURATION_PS: Final = _varint(9)
    DISPLAY_ID: Final = _varint(10)
    DISPLAY_NAME: Final = _sized(11)


class EventTag:
    """XEvent; offset and occurrences exclude each other."""

    METADATA_ID: Final = _varint(1)
    OFFSET_PS: Final = _varint(2)
    DURATION_PS: Final = _varint(3)
    STAT: Final = _sized(4)
    OCCURRENCES: Final = _varint(5)


class StatTag:
    """XStat; the values exclude each other."""

    METADATA_ID: Final = _varint(1)
    DOUBLE: Final = DOUBLE << 3 | 1
    UINT: Final = _varint(UINT)
    INT: Final = _varint(INT)
    TEXT: Final = _sized(TEXT)
    BYTES: Final = _sized(BYTES)
    REF: Final = _varint(REF)


class EventMetadata:
    """XEventMetadata."""

    ID: Final = _varint(1)
    NAME: Final = _sized(2)
    METADATA: Final = _sized(3)
    DISPLAY_NAME: Final = _sized(4)
    STAT: Final = _sized(5)


class StatMetadata:
    """XStatMetadata."""

    ID: Final = _varint(1)
    NAME: Final = _sized(2)
