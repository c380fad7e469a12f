"""The queue of each device over the time of a step, and launches out of the ordinary.

Work is in the queue from the begin of its launch call until it begins itself.

Definition: docs/advice/launch_delay.md#what-stands-beside-it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.signals.signal import signal
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.device.correlation import correlation
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: A step is looked at in so many parts of equal length.
PARTS: Final = 10


class Queue(Frozen, frozen=True):
    """The queue of one device in the judged steps.

    Attributes:
        lengths: Mean number of works in it by tenth of a step, mean of the steps.
        longest: Most works that were in it when one of them began.
        slow_calls: Launch calls of a step that last long, on average.
        late_starts: Works of a step that began long after their call returned, although
            the device had nothing else to do meanwhile, on average.
    """

    lengths: tuple[float, ...]
    longest: int
    slow_calls: float
    late_starts: float


@signal(correlation, windows, seldom=True)
def queue_signals(profile: ProfileData, thresholds: Thresholds) -> dict[str, Queue]:
    """Follow the queue of each device, `host:device`, whose launches were recorded."""
    found = {}
    for host in profile.hosts:
        activity = profile.table(host, "device_activity")
        launches = profile.table(host, "launches")
        tied = profile.derived(host, correlation)
        placed = profile.derived(host, windows)
        if (
            isinstance(activity, Unavailable)
            or isinstance(launches, Unavailable)
            or isinstance(tied, Unavailable)
            or isinstance(placed, Unavailable)
            or not len(placed.measured)
        ):
            continue
        of_device = handles(activity, "device")
        known = np.flatnonzero(tied.launch_of_activity >= 0)
        for device in np.unique(of_device[known]).tolist():
            mine = known[of_device[known] == device]
            found[f"{host}:{device}"] = _queue(
                mine,
                activity,
                launches,
                tied,
                measured=placed.measured,
                thresholds=thresholds,
            )
    return found


def _queue(
    rows: NDArray[np.intp],
    activity: pl.DataFrame,
    launches: pl.DataFrame,
    tied: Correlation,
    *,
    measured: pl.DataFrame,
    thresholds: Thresholds,
) -> Queue:
    """Follow the queue of one device.

    Args:
        rows: The device's rows of device_activity whose launch call is known.
        activity: The table.
        launches: The table.
        tied: The launch of each activity.
        measured: The judged steps.
        thresholds: The numbers that say what is long.
    """
    starts, ends = ints(measured, "start_ps"), ints(measured, "end_ps")
    call = tied.launch_of_activity[rows]
    calls = np.unique(call)
    called, begun = ints(launches, "start_ps"), ints(activity, "start_ps")[rows]
    slow = ints(launches, "dur_ps")[calls] > thresholds.slow_launch_call.value
    late = tied.latency_ps[rows] > thresholds.late_start.value
    into, out_of = np.sort(called[call]), np.sort(begun)
    inside = _within(out_of, starts, ends)
    waiting = np.searchsorted(into, out_of, side="right") - np.arange(len(out_of))
    steps = len(measured)
    return Queue(
        lengths=_lengths(into, out_of, starts, ends),
        longest=int(waiting[inside].max(initial=0)),
        slow_calls=float(_within(called[calls[slow]], starts, ends).sum()) / steps,
        late_starts=float(_within(begun[late], starts, ends).sum()) / steps,
    )


def _within(
    times: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which times lie in one of some ranges that do not overlap."""
    at = np.searchsorted(starts, times, side="right") - 1
    found: NDArray[np.bool_] = (at >= 0) & (times < ends[np.maximum(at, 0)])
    return found


def _lengths(
    into: NDArray[np.int64],
    out_of: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> tuple[float, ...]:
    """Return the mean length of the queue in each part of a step, mean of the steps.

    Args:
        into: When works were launched, ascending.
        out_of: When they began, ascending.
        starts: Begins of the steps.
        ends: Ends of the steps.
    """
    parts = np.linspace(0.0, 1.0, PARTS + 1)
    offsets = (ends - starts)[:, None] * parts
    edges = starts[:, None] + offsets.astype(np.int64)
    # Time in the queue up to each edge, added up over all works.
    held = _elapsed(into, edges) - _elapsed(out_of, edges)
    mean = np.diff(held, axis=1) / np.maximum(np.diff(edges, axis=1), 1)
    return tuple(np.maximum(mean.mean(axis=0), 0.0).tolist())


def _elapsed(since: NDArray[np.int64], until: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the time from each of some moments until others, added up."""
    total = np.concatenate(([0], np.cumsum(since - since[0]))).astype(np.float64)
    count = np.searchsorted(since, until, side="right")
    found: NDArray[np.float64] = count * (until - since[0]).astype(float) - total[count]
    return found
