"""Ending a process without what its C libraries do at the exit."""

from __future__ import annotations

import ctypes


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
