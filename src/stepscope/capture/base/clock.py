"""Pairs of wall-clock time (for display) and monotonic time (for event times)."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from stepscope._core import recorder

#: Number of readings of the clock pair; the reading that took least time is kept.
_READINGS: Final = 5


class ClockPair(NamedTuple):
    """One moment on both clocks.

    Attributes:
        wall_ns: Wall time in nanoseconds since 1970.
        monotonic_ns: Monotonic time in nanoseconds, the clock of event times
            (`recorder.now`, which is `time.monotonic_ns`).
    """

    wall_ns: int
    monotonic_ns: int

    @classmethod
    def now(cls) -> ClockPair:
        """Read both clocks with as little time between the readings as possible."""
        readings = []
        for _ in range(_READINGS):
            before = recorder.clock_ns()
            wall = time.time_ns()
            after = recorder.clock_ns()
            readings.append((after - before, cls(wall, (before + after) // 2)))
        return min(readings, key=lambda reading: reading[0])[1]

    def wall_of(self, monotonic_ns: int) -> int:
        """Return the wall time of a monotonic time, in nanoseconds since 1970."""
        return self.wall_ns + monotonic_ns - self.monotonic_ns


def drift_ns(begin: ClockPair, end: ClockPair) -> int:
    """Return how far the wall clock outran the monotonic clock, in ns.

    A wall-clock jump (NTP, an operator) changes this value, but not event times.
    """
    wall = end.wall_ns - begin.wall_ns
    return wall - (end.monotonic_ns - begin.monotonic_ns)
