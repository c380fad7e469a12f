"""What a decoded profile message looks like: arrays, one row per line, event, stat.

Strings are handles into `XSpace.strings`, or places (an offset and a length) in the
bytes of the file, which stay mapped. All arrays are to be treated as read-only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s

#: Name, kind (`xspace.fields`) and value; None where the file holds none.
PlaneStat = tuple[str, int, float | int | str | bytes | None]


class Damage(Frozen, frozen=True, eq=True):
    """Bytes that could not be read.

    Attributes:
        offset: The first byte that was not used.
        what: What ended or broke there.
        lost_bytes: From there to where reading went on; for a file that was cut, to
            where it should have ended, as far as its own lengths say.
    """

    offset: int
    what: str
    lost_bytes: int


class Plane(Frozen, frozen=True, eq=True):
    """A group of lines: the host's threads, or one device.

    Attributes:
        id: Ordinal as recorded; ids repeat.
        name: "" where there is none. Several planes may share a name.
        line_begin: First of its rows in `Lines`.
        line_end: One past the last of its rows in `Lines`.
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
        id: Thread, stream or derived id, int64.
        display_id: int64; 0 means the id.
        name: Handle, int32.
        display_name: Handle, int32; -1 means the name.
        timestamp_ns: Base time of the line as recorded, int64.
        duration_ps: Optional span of the line, int64; 0 where not recorded.
        event_begin: First of its rows in `events`, int64.
        event_end: One past the last of its rows in `events`, int64.
        stat_begin: First of its rows in `stats`, int64.
        stat_end: One past the last of its rows in `stats`, int64.
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
    stat_begin: Int64s
    stat_end: Int64s

    def __len__(self) -> int:
        return len(self.id)


class Events(Frozen, frozen=True, eq=True):
    """One row per event: the lines one after the other, each in file order.

    Attributes:
        type: Row of `event_types`, int32.
        offset_ps: Start relative to the line's timestamp, as recorded, int64.
        dur_ps: Duration as recorded, int64; a negative one is an error of the file.
        aggregated: Ascending rows of the events that carry a number of occurrences
            instead of a start, int64.
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
        kind: Which field of XStat holds the value (`xspace.fields`), uint8; 0: none.
        value: 64 bits, int64: of a double, an unsigned or a signed number; the offset
            of a text or bytes in the data; the handle of a reference, -1 where it
            refers to a name that the file does not hold.
        length: Length of a text or bytes, int32; else 0.
    """

    event: Int32s
    key: Int32s
    kind: UInt8s
    value: Int64s
    length: Int32s

    def __len__(self) -> int:
        return len(self.event)


class TypeStats(Frozen, frozen=True, eq=True):
    """One row per value shared by all events of a type: as `Stats`, by row of types."""

    type: Int32s
    key: Int32s
    kind: UInt8s
    value: Int64s
    length: Int32s

    def __len__(self) -> int:
        return len(self.type)


class EventTypes(Frozen, frozen=True, eq=True):
    """One row per event metadata entry, plane by plane, then the unknown ones.

    Attributes:
        plane: Row of `planes`, int32.
        id: Key of the entry in its plane, int64 (the 64 bits as recorded).
        name: Handle, int32.
        display_name: Handle, int32; -1 means the name.
        metadata_place: Offset of the entry's bytes in the data, int64.
        metadata_length: Length of the entry's bytes, int32; 0 where there are none.
        unknown: True for an id that events use and the plane's map lacks, named
            `(unknown event <id>)`, bool.
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
        data: The message's bytes (uint8, read-only): the mapped file, or what a
            compressed file holds. Places are offsets into it.
        planes: In file order, not merged by name.
        lines: All planes' lines.
        events: All lines' events.
        stats: All events' values.
        event_types: All planes' event metadata.
        type_stats: Values shared by all events of a type.
        strings: Handle → text; 0 is "". What is not UTF-8 is replaced.
        errors: Errors that the producer reported.
        warnings: Warnings that the producer reported.
        hostnames: Names of the hosts; normally one.
        damage: What could not be read; empty for a whole file.
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
        """Return the text at a place in the data; what is not UTF-8 is replaced."""
        return bytes(self.data[place : place + length]).decode("utf-8", "replace")
