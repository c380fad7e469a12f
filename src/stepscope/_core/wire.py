# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Reading of the wire format: lists of fields, and counts of events and stats.

The bytes of a line are read twice. `scan_chunks` counts, the caller allocates columns
of the exact size, and `fill_columns` (in the module `fill`) writes them. Both take
*chunks*: byte ranges inside lines that begin and end at a field of the line. Chunks are
independent, so that threads can share them. `split_line` divides one huge line.

Every read is checked against the end of the enclosing message, every write against the
end of the array. `_fields` defines what is malformed. Unknown fields are skipped.

Definition: docs/formats/xplane.md#decoding.
"""

from __future__ import annotations

from stepscope._core._fields import read_fixed, read_sized, read_varint, skip_field
from stepscope._core._shim import cython

COMPILED = cython.compiled
#: A row is outside an array, or an array has the wrong shape.
BAD_RANGE = -3


@cython.ccall
def index_fields(
    data: cython.const[cython.uchar][::1],
    begin: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    owner: cython.int[::1],
    tags: cython.uint[::1],
    place: cython.longlong[::1],
    size: cython.longlong[::1],
    stop: cython.longlong[::1],
) -> cython.longlong:
    """List the fields of the messages [begin, end), one row each, in file order.

    `place` is the position of the value. `size` is the length of a sized value, or the
    value itself (64 bits) of a number. `stop` has for each message the position of the
    first unreadable field, or -1. A sized field that is longer than its message is
    listed as the last row of the message, with its stated length.

    Returns:
        The number of fields, which are written while they fit (empty arrays: only
        counted); or `BAD_RANGE`.
    """
    count: cython.longlong = 0
    room: cython.longlong = owner.shape[0]
    message: cython.longlong
    at: cython.longlong
    start: cython.longlong
    pos: cython.longlong
    last: cython.longlong
    tag: cython.ulonglong
    value: cython.ulonglong
    if (
        begin.shape[0] != end.shape[0]
        or begin.shape[0] != stop.shape[0]
        or begin.shape[0] > 0x7FFF_FFFF
        or owner.shape[0] != tags.shape[0]
        or owner.shape[0] != place.shape[0]
        or owner.shape[0] != size.shape[0]
    ):
        return BAD_RANGE
    for message in range(begin.shape[0]):
        if begin[message] < 0 or end[message] > data.shape[0]:
            return BAD_RANGE
    with cython.nogil:
        for message in range(begin.shape[0]):
            stop[message] = -1
            pos = begin[message]
            last = end[message]
            while pos < last:
                at = pos
                tag, pos = read_varint(data, pos, last)
                start = pos
                if pos >= 0:
                    pos = skip_field(data, tag, pos, last)
                if pos >= 0:
                    if (tag & 7) == 0:
                        value, pos = read_varint(data, start, last)
                    elif (tag & 7) == 1:
                        value = read_fixed(data, start, 8)
                    elif (tag & 7) == 5:
                        value = read_fixed(data, start, 4)
                    else:
                        value, start = read_varint(data, start, last)
                else:
                    stop[message] = at
                    # A field that exceeds its message is listed with its stated length.
                    if start < 0 or (tag & 7) != 2 or tag < 8 or (tag >> 32) != 0:
                        break
                    value, start = read_varint(data, start, last)
                    if start < 0 or (value >> 62) != 0:
                        break
                    pos = last
                if count < room:
                    owner[count] = message
                    tags[count] = cython.cast(cython.uint, tag)
                    place[count] = start
                    size[count] = cython.cast(cython.longlong, value)
                count += 1
    return count


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _read_head(
    data: cython.const[cython.uchar][::1],
    tag: cython.ulonglong,
    pos: cython.longlong,
    end: cython.longlong,
    head: cython.longlong[:, ::1],
    row: cython.longlong,
) -> cython.longlong:
    """Read a field of a line (not an event); return the position after it, or -1."""
    value: cython.ulonglong
    start: cython.longlong
    column: cython.int
    after: cython.longlong = skip_field(data, tag, pos, end)
    if after < 0:
        return -1
    if tag == 0x08:
        column = 0
    elif tag == 0x12:
        column = 1
    elif tag == 0x18:
        column = 3
    elif tag == 0x48:
        column = 4
    elif tag == 0x50:
        column = 5
    elif tag == 0x5A:
        column = 6
    else:
        return after
    value, start = read_varint(data, pos, end)
    if (tag & 7) == 2:
        head[row, column] = start
        column += 1
    head[row, column] = cython.cast(cython.longlong, value)
    return after


@cython.ccall
def split_line(
    data: cython.const[cython.uchar][::1],
    begin: cython.longlong,
    end: cython.longlong,
    step: cython.longlong,
    head: cython.longlong[:, ::1],
    row: cython.longlong,
    cuts: cython.longlong[::1],
    stop: cython.longlong[::1],
) -> cython.longlong:
    """Find positions between the fields of a line, at least `step` bytes apart.

    Also fills the line's row of `head` as `scan_chunks` does, and `stop` with the
    position of a malformed field, or -1. The contents of events are not read.

    Returns:
        The number of positions in `cuts`, or `BAD_RANGE`.
    """
    count: cython.longlong = 0
    pos: cython.longlong = begin
    at: cython.longlong
    cut: cython.longlong = begin
    tag: cython.ulonglong
    if (
        begin < 0
        or begin > end
        or end > data.shape[0]
        or step < 1
        or row < 0
        or row >= head.shape[0]
        or head.shape[1] != 8
        or row >= stop.shape[0]
    ):
        return BAD_RANGE
    with cython.nogil:
        stop[row] = -1
        while pos < end:
            at = pos
            if at - cut >= step and count < cuts.shape[0]:
                cuts[count] = at
                count += 1
                cut = at
            tag, pos = read_varint(data, pos, end)
            if pos >= 0:
                if tag == 0x22:
                    pos = skip_field(data, tag, pos, end)
                else:
                    pos = _read_head(data, tag, pos, end, head, row)
            if pos < 0:
                stop[row] = at
                break
    return count


@cython.cfunc
@cython.inline
@cython.nogil
@cython.returns((cython.longlong, cython.longlong))
@cython.exceptval(check=False)
def _count_stats(
    data: cython.const[cython.uchar][::1], pos: cython.longlong, end: cython.longlong
) -> tuple[cython.longlong, cython.longlong]:
    """Return the number of an event's stats, or -1, and 1 if it has occurrences."""
    stats: cython.longlong = 0
    counted: cython.longlong = 0
    tag: cython.ulonglong
    while pos < end:
        tag, pos = read_varint(data, pos, end)
        if pos >= 0:
            pos = skip_field(data, tag, pos, end)
        if pos < 0:
            return -1, 0
        if tag == 0x22:
            stats += 1
        elif tag == 0x28:
            counted = 1
    return stats, counted


