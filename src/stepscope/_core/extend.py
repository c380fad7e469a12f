# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Derived lines: consecutive pieces of work of one op become one span.

`open_spans` passes once over the pieces of a stream in order of time and forms the
spans of all levels of a line; `close_spans` passes over those and says how they are
shown (spec: tools, section 6e). Times lie within 62 bits.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from stepscope._core import _shim as cython
if not cython.compiled:
    from stepscope._core import _shim as cython

__all__ = ["BAD_RANGE", "close_spans", "open_spans"]

#: Arrays of different lengths, or a code beyond the table.
BAD_RANGE = -3


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _open_spans(
    code: cython.const[cython.int][::1],
    step: cython.const[cython.int][::1],
    start: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    within: cython.const[cython.uchar][::1],
    path: cython.const[cython.int][::1],
    changes: cython.const[cython.uchar][::1],
    bounded: cython.longlong,
    open_: cython.longlong[:, ::1],
    happened: cython.uchar[::1],
    spans: cython.int[:, ::1],
    until: cython.longlong[::1],
) -> cython.longlong:
    row: cython.longlong
    at: cython.longlong
    here: cython.longlong
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
                if same and bounded != 0 and step[row] < 0:
                    # Without a step nothing but nearness says that it is the same
                    # execution.
                    same = start[row] - open_[3, at] <= 2 * (
                        open_[3, at] - open_[2, at]
                    )
                if same:
                    if end[row] > open_[3, at]:
                        open_[3, at] = end[row]
                        until[open_[4, at]] = end[row]
                else:
                    opened = 1
                    open_[0, at] = here
                    open_[1, at] = step[row]
                    open_[2, at] = start[row]
                    open_[3, at] = end[row]
                    open_[4, at] = count
                    spans[0, count] = cython.cast(cython.int, row)
                    spans[1, count] = cython.cast(cython.int, at)
                    spans[2, count] = cython.cast(cython.int, here)
                    until[count] = end[row]
                    count += 1
            if at == 0 and opened:
                happened[row] = 1
    return count


def open_spans(
    code: cython.const[cython.int][::1],
    step: cython.const[cython.int][::1],
    start: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    within: cython.const[cython.uchar][::1],
    path: cython.const[cython.int][::1],
    changes: cython.const[cython.uchar][::1],
    bounded: cython.longlong,
    open_: cython.longlong[:, ::1],
    happened: cython.uchar[::1],
    spans: cython.int[:, ::1],
    until: cython.longlong[::1],
) -> cython.longlong:
    """Form the spans of all levels of one line.

    A piece extends the open span of a level if it is the same there and has the same
    step (both may be none), and no outer level opened or closed a span at it; else it
    opens one. Where a piece is nothing on a level, the span there is closed. A piece
    that is not within the line does neither; a change that falls on it takes effect
    at the next piece of the line.

    Args:
        code: What each piece is: a row of the table of paths; below 0: nothing.
        step: Its step; below 0: none.
        start: Starts, ascending.
        end: Ends.
        within: By code: nonzero if such pieces are within the line.
        path: (codes, levels) row by row: what a piece is on each level; below 0:
            nothing, then on all inner levels too.
        changes: By piece: nonzero where an outer line opened or closed a span.
        bounded: Nonzero: pieces without a step extend a span only if they start
            within twice its length after its end.
        open_: (5, levels), for the spans that are open.
        happened: By piece; receives 1 where the outermost level opened or closed a
            span, or an outer line did.
        spans: (3, pieces x levels); receives the first piece of each span, its level,
            and what it is there, an entry of `path`.
        until: Receives the end of each span, with as much room.

    Returns:
        How many spans there are, in the order of their first pieces and then of
        levels; or `BAD_RANGE`.
    """
    count: cython.longlong = code.shape[0]
    room: cython.longlong = count * open_.shape[1]
    if (
        step.shape[0] != count
        or start.shape[0] != count
        or end.shape[0] != count
        or changes.shape[0] != count
        or happened.shape[0] != count
        or path.shape[0] != within.shape[0] * open_.shape[1]
        or open_.shape[0] != 5
        or spans.shape[0] != 3
        or spans.shape[1] < room
        or until.shape[0] < room
    ):
        return BAD_RANGE
    if not cython.compiled:
        code, step = memoryview(code), memoryview(step)
        start, end = memoryview(start), memoryview(end)
        within, path = memoryview(within), memoryview(path)
        changes, open_ = memoryview(changes), memoryview(open_)
    with cython.nogil:
        found: cython.longlong = _open_spans(
            code,
            step,
            start,
            end,
            within,
            path,
            changes,
            bounded,
            open_,
            happened,
            spans,
            until,
        )
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _close_spans(
    spans: cython.const[cython.int][:, ::1],
    until: cython.const[cython.longlong][::1],
    start: cython.const[cython.longlong][::1],
    unit: cython.longlong,
    around: cython.longlong[:, ::1],
    begin: cython.longlong[::1],
    dur: cython.longlong[::1],
) -> cython.longlong:
    row: cython.longlong
    at: cython.longlong
    shown: cython.longlong
    least: cython.longlong
    outer: cython.longlong
    ordered: cython.longlong = 1
    for row in range(begin.shape[0]):
        at = spans[1, row]
        begin[row] = start[spans[0, row]]
        shown = until[row]
        if at > 0:
            outer = around[2, at - 1]
            if around[0, at - 1] == begin[row] and around[1, at - 1] == until[row]:
                shown = min(shown, outer - unit)
            else:
                shown = min(shown, outer)
            least = begin[row] + min(until[row] - begin[row], unit)
            shown = max(shown, min(least, outer))
        around[0, at] = begin[row]
        around[1, at] = until[row]
        around[2, at] = shown
        dur[row] = shown - begin[row]
        if row > 0 and (
            begin[row] < begin[row - 1]
            or (
                begin[row] == begin[row - 1]
                and (
                    dur[row] > dur[row - 1]
                    or (dur[row] == dur[row - 1] and spans[1, row] < spans[1, row - 1])
                )
            )
        ):
            ordered = 0
    return ordered


def close_spans(
    spans: cython.const[cython.int][:, ::1],
    until: cython.const[cython.longlong][::1],
    start: cython.const[cython.longlong][::1],
    unit: cython.longlong,
    around: cython.longlong[:, ::1],
    begin: cython.longlong[::1],
    dur: cython.longlong[::1],
) -> cython.longlong:
    """Give spans starts, and durations that tell levels of equal length apart.

    A span as long as the one around it ends a unit before it does, but lasts at least
    one; whatever else lies in a shortened span ends with it.

    Args:
        spans: As `open_spans` filled it.
        until: Likewise.
        start: Starts of pieces.
        unit: What a span is shortened by.
        around: (3, levels), for the spans around.
        begin: Receives the start of each span; as long as there are spans.
        dur: Receives its duration; likewise.

    Returns:
        1 if the spans lie by start, then duration descending, then level; 0 if not;
        or `BAD_RANGE`.
    """
    count: cython.longlong = begin.shape[0]
    if (
        until.shape[0] < count
        or spans.shape[0] != 3
        or spans.shape[1] < count
        or dur.shape[0] != count
        or around.shape[0] != 3
    ):
        return BAD_RANGE
    if not cython.compiled:
        spans, until, start = memoryview(spans), memoryview(until), memoryview(start)
        around, begin, dur = memoryview(around), memoryview(begin), memoryview(dur)
    with cython.nogil:
        found: cython.longlong = _close_spans(
            spans, until, start, unit, around, begin, dur
        )
    return found
