"""The number of PyTorch's events in one step, which limits the recorded steps."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from stepscope.errors import suppress_faults

if TYPE_CHECKING:
    from stepscope.capture.collectors.torch.collector import TorchCollector
    from stepscope.capture.launching.plan import RunPlan


class EventCount:
    """A recording of one step by PyTorch, which is counted and dropped.

    PyTorch reports the number of events only after its profiler has stopped. Nothing is
    counted next to a device, because PyTorch waits for it when a recording stops.
    """

    def __init__(self) -> None:
        self._collector: TorchCollector | None = None

    @property
    def is_counting(self) -> bool:
        """Whether a step is recorded now."""
        return self._collector is not None

    def begin_count(self, plan: RunPlan, next_last: int) -> None:
        """Record the step that begins if the window of a plan opens with the next one.

        Args:
            next_last: Number of the last batch of the next step, from 1.
        """
        self.end_count()
        torch = sys.modules.get("torch")
        if torch is None or not plan.max_events or next_last <= plan.skip_steps:
            return
        from stepscope.capture.base.clock import ClockPair  # noqa: PLC0415 - keeps process startup fast
        from stepscope.capture.collectors.torch.collector import TorchCollector  # noqa: PLC0415 - keeps process startup fast

        collector = TorchCollector()
        with suppress_faults():
            if collector.why_unavailable() is not None:
                return
            if len(torch.profiler.supported_activities()) > 1:
                return
            collector.prepare_rehearsal()
            collector.start_collecting(plan.options(), ClockPair.now())
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
