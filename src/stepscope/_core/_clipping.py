"""Clip event times to ±(2**62 - 1), so that no sum or difference can overflow.

The build copies these functions into every kernel module that imports them, because C
can inline functions only within a module.
"""

from __future__ import annotations

from stepscope._core._shim import cython


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def clipped_start(start: cython.longlong) -> cython.longlong:
    limit: cython.longlong = 0x3FFF_FFFF_FFFF_FFFF
    return max(-limit, min(limit, start))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def clipped_end(start: cython.longlong, dur: cython.longlong) -> cython.longlong:
    limit: cython.longlong = 0x3FFF_FFFF_FFFF_FFFF
    begins: cython.longlong = clipped_start(start)
    if dur <= 0:
        return begins
    if start < 0:
        # The sum of a negative and a positive number cannot overflow.
        return max(-limit, min(limit, start + dur))
    return limit if dur > limit - begins else begins + dur
