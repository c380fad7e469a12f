"""How far a window of steps reaches: by their number, and by the time they take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stepscope.capture.launching.plan import RunPlan

__all__ = ["Extent"]

#: Steps that are so short that more of them fit into the least time are parts of steps.
_MOST_STEPS: Final = 1000


class Extent:
    """The first and last step of a window, and when it may end.

    It ends with its last step. Where the program's steps are so short that all of them
    would be over in an instant, it goes on until it has lasted its least time: a few
    milliseconds show what happened just then, and hardly what a program does. Where
    steps are long it ends before the last one, with its longest time.

    Attributes:
        first: The first step; None before the window opens.
        last: The last step, where time does not say otherwise.
    """

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self.first: int | None = None
        self.last = plan.last_step
        self._opened_at_s = 0.0
        self._second_began_s: float | None = None

    @property
    def second_began_s(self) -> float:
        """When the second step began; when it opened where none has."""
        return self._second_began_s or self._opened_at_s

    def opens(self, first: int, now_s: float) -> None:
        """Begin with a step."""
        self.first = first
        self._opened_at_s = now_s
        self._second_began_s = None

    def begins_anew(self, first: int) -> None:
        """Give it as many steps as before, from this one on."""
        self.last = first + self._plan.steps - 1

    def step_ended(self, now_s: float) -> None:
        """Take note of the end of a step within."""
        if self._second_began_s is None:
            self._second_began_s = now_s

    def is_enough(self, next_step: int, now_s: float) -> bool:
        """Return whether it ends before a step."""
        if self._second_began_s is None:
            # The first step may take long because profilers are set up in it.
            return next_step > self.last and not self._plan.least_s
        lasted_s = now_s - self._second_began_s
        if lasted_s >= self._plan.max_s:
            return True
        if next_step <= self.last:
            return False
        is_long = lasted_s >= self._plan.least_s
        return is_long or next_step - (self.first or 0) >= _MOST_STEPS

    def ends_with(self, step: int, now_s: float) -> bool:
        """Return whether it is sure that this step, which begins now, is its last."""
        return step >= self.last and self.is_enough(step + 1, now_s)
