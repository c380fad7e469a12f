"""Having the main thread do something that only itself can do for itself."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["in_main_thread"]

_Pending: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
#: What the interpreter was given is never freed, since it may be running. It is small,
#: and there is one for a recording at most.
_GIVEN: Final[list[Any]] = []


def in_main_thread(call: Callable[[], None]) -> None:
    """Have the main thread make a call between two instructions of its own.

    It is not waited for: a thread that is busy outside of Python makes it later.
    """
    calls = [call]

    def made(_: object) -> int:
        # What is kept holds nothing of the recording any more.
        calls.pop()()
        return 0

    pending = _Pending(made)
    _GIVEN.append(pending)
    ctypes.pythonapi.Py_AddPendingCall(pending, None)
