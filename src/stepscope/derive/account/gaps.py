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

from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.device.launch_facts import LaunchFacts
    from stepscope.derive.device.timeline import DeviceRows

__all__ = ["LATENCY_CAP_PS", "Gaps", "Launched", "divided_gaps"]

#: A launch into an empty queue explains at most this much of the wait for its activity;
#: a longer wait has another cause.
LATENCY_CAP_PS: Final = 100 * PS_PER_US
_NEVER: Final = np.iinfo(np.int64).max


class Launched(Frozen, frozen=True):
    """The launch calls of one device's activities, in the order of their starts.

    Attributes:
        rows: Rows of device_activity.
        start_ps: When each activity began.
        called_ps: When its launch call began; the largest int64 where unknown.
        returned_ps: When its launch call returned; the largest int64 where unknown.
        track: Row of tracks of the thread that called; -1 where unknown.
        blocking: Where the call lasted longer than the copy that it began, by more
            than the launch latency: the call waited.
    """

    rows: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    called_ps: NDArray[np.int64]
    returned_ps: NDArray[np.int64]
    track: NDArray[np.int32]
    blocking: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        device: DeviceRows,
        *,
        launch_of: NDArray[np.int32],
        called_ps: NDArray[np.int64],
        dur_ps: NDArray[np.int64],
        track: NDArray[np.int32],
        copies: NDArray[np.bool_],
        latency_ps: int,
    ) -> Launched:
        """Look up the launch of each activity that lasts any time.

        Args:
            device: The activities of the device.
            launch_of: By row of device_activity, the row of launches; -1 for none.
            called_ps: By row of launches.
            dur_ps: By row of launches.
            track: By row of launches.
            copies: By row of device_activity: whether it is a copy.
            latency_ps: What a launch usually takes.
        """
        some = device.dur_ps > 0
        rows = device.rows[some]
        launch = launch_of[rows]
        known = launch >= 0
        called = np.full(len(rows), _NEVER)
        returned = np.full(len(rows), _NEVER)
        tracks = np.full(len(rows), -1, np.int32)
        called[known] = called_ps[launch[known]]
        returned[known] = called[known] + dur_ps[launch[known]]
        tracks[known] = track[launch[known]]
        blocking = copies[rows] & known
        own = device.dur_ps[some][blocking]
        in_call = (returned - called)[blocking]
        blocking[blocking] = in_call > own + latency_ps
        return cls(rows, device.start_ps[some], called, returned, tracks, blocking)


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
        walk_end_ps: Ends of the rest.
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

    @property
    def walks(self) -> Spans:
        """The rest as a set."""
        return _from_pairs(self.walk_start_ps, self.walk_end_ps)


def divided_gaps(idle: Spans, launched: Launched, facts: LaunchFacts) -> Gaps:
    """Divide each stretch of idle time of one device.

    Args:
        idle: The stretches, each ended by the first activity that begins at its end.
        launched: The activities of the device with their launches.
        facts: The usual launch latency and the shortest gap.
    """
    start, end = idle.start_ps, idle.end_ps
    short = end - start <= facts.switch_ps
    switch = Spans(start[short], end[short])
    start, end = start[~short], end[~short]
    count = len(launched.rows)
    place = np.searchsorted(launched.start_ps, end, side="left")
    ended = np.zeros(len(end), np.bool_)
    inside = place < count
    ended[inside] = launched.start_ps[place[inside]] == end[inside]
    at = np.minimum(place, max(count - 1, 0))
    called, returned = _of_ending(launched, at, ended)
    # No activity begins within a stretch, so what waits in it begins at its end or
    # later: the earliest return of all such calls is when the queue began to fill.
    waiting = _earliest_from(launched.returned_ps)
    behind = np.minimum(place + ended, count)
    queued_from = np.clip(waiting[behind], start, end)
    in_time = returned <= start - facts.latency_ps
    queued_from = np.where(in_time, start, queued_from)
    on_way = np.where(in_time | ~ended | (called == _NEVER), end, called)
    on_way = np.clip(on_way, start, end)
    arrives = np.minimum(np.maximum(returned, start), end - LATENCY_CAP_PS)
    arrives = np.clip(arrives + LATENCY_CAP_PS, on_way, end)
    walk_end = np.minimum(queued_from, on_way)
    blocks = ended & (on_way < end)
    if count:
        blocks &= launched.blocking[at]
    queued = Spans.union_of((_from_pairs(walk_end, on_way), _from_pairs(arrives, end)))
    walked = start < walk_end
    return Gaps(
        switch=switch,
        queued=queued,
        latency=_from_pairs(on_way[~blocks], arrives[~blocks]),
        copy_call=_from_pairs(on_way[blocks], arrives[blocks]),
        copy_call_rows=launched.rows[at[blocks]],
        walk_start_ps=start[walked],
        walk_end_ps=walk_end[walked],
        walk_track=_tracks(launched, at, ended)[walked],
        activity=_activities(launched, at, ended)[walked],
    )


def _of_ending(
    launched: Launched, at: NDArray[np.intp], ended: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return begin and return of the launches that ended the stretches."""
    if not len(launched.rows):
        never = np.full(len(at), _NEVER)
        return never, never
    called = np.where(ended, launched.called_ps[at], _NEVER)
    return called, np.where(ended, launched.returned_ps[at], _NEVER)


def _tracks(
    launched: Launched, at: NDArray[np.intp], ended: NDArray[np.bool_]
) -> NDArray[np.int32]:
    if not len(launched.rows):
        return np.full(len(at), -1, np.int32)
    return np.where(ended, launched.track[at], np.int32(-1)).astype(np.int32)


def _activities(
    launched: Launched, at: NDArray[np.intp], ended: NDArray[np.bool_]
) -> NDArray[np.int64]:
    if not len(launched.rows):
        return np.full(len(at), -1, np.int64)
    return np.where(ended, launched.rows[at], np.int64(-1))


def _earliest_from(returned_ps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each place, and for the end, the least value from there on."""
    found = np.full(len(returned_ps) + 1, _NEVER)
    found[:-1] = np.minimum.accumulate(returned_ps[::-1])[::-1]
    return found


def _from_pairs(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Spans:
    """Return ascending disjoint pairs as a set, without those of no length."""
    some = starts < ends
    return Spans(starts[some], ends[some])
