"""One armed process: when `stepscope run` starts and ends its recording.

`arm` runs before the program begins, so this module imports very little. The recording
code is imported when a recording begins.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import threading
from typing import TYPE_CHECKING, Final

from stepscope.capture.base.program_log import log_line
from stepscope.capture.launching.arriving import Arrivals
from stepscope.capture.launching.harmless import harmless
from stepscope.capture.launching.plan import FRAMEWORKS, RunPlan
from stepscope.capture.launching.waiting import (
    FORKS,
    notify_ancestors,
    runs_nothing_itself,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.capture.launching.counting import StepCounter
    from stepscope.capture.launching.window import Window

_ANNOTATIONS: Final = "stepscope.capture.base.annotate"
#: Modules with which a program records itself: two recordings cannot run at once.
_OWN_RECORDING: Final = (
    "stepscope.capture.profile",
    "stepscope.integrations.keras",
    "stepscope.profiler.recording",
)
#: Seconds after which steps and counters are recorded if no framework was imported.
_WATCH_AFTER_S: Final = 0.2
#: Maximum seconds that the end of the process waits for stepscope's waiting thread.
_ENDS_WITHIN_S: Final = 1.0
#: Seconds into a time window at which the cost of recording Python calls is measured.
_COST_AFTER_S: Final = 1.5


def arm() -> None:
    """Arm this process if its environment contains a plan."""
    plan = RunPlan.from_environment(os.environ)
    forks = any(word.startswith(FORKS) for word in sys.orig_argv)
    if plan is None or (runs_nothing_itself(sys.orig_argv) and not forks):
        return
    if not forks:
        # Forks may record nothing, so they do not stop their parents from recording.
        notify_ancestors(plan.notes)
    Armed(plan, steps_only=forks).begin_waiting()


class Armed:
    """A process that starts recording at a step, after some time, or at its exit."""

    def __init__(self, plan: RunPlan, *, steps_only: bool = False) -> None:
        """Follow a plan; with `steps_only`, record nothing unless steps are counted."""
        from stepscope.capture.launching.counting import (  # noqa: PLC0415 - keeps process startup fast
            StepCounter,
        )
        from stepscope.capture.launching.window import (  # noqa: PLC0415 - keeps process startup fast
            Window,
        )

        self._plan = plan
        guard = harmless(lambda reason: self._window.abandon(reason))  # noqa: PLW0108 - the window is created later
        self._end_window = guard(self._close_window)
        self._window = Window(
            plan, begun=self._end_first, left=self._end_window, over=self._unhook
        )
        self._counter: StepCounter[Window] = StepCounter(self._window)
        self._undo = contextlib.ExitStack()
        self._ends = threading.Event()
        self._watcher: threading.Thread | None = None
        self._steps_only = steps_only
        self._guard = guard

    def begin_waiting(self) -> None:
        """Watch for frameworks, elapsed time and the exit, without recording yet."""
        waited: dict[str, Callable[[], None]] = {
            name: functools.partial(self._guard(self._listen_to_framework), name)
            for name in (*FRAMEWORKS, _ANNOTATIONS)
        }
        waited |= dict.fromkeys(_OWN_RECORDING, self._guard(self._leave_to_program))
        Arrivals(waited).watch()
        atexit.register(self._end_at_exit)
        os.register_at_fork(after_in_child=self._guard(self._begin_child))
        if not self._steps_only:
            self._watcher = threading.Thread(
                target=self._guard(self._record_by_time),
                name="stepscope-run",
                daemon=True,
            )
            self._watcher.start()

    def _listen_to_framework(self, name: str) -> None:
        from stepscope.capture.launching.counting import (  # noqa: PLC0415 - keeps process startup fast
            install_step_source,
        )
        from stepscope.capture.launching.window import Phase  # noqa: PLC0415 - keeps process startup fast

        if self._window.phase is Phase.OVER:
            return
        self._end_first()
        install_step_source(name, self._counter, self._undo)
        if not self._steps_only:
            self._window.watch_unless_busy()

    def _end_first(self) -> None:
        """Register the exit handler again, to run before frameworks' exit handlers."""
        atexit.unregister(self._end_at_exit)
        atexit.register(self._end_at_exit)

    def _leave_to_program(self) -> None:
        from stepscope.capture.launching.window import Phase  # noqa: PLC0415 - keeps process startup fast

        if self._window.phase is not Phase.OVER:
            reason = "the program records itself, so stepscope run recorded nothing"
            log_line(reason)
            self._window.abandon(reason)

    def _record_by_time(self) -> None:
        watched_s = min(_WATCH_AFTER_S, self._plan.wait_s)
        if self._ends.wait(watched_s):
            return
        self._call_in_main(self._window.watch_program)
        if self._ends.wait(self._plan.wait_s - watched_s):
            return
        self._call_in_main(self._window.open_by_time)
        if self._window.is_by_time:
            self._follow_window()
            self._call_in_main(self._window.close_by_time)

    def _follow_window(self) -> None:
        """Wait until the time window ends; it may restart with fewer data sources."""
        from stepscope.capture.base.options import TORCH_PAUSE_S  # noqa: PLC0415 - keeps process startup fast

        lasts_s = self._plan.record_s
        cost_after_s = min(_COST_AFTER_S, lasts_s)
        if self._ends.wait(cost_after_s):
            return
        self._call_in_main(self._window.lower_by_time)
        if self._window.is_by_time:
            self._ends.wait(lasts_s - cost_after_s)
        elif not self._ends.wait(TORCH_PAUSE_S):
            self._call_in_main(self._window.open_by_time)
            self._ends.wait(lasts_s)

    def _call_in_main(self, call: Callable[[], object]) -> None:
        """Run a call in the main thread; if that is busy, in this thread."""
        from stepscope.capture.base.main_thread import (  # noqa: PLC0415 - keeps process startup fast
            MAIN_THREAD_S,
            at_safe_point,
        )

        done = at_safe_point(self._guard(call), within_s=MAIN_THREAD_S, over=self._ends)
        # The thread that set `_ends` closes the window itself.
        if not done and not self._ends.is_set():
            call()

    def _close_window(self) -> None:
        self._ends.set()
        # A forked process without repeated steps discards its recording.
        if self._steps_only and not self._window.repeats:
            self._window.leave_silently()
        else:
            self._window.close_window()
        # The interpreter must not end while a stepscope thread is running.
        if self._watcher not in (None, threading.current_thread()):
            self._watcher.join(_ENDS_WITHIN_S)

    def _end_at_exit(self) -> None:
        # The program has ended, so an exception of its signal handlers has no effect.
        with contextlib.suppress(BaseException):
            self._end_window()

    def _unhook(self) -> None:
        self._ends.set()
        self._undo.close()

    def _begin_child(self) -> None:
        self._steps_only = True
        self._ends = threading.Event()
        self._watcher = None
        self._window.begin_child()
        self._counter.forked()
        # Child processes of `multiprocessing` exit without running `atexit` handlers.
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.register_after_fork(
                self,
                lambda armed: util.Finalize(None, armed._end_window, exitpriority=1000),  # noqa: SLF001 - a method of the same class
            )
