"""One armed process: what it waits for, and what ends its recording.

Arming happens before the program begins, so it imports next to nothing. Recording is
imported when there is something to record.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import threading
from typing import TYPE_CHECKING, Final

from stepscope.capture.ground.leaving import leaving
from stepscope.capture.launching.arriving import Arrivals
from stepscope.capture.launching.harmless import harmless, say_line
from stepscope.capture.launching.plan import FRAMEWORKS, RunPlan
from stepscope.capture.launching.waiting import (
    FORKS,
    runs_nothing_itself,
    tell_ancestors,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.capture.launching.counting import StepCounter
    from stepscope.capture.launching.window import Window

_ANNOTATIONS: Final = "stepscope.capture.ground.annotate"
#: A program that uses these records itself: two recordings exclude each other.
_OWN_RECORDING: Final = (
    "stepscope.capture.profile",
    "stepscope.capture.keras",
    "stepscope.profiler.recording",
)
#: A program that imports nothing we know is watched after so long.
_WATCH_AFTER_S: Final = 0.2
#: How long the end waits for our thread, which has nothing left to do then.
_ENDS_WITHIN_S: Final = 1.0
#: By then it is known what noting calls costs.
_COST_AFTER_S: Final = 1.5


def arm() -> None:
    """Arm this process by the plan in its environment; without one do nothing."""
    plan = RunPlan.from_environment(os.environ)
    forks = any(word.startswith(FORKS) for word in sys.orig_argv)
    if plan is None or (runs_nothing_itself(sys.orig_argv) and not forks):
        return
    if not forks:
        # What was forked is recorded only if it steps, so its parent stays.
        tell_ancestors(plan.notes)
    Armed(plan, steps_only=forks).begin_waiting()


class Armed:
    """A process that waits for steps, for time to pass, or for its own end."""

    def __init__(self, plan: RunPlan, *, steps_only: bool = False) -> None:
        """Follow a plan.

        Args:
            steps_only: Without steps record nothing, whatever time passes: so do
                processes that were forked.
        """
        from stepscope.capture.launching.counting import (  # noqa: PLC0415 - arming stays light
            StepCounter,
        )
        from stepscope.capture.launching.window import (  # noqa: PLC0415 - arming stays light
            Window,
        )

        self._plan = plan
        guard = harmless(lambda reason: self._window.abandon(reason))  # noqa: PLW0108 - the window is made with it
        self._end_window = guard(self._close_window)
        self._window = Window(
            plan, begun=self._end_first, left=self._end_window, over=self._stop_hearing
        )
        self._counter: StepCounter[Window] = StepCounter(self._window)
        self._undo: list[Callable[[], None]] = []
        self._ends = threading.Event()
        self._watcher: threading.Thread | None = None
        self._steps_only = steps_only
        self._guard = guard

    def begin_waiting(self) -> None:
        """Hear of frameworks, of time and of the end; nothing is recorded yet."""
        waited: dict[str, Callable[[], None]] = {
            name: functools.partial(self._guard(self._hear_framework), name)
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

    def _hear_framework(self, name: str) -> None:
        from stepscope.capture.launching.counting import (  # noqa: PLC0415 - arming stays light
            install_step_source,
        )
        from stepscope.capture.launching.window import Phase  # noqa: PLC0415 - arming stays light

        if self._window.phase is Phase.OVER:
            return
        self._end_first()
        try:
            with leaving.undisturbed():
                self._undo.append(install_step_source(name, self._counter))
        except (ImportError, AttributeError) as missing:
            say_line(f"steps of this version of {name} cannot be counted: {missing}")
        if not self._steps_only:
            self._window.watch_unless_busy()

    def _end_first(self) -> None:
        """What a framework or its collector does at exit comes after us."""
        atexit.unregister(self._end_at_exit)
        atexit.register(self._end_at_exit)

    def _leave_to_program(self) -> None:
        from stepscope.capture.launching.window import Phase  # noqa: PLC0415 - arming stays light

        if self._window.phase is not Phase.OVER:
            reason = "the program records itself, so stepscope run recorded nothing"
            say_line(reason)
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
        """Wait until the window by time is over, which may begin again with less."""
        from stepscope.capture.launching.extent import (  # noqa: PLC0415 - arming stays light
            COUNTED_AFTER_S,
        )

        counted_s = min(COUNTED_AFTER_S, self._plan.record_s)
        if self._ends.wait(counted_s):
            return
        self._call_in_main(self._window.bound_by_time)
        lasts_s = self._window.lasts_s
        looks_s = min(_COST_AFTER_S, lasts_s)
        if self._ends.wait(looks_s - counted_s):
            return
        beginnings = self._window.beginnings
        self._call_in_main(self._window.lower_by_time)
        began_again = self._window.beginnings != beginnings
        self._ends.wait(lasts_s - (0 if began_again else looks_s))

    def _call_in_main(self, call: Callable[[], object]) -> None:
        """Have the main thread do it, as long as it comes to it; else do it here."""
        from stepscope.capture.ground.main_thread import (  # noqa: PLC0415 - arming stays light
            MAIN_THREAD_S,
            at_safe_point,
        )

        made = at_safe_point(self._guard(call), within_s=MAIN_THREAD_S, over=self._ends)
        # Whoever set the end closes the window itself.
        if not made and not self._ends.is_set():
            call()

    def _close_window(self) -> None:
        self._ends.set()
        # What was watched without steps is of no interest there.
        if self._steps_only and not self._window.repeats:
            self._window.leave_silently()
        else:
            self._window.close_window()
        # No thread of ours is left when the interpreter ends.
        if self._watcher not in (None, threading.current_thread()):
            self._watcher.join(_ENDS_WITHIN_S)

    def _end_at_exit(self) -> None:
        # The program has ended: its signal handlers can change nothing any more.
        with contextlib.suppress(BaseException):
            self._end_window()

    def _stop_hearing(self) -> None:
        self._ends.set()
        undone, self._undo = self._undo, []
        for undo in undone:
            undo()

    def _begin_child(self) -> None:
        self._steps_only = True
        self._ends = threading.Event()
        self._watcher = None
        self._window.begin_child()
        self._counter.forked()
        # Children of multiprocessing leave without the handlers of `atexit`.
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.register_after_fork(
                self,
                lambda armed: util.Finalize(None, armed._end_window, exitpriority=1000),  # noqa: SLF001 - it is of this class
            )
