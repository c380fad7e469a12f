"""Columns of a decoded profile message: arrays with one row per line, event or stat.

Strings are handles into `XSpace.strings`, or places (offset and length) in the bytes of
the file, which stays mapped. Treat all arrays as read-only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s

#: Name, kind (`xspace.fields`) and value of a stat; a missing value is None.
PlaneStat = tuple[str, int, float | int | str | bytes | None]


class Damage(Frozen, frozen=True, eq=True):
    """A range of bytes that could not be read.

    Attributes:
        offset: First byte that was not used.
        what: Description of what is cut off or malformed.
        lost_bytes: Number of bytes until reading continued; for a truncated file, until
            the end that its length fields state.
    """

    offset: int
    what: str
    lost_bytes: int


class Plane(Frozen, frozen=True, eq=True):
    """A group of lines: the host's threads, or one device.

    Attributes:
        id: Ordinal as recorded; several planes may share an id.
        name: Name of the plane; "" if missing. Several planes may share a name.
        line_begin: First row of the plane in `Lines`.
        line_end: One past the last row of the plane in `Lines`.
        stats: Plane-wide properties in file order; a name may repeat.
    """

    id: int
    name: str
    line_begin: int
    line_end: int
    stats: tuple[PlaneStat, ...]


class Lines(Frozen, frozen=True, eq=True):
    """One row per line, in file order.

    Attributes:
        plane: Row of `planes`, int32.
        id: Id of a thread, a stream or a derived line, int64.
        display_id: Id for display, int64; 0 if `id` is displayed.
        name: Handle of the name, int32.
        display_name: Handle of the name for display, int32; -1 if it is `name`.
        timestamp_ns: Base time of the line as recorded, int64.
        duration_ps: Duration of the line, int64; 0 if not recorded.
        event_begin: First row of the line in `events`, int64.
        event_end: One past the last row of the line in `events`, int64.
    """

    plane: Int32s
    id: Int64s
    display_id: Int64s
    name: Int32s
    display_name: Int32s
    timestamp_ns: Int64s
    duration_ps: Int64s
    event_begin: Int64s
    event_end: Int64s

    def __len__(self) -> int:
        return len(self.id)


class Events(Frozen, frozen=True, eq=True):
    """One row per event: line after line, each in file order.

    Attributes:
        type: Row of `event_types`, int32.
        offset_ps: Start relative to the line's timestamp, as recorded, int64.
        dur_ps: Duration as recorded, int64; an error of the file if negative.
        aggregated: Ascending rows of events that have a number of occurrences instead
            of a start, int64.
        occurrences: Number of occurrences of each row in `aggregated`, int64.
    """

    type: Int32s
    offset_ps: Int64s
    dur_ps: Int64s
    aggregated: Int64s
    occurrences: Int64s

    def __len__(self) -> int:
        return len(self.type)


class Stats(Frozen, frozen=True, eq=True):
    """One row per value of an event, by event, then in file order.

    Attributes:
        event: Row of `events`, int32, ascending.
        key: Handle of the value's name, int32.
        kind: Field of XStat that has the value (`xspace.fields`), uint8; 0 for none.
        value: 64 bits, int64: a double, an unsigned or a signed number; the offset of a
            text or bytes in the data; or the handle of a reference, -1 if the file
            lacks the referenced name.
        length: Length of a text or bytes, int32; 0 for other kinds of values.
    """

    event: Int32s
    key: Int32s
    kind: UInt8s
    value: Int64s
    length: Int32s

    def __len__(self) -> int:
        return len(self.event)


class TypeStats(Frozen, frozen=True, eq=True):
    """One row per value shared by all events of a type, with columns as in `Stats`."""

    type: Int32s
    key: Int32s
    kind: UInt8s
    value: Int64s
    length: Int32s

    def __len__(self) -> int:
        return len(self.type)


class EventTypes(Frozen, frozen=True, eq=True):
    """One row per event metadata entry, plane by plane, then one per unknown id.

    Attributes:
        plane: Row of `planes`, int32.
        id: Key of the entry in its plane, int64 with the 64 bits as recorded.
        name: Handle of the name, int32.
        display_name: Handle of the name for display, int32; -1 if it is `name`.
        metadata_place: Offset of the entry's metadata bytes in the data, int64.
        metadata_length: Length of the entry's metadata bytes, int32; 0 for none.
        unknown: True if events use this id but the plane's map lacks it, bool; the name
            is then `(unknown event <id>)`.
    """

    plane: Int32s
    id: Int64s
    name: Int32s
    display_name: Int32s
    metadata_place: Int64s
    metadata_length: Int32s
    unknown: Bools

    def __len__(self) -> int:
        return len(self.id)


class XSpace(Frozen, frozen=True, eq=True):
    """A decoded profile message.

    Attributes:
        data: Bytes of the message (uint8, read-only): the mapped file, or the content
            of a compressed file. Places are offsets into this array.
        planes: Planes in file order, not merged by name.
        lines: Lines of all planes.
        events: Events of all lines.
        stats: Values of all events.
        event_types: Event metadata of all planes.
        type_stats: Values shared by all events of a type.
        strings: Texts by handle; 0 is "". Invalid UTF-8 is replaced.
        errors: Errors that the producer reported.
        warnings: Warnings that the producer reported.
        hostnames: Names of the hosts; normally one.
        damage: Bytes that could not be read; empty for a whole file.
    """

    data: UInt8s
    planes: tuple[Plane, ...]
    lines: Lines
    events: Events
    stats: Stats
    event_types: EventTypes
    type_stats: TypeStats
    strings: list[str]
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    hostnames: tuple[str, ...]
    damage: tuple[Damage, ...]

    def text(self, place: int, length: int) -> str:
        """Return the text at a place in the data, with invalid UTF-8 replaced."""
        return bytes(self.data[place : place + length]).decode("utf-8", "replace")
