"""Merging of the lines of several planes into lines of one plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope._core import rebase
from stepscope.xspace.fields import LineTag
from stepscope.xspace.reading.messages import index_message
from stepscope.xspace.writing.encode import line_head, line_tail

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
