"""Whether the recording shows the whole last step, so that its window is closed.

Definition: docs/how-steps-are-found.md#windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, ints

if TYPE_CHECKING:
    import polars as pl

    from stepscope.array_types import Bools, Int32s
    from stepscope.derive.steps.chosen import Steps

#: Maximum usual time between two steps, as a share of the time from start to start:
#: such time is missing after the last step.
_MAX_PAUSE_SHARE: Final = 0.1
#: Minimum number of events of a complete last step, as a share of the other minimum.
_MIN_COMPLETE_SHARE: Final = 0.9


def is_last_closed(
    rows: pl.DataFrame,
    steps: Steps,
    events: pl.DataFrame,
    activity_steps: Int32s | None,
    fewer_records: Bools | None,
) -> bool:
    """Return whether the last window ends with the last step.

    The step's end was recorded, or the last repetition is like the others; the step is
    as full as the others, and hardly any time passes between the steps.

    Args:
        rows: The windows.
        fewer_records: Result of `steps_with_fewer_records`; None without launches.
    """
    marks = steps.rows
    count = len(marks)
    has_ends = not marks["end_ps"].null_count()
    if count < 2 or marks["cut"][-1] or not (has_ends or steps.inferred):
        return False
    pause_share = steps.pause_share
    others = rows[:-1]
    if not others["gap_start_ps"].null_count():
        begins, ends, gaps = (
            ints(others, name) for name in ("start_ps", "end_ps", "gap_start_ps")
        )
        usual = float(np.median((ends - gaps) / np.maximum(ends - begins, 1)))
        pause_share = max(usual, pause_share or 0.0)
    if pause_share is None or pause_share >= _MAX_PAUSE_SHARE:
        return False
    if fewer_records is not None and fewer_records[-1]:
        return False
    held = []
    if activity_steps is not None:
        held.append(np.bincount(activity_steps[activity_steps >= 0], minlength=count))
    if has_ends:
        on_track = handles(events, "track") == marks["track"][-1]
        events_ps = np.sort(ints(events, "start_ps")[on_track])
        start, end = ints(marks, "start_ps"), ints(marks, "end_ps")
        held.append(np.subtract(*np.searchsorted(events_ps, [end, start])))
    return all(each[-1] >= _MIN_COMPLETE_SHARE * each[:-1].min() for each in held)
