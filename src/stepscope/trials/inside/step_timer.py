"""Times of the steps of one process in a turn, without a recording."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.launching.plan import FRAMEWORKS
from stepscope.capture.launching.step_mark import StepMark
from stepscope.capture.launching.waiting import settle_devices
from stepscope.capture.launching.window import Phase
from stepscope.errors import suppress_faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trials.inside.plan import TurnPlan
    from stepscope.trials.inside.process_report import ProcessReport

#: Steps of a window that are needed although it has reached its maximum time.
_MIN_STEPS: Final = 3
_NS: Final = 1_000_000_000


class StepTimer:
    """Receiver of counted steps: times a window of them after a warm-up.

    Devices are waited for at both ends of the window, so that its length is the time of
    its steps also where the program runs ahead of a device. `mark` and the attributes
    after it are those of `Window`, which the source of annotated steps uses.
    """

    def __init__(
        self,
        plan: TurnPlan,
        report: ProcessReport,
        *,
        first_ended: Callable[[], None],
        over: Callable[[], None],
    ) -> None:
        """Time steps by a plan.

        Args:
            first_ended: Called once, when the first step has ended.
            over: Called once, when the window is over.
        """
        self.counted: str | None = None
        self.phase = Phase.WATCHED
        self.mark = StepMark()
        self.annotated = False
        self.beginnings = 0
        self.after_begin: Callable[[], object] = lambda: None
        self.after_fork: Callable[[], object] = lambda: None
        self._plan = plan
        self._report = report
        self._first_ended = first_ended
        self._over = over
        self._lock = threading.RLock()
        self._is_first = True
        self.forget_steps()

    def forget_steps(self) -> None:
        """Discard the steps so far, because another source of steps is used."""
        self._began_ns: int | None = None
        self._batches = 1
        self._warm = self._timed = 0
        self._warm_since_ns = self._opened_ns = 0
        if self.phase is Phase.STEPS:
            self.phase = Phase.WATCHED
            self._report.write("forget")

    def is_last_step(self, step: int) -> bool:
        """Return False: no step is annotated a second time."""
        del step
        return False

    def abandon(self, reason: str) -> None:
        """Stop timing because of an error, which has been printed."""
        del reason
        self._end_window()

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
            if self.phase is not Phase.OVER:
                self._batches = batches
                self._began_ns = time.perf_counter_ns()

    def step_ends(self, *, marked: bool = True, may_close: bool = True) -> None:
        """End the current step; the time until the next one belongs to no step.

        An annotation of the program (not `marked`) ends before its step's time: a step
        lasts until the next one begins.
        """
        del may_close
        if marked:
            with self._lock:
                self._end_step(settle_devices)

    def step_was_none(self, batches: int) -> None:
        """Cancel the step of N batches that was begun but did not run."""
        del batches
        self._began_ns = None

    def begin_child(self) -> None:
        """Reset the state in a forked child."""
        self._lock = threading.RLock()
        self.mark.forget()
        self._is_first = True
        self.phase = Phase.WATCHED
        self.forget_steps()

    def _end_step(self, settle: Callable[[], object]) -> None:
        began_ns, self._began_ns = self._began_ns, None
        if began_ns is None or self.phase is Phase.OVER:
            return
        now_ns = time.perf_counter_ns()
        if self.phase is not Phase.STEPS:
            self._warm_up(now_ns, settle)
            return
        self._report.write("step", (now_ns - began_ns) // self._batches)
        self._timed += 1
        lasted_s = (now_ns - self._opened_ns) / _NS
        is_full = self._timed >= self._plan.steps and lasted_s >= self._plan.least_s
        if is_full or (self._timed >= _MIN_STEPS and lasted_s >= self._plan.max_s):
            settle()
            self._report.write("drain", time.perf_counter_ns() - now_ns)
            self._end_window()

    def _warm_up(self, now_ns: int, settle: Callable[[], object]) -> None:
        if self._is_first:
            self._is_first = False
            self._first_ended()
        if not self._warm:
            self._warm_since_ns = now_ns
        self._warm += self._batches
        lasted_s = (now_ns - self._warm_since_ns) / _NS
        # Programs with few short steps would end before a long warm-up.
        steps = self._plan.warm_steps * (1 if lasted_s >= self._plan.warm_s else 2)
        if self._warm >= steps:
            imported = [name for name in FRAMEWORKS if name in sys.modules]
            gpu = ["gpu"] if uses_gpu() else []
            self._report.write("frameworks", " ".join(imported + gpu))
            self._report.write("counted", self.counted)
            settle()
            self.phase = Phase.STEPS
            self._opened_ns = time.perf_counter_ns()

    def _end_window(self) -> None:
        if self.phase is not Phase.OVER:
            self.phase = Phase.OVER
            self._report.write("end")
            self._over()


def uses_gpu() -> bool:
    """Return whether PyTorch or TensorFlow, if imported, has initialised a GPU."""
    torch: Any = sys.modules.get("torch")
    tensorflow: Any = sys.modules.get("tensorflow")
    # The frameworks may have any version and state, so errors are suppressed.
    uses: list[Any] = []
    with suppress_faults():
        uses.append(torch and torch.cuda.is_initialized())
    with suppress_faults():
        uses.append(tensorflow and tensorflow.config.list_logical_devices("GPU"))
    return any(uses)
