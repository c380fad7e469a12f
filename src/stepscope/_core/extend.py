# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Derived lines: consecutive pieces of work of one op become one span.

`open_spans` passes once over the pieces of a stream in order of time and forms the
spans of all levels of a line; `close_spans` passes over those and says how they are
shown. Times lie within 62 bits.

`spans` has a row each for the level of a span, its name, and the event and step of its
first piece; `times` has one for starts, and one for ends, which become durations.

Definition: docs/tools/trace_viewer.md#op-lines.
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
                    count += 1
            if at == 0 and opened:
                happened[row] = 1
    return count


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
    (or both have none) equal the span's, and no outer level opened or closed a span at
    it; else it opens one. A piece without a number closes the span. One not within the
    line does neither; a change that falls on it takes effect at the next that is.

    Args:
        code: By piece: a row of the table of paths; below 0: none.
        event: By piece: row of events.
        step: By piece; below 0: none.
        start: By piece, ascending.
        end: By piece.
        within: By code: nonzero if such pieces are within the line.
        path: (codes, levels) row by row: the number of a piece on each level; below
            0: none, then on all inner levels too.
        name: The name of each entry of `path`.
        changes: By piece: nonzero where an outer line opened or closed a span.
        bounded: Nonzero: pieces without a step extend a span only if they start
            within twice its length after its end.
        open_: (5, levels), for the spans that are open.
        happened: By piece; receives 1 where the outermost level opened or closed a
            span, or an outer line did.
        spans: (4, pieces x levels), to be filled.
        times: (2, pieces x levels), to be filled.

    Returns:
        How many spans there are, in the order of their first pieces and then of
        levels; or `BAD_RANGE`.
    """
    count: cython.longlong = code.shape[0]
    room: cython.longlong = count * open_.shape[1]
    by_piece = {start.shape[0], end.shape[0], event.shape[0], step.shape[0]}
    by_piece |= {changes.shape[0], happened.shape[0]}
    if (
        by_piece != {count}
        or path.shape[0] != within.shape[0] * open_.shape[1]
        or (open_.shape[0], spans.shape[0], times.shape[0]) != (5, 4, 2)
        or min(spans.shape[1], times.shape[1]) < room
    ):
        return BAD_RANGE
    if not cython.compiled:
        code, event, step = memoryview(code), memoryview(event), memoryview(step)
        start, end, changes = memoryview(start), memoryview(end), memoryview(changes)
        within, path, name = memoryview(within), memoryview(path), memoryview(name)
        open_ = memoryview(open_)
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


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _close_spans(
    level: cython.const[cython.int][::1],
    times: cython.longlong[:, ::1],
    unit: cython.longlong,
    around: cython.longlong[:, ::1],
) -> cython.longlong:
    row: cython.longlong
    at: cython.longlong
    begin: cython.longlong
    until: cython.longlong
    shown: cython.longlong
    least: cython.longlong
    outer: cython.longlong
    ordered: cython.longlong = 1
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


def close_spans(
    level: cython.const[cython.int][::1],
    times: cython.longlong[:, ::1],
    unit: cython.longlong,
    around: cython.longlong[:, ::1],
) -> cython.longlong:
    """Turn the ends of spans into durations that separate levels of equal length.

    A span as long as the one around it ends a unit before it does, but lasts at least
    one; whatever else lies in a shortened span ends with it.

    Args:
        level: Of each span, as `open_spans` wrote it.
        times: As `open_spans` filled it, at least as long.
        unit: What a span is shortened by.
        around: (3, levels), for the spans around.

    Returns:
        1 if the spans lie by start, then duration descending, then level; 0 if not;
        or `BAD_RANGE`.
    """
    if times.shape[0] != 2 or times.shape[1] < level.shape[0] or around.shape[0] != 3:
        return BAD_RANGE
    if not cython.compiled:
        level, times = memoryview(level), memoryview(times)
        around = memoryview(around)
    with cython.nogil:
        found: cython.longlong = _close_spans(level, times, unit, around)
    return found
