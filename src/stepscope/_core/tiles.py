# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Levels of detail of a timeline, computed on demand.

A *lane* contains rows that ascend and do not overlap, such as the rows of one depth of
a track. `rows` contains the lanes of all tracks one after the other. An index into
`rows` is a *position*; lane `k` has the positions [edges[k], edges[k + 1]). Each
`BLOCK` positions of a lane, from its first one on, form a *block*; lane `k` has the
blocks [blocks[k], blocks[k + 1]). For each block, `timing` has the sum of the
durations, the longest duration and the start of the first row. `longest` has the row
with the longest duration.

`fold_window` walks a window in buckets of equal width. Rows do not overlap, so only the
last row that starts in a bucket can be as wide as the bucket. That row becomes a
separate slice, and the rows before it become one slice. A block that ends within its
bucket adds its sum and its longest row, without a read of its rows. Block data is
contiguous in memory, while rows may be anywhere. So the cost grows with the number of
blocks and, at bucket edges, with the rows of one block.

Times are clipped to ±(2**62 - 1), so that no sum or difference can overflow. Functions
return `BAD_RANGE` for arrays of wrong sizes.
"""

from __future__ import annotations

from stepscope._core._clipping import clipped_end, clipped_start
from stepscope._core._shim import cython

#: The output array has too few columns for the slices of the window.
NO_ROOM = -1
#: A row starts before the end of an earlier row of its lane.
OVERLAP = -2
#: A number points outside an array, or the lengths of arrays do not match.
BAD_RANGE = -3

#: Number of positions in a block.
BLOCK = 16
#: Number of rows in the output of `fold_window`.
COLUMNS = 7


@cython.ccall
def count_lanes(
    lane: cython.const[cython.int][::1], count: cython.longlong[::1]
) -> cython.longlong:
    """Add the number of rows of each lane to `count`; rows of lane -1 are skipped.

    Returns:
        The number of rows with a lane, or `BAD_RANGE`.
    """
    row: cython.longlong
    mine: cython.longlong
    drawn: cython.longlong = 0
    # Consecutive rows of one lane are counted in a variable: repeated additions to one
    # place in memory would wait for each other.
    last: cython.longlong = -1
    run: cython.longlong = 0
    with cython.nogil:
        for row in range(lane.shape[0]):
            mine = lane[row]
            if mine != last:
                if mine >= count.shape[0]:
                    return -3
                if last >= 0:
                    count[last] += run
                    drawn += run
                last = mine
                run = 0
            run += 1
        if last >= 0:
            count[last] += run
            drawn += run
    return drawn


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
    timing: cython.longlong[:, ::1],
    longest: cython.int[::1],
) -> cython.longlong:
    row: cython.longlong
    mine: cython.longlong
    place: cython.longlong
    block: cython.longlong
    begins: cython.longlong
    ends: cython.longlong
    lasts: cython.longlong
    lanes: cython.longlong = edges.shape[0] - 1
    filled: cython.longlong = 0
    # Number of rows placed in each lane, and the end of the last one.
    for mine in range(lanes):
        state[0, mine] = 0
        state[1, mine] = -0x3FFF_FFFF_FFFF_FFFF
    for row in range(lane.shape[0]):
        mine = lane[row]
        if mine < 0:
            continue
        if mine >= lanes:
            return -3
        place = state[0, mine]
        if place >= edges[mine + 1] - edges[mine]:
            return -3
        begins = clipped_start(start[row])
        if begins < state[1, mine]:
            return -2
        ends = clipped_end(start[row], dur[row])
        lasts = ends - begins
        rows[edges[mine] + place] = cython.cast(cython.int, row)
        # A block has 16 rows.
        block = blocks[mine] + (place >> 4)
        if place & 15 == 0:
            timing[block, 0] = lasts
            timing[block, 1] = lasts
            timing[block, 2] = begins
            longest[block] = cython.cast(cython.int, row)
        else:
            timing[block, 0] += lasts
            if lasts > timing[block, 1]:
                timing[block, 1] = lasts
                longest[block] = cython.cast(cython.int, row)
        state[0, mine] = place + 1
        state[1, mine] = ends
        filled += 1
    return filled


@cython.ccall
def fill_lanes(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    lane: cython.const[cython.int][::1],
    edges: cython.const[cython.longlong][::1],
    blocks: cython.const[cython.longlong][::1],
    state: cython.longlong[:, ::1],
    rows: cython.int[::1],
    timing: cython.longlong[:, ::1],
    longest: cython.int[::1],
) -> cython.longlong:
    """Put every row into its lane, in the order of the rows.

    Args:
        start: By row.
        dur: Duration of each row; below 1, the row is an instant.
        lane: Lane of each row; -1 for a row that is not drawn.
        edges: Cumulative counts of `count_lanes`, from 0; one more entry than lanes.
        blocks: Cumulative numbers of blocks that these counts need, from 0.
        state: Scratch array, (2, lanes).
        rows: Receives the row of each position.
        timing: Receives for each block the sum of the durations, the longest duration
            and the start of the first row.
        longest: Receives the longest row of each block, the first of equals.

    Returns:
        The number of positions, or an error code: `OVERLAP` or `BAD_RANGE`.
    """
    if (
        start.shape[0] != lane.shape[0]
        or dur.shape[0] != lane.shape[0]
        or lane.shape[0] > 0x7FFF_FFFF
        or timing.shape[0] != longest.shape[0]
        or timing.shape[1] != 3
        or not _lanes_fit(edges, blocks, rows.shape[0], longest.shape[0])
        or state.shape[0] != 2
        or state.shape[1] < edges.shape[0] - 1
    ):
        return BAD_RANGE
    with cython.nogil:
        found: cython.longlong = _fill_lanes(
            start, dur, lane, edges, blocks, state, rows, timing, longest
        )
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _first_position_from(
    start: cython.const[cython.longlong][::1],
    rows: cython.const[cython.int][::1],
    timing: cython.const[cython.longlong][:, ::1],
    begin: cython.longlong,
    end: cython.longlong,
    block: cython.longlong,
    time: cython.longlong,
) -> cython.longlong:
    """Return the first position that starts at or after `time`, or `end`.

    Blocks are searched first, because their starts are contiguous in memory.
    """
    middle: cython.longlong
    low: cython.longlong = 0
    high: cython.longlong = (end - begin + 15) // 16
    # The first block that starts at or after the time. The position is in the block
    # before it, or at the begin of this block.
    while low < high:
        middle = low + (high - low) // 2
        if timing[block + middle, 2] < time:
            low = middle + 1
        else:
            high = middle
    high = min(end, begin + 16 * low)
    low = max(begin, begin + 16 * low - 16)
    while low < high:
        middle = low + (high - low) // 2
        if clipped_start(start[rows[middle]]) < time:
            low = middle + 1
        else:
            high = middle
    return low


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _row_duration(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    row: cython.longlong,
) -> cython.longlong:
    return clipped_end(start[row], dur[row]) - clipped_start(start[row])


@cython.cfunc
@cython.nogil
@cython.returns((cython.longlong, cython.longlong, cython.longlong))
@cython.exceptval(check=False)
def _walk_bucket(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    rows: cython.const[cython.int][::1],
    timing: cython.const[cython.longlong][:, ::1],
    longest: cython.const[cython.int][::1],
    begin: cython.longlong,
    last: cython.longlong,
    lane_block: cython.longlong,
    place: cython.longlong,
    edge: cython.longlong,
    bucket: cython.longlong,
) -> tuple[cython.longlong, cython.longlong, cython.longlong]:
    """Walk from a row to the end of its bucket, or to a row as wide as the bucket.

    Returns:
        The next position, the sum of the durations and the longest row.
    """
    block: cython.longlong
    lasts: cython.longlong
    row: cython.longlong = rows[place]
    main: cython.longlong = row
    most: cython.longlong = _row_duration(start, dur, row)
    busy: cython.longlong = most
    place += 1
    while place < last:
        block = lane_block + (place - begin) // 16
        if (
            (place - begin) % 16 == 0
            and place + 16 < last
            and timing[block + 1, 2] < edge
            and timing[block, 1] < bucket
        ):
            # The next block starts in the bucket, too: this block is added whole.
            busy += timing[block, 0]
            if timing[block, 1] > most:
                most = timing[block, 1]
                main = longest[block]
            place += 16
            continue
        row = rows[place]
        if clipped_start(start[row]) >= edge:
            break
        lasts = _row_duration(start, dur, row)
        if lasts >= bucket:
            break
        busy += lasts
        if lasts > most:
            most = lasts
            main = row
        place += 1
    return place, busy, main


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.cdivision(True)  # noqa: FBT003 - Cython's spelling; nothing negative divides
def _fold_lanes(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    rows: cython.const[cython.int][::1],
    timing: cython.const[cython.longlong][:, ::1],
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
    main: cython.longlong
    first: cython.longlong
    place: cython.longlong
    edge: cython.longlong
    busy: cython.longlong
    last: cython.longlong
    count: cython.longlong = 0
    for lane in range(edges.shape[0] - 1):
        last = edges[lane + 1]
        place = _first_position_from(
            start, rows, timing, edges[lane], last, blocks[lane], begin
        )
        if place > edges[lane]:
            row = rows[place - 1]
            if clipped_end(start[row], dur[row]) > begin:
                place -= 1
        while place < last:
            row = rows[place]
            edge = clipped_start(start[row])
            if edge >= end:
                break
            if count >= out.shape[1]:
                return -1
            first = place
            out[4, count] = edge
            main = row
            busy = _row_duration(start, dur, row)
            place += 1
            if edge >= begin and busy < bucket:
                edge = min(end, begin + ((edge - begin) // bucket + 1) * bucket)
                place, busy, main = _walk_bucket(
                    start,
                    dur,
                    rows,
                    timing,
                    longest,
                    edges[lane],
                    last,
                    blocks[lane],
                    first,
                    edge,
                    bucket,
                )
            row = rows[place - 1]
            out[0, count] = lane
            out[1, count] = first
            out[2, count] = place - first
            out[3, count] = main
            out[5, count] = clipped_end(start[row], dur[row])
            out[6, count] = busy
            count += 1
    return count


@cython.ccall
def fold_window(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    rows: cython.const[cython.int][::1],
    timing: cython.const[cython.longlong][:, ::1],
    longest: cython.const[cython.int][::1],
    edges: cython.const[cython.longlong][::1],
    blocks: cython.const[cython.longlong][::1],
    begin: cython.longlong,
    end: cython.longlong,
    bucket: cython.longlong,
    out: cython.longlong[:, ::1],
) -> cython.longlong:
    """Write the slices of adjacent lanes in the window [begin, end).

    A row that lasts at least one bucket is a separate slice, and so is a row that
    begins before the window and reaches into it. All other rows that start in the same
    bucket form one slice. Buckets count from `begin`; `end` may cut the last one. A
    bucket of 0 makes each row a slice. An empty window has no slices.

    Args:
        start: By row.
        dur: By row.
        rows: From `fill_lanes`.
        timing: From `fill_lanes`.
        longest: From `fill_lanes`.
        edges: Part of `edges` for these lanes, with one more entry than lanes.
        blocks: Part of `blocks` for these lanes, with one more entry than lanes.
        begin: Begin of the window, clipped like all times.
        end: End of the window, clipped like all times.
        bucket: Width of a bucket, at least 0 and below 2**62.
        out: Receives the slices by lane and then by time: lane (0 for the first of
            these lanes), first position, number of rows, longest row (the first of
            equals), start of the first row, end of the last row, sum of the durations.

    Returns:
        The number of slices: at most two per lane and bucket plus one per lane, and at
        most one per row; or an error code: `NO_ROOM` or `BAD_RANGE`.
    """
    if (
        dur.shape[0] != start.shape[0]
        or timing.shape[0] != longest.shape[0]
        or timing.shape[1] != 3
        or not _lanes_fit(edges, blocks, rows.shape[0], longest.shape[0])
        or bucket < 0
        or bucket > 0x3FFF_FFFF_FFFF_FFFF
        or out.shape[0] != COLUMNS
    ):
        return BAD_RANGE
    begin, end = clipped_start(begin), clipped_start(end)
    if end <= begin:
        return 0
    with cython.nogil:
        found: cython.longlong = _fold_lanes(
            start, dur, rows, timing, longest, edges, blocks, begin, end, bucket, out
        )
    return found
