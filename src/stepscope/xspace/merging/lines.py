"""Merging of the metadata maps and of the lines of several planes into one plane."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope._core import rebase
from stepscope.xspace.fields import Entry, EventMetadata, LineTag, StatMetadata, StatTag
from stepscope.xspace.reading.messages import index_message, index_messages
from stepscope.xspace.wire import MalformedMessage, packed_numbers, read_varint
from stepscope.xspace.writing.encode import (
    encode_varint,
    line_head,
    line_tail,
    number_field,
    sized_field,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Int64s, UInt8s
    from stepscope.xspace.reading.messages import Fields

_WRAP: Final = 2**64
_SIZED: Final = 2
_FIXED_BYTES: Final = {1: 8, 5: 4}
#: Field with the ids of a type's child types, as packed or separate numbers.
_CHILD: Final = 6 << 3


@dataclass(frozen=True)
class IdMap:
    """Map from the ids of one plane to those of the merged plane.

    Attributes:
        ids: Id → merged id, both as 64-bit unsigned numbers.
    """

    ids: Mapping[int, int]

    @cached_property
    def columns(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Ascending ids and their merged ids, as arrays for `_core.rebase`."""
        keys = sorted(self.ids)
        values = [self.ids[key] for key in keys]
        return np.array(keys, np.uint64), np.array(values, np.uint64)


class Names:
    """Metadata map that collects the entries of several planes."""

    def __init__(self, *, first_free: int) -> None:
        """Create an empty map whose new ids are at least `first_free`."""
        self._bodies: dict[int, bytes] = {}
        self._ids: dict[bytes, int] = {}
        self._next = first_free

    def enter(
        self,
        entries: Mapping[int, bytes],
        *,
        stat_ids: tuple[IdMap, int] | None = None,
        keep_ids: bool,
    ) -> IdMap:
        """Add the entries of a plane; return the map from its ids to merged ids.

        Args:
            entries: Id → message without the id, as `read_entries` returns them.
            stat_ids: For event types: the new ids of the stats inside the entries, and
                the id for stats without a name.
            keep_ids: Whether every entry keeps its id and its bytes; otherwise equal
                entries are merged, and all others get free ids.
        """
        if keep_ids:
            for key, body in entries.items():
                self._bodies[key] = body
                self._ids.setdefault(body, key)
            return IdMap({key: key for key in entries})
        ids: dict[int, int] = {}
        later: list[tuple[int, bytes]] = []
        for key, body in entries.items():
            if stat_ids is not None:
                body = _rewrite_stats(body, *stat_ids)  # noqa: PLW2901 - the rewritten body
            # In most files no entry has a child field.
            if any(tag >> 3 == _CHILD >> 3 for tag, _, _ in _read_fields(body)):
                later.append((key, body))
            else:
                known = self._ids.get(body)
                if known is None:
                    known = self._ids[body] = self.free_id()
                    self._bodies[known] = body
                ids[key] = known
        # Add types that refer to other types last, when the other types have their ids.
        for key, _ in later:
            ids[key] = self.free_id()
            self._bodies[ids[key]] = b""
        for key, body in later:
            self._bodies[ids[key]] = _rewrite_children(body, ids)
        return IdMap(ids)

    def entries(self) -> Iterator[tuple[int, bytes]]:
        """Yield ids and messages of all entries; an entry's id equals its map key."""
        # Both kinds of messages have their id in field 1.
        for key, body in self._bodies.items():
            yield key, number_field(StatMetadata.ID, key) + body

    def identity(self) -> IdMap:
        """Return a map from every merged id to itself."""
        return IdMap({key: key for key in self._bodies})

    def free_id(self) -> int:
        """Return an id that no entry has."""
        while self._next in self._bodies:
            self._next += 1
        return self._next


