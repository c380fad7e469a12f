"""Whether an instant is inside a step, or between two steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, ints, wanted_rows
from stepscope.derive.columns.dense_codes import time_ranges_by_code
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.derive.step_windows.windows import window_range
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import polars as pl

    from stepscope.array_types import Int32s
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.inference_requests import Requests
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps

#: The program's calls count as the steps if at least this share of the launches with
#: device activity (without a device: of host computing) is inside the calls.
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
    """Return when no step is running, within the time range of the windows.

    A step runs while its mark lasts. Without marks, a step runs during the one call of
    the program that contains nearly all of its launches. Without such a call, a step
    runs from its first launch to its last. On a host without a device, a step runs
    during a request, or during that one call, if they contain nearly all host work.

    Definition: docs/where-a-steps-time-goes.md#inside-or-between.

    Args:
        steps: The steps; without steps the result is empty.
    """
    nothing = Spans.empty()
    if isinstance(steps, Unavailable) or not windows.rows.height:
        return nothing
    bounds = Spans.of([window_range(windows.rows)])
    if steps.source == "marker" and not steps.rows["end_ps"].null_count():
        starts = ints(steps.rows, "start_ps")
        return bounds - Spans.from_bounds(starts, ints(steps.rows, "end_ps"))
    is_call = event_kinds.has(EventFlag.FUNCTION_CALL | EventFlag.PJIT)
    track = handles(events, "track")
    rows = wanted_rows(handles(events, "type"), is_call)
    rows = rows[np.isin(track[rows], host_classes.threads.driving_tracks())]
    calls = Spans.from_rows(events, rows)
    once_per_step = 0 < len(calls) <= steps.rows.height
    if host_classes.no_device:
        calls = calls if once_per_step else nothing
        return _between_work(bounds, host_classes.host_compute, requests, calls)
    if isinstance(correlation, Unavailable) or isinstance(activity_steps, Unavailable):
        return nothing
    launches = correlation.launches
    called = ints(launches, "start_ps")[correlation.activity_count_of_launch > 0]
    if len(called) and once_per_step:
        held = calls.within(called, called + 1) > 0
        if held.mean() >= _MIN_INSIDE_SHARE:
            return bounds - calls
    launch = correlation.launch_of_activity
    known = (launch >= 0) & (activity_steps >= 0)
    begins, durs = (ints(launches, name) for name in ("start_ps", "dur_ps"))
    calls_of_steps = time_ranges_by_code(
        *(activity_steps[known], begins[launch[known]], durs[launch[known]]),
        count=steps.rows.height,
    )
    return bounds - Spans.from_bounds(calls_of_steps.first_ps, calls_of_steps.last_ps)


def _between_work(
    bounds: Spans,
    work: Spans | Unavailable,
    requests: Requests | Unavailable,
    calls: Spans,
) -> Spans:
    """Return the time outside of the requests or calls that contain host computing."""
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
    """Return the names of step marks: such names do not show what the program does."""
    if isinstance(steps, Unavailable):
        return set()
    names = (*steps.rows["marker"].to_list(), *steps.rows["name"].to_list())
    return {name for name in names if name is not None}
