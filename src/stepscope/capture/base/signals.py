"""Immediate reaction to a signal, and delay of exceptions that handlers raise.

A Python handler runs only on the main thread, which compiled code may occupy for long.
The interpreter writes the number of a signal into a pipe at once.

A handler of the program interrupts whatever code the main thread executes. An exception
that the handler raises while a recording begins or ends would look like an error of the
profiler, or leave the recording half ended. Stepscope raises the exception later.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.base.spool import OwnDescriptor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_OVER = b"\0"
#: Maximum seconds to wait for the listening thread, which may be storing a recording.
_ENDS_WITHIN_S: Final = 1.0
#: Size of a buffer in bytes; larger than any system's `struct sigaction`.
_SIGACTION_BYTES: Final = 512
_SIGNALS: Final = tuple(map(int, signal.valid_signals()))
#: Module prefix of stepscope's own handlers, which raise no exceptions.
_PREFIX: Final = "stepscope."


class Alarm:
    """A thread that calls a function when a signal arrives; made by the main thread."""

    def __init__(self, number: int, on_signal: Callable[[], None]) -> None:
        """Listen for a signal, unless the program uses the wakeup descriptor itself.

        Args:
            number: Number of the signal, which must have a Python handler.
        """
        self._number = number
        self._on_signal = on_signal
        reading, writing = os.pipe()
        self._reading, self._writing = OwnDescriptor(reading), OwnDescriptor(writing)
        self._written_to = writing
        os.set_blocking(writing, False)
        before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        if before != -1:
            signal.set_wakeup_fd(before)
        self._thread = threading.Thread(
            target=self._listen_until_over, name="stepscope-alarm", daemon=True
        )
        self._thread.start()

    def end_thread(self) -> None:
        """Stop listening; called by the main thread."""
        self._restore_descriptor()
        with contextlib.suppress(OSError):
            os.write(self._writing.number(), _OVER)
        self._thread.join(_ENDS_WITHIN_S)

    def forget_in_child(self) -> None:
        """Stop listening in a forked child, whose signals do not concern its parent."""
        self._restore_descriptor()
        self._reading.close()
        self._writing.close()

    def _restore_descriptor(self) -> None:
        descriptor = signal.set_wakeup_fd(-1)
        if descriptor not in (-1, self._written_to):
            # The program may have closed its own descriptor as well.
            with contextlib.suppress(OSError):
                signal.set_wakeup_fd(descriptor)

    def _listen_until_over(self) -> None:
        while True:
            received = b""
            with contextlib.suppress(OSError):
                received = os.read(self._reading.number(), 64)
            if not received:
                from stepscope.capture.base.main_thread import (  # noqa: PLC0415 - keeps process startup fast
                    in_main_thread,
                )

                # Do not write to a descriptor that the program has closed.
                in_main_thread(self._restore_descriptor)
                break
            if self._number in received:
                self._on_signal()
            if _OVER in received:
                break
        self._reading.close()
        self._writing.close()


def die_by_signal(number: int) -> None:
    """End this process by a signal's default action; any thread may call it."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(number, signal.SIG_DFL)
    else:
        import ctypes  # noqa: PLC0415 - needed only in a recording

        # Python lets only the main thread set handlers, and the main thread is busy.
        ctypes.CDLL(None).signal(number, None)
    os.kill(os.getpid(), number)


class _Held:
    """Whether exceptions of signal handlers are being delayed.

    Attributes:
        by: Id of the process that delays exceptions; 0 if none does. A child that is
            forked during the delay has another id and delays no exceptions.
    """

    by = 0
    error: BaseException | None = None


_held: Final = _Held()


class _Holding:
    """A handler of the program whose exceptions are delayed during profiler work."""

    def __init__(self, handler: Callable[..., object]) -> None:
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        try:
            self.handler(number, frame)
        except BaseException as error:
            if _held.by != os.getpid():
                # Exceptions are not delayed now; other code kept this wrapper.
                raise
            if _held.error is not None and isinstance(error, KeyboardInterrupt):
                # A user who presses Ctrl-C twice does not want to wait.
                raise
            if _held.error is None:
                _held.error = error


@contextlib.contextmanager
def hold_exceptions() -> Iterator[None]:
    """Delay exceptions of the program's signal handlers; raise the first at the end.

    In a nested block the delay lasts until the outer block ends. Handlers run only on
    the main thread, so a block on another thread has no effect.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or _held.by == os.getpid():
        yield
        return
    _held.error = None
    try:
        for number, handler in _current_handlers():
            module = getattr(handler, "__module__", None) or ""
            is_ours = isinstance(handler, _Holding) or module.startswith(_PREFIX)
            if callable(handler) and not is_ours:
                _replace_handler(number, _Holding(handler))
        _held.by = os.getpid()
        yield
    finally:
        try:
            for number, handler in _current_handlers():
                if isinstance(handler, _Holding):
                    _replace_handler(number, handler.handler)
        finally:
            _held.by = 0
        error, _held.error = _held.error, None
        if error is not None:
            raise error


def program_handler(number: int) -> Any:
    """Return the handler that the program has set for a signal."""
    handler = signal.getsignal(number)
    return handler.handler if isinstance(handler, _Holding) else handler


def set_handler(number: int, handler: Any) -> None:
    """Restore the program's handler of a signal; its exceptions are still delayed."""
    holds = callable(handler) and _held.by == os.getpid()
    signal.signal(number, _Holding(handler) if holds else handler)


def _current_handlers() -> Iterator[tuple[int, Any]]:
    for number in _SIGNALS:
        yield number, signal.getsignal(number)


def _replace_handler(number: int, handler: Callable[..., object]) -> None:
    """Set a handler in Python without changing the system's `sigaction` entry.

    A library may have put a handler in C before Python's, as `faulthandler` does, or
    made system calls continue after the signal.
    """
    import ctypes  # noqa: PLC0415 - needed only in a recording

    sigaction = _system_sigaction()
    before = ctypes.create_string_buffer(_SIGACTION_BYTES)
    if sigaction is not None:
        sigaction(number, None, before)
    signal.signal(number, handler)
    if sigaction is not None:
        sigaction(number, before, None)


@functools.cache
def _system_sigaction() -> Any:
    import ctypes  # noqa: PLC0415 - needed only in a recording

    return getattr(ctypes.CDLL(None), "sigaction", None) if os.name == "posix" else None
