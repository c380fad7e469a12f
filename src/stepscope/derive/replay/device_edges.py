"""Edges to a device activity: from its launch, its stream and other streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.stat_values import (
    find_handle,
    owner_numbers,
    rows_of_owners,
    rows_with_key,
)
from stepscope.derive.replay.nodes import EdgeKind, Edges
from stepscope.trace.reading.stat_keys import StatKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.array_types import Bools, Int64s
    from stepscope.derive.replay.activities import Activities, Pace

_NONE: Final = -1
#: Number of latest activity ends that are tested as the cause of a late start.
_MAX_ENDS_SEARCHED: Final = 8


def launch_edges(
    activities: Activities,
    *,
    first: int,
    submitted: Int64s,
    source: Int64s,
    from_start: Bools,
    pace: Pace,
) -> Edges:
    """Return edges from launch calls to activities, with a lag of at most one latency.

    Args:
        source: By activity: node in which the call submitted it; -1 if unknown.
        from_start: By activity: whether the start of `source` counts, not its end.
    """
    return Edges.make_edges(
        EdgeKind.LAUNCH,
        np.where(activities.launch >= 0, source, _NONE),
        first + np.arange(len(source)),
        lag_ps=np.minimum(activities.start_ps - submitted, pace.latency_ps),
        from_start=from_start,
    )


def stream_edges(activities: Activities, *, first: int, pace: Pace) -> Edges:
    """Return an edge from each activity to the next one on its stream."""
    before = activities.previous
    gap = activities.start_ps - activities.end_ps[before]
    return Edges.make_edges(
        EdgeKind.STREAM,
        np.where(before >= 0, first + before, _NONE),
        first + np.arange(len(before)),
        lag_ps=np.minimum(gap, pace.stream_gap_ps),
    )


def across_edges(
    activities: Activities, slack_ps: Int64s, *, first: int, pace: Pace
) -> Edges:
    """Return edges to late activities from other streams' work that ended just before.

    Args:
        slack_ps: By activity: delay that launch and stream edges do not explain.
    """
    late = np.flatnonzero(slack_ps > pace.stream_gap_ps)
    source = np.full(len(late), _NONE, np.int64)
    begun = activities.start_ps[late]
    for device in np.unique(activities.device[late]).tolist():
        own_rows = np.flatnonzero(activities.device == device)
        by_end = own_rows[np.argsort(activities.end_ps[own_rows], kind="stable")]
        of_device = activities.device[late] == device
        index = np.searchsorted(activities.end_ps[by_end], begun, side="right") - 1
        for back in range(min(_MAX_ENDS_SEARCHED, len(by_end))):
            rows = by_end[index - back]
            fits = of_device & (source < 0) & (index >= back)
            fits &= begun - activities.end_ps[rows] <= pace.late_ps
            fits &= activities.track[rows] != activities.track[late]
            # A stream can wait only for work that was launched earlier.
            fits &= activities.called_ps[rows] <= activities.called_ps[late]
            source[fits] = rows[fits]
    gap = begun - activities.end_ps[source]
    return Edges.make_edges(
        EdgeKind.ACROSS,
        np.where(source >= 0, first + source, _NONE),
        first + late,
        lag_ps=np.minimum(gap, pace.late_ps),
    )


def event_edges(
    activities: Activities,
    stats: pl.DataFrame,
    strings: Sequence[str],
    tracks: pl.DataFrame,
    *,
    first: int,
    pace: Pace,
) -> Edges:
    """Return edges for calls that make a stream wait for an event of another stream.

    The next activity launched on the waiting stream waits for the last activity
    launched on the other stream before the event. Calls are ordered by their numbers.

    Args:
        tracks: The table `tracks`, for the device on which each wait is recorded.
    """
    waits = rows_with_key(stats, "event", find_handle(strings, StatKey.WAIT_ON_STREAM))
    events = np.unique(waits.owner)
    if not len(events):
        return Edges.join_edges([])
    values = rows_of_owners(stats, "event", events)
    keys = (
        *(StatKey.STREAM, StatKey.CORRELATION),
        *(StatKey.WAIT_ON_STREAM, StatKey.WAIT_ON_RECORD),
    )
    columns, known = [], np.ones(len(events), np.bool_)
    for key in keys:
        numbers, present = owner_numbers(values, events, find_handle(strings, key))
        columns.append(numbers)
        known &= present
    waiting, called, waited_for, recorded = (column[known] for column in columns)
    # Find the device to whose tracks each event belongs; -1 for host events.
    begin = tracks["event_begin"].to_numpy()
    device_of = tracks["device"].cast(pl.Int64).fill_null(_NONE).to_numpy()
    # A track without events has the same `event_begin` as the next track.
    device: Int64s = device_of[np.searchsorted(begin, events[known], side="right") - 1]
    target = _neighbour_by_call(activities, device, waiting, called, after=True)
    source = _neighbour_by_call(activities, device, waited_for, recorded, after=False)
    both = (target >= 0) & (source >= 0)
    # Drop a wait whose activity starts before the activity it should wait for.
    both[both] = activities.start_ps[target[both]] >= activities.start_ps[source[both]]
    target, source = target[both], source[both]
    gap = activities.start_ps[target] - activities.end_ps[source]
    return Edges.make_edges(
        EdgeKind.EVENT,
        first + source,
        first + target,
        lag_ps=np.minimum(gap, pace.late_ps),
    )


def _neighbour_by_call(
    activities: Activities, device: Int64s, stream: Int64s, call: Int64s, *, after: bool
) -> Int64s:
    """Return the next or last activity of a stream, by the number of its launch call.

    Streams of different devices may have the same number.
    """
    neighbour = np.full(len(stream), _NONE, np.int64)
    for of_device, stream_id in np.unique(
        np.stack([device, stream]), axis=1
    ).T.tolist():
        belongs = (activities.stream == stream_id) & (activities.number >= 0)
        if of_device >= 0:
            belongs &= activities.device == of_device
        own_rows = np.flatnonzero(belongs)
        order = own_rows[np.argsort(activities.number[own_rows], kind="stable")]
        wanted = (stream == stream_id) & (device == of_device)
        index = np.searchsorted(
            activities.number[order], call[wanted], side="right" if after else "left"
        )
        if not after:
            index -= 1
        inside = (index >= 0) & (index < len(order))
        of_stream = np.full(len(index), _NONE, np.int64)
        of_stream[inside] = order[index[inside]]
        neighbour[wanted] = of_stream
    return neighbour
