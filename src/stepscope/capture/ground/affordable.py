"""What a recording costs a loop, and what to leave out where that is too much."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from stepscope.capture.ground.options import ProfilerOptions

__all__ = ["Lowered", "StepCost", "lowered"]

#: Medians of so many steps before the recording.
_BEFORE: Final = 64
_LEAST_BEFORE: Final = 3
#: The first recorded step has what a profiler sets up then.
_SETTING_UP: Final = 1
_LEAST_WITHIN: Final = 3
#: Steps that are longer by less do no harm, and a busy machine lengthens them by more.
_LEAST_S: Final = 0.05
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
        times = self.times
        if times is None or times - 1 <= self._max_slowdown:
            return False
        return _median(self._within) - _median(self._before) >= _LEAST_S


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