def read_entries(data: UInt8s, begin: Int64s, end: Int64s) -> dict[int, bytes]:
    """Return id → message without the id, of the entries at the bytes [begin, end).

    Of several entries with the same id, the last one is used.
    """
    fields = index_messages(data, begin, end)
    keys = fields.last(Entry.KEY).tolist()
    bodies = [b""] * len(keys)
    values = fields.of(Entry.VALUE)
    # Several values of one entry are pieces of one message: concatenate them.
    for owner, place, size in zip(
        values.owner.tolist(), values.place.tolist(), values.size.tolist(), strict=True
    ):
        bodies[owner] += data[place : place + size].tobytes()
    return {
        key % _WRAP: b"".join(
            raw for tag, raw, _ in _read_fields(body) if tag != StatMetadata.ID
        )
        for key, body in zip(keys, bodies, strict=True)
    }


def rewritten_stat(body: bytes, stat_ids: IdMap, *, missing: int) -> bytes:
    """Return a stat with merged ids for its name and for the text it refers to."""
    out = []
    named = False
    for tag, raw, value in _read_fields(body):
        if tag in (StatTag.METADATA_ID, StatTag.REF):
            named |= tag == StatTag.METADATA_ID
            out.append(
                encode_varint(tag) + encode_varint(stat_ids.ids.get(value, missing))
            )
        else:
            out.append(raw)
    if not named:
        # A missing id field means id 0, which may have a new id.
        out.append(number_field(StatTag.METADATA_ID, stat_ids.ids.get(0, missing)))
    return b"".join(out)


def _rewrite_stats(body: bytes, ids: IdMap, missing: int) -> bytes:
    out = []
    for tag, raw, _ in _read_fields(body):
        if tag == EventMetadata.STAT:
            inner = raw[len(encode_varint(tag)) :]
            _, start = read_varint(inner, 0)
            out.append(
                sized_field(tag, rewritten_stat(inner[start:], ids, missing=missing))
            )
        else:
            out.append(raw)
    return b"".join(out)


def _rewrite_children(body: bytes, type_ids: Mapping[int, int]) -> bytes:
    out = []
    for tag, raw, value in _read_fields(body):
        if tag == _CHILD:
            # Drop a child id without a name: another plane may use the id.
            if value in type_ids:
                out.append(encode_varint(tag) + encode_varint(type_ids[value]))
        elif tag == _CHILD | _SIZED:
            try:
                children = packed_numbers(memoryview(raw)[len(raw) - value :])
            except MalformedMessage:
                children = []
            known = (type_ids[child] for child in children if child in type_ids)
            out.append(sized_field(tag, b"".join(map(encode_varint, known))))
        else:
            out.append(raw)
    return b"".join(out)


