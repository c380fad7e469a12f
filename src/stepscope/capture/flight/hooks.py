"""Detection of an exception that ends the program, and of a signal by a user."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.base.spool import OwnDescriptor

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_READ_BYTES: Final = 65_536
_MS_PER_S: Final = 1000


class WakeUp:
    """Wake-up of a thread by a call or a signal, even while the main thread is busy.

    A Python signal handler waits until the main thread returns to Python. The handler
    of `faulthandler` does not wait: it writes into a pipe at once.
    """

    def __init__(self, number: int | None) -> None:
        """Listen to the signal with this number; None listens to no signal.

        A handler that the program has set is called as well.
        """
        reading, writing = os.pipe()
        self._reading, self._writing = OwnDescriptor(reading), OwnDescriptor(writing)
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        self._number: int | None = None
        self._rung = False
        register = getattr(faulthandler, "register", None)
        if number is not None and register is not None:
            chain = signal.getsignal(number) not in (signal.SIG_DFL, signal.SIG_IGN)
            register(number, file=writing, all_threads=False, chain=chain)
            self._number = number

    def wake_thread(self) -> None:
        """Wake the thread."""
        self._rung = True
        with contextlib.suppress(OSError):
            os.write(self._writing.number(), b"\n")

    def wait_for_ring(self, seconds: float) -> bool:
        """Wait for at most `seconds`; return whether a signal ended the wait."""
        try:
            # Unlike `select.select`, `poll` accepts file descriptors above 1,023.
            waiting = select.poll()
            waiting.register(self._reading.number(), select.POLLIN)
            if not waiting.poll(seconds * _MS_PER_S):
                return False
            os.read(self._reading.number(), _READ_BYTES)
        except BlockingIOError:
            pass
        except OSError:
            # The program has closed the pipe, so signals no longer arrive.
            self.stop_listening()
            time.sleep(seconds)
            return False
        rung, self._rung = self._rung, False
        return not rung

    def stop_listening(self) -> None:
        """Stop listening and close the pipe."""
        if self._number is not None:
            faulthandler.unregister(self._number)
            self._number = None
        self._reading.close()
        self._writing.close()


class ExceptionHook:
    """Hook for an exception that ends the program, called before Python prints it."""

    def __init__(self, on_exception: Callable[[BaseException], object]) -> None:
        self._on_exception: Callable[[BaseException], object] | None = on_exception
        self._before: Callable[..., Any] = sys.excepthook
        self._hook = self._call_hooks
        sys.excepthook = self._hook

    def restore_hook(self) -> None:
        """Restore the previous hook, unless other code has replaced this one."""
        if sys.excepthook is self._hook:
            sys.excepthook = self._before
        self._on_exception = None

    def _call_hooks(
        self,
        kind: type[BaseException],
        error: BaseException,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._on_exception is not None and not isinstance(
                error, KeyboardInterrupt
            ):
                self._on_exception(error)
        finally:
            self._before(kind, error, traceback)
