# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Levels of detail of a timeline, made when they are asked for.

A *lane* holds rows that ascend and do not overlap, as those of one depth of a track do.
`rows` holds the lanes of all tracks one after the other; a place in it is a
*position*, and lane `k` has the positions [edges[k], edges[k + 1]). Each `BLOCK`
positions of a lane, from its first on, are a *block*: lane `k` has the blocks
[blocks[k], blocks[k + 1]). For each block, `lasting` has the sum of the durations and
the longest of them, and `longest` the row that lasts so long.

`fold` walks a window in buckets of equal width. As rows do not overlap, only the last
of those that start in a bucket can be as wide as the bucket: it comes as it is, and
those before it are one slice. The next bucket is found by doubling steps from a guess
and bisection. The time and the longest row of a slice come from the blocks, side by
side in memory: the cost follows the buckets and the blocks, not the rows, each of which
may lie anywhere.

Times are cut at ±(2**62 - 1), so that no sum or difference can overflow. Arrays of
wrong sizes give `BAD_RANGE`.
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
    "fold",
]

#: The output holds fewer slices than the window has.
NO_ROOM = -1
#: A row starts before an earlier one of its lane has ended.
OVERLAP = -2
#: Numbers beyond an array, or arrays whose lengths do not belong together.
BAD_RANGE = -3

#: Positions of a block.
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
        # The sum of a negative and a positive number cannot overflow.
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
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _lanes_fit(
    edges: cython.const[cython.longlong][::1],
    blocks: cython.const[cython.longlong][::1],
    rows: cython.longlong,
    room: cython.longlong,
) -> cython.bint:
    """Return whether all positions are rows and each lane has enough blocks."""
    lane: cython.longlong
    size: cython.longlong
    if edges.shape[0] < 1 or blocks.shape[0] != edges.shape[0]:
        return False
    if edges[0] < 0 or blocks[0] < 0:
        return False
    for lane in range(edges.shape[0] - 1):
        size = edges[lane + 1] - edges[lane]
        if size < 0 or edges[lane + 1] > rows or blocks[lane + 1] > room:
            return False
        if blocks[lane + 1] - blocks[lane] < (size + 15) // 16:
            return False
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fill_lanes(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    lane: cython.const[cython.int][::1],
    edges: cython.const[cython.longlong][::1],
    blocks: cython.const[cython.longlong][::1],
    state: cython.longlong[:, ::1],
    rows: cython.int[::1],
    lasting: cython.longlong[:, ::1],
    longest: cython.int[::1],
) -> cython.longlong:
    row: cython.longlong
    mine: cython.longlong
    block: cython.longlong
    begins: cython.longlong
    ends: cython.longlong
    lanes: cython.longlong = edges.shape[0] - 1
    filled: cython.longlong = 0
    # How many rows a lane has got, and when the last of them ends.
    for mine in range(lanes):
        state[0, mine] = 0
        state[1, mine] = -0x3FFF_FFFF_FFFF_FFFF
    for row in range(lane.shape[0]):
        mine = lane[row]
        if mine < 0:
            continue
        if mine >= lanes or state[0, mine] >= edges[mine + 1] - edges[mine]:
            return -3
        begins = _from(start[row])
        if begins < state[1, mine]:
            return -2
        ends = _until(start[row], dur[row])
        rows[edges[mine] + state[0, mine]] = cython.cast(cython.int, row)
        block = blocks[mine] + state[0, mine] // 16
        if state[0, mine] % 16 == 0:
            lasting[0, block] = 0
            lasting[1, block] = -1
        lasting[0, block] += ends - begins
        if ends - begins > lasting[1, block]:
            longest[block] = cython.cast(cython.int, row)
            lasting[1, block] = ends - begins
        state[0, mine] += 1
        state[1, mine] = ends
        filled += 1
    return filled


