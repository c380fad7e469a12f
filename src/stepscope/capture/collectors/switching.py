"""How fast a thread gets the interpreter's lock from one that computes in Python.

Whoever waits 5 ms for the lock finds the program where it let go of it by itself, in a
call that waits, and seldom in one that computes. So looks at the program's threads wait
less. That is set for all threads at once, and so only where none but the program's main
thread and ours run Python: others would take turns more often than they usually do.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Final

from stepscope.capture.ground.encoding import OWN_THREADS

__all__ = ["switching"]

#: A loop that calls NumPy lets go of the lock by itself every few tenths of a
#: millisecond. The system's timers add some 50 µs, so that less would gain little.
_PROMPT_S: Final = 0.00002


class _Switching:
    """Sets the switch interval of the interpreter, and puts back what it was."""

    def __init__(self) -> None:
        self._usual_s: float | None = None

    def update(self) -> None:
        """Set it, or put it back, as the threads are that run now."""
        if not self._main_runs_alone():
            self.end()
        elif self._usual_s is None and sys.getswitchinterval() > _PROMPT_S:
            self._usual_s = sys.getswitchinterval()
            sys.setswitchinterval(_PROMPT_S)

    def end(self) -> None:
        """Put it back, unless the program has set it meanwhile."""
        usual_s, self._usual_s = self._usual_s, None
        # It is kept in whole microseconds.
        ours = abs(sys.getswitchinterval() - _PROMPT_S) < 1e-6
        if usual_s is not None and ours:
            sys.setswitchinterval(usual_s)

    def _main_runs_alone(self) -> bool:
        ours = {
            thread.ident
            for thread in threading.enumerate()
            if thread is threading.main_thread() or thread.name.startswith(OWN_THREADS)
        }
        # Threads that are not Python's own have frames too.
        return sys._current_frames().keys() <= ours  # noqa: SLF001 - the way there is


#: The interpreter has one interval, so there is one of these.
switching: Final = _Switching()
# A forked child has none of its parent's recordings.
os.register_at_fork(after_in_child=switching.end)
