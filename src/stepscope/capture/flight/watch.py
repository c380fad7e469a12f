"""Detection of slow steps and hangs, with a running median of step durations."""

from __future__ import annotations

import bisect
from collections import deque
from typing import Final, NamedTuple

_NS_PER_S: Final = 1_000_000_000
#: Number of steps in the running median.
_MEDIAN_STEPS: Final = 64
#: Number of first steps that are not judged: they compile and warm up.
_EXEMPT_STEPS: Final = 20
#: Number of steps after a slow step that are not judged: its cause often continues.
_COOLDOWN_STEPS: Final = 50
#: Steps after a slow step are slow above this multiple of the slow step's duration.
_MIN_UNJUDGED_RATIO: Final = 2
#: Minimum distance of a slow step from the median, in median absolute deviations: 6
#: standard deviations, each 1.4826 median deviations of a normal distribution. A loop
#: with varying steps thus has no slow step.
_MIN_DEVIATIONS: Final = 6 * 1.4826
#: Quantile of recent durations that a slow step must exceed; one step in ten does.
_USUAL_QUANTILE: Final = 0.9
#: Minimum excess of a slow step, in ns: about one time slice of the scheduler.
_MIN_EXCESS_NS: Final = 5_000_000
#: Maximum number of watched loops; a program has few (training, validation).
_MAX_LOOPS: Final = 16


class Step(NamedTuple):
    """An annotated step that has ended."""

    number: object
    name: str
    begin_ns: int
    end_ns: int
    thread: int

    @property
    def dur_ns(self) -> int:
        """Duration of the step in ns."""
        return self.end_ns - self.begin_ns


class Slow(NamedTuple):
    """A slow step, and the median duration of its loop's steps."""

    step: Step
    median_ns: int


class _Loop:
    def __init__(self) -> None:
        self.seen = 0
        self.exempt_until = _EXEMPT_STEPS
        #: Duration of the last slow step in ns; 0 without one.
        self.worst_ns = 0
        self._by_age: deque[int] = deque()
        self.sorted: list[int] = []

    @property
    def median_ns(self) -> int:
        return self.sorted[len(self.sorted) // 2]

    def add_duration(self, dur_ns: int) -> None:
        self.seen += 1
        if len(self._by_age) == _MEDIAN_STEPS:
            oldest = self._by_age.popleft()
            del self.sorted[bisect.bisect_left(self.sorted, oldest)]
        self._by_age.append(dur_ns)
        bisect.insort(self.sorted, dur_ns)


class StepWatch:
    """Detector of slow steps and hangs; takes steps in the order of their ends."""

    def __init__(self, slower_than: float, hang_s: float, *, now_ns: int) -> None:
        self._slower_than = slower_than
        self._hang_ns = int(hang_s * _NS_PER_S)
        self._loops: dict[str, _Loop] = {}
        self._heard_ns = now_ns
        self._silent = False
        #: Step that ended last; None before the first.
        self.last: Step | None = None

    def judge_step(self, step: Step) -> Slow | None:
        """Add a step; return the step if it is slow."""
        self._silent = False
        self._heard_ns = max(self._heard_ns, step.end_ns)
        self.last = step
        loop = self._loops.get(step.name)
        if loop is None:
            if len(self._loops) >= _MAX_LOOPS:
                return None
            loop = self._loops[step.name] = _Loop()
        slow = None
        if self._is_slow(loop, step.dur_ns):
            slow = Slow(step, loop.median_ns)
            loop.exempt_until = loop.seen + _COOLDOWN_STEPS
            loop.worst_ns = step.dur_ns
        loop.add_duration(step.dur_ns)
        return slow

    def medians_ns(self) -> dict[str, int]:
        """Return the median duration of the last steps of each loop, in ns."""
        return {name: loop.median_ns for name, loop in self._loops.items()}

    def step_counts(self) -> dict[str, int]:
        """Return the number of ended steps of each loop."""
        return {name: loop.seen for name, loop in self._loops.items()}

    def detects_hang(self, now_ns: int) -> bool:
        """Return True once if no step has ended within the hang limit."""
        if self.last is None or self._silent:
            return False
        self._silent = now_ns - self._heard_ns >= self._hang_ns
        return self._silent

    def goes_on(self, now_ns: int) -> None:
        """Restart the hang timer after a time in which steps were not observed."""
        self._heard_ns = now_ns

    def _is_slow(self, loop: _Loop, dur_ns: int) -> bool:
        is_far_worse = 0 < _MIN_UNJUDGED_RATIO * loop.worst_ns < dur_ns
        if loop.seen < loop.exempt_until and not is_far_worse:
            return False
        median_ns = loop.median_ns
        longer_ns = dur_ns - median_ns
        if dur_ns <= self._slower_than * median_ns or longer_ns < _MIN_EXCESS_NS:
            return False
        # The median deviation can be 0 although nearly half of the steps are longer.
        often_ns = loop.sorted[int(_USUAL_QUANTILE * len(loop.sorted))]
        deviations_ns = sorted(abs(step_ns - median_ns) for step_ns in loop.sorted)
        deviation_ns = deviations_ns[len(loop.sorted) // 2]
        return dur_ns > often_ns and longer_ns > _MIN_DEVIATIONS * deviation_ns
