# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Slices of wide buckets, folded once for all windows that are wider still.

`_core/tiles.py` says what lanes, positions and slices are. `fold_rows` folds all rows
of all lanes into buckets of 2**level, which count from time 0, in one pass over rows in
the order in which they lie in memory. Lane `k` has the slices [parts[k], parts[k] +
filled[k]).

`fold_slices` folds these again for a window whose begin, end and bucket are multiples
of 2**level, and gives what `tiles.fold` gives: the rows of one slice start in one
bucket, and a row that is too wide to be folded is a slice of its own, so whatever a
wider bucket folds are whole slices side by side. The cost follows the slices.

For each slice, `places` has the first position and the longest row, and `times` the
start of the first row, the end of the last, how long the rows last together and how
long the longest lasts. Times are cut as in `_core/tiles.py`.
"""

from __future__ import annotations

from stepscope._core._clipping import clipped_end, clipped_start
from stepscope._core._shim import cython

#: The output holds fewer slices than there are.
NO_ROOM = -1
#: Numbers beyond an array, or arrays whose lengths do not belong together.
BAD_RANGE = -3


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fold_rows(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    lane: cython.const[cython.int][::1],
    edges: cython.const[cython.longlong][::1],
    parts: cython.const[cython.longlong][::1],
    level: cython.longlong,
    state: cython.longlong[:, ::1],
    filled: cython.longlong[::1],
    places: cython.int[:, ::1],
    times: cython.longlong[:, ::1],
) -> cython.longlong:
    row: cython.longlong
    mine: cython.longlong
    at: cython.longlong
    begins: cython.longlong
    ends: cython.longlong
    lasts: cython.longlong
    number: cython.longlong
    lanes: cython.longlong = edges.shape[0] - 1
    bucket: cython.longlong = cython.cast(cython.longlong, 1) << level
    # Farther off than any bucket: the next row begins a slice.
    nowhere: cython.longlong = 0x7FFF_FFFF_FFFF_FFFF
    found: cython.longlong = 0
    for mine in range(lanes):
        state[0, mine] = edges[mine]
        state[1, mine] = nowhere
        filled[mine] = 0
    for row in range(lane.shape[0]):
        mine = lane[row]
        if mine < 0:
            continue
        if mine >= lanes or state[0, mine] >= edges[mine + 1]:
            return -3
        begins = clipped_start(start[row])
        ends = clipped_end(start[row], dur[row])
        lasts = ends - begins
        # Rounds down, below 0 as well.
        number = begins >> level
        at = parts[mine] + filled[mine]
        if number == state[1, mine] and lasts < bucket:
            at -= 1
            times[at, 1] = ends
            times[at, 2] += lasts
            if lasts > times[at, 3]:
                times[at, 3] = lasts
                places[at, 1] = cython.cast(cython.int, row)
        else:
            if at >= parts[mine + 1]:
                return -1
            places[at, 0] = cython.cast(cython.int, state[0, mine])
            places[at, 1] = cython.cast(cython.int, row)
            times[at, 0] = begins
            times[at, 1] = ends
            times[at, 2] = times[at, 3] = lasts
            state[1, mine] = nowhere if lasts >= bucket else number
            filled[mine] += 1
            found += 1
        state[0, mine] += 1
    return found


@cython.ccall
def fold_rows(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    lane: cython.const[cython.int][::1],
    edges: cython.const[cython.longlong][::1],
    parts: cython.const[cython.longlong][::1],
    level: cython.longlong,
    state: cython.longlong[:, ::1],
    filled: cython.longlong[::1],
    places: cython.int[:, ::1],
    times: cython.longlong[:, ::1],
) -> cython.longlong:
    """Fold the rows of each lane into buckets of 2**level.

    Args:
        start: By row; as for `tiles.fill_lanes`, which refuses rows that overlap.
        dur: By row.
        lane: By row; -1 for a row that is not drawn.
        edges: Positions of the lanes, one more than lanes.
        parts: Where the slices of each lane begin, one more than lanes.
        level: 0 to 61.
        state: Scratch memory of the kernel, two by lanes.
        filled: Receives the number of slices of each lane.
        places: Receives first position and longest row, by slice.
        times: Receives start, end, sum and longest duration, by slice.

    Returns:
        The number of slices, of which a lane has at most two for each bucket; or
        `NO_ROOM`, `BAD_RANGE`.
    """
    if (
        start.shape[0] != lane.shape[0]
        or dur.shape[0] != lane.shape[0]
        or lane.shape[0] > 0x7FFF_FFFF
        or not 0 <= level <= 61
        or filled.shape[0] != edges.shape[0] - 1
        or state.shape[0] != 2
        or state.shape[1] < filled.shape[0]
        or not _parts_fit(edges, parts, places, times)
    ):
        return BAD_RANGE
    with cython.nogil:
        found: cython.longlong = _fold_rows(
            start, dur, lane, edges, parts, level, state, filled, places, times
        )
    return found


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _parts_fit(
    edges: cython.const[cython.longlong][::1],
    parts: cython.const[cython.longlong][::1],
    places: cython.const[cython.int][:, ::1],
    times: cython.const[cython.longlong][:, ::1],
) -> cython.bint:
    """Return whether every lane's slices have room, and as many columns as needed."""
    lane: cython.longlong
    if edges.shape[0] < 1 or parts.shape[0] != edges.shape[0]:
        return False
    if edges[0] < 0 or parts[0] < 0 or places.shape[0] != times.shape[0]:
        return False
    if places.shape[1] != 2 or times.shape[1] != 4:
        return False
    for lane in range(edges.shape[0] - 1):
        if edges[lane + 1] < edges[lane] or edges[lane + 1] > 0x7FFF_FFFF:
            return False
        if parts[lane + 1] < parts[lane] or parts[lane + 1] > places.shape[0]:
            return False
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _first_slice_from(
    times: cython.const[cython.longlong][:, ::1],
    low: cython.longlong,
    high: cython.longlong,
    time: cython.longlong,
) -> cython.longlong:
    """Find the first slice of [low, high) to start at or after a time, or `high`."""
    middle: cython.longlong
    while low < high:
        middle = low + (high - low) // 2
        if times[middle, 0] < time:
            low = middle + 1
        else:
            high = middle
    return low


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.cdivision(True)  # noqa: FBT003 - Cython's spelling; nothing negative divides
def _fold_slices(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    rows: cython.const[cython.int][::1],
    edges: cython.const[cython.longlong][::1],
    parts: cython.const[cython.longlong][::1],
    filled: cython.const[cython.longlong][::1],
    places: cython.const[cython.int][:, ::1],
    times: cython.const[cython.longlong][:, ::1],
    begin: cython.longlong,
    end: cython.longlong,
    bucket: cython.longlong,
    out: cython.longlong[:, ::1],
) -> cython.longlong:
    lane: cython.longlong
    at: cython.longlong
    last: cython.longlong
    edge: cython.longlong
    behind: cython.longlong
    row: cython.longlong
    most: cython.longlong
    count: cython.longlong = 0
    for lane in range(filled.shape[0]):
        last = parts[lane] + filled[lane]
        at = _first_slice_from(times, parts[lane], last, begin)
        if at > parts[lane] and times[at - 1, 1] > begin:
            # The last row before the window runs into it, and stays whole.
            behind = (places[at, 0] if at < last else edges[lane + 1]) - 1
            row = rows[behind] if 0 <= behind < rows.shape[0] else -1
            if not 0 <= row < start.shape[0]:
                return -3
            if count >= out.shape[1]:
                return -1
            out[0, count] = lane
            out[1, count] = behind
            out[2, count] = 1
            out[3, count] = row
            out[4, count] = clipped_start(start[row])
            out[5, count] = clipped_end(start[row], dur[row])
            out[6, count] = out[5, count] - out[4, count]
            count += 1
        while at < last and times[at, 0] < end:
            if count >= out.shape[1]:
                return -1
            edge = begin + ((times[at, 0] - begin) // bucket + 1) * bucket
            most = times[at, 3]
            out[0, count] = lane
            out[1, count] = places[at, 0]
            out[3, count] = places[at, 1]
            out[4, count] = times[at, 0]
            out[5, count] = times[at, 1]
            out[6, count] = times[at, 2]
            at += 1
            while at < last and times[at, 0] < min(edge, end) and most < bucket:
                if times[at, 3] >= bucket:
                    break
                out[5, count] = times[at, 1]
                out[6, count] += times[at, 2]
                if times[at, 3] > most:
                    most = times[at, 3]
                    out[3, count] = places[at, 1]
                at += 1
            behind = places[at, 0] if at < last else edges[lane + 1]
            out[2, count] = behind - out[1, count]
            count += 1
    return count


@cython.ccall
def fold_slices(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    rows: cython.const[cython.int][::1],
    edges: cython.const[cython.longlong][::1],
    parts: cython.const[cython.longlong][::1],
    filled: cython.const[cython.longlong][::1],
    places: cython.const[cython.int][:, ::1],
    times: cython.const[cython.longlong][:, ::1],
    begin: cython.longlong,
    end: cython.longlong,
    bucket: cython.longlong,
    out: cython.longlong[:, ::1],
) -> cython.longlong:
    """Write the slices of some neighbouring lanes in the window [begin, end).

    Args:
        start: As for `fold_rows`.
        dur: As for `fold_rows`.
        rows: From `tiles.fill_lanes`.
        edges: The part of `edges` that the lanes have, one more than there are lanes.
        parts: As for `fold_rows`; the part that the lanes have.
        filled: From `fold_rows`; the part that the lanes have.
        places: From `fold_rows`.
        times: From `fold_rows`.
        begin: A multiple of 2**level within ±2**62.
        end: A multiple of 2**level within ±2**62.
        bucket: A multiple of 2**level, above 0 and below 2**62.
        out: Receives the slices that `tiles.fold` writes.

    Returns:
        The number of slices, or `NO_ROOM`, `BAD_RANGE`.
    """
    limit: cython.longlong = 0x3FFF_FFFF_FFFF_FFFF
    lane: cython.longlong
    if (
        dur.shape[0] != start.shape[0]
        or filled.shape[0] != edges.shape[0] - 1
        or not _parts_fit(edges, parts, places, times)
        or not 0 < bucket <= limit
        or not -limit - 1 <= begin <= limit + 1
        or not -limit - 1 <= end <= limit + 1
        or out.shape[0] != 7
    ):
        return BAD_RANGE
    for lane in range(filled.shape[0]):
        if not 0 <= filled[lane] <= parts[lane + 1] - parts[lane]:
            return BAD_RANGE
    if end <= begin:
        return 0
    with cython.nogil:
        found: cython.longlong = _fold_slices(
            start,
            dur,
            rows,
            edges,
            parts,
            filled,
            places,
            times,
            begin,
            end,
            bucket,
            out,
        )
    return found
