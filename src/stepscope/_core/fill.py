# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Second pass over a line's bytes, which fills the columns of events and stats.

The rules of `wire` apply. In addition, the last of repeated scalar values wins, and the
last member of a oneof. All bounds are checked again, because a memory-mapped file may
change between the two passes.

`fill_columns` takes `rows` with one row per chunk and these columns:

  0, 1  first byte of the chunk, and one past the last
  2, 3  next row of the events, and the row limit
  4, 5  next row of the stats, and the row limit
  6, 7  next row of `counted`, and the row limit
  8, 9  next rows of `lost_type` and of `lost_key`, which may be beyond their ends
  10    output: position of the malformed event or field, or -1

Each next row is advanced past the rows written. An event is written with all of its
stats, or not at all. `event_time` has a row for offsets and a row for durations. The
three rows of `stat_small` are the event's row, the key and the length. Lengths must be
0 before the call, because only nonzero lengths are written. `counted` is a 2 × n array,
with a column for each event that has a number of occurrences: the event's row and the
number.

An id below the length of `types` (or `keys`) is an index into it. Any other id is
searched in the ascending `type_ids`, parallel to `type_rows`. An unknown id becomes -1;
row and id are written to `lost_type` (`lost_key`) while they fit. The value of a
reference is the entry of `keys` for the referenced id.

