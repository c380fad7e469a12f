"""Times of the steps of one process in a turn, without a recording."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from stepscope.capture.launching.plan import FRAMEWORKS
from stepscope.capture.launching.step_mark import StepMark
from stepscope.capture.launching.waiting import settle_devices
from stepscope.capture.launching.window import Phase
from stepscope.trials.inside.turn_files import write_fact

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trials.inside.turn_files import TurnPlan

#: Steps that a window needs although it has reached its maximum time.
_MIN_STEPS: Final = 3
_NS: Final = 1_000_000_000


class StepTimer:
    """Receiver of counted steps: times a window of them after a warm-up.

    Devices are waited for at both ends of the window, so its length is the time of its
    steps even if the program runs ahead of a device. The public attributes are those of
    `Window` that sources of steps use.
    """

    def __init__(
        self,
        plan: TurnPlan,
        *,
        first_ended: Callable[[], None],
        over: Callable[[], None],
    ) -> None:
        """Time steps; call functions after the first step and after the window."""
        self.counted: str | None = None
        self.phase = Phase.WATCHED
        self.mark = StepMark()
        self.annotated = False
        self.beginnings = 0
        self.after_begin: Callable[[], object] = lambda: None
        self.after_fork: Callable[[], object] = lambda: None
        self._plan = plan
        self._first_ended = first_ended
        self._over = over
        self.begin_child()

    def begin_child(self) -> None:
        """Reset the state, as in a forked child."""
        self._lock = threading.RLock()
        self.mark.forget()
        self._is_first = True
        self.phase = Phase.WATCHED
        self.forget_steps()

    def forget_steps(self) -> None:
        """Discard the steps so far, because another source of steps is used."""
        self._began_ns: int | None = None
        self._batches = 1
        self._warm = self._timed = 0
        self._since_ns = 0
        if self.phase is Phase.STEPS:
            self.phase = Phase.WATCHED
            write_fact(self._plan.folder, "forget")

    def is_last_step(self, step: int) -> bool:
        """Return False: no step is annotated a second time."""
        del step
        return False

    def abandon(self, reason: str) -> None:
        """End the window because of an error, which has been printed."""
        del reason
        if self.phase is not Phase.OVER:
            self.phase = Phase.OVER
            write_fact(self._plan.folder, "end")
            self._over()

    def step_begins(
        self,
        first: int,
        *,
        batches: int = 1,
        marked: bool = True,
        settle: Callable[[], object] | None = None,
        forwarded: bool = True,
    ) -> None:
        """End the current step and begin the next one, as `Window.step_begins`."""
        del first, marked, forwarded
        with self._lock:
            self._end_step(settle or settle_devices)
            self._batches = batches
            self._began_ns = time.perf_counter_ns()

    def step_ends(self, *, marked: bool = True, may_close: bool = True) -> None:
        """End the current step; the time until the next one belongs to no step.

        A step that the program annotates (not `marked`) lasts until the next one.
        """
        del may_close
        if marked:
            with self._lock:
                self._end_step(settle_devices)

    def step_was_none(self, batches: int) -> None:
        """Cancel the step that was begun but did not run."""
        del batches
        self._began_ns = None

    def _end_step(self, settle: Callable[[], object]) -> None:
        began_ns, self._began_ns = self._began_ns, None
        if began_ns is None or self.phase is Phase.OVER:
            return
        plan, now_ns = self._plan, time.perf_counter_ns()
        self._since_ns = self._since_ns or now_ns
        lasted_s = (now_ns - self._since_ns) / _NS
        if self.phase is Phase.STEPS:
            write_fact(plan.folder, "step", (now_ns - began_ns) // self._batches)
            self._timed += 1
            is_full = self._timed >= plan.steps and lasted_s >= plan.least_s
            if is_full or (self._timed >= _MIN_STEPS and lasted_s >= plan.max_s):
                settle()
                write_fact(plan.folder, "drain", time.perf_counter_ns() - now_ns)
                self.abandon("the window is over")
            return
        if self._is_first:
            self._is_first = False
            self._first_ended()
        self._warm += self._batches
        # Programs with few short steps would end before a long warm-up.
        if self._warm >= plan.warm_steps * (1 if lasted_s >= plan.warm_s else 2):
            imported = " ".join(name for name in FRAMEWORKS if name in sys.modules)
            write_fact(plan.folder, "frameworks", imported)
            settle()
            self.phase = Phase.STEPS
            self._since_ns = time.perf_counter_ns()
