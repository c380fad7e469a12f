"""What a recording costs a loop, and what to leave out where that is too much."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepscope.capture.ground.options import ProfilerOptions

#: Medians of this many steps before the recording.
_BEFORE: Final = 64
_LEAST_BEFORE: Final = 3
#: The first recorded step has what a profiler sets up then.
_SETTING_UP: Final = 1
_LEAST_WITHIN: Final = 3
#: Steps that are longer by less do no harm, and a busy machine lengthens them by more.
_LEAST_S: Final = 0.05
#: Steps that are not recorded, to compare with those that were.
_CONTROL: Final = 5
#: Of calls that were noted for less time nothing is said.
_LEAST_NOTED_S: Final = 1.0
_SCHEDULED: Final = "/proc/self/schedstat"
_CALLS: Final = 1000
_ROUNDS: Final = 3
#: An entry and an exit.
_NOTES_A_CALL: Final = 2
#: Beyond this share of the time the rest is too little to divide by.
_MOST: Final = 0.99
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

    def note_unrecorded(self, step_s: float) -> None:
        """Take note of a step that was not recorded."""
        self._before.append(step_s)

    def note_recorded(self, step_s: float) -> None:
        """Take note of a step that was recorded."""
        if self._skipped < _SETTING_UP:
            self._skipped += 1
        else:
            self._within.append(step_s)

    def set_baseline(self, steps_s: Sequence[float]) -> None:
        """Compare with these steps from now on, and no earlier ones."""
        self._before.clear()
        self._before.extend(steps_s)

    def begin_recording(self) -> None:
        """Forget the steps within: another recording begins."""
        self._within.clear()
        self._skipped = 0

    @property
    def times(self) -> float | None:
        """How many times as long steps take within; None where it is not known."""
        if len(self._before) < _LEAST_BEFORE or len(self._within) < _LEAST_WITHIN:
            return None
        before_s, within_s = _median_value(self._before), _median_value(self._within)
        return None if before_s <= 0 else within_s / before_s

    @property
    def is_too_much(self) -> bool:
        """Whether the limit is passed, by more than a busy machine would."""
        if self.times is None:
            return False
        return self.is_beyond(_median_value(self._within), _median_value(self._before))

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
        return _median_value(self._within)

    def is_beyond(self, recorded_s: float, other_s: float) -> bool:
        """Return whether a recorded step takes too long compared with another one."""
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

    def measured_slowdown(self, now_s: float) -> float | None:
        """Return how many times as long recorded steps take; None if that is allowed.

        Args:
            now_s: When the device was done with all of these steps.
        """
        mean_s = (now_s - self._began_s) / len(self.steps_s)
        # Whichever is longer: in doubt the recording goes on.
        other_s = max(mean_s, _median_value(self.steps_s))
        if not self._cost.is_beyond(self._recorded_s, other_s):
            return None
        return self._recorded_s / other_s if other_s > 0 else None


def lower_options(options: ProfilerOptions) -> Lowered | None:
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


def without_calls(
    options: ProfilerOptions, slowdown: float | None, max_slowdown: float
) -> Lowered | None:
    """Return lower options where noting calls costs too much, and say so; else None."""
    less = lower_options(options)
    if slowdown is None or slowdown <= max_slowdown or less is None:
        return None
    sentence = (
        f"noting calls let the program take about {slowdown + 1:.1f} times as long "
        f"(--max-slowdown {max_slowdown:g}), so {less.left_out} were not recorded"
    )
    return Lowered(less.options, sentence)


def _median_value(values: deque[float] | list[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


class CallsCost:
    """Adds up what notes cost, and says how much longer the program takes for them."""

    def __init__(self, note_s: float, *, now_s: float) -> None:
        self._note_s = note_s
        self._began_s = now_s
        self._began = _ran_and_waited()
        self._notes = 0
        self._storing_s = 0.0

    def add_notes(self, notes: int, *, storing_s: float) -> None:
        """Take note of this many more, and of how long storing them has taken."""
        self._notes += notes
        self._storing_s += storing_s

    def estimated_slowdown(self, now_s: float, *, waiting: int) -> float | None:
        """Return how much longer the program takes, 1.0 for twice; None at first.

        Notes and storing hold the interpreter's lock, so that the program waits.
        """
        lasted_s = now_s - self._began_s
        if lasted_s < _LEAST_NOTED_S:
            return None
        spent_s = (self._notes + waiting) * self._note_s + self._storing_s
        # Where others have the cores, each second of work takes longer than one.
        ran, waited = (
            now - before
            for now, before in zip(_ran_and_waited(), self._began, strict=True)
        )
        spent_s *= (ran + waited) / ran if ran > 0 else 1.0
        share = min(spent_s / lasted_s, _MOST)
        return share / (1 - share)


def _ran_and_waited() -> tuple[int, int]:
    """Return for how long the main thread had a core, and waited for one, in ns.

    Without Linux's figures nothing is known of waiting.
    """
    try:
        with open(_SCHEDULED, encoding="ascii") as file:  # noqa: PTH123 - pathlib is not needed for this
            ran, waited, _ = file.read().split()
        return int(ran), int(waited)
    except (OSError, ValueError):
        return 0, 0


def seconds_a_note(
    plain: Callable[[], object], noted: Callable[[Callable[[], object]], object]
) -> float:
    """Measure what a note costs, in about two milliseconds.

    Args:
        plain: Makes one call of a Python function that does nothing.
        noted: Runs what it is given while such calls are noted.
    """

    def make_calls() -> None:
        for _ in range(_CALLS):
            plain()

    def seconds_taken(run: Callable[[], object]) -> float:
        began_s = time.perf_counter()
        run()
        return time.perf_counter() - began_s

    without_s = min(seconds_taken(make_calls) for _ in range(_ROUNDS))
    with_s = min(seconds_taken(lambda: noted(make_calls)) for _ in range(_ROUNDS))
    return max(with_s - without_s, 0.0) / (_CALLS * _NOTES_A_CALL)
