"""Length of the recorded window: a number of steps, or a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stepscope.capture.launching.plan import RunPlan

#: Maximum number of recorded steps. A loop with more steps in the minimum recording
#: time probably counts parts of steps.
_MAX_STEPS: Final = 1000
#: Minimum number of recorded steps, because fewer show no pattern. The window is
#: shorter if these steps have more than `_MAX_EXCESS` times the maximum events.
_MIN_STEPS: Final = 3
_MAX_EXCESS: Final = 2


class Extent:
    """First and last step of a window, and the time at which it may end.

    A window ends with its last step. If the steps are so short that the window would
    last less than `least_s`, it records more steps: a few milliseconds rarely represent
    a program. If steps are long, the window ends after `max_s`, before its last step.

    Attributes:
        first: First recorded step; None before the window opens.
        shortened: Why less was recorded than planned, as a sentence; otherwise None.
    """

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self.first: int | None = None
        self.last = plan.last_step
        self.shortened: str | None = None
        self._steps = plan.steps
        self._least_s = plan.least_s
        self._max_steps = _MAX_STEPS
        self._opened_at_s = 0.0
        self._second_began_s: float | None = None

    @property
    def second_began_s(self) -> float:
        """Start of the window's second step; before that step, start of the window."""
        return self._second_began_s or self._opened_at_s

    def open_window(self, first: int, now_s: float) -> None:
        """Open the window at a step; it may be opened again later."""
        self.first = first
        self.last = max(self.last, first + self._steps - 1)
        self._opened_at_s = now_s
        self._second_began_s = None

    def step_ended(self, now_s: float) -> None:
        """Note the end of a step inside the window."""
        if self._second_began_s is None:
            self._second_began_s = now_s

    def is_enough(self, next_step: int, now_s: float) -> bool:
        """Return whether the window ends before the given step."""
        if self._second_began_s is None:
            # Setting up a profiler lengthens the first step, so its time is ignored.
            return next_step > self.last and not self._least_s
        lasted_s = now_s - self._second_began_s
        if lasted_s >= self._plan.max_s:
            return True
        if next_step <= self.last:
            return False
        is_long = lasted_s >= self._least_s
        return is_long or next_step - (self.first or 0) >= self._max_steps

    def limit_steps(self, step_events: int) -> None:
        """Shorten the window so that it stays below the event limit.

        Args:
            step_events: Number of events in the step before the window.
        """
        limit = self._plan.max_events
        steps = limit // step_events
        if _MIN_STEPS * step_events <= _MAX_EXCESS * limit:
            steps = max(steps, _MIN_STEPS)
        if steps >= self._steps:
            self._max_steps = min(steps, _MAX_STEPS)
            return
        self._steps, self._least_s = max(steps, 1), 0.0
        self.last = self._plan.skip_steps + self._steps
        self.shortened = (
            f"a step has about {step_events:,} events of PyTorch, so fewer steps were "
            "recorded: storing more would delay the program "
            f"(--steps {self._plan.steps} records {self._plan.steps} steps)"
        )

    def is_last_step(self, step: int, now_s: float) -> bool:
        """Return whether a step that begins now is surely the window's last."""
        return step >= self.last and self.is_enough(step + 1, now_s)
