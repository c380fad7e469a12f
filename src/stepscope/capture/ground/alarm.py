"""Hearing of a signal while the main thread is busy outside of Python.

A handler in Python waits for the main thread, which a compiled program may hold for
long. The interpreter writes the number of a signal into a pipe at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Alarm", "die_by"]

_OVER = b"\0"
#: It has nothing left to do when it is told so, unless it is storing a recording.
_ENDS_WITHIN_S: Final = 1.0


class Alarm:
    """A thread that calls something when a signal arrives; made by the main thread."""

    def __init__(self, number: int, heard: Callable[[], None]) -> None:
        """Listen, unless the program listens in this way itself.

        Args:
            number: Of the signal; it must have a handler in Python.
            heard: Called by the thread.
        """
        self._number = number
        self._heard = heard
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        if before != -1:
            signal.set_wakeup_fd(before)
        self._thread = threading.Thread(
            target=self._listen, name="stepscope-alarm", daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """Listen no more; called by the main thread."""
        self._give_back()
        os.write(self._writing, _OVER)
        self._thread.join(_ENDS_WITHIN_S)

    def forget(self) -> None:
        """In a forked child: what it hears is not for its parent."""
        self._give_back()
        os.close(self._reading)
        os.close(self._writing)

    def _give_back(self) -> None:
        there = signal.set_wakeup_fd(-1)
        if there not in (-1, self._writing):
            signal.set_wakeup_fd(there)

    def _listen(self) -> None:
        while True:
            heard = os.read(self._reading, 64)
            if self._number in heard:
                self._heard()
            if _OVER in heard:
                break
        for end in (self._reading, self._writing):
            with contextlib.suppress(OSError):
                os.close(end)


def die_by(number: int) -> None:
    """End this process by a signal, from whichever thread, as if nobody handled it."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(number, signal.SIG_DFL)
    else:
        import ctypes  # noqa: PLC0415 - arming stays light; a recording has it

        # Python lets only the main thread set handlers, which is busy.
        ctypes.CDLL(None).signal(number, None)
    os.kill(os.getpid(), number)
