"""Slowdown of a program by its recording, and reduced options for a high slowdown."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepscope.capture.base.options import ProfilerOptions

#: Number of latest unrecorded steps whose median duration is the baseline.
_BASELINE_STEPS: Final = 64
_MIN_BEFORE: Final = 3
#: Number of first recorded steps that are ignored: they include the profiler's setup.
_SETTING_UP: Final = 1
_MIN_WITHIN: Final = 3
#: Smallest lengthening of a step that counts as harmful, in seconds.
_MIN_EXCESS_S: Final = 0.05
#: Number of unrecorded steps that are compared with the recorded steps.
_CONTROL_STEPS: Final = 5
#: Minimum seconds of recording calls before the slowdown is estimated.
_MIN_NOTED_S: Final = 1.0
_SCHEDULED: Final = "/proc/self/schedstat"
_CALLS: Final = 1000
_ROUNDS: Final = 3
#: Notes per function call: one at the entry, one at the exit.
_NOTES_A_CALL: Final = 2
#: Upper bound of the share of time spent on noting calls; keeps `1 - share` above 0.
_MAX_SHARE: Final = 0.99
#: Host tracer level that records only the framework's critical ops.
_CRITICAL: Final = 1


class Lowered(NamedTuple):
    """Options that record less; `left_out` names the omitted events in words."""

    options: ProfilerOptions
    left_out: str


class StepCost:
    """Comparison of recorded steps with the unrecorded steps before them."""

    def __init__(self, max_slowdown: float) -> None:
        """Set the limit: with `max_slowdown` 1.0, steps may take twice as long."""
        self._max_slowdown = max_slowdown
        self._before: deque[float] = deque(maxlen=_BASELINE_STEPS)
        self._within: list[float] = []
        self._skipped = 0

    def note_unrecorded(self, step_s: float) -> None:
        """Add the duration of an unrecorded step."""
        self._before.append(step_s)

    def note_recorded(self, step_s: float) -> None:
        """Add the duration of a recorded step; the first step is ignored."""
        if self._skipped < _SETTING_UP:
            self._skipped += 1
        else:
            self._within.append(step_s)

    def set_baseline(self, steps_s: Sequence[float]) -> None:
        """Use `steps_s` as the baseline, in place of all earlier steps."""
        self._before.clear()
        self._before.extend(steps_s)

    def begin_recording(self) -> None:
        """Discard the durations of recorded steps, because another recording begins."""
        self._within.clear()
        self._skipped = 0

    @property
    def times(self) -> float | None:
        """Median time of recorded steps divided by that of unrecorded ones, or None."""
        if len(self._before) < _MIN_BEFORE or len(self._within) < _MIN_WITHIN:
            return None
        before_s, within_s = _median_value(self._before), _median_value(self._within)
        return None if before_s <= 0 else within_s / before_s

    @property
    def is_too_much(self) -> bool:
        """True if recorded steps exceed the slowdown limit and take 50 ms longer."""
        if self.times is None:
            return False
        return self.is_beyond(_median_value(self._within), _median_value(self._before))

    @property
    def unrecorded_s(self) -> tuple[float, ...]:
        """Durations of the latest unrecorded steps, in seconds."""
        return tuple(self._before)

    @property
    def recorded_s(self) -> tuple[float, ...]:
        """Durations of the recorded steps without the first one, in seconds."""
        return tuple(self._within)

    @property
    def within_s(self) -> float:
        """Median duration of a recorded step, in seconds; needs at least one step."""
        return _median_value(self._within)

    def is_beyond(self, recorded_s: float, other_s: float) -> bool:
        """Return whether a step of `recorded_s` is too slow compared with `other_s`."""
        longer_s = recorded_s - other_s
        return longer_s > self._max_slowdown * other_s and longer_s >= _MIN_EXCESS_S


class Control:
    """Unrecorded steps, measured right after recorded steps that seem too slow.

    Steps before a recording may be a poor baseline. A framework that runs ahead of its
    device starts the first steps at once, and later steps only when its queue has a
    free slot. The program's steps may also become longer at any time. The recording
    costs too much only if steps without recording are short again.
    """

    def __init__(self, cost: StepCost, *, recorded_s: float, now_s: float) -> None:
        """Start to compare recorded steps with unrecorded ones.

        Args:
            recorded_s: Lower bound of a recorded step's duration, measured until the
                device finished all recorded steps.
            now_s: Start of the first unrecorded step, at which the device is idle.
        """
        self._cost = cost
        self._recorded_s = min(recorded_s, cost.within_s)
        self._began_s = now_s
        self.steps_s: list[float] = []

    @property
    def is_over(self) -> bool:
        """Whether enough unrecorded steps were measured."""
        return len(self.steps_s) >= _CONTROL_STEPS

    def measured_slowdown(self, now_s: float) -> float | None:
        """Return how many times as long recorded steps take; None if acceptable.

        Args:
            now_s: Time at which the device finished all of the unrecorded steps.
        """
        mean_s = (now_s - self._began_s) / len(self.steps_s)
        # Take the longer of mean and median: in doubt, recording continues.
        other_s = max(mean_s, _median_value(self.steps_s))
        if not self._cost.is_beyond(self._recorded_s, other_s):
            return None
        return self._recorded_s / other_s if other_s > 0 else None


def lower_options(options: ProfilerOptions) -> Lowered | None:
    """Return options that record less; None if only fewer steps would help."""
    from dataclasses import replace  # noqa: PLC0415 - keeps process startup fast

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
    """If the recording of calls is too slow, return reduced options and a warning."""
    lowered = lower_options(options)
    if slowdown is None or slowdown <= max_slowdown or lowered is None:
        return None
    sentence = (
        f"storing calls made the program take about {slowdown + 1:.1f} times as long "
        f"(--max-slowdown {max_slowdown:g}), so {lowered.left_out} were not recorded"
    )
    return Lowered(lowered.options, sentence)


def _median_value(values: deque[float] | list[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


class CallsCost:
    """Estimate of the program's slowdown by recording its function calls."""

    def __init__(self, note_s: float, *, now_s: float) -> None:
        self._note_s = note_s
        self._began_s = now_s
        self._began = _ran_and_waited()
        self._notes = 0
        self._storing_s = 0.0

    def add_notes(self, notes: int, *, storing_s: float) -> None:
        """Add a number of noted entries and exits, and the seconds to store them."""
        self._notes += notes
        self._storing_s += storing_s

    def estimated_slowdown(self, now_s: float, *, waiting: int) -> float | None:
        """Return the slowdown, 1.0 for twice as long; None within the first second.

        Noting and storing calls hold the GIL, so the program waits.
        """
        lasted_s = now_s - self._began_s
        if lasted_s < _MIN_NOTED_S:
            return None
        spent_s = (self._notes + waiting) * self._note_s + self._storing_s
        # On a busy machine, one second on a core takes more than a second of wall time.
        ran_ns, waited_ns = (
            now - before
            for now, before in zip(_ran_and_waited(), self._began, strict=True)
        )
        spent_s *= (ran_ns + waited_ns) / ran_ns if ran_ns > 0 else 1.0
        share = min(spent_s / lasted_s, _MAX_SHARE)
        return share / (1 - share)


def _ran_and_waited() -> tuple[int, int]:
    """Return how long the main thread ran on a core and waited for one, in ns.

    Both times are 0 without Linux's scheduler statistics.
    """
    try:
        with open(_SCHEDULED, encoding="ascii") as file:  # noqa: PTH123 - no import of pathlib
            ran_ns, waited_ns, _ = file.read().split()
        return int(ran_ns), int(waited_ns)
    except (OSError, ValueError):
        return 0, 0


def seconds_a_note(
    plain: Callable[[], object], noted: Callable[[Callable[[], object]], object]
) -> float:
    """Return the seconds to note the entry or exit of one call; takes about 2 ms.

    Args:
        plain: Makes one call of a Python function that does nothing.
        noted: Runs its argument while calls of Python functions are noted.
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
