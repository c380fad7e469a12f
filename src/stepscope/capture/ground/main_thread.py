"""Having the main thread do something that only itself can do, or should.

It does so between two instructions of its own, as it would run a signal handler. What
interrupts it there (Ctrl-C, `sys.exit` in a handler of the program) reaches the
program.
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

#: How long a recording that time begins waits for the main thread.
MAIN_THREAD_S: Final = 3.0

#: Our functions that hold nothing: those around calls of the program, and the hook in
#: which a main thread is met whose Python calls are noted.
_HOLD_NOTHING: Final = (
    "stepscope.capture.launching.step_sources",
    "stepscope.capture.collectors.python_calls",
)
#: A main thread that imports for long is waited for, this many times longer.
_PATIENCE: Final = 10
#: Between two looks whether the main thread is at a better point.
_AGAIN_S: Final = 0.02
#: Code within which the main thread is not disturbed: an import is half done there, a
#: profiler half started, a lock of Python's own or of ours may be held.
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
#: Functions of `threading` in which a thread waits for others, holding nothing.
_WAITS: Final = ("Condition.wait", "Thread._wait_for_tstate_lock")


def in_main_thread(call: Callable[[], object]) -> None:
    """Have the main thread make a call between two instructions of its own.

    It is not waited for: a thread that is busy outside of Python makes it later.
    """
    pending = _Pending(call)
    _given.append(pending)
    # Python's own function of this kind that calls something back, and hands on what
    # it raises.
    refused = ctypes.pythonapi.Py_AddPendingCall(
        ctypes.pythonapi.PyObject_IsTrue, ctypes.py_object(pending)
    )
    if refused:
        _given.remove(pending)


def at_safe_point(
    call: Callable[[], object], *, within_s: float, over: threading.Event | None = None
) -> bool:
    """Have the main thread make a call where that disturbs nothing, and wait for it.

    Args:
        call: What is to be done. It handles its own errors.
        within_s: How long to wait for the main thread to come back to Python; it is
            asked again while it is there but at no such point, ten times as long.
        over: Once it is set, the main thread is not waited for any more.

    Returns:
        Whether the call was made; where it was not, it will not be.
    """
    if threading.current_thread() is threading.main_thread():
        call()
        return True
    turn = _Turn(call)
    last = time.monotonic() + _PATIENCE * within_s
    while True:
        in_main_thread(turn.take_turn)
        came = _wait_for_first(turn.looked, over, within_s=within_s)
        if turn.taken.is_set():
            turn.made.wait()
            return True
        if not came or time.monotonic() >= last:
            return turn.withdraw_call()
        turn.looked.clear()
        time.sleep(_AGAIN_S)


def _wait_for_first(
    looked: threading.Event, over: threading.Event | None, *, within_s: float
) -> bool:
    """Wait for the first event until the second is set; return whether it came."""
    if over is None:
        return looked.wait(within_s)
    deadline = time.monotonic() + within_s
    while not over.is_set() and time.monotonic() < deadline:
        if looked.wait(_AGAIN_S):
            return True
    return looked.is_set() and not over.is_set()


class _Pending:
    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def __bool__(self) -> bool:
        # Whoever asks holds no reference.
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
        if _is_safe(sys._getframe(1)) and self._claim.acquire(blocking=False):  # noqa: SLF001 - as tracebacks do
            self.taken.set()
            self.looked.set()
            try:
                self._call()
            finally:
                self.made.set()
        self.looked.set()

    def withdraw_call(self) -> bool:
        """See to it that the call is not made any more; return whether it was."""
        if self._claim.acquire(blocking=False):
            return False
        self.made.wait()
        return True


#: What the interpreter was given and has not called.
_given: list[_Pending] = []


def _is_safe(frame: FrameType | None) -> bool:
    """Return whether nothing that must not be disturbed is under way in the frames."""
    # Whoever waits for other threads has let go of the locks of Python's own. A main
    # thread that does little else is met nowhere but where a wait ends.
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
