"""How fast a thread gets the interpreter's lock from one that computes in Python.

Whoever waits 5 ms for the lock finds the program where it let go of it by itself, in a
call that waits, and seldom in one that computes. So looks at the program's threads wait
less. That is set for all threads at once, and so only where none but the program's main
thread and ours compute in Python: others would take turns more often than they usually
do. Threads that only wait, as the one that hands a loader's workers their next batch,
take no turns.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from stepscope.capture.collectors.core_time import on_a_core_ns
from stepscope.capture.ground.encoding import OWN_THREADS, native_id

if TYPE_CHECKING:
    from collections.abc import Iterable

#: A loop that calls NumPy lets go of the lock by itself every few tenths of a
#: millisecond. The system's timers add some 50 µs, so that less would gain little.
_PROMPT_S: Final = 0.00002
#: A thread that is on a core for less than this part of the time only waits.
_WAITS: Final = 0.05


class _Switching:
    """Sets the switch interval of the interpreter, and puts back what it was."""

    def __init__(self) -> None:
        self._usual_s: float | None = None
        #: When the clocks of other threads were read, and what they said, by the
        #: system's id; both in ns.
        self._read_ns = 0
        self._ran_ns: dict[int, int] = {}

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
        threads = threading.enumerate()
        ours = {
            thread.ident
            for thread in threads
            if thread is threading.main_thread() or thread.name.startswith(OWN_THREADS)
        }
        # Threads that are not Python's own have frames too, and no clock that is known.
        others = sys._current_frames().keys() - ours  # noqa: SLF001 - the way there is
        known = {thread.ident: native_id(thread) for thread in threads}
        return self._wait({known.get(ident) for ident in others})

    def _wait(self, threads: Iterable[int | None]) -> bool:
        """Say whether these have only waited since the last time.

        One that is new is held against what the main thread has computed in its life.
        """
        before, self._ran_ns = self._ran_ns, {}
        begin_ns, self._read_ns = self._read_ns, time.monotonic_ns()
        wait = True
        for thread in threads:
            if thread is None or sys.platform != "linux":
                wait = False
                continue
            room_ns = self._read_ns - begin_ns
            if thread not in before:
                room_ns = on_a_core_ns(os.getpid()) or 0
            ran_ns = self._ran_ns[thread] = on_a_core_ns(thread) or 0
            wait &= ran_ns - before.get(thread, 0) <= _WAITS * room_ns
        return wait


#: The interpreter has one interval, so there is one of these.
switching: Final = _Switching()
# A forked child has none of its parent's recordings.
os.register_at_fork(after_in_child=switching.end)
