# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Encoding of columns of events and their stats as the bytes of a line.

A length precedes the bytes that it counts, so the size of an event is computed before
the event is written.
"""

from __future__ import annotations

from stepscope._core._fields import varint_size, write_varint
from stepscope._core._shim import cython

#: The output array is too small.
NO_ROOM = -1
#: A row is outside an array, or an array has the wrong length.
BAD_RANGE = -3


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _stat_size(
    key: cython.longlong,
    kind: cython.uchar,
    value: cython.longlong,
    length: cython.longlong,
) -> cython.longlong:
    size: cython.longlong = 1 + varint_size(cython.cast(cython.ulonglong, key))
    if kind == 2:
        return size + 9
    if kind in {5, 6}:
        return size + 1 + varint_size(cython.cast(cython.ulonglong, length)) + length
    if kind != 0:
        return size + 1 + varint_size(cython.cast(cython.ulonglong, value))
    return size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_number(
    out: cython.uchar[::1],
    pos: cython.longlong,
    tag: cython.uchar,
    value: cython.longlong,
) -> cython.longlong:
    """Write a tag and a number or length; return the position after them."""
    out[pos] = tag
    return write_varint(out, pos + 1, cython.cast(cython.ulonglong, value))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_stat(
    out: cython.uchar[::1],
    pos: cython.longlong,
    key: cython.longlong,
    kind: cython.uchar,
    value: cython.longlong,
    length: cython.longlong,
    texts: cython.const[cython.uchar][::1],
) -> cython.longlong:
    """Write the body of a stat, which must fit; return the position after it."""
    k: cython.longlong
    bits: cython.ulonglong = cython.cast(cython.ulonglong, value)
    pos = _put_number(out, pos, 0x08, key)
    if kind == 2:
        out[pos] = 0x11
        for k in range(8):
            out[pos + 1 + k] = cython.cast(cython.uchar, (bits >> (8 * k)) & 0xFF)
        return pos + 9
    if kind in {5, 6}:
        pos = _put_number(out, pos, (kind << 3) | 2, length)
        for k in range(length):
            out[pos + k] = texts[value + k]
        return pos + length
    if kind != 0:
        return _put_number(out, pos, kind << 3, value)
    return pos


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _event_size(
    row: cython.longlong,
    type_id: cython.const[cython.longlong][::1],
    offset: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    counted: cython.const[cython.uchar][::1],
    stat_begin: cython.const[cython.longlong][::1],
    key: cython.const[cython.longlong][::1],
    kind: cython.const[cython.uchar][::1],
    value: cython.const[cython.longlong][::1],
    length: cython.const[cython.int][::1],
) -> cython.longlong:
    stat: cython.longlong
    inner: cython.longlong
    size: cython.longlong = 1 + varint_size(cython.cast(cython.ulonglong, type_id[row]))
    if counted[row] or offset[row] != 0:
        size += 1 + varint_size(cython.cast(cython.ulonglong, offset[row]))
    if dur[row] != 0:
        size += 1 + varint_size(cython.cast(cython.ulonglong, dur[row]))
    for stat in range(stat_begin[row], stat_begin[row + 1]):
        inner = _stat_size(key[stat], kind[stat], value[stat], length[stat])
        size += 1 + varint_size(cython.cast(cython.ulonglong, inner)) + inner
    return size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _stats_fit(
    events: cython.longlong,
    stat_begin: cython.const[cython.longlong][::1],
    kind: cython.const[cython.uchar][::1],
    value: cython.const[cython.longlong][::1],
    length: cython.const[cython.int][::1],
    texts: cython.longlong,
) -> cython.bint:
    """Return whether stat ranges, kinds and texts of all events are valid."""
    row: cython.longlong
    if stat_begin[0] != 0 or stat_begin[events] != kind.shape[0]:
        return False
    for row in range(events):
        if stat_begin[row] > stat_begin[row + 1]:
            return False
    for row in range(kind.shape[0]):
        if kind[row] > 7 or kind[row] == 1:
            return False
        if kind[row] in {5, 6} and (
            value[row] < 0 or length[row] < 0 or length[row] > texts - value[row]
        ):
            return False
    return True


@cython.ccall
def encode_line_events(
    type_id: cython.const[cython.longlong][::1],
    offset: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    counted: cython.const[cython.uchar][::1],
    stat_begin: cython.const[cython.longlong][::1],
    key: cython.const[cython.longlong][::1],
    kind: cython.const[cython.uchar][::1],
    value: cython.const[cython.longlong][::1],
    length: cython.const[cython.int][::1],
    texts: cython.const[cython.uchar][::1],
    out: cython.uchar[::1],
) -> cython.longlong:
    """Write the event fields of a line, in the order of the rows.

    Event r has the stats [stat_begin[r], stat_begin[r + 1]). If `counted` is nonzero
    for an event, its `offset` is the number of occurrences. Ids are those of the
    plane's metadata maps. Kind, value and length of a stat are as in the decoder's
    columns: a text is an offset into `texts`, a reference is an id of stat metadata.

    Returns:
        The number of bytes written, or needed if `out` is empty; or an error code:
        `NO_ROOM` or `BAD_RANGE` (also for an unknown kind or a text outside `texts`).
    """
    row: cython.longlong
    stat: cython.longlong
    size: cython.longlong
    room: cython.longlong = out.shape[0]
    pos: cython.longlong = 0
    if (
        type_id.shape[0] != offset.shape[0]
        or type_id.shape[0] != dur.shape[0]
        or type_id.shape[0] != counted.shape[0]
        or type_id.shape[0] + 1 != stat_begin.shape[0]
        or key.shape[0] != kind.shape[0]
        or key.shape[0] != value.shape[0]
        or key.shape[0] != length.shape[0]
    ):
        return BAD_RANGE
    with cython.nogil:
        if not _stats_fit(
            type_id.shape[0], stat_begin, kind, value, length, texts.shape[0]
        ):
            return -3
        for row in range(type_id.shape[0]):
            size = _event_size(
                row, type_id, offset, dur, counted, stat_begin, key, kind, value, length
            )
            if room == 0:
                pos += 1 + varint_size(cython.cast(cython.ulonglong, size)) + size
                continue
            # Tag and length take at most 11 bytes.
            if size + 11 > room - pos and (
                1 + varint_size(cython.cast(cython.ulonglong, size)) + size > room - pos
            ):
                return -1
            pos = _put_number(out, pos, 0x22, size)
            pos = _put_number(out, pos, 0x08, type_id[row])
            if counted[row] == 0 and offset[row] != 0:
                pos = _put_number(out, pos, 0x10, offset[row])
            if dur[row] != 0:
                pos = _put_number(out, pos, 0x18, dur[row])
            for stat in range(stat_begin[row], stat_begin[row + 1]):
                size = _stat_size(key[stat], kind[stat], value[stat], length[stat])
                pos = _put_number(out, pos, 0x22, size)
                pos = _put_stat(
                    out, pos, key[stat], kind[stat], value[stat], length[stat], texts
                )
            if counted[row]:
                pos = _put_number(out, pos, 0x28, offset[row])
    return pos