Definition: docs/formats/xplane.md#decoding.
"""

from __future__ import annotations

from stepscope._core._fields import (
    find_id,
    read_fixed,
    read_sized,
    read_varint,
    skip_field,
)
from stepscope._core._shim import cython

#: A row is outside an array, or an array has the wrong shape.
BAD_RANGE = -3


@cython.cfunc
@cython.inline
@cython.nogil
@cython.returns(
    (cython.ulonglong, cython.uchar, cython.ulonglong, cython.longlong, cython.bint)
)
@cython.exceptval(check=False)
def _read_stat(
    data: cython.const[cython.uchar][::1], pos: cython.longlong, end: cython.longlong
) -> tuple[
    cython.ulonglong, cython.uchar, cython.ulonglong, cython.longlong, cython.bint
]:
    """Return id, kind, value and length of a stat, and whether it is well-formed."""
    ident: cython.ulonglong = 0
    kind: cython.uchar = 0
    value: cython.ulonglong = 0
    length: cython.longlong = 0
    start: cython.longlong
    tag: cython.ulonglong
    while pos < end:
        tag, pos = read_varint(data, pos, end)
        if tag == 0x08:
            ident, pos = read_varint(data, pos, end)
        elif tag in {0x18, 0x20, 0x38}:
            value, pos = read_varint(data, pos, end)
            kind = cython.cast(cython.uchar, tag >> 3)
            length = 0
        elif tag in {0x2A, 0x32}:
            start, pos = read_sized(data, pos, end)
            kind = cython.cast(cython.uchar, tag >> 3)
            value = cython.cast(cython.ulonglong, start)
            length = pos - start
            # Lengths have 32 bits, as in messages of protobuf.
            if length > 0x7FFF_FFFF:
                return 0, 0, 0, 0, False
        elif tag == 0x11 and end - pos >= 8:
            value = read_fixed(data, pos, 8)
            kind = 2
            length = 0
            pos += 8
        elif pos >= 0:
            pos = skip_field(data, tag, pos, end)
        if pos < 0:
            return 0, 0, 0, 0, False
    return ident, kind, value, length, True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _value_for_id(
    direct: cython.const[cython.int][::1],
    ids: cython.const[cython.ulonglong][::1],
    values: cython.const[cython.int][::1],
    wanted: cython.ulonglong,
) -> cython.int:
    """Return the value that a table has for an id, or -1."""
    row: cython.longlong
    if wanted < cython.cast(cython.ulonglong, direct.shape[0]):
        return direct[cython.cast(cython.longlong, wanted)]
    row = find_id(ids, wanted)
    return values[row] if row >= 0 else -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _note_unknown_id(
    lost: cython.longlong[:, ::1],
    place: cython.longlong,
    row: cython.longlong,
    ident: cython.ulonglong,
) -> cython.longlong:
    """Write row and unknown id if they fit; return the next free row of `lost`."""
    if place < lost.shape[0]:
        lost[place, 0] = row
        lost[place, 1] = cython.cast(cython.longlong, ident)
    return place + 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.returns((cython.longlong, cython.longlong))
@cython.exceptval(check=False)
def _fill_stat(
    data: cython.const[cython.uchar][::1],
    pos: cython.longlong,
    end: cython.longlong,
    event: cython.longlong,
    stat: cython.longlong,
    unknown: cython.longlong,
    keys: cython.const[cython.int][::1],
    key_ids: cython.const[cython.ulonglong][::1],
    key_rows: cython.const[cython.int][::1],
    stat_small: cython.int[:, ::1],
    stat_kind: cython.uchar[::1],
    stat_value: cython.longlong[::1],
    lost_key: cython.longlong[:, ::1],
) -> tuple[cython.longlong, cython.longlong]:
    """Write the stat whose length is at `pos`; return the position after it, or -1.

    The position is -1 if the stat is malformed. The second result is the next free row
    of `lost_key`; before, it was `unknown`.
    """
    start: cython.longlong
    ident: cython.ulonglong
    kind: cython.uchar
    value: cython.ulonglong
    size: cython.longlong
    well: cython.bint
    key: cython.int
    start, pos = read_sized(data, pos, end)
    if pos < 0:
        return -1, unknown
    ident, kind, value, size, well = _read_stat(data, start, pos)
    if not well:
        return -1, unknown
    key = _value_for_id(keys, key_ids, key_rows, ident)
    if key < 0:
        unknown = _note_unknown_id(lost_key, unknown, stat, ident)
    if kind == 7:
        value = cython.cast(
            cython.ulonglong, _value_for_id(keys, key_ids, key_rows, value)
        )
    stat_small[0, stat] = cython.cast(cython.int, event)
    stat_small[1, stat] = key
    # Most lengths are 0, and unwritten memory pages are never allocated.
    if size:
        stat_small[2, stat] = cython.cast(cython.int, size)
    stat_kind[stat] = kind
    stat_value[stat] = cython.cast(cython.longlong, value)
    return pos, unknown


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _fill_event(
    data: cython.const[cython.uchar][::1],
    pos: cython.longlong,
    end: cython.longlong,
    chunk: cython.longlong,
    rows: cython.longlong[:, ::1],
    types: cython.const[cython.int][::1],
    type_ids: cython.const[cython.ulonglong][::1],
    type_rows: cython.const[cython.int][::1],
    keys: cython.const[cython.int][::1],
    key_ids: cython.const[cython.ulonglong][::1],
    key_rows: cython.const[cython.int][::1],
    event_type: cython.int[::1],
    event_time: cython.longlong[:, ::1],
    stat_small: cython.int[:, ::1],
    stat_kind: cython.uchar[::1],
    stat_value: cython.longlong[::1],
    counted: cython.longlong[:, ::1],
    lost_type: cython.longlong[:, ::1],
    lost_key: cython.longlong[:, ::1],
) -> cython.longlong:
    """Write the event [pos, end) and its stats; return `end`, or -1 if malformed."""
    event: cython.longlong = rows[chunk, 2]
    stat: cython.longlong = rows[chunk, 4]
    unknown: cython.longlong = rows[chunk, 9]
    ident: cython.ulonglong = 0
    offset: cython.ulonglong = 0
    dur: cython.ulonglong = 0
    aggregated: cython.bint = False
    while 0 <= pos < end:
        tag: cython.ulonglong
        tag, pos = read_varint(data, pos, end)
        if tag == 0x08:
            ident, pos = read_varint(data, pos, end)
        elif tag == 0x10:
            offset, pos = read_varint(data, pos, end)
            aggregated = False
        elif tag == 0x18:
            dur, pos = read_varint(data, pos, end)
        elif tag == 0x22 and stat < rows[chunk, 5]:
            pos, unknown = _fill_stat(
                data,
                pos,
                end,
                event,
                stat,
                unknown,
                keys,
                key_ids,
                key_rows,
                stat_small,
                stat_kind,
                stat_value,
                lost_key,
            )
            stat += 1
        elif tag == 0x28:
            # The number of occurrences is in a oneof with the offset and replaces it.
            offset, pos = read_varint(data, pos, end)
            aggregated = True
        elif tag == 0x22:
            return -1
        elif pos >= 0:
            pos = skip_field(data, tag, pos, end)
    if pos < 0 or (aggregated and rows[chunk, 6] >= rows[chunk, 7]):
        return -1
    event_type[event] = _value_for_id(types, type_ids, type_rows, ident)
    if event_type[event] < 0:
        rows[chunk, 8] = _note_unknown_id(lost_type, rows[chunk, 8], event, ident)
    if aggregated:
        counted[0, rows[chunk, 6]] = event
        counted[1, rows[chunk, 6]] = cython.cast(cython.longlong, offset)
        rows[chunk, 6] += 1
        offset = 0
    event_time[0, event] = cython.cast(cython.longlong, offset)
    event_time[1, event] = cython.cast(cython.longlong, dur)
    rows[chunk, 2] = event + 1
    rows[chunk, 4] = stat
    rows[chunk, 9] = unknown
    return pos


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fill_chunks(
    data: cython.const[cython.uchar][::1],
    first: cython.longlong,
    last: cython.longlong,
    rows: cython.longlong[:, ::1],
    types: cython.const[cython.int][::1],
    type_ids: cython.const[cython.ulonglong][::1],
    type_rows: cython.const[cython.int][::1],
    keys: cython.const[cython.int][::1],
    key_ids: cython.const[cython.ulonglong][::1],
    key_rows: cython.const[cython.int][::1],
    event_type: cython.int[::1],
    event_time: cython.longlong[:, ::1],
    stat_small: cython.int[:, ::1],
    stat_kind: cython.uchar[::1],
    stat_value: cython.longlong[::1],
    counted: cython.longlong[:, ::1],
    lost_type: cython.longlong[:, ::1],
    lost_key: cython.longlong[:, ::1],
) -> cython.longlong:
    for chunk in range(first, last):
        pos: cython.longlong = rows[chunk, 0]
        limit: cython.longlong = rows[chunk, 1]
        rows[chunk, 10] = -1
        while pos < limit:
            at: cython.longlong = pos
            start: cython.longlong
            tag: cython.ulonglong
            tag, pos = read_varint(data, pos, limit)
            if pos >= 0 and tag != 0x22:
                pos = skip_field(data, tag, pos, limit)
            elif pos >= 0:
                start, pos = read_sized(data, pos, limit)
                if rows[chunk, 2] >= rows[chunk, 3]:
                    pos = -1
                if pos >= 0:
                    pos = _fill_event(
                        data,
                        start,
                        pos,
                        chunk,
                        rows,
                        types,
                        type_ids,
                        type_rows,
                        keys,
                        key_ids,
                        key_rows,
                        event_type,
                        event_time,
                        stat_small,
                        stat_kind,
                        stat_value,
                        counted,
                        lost_type,
                        lost_key,
                    )
            if pos < 0:
                rows[chunk, 10] = at
                break
    return last - first


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _rows_fit(
    rows: cython.longlong[:, ::1],
    first: cython.longlong,
    last: cython.longlong,
    size: cython.longlong,
    events: cython.longlong,
    stats: cython.longlong,
    counted: cython.longlong,
) -> cython.bint:
    """Return whether the chunks are in the data and their rows in the columns."""
    chunk: cython.longlong
    if first < 0 or first > last or last > rows.shape[0] or rows.shape[1] != 11:
        return False
    for chunk in range(first, last):
        if (
            rows[chunk, 0] < 0
            or rows[chunk, 1] > size
            or rows[chunk, 2] < 0
            or rows[chunk, 3] > events
            or rows[chunk, 3] > 0x7FFF_FFFF
            or rows[chunk, 4] < 0
            or rows[chunk, 5] > stats
            or rows[chunk, 6] < 0
            or rows[chunk, 7] > counted
            or rows[chunk, 8] < 0
            or rows[chunk, 9] < 0
        ):
            return False
    return True


@cython.ccall
def fill_columns(
    data: cython.const[cython.uchar][::1],
    first: cython.longlong,
    last: cython.longlong,
    rows: cython.longlong[:, ::1],
    types: cython.const[cython.int][::1],
    type_ids: cython.const[cython.ulonglong][::1],
    type_rows: cython.const[cython.int][::1],
    keys: cython.const[cython.int][::1],
    key_ids: cython.const[cython.ulonglong][::1],
    key_rows: cython.const[cython.int][::1],
    event_type: cython.int[::1],
    event_time: cython.longlong[:, ::1],
    stat_small: cython.int[:, ::1],
    stat_kind: cython.uchar[::1],
    stat_value: cython.longlong[::1],
    counted: cython.longlong[:, ::1],
    lost_type: cython.longlong[:, ::1],
    lost_key: cython.longlong[:, ::1],
) -> cython.longlong:
    """Write the events and stats of the chunks [first, last) of one plane.

    Returns:
        The number of chunks, or `BAD_RANGE`.
    """
    if (
        type_ids.shape[0] != type_rows.shape[0]
        or key_ids.shape[0] != key_rows.shape[0]
        or event_time.shape[0] != 2
        or event_time.shape[1] != event_type.shape[0]
        or stat_small.shape[0] != 3
        or stat_small.shape[1] != stat_kind.shape[0]
        or stat_value.shape[0] != stat_kind.shape[0]
        or counted.shape[0] != 2
        or lost_type.shape[1] != 2
        or lost_key.shape[1] != 2
    ):
        return BAD_RANGE
    if not _rows_fit(
        rows,
        first,
        last,
        data.shape[0],
        event_type.shape[0],
        stat_kind.shape[0],
        counted.shape[1],
    ):
        return BAD_RANGE
    with cython.nogil:
        found: cython.longlong = _fill_chunks(
            data,
            first,
            last,
            rows,
            types,
            type_ids,
            type_rows,
            keys,
            key_ids,
            key_rows,
            event_type,
            event_time,
            stat_small,
            stat_kind,
            stat_value,
            counted,
            lost_type,
            lost_key,
        )
    return found
