"""Columns of a decoded profile message: arrays with one row per line, event or stat.

Strings are handles into `XSpace.strings`, or places (offset and length) in the bytes of
the file, which stays mapped. Treat all arrays as read-only. A pivot arranges stats as
dense columns; byte strings of the file become small numbers.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from stepscope._core import pivot as kernels
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

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
        stats: Values of all events.
        type_stats: Values shared by all events of a type.
        strings: Texts by handle; 0 is "". Invalid UTF-8 is replaced.
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


class Pivot(Frozen, frozen=True, eq=True):
    """One row per wanted key, one column per event of the range.

    Attributes:
        value: As in `xspace.Stats`, int64; 0 if the event has no stat of this key.
        kind: As in `xspace.Stats`, uint8; 0 if the event has no stat of this key.
        length: As in `xspace.Stats`, int32.
    """

    value: Int64s
    kind: UInt8s
    length: Int32s


def pivot_range(
    stats: Stats,
    keys: Sequence[int | Sequence[int]],
    *,
    event_begin: int,
    event_end: int,
) -> Pivot:
    """Arrange the wanted keys of the events [event_begin, event_end) in columns.

    Args:
        stats: Stats, sorted by event.
        keys: One handle, or several handles with the same meaning, per row of the
            result. A negative handle is a name that the file lacks.

    If an event has several values of one key, the last one is used.
    """
    # With another type, `searchsorted` would convert the whole column.
    needles = np.array([event_begin, event_end], stats.event.dtype)
    first, last = np.searchsorted(stats.event, needles)
    slots = _slots_by_handle(keys)
    pivot = _empty_pivot(len(keys), max(event_end - event_begin, 0))
    if pivot.value.size and len(slots) and last > first:
        rows = slice(first, last)
        written = kernels.pivot_stats(
            stats.event[rows],
            stats.key[rows],
            stats.kind[rows],
            stats.value[rows],
            stats.length[rows],
            slots,
            event_begin,
            pivot.value,
            pivot.kind,
            pivot.length,
        )
        if written < 0:
            raise ValueError("the stats are not sorted by event")
    return pivot


def pivot_rows(
    stats: Stats, keys: Sequence[int | Sequence[int]], rows: Int32s
) -> Pivot:
    """Arrange the wanted keys of chosen events, with one column for each of `rows`."""
    slots = _slots_by_handle(keys)
    pivot = _empty_pivot(len(keys), len(rows))
    if pivot.value.size and len(slots):
        # Find the first stat of each row; a search in ascending order is far cheaper.
        order = np.argsort(rows, kind="stable")
        firsts = np.empty(len(rows), np.int64)
        firsts[order] = np.searchsorted(stats.event, rows[order])
        written = kernels.pivot_rows(
            stats.event,
            stats.key,
            stats.kind,
            stats.value,
            stats.length,
            slots,
            rows,
            firsts,
            pivot.value,
            pivot.kind,
            pivot.length,
        )
        if written < 0:
            raise ValueError("the stats' columns differ in length")
    return pivot


def _slots_by_handle(keys: Sequence[int | Sequence[int]]) -> Int32s:
    groups = [(key,) if isinstance(key, int) else tuple(key) for key in keys]
    highest = max((handle for group in groups for handle in group), default=-1)
    slots = np.full(highest + 1, -1, np.int32)
    for slot, group in enumerate(groups):
        slots[[handle for handle in group if handle >= 0]] = slot
    return slots


def _empty_pivot(keys: int, events: int) -> Pivot:
    shape = (keys, events)
    return Pivot(
        np.zeros(shape, np.int64), np.zeros(shape, np.uint8), np.zeros(shape, np.int32)
    )


class Interned(Frozen, frozen=True, eq=True):
    """Byte strings numbered by content.

    Attributes:
        ids: Number of each string, int32: 0, 1, … by first appearance.
        firsts: First row of each number, int64.
    """

    ids: Int32s
    firsts: Int64s


def intern_texts(data: UInt8s, place: Int64s, length: NDArray[np.integer]) -> Interned:
    """Number byte strings, given by place and length; equal strings get one number.

    Raises:
        ValueError: A string is outside the data.
    """
    place = np.ascontiguousarray(place, np.int64)
    length = np.ascontiguousarray(length, np.int64)
    ids = np.empty(len(place), np.int32)
    seed = int.from_bytes(os.urandom(8), "little")
    capacity = 2048
    while True:
        firsts = np.empty(min(capacity, len(place)), np.int64)
        slots = np.full(2 * capacity, -1, np.int32)
        count = kernels.intern_strings(data, place, length, seed, slots, ids, firsts)
        if count != kernels.NO_ROOM:
            break
        capacity *= 8
    if count < 0:
        raise ValueError("a string is outside the data")
    return Interned(ids, firsts[:count].copy())
