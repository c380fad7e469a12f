"""`start_up`: when a program starts, until the steady work of its devices begins.

Definition: docs/where-a-steps-time-goes.md#start-up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import ACTIVITY_CODES, codes, handles, ints
from stepscope.derive.intervals.spans import LIMIT_PS, Spans
from stepscope.derive.names.start_up import CONTEXTS, LOADS
from stepscope.patterns import ascii_only
from stepscope.trace.reading.nullable import absent_mask
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.array_types import Int64s
    from stepscope.derive.step_windows.windows import Windows

#: Minimum duration of a call that creates a context, in ps. Later calls of the same
#: names take microseconds.
_MIN_CONTEXT_PS: Final = 20 * PS_PER_MS
#: Minimum duration of a call that loads or reserves something for the first time.
_MIN_LOAD_PS: Final = 1 * PS_PER_MS
#: The steady work has begun when this share of the time of all kernels has passed.
_STEADY_SHARE: Final = 0.05


def start_up(
    *,
    windows: Windows,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    device_activity: pl.DataFrame | Unavailable,
) -> Spans:
    """Return when the program starts; empty if the recording has steps.

    If a call creates a context, the program starts from the begin of the recording to
    the first device activity after the last call that sets something up. Else only the
    time of these calls counts. Calls after the begin of the steady work do not count.
    """
    if windows.has_steps:
        return Spans.empty()
    first_ps = steady_ps = LIMIT_PS
    work_ps = np.empty(0, np.int64)
    if not isinstance(device_activity, Unavailable) and len(device_activity):
        work_ps = ints(device_activity, "start_ps")
        first_ps, steady_ps = int(work_ps.min()), _steady_work_ps(device_activity)
    on_host = absent_mask(tracks["device"])[handles(events, "track")]
    start_ps, dur_ps = ints(events, "start_ps"), ints(events, "dur_ps")
    types = handles(events, "type")

    def long_calls(pattern: str, min_ps: int, before_ps: int) -> Int64s:
        named = event_types.select(pl.col("name").str.contains(ascii_only(pattern)))
        wanted = named.to_series().fill_null(value=False).to_numpy()[types]
        return np.flatnonzero(
            wanted & on_host & (dur_ps >= min_ps) & (start_ps < before_ps)
        )

    # Without a context the device cannot work.
    contexts = long_calls(CONTEXTS, _MIN_CONTEXT_PS, first_ps)
    calls = np.union1d(contexts, long_calls(LOADS, _MIN_LOAD_PS, steady_ps))
    if not len(contexts):
        return Spans.from_events(start_ps[calls], dur_ps[calls])
    begin_ps, done_ps = (
        int(ints(windows.rows, "start_ps")[0]),
        int((start_ps[calls] + dur_ps[calls]).max()),
    )
    later_ps = work_ps[work_ps >= done_ps]
    done_ps = int(later_ps.min()) if len(later_ps) else done_ps
    return Spans.of([(begin_ps, max(begin_ps, done_ps))])


def _steady_work_ps(activity: pl.DataFrame) -> int:
    kinds = (ACTIVITY_CODES["kernel"], ACTIVITY_CODES["collective"])
    rows = np.flatnonzero(np.isin(codes(activity, "kind"), kinds))
    if not len(rows):
        return LIMIT_PS
    start_ps = ints(activity, "start_ps")[rows]
    order = np.argsort(start_ps, kind="stable")
    ran_ps = np.cumsum(ints(activity, "dur_ps")[rows][order])
    steady = int(np.searchsorted(ran_ps, _STEADY_SHARE * ran_ps[-1]))
    return int(start_ps[order[steady]])
