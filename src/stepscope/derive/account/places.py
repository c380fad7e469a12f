"""Whether an instant is inside a step, or between the work of two steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, ints, wanted_rows
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import polars as pl

    from stepscope.array_types import Int32s
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.inference.requests import Requests
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps

#: Least share of the launches that led to device work (without a device: of the host's
#: work) that must be inside the program's calls for these to be the work of the steps.
_MIN_INSIDE_SHARE: Final = 0.8


def between_steps(
    *,
    windows: Windows,
    steps: Steps | Unavailable,
    events: pl.DataFrame,
    event_kinds: EventKinds,
    host_classes: HostClasses,
    correlation: Correlation | Unavailable,
    activity_steps: Int32s | Unavailable,
    requests: Requests | Unavailable,
) -> Spans:
    """Return where no step's own work runs, within the time range of the windows.

    A step's work is what its mark encloses. Without marks it is the program's one call
    per step that contains nearly all launches, or else the time from the step's first
    launch to its last. Without a device it is the requests, or that one call, if they
    contain nearly all of the host's work.

    Definition: docs/where-a-steps-time-goes.md#inside-or-between.

    Args:
        steps: The steps; without steps the result is empty.
    """
    nothing = Spans.empty()
    if isinstance(steps, Unavailable) or not windows.rows.height:
        return nothing
    begin, end = (
        ints(windows.rows, "start_ps").min(),
        ints(windows.rows, "end_ps").max(),
    )
    bounds = Spans.of([(int(begin), int(end))])
    if steps.source == "marker" and not steps.rows["end_ps"].null_count():
        starts = ints(steps.rows, "start_ps")
        return bounds - Spans.from_events(starts, ints(steps.rows, "end_ps") - starts)
    is_call = event_kinds.has(EventFlag.FUNCTION_CALL | EventFlag.PJIT)
    track = handles(events, "track")
    rows = wanted_rows(handles(events, "type"), is_call)
    rows = rows[np.isin(track[rows], host_classes.threads.driving_tracks())]
    start_ps, dur_ps = ints(events, "start_ps"), ints(events, "dur_ps")
    calls = Spans.from_events(start_ps[rows], dur_ps[rows])
    once_per_step = 0 < len(calls) <= steps.rows.height
    if host_classes.no_device:
        calls = calls if once_per_step else nothing
        return _between_host_work(bounds, host_classes.host_compute, requests, calls)
    if isinstance(correlation, Unavailable) or isinstance(activity_steps, Unavailable):
        return nothing
    launches = correlation.launches
    used = correlation.activity_count_of_launch > 0
    called = ints(launches, "start_ps")[used]
    if len(called) and once_per_step:
        held = calls.within(called, called + 1) > 0
        if held.mean() >= _MIN_INSIDE_SHARE:
            return bounds - calls
    launch = correlation.launch_of_activity
    known = (launch >= 0) & (activity_steps >= 0)
    first = np.full(steps.rows.height, np.iinfo(np.int64).max)
    last = np.full(steps.rows.height, np.iinfo(np.int64).min)
    begins = ints(launches, "start_ps")[launch[known]]
    ends = begins + ints(launches, "dur_ps")[launch[known]]
    np.minimum.at(first, activity_steps[known], begins)
    np.maximum.at(last, activity_steps[known], ends)
    has_launches = first < last
    return bounds - Spans.from_events(first[has_launches], (last - first)[has_launches])


def _between_host_work(
    bounds: Spans,
    work: Spans | Unavailable,
    requests: Requests | Unavailable,
    calls: Spans,
) -> Spans:
    """Return the time outside of the requests, or else calls, that contain the work."""
    if isinstance(work, Unavailable):
        return Spans.empty()
    served = Spans.empty()
    if not isinstance(requests, Unavailable):
        rows = requests.rows
        served = Spans.from_events(ints(rows, "start_ps"), ints(rows, "dur_ps"))
    window_work = work & bounds
    for holding in (served, calls):
        if (
            (window_work & holding).length_ps
            >= _MIN_INSIDE_SHARE * window_work.length_ps
            > 0
        ):
            return bounds - holding
    return Spans.empty()


def marker_names(steps: Steps | Unavailable) -> set[str]:
    """Return the names of the step marks, which do not show what the program does."""
    if isinstance(steps, Unavailable):
        return set()
    names = (*steps.rows["marker"].to_list(), *steps.rows["name"].to_list())
    return {name for name in names if name is not None}
