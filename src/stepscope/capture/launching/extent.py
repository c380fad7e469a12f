"""How far a window of steps reaches: by their number, and by the time they take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.capture.launching.plan import RunPlan

#: Steps that are so short that more of them fit into the least time are parts of steps.
_MOST_STEPS: Final = 1000
#: What was recorded for less time holds few events: one takes a microsecond or more.
COUNTED_AFTER_S: Final = 0.1
#: This many steps are recorded where they hold at most this multiple of what a window
#: may: fewer show no pattern.
_MIN_STEPS: Final = 3
_MAX_EXCESS: Final = 2


class Extent:
    """The first and last step of a window, and when it may end.

    It ends with its last step. Where the program's steps are so short that all of them
    would be over in an instant, it goes on until it has lasted its least time: a few
    milliseconds show what happened just then, and hardly what a program does. Where
    steps are long it ends before the last one, with its longest time.

    Attributes:
        first: The first step; None before the window opens.
        shortened: Why it holds less than was planned, a sentence; None where it does
            not.
    """

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self.first: int | None = None
        self.last = plan.last_step
        self.lasts_s = plan.record_s
        self.shortened: str | None = None
        self._steps = plan.steps
        self._least_s = plan.least_s
        self._most_steps = _MOST_STEPS
        self._has_counted = not plan.max_events
        self._opened_at_s = 0.0
        self._second_began_s: float | None = None

    @property
    def second_began_s(self) -> float:
        """When the second step began; when it opened where none has."""
        return self._second_began_s or self._opened_at_s

    def open_window(self, first: int, now_s: float) -> None:
        """Begin with a step."""
        self.first = first
        self._opened_at_s = now_s
        self._second_began_s = None

    def begins_anew(self, first: int) -> None:
        """Give it as many steps as before, from this one on."""
        self.last = first + self._steps - 1

    def step_ended(self, now_s: float) -> None:
        """Take note of the end of a step within."""
        if self._second_began_s is None:
            self._second_began_s = now_s

    def is_enough(self, next_step: int, now_s: float) -> bool:
        """Return whether it ends before a step."""
        if self._second_began_s is None:
            # The first step may take long because profilers are set up in it.
            return next_step > self.last and not self._least_s
        lasted_s = now_s - self._second_began_s
        if lasted_s >= self._plan.max_s:
            return True
        if next_step <= self.last:
            return False
        is_long = lasted_s >= self._least_s
        return is_long or next_step - (self.first or 0) >= self._most_steps

    def is_full(
        self, next_step: int, now_s: float, count_events: Callable[[], int]
    ) -> bool:
        """Return whether it ends before a step because of how much the first ones hold.

        Args:
            count_events: Says how many events were recorded; called once.
        """
        if self._has_counted or self.first is None:
            return False
        if now_s - self._opened_at_s < COUNTED_AFTER_S:
            return False
        self._has_counted = True
        recorded = next_step - self.first
        a_step = count_events() / recorded
        limit = self._plan.max_events
        steps = int(limit / a_step) if a_step else _MOST_STEPS
        if _MIN_STEPS * a_step <= _MAX_EXCESS * limit:
            steps = max(steps, _MIN_STEPS)
        if steps >= self._steps:
            self._most_steps = min(steps, _MOST_STEPS)
            return False
        self._steps, self._least_s = max(steps, recorded), 0.0
        self.last = self.first + self._steps - 1
        self.shortened = (
            f"a step holds about {a_step:,.0f} events of PyTorch, so fewer steps were "
            "recorded: the program would wait long for more to be stored "
            f"(--steps {self._plan.steps} records as many)"
        )
        return next_step > self.last

    def bound_time(self, events: int, lasted_s: float) -> None:
        """End a window by time before it holds too many events."""
        limit = self._plan.max_events
        if not limit or not events:
            return
        a_second = events / lasted_s
        least_s = min(self._plan.least_s, _MAX_EXCESS * limit / a_second)
        bound_s = max(limit / a_second, least_s, lasted_s)
        if bound_s >= self.lasts_s:
            return
        self.lasts_s = bound_s
        self.shortened = (
            f"a second holds about {a_second:,.0f} events of PyTorch, so "
            f"{bound_s:.1f} s were recorded: the program would wait long for more to "
            f"be stored (--record-s {self._plan.record_s:g} records as much)"
        )

    def is_last_step(self, step: int, now_s: float) -> bool:
        """Return whether it is sure that this step, which begins now, is its last."""
        return step >= self.last and self.is_enough(step + 1, now_s)
