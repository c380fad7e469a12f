"""Recordings of a framework that nobody ended, as when stopping one went wrong.

A framework's profiler that stays on refuses the next recording, and one of PyTorch's
brings the interpreter down when it exits.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)


class OpenRecordings:
    """How to end each recording of a framework that is under way in this process."""

    def __init__(self) -> None:
        self._ends: list[tuple[int, Callable[[], object]]] = []
        self._at_exit = False

    def add(self, end: Callable[[], object]) -> None:
        """Remember a recording that began."""
        if not self._at_exit:
            atexit.register(self.end_all)
            self._at_exit = True
        self._ends.append((os.getpid(), end))

    def ended(self, end: Callable[[], object]) -> None:
        """It ended as it should."""
        self._ends = [entry for entry in self._ends if entry[1] != end]

    def end_all(self) -> None:
        """End what is still under way, whatever that says; what it recorded is lost."""
        left, self._ends = self._ends, []
        for process, end in left:
            # A forked child has none of its parent's recordings.
            if process != os.getpid():
                continue
            try:
                end()
            except Exception as error:  # noqa: BLE001 - a collector's edge
                _log.debug("a recording that was left over: %s", error)


def skip_exit_handlers_of_c() -> bool:
    """Have the process end as soon as Python has; return whether it will.

    Its exit status stays, and buffers of C are written. A framework's profiler that is
    still on is never taken down by them, which would take long or crash.
    """
    libc = ctypes.CDLL(None)
    try:
        # The last one is called first, and is given the exit status, as `_exit` is.
        handlers = [libc["_exit"], libc["fcloseall"]]
        return not any(
            libc["on_exit"](ctypes.cast(handler, ctypes.c_void_p), None)
            for handler in handlers
        )
    except AttributeError:
        # It is the GNU library's alone.
        return False
