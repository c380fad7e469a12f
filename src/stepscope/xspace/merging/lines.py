"""Merging of the lines of several planes into lines of one plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope._core import rebase
from stepscope.xspace.fields import LineTag
from stepscope.xspace.reading.messages import index_messages
from stepscope.xspace.writing.encode import line_head, line_tail

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.array_types import Int64s, UInt8s
    from stepscope.xspace.merging.names import IdMap
    from stepscope.xspace.reading.messages import Fields

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


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line of one plane; its events are byte ranges of the plane.

    Attributes:
        head: Fields of the line, with a time relative to the merged recording.
        begin: Offset of the body of each event of the line, int64.
        end: End of the body of each event of the line, int64.
    """

    head: Head
    begin: Int64s
    end: Int64s


def read_heads(data: UInt8s, begin: Int64s, end: Int64s) -> list[Head]:
    """Return the fields before the first event of the lines at bytes [begin, end)."""
    heads = []
    for start, last in zip(begin.tolist(), end.tolist(), strict=True):
        # Writers put id, name and time first, so 256 bytes are usually enough.
        size = 256
        while True:
            stop = min(start + size, last)
            fields = index_messages(
                data, np.array([start], np.int64), np.array([stop], np.int64)
            )
            if stop == last or (fields.tag == LineTag.EVENT).any():
                break
            size *= 4
        heads.append(_read_head(data, fields, 0))
    return heads


def read_lines(data: UInt8s, begin: Int64s, end: Int64s, *, move: Move) -> list[Line]:
    """Return the lines whose messages are at the bytes [begin, end).

    Raises:
        ValueError: A line is malformed.
    """
    lines = []
    for start, last in zip(begin.tolist(), end.tolist(), strict=True):
        fields = index_messages(
            data, np.array([start], np.int64), np.array([last], np.int64)
        )
        if fields.stop[0] >= 0:
            raise ValueError(f"a line is malformed at byte {int(fields.stop[0]):,}")
        head = _read_head(data, fields, 0)
        events = fields.of(LineTag.EVENT)
        lines.append(
            Line(
                head._replace(timestamp_ns=move.moved(head.timestamp_ns)),
                events.place,
                events.place + events.size,
            )
        )
    return lines


def encode_events_of_line(
    line: Line,
    data: UInt8s,
    *,
    type_ids: IdMap,
    stat_ids: IdMap,
    missing: tuple[int, int],
) -> bytes:
    """Return the events of a line as event fields, with the ids of the merged plane.

    Raises:
        ValueError: An event is malformed.
    """
    return _rewrite_events(
        data, line.begin, line.end, ids=(type_ids, stat_ids), missing=missing
    )


def join_line_bodies(
    head: Head,
    events: Sequence[bytes],
    *,
    ids: tuple[IdMap, IdMap],
    missing: tuple[int, int],
) -> bytes:
    """Return the body of a line with the events of several lines, sorted.

    Args:
        head: Fields of the line.
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
    rows = index_messages(data, np.zeros(1, np.int64), np.array([len(data)], np.int64))
    begin, end = rows.place, rows.place + rows.size
    start = np.empty(len(begin), np.int64)
    dur = np.empty(len(begin), np.int64)
    if rebase.event_times(data, begin, end, start, dur) < 0:
        raise ValueError("an event is malformed")
    order = np.lexsort((-dur, start))
    if (order[1:] > order[:-1]).all():
        return events
    return _rewrite_events(data, begin[order], end[order], ids=ids, missing=missing)


def _rewrite_events(
    data: UInt8s,
    begin: Int64s,
    end: Int64s,
    *,
    ids: tuple[IdMap, IdMap],
    missing: tuple[int, int],
) -> bytes:
    type_ids, stat_ids = ids
    type_missing, stat_missing = missing
    arguments = (
        data,
        begin,
        end,
        *type_ids.columns,
        type_missing,
        *stat_ids.columns,
        stat_missing,
    )
    size = rebase.rewrite_events(*arguments, np.empty(0, np.uint8))
    if size < 0:
        raise ValueError("an event is malformed")
    out = np.empty(size, np.uint8)
    rebase.rewrite_events(*arguments, out)
    return out.tobytes()


def named_like(head: Head, first: Mapping[int, Head]) -> Head:
    """Return a line's head with the name of the first line of the same id."""
    known = first.get(head.id)
    if known is None or known.name is None:
        return head
    return head._replace(name=known.name)


def _read_head(data: UInt8s, fields: Fields, row: int) -> Head:
    def number(tag: int) -> int:
        return int(fields.last(tag)[row])

    def text(tag: int) -> bytes | None:
        place, length = (int(column[row]) for column in fields.last_place(tag))
        return data[place : place + length].tobytes() if place else None

    return Head(
        id=number(LineTag.ID),
        name=text(LineTag.NAME),
        timestamp_ns=number(LineTag.TIMESTAMP_NS),
        duration_ps=number(LineTag.DURATION_PS),
        display_id=number(LineTag.DISPLAY_ID),
        display_name=text(LineTag.DISPLAY_NAME),
    )
