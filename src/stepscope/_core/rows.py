# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Rows of one track, by their codes, and sets of instants.

Rows ascend by start. A *set* is a pair of arrays of equal length, start and end, whose
intervals are not empty, ascend and neither overlap nor touch. What rows say of times
beyond ±(2**62 - 1) is cut off. Each kernel is one walk over the rows.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from stepscope._core import _shim as cython
if not cython.compiled:
    from stepscope._core import _shim as cython

__all__ = ["BAD_RANGE", "NO_ROOM", "OUT_OF_ORDER", "meeting", "union_quick"]

#: An output array is smaller than the contract says.
NO_ROOM = -1
#: A row starts before its predecessor.
OUT_OF_ORDER = -2
#: Rows beyond an array, or arrays of different lengths.
BAD_RANGE = -3


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _union_quick(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    code: cython.const[cython.uchar][::1],
    begins: cython.const[cython.uchar][::1],
    most: cython.longlong,
    begin: cython.longlong,
    end: cython.longlong,
    out: cython.longlong[:, ::1],
) -> cython.longlong:
    row: cython.longlong
    starts: cython.longlong
    ends: cython.longlong
    is_last: cython.longlong
    count: cython.longlong = 0
    limit: cython.longlong = 0x3FFF_FFFF_FFFF_FFFF
    # The begin whose successor is looked for.
    before: cython.longlong = -1
    opens: cython.longlong = 0
    closes: cython.longlong = 0
    for row in range(begin, end + 1):
        is_last = row == end
        if not is_last:
            if begins[code[row]] == 0:
                continue
            if before >= 0 and start[row] < start[before]:
                return -2
        if before >= 0 and start[before] < limit:
            starts = start[before]
            ends = starts
            if not is_last and start[row] <= starts + most:
                ends = start[row]
            elif 0 < dur[before] <= most:
                ends = starts + dur[before]
            starts = max(starts, -limit)
            ends = min(ends, limit)
            if starts < ends:
                if opens == closes:
                    opens = starts
                    closes = ends
                elif starts <= closes:
                    closes = max(closes, ends)
                else:
                    out[0, count] = opens
                    out[1, count] = closes
                    count += 1
                    opens = starts
                    closes = ends
        before = row
    if opens < closes:
        out[0, count] = opens
        out[1, count] = closes
        count += 1
    return count


def union_quick(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    code: cython.const[cython.uchar][::1],
    begins: cython.const[cython.uchar][::1],
    most: cython.longlong,
    begin: cython.longlong,
    end: cython.longlong,
    out: cython.longlong[:, ::1],
) -> cython.longlong:
    """Write the set of what lies between quickly succeeding begins.

    Rows [begin, end) whose code is marked in `begins` (256 places) are begins; they
    ascend. Each covers what lies before the next one if that is at most `most` later,
    else its own duration, if that is at most as long. The outputs need one place per
    row.

    Returns:
        The number of intervals; or `OUT_OF_ORDER`, `NO_ROOM`, `BAD_RANGE`.
    """
    if begin < 0 or begin > end or end > start.shape[0] or end > dur.shape[0]:
        return BAD_RANGE
    if end > code.shape[0] or begins.shape[0] != 256 or out.shape[0] != 2:
        return BAD_RANGE
    # Beyond it the end of a begin could overflow.
    if most < 0 or most > 0x3FFF_FFFF_FFFF_FFFF:
        return BAD_RANGE
    if out.shape[1] < end - begin:
        return NO_ROOM
    if not cython.compiled:
        start, dur, code = memoryview(start), memoryview(dur), memoryview(code)
        begins, out = memoryview(begins), memoryview(out)
    with cython.nogil:
        found: cython.longlong = _union_quick(
            start, dur, code, begins, most, begin, end, out
        )
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _meeting(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    code: cython.const[cython.uchar][::1],
    wanted: cython.const[cython.uchar][::1],
    set_start: cython.const[cython.longlong][::1],
    set_end: cython.const[cython.longlong][::1],
    outermost: cython.longlong,
    out: cython.longlong[::1],
) -> cython.longlong:
    row: cython.longlong
    starts: cython.longlong
    ends: cython.longlong
    is_inner: cython.longlong
    count: cython.longlong = 0
    i: cython.longlong = 0
    n: cython.longlong = set_start.shape[0]
    limit: cython.longlong = 0x7FFF_FFFF_FFFF_FFFF
    before: cython.longlong = -limit - 1
    reach: cython.longlong = before
    for row in range(start.shape[0]):
        starts = start[row]
        if starts < before:
            return -2
        before = starts
        while i < n and set_end[i] <= starts:
            i += 1
        if i == n:
            break
        if wanted[code[row]] == 0 or dur[row] <= 0:
            continue
        ends = limit
        if starts < 0 or dur[row] < limit - starts:
            ends = starts + dur[row]
        is_inner = starts < reach
        reach = max(reach, ends)
        if set_start[i] < ends and not (outermost and is_inner):
            out[count] = row
            count += 1
    return count


def meeting(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    code: cython.const[cython.uchar][::1],
    wanted: cython.const[cython.uchar][::1],
    set_start: cython.const[cython.longlong][::1],
    set_end: cython.const[cython.longlong][::1],
    outermost: cython.longlong,
    out: cython.longlong[::1],
) -> cython.longlong:
    """Write the rows that last a while, have a wanted code and meet a set.

    The starts of the rows ascend; `wanted` has 256 places. With `outermost` a row that
    starts before an earlier wanted row has ended is left out. The output needs one
    place per row.

    Returns:
        The number of rows; or `OUT_OF_ORDER`, `NO_ROOM`, `BAD_RANGE`.
    """
    if (
        dur.shape[0] != start.shape[0]
        or code.shape[0] != start.shape[0]
        or wanted.shape[0] != 256
        or set_end.shape[0] != set_start.shape[0]
    ):
        return BAD_RANGE
    if out.shape[0] < start.shape[0]:
        return NO_ROOM
    if not cython.compiled:
        start, dur, code = memoryview(start), memoryview(dur), memoryview(code)
        wanted, out = memoryview(wanted), memoryview(out)
        set_start, set_end = memoryview(set_start), memoryview(set_end)
    with cython.nogil:
        found: cython.longlong = _meeting(
            start, dur, code, wanted, set_start, set_end, outermost, out
        )
    return found
