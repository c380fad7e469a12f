"""Where threads wait for devices, and which activity each of these waits is for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.derive.intervals.spans import Spans
    from stepscope.derive.replay.activities import Activities, Pace
    from stepscope.derive.replay.threads import Thread

_NEVER: Final = -(2**61)
_NONE: Final = -1
#: The last part of a copy that is staged, as a fraction of it.
_LAST_PART: Final = 20


class Waits(NamedTuple):
    """Stretches in which a thread waits.

    Attributes:
        thread: Place of the thread.
        began_ps: When it had nothing left to do itself.
        resumed_ps: When what it waited for was done, as far as that is known; the
            same as `began_ps` where it waited for nothing.
        ended_ps: When it went on.
    """

    thread: NDArray[np.int64]
    began_ps: NDArray[np.int64]
    resumed_ps: NDArray[np.int64]
    ended_ps: NDArray[np.int64]


class DeviceWaits(Frozen, frozen=True, eq=True):
    """Waits for devices.

    Attributes:
        waits: The waits.
        wait: By edge: the wait.
        activity: By edge: place of the activity that it waits for.
    """

    waits: Waits
    wait: NDArray[np.int64]
    activity: NDArray[np.int64]


def submitted_ps(activities: Activities, pace: Pace) -> NDArray[np.int64]:
    """Return when each activity was handed over, within its launch call.

    That is when the call began; but where the stream was free and the activity began
    late, the call itself took the time (it staged a copy, or loaded a module), and the
    activity was handed over one latency before it began.
    """
    called, returned = activities.called_ps, activities.returned_ps
    latest = activities.start_ps - pace.latency_ps
    free = activities.stream_edge_ps() <= latest - pace.stream_gap_ps
    inside: NDArray[np.int64] = np.clip(latest, called, returned)
    return np.where(free, inside, called)


def copy_waits(
    threads: Sequence[Thread],
    activities: Activities,
    submitted: NDArray[np.int64],
    pace: Pace,
) -> DeviceWaits:
    """Find the calls of copies that return only when the copy is done."""
    length = activities.end_ps - activities.start_ps
    in_call = activities.returned_ps - activities.called_ps
    blocks = activities.copy & (activities.launch >= 0) & (in_call > pace.latency_ps)
    blocks &= in_call > length
    # A call that stages a copy returns with its last part handed over.
    last = np.maximum(pace.latency_ps, length // _LAST_PART)
    blocks &= activities.end_ps <= activities.returned_ps + last
    at = np.flatnonzero(blocks)
    place_of = {one.track: place for place, one in enumerate(threads)}
    thread = np.array(
        [place_of.get(int(one), _NONE) for one in activities.caller[at]], np.int64
    )
    known = thread >= 0
    at, thread = at[known], thread[known]
    began = submitted[at]
    waits = Waits(
        thread,
        began,
        np.clip(activities.end_ps[at], began, activities.returned_ps[at]),
        activities.returned_ps[at],
    )
    return DeviceWaits(waits, np.arange(len(at)), at.astype(np.int64))


def device_waits(
    threads: Sequence[Thread],
    activities: Activities,
    *,
    whole_device: Sequence[Spans],
    clock_error_ps: int,
) -> DeviceWaits:
    """Find what each call that synchronises waits for.

    The call returned when the last activity that ended before was done. A call that
    waits for a whole device waits for the last activity of every stream besides.

    Args:
        threads: The threads.
        activities: What devices did.
        whole_device: By thread: where it waits for a whole device.
        clock_error_ps: How far the clocks of host and device differ.
    """
    thread = np.concatenate(
        [
            np.empty(0, np.int64),
            *(np.full(len(one.for_device), at) for at, one in enumerate(threads)),
        ]
    )
    spans = [one.for_device for one in threads]
    began = np.concatenate([np.empty(0, np.int64), *(it.start_ps for it in spans)])
    ended = np.concatenate([np.empty(0, np.int64), *(it.end_ps for it in spans)])
    every = [
        whole.within(one.for_device.start_ps, one.for_device.end_ps) > 0
        for one, whole in zip(threads, whole_device, strict=True)
    ]
    wide = np.concatenate([np.empty(0, np.bool_), *every])
    last = _last_by_stream(activities, began, ended, clock_error_ps)
    if not last.size:
        nothing = np.empty(0, np.int64)
        return DeviceWaits(Waits(thread, began, began.copy(), ended), nothing, nothing)
    done = np.where(last >= 0, activities.end_ps[np.maximum(last, 0)], _NEVER)
    stream = np.argmax(done, axis=0)
    binding = done[stream, np.arange(len(began))]
    resumed = np.clip(binding, began, ended)
    edge = (last >= 0) & wide
    edge[stream, np.arange(len(began))] = last[stream, np.arange(len(began))] >= 0
    of_stream, wait = np.nonzero(edge)
    return DeviceWaits(
        Waits(thread, began, resumed, ended),
        wait.astype(np.int64),
        last[of_stream, wait].astype(np.int64),
    )


def _last_by_stream(
    activities: Activities,
    began: NDArray[np.int64],
    ended: NDArray[np.int64],
    clock_error_ps: int,
) -> NDArray[np.int64]:
    """Return by (stream, wait) the last activity that was launched and is done."""
    edges = np.flatnonzero(np.diff(activities.track)) + 1
    found = np.full((len(edges) + 1, len(began)), _NONE, np.int64)
    for number, part in enumerate(np.split(np.arange(len(activities.row)), edges)):
        # Of one stream each activity ends after those before it.
        ends = np.maximum.accumulate(activities.end_ps[part])
        place = np.searchsorted(ends, ended + clock_error_ps, side="right") - 1
        some = place >= 0
        some[some] = activities.called_ps[part[place[some]]] < ended[some]
        found[number, some] = part[place[some]]
    return found
