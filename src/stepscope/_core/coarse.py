# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Slices of wide buckets, folded once and reused for all windows with wider buckets.

Lanes, positions and slices are defined in `_core/tiles.py`. `fold_rows` folds all rows
of all lanes into buckets of width 2**level, counted from time 0, in one pass over the
rows in memory order. Lane `k` has the slices [parts[k], parts[k] + filled[k]).

`fold_slices` folds these slices again for a window whose begin, end and bucket width
are multiples of 2**level. The result equals that of `tiles.fold_window`: all rows of a
slice start in one bucket, and a row too wide to be folded is a separate slice, so a
wider bucket consists of whole adjacent slices. The cost is linear in the slices.

For each slice, `places` has the first position and the longest row. `times` has the
start of the first row, the end of the last row, the sum of the durations and the
longest duration. Times are clipped as in `_core/tiles.py`.
"""

from __future__ import annotations

from stepscope._core._clipping import clipped_end, clipped_start
from stepscope._core._shim import cython

#: The output array has too few columns for all slices.
NO_ROOM = -1
#: A number points outside an array, or the lengths of arrays do not match.
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
    # No bucket has this number, so the next row begins a slice.
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
        # The shift rounds down, also for negative times.
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
    """Fold the rows of each lane into buckets of width 2**level.

    Args:
        start: Start of each row, as for `tiles.fill_lanes`, which refuses overlaps.
        dur: By row.
        lane: Lane of each row; -1 for a row that is not drawn.
        edges: First position of each lane, then the end; one more entry than lanes.
        parts: First slice of each lane, then the end; one more entry than lanes.
        level: Binary logarithm of the bucket width, 0 to 61.
        state: Scratch array, (2, lanes).
        filled: Receives the number of slices of each lane.
        places: Receives first position and longest row of each slice.
        times: Receives start, end, sum of durations and longest duration of each slice.

    Returns:
        The number of slices, at most two per lane and bucket; or an error code:
        `NO_ROOM` or `BAD_RANGE`.
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
    """Return whether the slice arrays are large enough for every lane."""
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
    """Return the first slice of [low, high) starting at or after `time`, or `high`."""
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
            # The last row before the window extends into it and is a whole slice.
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
    """Write the slices of adjacent lanes in the window [begin, end).

    Args:
        start: As for `fold_rows`.
        dur: As for `fold_rows`.
        rows: From `tiles.fill_lanes`.
        edges: Part of `edges` for these lanes, with one more entry than lanes.
        parts: Part of `parts` for these lanes, with one more entry than lanes.
        filled: From `fold_rows`, the part for these lanes.
        places: From `fold_rows`.
        times: From `fold_rows`.
        begin: A multiple of 2**level within ±2**62.
        end: A multiple of 2**level within ±2**62.
        bucket: A multiple of 2**level, above 0 and below 2**62.
        out: Receives the slices, with the columns of `tiles.fold_window`.

    Returns:
        The number of slices, or an error code: `NO_ROOM` or `BAD_RANGE`.
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
