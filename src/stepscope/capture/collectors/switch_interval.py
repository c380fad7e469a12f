"""Python's switch interval during a recording: short while other threads only wait."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Final

from stepscope.capture.base.encoding import OWN_THREADS, native_id
from stepscope.capture.collectors.core_time import core_time_ns

#: Switch interval in seconds. A loop that calls NumPy releases the GIL every few tenths
#: of a millisecond, and timers add about 50 µs: a shorter one would gain little.
_PROMPT_S: Final = 0.00002
#: A thread on a core for at most this share of the time counts as waiting.
_MAX_BUSY: Final = 0.05


class _Switching:
    def __init__(self) -> None:
        self._usual_s: float | None = None
        #: Time of the last reading of other threads' clocks, in ns, and their time on a
        #: core by system id, in ns.
        self._read_ns = 0
        self._ran_ns: dict[int, int] = {}

    def update_interval(self) -> None:
        if not self._others_only_waited():
            self.restore_interval()
        elif self._usual_s is None and sys.getswitchinterval() > _PROMPT_S:
            self._usual_s = sys.getswitchinterval()
            sys.setswitchinterval(_PROMPT_S)

    def restore_interval(self) -> None:
        """Restore Python's switch interval, unless the program has changed it."""
        usual_s, self._usual_s = self._usual_s, None
        # Python stores the switch interval in whole microseconds.
        is_unchanged = abs(sys.getswitchinterval() - _PROMPT_S) < 1e-6
        if usual_s is not None and is_unchanged:
            sys.setswitchinterval(usual_s)

    def _others_only_waited(self) -> bool:
        """Return whether all other threads have only waited since the last call.

        A new thread's time on a core is compared with that of the main thread.
        """
        threads = threading.enumerate()
        own_idents = {
            thread.ident
            for thread in threads
            if thread is threading.main_thread() or thread.name.startswith(OWN_THREADS)
        }
        # Threads that Python did not start have frames too, but an unknown clock.
        other_idents = sys._current_frames().keys() - own_idents  # noqa: SLF001 - no public function
        known = {thread.ident: native_id(thread) for thread in threads}
        before, self._ran_ns = self._ran_ns, {}
        begin_ns, self._read_ns = self._read_ns, time.monotonic_ns()
        all_waited = True
        for thread in {known.get(ident) for ident in other_idents}:
            if thread is None or sys.platform != "linux":
                all_waited = False
                continue
            elapsed_ns = self._read_ns - begin_ns
            if thread not in before:
                elapsed_ns = core_time_ns(os.getpid()) or 0
            ran_ns = self._ran_ns[thread] = core_time_ns(thread) or 0
            all_waited &= ran_ns - before.get(thread, 0) <= _MAX_BUSY * elapsed_ns
        return all_waited


#: A single object, because the interpreter has a single switch interval.
switching: Final = _Switching()
# A forked child does not continue the recordings of its parent.
os.register_at_fork(after_in_child=switching.restore_interval)
