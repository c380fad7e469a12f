"""What a command that answers and ends leaves out, since nobody gains by it.

Threads for matrices, searches for garbage, giving memory back before the end, and long
waits of one thread for another.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["light_start"]

#: How many threads OpenBLAS starts when numpy is imported; each first waits busily for
#: work. No command multiplies matrices.
_BLAS_THREADS: Final = "OPENBLAS_NUM_THREADS"
#: Parameters of glibc's `mallopt`, from its `malloc.h`, and what keeps freed memory in
#: the process: no memory is mapped for one block alone, none is trimmed, and threads
#: share one arena.
_KEPT: Final = {
    "M_MMAP_MAX": (-4, 0),
    "M_TRIM_THRESHOLD": (-1, -1),
    "M_ARENA_MAX": (-8, 1),
}

#: How long a thread that computes in Python may keep another one waiting that only
#: wants to begin its next kernel. Python's own 5 ms are as long as many kernels run, so
#: that one core stood idle; below this much nothing more is gained.
_TURN_S: Final = 0.0005


@contextmanager
def light_start() -> Iterator[None]:
    """Import the modules of a command inside of this, in a process of its own.

    In a process that has numpy already there is nothing left to save.
    """
    if "numpy" in sys.modules:
        yield
        return
    _keep_freed_memory()
    sys.setswitchinterval(_TURN_S)
    with _one_blas_thread(), _no_search_for_cycles():
        yield


def _keep_freed_memory() -> None:
    """Let the next large array take the pages of one that was freed.

    Otherwise the system takes them back and clears others: a tenth of the time that an
    analysis of five million events takes. The peak of memory is no higher, since
    threads use what others have freed. Nothing is done where glibc is not.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in _KEPT.values():
            mallopt(parameter, value)


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Import numpy without threads for matrices; what the user has set stands."""
    if _BLAS_THREADS not in os.environ:
        os.environ[_BLAS_THREADS] = "1"
        try:
            import numpy as np  # noqa: F401, PLC0415 - its import reads the variable
        finally:
            # Programs that this one starts are not concerned.
            del os.environ[_BLAS_THREADS]
    yield


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """Never look for garbage among modules: they live until the process ends.

    Neither is it looked for at the end, when all memory is given back anyway.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        atexit.register(gc.freeze)
