"""Which step is slow, and when none ends any more: by a running median."""

from __future__ import annotations

import bisect
from collections import deque
from typing import Final, NamedTuple

_NS_PER_S: Final = 1_000_000_000
#: A median of this many steps.
_WINDOW: Final = 64
#: The first steps compile and warm up.
_EXEMPT: Final = 20
#: Steps after a slow one that are not judged: what made it slow is rarely over.
_COOLDOWN: Final = 50
#: Unless they take this many times as long as that one.
_FAR_WORSE: Final = 2
#: A step has to lie this many standard deviations above the median: a loop whose steps
#: differ anyway has no slow one. 1.4826 median deviations are one of a normal
#: distribution.
_DEVIATIONS: Final = 6 * 1.4826
#: What one step in ten takes is usual too.
_OFTEN: Final = 0.9
#: Less than a turn of the scheduler is no reason to write a profile.
_LEAST_NS: Final = 5_000_000
#: A program has a few loops: training, validation.
_MOST_LOOPS: Final = 16


class Step(NamedTuple):
    """A step that was annotated, and has ended."""

    number: object
    name: str
    begin_ns: int
    end_ns: int
    thread: int

    @property
    def dur_ns(self) -> int:
        """How long it took."""
        return self.end_ns - self.begin_ns


class Slow(NamedTuple):
    """A step that took too long, and what steps of its loop usually take."""

    step: Step
    median_ns: int


class _Loop:
    def __init__(self) -> None:
        self.seen = 0
        self.exempt_until = _EXEMPT
        #: The last that was slow; within its cooldown only a far worse one counts.
        self.worst_ns = 0
        self._by_age: deque[int] = deque()
        self.sorted: list[int] = []

    @property
    def median_ns(self) -> int:
        return self.sorted[len(self.sorted) // 2]

    def add_duration(self, dur_ns: int) -> None:
        self.seen += 1
        if len(self._by_age) == _WINDOW:
            oldest = self._by_age.popleft()
            del self.sorted[bisect.bisect_left(self.sorted, oldest)]
        self._by_age.append(dur_ns)
        bisect.insort(self.sorted, dur_ns)


class StepWatch:
    """Judges steps in the order of their ends. Memory: 64 numbers for each loop."""

    def __init__(self, slower_than: float, hang_s: float, *, now_ns: int) -> None:
        self._slower_than = slower_than
        self._hang_ns = int(hang_s * _NS_PER_S)
        self._loops: dict[str, _Loop] = {}
        self._heard_ns = now_ns
        self._silent = False
        #: The step that ended last; None before the first.
        self.last: Step | None = None

    def judge_step(self, step: Step) -> Slow | None:
        """Take note of a step; return it where it is slow."""
        self._silent = False
        self._heard_ns = max(self._heard_ns, step.end_ns)
        self.last = step
        loop = self._loops.get(step.name)
        if loop is None:
            if len(self._loops) >= _MOST_LOOPS:
                return None
            loop = self._loops[step.name] = _Loop()
        slow = None
        if self._is_slow(loop, step.dur_ns):
            slow = Slow(step, loop.median_ns)
            loop.exempt_until = loop.seen + _COOLDOWN
            loop.worst_ns = step.dur_ns
        loop.add_duration(step.dur_ns)
        return slow

    def medians_ns(self) -> dict[str, int]:
        """Return the median of the last steps of each loop."""
        return {name: loop.median_ns for name, loop in self._loops.items()}

    def step_counts(self) -> dict[str, int]:
        """Return how many steps of each loop have ended."""
        return {name: loop.seen for name, loop in self._loops.items()}

    def detects_hang(self, now_ns: int) -> bool:
        """Return whether steps have ceased, once for each silence."""
        if self.last is None or self._silent:
            return False
        self._silent = now_ns - self._heard_ns >= self._hang_ns
        return self._silent

    def goes_on(self, now_ns: int) -> None:
        """Count silence from here: steps were not heard meanwhile."""
        self._heard_ns = now_ns

    def _is_slow(self, loop: _Loop, dur_ns: int) -> bool:
        is_far_worse = 0 < _FAR_WORSE * loop.worst_ns < dur_ns
        if loop.seen < loop.exempt_until and not is_far_worse:
            return False
        median_ns = loop.median_ns
        longer_ns = dur_ns - median_ns
        if dur_ns <= self._slower_than * median_ns or longer_ns < _LEAST_NS:
            return False
        # Every second step may be a longer one: then the median deviation is 0.
        often_ns = loop.sorted[int(_OFTEN * len(loop.sorted))]
        deviations_ns = sorted(abs(it - median_ns) for it in loop.sorted)
        deviation_ns = deviations_ns[len(loop.sorted) // 2]
        return dur_ns > often_ns and longer_ns > _DEVIATIONS * deviation_ns
