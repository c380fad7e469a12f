"""What a command that answers and ends leaves out: threads and searches for nobody."""

from __future__ import annotations

import atexit
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


@contextmanager
def light_start() -> Iterator[None]:
    """Import the modules of a command inside of this, in a process of its own.

    In a process that has numpy already there is nothing left to save.
    """
    if "numpy" in sys.modules:
        yield
        return
    with _one_blas_thread(), _no_search_for_cycles():
        yield


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
