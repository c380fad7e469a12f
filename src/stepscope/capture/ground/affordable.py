"""What a recording costs a loop, and what to leave out where that is too much."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.capture.ground.options import ProfilerOptions

__all__ = ["Control", "Lowered", "StepCost", "lowered"]

#: Medians of so many steps before the recording.
_BEFORE: Final = 64
_LEAST_BEFORE: Final = 3
#: The first recorded step has what a profiler sets up then.
_SETTING_UP: Final = 1
_LEAST_WITHIN: Final = 3
#: Steps that are longer by less do no harm, and a busy machine lengthens them by more.
_LEAST_S: Final = 0.05
#: Steps that are not recorded, to compare with those that were.
_CONTROL: Final = 5
#: The framework's ops that are critical, and none of the others.
_CRITICAL: Final = 1


class Lowered(NamedTuple):
    """Options that record less, and what they leave out, in words."""

    options: ProfilerOptions
    left_out: str


class StepCost:
    """Compares steps within a recording with those before it."""

    def __init__(self, max_slowdown: float) -> None:
        """Allow so much: 1.0 lets steps take twice as long."""
        self._max_slowdown = max_slowdown
        self._before: deque[float] = deque(maxlen=_BEFORE)
        self._within: list[float] = []
        self._skipped = 0

    def before(self, step_s: float) -> None:
        """Take note of a step that was not recorded."""
        self._before.append(step_s)

    def within(self, step_s: float) -> None:
        """Take note of a step that was recorded."""
        if self._skipped < _SETTING_UP:
            self._skipped += 1
        else:
            self._within.append(step_s)

    def compare_with(self, steps_s: Sequence[float]) -> None:
        """Compare with these steps from now on, and no earlier ones."""
        self._before.clear()
        self._before.extend(steps_s)

    def begins(self) -> None:
        """Forget the steps within: another recording begins."""
        self._within.clear()
        self._skipped = 0

    @property
    def times(self) -> float | None:
        """How many times as long steps take within; None where it is not known."""
        if len(self._before) < _LEAST_BEFORE or len(self._within) < _LEAST_WITHIN:
            return None
        before_s, within_s = _median(self._before), _median(self._within)
        return None if before_s <= 0 else within_s / before_s

    @property
    def is_too_much(self) -> bool:
        """Whether the limit is passed, by more than a busy machine would."""
        if self.times is None:
            return False
        return self.is_beyond(_median(self._within), _median(self._before))

    @property
    def unrecorded_s(self) -> tuple[float, ...]:
        """How long the last steps took that were not recorded."""
        return tuple(self._before)

    @property
    def recorded_s(self) -> tuple[float, ...]:
        """How long recorded steps took, but for the first one."""
        return tuple(self._within)

    @property
    def within_s(self) -> float:
        """How long a recorded step takes; there has been one."""
        return _median(self._within)

    def is_beyond(self, recorded_s: float, other_s: float) -> bool:
        """Return whether a recorded step takes too long beside another one."""
        longer_s = recorded_s - other_s
        return longer_s > self._max_slowdown * other_s and longer_s >= _LEAST_S


class Control:
    """Steps that are not recorded, right after steps that seem to take too long.

    Steps before a recording may be no measure of those within: a framework that runs
    ahead of its device begins its first steps at once and later ones when there is
    room for them, and a program may come to longer steps at any time. What is recorded
    costs too much only if steps are short again without it.
    """

    def __init__(self, cost: StepCost, *, recorded_s: float, now_s: float) -> None:
        """Begin to compare.

        Args:
            cost: What is known of the recorded steps.
            recorded_s: How long a recorded step took at least, by the time at which
                the device was done with all of them.
            now_s: When the first step begins here, with nothing left to do for the
                device.
        """
        self._cost = cost
        self._recorded_s = min(recorded_s, cost.within_s)
        self._began_s = now_s
        self.steps_s: list[float] = []

    @property
    def is_over(self) -> bool:
        """Whether there were enough steps."""
        return len(self.steps_s) >= _CONTROL

    def slowdown(self, now_s: float) -> float | None:
        """Return how many times as long recorded steps take; None if that is allowed.

        Args:
            now_s: When the device was done with all of these steps.
        """
        mean_s = (now_s - self._began_s) / len(self.steps_s)
        # Whichever is longer: in doubt the recording goes on.
        other_s = max(mean_s, _median(self.steps_s))
        if not self._cost.is_beyond(self._recorded_s, other_s):
            return None
        return self._recorded_s / other_s if other_s > 0 else None


def lowered(options: ProfilerOptions) -> Lowered | None:
    """Return the next lower options; None where only fewer steps would help."""
    from dataclasses import replace  # noqa: PLC0415 - arming stays light

    if options.python_tracer_level:
        return Lowered(
            replace(options, python_tracer_level=0),
            "calls of Python functions (python_tracer_level 0)",
        )
    if options.host_tracer_level > _CRITICAL:
        return Lowered(
            replace(options, host_tracer_level=_CRITICAL),
            "all but critical ops (host_tracer_level 1)",
        )
    return None


def _median(values: deque[float] | list[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
