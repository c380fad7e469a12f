"""Calls that only the main thread can make, or that it should make.

The main thread makes the call between two of its instructions, like a signal handler.
An exception that interrupts the call (Ctrl-C, `sys.exit` in a handler of the program)
is raised in the program.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

#: Seconds to wait for the main thread when another thread starts a recording.
MAIN_THREAD_S: Final = 3.0

#: Modules of stepscope that hold no lock: wrappers around calls of the program, and the
#: hook that notes Python calls on the main thread.
_HOLD_NOTHING: Final = (
    "stepscope.capture.launching.step_sources",
    "stepscope.capture.collectors.python_calls",
)
#: Factor on the waiting time for a main thread that runs Python at an unsafe point.
_UNSAFE_FACTOR: Final = 10
#: Seconds between two checks whether the main thread is at a safe point.
_CHECK_PERIOD_S: Final = 0.02
#: Modules in which the main thread is not interrupted: an import or the start of a
#: profiler is incomplete, or a lock of Python or of stepscope may be held.
_UNSAFE: Final = (
    "_frozen_importlib",
    "importlib",
    "logging",
    "threading",
    "stepscope",
    "jax._src.profiler",
    "tensorflow.python.profiler",
    "torch.autograd.profiler",
    "torch.profiler",
)
#: Functions of `threading` that wait for other threads without holding a lock.
_WAITS: Final = ("Condition.wait", "Thread._wait_for_tstate_lock")


def in_main_thread(call: Callable[[], object]) -> None:
    """Ask the main thread to make a call between two of its instructions.

    The caller does not wait. A main thread that is busy outside Python makes the call
    later.
    """
    pending = _Pending(call)
    _given.append(pending)
    # A C function that calls its argument's `__bool__` and passes exceptions on.
    refused = ctypes.pythonapi.Py_AddPendingCall(
        ctypes.pythonapi.PyObject_IsTrue, ctypes.py_object(pending)
    )
    if refused:
        _given.remove(pending)


def at_safe_point(
    call: Callable[[], object], *, within_s: float, over: threading.Event | None = None
) -> bool:
    """Have the main thread make a call at a safe point, and wait for the call.

    Args:
        call: The call to make; it handles its own errors.
        within_s: Seconds to wait until the main thread runs Python code. If that thread
            runs Python at an unsafe point, the wait is ten times as long.
        over: Event that ends the waiting for the main thread.

    Returns:
        Whether the call was made. A call that was not made is withdrawn.
    """
    if threading.current_thread() is threading.main_thread():
        call()
        return True
    turn = _Turn(call)
    last = time.monotonic() + _UNSAFE_FACTOR * within_s
    while True:
        in_main_thread(turn.take_turn)
        was_checked = _wait_for_first(turn.looked, over, within_s=within_s)
        if turn.taken.is_set():
            turn.made.wait()
            return True
        if not was_checked or time.monotonic() >= last:
            return turn.withdraw_call()
        turn.looked.clear()
        time.sleep(_CHECK_PERIOD_S)


def _wait_for_first(
    event: threading.Event, over: threading.Event | None, *, within_s: float
) -> bool:
    """Wait for `event` until `over` or the deadline; return whether it was set."""
    if over is None:
        return event.wait(within_s)
    deadline = time.monotonic() + within_s
    while not over.is_set() and time.monotonic() < deadline:
        if event.wait(_CHECK_PERIOD_S):
            return True
    return event.is_set() and not over.is_set()


class _Pending:
    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def __bool__(self) -> bool:
        # The interpreter holds no reference to this object; `_given` kept it alive.
        _given.remove(self)
        self._call()
        return False


class _Turn:
    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._claim = threading.Lock()
        self.looked = threading.Event()
        self.taken = threading.Event()
        self.made = threading.Event()

    def take_turn(self) -> None:
        if _is_safe(sys._getframe(1)) and self._claim.acquire(blocking=False):  # noqa: SLF001 - no public function
            self.taken.set()
            self.looked.set()
            try:
                self._call()
            finally:
                self.made.set()
        self.looked.set()

    def withdraw_call(self) -> bool:
        """Prevent the call from being made later; return whether it was made."""
        if self._claim.acquire(blocking=False):
            return False
        self.made.wait()
        return True


#: Calls that the interpreter has received and not yet made.
_given: list[_Pending] = []


def _is_safe(frame: FrameType | None) -> bool:
    """Return whether the stack frames contain only code that may be interrupted."""
    # A thread that waits for other threads has released Python's own locks. A main
    # thread that mostly waits can be interrupted only at the end of a wait.
    frame = None if frame is None else frame.f_back
    waits = frame is not None and frame.f_code.co_qualname in _WAITS
    while waits and frame is not None:
        if frame.f_globals.get("__name__") != threading.__name__:
            break
        frame = frame.f_back
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        if module.startswith(_UNSAFE) and not module.startswith(_HOLD_NOTHING):
            return False
        frame = frame.f_back
    return True
