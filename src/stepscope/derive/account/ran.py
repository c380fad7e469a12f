"""What ran during a stretch of an owner's time, event by event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.derive.account.naming import (
    LAUNCH_LATENCY,
    NAMED_OWNERS,
    OF_FUNCTIONS,
    UNNAMED,
    Name,
)
from stepscope.derive.intervals.spans import Spans

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.account.naming import Naming
    from stepscope.derive.account.owned_time import DeviceAccount

__all__ = ["Ran", "pieces", "what_ran"]

#: Event row of time that no event is.
_NO_EVENT: Final = -1


class Ran(NamedTuple):
    """What ran during some time of an owner.

    Attributes:
        start_ps: Begin of what ran, or of the stretch that has no event.
        end_ps: Its end.
        event: Row of events; -1 where no event is it.
        name: What it is called, as in `AccountParts`.
        time_ps: The time of the owner that it names.
    """

    start_ps: int
    end_ps: int
    event: int
    name: Name
    time_ps: int


def what_ran(
    naming: Naming, device: DeviceAccount, owner: str, spans: Spans
) -> list[Ran]:
    """Return what ran during the time of one owner, by the rules of `Naming.parts`.

    The times of what ran add up to `spans`. Stretches without an event are given one by
    one, so that this is for a gap, not for a recording.

    Args:
        naming: What gives time its names.
        device: The device whose time it is.
        owner: One of the owners of idle time.
        spans: Its time, or a part of it.
    """
    if owner not in NAMED_OWNERS:
        return pieces(spans)
    found: list[Ran] = []
    left = spans
    if owner == "launch":
        way = left & device.latency
        found += pieces(way, LAUNCH_LATENCY)
        left = left - way
    for track in naming.in_order(device):
        if not len(left):
            break
        covered, at, time = naming.rows_of(track, owner, left)
        found += _events(naming, at, time)
        rest = covered.length_ps - int(time.sum())
        if rest > 0:
            found.append(Ran(*(covered.hull or (0, 0)), _NO_EVENT, UNNAMED, rest))
        left = left - covered
    for track in naming.function_tracks if owner in OF_FUNCTIONS else ():
        if not len(left):
            break
        functions = _functions(naming, track, left)
        found += functions
        left = left - Spans.of((one.start_ps, one.end_ps) for one in functions)
    for start, end in _pairs(left):
        named = naming.rest(
            owner, Spans.of([(start, end)]), on_device=device.device is not None
        )
        found += [Ran(start, end, _NO_EVENT, *one) for one in named]
    return found


def pieces(spans: Spans, name: Name = UNNAMED) -> list[Ran]:
    """Return the intervals of a set by themselves, as what no event is."""
    return [
        Ran(start, end, _NO_EVENT, name, end - start) for start, end in _pairs(spans)
    ]


def _events(
    naming: Naming, at: NDArray[np.int64], time: NDArray[np.int64]
) -> list[Ran]:
    """Return the rows of events that name some time, whole."""
    rows, spent = at[time > 0], time[time > 0]
    start = naming.classes.rows.start_ps[rows]
    end = start + naming.classes.rows.dur_ps[rows]
    names = naming.names.gather(naming.types[rows]).to_list()
    return [
        Ran(begin, finish, row, Name(name), own)
        for begin, finish, row, name, own in zip(
            start.tolist(),
            end.tolist(),
            rows.tolist(),
            names,
            spent.tolist(),
            strict=True,
        )
    ]


def _functions(naming: Naming, track: int, spans: Spans) -> list[Ran]:
    """Return the innermost functions that ran on a thread during a set."""
    frames = naming.frames
    if frames is None:
        return []
    mine = frames.track == track
    near = np.flatnonzero(mine & (spans.within(frames.start_ps, frames.end_ps) > 0))
    found = []
    left = spans
    # What is called comes after its caller, which keeps what is left.
    for row in near[::-1].tolist():
        start, end = int(frames.start_ps[row]), int(frames.end_ps[row])
        name = naming.function(frames, int(frames.type[row]))
        event = int(frames.event[row])
        found += [
            Ran(first, last, event, name, last - first)
            for first, last in _pairs(left.clip(start, end))
        ]
        left = left - Spans.of([(start, end)])
    return found


def _pairs(spans: Spans) -> list[tuple[int, int]]:
    """Return the intervals of a short set."""
    return list(zip(spans.start_ps.tolist(), spans.end_ps.tolist(), strict=True))
