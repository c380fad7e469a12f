# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Totals of groups whose numbers are small and dense.

A row's group is a code from 0 up; a row with a negative code is in none. One pass adds
each row to its group; no row is moved or compared with another. Sums are exact: they
are whole numbers of 64 bits, never reals.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from stepscope._core import _shim as cython
if not cython.compiled:
    from stepscope._core import _shim as cython

__all__ = ["BAD_RANGE", "totals"]

#: Arrays of different lengths, or a code beyond the groups.
BAD_RANGE = -3


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _totals(
    code: cython.const[cython.int][::1],
    value: cython.const[cython.longlong][::1],
    count: cython.longlong[::1],
    total: cython.longlong[::1],
    least: cython.longlong[::1],
    greatest: cython.longlong[::1],
) -> cython.longlong:
    row: cython.longlong
    group: cython.longlong
    number: cython.longlong
    groups: cython.longlong = count.shape[0]
    for row in range(code.shape[0]):
        group = code[row]
        if group < 0:
            continue
        if group >= groups:
            return -3
        number = value[row]
        if count[group] == 0 or number < least[group]:
            least[group] = number
        if count[group] == 0 or number > greatest[group]:
            greatest[group] = number
        count[group] += 1
        total[group] += number
    return code.shape[0]


def totals(
    code: cython.const[cython.int][::1],
    value: cython.const[cython.longlong][::1],
    count: cython.longlong[::1],
    total: cython.longlong[::1],
    least: cython.longlong[::1],
    greatest: cython.longlong[::1],
) -> cython.longlong:
    """Add every row to its group; the four outputs, by group, begin as zeros.

    A group without rows keeps its zeros, whatever they mean to the caller.

    Returns:
        The number of rows, or `BAD_RANGE`.
    """
    if (
        value.shape[0] != code.shape[0]
        or total.shape[0] != count.shape[0]
        or least.shape[0] != count.shape[0]
        or greatest.shape[0] != count.shape[0]
    ):
        return BAD_RANGE
    if not cython.compiled:
        code, value = memoryview(code), memoryview(value)
        count, total = memoryview(count), memoryview(total)
        least, greatest = memoryview(least), memoryview(greatest)
    with cython.nogil:
        found: cython.longlong = _totals(code, value, count, total, least, greatest)
    return found
