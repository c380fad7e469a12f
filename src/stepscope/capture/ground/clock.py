"""Two clocks read together: wall time for people, monotonic time for events."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from stepscope._core import recorder

#: The pair is read so often, and the reading that took least time is kept.
_READINGS: Final = 5


class ClockPair(NamedTuple):
    """One moment on both clocks.

    Attributes:
        wall_ns: Nanoseconds since 1970.
        monotonic_ns: Nanoseconds of the clock that events carry (`recorder.now`,
            which is `time.monotonic_ns`).
    """

    wall_ns: int
    monotonic_ns: int

    @classmethod
    def now(cls) -> ClockPair:
        """Read both, as close together as the machine lets us."""
        readings = []
        for _ in range(_READINGS):
            before = recorder.clock_ns()
            wall = time.time_ns()
            after = recorder.clock_ns()
            readings.append((after - before, cls(wall, (before + after) // 2)))
        return min(readings, key=lambda reading: reading[0])[1]

    def wall_of(self, monotonic_ns: int) -> int:
        """Nanoseconds since 1970 of a moment of the monotonic clock."""
        return self.wall_ns + monotonic_ns - self.monotonic_ns


def drift_ns(begin: ClockPair, end: ClockPair) -> int:
    """Return how far the wall clock outran the monotonic one between two pairs, in ns.

    A jump of the wall clock (NTP, an operator) shows here; events do not follow it.
    """
    wall = end.wall_ns - begin.wall_ns
    return wall - (end.monotonic_ns - begin.monotonic_ns)
