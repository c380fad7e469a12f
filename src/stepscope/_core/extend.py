# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Derived lines: consecutive pieces of work of one op become one span.

One pass over the pieces of a stream in order of time, once per level of the line
(spec: tools, section 6e). Times lie within 62 bits.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from stepscope._core import _shim as cython
if not cython.compiled:
    from stepscope._core import _shim as cython

__all__ = ["BAD_RANGE", "extend"]

#: Arrays of different lengths.
BAD_RANGE = -3


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _extend(
    code: cython.const[cython.int][::1],
    step: cython.const[cython.int][::1],
    start: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    bounded: cython.longlong,
    opens: cython.uchar[::1],
    first: cython.longlong[::1],
    until: cython.longlong[::1],
) -> cython.longlong:
    row: cython.longlong
    same: cython.bint
    began: cython.longlong = 0
    last: cython.longlong = 0
    of_step: cython.int = -1
    of_code: cython.int = -1
    count: cython.longlong = 0
    for row in range(code.shape[0]):
        if code[row] < 0:
            if of_code >= 0:
                opens[row] = 1
            of_code = -1
            continue
        same = code[row] == of_code and step[row] == of_step and opens[row] == 0
        if same and bounded != 0 and step[row] < 0:
            # Without a step nothing but nearness says that it is the same execution.
            same = start[row] - last <= 2 * (last - began)
        if same:
            if end[row] > last:
                last = end[row]
                until[count - 1] = last
            continue
        opens[row] = 1
        of_code = code[row]
        of_step = step[row]
        began = start[row]
        last = end[row]
        first[count] = row
        until[count] = last
        count += 1
    return count


def extend(
    code: cython.const[cython.int][::1],
    step: cython.const[cython.int][::1],
    start: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    bounded: cython.longlong,
    opens: cython.uchar[::1],
    first: cython.longlong[::1],
    until: cython.longlong[::1],
) -> cython.longlong:
    """Form the spans of one level.

    A piece extends the open span if it has the same code and the same step (both may
    be none) and no outer level opened or closed a span at it; else it opens one.

    Args:
        code: What the piece is on this level; below 0: nothing, which closes the span.
        step: Its step; below 0: none.
        start: Starts, ascending.
        end: Ends.
        bounded: Nonzero: pieces without a step extend a span only if they start
            within twice its length after its end.
        opens: Nonzero where an outer level opened or closed a span; receives the same
            for this level.
        first: Receives the first piece of each span.
        until: Receives the end of each span.

    Returns:
        How many spans there are, or `BAD_RANGE`.
    """
    count: cython.longlong = code.shape[0]
    if (
        step.shape[0] != count
        or start.shape[0] != count
        or end.shape[0] != count
        or opens.shape[0] != count
        or first.shape[0] != count
        or until.shape[0] != count
    ):
        return BAD_RANGE
    if not cython.compiled:
        code, step = memoryview(code), memoryview(step)
        start, end = memoryview(start), memoryview(end)
    with cython.nogil:
        found: cython.longlong = _extend(
            code, step, start, end, bounded, opens, first, until
        )
    return found
