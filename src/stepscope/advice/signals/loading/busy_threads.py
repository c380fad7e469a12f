"""How many threads of the input pipeline work at each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.host_codes import HostCode
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.step_time.host_classes import HostClasses

_PIPELINE: Final = (HostCode.PIPELINE, HostCode.ITERATOR)


class BusyThreads(Frozen, frozen=True):
    """How many threads of the input pipeline are busy, other than those of the steps.

    Attributes:
        start_ps: When the number changes.
        lasting_ps: How long it stays; 0 after the last change.
        count: The number.
    """

    start_ps: NDArray[np.int64]
    lasting_ps: NDArray[np.int64]
    count: NDArray[np.int64]

    def at_least(self, many: float) -> Spans:
        """Return when at least so many are busy."""
        chosen = self.count >= many
        return Spans.from_events(self.start_ps[chosen], self.lasting_ps[chosen])


def busy_threads(classes: HostClasses) -> BusyThreads | None:
    """Count the busy threads of the input pipeline; None where none was recorded."""
    driving = set(classes.threads.tracks())
    sets = [
        found[code]
        for track, found in classes.by_thread.items()
        if track not in driving
        for code in _PIPELINE
        if code in found
    ]
    if not sets:
        return None
    begins = np.sort(np.concatenate([one.start_ps for one in sets]))
    ends = np.sort(np.concatenate([one.end_ps for one in sets]))
    times = np.unique(np.concatenate((begins, ends)))
    busy = np.searchsorted(begins, times, side="right") - np.searchsorted(
        ends, times, side="right"
    )
    return BusyThreads(times, np.diff(times, append=times[-1:]), busy)
