"""Exit, SIGTERM and forks of a process that is being recorded.

At SIGTERM the recording is stored. Then the program's own SIGTERM handler runs, if
there is one. If the program has no handler, the signal ends the process with the same
exit status as without stepscope. The process ends soon, even if the main thread is busy
or storing takes long.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.base.signals import (
    Alarm,
    die_by_signal,
    hold_exceptions,
    program_handler,
    set_handler,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

#: Seconds for the main thread to handle SIGTERM; then another thread does so.
_GRACE_S: Final = 0.5
#: Maximum seconds that a process outlives SIGTERM: schedulers kill after 10 s or more.
_STORE_S: Final = 8.0


class ProcessEnd:
    """Callbacks for the end of this process and for its forked children."""

    def __init__(self) -> None:
        self._registered = False
        self._end: Callable[[], object] | None = None
        self._forked: Callable[[], object] | None = None
        self._busy = 0
        #: SIGTERMs to send again; a deque, because threads append and pop at any time.
        self._delayed: deque[int] = deque()
        self._took_signal = False
        self._before: Any = signal.SIG_DFL
        self._alarm: Alarm | None = None
        self._claim = threading.Lock()
        self._stored = threading.Event()
        #: Id of the thread that stores the recording because of SIGTERM.
        self._storing: int | None = None
        #: Per thread: the signals that the thread blocked before it began to fork.
        self._forking = threading.local()

    @property
    def by_signal(self) -> bool:
        """Whether SIGTERM is ending the recording now."""
        return self._storing is not None

    @property
    def may_go_on(self) -> bool:
        """Whether SIGTERM ends the recording, but possibly not the program."""
        return self.by_signal and callable(self._before)

    def watch(self, *, end: Callable[[], object], forked: Callable[[], object]) -> None:
        """Call `end` before the process ends and `forked` in every forked child."""
        self._end, self._forked = end, forked
        if not self._registered:
            self._registered = True
            atexit.register(self._end_at_exit)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(
                    before=self._hold_signal,
                    after_in_parent=self._let_signal_through,
                    after_in_child=self._forget_in_child,
                )
        self._take_signal()

    def come_first(self) -> None:
        """Run the exit callback before all exit callbacks registered until now.

        A framework's exit callback stops its profiler and loses the profiler's data.
        """
        if self._registered:
            atexit.unregister(self._end_at_exit)
            atexit.register(self._end_at_exit)

    def forget(self) -> None:
        """Drop the callbacks and restore the program's SIGTERM handler."""
        self._end = self._forked = None
        self._give_signal_back()

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Delay SIGTERM and exceptions of the program's handlers until the block ends.

        Without the delay, a handler could interrupt the start or end of a recording.
        """
        with hold_exceptions():
            self._busy += 1
            try:
                yield
            finally:
                self._busy -= 1
                if not self._busy and self._pop_delayed():
                    # Send the signal again, so that the main thread handles it now.
                    os.kill(os.getpid(), signal.SIGTERM)

    def _end_at_exit(self) -> None:
        if self._end is not None:
            # The program has ended, so exceptions of its handlers have no effect.
            with contextlib.suppress(BaseException):
                self._end()
        # If another thread ended the recording, the signal handler is still installed.
        self._give_signal_back()

    def _hold_signal(self) -> None:
        """Block SIGTERM while this thread forks.

        A new child still shares the alarm's pipe with its parent. If the child received
        SIGTERM, the parent would handle the signal as its own.
        """
        if self._took_signal:
            self._forking.blocked = signal.pthread_sigmask(
                signal.SIG_BLOCK, {signal.SIGTERM}
            )

    def _let_signal_through(self) -> None:
        blocked = self._forking.__dict__.pop("blocked", None)
        if blocked is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _forget_in_child(self) -> None:
        forked = self._forked
        self._end = self._forked = None
        self._busy = 0
        self._delayed.clear()
        self._claim, self._stored = threading.Lock(), threading.Event()
        self._storing = None
        alarm, self._alarm = self._alarm, None
        if alarm is not None:
            alarm.forget_in_child()
        # The child inherited the signal handler, but has no recording to store.
        self._give_signal_back()
        if forked is not None:
            forked()
        self._let_signal_through()

    def _take_signal(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            from stepscope.capture.base.main_thread import (  # noqa: PLC0415 - keeps process startup fast
                in_main_thread,
            )

            in_main_thread(self._take_signal)
            return
        if self._end is None:
            # The recording ended before the main thread made this call.
            return
        before = program_handler(signal.SIGTERM)
        if before == self._on_signal:
            return
        if before is signal.SIG_DFL or callable(before):
            self._before = before
            signal.signal(signal.SIGTERM, self._on_signal)
            self._took_signal = True
            if before is signal.SIG_DFL and os.name == "posix":
                self._alarm = Alarm(signal.SIGTERM, self._answer_alarm)

    def _give_signal_back(self) -> None:
        if not self._took_signal:
            return
        if threading.current_thread() is not threading.main_thread():
            # Only the main thread may restore the handler, which now forwards SIGTERM.
            return
        self._took_signal = False
        alarm, self._alarm = self._alarm, None
        if alarm is not None:
            alarm.end_thread()
        if signal.getsignal(signal.SIGTERM) == self._on_signal:
            set_handler(signal.SIGTERM, self._before)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._busy and self._storing in (None, threading.get_ident()):
            self._delayed.append(number)
            # If another thread's block has just ended, that thread may have looked for
            # a delayed signal too early.
            if self._busy or not self._pop_delayed():
                return
        before = self._before
        is_ours = signal.getsignal(signal.SIGTERM) == self._on_signal
        try:
            self._store_once()
        finally:
            if callable(before):
                before(number, frame)
            # Do not end the process if a later handler of the program calls this one.
            elif is_ours:
                die_by_signal(signal.SIGTERM)

    def _answer_alarm(self) -> None:
        """Store the recording and end the process; run by the alarm thread."""
        if signal.getsignal(signal.SIGTERM) != self._on_signal:
            return
        deadline = time.monotonic() + _STORE_S
        self._stored.wait(_GRACE_S)
        while self._busy and time.monotonic() < deadline:
            time.sleep(_GRACE_S / 10)
        threading.Thread(
            target=self._store_once, name="stepscope-leaving", daemon=True
        ).start()
        self._stored.wait(max(0.0, deadline - time.monotonic()))
        if signal.getsignal(signal.SIGTERM) == self._on_signal:
            die_by_signal(signal.SIGTERM)

    def _pop_delayed(self) -> bool:
        """Whether a signal was delayed; only one of several threads gets True."""
        try:
            self._delayed.pop()
        except IndexError:
            return False
        self._delayed.clear()
        return True

    def _store_once(self) -> None:
        """End the recording once; a second caller waits for its end."""
        if not self._claim.acquire(blocking=False):
            self._stored.wait(_STORE_S)
            return
        self._storing = threading.get_ident()
        try:
            if self._end is not None:
                self._end()
        finally:
            self._stored.set()
            if callable(self._before):
                # The program may continue, and may be recorded again.
                self._stored.clear()
                self._storing = None
                self._claim.release()


process_end: Final = ProcessEnd()
