"""The stretches in which a device does nothing, and what its queue held meanwhile.

A stretch of idle time is divided by the launch of the activity that ended it: until the
host began that call, the host was on its way there; from then on the launch was on its
way; and as soon as other launched work waits, the queue is not empty and the host is
not to blame.

Definition: docs/where-a-steps-time-goes.md#idle-time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope._core import launches
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.device.launch_facts import LaunchLatency
    from stepscope.derive.device.timeline import DeviceRows

_NEVER: Final = np.iinfo(np.int64).max


class Launched(Frozen, frozen=True):
    """The activities of one device, and the launch calls of all.

    Attributes:
        device: The activities of the device, in the order of their starts.
        copies: By row of device_activity: whether it is a copy.
    """

    device: DeviceRows
    correlation: Correlation
    copies: NDArray[np.bool_]


class _Endings(Frozen, frozen=True):
    """What ended each of some stretches, and what was launched behind it.

    Attributes:
        row: Row of device_activity of the first activity that begins at the end; -1
            for none.
        called_ps: When its launch call began; the largest int64 where unknown.
        returned_ps: When its launch call returned; the largest int64 where unknown.
        track: Row of tracks of the thread that called; -1 where unknown.
        blocking: Whether the call lasted longer than the copy that it began, by more
            than the launch latency: the call waited.
        behind_ps: Earliest return of the calls of all other activities from there on;
            the largest int64 where there is none.
    """

    row: NDArray[np.int64]
    called_ps: NDArray[np.int64]
    returned_ps: NDArray[np.int64]
    track: NDArray[np.int32]
    blocking: NDArray[np.bool_]
    behind_ps: NDArray[np.int64]


class Gaps(Frozen, frozen=True):
    """Idle time of one device, divided by the queue.

    Attributes:
        switch: Stretches too short to have a cause.
        queued: Where launched work waited, with no reason in the record.
        latency: Where the launch of the next activity was on its way.
        copy_call: Where the host was in the blocking call of the copy that ended the
            stretch.
        copy_call_rows: Row of device_activity of that copy, by entry of `copy_call`.
        walk_start_ps: Begins of the rest, in which the host had not launched yet.
        walk_track: Row of tracks of the thread that ended the rest by its launch; -1
            where nothing or an unknown launch ended it.
        activity: Row of device_activity that ended the rest; -1 for none.
    """

    switch: Spans
    queued: Spans
    latency: Spans
    copy_call: Spans
    copy_call_rows: NDArray[np.int64]
    walk_start_ps: NDArray[np.int64]
    walk_end_ps: NDArray[np.int64]
    walk_track: NDArray[np.int32]
    activity: NDArray[np.int64]


def divided_gaps(idle: Spans, launched: Launched, facts: LaunchLatency) -> Gaps:
    """Divide each stretch of idle time of one device.

    Args:
        idle: The stretches, each ended by the first activity that begins at its end.
    """
    start, end = idle.start_ps, idle.end_ps
    short = end - start <= facts.switch_ps
    switch = Spans(start[short], end[short])
    start, end = start[~short], end[~short]
    # No activity begins within a stretch, so what waits in it begins at its end or
    # later: the earliest return of all such calls is when the queue began to fill.
    by = _endings(end, launched, facts.latency_ps)
    ended, called, returned = by.row >= 0, by.called_ps, by.returned_ps
    queued_from = np.clip(by.behind_ps, start, end)
    in_time = returned <= start - facts.latency_ps
    queued_from = np.where(in_time, start, queued_from)
    on_way = np.where(in_time | ~ended | (called == _NEVER), end, called)
    on_way = np.clip(on_way, start, end)
    arrives = np.minimum(np.maximum(returned, start), end - facts.most_ps)
    arrives = np.clip(arrives + facts.most_ps, on_way, end)
    walk_end = np.minimum(queued_from, on_way)
    blocks = ended & (on_way < end) & by.blocking
    queued = Spans.union_of((_from_pairs(walk_end, on_way), _from_pairs(arrives, end)))
    walked = start < walk_end
    return Gaps(
        switch=switch,
        queued=queued,
        latency=_from_pairs(on_way[~blocks], arrives[~blocks]),
        copy_call=_from_pairs(on_way[blocks], arrives[blocks]),
        copy_call_rows=by.row[blocks],
        walk_start_ps=start[walked],
        walk_end_ps=walk_end[walked],
        walk_track=by.track[walked],
        activity=by.row[walked],
    )


def _endings(
    end_ps: NDArray[np.int64], launched: Launched, latency_ps: int
) -> _Endings:
    device = launched.device
    launch_of = launched.correlation.launch_of_activity
    calls = launched.correlation.launches
    called_ps, dur_ps = ints(calls, "start_ps"), ints(calls, "dur_ps")
    place, behind = (np.empty(len(end_ps), np.int64) for _ in range(2))
    found = launches.endings(
        end_ps,
        device.start_ps,
        device.dur_ps,
        device.rows,
        launch_of,
        called_ps,
        dur_ps,
        place,
        behind,
    )
    if found < 0:
        raise ValueError(f"the kernel refused its arrays ({found})")
    ended = place >= 0
    row = np.full(len(end_ps), -1)
    row[ended] = device.rows[place[ended]]
    launch = np.full(len(end_ps), -1, np.int32)
    launch[ended] = launch_of[row[ended]]
    known = launch >= 0
    call = launch[known]
    called, returned = (np.full(len(end_ps), _NEVER) for _ in range(2))
    called[known] = called_ps[call]
    returned[known] = called[known] + dur_ps[call]
    track = np.full(len(end_ps), -1, np.int32)
    track[known] = handles(calls, "track")[call]
    blocking = np.zeros(len(end_ps), np.bool_)
    own = device.dur_ps[place[known]]
    waits = dur_ps[call] > own + latency_ps
    blocking[known] = launched.copies[row[known]] & waits
    return _Endings(row, called, returned, track, blocking, behind)


def _from_pairs(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Spans:
    """Return ascending disjoint pairs as a set, without those of no length."""
    some = starts < ends
    return Spans(starts[some], ends[some])
