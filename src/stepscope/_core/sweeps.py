# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""One pass over intervals in time order: time in which each runs alone; derived spans.

`sweep_intervals` and `busy_before` process activities that may overlap. Running
activities are kept in a heap, with the earliest end on top. A segment is the time
between two changes of the heap. A segment belongs to an interval if no other runs. It
also belongs to a key if all running intervals have this key. To detect this without
visiting all intervals, the sweep counts the running intervals of each key, and the keys
with running intervals.

`open_spans` and `close_spans` build derived lines: consecutive pieces of work of one op
become one span. `open_spans` passes once over the pieces of a stream and forms the
spans of all levels of a line. `close_spans` passes over the spans and sets their
displayed durations. `spans` has rows for the level of a span, its name, and the event
and step of its first piece. `times` has rows for starts, for ends, which become
durations, and for the time that pieces cover.

Times are within ±(2**62 - 1); an interval shorter than 1 covers nothing.

Definition: docs/tools/trace_viewer.md#op-lines.
"""

from __future__ import annotations

from stepscope._core._shim import cython

#: More intervals run at once than the heap has columns.
NO_ROOM = -1
#: A row starts before its predecessor.
OUT_OF_ORDER = -2
#: Array lengths differ, or a key or code is outside its table.
BAD_RANGE = -3


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _pop_earliest(
    heap: cython.longlong[:, ::1], size: cython.longlong
) -> cython.longlong:
    """Remove the interval that ends first; return the new size."""
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
def _push_interval(
    heap: cython.longlong[:, ::1],
    size: cython.longlong,
    ends: cython.longlong,
    row: cython.longlong,
) -> cython.longlong:
    """Add an interval to the heap; return the new size."""
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


@cython.ccall
def sweep_intervals(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    key: cython.const[cython.int][::1],
    heap: cython.longlong[:, ::1],
    running: cython.longlong[::1],
    alone_ps: cython.longlong[::1],
    key_ps: cython.longlong[::1],
) -> cython.longlong:
    """Find the time in which each interval, and each key, runs alone.

    Starts ascend. `heap` (two rows) and `running` (by key, zeros) are scratch arrays.
    `alone_ps` (by row) receives the time in which only this interval runs, `key_ps` (by
    key) the time in which only intervals of this key run. Both must begin as zeros.

    Returns:
        The length of the union of all intervals, or an error code: `NO_ROOM` (never
        with a heap column per row), `OUT_OF_ORDER` or `BAD_RANGE`. The outputs are
        undefined after an error.
    """
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
    if (
        dur.shape[0] != start.shape[0]
        or key.shape[0] != start.shape[0]
        or alone_ps.shape[0] != start.shape[0]
        or running.shape[0] != key_ps.shape[0]
        or heap.shape[0] != 2
    ):
        return BAD_RANGE
    with cython.nogil:
        for row in range(rows + 1):
            # One extra iteration after the last row ends all intervals that still run.
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
                    size = _pop_earliest(heap, size)
            if row == rows:
                break
            # Intervals that end exactly at this start no longer run.
            while size > 0 and heap[0, 0] <= starts:
                top = heap[1, 0]
                running[key[top]] -= 1
                keys -= running[key[top]] == 0
                size = _pop_earliest(heap, size)
            cursor = starts
            if size >= heap.shape[1]:
                return -1
            keys += running[key[row]] == 0
            running[key[row]] += 1
            size = _push_interval(heap, size, starts + dur[row], row)
    return busy


@cython.ccall
def busy_before(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    out: cython.longlong[::1],
) -> cython.longlong:
    """Write for each interval the latest end of the intervals that start before it.

    Starts ascend. Intervals with equal starts do not precede each other. Intervals
    shorter than 1 are ignored. An interval without predecessors gets the least int64.

    Returns:
        The number of rows, or an error code: `OUT_OF_ORDER` or `BAD_RANGE`.
    """
    row: cython.longlong
    never: cython.longlong = -0x7FFF_FFFF_FFFF_FFFF - 1
    # The latest end of all rows so far, and of the rows that started before this row.
    latest: cython.longlong = never
    earlier: cython.longlong = never
    if dur.shape[0] != start.shape[0] or out.shape[0] != start.shape[0]:
        return BAD_RANGE
    with cython.nogil:
        for row in range(start.shape[0]):
            if row > 0 and start[row] != start[row - 1]:
                if start[row] < start[row - 1]:
                    return -2
                earlier = latest
            out[row] = earlier
            if dur[row] > 0 and start[row] + dur[row] > latest:
                latest = start[row] + dur[row]
    return start.shape[0]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _open_spans(
    code: cython.const[cython.int][::1],
    event: cython.const[cython.int][::1],
    step: cython.const[cython.int][::1],
    start: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    within: cython.const[cython.uchar][::1],
    path: cython.const[cython.int][::1],
    name: cython.const[cython.int][::1],
    changes: cython.const[cython.uchar][::1],
    bounded: cython.longlong,
    open_: cython.longlong[:, ::1],
    happened: cython.uchar[::1],
    spans: cython.int[:, ::1],
    times: cython.longlong[:, ::1],
) -> cython.longlong:
    row: cython.longlong
    at: cython.longlong
    here: cython.longlong
    until: cython.longlong
    same: cython.bint
    opened: cython.bint
    pending: cython.bint = 0
    depth: cython.longlong = open_.shape[1]
    codes: cython.longlong = within.shape[0]
    count: cython.longlong = 0
    for at in range(depth):
        open_[0, at] = -1
    for row in range(code.shape[0]):
        if changes[row] != 0:
            pending = 1
        if code[row] < 0:
            continue
        if code[row] >= codes:
            return -3
        if within[code[row]] == 0:
            continue
        opened = pending
        pending = 0
        for at in range(depth):
            here = path[code[row] * depth + at]
            if here < 0:
                if open_[0, at] >= 0:
                    opened = 1
                open_[0, at] = -1
            else:
                same = here == open_[0, at] and step[row] == open_[1, at]
                same = same and not opened
                until = open_[3, at]
                if same and bounded != 0 and step[row] < 0:
                    # Without a step, only closeness in time suggests one execution.
                    same = start[row] - until <= 2 * (until - open_[2, at])
                if same:
                    if end[row] > until:
                        # Time in which pieces overlap counts once.
                        times[2, open_[4, at]] += end[row] - max(start[row], until)
                        open_[3, at] = end[row]
                        times[1, open_[4, at]] = end[row]
                else:
                    if here >= name.shape[0]:
                        return -3
                    opened = 1
                    open_[0, at] = here
                    open_[1, at] = step[row]
                    open_[2, at] = start[row]
                    open_[3, at] = end[row]
                    open_[4, at] = count
                    spans[0, count] = cython.cast(cython.int, at)
                    spans[1, count] = name[here]
                    spans[2, count] = event[row]
                    spans[3, count] = step[row]
                    times[0, count] = start[row]
                    times[1, count] = end[row]
                    times[2, count] = end[row] - start[row]
                    count += 1
            if at == 0 and opened:
                happened[row] = 1
    return count


@cython.ccall
def open_spans(
    code: cython.const[cython.int][::1],
    event: cython.const[cython.int][::1],
    step: cython.const[cython.int][::1],
    start: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    within: cython.const[cython.uchar][::1],
    path: cython.const[cython.int][::1],
    name: cython.const[cython.int][::1],
    changes: cython.const[cython.uchar][::1],
    bounded: cython.longlong,
    open_: cython.longlong[:, ::1],
    happened: cython.uchar[::1],
    spans: cython.int[:, ::1],
    times: cython.longlong[:, ::1],
) -> cython.longlong:
    """Form the spans of all levels of one line.

    A piece extends the open span of a level if its number on that level and its step
    equal those of the span (no step equals no step), and no outer level opened or
    closed a span at the piece. Otherwise the piece opens a span. A piece without a
    number closes the span. A piece outside the line does neither, and passes an outer
    change on to the next piece.

    Args:
        code: Row of `path` for each piece; negative for none.
        event: Row of events for each piece.
        step: Step of each piece; negative for none.
        start: Start of each piece, ascending.
        end: By piece.
        within: For each code, nonzero if pieces of this code are inside the line.
        path: (codes, levels), flattened by row: number of a piece on each level; if
            negative, none on this and on all inner levels.
        name: Name of each number in `path`.
        changes: For each piece, nonzero if an outer line opened or closed a span.
        bounded: If nonzero, a piece without a step extends a span only if it starts
            within twice the span's length after the span's end.
        open_: (5, levels), scratch array of the open spans.
        happened: Receives 1 for each piece at which the outermost level, or an outer
            line, opened or closed a span.
        spans: (4, pieces x levels); receives the spans.
        times: (3, pieces x levels); receives starts, ends and time that pieces cover.

    Returns:
        The number of spans, ordered by first piece, then by level; or `BAD_RANGE`.
    """
    count: cython.longlong = code.shape[0]
    room: cython.longlong = count * open_.shape[1]
    by_piece = {start.shape[0], end.shape[0], event.shape[0], step.shape[0]}
    by_piece |= {changes.shape[0], happened.shape[0]}
    if (
        by_piece != {count}
        or path.shape[0] != within.shape[0] * open_.shape[1]
        or (open_.shape[0], spans.shape[0], times.shape[0]) != (5, 4, 3)
        or min(spans.shape[1], times.shape[1]) < room
    ):
        return BAD_RANGE
    with cython.nogil:
        found: cython.longlong = _open_spans(
            code,
            event,
            step,
            start,
            end,
            within,
            path,
            name,
            changes,
            bounded,
            open_,
            happened,
            spans,
            times,
        )
    return found


@cython.ccall
def close_spans(
    level: cython.const[cython.int][::1],
    times: cython.longlong[:, ::1],
    unit: cython.longlong,
    around: cython.longlong[:, ::1],
) -> cython.longlong:
    """Turn the ends of spans into durations, and shorten nested spans of equal length.

    A span as long as the span around it ends one `unit` before it, but lasts at least
    one `unit`. Any other span inside a shortened span ends no later than that span.

    Args:
        level: Level of each span, from `open_spans`.
        times: From `open_spans`; at least one column per span.
        unit: Time by which a span is shortened.
        around: (3, levels), scratch array of the enclosing spans.

    Returns:
        1 if the spans are ordered by start, then duration descending, then level; 0 if
        not; or `BAD_RANGE`.
    """
    row: cython.longlong
    at: cython.longlong
    begin: cython.longlong
    until: cython.longlong
    shown: cython.longlong
    least: cython.longlong
    outer: cython.longlong
    ordered: cython.longlong = 1
    if times.shape[0] != 3 or times.shape[1] < level.shape[0] or around.shape[0] != 3:
        return BAD_RANGE
    with cython.nogil:
        for row in range(level.shape[0]):
            at = level[row]
            if at < 0 or at >= around.shape[1]:
                return -3
            begin = times[0, row]
            until = times[1, row]
            shown = until
            if at > 0:
                outer = around[2, at - 1]
                if around[0, at - 1] == begin and around[1, at - 1] == until:
                    shown = min(shown, outer - unit)
                else:
                    shown = min(shown, outer)
                least = begin + min(until - begin, unit)
                shown = max(shown, min(least, outer))
            around[0, at] = begin
            around[1, at] = until
            around[2, at] = shown
            times[1, row] = shown - begin
            times[2, row] = min(times[2, row], shown - begin)
            if row > 0 and (
                begin < times[0, row - 1]
                or (
                    begin == times[0, row - 1]
                    and (
                        times[1, row] > times[1, row - 1]
                        or (times[1, row] == times[1, row - 1] and at < level[row - 1])
                    )
                )
            ):
                ordered = 0
    return ordered
