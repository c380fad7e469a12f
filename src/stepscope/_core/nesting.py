# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Nesting of one track's events: parents, disjoint segments and inherited labels.

`nest_track_rows` and `flatten_track_rows` visit a track's rows once, in order, and
accept any 64-bit times. A duration below 1 is an instant. An end beyond the last int64
is the last int64.

Row order: start ascending, then duration descending, so that a parent comes before its
children. Each moment belongs to the most recently started event that still runs.

Open events are kept on a stack. An event is dropped from the stack when a later event
starts and does not end before it, because no later moment can belong to the first one.
So the ends on the stack decrease from bottom to top, each event is pushed and popped at
most once, and the work is linear however events overlap.

`inherit_from_parents` passes labels from a row to all rows nested in it. Parents come
before their children, so one pass is enough. `running_rows` finds the row that runs at
each of several ascending moments, in one pass over rows and moments.

Definition: docs/definitions/names-and-events.md#nesting-and-self-time.
"""

from __future__ import annotations

from stepscope._core._shim import cython

#: A stack or an output array is too small: call again with larger arrays.
NO_ROOM = -1
#: A row starts before its predecessor, or at the same time and lasts longer; or the
#: moments do not ascend.
OUT_OF_ORDER = -2
#: Rows are outside an array, an array has the wrong length, or a parent does not come
#: before its child.
BAD_RANGE = -3


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _end_time(start: cython.longlong, dur: cython.longlong) -> cython.longlong:
    last: cython.longlong = 0x7FFF_FFFF_FFFF_FFFF
    if dur <= 0:
        return start
    if start > last - dur:
        return last
    return start + dur


@cython.ccall
def first_unordered(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    begin: cython.longlong,
    end: cython.longlong,
) -> cython.longlong:
    """Return the first row of [begin, end) that breaks the row order; `end` if none."""
    row: cython.longlong
    with cython.nogil:
        if begin < 0 or begin > end or end > start.shape[0] or end > dur.shape[0]:
            return -3
        for row in range(begin + 1, end):
            if start[row] < start[row - 1] or (
                start[row] == start[row - 1] and dur[row] > dur[row - 1]
            ):
                return row
    return end


@cython.ccall
def nest_track_rows(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    begin: cython.longlong,
    end: cython.longlong,
    parent: cython.int[::1],
    depth: cython.int[::1],
    self_ps: cython.longlong[::1],
    stack: cython.longlong[:, ::1],
) -> cython.longlong:
    """Fill parent, depth and self time of the rows [begin, end) of one track.

    All arrays except `stack` have one entry per row. `parent` receives a row, or -1 for
    none. An event of duration 0 is never a parent. Self times sum to the rows' union.

    Returns:
        The number of rows that end after their parent, or an error code: `NO_ROOM`
        (never with one column of `stack` per row), `OUT_OF_ORDER` or `BAD_RANGE`. The
        outputs are undefined after an error.
    """
    row: cython.longlong
    above: cython.longlong
    starts: cython.longlong
    lasts: cython.longlong
    ends: cython.longlong
    charged: cython.longlong
    top: cython.longlong = -1
    overhangs: cython.longlong = 0
    before: cython.longlong = 0
    lasted: cython.longlong = 0
    if (
        not 0 <= begin <= end <= 0x7FFF_FFFF
        or end > start.shape[0]
        or end > dur.shape[0]
        or end > parent.shape[0]
        or end > depth.shape[0]
        or end > self_ps.shape[0]
        or stack.shape[0] != 2
    ):
        return BAD_RANGE
    with cython.nogil:
        for row in range(begin, end):
            starts = start[row]
            lasts = dur[row]
            if row > begin and (
                starts < before or (starts == before and lasts > lasted)
            ):
                return -2
            before = starts
            lasted = lasts
            ends = _end_time(starts, lasts)
            while top >= 0 and stack[1, top] <= starts:
                top -= 1
            if top < 0:
                parent[row] = -1
                depth[row] = 0
            else:
                above = stack[0, top]
                parent[row] = above
                depth[row] = depth[above] + 1
                if ends > stack[1, top]:
                    overhangs += 1
            self_ps[row] = ends - starts
            if ends == starts:
                continue
            charged = starts
            while top >= 0:
                above = stack[0, top]
                if stack[1, top] > ends:
                    self_ps[above] -= ends - charged
                    break
                self_ps[above] -= stack[1, top] - charged
                charged = stack[1, top]
                top -= 1
            top += 1
            if top >= stack.shape[1]:
                return -1
            stack[0, top] = row
            stack[1, top] = ends
    return overhangs


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _pop_ended(
    stack_end: cython.longlong[::1], top: cython.longlong, until: cython.longlong
) -> cython.longlong:
    while top >= 0 and stack_end[top] <= until:
        top -= 1
    return top


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _push_row(
    stack_end: cython.longlong[::1],
    stack_code: cython.longlong[::1],
    top: cython.longlong,
    ends: cython.longlong,
    what: cython.longlong,
) -> cython.longlong:
    top = _pop_ended(stack_end, top, ends) + 1
    if top >= stack_end.shape[0]:
        # The error is -2, because -1 is the top of an empty stack.
        return -2
    stack_end[top] = ends
    stack_code[top] = what
    return top


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _queue_row(
    queue_end: cython.longlong[::1],
    queue_code: cython.longlong[::1],
    tail: cython.longlong,
    ends: cython.longlong,
    what: cython.longlong,
) -> cython.longlong:
    if tail > 0 and ends <= queue_end[tail - 1]:
        return tail
    if tail >= queue_end.shape[0]:
        return -1
    queue_end[tail] = ends
    queue_code[tail] = what
    return tail + 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _flatten_segments(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    code: cython.const[cython.uchar][::1],
    sticky: cython.const[cython.uchar][::1],
    begin: cython.longlong,
    end: cython.longlong,
    stack_end: cython.longlong[::1],
    stack_code: cython.longlong[::1],
    queue_end: cython.longlong[::1],
    queue_code: cython.longlong[::1],
    out_start: cython.longlong[::1],
    out_end: cython.longlong[::1],
    out_code: cython.longlong[::1],
) -> cython.longlong:
    row: cython.longlong
    fresh: cython.int
    starts: cython.longlong
    ends: cython.longlong
    until: cython.longlong
    what: cython.longlong
    never: cython.longlong = 0x7FFF_FFFF_FFFF_FFFF
    cursor: cython.longlong = -never - 1
    before: cython.longlong = cursor
    lasted: cython.longlong = never
    count: cython.longlong = 0
    # Code and end of the last segment written; code -1 before the first segment.
    written: cython.longlong = -1
    written_until: cython.longlong = cursor
    top: cython.longlong = -1
    head: cython.longlong = 0
    tail: cython.longlong = 0
    for row in range(begin, end + 1):
        # One extra iteration after the last row writes the rows that still run.
        starts = ends = never
        if row < end:
            if code[row] == 0:
                continue
            starts = start[row]
            if starts < before or (starts == before and dur[row] > lasted):
                return -2
            before, lasted = starts, dur[row]
            ends = _end_time(starts, lasted)
        while cursor < starts:
            if head < tail:
                until = queue_end[head]
                what = queue_code[head]
                head += until <= starts
            else:
                top = _pop_ended(stack_end, top, cursor)
                if top < 0:
                    break
                until = stack_end[top]
                what = stack_code[top]
            # Always writing, even if the last segment continues, avoids a branch.
            fresh = (what != written) | (cursor != written_until)
            if count < out_start.shape[0]:
                out_start[count] = cursor
                out_code[count] = what
            elif fresh:
                return -1
            count += fresh
            written = what
            written_until = min(until, starts)
            out_end[count - 1] = written_until
            cursor = until
        cursor = starts
        if ends == starts:
            continue
        what = code[row]
        if sticky[what]:
            if head == tail:
                head = tail = 0
            tail = _queue_row(queue_end, queue_code, tail, ends, what)
        else:
            top = _push_row(stack_end, stack_code, top, ends, what)
        if tail < 0 or top < -1:
            return -1
    return count


def flatten_track_rows(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    code: cython.const[cython.uchar][::1],
    sticky: cython.const[cython.uchar][::1],
    begin: cython.longlong,
    end: cython.longlong,
    running: cython.longlong[:, ::1],
    out: cython.longlong[:, ::1],
) -> cython.longlong:
    """Cut the rows [begin, end) of one track into disjoint segments with one code each.

    A moment has the code of the most recently started running row whose code is not 0.
    While rows with sticky codes run, the one that started first determines the code.
    Segments are in time order, and adjacent segments with equal codes are merged.

    `code` is by row, `sticky` (256 entries) by code. `running` is a scratch array with
    four rows: ends and codes of a stack for rows that are not sticky, and ends and
    codes of a queue for sticky rows. `out` receives starts, ends and codes.

    Returns:
        The number of segments, at most twice the rows whose code is not 0; or an error
        code: `NO_ROOM` (never with one column per row in `running` and two per row in
        `out`), `OUT_OF_ORDER` (among the rows whose code is not 0) or `BAD_RANGE`.
    """
    if (
        begin < 0
        or begin > end
        or end > start.shape[0]
        or end > dur.shape[0]
        or end > code.shape[0]
        or sticky.shape[0] != 256
        or running.shape[0] != 4
        or out.shape[0] != 3
    ):
        return BAD_RANGE
    # One array per row spares the loop the index arithmetic of two dimensions.
    stack_end: cython.longlong[::1] = running[0]
    stack_code: cython.longlong[::1] = running[1]
    queue_end: cython.longlong[::1] = running[2]
    queue_code: cython.longlong[::1] = running[3]
    out_start: cython.longlong[::1] = out[0]
    out_end: cython.longlong[::1] = out[1]
    out_code: cython.longlong[::1] = out[2]
    if not cython.compiled:
        start, dur, code = memoryview(start), memoryview(dur), memoryview(code)
        sticky = memoryview(sticky)
        stack_end, stack_code = memoryview(stack_end), memoryview(stack_code)
        queue_end, queue_code = memoryview(queue_end), memoryview(queue_code)
        out_start, out_end = memoryview(out_start), memoryview(out_end)
        out_code = memoryview(out_code)
    with cython.nogil:
        found: cython.longlong = _flatten_segments(
            start,
            dur,
            code,
            sticky,
            begin,
            end,
            stack_end,
            stack_code,
            queue_end,
            queue_code,
            out_start,
            out_end,
            out_code,
        )
    return found


@cython.ccall
def inherit_from_parents(
    parent: cython.const[cython.int][::1],
    label: cython.int[::1],
    begin: cython.longlong,
    end: cython.longlong,
) -> cython.longlong:
    """Give each row of [begin, end) the label of its nearest labelled ancestor.

    `parent` is a smaller row number, or negative for none. A negative label means no
    label. A labelled row keeps its label; a row without a labelled ancestor gets none.

    Returns:
        The number of rows with a label, or `BAD_RANGE`.
    """
    row: cython.longlong
    above: cython.longlong
    found: cython.longlong = 0
    if (
        begin < 0
        or begin > end
        or end > parent.shape[0]
        or label.shape[0] != parent.shape[0]
    ):
        return BAD_RANGE
    with cython.nogil:
        for row in range(begin, end):
            above = parent[row]
            if above >= row:
                return -3
            if label[row] < 0 and above >= 0:
                label[row] = label[above]
            found += label[row] >= 0
    return found


@cython.ccall
def running_rows(
    start: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    parent: cython.const[cython.int][::1],
    begin: cython.longlong,
    end: cython.longlong,
    moment: cython.const[cython.longlong][::1],
    out: cython.int[::1],
) -> cython.longlong:
    """Find the innermost row that runs at each moment, among [begin, end) of one track.

    A row runs in [start, end), so a row of duration 0 never runs. `parent` is a smaller
    row number, or negative for none. Moments ascend. `out` receives a row, or -1.

    Returns:
        The number of moments at which a row runs; or `BAD_RANGE` or `OUT_OF_ORDER`.
    """
    at: cython.longlong
    row: cython.longlong
    above: cython.longlong
    after: cython.longlong = begin
    found: cython.longlong = 0
    if (
        begin < 0
        or begin > end
        or end > start.shape[0]
        or dur.shape[0] != start.shape[0]
        or parent.shape[0] != start.shape[0]
        or out.shape[0] != moment.shape[0]
    ):
        return BAD_RANGE
    with cython.nogil:
        for at in range(moment.shape[0]):
            if at > 0 and moment[at] < moment[at - 1]:
                return -2
            while after < end and start[after] <= moment[at]:
                after += 1
            row = after - 1
            while row >= begin and _end_time(start[row], dur[row]) <= moment[at]:
                above = parent[row]
                if above >= row:
                    return -3
                row = above
            out[at] = cython.cast(cython.int, row) if row >= begin else -1
            found += row >= begin
    return found
