# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Labels handed down from a row to everything nested in it.

Parents come before their children, so one pass over the rows in order reaches all of
them: a row without a label of its own takes its parent's.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from stepscope._core import _shim as cython
if not cython.compiled:
    from stepscope._core import _shim as cython

__all__ = ["BAD_RANGE", "inherit"]

#: Arrays of different lengths, or a parent that does not come before its child.
BAD_RANGE = -3


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _inherit(
    parent: cython.const[cython.int][::1],
    label: cython.int[::1],
    begin: cython.longlong,
    end: cython.longlong,
) -> cython.longlong:
    row: cython.longlong
    above: cython.longlong
    found: cython.longlong = 0
    for row in range(begin, end):
        above = parent[row]
        if above >= row:
            return -3
        if label[row] < 0 and above >= 0:
            label[row] = label[above]
        found += label[row] >= 0
    return found


def inherit(
    parent: cython.const[cython.int][::1],
    label: cython.int[::1],
    begin: cython.longlong,
    end: cython.longlong,
) -> cython.longlong:
    """Give each row of [begin, end) the label of its nearest labelled ancestor.

    `parent` holds a smaller row number, or a negative one for none. A label below 0
    is none; what is labelled keeps its label, and what has no labelled ancestor has
    none afterwards either.

    Returns:
        How many of the rows have a label, or `BAD_RANGE`.
    """
    if (
        begin < 0
        or begin > end
        or end > parent.shape[0]
        or label.shape[0] != parent.shape[0]
    ):
        return BAD_RANGE
    if not cython.compiled:
        parent, label = memoryview(parent), memoryview(label)
    with cython.nogil:
        found: cython.longlong = _inherit(parent, label, begin, end)
    return found
