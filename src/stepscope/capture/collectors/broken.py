"""What takes the place of a collector that could not even be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.capture.collectors.contract import Collected

if TYPE_CHECKING:
    from stepscope.capture.ground.clock import ClockPair
    from stepscope.capture.ground.options import ProfilerOptions
    from stepscope.unavailable import Unavailable


class BrokenCollector:
    """Takes the place of a collector that raised where it should have answered.

    Its `start` raises that error, so that the recording reports it as any failure.
    """

    def __init__(self, name: str, error: Exception) -> None:
        self.name = name
        self._error = error

    def available(self) -> Unavailable | None:
        """Return None: it always takes part, because it has an error to report."""
        return None

    def start(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Fail as its collector did.

        Raises:
            Exception: What the collector raised.
        """
        del options, clock
        raise self._error

    def stop(self) -> Collected:
        """Nothing was recorded."""
        return Collected(b"")
