"""Builders of planes, lines and their values, from which a message is assembled."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.xspace.fields import (
    BYTES,
    DOUBLE,
    INT,
    REF,
    TEXT,
    UINT,
    EventMetadata,
    PlaneTag,
    StatMetadata,
    StatTag,
)
from stepscope.xspace.writing.encode import (
    EventColumns,
    LongStats,
    StatColumn,
    concatenate_batches,
    encode_events,
    encode_varint,
    line_head,
    line_tail,
    long_stats,
    map_entry,
    number_field,
    sized_field,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike

_MAX_INT: Final = 2**63 - 1
#: Maximum number of events encoded as one piece; a message is split between pieces.
_CHUNK_EVENTS: Final = 2**20


@dataclass(frozen=True, slots=True)
class Unsigned:
    """A number to be stored as uint64, such as an id or an address."""

    value: int


#: bool and int become int64 (uint64 if too large), str becomes a text or a reference.
Value = int | float | str | bytes | Unsigned


class _Event(NamedTuple):
    type_id: int
    offset_ps: int
    dur_ps: int
    counted: bool
    stats: tuple[tuple[str, Value], ...]


class Chunk(NamedTuple):
    """A line, or a part of its events with the head and the tail of the line."""

    line: int
    head: bytes
    events: bytes
    tail: bytes


class LineBuilder:
    """Builder of one line; events may be added in any order."""

    def __init__(self, plane: PlaneBuilder, head: bytes, tail: bytes) -> None:
        self._plane = plane
        self._head = head
        self._tail = tail
        self._events: list[_Event] = []
        self._batches: list[EventColumns] = []

    def event(
        self,
        event_type: int | str,
        *,
        offset_ps: int = 0,
        dur_ps: int = 0,
        stats: Mapping[str, Value] | None = None,
        occurrences: int | None = None,
    ) -> None:
        """Add one event.

        Args:
            event_type: Id from `PlaneBuilder.event_type`, or a name.
            offset_ps: Start relative to the line's timestamp.
            stats: Values of the event by name.
            occurrences: Number of occurrences, if the event is aggregated.
        """
        plane = self._plane
        if isinstance(event_type, str):
            event_type = plane.event_type(event_type)
        counted = occurrences is not None
        self._events.append(
            _Event(
                event_type,
                offset_ps if occurrences is None else occurrences,
                dur_ps,
                counted,
                tuple((stats or {}).items()),
            )
        )

    def events(
        self,
        type_id: ArrayLike,
        offset_ps: ArrayLike,
        dur_ps: ArrayLike,
        *,
        stats: Sequence[StatColumn] = (),
    ) -> None:
        """Add many events at once, from columns of equal length.

        Args:
            offset_ps: Starts relative to the line's timestamp.
            stats: Values of the events; repeated texts should have the kind `REF`.
        """
        ids = np.ascontiguousarray(type_id, np.int64)
        self._batches.append(
            EventColumns(
                ids,
                np.ascontiguousarray(offset_ps, np.int64),
                np.ascontiguousarray(dur_ps, np.int64),
                np.zeros(len(ids), bool),
                long_stats(stats, events=len(ids)),
            )
        )

    def texts(self) -> Iterator[str]:
        """Yield every text value of the events that were added one by one."""
        for event in self._events:
            for _, value in event.stats:
                if isinstance(value, str):
                    yield value

    def pieces(self, number: int, repeated: Collection[str]) -> Iterator[Chunk]:
        """Encode the events in sorted order; texts in `repeated` become references."""
        batches = list(self._batches)
        if self._events or not batches:
            batches.append(self._event_columns(repeated))
        events = concatenate_batches(batches).sort_events()
        for first in range(0, max(len(events), 1), _CHUNK_EVENTS):
            last = min(first + _CHUNK_EVENTS, len(events))
            body = encode_events(events, first, last)
            yield Chunk(number, self._head, body, self._tail)

    def _event_columns(self, repeated: Collection[str]) -> EventColumns:
        stat_id, stored = self._plane.stat_id, self._plane.stored
        texts = bytearray()
        keys: list[int] = []
        kinds: list[int] = []
        values: list[int] = []
        lengths: list[int] = []
        begin = [0]
        for event in self._events:
            for name, value in event.stats:
                keys.append(stat_id(name))
                kind, bits = stored(value, repeated)
                kinds.append(kind)
                if isinstance(bits, bytes):
                    values.append(len(texts))
                    lengths.append(len(bits))
                    texts += bits
                else:
                    values.append(bits)
                    lengths.append(0)
            begin.append(len(keys))
        return EventColumns(
            np.array([event.type_id for event in self._events], np.int64),
            np.array([event.offset_ps for event in self._events], np.int64),
            np.array([event.dur_ps for event in self._events], np.int64),
            np.array([event.counted for event in self._events], bool),
            LongStats(
                np.array(begin, np.int64),
                np.array(keys, np.int64),
                np.array(kinds, np.uint8),
                np.array(values, np.int64),
                np.array(lengths, np.int32),
                np.frombuffer(bytes(texts), np.uint8),
            ),
        )


class PlaneBuilder:
    """Builder of one plane: its names, values and lines."""

    def __init__(self, name: str, *, plane_id: int = 0) -> None:
        self.name = name
        self.id = plane_id
        self._stat_ids: dict[str, int] = {}
        self._types: dict[int, tuple[bytes, tuple[tuple[str, Value], ...]]] = {}
        self._type_ids: dict[str, int] = {}
        self._type_names: dict[int, str] = {}
        self._next_type = 1
        self._stats: list[tuple[str, Value]] = []
        self._lines: list[LineBuilder] = []

    def stat_id(self, name: str) -> int:
        """Return the id of a stat's name, or of a text that stats refer to."""
        known = self._stat_ids.get(name)
        if known is None:
            known = self._stat_ids[name] = len(self._stat_ids) + 1
        return known

    def event_type(
        self,
        name: str,
        *,
        type_id: int | None = None,
        display_name: str = "",
        metadata: bytes = b"",
        stats: Mapping[str, Value] | None = None,
    ) -> int:
        """Declare an event type; a name that is already declared keeps its id.

        Args:
            name: Name of the events of this type.
            type_id: Id above 0 to use, if the id has a meaning outside the file.
            display_name: Shorter name for display.
            metadata: Serialized message about the type.
            stats: Values shared by all events of the type.

        Raises:
            ValueError: Another name has the wanted id, or the id is not above 0.
        """
        known = self._type_ids.get(name)
        if known is not None and type_id in {None, known}:
            return known
        if type_id is not None and self._type_names.get(type_id) == name:
            # Several types may share a name.
            return type_id
        if type_id is None:
            while self._next_type in self._types:
                self._next_type += 1
            type_id = self._next_type
        if type_id <= 0 or type_id in self._types:
            raise ValueError(f"event type id {type_id} is taken or not above 0")
        body = number_field(EventMetadata.ID, type_id)
        body += sized_field(EventMetadata.NAME, name.encode())
        if metadata:
            body += sized_field(EventMetadata.METADATA, metadata)
        if display_name:
            body += sized_field(EventMetadata.DISPLAY_NAME, display_name.encode())
        self._types[type_id] = (body, tuple((stats or {}).items()))
        self._type_ids.setdefault(name, type_id)
        self._type_names[type_id] = name
        return type_id

    def stat(self, name: str, value: Value) -> None:
        """Add a plane-wide value."""
        self._stats.append((name, value))

    def set_stat(self, name: str, value: Value) -> None:
        """Set a plane-wide value, and replace any value of the same name."""
        self._stats = [known for known in self._stats if known[0] != name]
        self.stat(name, value)

    def line(
        self,
        line_id: int,
        *,
        name: str = "",
        timestamp_ns: int = 0,
        duration_ps: int = 0,
        display_id: int = 0,
        display_name: str = "",
    ) -> LineBuilder:
        """Add a line; its timestamp is relative to the start of the recording.

        Raises:
            ValueError: The timestamp is negative.
        """
        if timestamp_ns < 0:
            raise ValueError("a line cannot begin before the recording")
        head = line_head(line_id, name.encode() or None, timestamp_ns)
        tail = line_tail(duration_ps, display_id, display_name.encode() or None)
        line = LineBuilder(self, head, tail)
        self._lines.append(line)
        return line

    def stored(
        self, value: Value, repeated: Collection[str]
    ) -> tuple[int, int | bytes]:
        """Return the kind of a value, and its 64 bits (signed) or its bytes.

        Raises:
            ValueError: A number does not fit into 64 bits.
        """
        if type(value) is int and -_MAX_INT <= value <= _MAX_INT:
            # Most values are plain numbers.
            return INT, value
        if isinstance(value, str):
            if value in repeated:
                return REF, self.stat_id(value)
            return TEXT, value.encode()
        if isinstance(value, bytes):
            return BYTES, value
        if isinstance(value, float):
            return DOUBLE, struct.unpack("<q", struct.pack("<d", value))[0]
        number = value.value if isinstance(value, Unsigned) else int(value)
        unsigned = isinstance(value, Unsigned) or number > _MAX_INT
        if not -_MAX_INT - 1 <= number <= 2 * _MAX_INT + 1:
            raise ValueError(f"{number} does not fit 64 bits")
        if number > _MAX_INT:
            number -= 2**64
        return UINT if unsigned else INT, number

    def encode_plane(self) -> tuple[bytes, list[Chunk]]:
        """Return the plane encoded without its lines, and the lines in pieces."""
        counts = Counter(text for line in self._lines for text in line.texts())
        for values in (self._stats, *(stats for _, stats in self._types.values())):
            counts.update(value for _, value in values if isinstance(value, str))
        repeated = {text for text, count in counts.items() if count > 1}
        pieces = [
            piece
            for number, line in enumerate(self._lines)
            for piece in line.pieces(number, repeated)
        ]
        types = b"".join(
            map_entry(
                PlaneTag.EVENT_METADATA,
                key,
                body + self._stat_fields(EventMetadata.STAT, stats, repeated),
            )
            for key, (body, stats) in self._types.items()
        )
        stats = self._stat_fields(PlaneTag.STAT, self._stats, repeated)
        # Names are encoded last, because the steps before may have added names.
        names = b"".join(
            map_entry(
                PlaneTag.STAT_METADATA,
                key,
                number_field(StatMetadata.ID, key)
                + sized_field(StatMetadata.NAME, name.encode()),
            )
            for name, key in self._stat_ids.items()
        )
        head = number_field(PlaneTag.ID, self.id)
        head += sized_field(PlaneTag.NAME, self.name.encode())
        return head + types + names + stats, pieces

    def _stat_fields(
        self, tag: int, stats: Sequence[tuple[str, Value]], repeated: Collection[str]
    ) -> bytes:
        out = b""
        for name, value in stats:
            kind, bits = self.stored(value, repeated)
            body = number_field(StatTag.METADATA_ID, self.stat_id(name))
            if isinstance(bits, bytes):
                body += sized_field(kind << 3 | 2, bits)
            elif kind == DOUBLE:
                body += encode_varint(StatTag.DOUBLE) + struct.pack("<q", bits)
            else:
                # A value of 0 is written too, because a missing field means no value.
                body += encode_varint(kind << 3) + encode_varint(bits)
            out += sized_field(tag, body)
        return out
