"""The number of PyTorch's events in one step, which limits the recorded steps."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from stepscope.capture.base.clock import ClockPair
from stepscope.capture.collectors.torch.collector import TorchCollector
from stepscope.errors import suppress_faults

if TYPE_CHECKING:
    from stepscope.capture.base.options import ProfilerOptions


class EventCount:
    """A recording of one step by PyTorch, which is counted and dropped.

    PyTorch reports the number of events only after its profiler has stopped. Nothing is
    counted next to a device, because PyTorch waits for it when a recording stops.
    """

    def __init__(self, options: ProfilerOptions) -> None:
        """Begin to record what PyTorch executes on this thread."""
        self._collector: TorchCollector | None = None
        collector = TorchCollector()
        with suppress_faults():
            if collector.why_unavailable() is not None:
                return
            if len(sys.modules["torch"].profiler.supported_activities()) > 1:
                return
            collector.rehearse()
            collector.start_collecting(options, ClockPair.now())
            self._collector = collector

    def end_count(self) -> int:
        """Stop the recording, and return its number of events; 0 if it is unknown."""
        collector, self._collector = self._collector, None
        events = 0
        if collector is not None:
            with suppress_faults():
                events = collector.count_events()
            with suppress_faults():
                collector.drop_events()
        return events