def _read_fields(body: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Yield tag, bytes with the tag, and number or length of every field.

    Like a decoder, stop before the first malformed field.
    """
    offset = 0
    while offset < len(body):
        start = offset
        try:
            tag, offset = read_varint(body, offset)
            value, end = (
                read_varint(body, offset) if tag & 7 in (0, _SIZED) else (0, offset)
            )
        except MalformedMessage:
            return
        wire = tag & 7
        if wire == _SIZED:
            end += value
        elif wire in _FIXED_BYTES:
            end += _FIXED_BYTES[wire]
        elif wire:
            return
        if end > len(body):
            return
        yield tag, body[start:end], value
        offset = end


#: If the start of a line in ns exceeds this value, the start counts from 1970. A
#: recording would have to last three years to contain such a relative time.
_EPOCH_NS: Final = 10**17


class Head(NamedTuple):
    """Fields of a line other than its events; missing texts are None."""

    id: int
    name: bytes | None
    timestamp_ns: int
    duration_ps: int
    display_id: int
    display_name: bytes | None


class Move(NamedTuple):
    """Offsets that convert the times of lines to times of the merged recording.

    Attributes:
        shift_ns: Added to times that count from the start of the recording.
        start_ns: Start of the merged recording; subtracted from times since 1970.
    """

    shift_ns: int
    start_ns: int

    def moved(self, timestamp_ns: int) -> int:
        """Convert a line's time to a time since the start of the merged recording."""
        if timestamp_ns > _EPOCH_NS:
            return timestamp_ns - self.start_ns
        return timestamp_ns + self.shift_ns


def read_heads(data: UInt8s, begin: Int64s, end: Int64s) -> list[Head]:
    """Return the fields before the first event of the lines at bytes [begin, end)."""
    heads = []
    for start, last in zip(begin.tolist(), end.tolist(), strict=True):
        # Writers put id, name and time first, so 256 bytes are usually enough.
        size = 256
        while True:
            stop = min(start + size, last)
            fields = index_message(data, start, stop)
            if stop == last or (fields.tag == LineTag.EVENT).any():
                break
            size *= 4
        heads.append(_read_head(data, fields))
    return heads


def read_lines(
    data: UInt8s, begin: Int64s, end: Int64s, *, move: Move
) -> Iterator[tuple[Head, Int64s, Int64s]]:
    """Yield the lines at the bytes [begin, end): head, begins and ends of its events.

    Times of the heads are relative to the merged recording.

    Raises:
        ValueError: A line is malformed.
    """
    for start, last in zip(begin.tolist(), end.tolist(), strict=True):
        fields = index_message(data, start, last)
        if fields.stop[0] >= 0:
            raise ValueError(f"a line is malformed at byte {int(fields.stop[0]):,}")
        head = _read_head(data, fields)
        events = fields.of(LineTag.EVENT)
        moved = head._replace(timestamp_ns=move.moved(head.timestamp_ns))
        yield moved, events.place, events.place + events.size


def join_line_bodies(
    head: Head,
    events: Sequence[bytes],
    *,
    ids: tuple[IdMap, IdMap],
    missing: tuple[int, int],
) -> bytes:
    """Return the body of a line with the events of several lines, sorted.

    Args:
        events: Event fields of each line, with the ids of the merged plane.
        ids: Maps from merged ids of types, and of stats, to themselves.
        missing: Id for types without a name, and id for stats without a name.
    """
    together = b"".join(events)
    if len(events) > 1:
        together = _sort_events(together, ids, missing)
    begin = line_head(head.id, head.name, head.timestamp_ns)
    end = line_tail(head.duration_ps, head.display_id, head.display_name)
    return begin + together + end


def _sort_events(
    events: bytes, ids: tuple[IdMap, IdMap], missing: tuple[int, int]
) -> bytes:
    """Sort event fields by start, then longest first, as the writer does."""
    data = np.frombuffer(events, np.uint8)
    rows = index_message(data, 0, len(data))
    begin, end = rows.place, rows.place + rows.size
    start = np.empty(len(begin), np.int64)
    dur = np.empty(len(begin), np.int64)
    if rebase.event_times(data, begin, end, start, dur) < 0:
        raise ValueError("an event is malformed")
    order = np.lexsort((-dur, start))
    if (order[1:] > order[:-1]).all():
        return events
    return rewrite_events(data, begin[order], end[order], ids=ids, missing=missing)


def rewrite_events(
    data: UInt8s,
    begin: Int64s,
    end: Int64s,
    *,
    ids: tuple[IdMap, IdMap],
    missing: tuple[int, int],
) -> bytes:
    """Return events as event fields, with the ids of the merged plane.

    Raises:
        ValueError: An event is malformed.
    """
    of_types, of_stats = (
        (*known.columns, other) for known, other in zip(ids, missing, strict=True)
    )
    arguments = (data, begin, end, *of_types, *of_stats)
    size = rebase.rewrite_events(*arguments, np.empty(0, np.uint8))
    if size < 0:
        raise ValueError("an event is malformed")
    out = np.empty(size, np.uint8)
    rebase.rewrite_events(*arguments, out)
    return out.tobytes()


def _read_head(data: UInt8s, fields: Fields) -> Head:
    def number(tag: int) -> int:
        return int(fields.last(tag)[0])

    def text(tag: int) -> bytes | None:
        place, length = (int(column[0]) for column in fields.last_place(tag))
        return data[place : place + length].tobytes() if place else None

    return Head(
        id=number(LineTag.ID),
        name=text(LineTag.NAME),
        timestamp_ns=number(LineTag.TIMESTAMP_NS),
        duration_ps=number(LineTag.DURATION_PS),
        display_id=number(LineTag.DISPLAY_ID),
        display_name=text(LineTag.DISPLAY_NAME),
    )
