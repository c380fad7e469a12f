# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Laying out spans so that nothing overlaps what it does not contain.

`fit` nests the spans of one track that can be nested and marks those that cannot;
`spread` lays any spans flat, each on the first lane that is free. Both visit the rows
once, in order: start ascending, then duration descending. Starts and ends lie within
64 bits; a duration below one is an instant.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from stepscope._core import _shim as cython
if not cython.compiled:
    from stepscope._core import _shim as cython

__all__ = ["APART", "BAD_RANGE", "NO_ROOM", "fit", "spread"]

#: The depth of a span that overlaps an earlier one without lying inside it.
APART = -1
#: The stack is too small: call again with more room.
NO_ROOM = -1
#: Arrays of different lengths, or an order that names rows that do not exist.
BAD_RANGE = -3


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fit(
    start: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    depth: cython.int[::1],
    stack: cython.longlong[::1],
) -> cython.longlong:
    row: cython.longlong
    height: cython.longlong = 0
    deepest: cython.longlong = 0
    room: cython.longlong = stack.shape[0]
    for row in range(start.shape[0]):
        while height > 0 and stack[height - 1] <= start[row]:
            height -= 1
        if height > 0 and stack[height - 1] < end[row]:
            depth[row] = -1
            continue
        if height == room:
            return -1
        depth[row] = cython.cast(cython.int, height)
        stack[height] = end[row]
        height += 1
        deepest = max(deepest, height)
    return deepest


def fit(
    start: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    depth: cython.int[::1],
    stack: cython.longlong[::1],
) -> cython.longlong:
    """Nest the rows that can be nested; the others have the depth `APART`.

    A row is apart if it ends after a kept row that is still running when it begins.

    Args:
        start: Starts of the rows, in order.
        end: Their ends, none before its start.
        depth: Receives 0 for outermost rows, and one more for each row around a row.
        stack: Room for the deepest nesting.

    Returns:
        How many depths are used, `NO_ROOM` or `BAD_RANGE`.
    """
    if end.shape[0] != start.shape[0] or depth.shape[0] != start.shape[0]:
        return BAD_RANGE
    if not cython.compiled:
        start, end = memoryview(start), memoryview(end)
    with cython.nogil:
        found: cython.longlong = _fit(start, end, depth, stack)
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _spread(
    start: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    by_end: cython.const[cython.longlong][::1],
    lane: cython.int[::1],
    free: cython.int[::1],
) -> cython.longlong:
    row: cython.longlong
    other: cython.longlong
    count: cython.longlong = start.shape[0]
    ended: cython.longlong = 0
    idle: cython.longlong = 0
    opened: cython.longlong = 0
    most: cython.longlong = 0
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
            # Nothing runs: begin again with the first lane.
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


def spread(
    start: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    by_end: cython.const[cython.longlong][::1],
    lane: cython.int[::1],
    free: cython.int[::1],
) -> cython.longlong:
    """Give each row a lane on which nothing else runs when it begins.

    The lanes are as few as can be: as many as rows run at one time.

    Args:
        start: Starts of the rows, in order.
        end: Their ends, none before its start.
        by_end: The rows by end, then by row.
        lane: Receives the lanes, from 0 up.
        free: Scratch, as long as the rows.

    Returns:
        How many lanes are used, or `BAD_RANGE`.
    """
    count: cython.longlong = start.shape[0]
    if (
        end.shape[0] != count
        or by_end.shape[0] != count
        or lane.shape[0] != count
        or free.shape[0] != count
    ):
        return BAD_RANGE
    if not cython.compiled:
        start, end, by_end = memoryview(start), memoryview(end), memoryview(by_end)
    with cython.nogil:
        found: cython.longlong = _spread(start, end, by_end, lane, free)
    return found
