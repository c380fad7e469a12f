"""Whether the last step of a recording ends by itself, and not with the recording.

PyTorch's profiler closes `ProfilerStep#n` when the program calls `step()`, and only
then ends the recording after the last of its `active` steps. A recording that is ended
while a step goes on closes that step too: it then holds less than the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.names.event_kinds import EventFlag

if TYPE_CHECKING:
    import polars as pl

    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.steps.chosen import Steps

#: What lies between two steps is less than this share of them: the range is the step.
_BETWEEN: Final = 0.05
#: A whole step begins this share of the events of the one that begins the fewest.
_WHOLE: Final = 0.9


def closes_itself(steps: Steps, events: pl.DataFrame, event_kinds: EventKinds) -> bool:
    """Return whether the last step is a whole one of PyTorch's profiler.

    Work of a device may go on after it: that is not asked here.
    """
    rows = steps.rows
    if rows.height < 2 or rows.select("event", "end_ps").null_count().row(0) != (0, 0):
        return False
    marks = ints(rows, "event")
    types = handles(events, "type")[marks]
    if not event_kinds.has(EventFlag.PROFILER_STEP)[types].all():
        return False
    start, end = ints(rows, "start_ps"), ints(rows, "end_ps")
    if ((start[1:] - end[:-1]) > _BETWEEN * (start[1:] - start[:-1])).any():
        return False
    begun = np.sort(ints(events, "start_ps")[handles(events, "track") == _track(steps)])
    held = np.searchsorted(begun, end) - np.searchsorted(begun, start)
    return bool(held[-1] >= _WHOLE * held[:-1].min())


def _track(steps: Steps) -> int:
    """Return the thread of the last step."""
    return int(steps.rows["track"][-1])
