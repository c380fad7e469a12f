"""What stands for a collector that could not even be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.capture.collectors.contract import Collected

if TYPE_CHECKING:
    from stepscope.capture.ground.clock import ClockPair
    from stepscope.capture.ground.options import ProfilerOptions
    from stepscope.unavailable import Unavailable

__all__ = ["BrokenCollector"]


class BrokenCollector:
    """Takes the place of a collector that raised where it should have answered.

    Its start raises the same, so that the recording tells it as any other failure.
    """

    def __init__(self, name: str, error: Exception) -> None:
        self.name = name
        self._error = error

    def available(self) -> Unavailable | None:
        """Always: it has something to tell."""
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