def fill_lanes(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    lane: cython.const[cython.int][::1],
    edges: cython.const[cython.longlong][::1],
    blocks: cython.const[cython.longlong][::1],
    state: cython.longlong[:, ::1],
    rows: cython.int[::1],
    lasting: cython.longlong[:, ::1],
    longest: cython.int[::1],
) -> cython.longlong:
    """Put every row into its lane, in the order of the rows.

    Args:
        start: By row.
        dur: By row; below 1 it is an instant.
        lane: By row; -1 for a row that is not drawn.
        edges: Sums of what `count_lanes` counted, from 0 on: one more than lanes.
        blocks: Sums of the blocks that so many rows need, from 0 on.
        state: Scratch memory of the kernel, two by lanes.
        rows: Receives the row of each position.
        lasting: Receives for each block how long its rows last together, and below
            that how long the longest of them lasts.
        longest: Receives the row of each block that lasts longest, the first of equals.

    Returns:
        The number of positions; or `OVERLAP`, `BAD_RANGE`.
    """
    if (
        start.shape[0] != lane.shape[0]
        or dur.shape[0] != lane.shape[0]
        or lane.shape[0] > 0x7FFF_FFFF
        or lasting.shape[0] != 2
        or lasting.shape[1] != longest.shape[0]
        or not _lanes_fit(edges, blocks, rows.shape[0], longest.shape[0])
        or state.shape[0] != 2
        or state.shape[1] < edges.shape[0] - 1
    ):
        return BAD_RANGE
    if not cython.compiled:
        start, dur, lane = memoryview(start), memoryview(dur), memoryview(lane)
        edges, blocks = memoryview(edges), memoryview(blocks)
        state, rows = memoryview(state), memoryview(rows)
        lasting, longest = memoryview(lasting), memoryview(longest)
    with cython.nogil:
        found: cython.longlong = _fill_lanes(
            start, dur, lane, edges, blocks, state, rows, lasting, longest
        )
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
    """Find the first position of [begin, end) to start at or after a time, or `end`.

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
@cython.returns((cython.longlong, cython.longlong))
@cython.exceptval(check=False)
def _sum_up(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    rows: cython.const[cython.int][::1],
    lasting: cython.const[cython.longlong][:, ::1],
    longest: cython.const[cython.int][::1],
    lane_begin: cython.longlong,
    lane_block: cython.longlong,
    begin: cython.longlong,
    end: cython.longlong,
) -> tuple[cython.longlong, cython.longlong]:
    """Return the durations' sum and the longest row of [begin, end) of a lane."""
    row: cython.longlong
    block: cython.longlong
    lasts: cython.longlong
    busy: cython.longlong = 0
    most: cython.longlong = -1
    main: cython.longlong = -1
    place: cython.longlong = begin
    while place < end:
        if (place - lane_begin) % 16 == 0 and place + 16 <= end:
            block = lane_block + (place - lane_begin) // 16
            row = longest[block]
            lasts = lasting[1, block]
            busy += lasting[0, block]
            place += 16
        else:
            row = rows[place]
            lasts = _until(start[row], dur[row]) - _from(start[row])
            busy += lasts
            place += 1
        if lasts > most:
            most = lasts
            main = row
    return busy, main


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _write(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    rows: cython.const[cython.int][::1],
    lasting: cython.const[cython.longlong][:, ::1],
    longest: cython.const[cython.int][::1],
    lane: cython.longlong,
    lane_begin: cython.longlong,
    lane_block: cython.longlong,
    begin: cython.longlong,
    end: cython.longlong,
    out: cython.longlong[:, ::1],
    count: cython.longlong,
) -> cython.longlong:
    """Write one slice of the positions [begin, end), not empty."""
    first: cython.longlong = rows[begin]
    last: cython.longlong = rows[end - 1]
    busy: cython.longlong
    main: cython.longlong
    if count >= out.shape[1]:
        return -1
    busy, main = _sum_up(
        start, dur, rows, lasting, longest, lane_begin, lane_block, begin, end
    )
    out[0, count] = lane
    out[1, count] = begin
    out[2, count] = end - begin
    out[3, count] = main
    out[4, count] = _from(start[first])
    out[5, count] = _until(start[last], dur[last])
    out[6, count] = busy
    return count + 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.cdivision(True)  # noqa: FBT003 - Cython's spelling; nothing negative divides
def _fold(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    rows: cython.const[cython.int][::1],
    lasting: cython.const[cython.longlong][:, ::1],
    longest: cython.const[cython.int][::1],
    edges: cython.const[cython.longlong][::1],
    blocks: cython.const[cython.longlong][::1],
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
                start,
                dur,
                rows,
                lasting,
                longest,
                lane,
                edges[lane],
                blocks[lane],
                place,
                after,
                out,
                count,
            )
            place = after
        if count < 0:
            break
    return count


def fold(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    rows: cython.const[cython.int][::1],
    lasting: cython.const[cython.longlong][:, ::1],
    longest: cython.const[cython.int][::1],
    edges: cython.const[cython.longlong][::1],
    blocks: cython.const[cython.longlong][::1],
    begin: cython.longlong,
    end: cython.longlong,
    bucket: cython.longlong,
    out: cython.longlong[:, ::1],
) -> cython.longlong:
    """Write the slices of some neighbouring lanes in the window [begin, end).

    A row that lasts at least a bucket is a slice of its own; so is one that began
    before the window and runs into it. The others that start in the same bucket are
    one slice. Buckets count from `begin`, the last one may be cut by `end`, and a
    bucket of 0 folds nothing. An empty window has no slices.

    Args:
        start: By row.
        dur: By row.
        rows: From `fill_lanes`.
        lasting: From `fill_lanes`.
        longest: From `fill_lanes`.
        edges: The part of `edges` that the lanes have, one more than there are lanes.
        blocks: The part of `blocks` that the lanes have, one more than there are lanes.
        begin: Begin of the window; cut as all times are.
        end: End of the window; cut as all times are.
        bucket: At least 0 and below 2**62.
        out: Receives, by lane and then by time, for each slice: the lane, counted from
            the first of these; the first position; how many rows; the row that lasts
            longest, the first of equals; start of the first; end of the last; and how
            long they last together.

    Returns:
        The number of slices, of which a lane has at most two for each bucket and one
        more, and never more than rows; or `NO_ROOM`, `BAD_RANGE`.
    """
    if (
        dur.shape[0] != start.shape[0]
        or lasting.shape[0] != 2
        or lasting.shape[1] != longest.shape[0]
        or not _lanes_fit(edges, blocks, rows.shape[0], longest.shape[0])
        or bucket < 0
        or bucket > 0x3FFF_FFFF_FFFF_FFFF
        or out.shape[0] != COLUMNS
    ):
        return BAD_RANGE
    if not cython.compiled:
        start, dur, rows = memoryview(start), memoryview(dur), memoryview(rows)
        lasting, longest = memoryview(lasting), memoryview(longest)
        edges, blocks = memoryview(edges), memoryview(blocks)
        out = memoryview(out)
    begin, end = _from(begin), _from(end)
    if end <= begin:
        return 0
    with cython.nogil:
        found: cython.longlong = _fold(
            start, dur, rows, lasting, longest, edges, blocks, begin, end, bucket, out
        )
    return found
