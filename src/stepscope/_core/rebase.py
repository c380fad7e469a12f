# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Copying of events into another message, with new ids and in a chosen order.

Ids of names are valid within one plane only. When lines of several planes are merged
into one plane, `rewrite_events` writes their events with new ids from tables and copies
all other fields unchanged, including unknown ones. `event_times` reads the times by
which events are sorted. Malformed events are refused.
"""

from __future__ import annotations

from stepscope._core._fields import (
    find_id,
    read_varint,
    skip_field,
    varint_size,
    write_varint,
)
from stepscope._core._shim import cython

#: An event violates the wire format.
MALFORMED = -1
#: The output is too small, an event is outside the data, or array lengths differ.
BAD_RANGE = -3


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_varint(
    out: cython.uchar[::1],
    pos: cython.longlong,
    value: cython.ulonglong,
    write: cython.bint,
) -> cython.longlong:
    """Write a number if `write` is set, and return the position after it."""
    return write_varint(out, pos, value) if write else pos + varint_size(value)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _mapped_id(
    value: cython.ulonglong,
    keys: cython.const[cython.ulonglong][::1],
    values: cython.const[cython.ulonglong][::1],
    missing: cython.ulonglong,
) -> cython.ulonglong:
    """Return the value for an id in a table with ascending keys, else `missing`."""
    row: cython.longlong = find_id(keys, value)
    return values[row] if row >= 0 else missing


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _rewrite_stat(
    data: cython.const[cython.uchar][::1],
    pos: cython.longlong,
    end: cython.longlong,
    keys: cython.const[cython.ulonglong][::1],
    values: cython.const[cython.ulonglong][::1],
    missing: cython.ulonglong,
    out: cython.uchar[::1],
    at: cython.longlong,
    write: cython.bint,
) -> cython.longlong:
    """Write a stat's body with new ids for its name and its reference value."""
    tag: cython.ulonglong
    value: cython.ulonglong
    start: cython.longlong
    after: cython.longlong
    k: cython.longlong
    named: cython.bint = 0
    while pos < end:
        start = pos
        tag, pos = read_varint(data, pos, end)
        if pos < 0:
            return -1
        # The fields metadata_id and ref_value.
        if tag in {0x08, 0x38}:
            value, pos = read_varint(data, pos, end)
            if pos < 0:
                return -1
            named = named or tag == 0x08
            at = _put_varint(out, at, tag, write)
            at = _put_varint(out, at, _mapped_id(value, keys, values, missing), write)
            continue
        after = skip_field(data, tag, pos, end)
        if after < 0:
            return -1
        if write:
            for k in range(after - start):
                out[at + k] = data[start + k]
        at += after - start
        pos = after
    if not named:
        # A missing id field means id 0, which may have a new id, too.
        value = _mapped_id(0, keys, values, missing)
        if value != 0:
            at = _put_varint(out, at, 0x08, write)
            at = _put_varint(out, at, value, write)
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _rewrite_event(
    data: cython.const[cython.uchar][::1],
    pos: cython.longlong,
    end: cython.longlong,
    type_keys: cython.const[cython.ulonglong][::1],
    type_values: cython.const[cython.ulonglong][::1],
    type_missing: cython.ulonglong,
    stat_keys: cython.const[cython.ulonglong][::1],
    stat_values: cython.const[cython.ulonglong][::1],
    stat_missing: cython.ulonglong,
    out: cython.uchar[::1],
    at: cython.longlong,
    write: cython.bint,
) -> cython.longlong:
    """Write an event's body with all ids replaced; return the position after it."""
    tag: cython.ulonglong
    value: cython.ulonglong
    start: cython.longlong
    after: cython.longlong
    size: cython.longlong
    k: cython.longlong
    named: cython.bint = 0
    while pos < end:
        start = pos
        tag, pos = read_varint(data, pos, end)
        if pos < 0:
            return -1
        if tag == 0x08:
            value, pos = read_varint(data, pos, end)
            if pos < 0:
                return -1
            named = 1
            at = _put_varint(out, at, tag, write)
            value = _mapped_id(value, type_keys, type_values, type_missing)
            at = _put_varint(out, at, value, write)
            continue
        after = skip_field(data, tag, pos, end)
        if after < 0:
            return -1
        if tag == 0x22:
            value, pos = read_varint(data, pos, end)
            size = _rewrite_stat(
                data, pos, after, stat_keys, stat_values, stat_missing, out, 0, 0
            )
            if size < 0:
                return -1
            at = _put_varint(out, at, tag, write)
            at = _put_varint(out, at, cython.cast(cython.ulonglong, size), write)
            if write:
                _rewrite_stat(
                    data, pos, after, stat_keys, stat_values, stat_missing, out, at, 1
                )
            at += size
        else:
            if write:
                for k in range(after - start):
                    out[at + k] = data[start + k]
            at += after - start
        pos = after
    if not named:
        value = _mapped_id(0, type_keys, type_values, type_missing)
        if value != 0:
            at = _put_varint(out, at, 0x08, write)
            at = _put_varint(out, at, value, write)
    return at


