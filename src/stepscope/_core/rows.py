# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Rows of a track: nesting, lanes, rows that meet a set of times, enclosing rows.

Rows ascend by start. `nest_fitting_rows` nests the spans of one track that can be
nested and marks the others. `spread_lanes` puts each span on a lane that is free. Both
visit the rows once, in order: start ascending, then duration descending. Starts and
ends fit into 64 bits; a duration below 1 is an instant.

`rows_meeting_set` and `union_quick` choose rows by their codes. A *set* is a pair of
arrays of equal length, start and end, whose intervals are not empty, ascend and neither
overlap nor touch. Times beyond ±(2**62 - 1) are cut off.

`count_children`, `mark_calls` and `paint_codes` follow the parents that `nesting`
found; each parent comes before its children. These functions are not in `nesting`,
because the compiler then makes the loop of `nest_track_rows` 10 % slower.
"""

from __future__ import annotations

from stepscope._core._shim import cython

#: Depth of a span that overlaps an earlier span without being inside it.
APART = -1

#: The stack or an output array is too small.
NO_ROOM = -1
#: A row starts before its predecessor.
OUT_OF_ORDER = -2
#: Rows are outside an array, array lengths differ, `by_end` has row numbers that do not
#: exist, or a parent does not come before its child.
BAD_RANGE = -3


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _add_interval(
    out: cython.longlong[:, ::1],
    count: cython.longlong,
    starts: cython.longlong,
    ends: cython.longlong,
) -> cython.longlong:
    """Append or merge an interval, in order of begins; return the new count."""
    limit: cython.longlong = 0x3FFF_FFFF_FFFF_FFFF
    starts = max(starts, -limit)
    ends = min(ends, limit)
    if starts >= ends:
        return count
    if count > 0 and starts <= out[1, count - 1]:
        out[1, count - 1] = max(out[1, count - 1], ends)
        return count
    out[0, count] = starts
    out[1, count] = ends
    return count + 1


@cython.ccall
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
    """Write the set of the times between begins of which each soon follows another.

    Rows [begin, end) ascend; rows of code 0 are skipped. A row is a begin if its code
    is marked in `begins` (256 entries). Each begin adds the time until the next begin
    if this time is at most `most`, else its own duration if that is at most `most`. It
    also adds the gap from the end of all earlier rows to the begin, if the gap is at
    most `most`. The outputs need one entry per row.

    Returns:
        The number of intervals; or `OUT_OF_ORDER`, `NO_ROOM`, `BAD_RANGE`.
    """
    row: cython.longlong
    ends: cython.longlong
    count: cython.longlong = 0
    limit: cython.longlong = 0x3FFF_FFFF_FFFF_FFFF
    # The begin whose successor is sought; the previous row; the latest end of all rows.
    before: cython.longlong = -1
    previous: cython.longlong = -1
    reach: cython.longlong = 0
    if begin < 0 or begin > end or end > start.shape[0] or end > dur.shape[0]:
        return BAD_RANGE
    if end > code.shape[0] or begins.shape[0] != 256 or out.shape[0] != 2:
        return BAD_RANGE
    # Above this limit the end of a begin could overflow.
    if most < 0 or most > 0x3FFF_FFFF_FFFF_FFFF:
        return BAD_RANGE
    if out.shape[1] < end - begin:
        return NO_ROOM
    with cython.nogil:
        for row in range(begin, end):
            if code[row] == 0:
                continue
            if previous >= 0 and start[row] < start[previous]:
                return -2
            if begins[code[row]] != 0:
                if before >= 0 and start[before] < limit:
                    if start[row] <= start[before] + most:
                        count = _add_interval(out, count, start[before], start[row])
                    elif 0 < dur[before] <= most:
                        count = _add_interval(
                            out, count, start[before], start[before] + dur[before]
                        )
                if previous >= 0 and reach < start[row] <= reach + most:
                    count = _add_interval(out, count, reach, start[row])
                before = row
            # The end of the row, clipped to the limit.
            ends = min(start[row], limit)
            if dur[row] > 0:
                ends = limit
                if start[row] < 0 or dur[row] < limit - start[row]:
                    ends = min(start[row] + dur[row], limit)
            if previous < 0 or ends > reach:
                reach = ends
            previous = row
        if before >= 0 and start[before] < limit and 0 < dur[before] <= most:
            count = _add_interval(
                out, count, start[before], start[before] + dur[before]
            )
    return count


@cython.ccall
def rows_meeting_set(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    code: cython.const[cython.uchar][::1],
    wanted: cython.const[cython.uchar][::1],
    set_start: cython.const[cython.longlong][::1],
    set_end: cython.const[cython.longlong][::1],
    outermost: cython.longlong,
    out: cython.longlong[::1],
) -> cython.longlong:
    """Write the rows of nonzero duration and wanted code that overlap a set.

    The starts of the rows ascend. `wanted` has 256 entries. If `outermost` is nonzero,
    a row that starts before the end of an earlier wanted row is left out. The output
    needs one entry per row.

    Returns:
        The number of rows, or an error code: `OUT_OF_ORDER`, `NO_ROOM` or `BAD_RANGE`.
    """
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
    if (
        dur.shape[0] != start.shape[0]
        or code.shape[0] != start.shape[0]
        or wanted.shape[0] != 256
        or set_end.shape[0] != set_start.shape[0]
    ):
        return BAD_RANGE
    if out.shape[0] < start.shape[0]:
        return NO_ROOM
    with cython.nogil:
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


@cython.ccall
def nest_fitting_rows(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    chosen: cython.const[cython.uchar][::1],
    depth: cython.int[::1],
    stack: cython.longlong[::1],
) -> cython.longlong:
    """Nest the rows that can be nested; the others get the depth `APART`.

    A row gets `APART` if it begins inside a nested row and ends after that row.

    Args:
        start: Starts of the rows, ascending.
        dur: Durations of the rows; a negative one counts as 0.
        chosen: Nonzero for the rows to nest, the others are skipped; empty to nest all.
        depth: Receives the number of rows around each row: 0 for the outermost.
        stack: Scratch array; one entry per depth.

    Returns:
        The number of depths, or an error code: `NO_ROOM` or `BAD_RANGE`.
    """
    row: cython.longlong
    ends: cython.longlong
    every: cython.bint = chosen.shape[0] == 0
    height: cython.longlong = 0
    deepest: cython.longlong = 0
    room: cython.longlong = stack.shape[0]
    if (
        dur.shape[0] != start.shape[0]
        or depth.shape[0] != start.shape[0]
        or (chosen.shape[0] != start.shape[0] and chosen.shape[0] != 0)
    ):
        return BAD_RANGE
    with cython.nogil:
        for row in range(start.shape[0]):
            if not every and chosen[row] == 0:
                continue
            ends = start[row] + max(dur[row], 0)
            while height > 0 and stack[height - 1] <= start[row]:
                height -= 1
            if height > 0 and stack[height - 1] < ends:
                depth[row] = -1
                continue
            if height == room:
                return -1
            depth[row] = cython.cast(cython.int, height)
            stack[height] = ends
            height += 1
            deepest = max(deepest, height)
    return deepest


@cython.ccall
def spread_lanes(
    start: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    by_end: cython.const[cython.longlong][::1],
    lane: cython.int[::1],
    free: cython.int[::1],
) -> cython.longlong:
    """Give each row a lane on which no other row runs when it begins.

    The number of lanes is minimal: the maximum number of rows that run at one time.

    Args:
        start: Starts of the rows, ascending.
        end: Ends of the rows, none before its start.
        by_end: Row numbers, sorted by end and then by row.
        lane: Receives the lane of each row, from 0.
        free: Scratch array, as long as the rows.

    Returns:
        The number of lanes, or `BAD_RANGE`.
    """
    row: cython.longlong
    other: cython.longlong
    count: cython.longlong = start.shape[0]
    ended: cython.longlong = 0
    idle: cython.longlong = 0
    opened: cython.longlong = 0
    most: cython.longlong = 0
    if (
        end.shape[0] != count
        or by_end.shape[0] != count
        or lane.shape[0] != count
        or free.shape[0] != count
    ):
        return BAD_RANGE
    with cython.nogil:
        for row in range(count):
            while ended < count:
                other = by_end[ended]
                if other < 0 or other >= count:
                    return -3
                if other >= row or end[other] > start[row]:
                    break
                free[idle] = lane[other]
                idle += 1
                ended += 1
            if idle == opened:
                # No row runs: begin again with the first lane.
                idle = 0
                opened = 0
            if idle > 0:
                idle -= 1
                lane[row] = free[idle]
            else:
                lane[row] = cython.cast(cython.int, opened)
                opened += 1
                most = max(most, opened)
    return most


@cython.ccall
def count_children(
    parent: cython.const[cython.int][::1],
    chosen: cython.const[cython.uchar][::1],
    count: cython.int[::1],
) -> cython.longlong:
    """Count the rows directly inside each chosen row; `count` must begin as 0.

    Returns:
        The number of rows directly inside chosen rows, or `BAD_RANGE`.
    """
    row: cython.longlong
    above: cython.longlong
    found: cython.longlong = 0
    if (
        chosen.shape[0] != parent.shape[0]
        or count.shape[0] != parent.shape[0]
        or parent.shape[0] > 0x7FFF_FFFF
    ):
        return BAD_RANGE
    with cython.nogil:
        for row in range(parent.shape[0]):
            above = parent[row]
            if above >= row:
                return -3
            if above >= 0 and chosen[above]:
                count[above] += 1
                found += 1
    return found


@cython.ccall
def mark_calls(
    rows: cython.const[cython.int][::1],
    parent: cython.const[cython.int][::1],
    of_type: cython.const[cython.int][::1],
    is_op: cython.const[cython.uchar][::1],
    plain: cython.const[cython.uchar][::1],
    call: cython.uchar,
    way: cython.uchar,
    code: cython.uchar[::1],
    enclosing: cython.uchar[::1],
) -> cython.longlong:
    """Give launching rows the code `call`, and ops that enclose them the code `way`.

    Only a row whose code is marked in `plain` (256 entries) changes. `parent` is a
    smaller row number, or negative for none. `of_type` (by row) is an index into
    `is_op`. `enclosing` must begin as 0; it receives 1 for rows around a launching row.

    Returns:
        The number of rows that enclose a launching row, or `BAD_RANGE`.
    """
    place: cython.longlong
    row: cython.longlong
    above: cython.longlong
    found: cython.longlong = 0
    if (
        of_type.shape[0] != parent.shape[0]
        or plain.shape[0] != 256
        or code.shape[0] != parent.shape[0]
        or enclosing.shape[0] != parent.shape[0]
    ):
        return BAD_RANGE
    with cython.nogil:
        for place in range(rows.shape[0]):
            row = rows[place]
            if row < 0 or row >= parent.shape[0]:
                return -3
            if plain[code[row]]:
                code[row] = call
        for place in range(rows.shape[0]):
            row = rows[place]
            above = parent[row]
            # The rows around a marked row are already marked.
            while above >= 0 and above < row and not enclosing[above]:
                enclosing[above] = 1
                found += 1
                if of_type[above] < 0 or of_type[above] >= is_op.shape[0]:
                    return -3
                if is_op[of_type[above]] and plain[code[above]]:
                    code[above] = way
                row = above
                above = parent[row]
            if above >= row:
                return -3
    return found


@cython.ccall
def paint_codes(
    parent: cython.const[cython.int][::1],
    sticky: cython.const[cython.uchar][::1],
    code: cython.uchar[::1],
) -> cython.longlong:
    """Pass codes on to nested rows, in place.

    Inside a row whose code is marked in `sticky` (256 entries) every row gets that
    code, unless its own code is sticky. Elsewhere a row of code 0 gets the code of the
    nearest enclosing row with another code. `parent` is a smaller row number, or
    negative for none.

    Returns:
        The number of rows that got the code of an enclosing row, or `BAD_RANGE`.
    """
    row: cython.longlong
    above: cython.longlong
    found: cython.longlong = 0
    if code.shape[0] != parent.shape[0] or sticky.shape[0] != 256:
        return BAD_RANGE
    with cython.nogil:
        for row in range(parent.shape[0]):
            above = parent[row]
            if above >= row:
                return -3
            if above < 0 or sticky[code[row]]:
                continue
            if code[row] == 0 or sticky[code[above]]:
                code[row] = code[above]
                found += 1
    return found
