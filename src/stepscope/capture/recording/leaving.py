"""How a process that records may leave: by its end, by SIGTERM, by a fork.

SIGTERM is taken only where nobody else wants it. The recording is then stored, and the
process dies by the signal as it would have without us, with the same exit status.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

__all__ = ["Leaving", "leaving"]


class Leaving:
    """What is called when this process ends, or becomes two."""

    def __init__(self) -> None:
        self._registered = False
        self._end: Callable[[], object] | None = None
        self._forked: Callable[[], object] | None = None
        self._busy = 0
        self._signalled = False
        self._took_signal = False

    def watch(self, *, end: Callable[[], object], forked: Callable[[], object]) -> None:
        """Call `end` before the process ends and `forked` in every forked child."""
        self._end, self._forked = end, forked
        if not self._registered:
            self._registered = True
            atexit.register(self._at_exit)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=self._in_child)
        self._take_signal()

    def come_first(self) -> None:
        """Be called at the exit before everything that registered for it until now.

        A framework ends its own profiler there, and what it recorded is lost then.
        """
        if self._registered:
            atexit.unregister(self._at_exit)
            atexit.register(self._at_exit)

    def forget(self) -> None:
        """Call nothing any more, and give the signal back."""
        self._end = self._forked = None
        self._give_signal_back()

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Within it a SIGTERM waits: it could find a recording half begun or ended."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            if self._signalled and not self._busy:
                # Sent again, for the main thread to answer it.
                self._signalled = False
                os.kill(os.getpid(), signal.SIGTERM)

    def _at_exit(self) -> None:
        if self._end is not None:
            self._end()

    def _in_child(self) -> None:
        forked = self._forked
        self._end = self._forked = None
        self._busy = 0
        # The child has our signal handler, and nothing to store by it.
        self._give_signal_back()
        if forked is not None:
            forked()

    def _take_signal(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._on_signal)
            self._took_signal = True

    def _give_signal_back(self) -> None:
        if not self._took_signal:
            return
        if threading.current_thread() is not threading.main_thread():
            # Only the main thread may; there the handler lets the signal through.
            return
        self._took_signal = False
        if signal.getsignal(signal.SIGTERM) == self._on_signal:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._busy:
            self._signalled = True
            return
        try:
            if self._end is not None:
                self._end()
        finally:
            self._die()

    def _die(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


leaving: Final = Leaving()
