"""Encoding of event columns and plain values as the bytes of a profile message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope._core import encode as kernels
from stepscope.xspace.fields import BYTES, DOUBLE, NO_VALUE, TEXT, Entry, LineTag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

_WRAP: Final = 2**64


def encode_varint(value: int) -> bytes:
    """Encode a number, seven bits per byte, lowest first (64 bits if negative)."""
    value %= _WRAP
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number_field(tag: int, value: int) -> bytes:
    """Return a number with its tag, or no bytes for 0, the default of a field."""
    return encode_varint(tag) + encode_varint(value) if value else b""


def sized_field(tag: int, body: bytes) -> bytes:
    """Return a text, bytes or a message with its tag, also if empty."""
    return encode_varint(tag) + encode_varint(len(body)) + body


def map_entry(tag: int, key: int, body: bytes) -> bytes:
    """Return an entry of a metadata map of a plane."""
    return sized_field(
        tag, number_field(Entry.KEY, key) + sized_field(Entry.VALUE, body)
    )


def line_head(line_id: int, name: bytes | None, timestamp_ns: int) -> bytes:
    """Return the fields of a line before its events."""
    out = number_field(LineTag.ID, line_id)
    if name is not None:
        out += sized_field(LineTag.NAME, name)
    return out + number_field(LineTag.TIMESTAMP_NS, timestamp_ns)


def line_tail(duration_ps: int, display_id: int, display_name: bytes | None) -> bytes:
    """Return the fields of a line after its events."""
    out = number_field(LineTag.DURATION_PS, duration_ps)
    out += number_field(LineTag.DISPLAY_ID, display_id)
    if display_name is not None:
        out += sized_field(LineTag.DISPLAY_NAME, display_name)
    return out


@dataclass(frozen=True, slots=True)
class StatColumn:
    """One stat of many events.

    Attributes:
        key: Id of the stat's name (`PlaneBuilder.stat_id`).
        kind: `xspace.fields` kind of all values.
        values: One value per event: numbers (float64 for doubles, int64 or uint64), ids
            of referenced names (`PlaneBuilder.stat_id`), or indices into `texts`.
        present: Whether each event has the stat; None means that all have it.
        texts: Distinct texts or bytes, for kinds 5 and 6.
    """

    key: int
    kind: int
    values: ArrayLike
    present: NDArray[np.bool_] | None = None
    texts: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True)
class LongStats:
    """Stats of several events, one row per stat, sorted by event.

    Attributes:
        begin: First row of each event, then the number of rows, int64.
        key: Id of the name, int64.
        kind: `xspace.fields` kind, uint8.
        value: As in `xspace.Stats`, int64; an offset into `texts` for a text, the id of
            the name for a reference.
        length: Length of a text or bytes, int32.
        texts: All texts one after the other, uint8.
    """

    begin: NDArray[np.int64]
    key: NDArray[np.int64]
    kind: NDArray[np.uint8]
    value: NDArray[np.int64]
    length: NDArray[np.int32]
    texts: NDArray[np.uint8]


def long_stats(columns: Sequence[StatColumn], *, events: int) -> LongStats:
    """Convert columns to one row per stat, sorted by event, then in column order."""
    shape = (events, len(columns))
    value = np.zeros(shape, np.int64)
    length = np.zeros(shape, np.int32)
    present = np.ones(shape, bool)
    pool: list[bytes] = []
    pooled = 0
    for position, column in enumerate(columns):
        if column.present is not None:
            present[:, position] = column.present
        if column.kind in (TEXT, BYTES):
            sizes = np.array([len(text) for text in column.texts], np.int64)
            offsets = pooled + np.cumsum(sizes) - sizes
            rows = np.asarray(column.values, np.int64)
            used = np.flatnonzero(present[:, position])
            value[used, position] = offsets[rows[used]]
            length[used, position] = sizes[rows[used]]
            pool.extend(column.texts)
            pooled += int(sizes.sum())
        elif column.kind != NO_VALUE:
            value[:, position] = _value_bits(column)
    begin = np.zeros(events + 1, np.int64)
    np.cumsum(present.sum(axis=1), out=begin[1:])
    keys = np.array([column.key for column in columns], np.int64)
    kinds = np.array([column.kind for column in columns], np.uint8)
    return LongStats(
        begin,
        np.broadcast_to(keys, shape)[present],
        np.broadcast_to(kinds, shape)[present],
        value[present],
        length[present],
        np.frombuffer(b"".join(pool), np.uint8),
    )


def _value_bits(column: StatColumn) -> NDArray[np.int64]:
    if column.kind == DOUBLE:
        return np.asarray(column.values, np.float64).view(np.int64)
    values = np.asarray(column.values)
    if values.dtype == np.uint64:
        return values.view(np.int64)
    return values.astype(np.int64)


@dataclass(frozen=True, slots=True)
class EventColumns:
    """Events of one line.

    Attributes:
        type_id: Key in the plane's event metadata, int64.
        offset_ps: Start relative to the line's timestamp, or if `counted` is true, the
            number of occurrences, int64.
        dur_ps: Duration, int64.
        counted: True for events with a number of occurrences instead of a start, bool.
        stats: Values of the events.
    """

    type_id: NDArray[np.int64]
    offset_ps: NDArray[np.int64]
    dur_ps: NDArray[np.int64]
    counted: NDArray[np.bool_]
    stats: LongStats

    def __len__(self) -> int:
        return len(self.type_id)

    def taken(self, order: NDArray[np.int64]) -> EventColumns:
        """Return the events whose indices are in `order`, in this order."""
        stats = self.stats
        counts = np.diff(stats.begin)[order]
        begin = np.zeros(len(order) + 1, np.int64)
        np.cumsum(counts, out=begin[1:])
        rows = np.arange(begin[-1]) + np.repeat(stats.begin[order] - begin[:-1], counts)
        return EventColumns(
            self.type_id[order],
            self.offset_ps[order],
            self.dur_ps[order],
            self.counted[order],
            LongStats(
                begin,
                stats.key[rows],
                stats.kind[rows],
                stats.value[rows],
                stats.length[rows],
                stats.texts,
            ),
        )

    def sort_events(self) -> EventColumns:
        """Return the events sorted by start, then longest first; ties keep their order.

        Events without a start are first. Events that are already sorted are not copied.
        """
        start = np.where(self.counted, 0, self.offset_ps)
        ordered = (start[1:] > start[:-1]) | (
            (start[1:] == start[:-1]) & (self.dur_ps[1:] <= self.dur_ps[:-1])
        )
        return self if ordered.all() else self.taken(np.lexsort((-self.dur_ps, start)))


def concatenate_batches(batches: Sequence[EventColumns]) -> EventColumns:
    """Concatenate batches of events."""
    if len(batches) == 1:
        return batches[0]
    stats = [batch.stats for batch in batches]
    before = np.cumsum([0, *(len(part.key) for part in stats)])
    texts = np.cumsum([0, *(len(part.texts) for part in stats)])
    begins = [part.begin[:-1] + rows for part, rows in zip(stats, before, strict=False)]
    values = [
        part.value + np.where(np.isin(part.kind, (TEXT, BYTES)), pooled, 0)
        for part, pooled in zip(stats, texts, strict=False)
    ]
    return EventColumns(
        np.concatenate([batch.type_id for batch in batches]),
        np.concatenate([batch.offset_ps for batch in batches]),
        np.concatenate([batch.dur_ps for batch in batches]),
        np.concatenate([batch.counted for batch in batches]),
        LongStats(
            np.append(np.concatenate(begins), before[-1]),
            np.concatenate([part.key for part in stats]),
            np.concatenate([part.kind for part in stats]),
            np.concatenate(values),
            np.concatenate([part.length for part in stats]),
            np.concatenate([part.texts for part in stats]),
        ),
    )


def encode_events(events: EventColumns, first: int, last: int) -> bytes:
    """Encode the rows [first, last) as event fields of a line, in this order.

    Raises:
        ValueError: The columns do not fit each other.
    """
    stats = events.stats
    rows = slice(first, last)
    stat_rows = slice(stats.begin[first], stats.begin[last])
    columns = (
        events.type_id[rows],
        events.offset_ps[rows],
        events.dur_ps[rows],
        events.counted[rows].view(np.uint8),
        stats.begin[first : last + 1] - stats.begin[first],
        stats.key[stat_rows],
        stats.kind[stat_rows],
        stats.value[stat_rows],
        stats.length[stat_rows],
        stats.texts,
    )
    size = kernels.encode_line_events(*columns, np.empty(0, np.uint8))
    if size < 0:
        raise ValueError("the columns of the events do not fit each other")
    out = np.empty(size, np.uint8)
    kernels.encode_line_events(*columns, out)
    return out.tobytes()
