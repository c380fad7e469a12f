# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""When an activity runs alone: one sweep over intervals that may overlap.

The running intervals are kept in a heap, the one that ends first on top. The time
between two changes of the heap is a segment. A segment with one running interval is
that interval's; a segment whose intervals all have one key is also that key's. To
detect the latter without looking at all intervals, the sweep counts the intervals of
each key that run, and the keys that have any.

Times lie within ±(2**62 - 1); an interval shorter than 1 covers nothing.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from stepscope._core import _shim as cython
if not cython.compiled:
    from stepscope._core import _shim as cython

__all__ = ["BAD_RANGE", "NO_ROOM", "OUT_OF_ORDER", "busy_before", "sweep"]

#: More intervals run at once than the heap has places for.
NO_ROOM = -1
#: A row starts before its predecessor.
OUT_OF_ORDER = -2
#: Arrays of different lengths, or a key without a place.
BAD_RANGE = -3


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _pop(heap: cython.longlong[:, ::1], size: cython.longlong) -> cython.longlong:
    """Take the top away by sinking the last place; returns the new size."""
    at: cython.longlong = 0
    below: cython.longlong = 1
    size -= 1
    ends: cython.longlong = heap[0, size]
    row: cython.longlong = heap[1, size]
    while below < size:
        if below + 1 < size and heap[0, below + 1] < heap[0, below]:
            below += 1
        if heap[0, below] >= ends:
            break
        heap[0, at] = heap[0, below]
        heap[1, at] = heap[1, below]
        at = below
        below = 2 * at + 1
    heap[0, at] = ends
    heap[1, at] = row
    return size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _push(
    heap: cython.longlong[:, ::1],
    size: cython.longlong,
    ends: cython.longlong,
    row: cython.longlong,
) -> cython.longlong:
    """Let a new interval rise to its place; returns the new size."""
    at: cython.longlong = size
    above: cython.longlong
    while at > 0:
        above = (at - 1) >> 1
        if heap[0, above] <= ends:
            break
        heap[0, at] = heap[0, above]
        heap[1, at] = heap[1, above]
        at = above
    heap[0, at] = ends
    heap[1, at] = row
    return size + 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _sweep(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    key: cython.const[cython.int][::1],
    heap: cython.longlong[:, ::1],
    running: cython.longlong[::1],
    alone_ps: cython.longlong[::1],
    key_ps: cython.longlong[::1],
) -> cython.longlong:
    row: cython.longlong
    top: cython.longlong
    until: cython.longlong
    starts: cython.longlong
    size: cython.longlong = 0
    keys: cython.longlong = 0
    busy: cython.longlong = 0
    cursor: cython.longlong = 0
    never: cython.longlong = 0x7FFF_FFFF_FFFF_FFFF
    before: cython.longlong = -never
    rows: cython.longlong = start.shape[0]
    for row in range(rows + 1):
        # The round after the last row lets everything that still runs end.
        starts = never
        if row < rows:
            starts = start[row]
            if starts < before:
                return -2
            before = starts
            if key[row] < 0 or key[row] >= key_ps.shape[0]:
                return -3
            if dur[row] <= 0:
                continue
        while size > 0 and cursor < starts:
            top = heap[1, 0]
            until = min(heap[0, 0], starts)
            busy += until - cursor
            if size == 1:
                alone_ps[top] += until - cursor
            if keys == 1:
                key_ps[key[top]] += until - cursor
            cursor = until
            if heap[0, 0] <= cursor:
                running[key[top]] -= 1
                keys -= running[key[top]] == 0
                size = _pop(heap, size)
        if row == rows:
            break
        # Intervals that end exactly here run no more.
        while size > 0 and heap[0, 0] <= starts:
            top = heap[1, 0]
            running[key[top]] -= 1
            keys -= running[key[top]] == 0
            size = _pop(heap, size)
        cursor = starts
        if size >= heap.shape[1]:
            return -1
        keys += running[key[row]] == 0
        running[key[row]] += 1
        size = _push(heap, size, starts + dur[row], row)
    return busy


def sweep(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    key: cython.const[cython.int][::1],
    heap: cython.longlong[:, ::1],
    running: cython.longlong[::1],
    alone_ps: cython.longlong[::1],
    key_ps: cython.longlong[::1],
) -> cython.longlong:
    """Find how long each interval, and each key, has the time to itself.

    Starts ascend. `heap` (two rows) and `running` (by key, zeros) are the kernel's
    own room. `alone_ps` by row and `key_ps` by key begin as zeros: the former
    receives the time in which only this interval runs, the latter the time in which
    only intervals of this key run.

    Returns:
        The length of the union of all intervals; or `NO_ROOM`, which as many columns
        as there are rows prevent, `OUT_OF_ORDER`, `BAD_RANGE`. The outputs hold
        nothing of use after a negative answer.
    """
    if (
        dur.shape[0] != start.shape[0]
        or key.shape[0] != start.shape[0]
        or alone_ps.shape[0] != start.shape[0]
        or running.shape[0] != key_ps.shape[0]
        or heap.shape[0] != 2
    ):
        return BAD_RANGE
    if not cython.compiled:
        start, dur, key = memoryview(start), memoryview(dur), memoryview(key)
        heap, running = memoryview(heap), memoryview(running)
        alone_ps, key_ps = memoryview(alone_ps), memoryview(key_ps)
    with cython.nogil:
        found: cython.longlong = _sweep(
            start, dur, key, heap, running, alone_ps, key_ps
        )
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _busy_before(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    out: cython.longlong[::1],
) -> cython.longlong:
    row: cython.longlong
    never: cython.longlong = -0x7FFF_FFFF_FFFF_FFFF - 1
    # The latest end of all rows so far, and of those that started before this row.
    latest: cython.longlong = never
    earlier: cython.longlong = never
    for row in range(start.shape[0]):
        if row > 0 and start[row] != start[row - 1]:
            if start[row] < start[row - 1]:
                return -2
            earlier = latest
        out[row] = earlier
        if dur[row] > 0 and start[row] + dur[row] > latest:
            latest = start[row] + dur[row]
    return start.shape[0]


def busy_before(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    out: cython.longlong[::1],
) -> cython.longlong:
    """Write for each interval the latest end among those that start before it.

    Starts ascend. Intervals that start together do not precede each other, those
    shorter than 1 do not count, and where nothing precedes it is the least int64.

    Returns:
        The number of rows, or `OUT_OF_ORDER` or `BAD_RANGE`.
    """
    if dur.shape[0] != start.shape[0] or out.shape[0] != start.shape[0]:
        return BAD_RANGE
    if not cython.compiled:
        start, dur, out = memoryview(start), memoryview(dur), memoryview(out)
    with cython.nogil:
        found: cython.longlong = _busy_before(start, dur, out)
    return found
