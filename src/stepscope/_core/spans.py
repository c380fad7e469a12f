# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Interval algebra on sorted int64 arrays of half-open intervals.

A *set* is a pair of arrays of equal length, start and end, whose intervals are not
empty, ascend and neither overlap nor touch. So equal sets have equal arrays. A *list*
only has ascending starts; its intervals may be empty or overlap.

Times are within ±(2**62 - 1), so that no sum or difference of times can overflow. Two
functions take unchecked numbers of a file: `survey_track` counts times outside this
range, and `union_events` clips them. Every function is one pass, like the merging of
sorted lists. Functions return `BAD_RANGE` for arrays of wrong sizes.
"""

from __future__ import annotations

from stepscope._core._shim import cython

#: An output array is shorter than the function requires.
NO_ROOM = -1
#: A row starts before its predecessor.
OUT_OF_ORDER = -2
#: Rows are outside an array, or the arrays of a pair have different lengths.
BAD_RANGE = -3


@cython.ccall
def union_events(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    begin: cython.longlong,
    end: cython.longlong,
    out: cython.longlong[:, ::1],
) -> cython.longlong:
    """Write the set covered by the rows [begin, end), whose starts ascend.

    Rows with a duration below 1 cover nothing. The outputs need one entry per row.

    Returns:
        The number of intervals; or `OUT_OF_ORDER`, `NO_ROOM`, `BAD_RANGE`.
    """
    row: cython.longlong
    starts: cython.longlong
    ends: cython.longlong
    count: cython.longlong = 0
    limit: cython.longlong = 0x3FFF_FFFF_FFFF_FFFF
    # Begin and end of the open interval; equal while no interval is open.
    opens: cython.longlong = 0
    closes: cython.longlong = 0
    if begin < 0 or begin > end or end > start.shape[0] or end > dur.shape[0]:
        return BAD_RANGE
    if out.shape[0] != 2:
        return BAD_RANGE
    if out.shape[1] < end - begin:
        return NO_ROOM
    with cython.nogil:
        before: cython.longlong = start[begin] if begin < end else 0
        for row in range(begin, end):
            starts = start[row]
            if starts < before:
                return -2
            before = starts
            if dur[row] <= 0 or starts >= limit:
                continue
            ends = limit
            if starts < 0 or dur[row] < limit - starts:
                ends = starts + dur[row]
                ends = min(ends, limit)
                if starts < -limit:
                    starts = -limit
                    if ends <= starts:
                        continue
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
        if opens < closes:
            out[0, count] = opens
            out[1, count] = closes
            count += 1
    return count


@cython.ccall
def covered_before(
    start: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    before: cython.const[cython.longlong][::1],
    times: cython.const[cython.longlong][::1],
    out: cython.longlong[::1],
) -> cython.longlong:
    """Write for each time the length of the part of a set that is before it.

    `before` is the total length of all intervals before each interval. The search for a
    time starts at the result of the previous time and doubles its step. Ascending times
    take one pass; times in any other order take a binary search each.

    Returns:
        The number of times, or an error code: `NO_ROOM` or `BAD_RANGE`.
    """
    row: cython.longlong
    time: cython.longlong
    low: cython.longlong
    high: cython.longlong
    middle: cython.longlong
    step: cython.longlong
    n: cython.longlong = start.shape[0]
    # Number of intervals that start at or before the time; the next search starts here.
    begun: cython.longlong = 0
    if end.shape[0] != start.shape[0] or before.shape[0] < start.shape[0]:
        return BAD_RANGE
    if out.shape[0] < times.shape[0]:
        return NO_ROOM
    with cython.nogil:
        for row in range(times.shape[0]):
            time = times[row]
            low = begun - 1
            high = begun
            step = 1
            while high < n and start[high] <= time:
                low = high
                high = min(n, high + step)
                step += step
            while low >= 0 and start[low] > time:
                high = low
                low = max(-1, low - step)
                step += step
            while high - low > 1:
                middle = low + (high - low) // 2
                if start[middle] <= time:
                    low = middle
                else:
                    high = middle
            begun = high
            if begun == 0:
                out[row] = 0
            elif time < end[low]:
                out[row] = before[low] + (time - start[low])
            else:
                out[row] = before[low] + (end[low] - start[low])
    return times.shape[0]


@cython.ccall
def covered_until(
    start: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    times: cython.const[cython.longlong][::1],
    out: cython.longlong[::1],
) -> cython.longlong:
    """Write for each of ascending times the length of the part of a set before it.

    One pass over the set and the times, for sets without precomputed lengths.

    Returns:
        The number of times, or an error code: `OUT_OF_ORDER`, `NO_ROOM` or `BAD_RANGE`.
    """
    row: cython.longlong
    time: cython.longlong
    i: cython.longlong = 0
    n: cython.longlong = start.shape[0]
    covered: cython.longlong = 0
    if end.shape[0] != start.shape[0]:
        return BAD_RANGE
    if out.shape[0] < times.shape[0]:
        return NO_ROOM
    with cython.nogil:
        for row in range(times.shape[0]):
            time = times[row]
            if row > 0 and time < times[row - 1]:
                return -2
            while i < n and end[i] <= time:
                covered += end[i] - start[i]
                i += 1
            out[row] = covered
            if i < n and start[i] < time:
                out[row] += time - start[i]
    return times.shape[0]


@cython.cfunc
def _spans_fit(
    a_start: cython.const[cython.longlong][::1],
    a_end: cython.const[cython.longlong][::1],
    b_start: cython.const[cython.longlong][::1],
    b_end: cython.const[cython.longlong][::1],
    out: cython.longlong[:, ::1],
) -> cython.longlong:
    most: cython.longlong = a_start.shape[0] + b_start.shape[0]
    if a_start.shape[0] != a_end.shape[0] or b_start.shape[0] != b_end.shape[0]:
        return BAD_RANGE
    if out.shape[0] != 2:
        return BAD_RANGE
    if out.shape[1] < most:
        return NO_ROOM
    return 0


@cython.ccall
def union_sets(
    a_start: cython.const[cython.longlong][::1],
    a_end: cython.const[cython.longlong][::1],
    b_start: cython.const[cython.longlong][::1],
    b_end: cython.const[cython.longlong][::1],
    out: cython.longlong[:, ::1],
) -> cython.longlong:
    """Write the union of two lists; the outputs need one entry per input interval.

    Returns:
        The number of intervals, or an error code: `NO_ROOM` or `BAD_RANGE`.
    """
    i: cython.longlong = 0
    j: cython.longlong = 0
    n: cython.longlong = a_start.shape[0]
    m: cython.longlong = b_start.shape[0]
    count: cython.longlong = 0
    starts: cython.longlong
    ends: cython.longlong
    opens: cython.longlong = 0
    closes: cython.longlong = 0
    fits: cython.longlong = _spans_fit(a_start, a_end, b_start, b_end, out)
    if fits < 0:
        return fits
    with cython.nogil:
        while i < n or j < m:
            if j >= m or (i < n and a_start[i] <= b_start[j]):
                starts = a_start[i]
                ends = a_end[i]
                i += 1
            else:
                starts = b_start[j]
                ends = b_end[j]
                j += 1
            if ends <= starts:
                continue
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
        if opens < closes:
            out[0, count] = opens
            out[1, count] = closes
            count += 1
    return count


@cython.ccall
def intersect_sets(
    a_start: cython.const[cython.longlong][::1],
    a_end: cython.const[cython.longlong][::1],
    b_start: cython.const[cython.longlong][::1],
    b_end: cython.const[cython.longlong][::1],
    out: cython.longlong[:, ::1],
) -> cython.longlong:
    """Write the intersection of two sets; the output sizes are as for `union_sets`.

    Returns:
        The number of intervals, or an error code: `NO_ROOM` or `BAD_RANGE`.
    """
    i: cython.longlong = 0
    j: cython.longlong = 0
    n: cython.longlong = a_start.shape[0]
    m: cython.longlong = b_start.shape[0]
    count: cython.longlong = 0
    starts: cython.longlong
    a_ends: cython.longlong
    b_ends: cython.longlong
    fits: cython.longlong = _spans_fit(a_start, a_end, b_start, b_end, out)
    if fits < 0:
        return fits
    with cython.nogil:
        while i < n and j < m:
            starts = max(b_start[j], a_start[i])
            a_ends = a_end[i]
            b_ends = b_end[j]
            if starts < min(a_ends, b_ends):
                out[0, count] = starts
                out[1, count] = min(a_ends, b_ends)
                count += 1
            i += a_ends <= b_ends
            j += a_ends > b_ends
    return count


@cython.ccall
def subtract_sets(
    a_start: cython.const[cython.longlong][::1],
    a_end: cython.const[cython.longlong][::1],
    b_start: cython.const[cython.longlong][::1],
    b_end: cython.const[cython.longlong][::1],
    out: cython.longlong[:, ::1],
) -> cython.longlong:
    """Write the first set without the second; the output sizes are as for `union_sets`.

    Returns:
        The number of intervals, or an error code: `NO_ROOM` or `BAD_RANGE`.
    """
    i: cython.longlong
    j: cython.longlong = 0
    n: cython.longlong = a_start.shape[0]
    m: cython.longlong = b_start.shape[0]
    count: cython.longlong = 0
    starts: cython.longlong
    ends: cython.longlong
    gap_ends: cython.longlong
    fits: cython.longlong = _spans_fit(a_start, a_end, b_start, b_end, out)
    if fits < 0:
        return fits
    with cython.nogil:
        for i in range(n):
            starts = a_start[i]
            ends = a_end[i]
            while j < m and b_end[j] <= starts:
                j += 1
            while j < m:
                gap_ends = b_start[j]
                if gap_ends >= ends:
                    break
                # Written even if nothing of a is left, to spare a branch that is hard
                # to predict; the next interval then overwrites it.
                out[0, count] = starts
                out[1, count] = gap_ends
                count += starts < gap_ends
                starts = b_end[j]
                if starts >= ends:
                    # The interval of b may cover the next interval of a, too.
                    break
                j += 1
            if starts < ends:
                out[0, count] = starts
                out[1, count] = ends
                count += 1
    return count


@cython.ccall
def survey_track(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    begin: cython.longlong,
    end: cython.longlong,
    shift: cython.longlong,
    farthest: cython.longlong,
    found: cython.longlong[::1],
) -> cython.longlong:
    """Check the rows [begin, end) of a track before they are shifted.

    `found` receives three numbers: the rows with an impossible time (a start beyond
    ±`farthest` before or after the shift, or a duration below 0 or above `farthest`);
    the valid rows that break the row order of a track; and the last end of the valid
    rows after the shift, which is meaningless if there are none.

    Returns:
        The number of rows, or `BAD_RANGE`.
    """
    row: cython.longlong
    starts: cython.longlong
    lasts: cython.longlong
    before: cython.longlong = -farthest
    lasted: cython.longlong = farthest
    last: cython.longlong = -farthest
    odd: cython.longlong = 0
    disorder: cython.longlong = 0
    if (
        begin < 0
        or begin > end
        or end > start.shape[0]
        or end > dur.shape[0]
        or found.shape[0] != 3
        or farthest < 0
        or farthest > 0x3FFF_FFFF_FFFF_FFFF
        or shift < -farthest
        or shift > farthest
    ):
        return BAD_RANGE
    with cython.nogil:
        for row in range(begin, end):
            starts = start[row]
            lasts = dur[row]
            # The first comparisons ensure that neither sum overflows.
            if (
                starts < -farthest
                or starts > farthest
                or lasts < 0
                or lasts > farthest
                or starts + shift < -farthest
                or starts + shift > farthest
            ):
                odd += 1
                continue
            if starts < before or (starts == before and lasts > lasted):
                disorder += 1
            before = starts
            lasted = lasts
            last = max(last, starts + lasts)
        found[0] = odd
        found[1] = disorder
        found[2] = last + shift
    return end - begin
