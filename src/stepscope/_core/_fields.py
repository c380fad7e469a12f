"""Read and write numbers and fields of protobuf's wire format, and look up ids.

The build copies these functions into every kernel module that imports them, because C
can inline functions only within a module.

Every read except `read_fixed` is checked against the end of the enclosing message. A
checked read returns position -1 where the message is malformed: a number of more than
ten bytes, a length beyond the message, field number 0, a field number of more than 29
bits, a group, or an undefined wire type. Bits above the 64th are dropped.
"""

from __future__ import annotations

from stepscope._core._shim import cython


@cython.cfunc
@cython.inline
@cython.nogil
@cython.returns((cython.ulonglong, cython.longlong))
@cython.exceptval(check=False)
def read_varint(
    data: cython.const[cython.uchar][::1], pos: cython.longlong, end: cython.longlong
) -> tuple[cython.ulonglong, cython.longlong]:
    """Return the number at `pos` and the position after it (-1 if malformed)."""
    value: cython.ulonglong
    shift: cython.int = 7
    byte: cython.ulonglong
    if pos >= end:
        return 0, -1
    value = data[pos]
    pos += 1
    if value < 0x80:
        return value, pos
    value &= 0x7F
    while pos < end and shift < 70:
        byte = data[pos]
        pos += 1
        value |= cython.cast(cython.ulonglong, (byte & 0x7F) << shift)
        if byte < 0x80:
            return value, pos
        shift += 7
    return 0, -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.returns((cython.longlong, cython.longlong))
@cython.exceptval(check=False)
def read_sized(
    data: cython.const[cython.uchar][::1], pos: cython.longlong, end: cython.longlong
) -> tuple[cython.longlong, cython.longlong]:
    """Return begin and end of the value whose length is at `pos`, or (0, -1)."""
    size: cython.ulonglong
    size, pos = read_varint(data, pos, end)
    if pos < 0 or size > cython.cast(cython.ulonglong, end - pos):
        return 0, -1
    return pos, pos + cython.cast(cython.longlong, size)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def read_fixed(
    data: cython.const[cython.uchar][::1], pos: cython.longlong, size: cython.int
) -> cython.ulonglong:
    """Return little-endian bytes at `pos` as a number; the caller checks bounds."""
    value: cython.ulonglong = 0
    k: cython.int
    for k in range(size):
        value |= cython.cast(cython.ulonglong, data[pos + k]) << (8 * k)
    return value


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def skip_field(
    data: cython.const[cython.uchar][::1],
    tag: cython.ulonglong,
    pos: cython.longlong,
    end: cython.longlong,
) -> cython.longlong:
    """Return the position after the value whose tag ends at `pos`, or -1."""
    _value: cython.ulonglong
    _start: cython.longlong
    wire: cython.ulonglong = tag & 7
    if tag < 8 or (tag >> 32) != 0:
        return -1
    if wire == 0:
        _value, pos = read_varint(data, pos, end)
        return pos
    if wire == 2:
        _start, pos = read_sized(data, pos, end)
        return pos
    if wire == 1 and end - pos >= 8:
        return pos + 8
    if wire == 5 and end - pos >= 4:
        return pos + 4
    return -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def varint_size(value: cython.ulonglong) -> cython.longlong:
    size: cython.longlong = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def write_varint(
    out: cython.uchar[::1], pos: cython.longlong, value: cython.ulonglong
) -> cython.longlong:
    """Write a number and return the position after it; the caller checks the space."""
    while value >= 0x80:
        out[pos] = cython.cast(cython.uchar, (value & 0x7F) | 0x80)
        value >>= 7
        pos += 1
    out[pos] = cython.cast(cython.uchar, value)
    return pos + 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def find_id(
    ids: cython.const[cython.ulonglong][::1], wanted: cython.ulonglong
) -> cython.longlong:
    """Return the index of an id in an array of ascending ids, or -1."""
    low: cython.longlong = 0
    high: cython.longlong = ids.shape[0]
    middle: cython.longlong
    while low < high:
        middle = (low + high) >> 1
        if ids[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    if low < ids.shape[0] and ids[low] == wanted:
        return low
    return -1