@cython.ccall
def rewrite_events(
    data: cython.const[cython.uchar][::1],
    begin: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    type_keys: cython.const[cython.ulonglong][::1],
    type_values: cython.const[cython.ulonglong][::1],
    type_missing: cython.ulonglong,
    stat_keys: cython.const[cython.ulonglong][::1],
    stat_values: cython.const[cython.ulonglong][::1],
    stat_missing: cython.ulonglong,
    out: cython.uchar[::1],
) -> cython.longlong:
    """Write the events with bodies [begin, end) as event fields, in row order.

    The keys of a table ascend. An id that is not in its table becomes `…_missing`. This
    should be an id without a name, so that the event gets no name of another plane.

    Returns:
        The number of bytes written, or needed if `out` is empty; or an error code:
        `MALFORMED` or `BAD_RANGE`.
    """
    row: cython.longlong
    size: cython.longlong
    whole: cython.longlong
    at: cython.longlong = 0
    write: cython.bint = out.shape[0] > 0
    if (
        begin.shape[0] != end.shape[0]
        or type_keys.shape[0] != type_values.shape[0]
        or stat_keys.shape[0] != stat_values.shape[0]
    ):
        return BAD_RANGE
    with cython.nogil:
        for row in range(begin.shape[0]):
            if begin[row] < 0 or end[row] > data.shape[0] or begin[row] > end[row]:
                return -3
            size = _rewrite_event(
                data,
                begin[row],
                end[row],
                type_keys,
                type_values,
                type_missing,
                stat_keys,
                stat_values,
                stat_missing,
                out,
                0,
                0,
            )
            if size < 0:
                return -1
            whole = _put_varint(out, 1, cython.cast(cython.ulonglong, size), 0) + size
            if write:
                if whole > out.shape[0] - at:
                    return -3
                out[at] = 0x22
                _rewrite_event(
                    data,
                    begin[row],
                    end[row],
                    type_keys,
                    type_values,
                    type_missing,
                    stat_keys,
                    stat_values,
                    stat_missing,
                    out,
                    _put_varint(out, at + 1, cython.cast(cython.ulonglong, size), 1),
                    1,
                )
            at += whole
    return at


@cython.ccall
def event_times(
    data: cython.const[cython.uchar][::1],
    begin: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    offset: cython.longlong[::1],
    dur: cython.longlong[::1],
) -> cython.longlong:
    """Read offset and duration of the events with bodies [begin, end).

    Returns:
        The number of rows, or an error code: `MALFORMED` or `BAD_RANGE`.
    """
    row: cython.longlong
    pos: cython.longlong
    last: cython.longlong
    tag: cython.ulonglong
    value: cython.ulonglong
    if (
        begin.shape[0] != end.shape[0]
        or begin.shape[0] != offset.shape[0]
        or begin.shape[0] != dur.shape[0]
    ):
        return -3
    with cython.nogil:
        for row in range(begin.shape[0]):
            pos, last = begin[row], end[row]
            if pos < 0 or last > data.shape[0]:
                return -3
            offset[row] = 0
            dur[row] = 0
            while pos < last:
                tag, pos = read_varint(data, pos, last)
                if pos < 0:
                    return -1
                if tag in {0x10, 0x18, 0x28}:
                    value, pos = read_varint(data, pos, last)
                    if tag == 0x10:
                        offset[row] = cython.cast(cython.longlong, value)
                    elif tag == 0x18:
                        dur[row] = cython.cast(cython.longlong, value)
                    else:
                        # A number of occurrences replaces the offset.
                        offset[row] = 0
                else:
                    pos = skip_field(data, tag, pos, last)
                if pos < 0:
                    return -1
    return begin.shape[0]
