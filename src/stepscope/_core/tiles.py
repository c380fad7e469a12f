# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Levels of detail of a timeline, made when they are asked for.

A *lane* holds rows that ascend and do not overlap, as those of one depth of a track do.
The lanes of all tracks stand one after the other in `rows`; a place in it is a
*position*, and lane `k` has the positions [edges[k], edges[k + 1]). Besides, `before`
has for each position the durations of the earlier ones of its lane added up, and
`longest` for each block of `BLOCK` positions the one that lasts longest.

`fold` walks a window in buckets of equal width. As rows do not overlap, only the last
of those that start in a bucket can be as wide as the bucket: it comes as it is, and
those before it are one slice. The next bucket is found by doubling steps from a guess
and bisection, what ran in a slice is a difference of two sums, and the longest comes
from the blocks: the cost follows the buckets, not the rows.

Times are cut at ±(2**62 - 1), so that no sum or difference can overflow. What is not of
the contract in size gives `BAD_RANGE`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from stepscope._core import _shim as cython
if not cython.compiled:
    from stepscope._core import _shim as cython

__all__ = [
    "BAD_RANGE",
    "BLOCK",
    "COLUMNS",
    "NO_ROOM",
    "OVERLAP",
    "count_lanes",
    "fill_lanes",
    "find_longest",
    "fold",
]

#: The output holds fewer slices than the window has.
NO_ROOM = -1
#: A row starts before an earlier one of its lane has ended.
OVERLAP = -2
#: Numbers beyond an array, or arrays whose lengths do not belong together.
BAD_RANGE = -3

#: Positions of a block of `longest`.
BLOCK = 16
#: Rows of the output of `fold`.
COLUMNS = 7


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _from(start: cython.longlong) -> cython.longlong:
    limit: cython.longlong = 0x3FFF_FFFF_FFFF_FFFF
    return max(-limit, min(limit, start))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _until(start: cython.longlong, dur: cython.longlong) -> cython.longlong:
    limit: cython.longlong = 0x3FFF_FFFF_FFFF_FFFF
    begins: cython.longlong = _from(start)
    if dur <= 0:
        return begins
    if start < 0:
        # The sum of a negative and a positive number is of no danger.
        return max(-limit, min(limit, start + dur))
    return limit if dur > limit - begins else begins + dur


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _count_lanes(
    lane: cython.const[cython.int][::1], count: cython.longlong[::1]
) -> cython.longlong:
    row: cython.longlong
    drawn: cython.longlong = 0
    for row in range(lane.shape[0]):
        if lane[row] < 0:
            continue
        if lane[row] >= count.shape[0]:
            return -3
        count[lane[row]] += 1
        drawn += 1
    return drawn


def count_lanes(
    lane: cython.const[cython.int][::1], count: cython.longlong[::1]
) -> cython.longlong:
    """Add to `count` how many rows each lane has; a row of lane -1 has no place.

    Returns:
        The number of rows with a lane, or `BAD_RANGE`.
    """
    if not cython.compiled:
        lane, count = memoryview(lane), memoryview(count)
    with cython.nogil:
        found: cython.longlong = _count_lanes(lane, count)
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fill_lanes(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    lane: cython.const[cython.int][::1],
    edges: cython.const[cython.longlong][::1],
    state: cython.longlong[:, ::1],
    rows: cython.int[::1],
    before: cython.longlong[::1],
) -> cython.longlong:
    row: cython.longlong
    mine: cython.longlong
    place: cython.longlong
    begins: cython.longlong
    ends: cython.longlong
    lanes: cython.longlong = edges.shape[0] - 1
    filled: cython.longlong = 0
    # How many rows a lane has got, when the last of them ends, and how long they ran.
    for mine in range(lanes):
        state[0, mine] = 0
        state[1, mine] = -0x3FFF_FFFF_FFFF_FFFF
        state[2, mine] = 0
        if edges[mine] < 0 or edges[mine] > edges[mine + 1]:
            return -3
    if lanes > 0 and edges[lanes] > rows.shape[0]:
        return -3
    for row in range(lane.shape[0]):
        mine = lane[row]
        if mine < 0:
            continue
        if mine >= lanes:
            return -3
        place = edges[mine] + state[0, mine]
        if place >= edges[mine + 1]:
            return -3
        begins = _from(start[row])
        if begins < state[1, mine]:
            return -2
        ends = _until(start[row], dur[row])
        rows[place] = cython.cast(cython.int, row)
        before[place] = state[2, mine]
        state[0, mine] += 1
        state[1, mine] = ends
        state[2, mine] += ends - begins
        filled += 1
    return filled


