"""What other threads did while one waited for them in a call of the system.

Definition: docs/where-a-steps-time-goes.md#waits-for-other-threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.intervals.nesting import nest_subset
from stepscope.derive.step_time.host_codes import HostCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepscope.derive.intervals.spans import Spans
    from stepscope.derive.step_time.host_classes import HostClasses

__all__ = ["awaited", "host_threads"]

#: What a thread that is waited for does not do: it waits as well.
_WAITS: Final = (
    *(HostCode.SYSTEM_WAIT, HostCode.BLOCKED, HostCode.INPUT_WAIT),
    *(HostCode.SYNC, HostCode.READ_BACK, HostCode.PEER),
)
_WORK: Final = tuple(code for code in HostCode if code not in _WAITS)
#: One kind of event is what was waited for if it takes this share of the wait.
_MOST: Final = 0.5


def host_threads(tracks: pl.DataFrame) -> dict[int, str]:
    """Return the name of each thread of a host by row of tracks."""
    named = tracks.with_row_index("row").filter(
        pl.col("device").is_null(), pl.col("kind") == "thread"
    )
    return dict(named.select("row", "name").iter_rows())


def awaited(
    classes: HostClasses,
    threads: Mapping[int, str],
    waits: Spans,
    *,
    types: NDArray[np.int32],
    nameless: NDArray[np.bool_],
    by: int,
) -> tuple[str, int] | None:
    """Return the thread and the type of event that most of some waits passed with.

    Args:
        classes: What each thread does.
        threads: Row of tracks of each thread of the host → its name.
        waits: The waits.
        types: Row of event_types by row of events.
        nameless: By row of event_types: whether it says nothing of what is done.
        by: Row of tracks of the thread that waits.
    """
    found: list[tuple[int, str, int]] = []
    rows = classes.rows
    for track, name in threads.items():
        if track == by:
            continue
        at = rows.meeting(track, waits, code=classes.code, wanted=_WORK)
        at = at[~nameless[types[at]]]
        if not len(at):
            continue
        start, dur = rows.start_ps[at], rows.dur_ps[at]
        nested = nest_subset(start, dur, track=np.zeros(len(at), np.int32))
        own = waits.within(start, start + dur)
        inside = nested.parent >= 0
        np.subtract.at(own, nested.parent[inside], own[inside].copy())
        kind, place = np.unique(types[at], return_inverse=True)
        total = np.zeros(len(kind), np.int64)
        np.add.at(total, place, own)
        most = int(total.argmax())
        found.append((int(total[most]), name, int(kind[most])))
    longest = max(found, default=None)
    if longest is None or longest[0] < _MOST * waits.length_ps:
        return None
    return longest[1:]