@cython.ccall
def scan_chunks(
    data: cython.const[cython.uchar][::1],
    first: cython.longlong,
    last: cython.longlong,
    rows: cython.longlong[:, ::1],
    head: cython.longlong[:, ::1],
) -> cython.longlong:
    """Count the events and stats of the chunks [first, last).

    `rows` and `head` have a row per chunk. The columns of `rows`:

      0, 1  first byte of the chunk, and one past the last
      2, 3  output: number of events, number of stats
      4     output: upper limit of the events with a number of occurrences
      5     output: position of the malformed event or field, or -1

    After a malformed event no event is counted, but fields of the line are still read.
    The contents of stats are not checked, so `fill_columns` may find fewer events.

    `head` must be zero before the call. Its columns receive: id, position and length of
    the name, timestamp, duration, display id, position and length of the display name.

    Returns:
        The number of chunks, or `BAD_RANGE`.
    """
    chunk: cython.longlong
    at: cython.longlong
    pos: cython.longlong
    limit: cython.longlong
    start: cython.longlong
    stats: cython.longlong
    counted: cython.longlong
    tag: cython.ulonglong
    if (
        first < 0
        or first > last
        or last > rows.shape[0]
        or rows.shape[1] != 6
        or last > head.shape[0]
        or head.shape[1] != 8
    ):
        return BAD_RANGE
    for chunk in range(first, last):
        if rows[chunk, 0] < 0 or rows[chunk, 1] > data.shape[0]:
            return BAD_RANGE
    with cython.nogil:
        for chunk in range(first, last):
            pos = rows[chunk, 0]
            limit = rows[chunk, 1]
            rows[chunk, 2] = 0
            rows[chunk, 3] = 0
            rows[chunk, 4] = 0
            rows[chunk, 5] = -1
            while pos < limit:
                at = pos
                tag, pos = read_varint(data, pos, limit)
                if pos >= 0 and tag != 0x22:
                    pos = _read_head(data, tag, pos, limit, head, chunk)
                elif pos >= 0:
                    start, pos = read_sized(data, pos, limit)
                    # After a malformed event only the fields of the line are read.
                    if pos >= 0 and rows[chunk, 5] < 0:
                        stats, counted = _count_stats(data, start, pos)
                        if stats < 0:
                            rows[chunk, 5] = at
                        else:
                            rows[chunk, 2] += 1
                            rows[chunk, 3] += stats
                            rows[chunk, 4] += counted
                if pos < 0:
                    if rows[chunk, 5] < 0:
                        rows[chunk, 5] = at
                    break
    return last - first