def fill_lanes(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    lane: cython.const[cython.int][::1],
    edges: cython.const[cython.longlong][::1],
    state: cython.longlong[:, ::1],
    rows: cython.int[::1],
    before: cython.longlong[::1],
) -> cython.longlong:
    """Put every row into its lane, in the order in which the rows stand.

    Args:
        start: By row.
        dur: By row; below 1 it is an instant.
        lane: By row; -1 for a row that is not drawn.
        edges: Sums of what `count_lanes` counted, from 0 on: one more than lanes.
        state: The kernel's own room, three by lanes.
        rows: Receives the row of each position.
        before: Receives for each position what its lane's earlier rows last.

    Returns:
        The number of positions; or `OVERLAP`, `BAD_RANGE`.
    """
    if (
        start.shape[0] != lane.shape[0]
        or dur.shape[0] != lane.shape[0]
        or lane.shape[0] > 0x7FFF_FFFF
        or edges.shape[0] < 1
        or state.shape[0] != 3
        or state.shape[1] < edges.shape[0] - 1
        or before.shape[0] != rows.shape[0]
    ):
        return BAD_RANGE
    if not cython.compiled:
        start, dur, lane = memoryview(start), memoryview(dur), memoryview(lane)
        edges, state = memoryview(edges), memoryview(state)
        rows, before = memoryview(rows), memoryview(before)
    with cython.nogil:
        found: cython.longlong = _fill_lanes(
            start, dur, lane, edges, state, rows, before
        )
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _find_longest(
    dur: cython.const[cython.longlong][::1],
    rows: cython.const[cython.int][::1],
    longest: cython.int[::1],
) -> cython.longlong:
    place: cython.longlong
    row: cython.longlong
    lasts: cython.longlong
    most: cython.longlong = 0
    for place in range(rows.shape[0]):
        row = rows[place]
        if row < 0 or row >= dur.shape[0]:
            return -3
        lasts = dur[row]
        if place % 16 == 0 or lasts > most:
            most = lasts
            longest[place // 16] = cython.cast(cython.int, place)
    return rows.shape[0]


def find_longest(
    dur: cython.const[cython.longlong][::1],
    rows: cython.const[cython.int][::1],
    longest: cython.int[::1],
) -> cython.longlong:
    """Write for each block of positions which lasts longest, the first of equals.

    Returns:
        The number of positions; or `NO_ROOM`, `BAD_RANGE`.
    """
    if rows.shape[0] > 0x7FFF_FFFF:
        return BAD_RANGE
    if longest.shape[0] * BLOCK < rows.shape[0]:
        return NO_ROOM
    if not cython.compiled:
        dur, rows, longest = memoryview(dur), memoryview(rows), memoryview(longest)
    with cython.nogil:
        found: cython.longlong = _find_longest(dur, rows, longest)
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _first_from(
    start: cython.const[cython.longlong][::1],
    rows: cython.const[cython.int][::1],
    begin: cython.longlong,
    end: cython.longlong,
    guess: cython.longlong,
    time: cython.longlong,
) -> cython.longlong:
    """The first position of [begin, end) that starts at or after a time, else `end`.

    The search goes from a guess in growing steps: the better it is, the fewer starts
    are looked at, each of which may lie anywhere in memory.
    """
    middle: cython.longlong
    low: cython.longlong
    high: cython.longlong
    step: cython.longlong = 1
    guess = max(begin, min(guess, end))
    if guess < end and _from(start[rows[guess]]) < time:
        low = guess
        high = guess + 1
        while high < end and _from(start[rows[high]]) < time:
            low = high
            high = min(end, high + step)
            step += step
    else:
        high = guess
        low = guess - 1
        while low >= begin and _from(start[rows[low]]) >= time:
            high = low
            low = max(begin - 1, low - step)
            step += step
    while high - low > 1:
        middle = low + (high - low) // 2
        if _from(start[rows[middle]]) < time:
            low = middle
        else:
            high = middle
    return high


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _longest_of(
    dur: cython.const[cython.longlong][::1],
    rows: cython.const[cython.int][::1],
    before: cython.const[cython.longlong][::1],
    longest: cython.const[cython.int][::1],
    begin: cython.longlong,
    end: cython.longlong,
) -> cython.longlong:
    """The position of [begin, end), not empty and of one lane, that lasts longest.

    What a position lasts is what it adds to the sums, which stand side by side; only
    the last one has to be looked up.
    """
    candidate: cython.longlong
    lasts: cython.longlong
    best: cython.longlong = end - 1
    most: cython.longlong = max(0, dur[rows[best]])
    place: cython.longlong = begin
    while place < end:
        candidate = place
        if place % 16 == 0 and place + 16 <= end:
            candidate = longest[place // 16]
            place += 16
        else:
            place += 1
        if candidate == end - 1:
            continue
        lasts = before[candidate + 1] - before[candidate]
        if lasts > most or (lasts == most and candidate < best):
            most = lasts
            best = candidate
    return best


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _write(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    rows: cython.const[cython.int][::1],
    before: cython.const[cython.longlong][::1],
    longest: cython.const[cython.int][::1],
    lane: cython.longlong,
    begin: cython.longlong,
    end: cython.longlong,
    out: cython.longlong[:, ::1],
    count: cython.longlong,
) -> cython.longlong:
    """One slice of the positions [begin, end), not empty."""
    first: cython.longlong = rows[begin]
    last: cython.longlong = rows[end - 1]
    main: cython.longlong = begin
    ends: cython.longlong = _until(start[last], dur[last])
    if count >= out.shape[1]:
        return -1
    if end - begin > 1:
        main = _longest_of(dur, rows, before, longest, begin, end)
    out[0, count] = lane
    out[1, count] = begin
    out[2, count] = end - begin
    out[3, count] = rows[main]
    out[4, count] = _from(start[first])
    out[5, count] = ends
    out[6, count] = before[end - 1] - before[begin] + (ends - _from(start[last]))
    return count + 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.cdivision(True)  # noqa: FBT003 - Cython's spelling; nothing negative divides
def _fold(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    rows: cython.const[cython.int][::1],
    before: cython.const[cython.longlong][::1],
    longest: cython.const[cython.int][::1],
    edges: cython.const[cython.longlong][::1],
    begin: cython.longlong,
    end: cython.longlong,
    bucket: cython.longlong,
    out: cython.longlong[:, ::1],
) -> cython.longlong:
    lane: cython.longlong
    row: cython.longlong
    place: cython.longlong
    after: cython.longlong
    edge: cython.longlong
    last: cython.longlong
    stride: cython.longlong
    count: cython.longlong = 0
    for lane in range(edges.shape[0] - 1):
        last = edges[lane + 1]
        place = edges[lane] + (last - edges[lane]) // 2
        place = _first_from(start, rows, edges[lane], last, place, begin)
        stride = 0
        if place > edges[lane]:
            row = rows[place - 1]
            if _until(start[row], dur[row]) > begin:
                place -= 1
        while place < last and count >= 0:
            row = rows[place]
            edge = _from(start[row])
            if edge >= end:
                break
            if edge < begin or _until(start[row], dur[row]) - edge >= bucket:
                after = place + 1
            else:
                edge = min(end, begin + ((edge - begin) // bucket + 1) * bucket)
                # Buckets side by side often hold nearly as many.
                after = _first_from(start, rows, place + 1, last, place + stride, edge)
                stride = after - place
                row = rows[after - 1]
                if _until(start[row], dur[row]) - _from(start[row]) >= bucket:
                    after -= 1
            count = _write(
                start, dur, rows, before, longest, lane, place, after, out, count
            )
            place = after
        if count < 0:
            break
    return count


def fold(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    rows: cython.const[cython.int][::1],
    before: cython.const[cython.longlong][::1],
    longest: cython.const[cython.int][::1],
    edges: cython.const[cython.longlong][::1],
    begin: cython.longlong,
    end: cython.longlong,
    bucket: cython.longlong,
    out: cython.longlong[:, ::1],
) -> cython.longlong:
    """The slices of some neighbouring lanes in the window [begin, end).

    A row that lasts at least a bucket is a slice of its own; so is one that began
    before the window and runs into it. The others that start in the same bucket are
    one slice. Buckets count from `begin`, the last one may be cut by `end`, and a
    bucket of 0 folds nothing. An empty window has no slices.

    Args:
        start: By row.
        dur: By row.
        rows: From `fill_lanes`.
        before: From `fill_lanes`.
        longest: From `find_longest`.
        edges: The part of `edges` that the lanes have, one more than there are lanes.
        begin: Of the window; cut as all times are.
        end: Likewise.
        bucket: At least 0 and below 2**62.
        out: Receives, by lane and then by time, for each slice: the lane, counted from
            the first of these; the first position; how many rows; the row that lasts
            longest, the first of equals; start of the first; end of the last; and how
            long they last together.

    Returns:
        The number of slices, of which a lane has at most two for each bucket and one
        more, and never more than rows; or `NO_ROOM`, `BAD_RANGE`.
    """
    lane: cython.longlong
    if (
        dur.shape[0] != start.shape[0]
        or before.shape[0] != rows.shape[0]
        or longest.shape[0] * BLOCK < rows.shape[0]
        or edges.shape[0] < 1
        or edges[0] < 0
        or bucket < 0
        or bucket > 0x3FFF_FFFF_FFFF_FFFF
        or out.shape[0] != COLUMNS
    ):
        return BAD_RANGE
    for lane in range(edges.shape[0] - 1):
        if edges[lane] > edges[lane + 1] or edges[lane + 1] > rows.shape[0]:
            return BAD_RANGE
    if not cython.compiled:
        start, dur, rows = memoryview(start), memoryview(dur), memoryview(rows)
        before, longest = memoryview(before), memoryview(longest)
        edges, out = memoryview(edges), memoryview(out)
    begin, end = _from(begin), _from(end)
    if end <= begin:
        return 0
    with cython.nogil:
        found: cython.longlong = _fold(
            start, dur, rows, before, longest, edges, begin, end, bucket, out
        )
    return found
