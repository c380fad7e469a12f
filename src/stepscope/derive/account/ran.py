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
    from collections.abc import Callable

    from numpy.typing import NDArray

    from stepscope.derive.account.naming import Naming
    from stepscope.derive.account.owned_time import DeviceAccount

#: Event row of time that no event is.
_NO_EVENT: Final = -1


class Ran(NamedTuple):
    """What ran during some time of an owner.

    Attributes:
        start_ps: Begin of what ran, or of the stretch that has no event.
        event: Row of events; -1 where no event is it.
        name: What it is called, as in `AccountParts`.
    """

    start_ps: int
    end_ps: int
    event: int
    name: Name
    time_ps: int


class RanMost(NamedTuple):
    """What ran: those that name most time, and how many there are.

    Attributes:
        ran: At most as many as were asked for; where there are no more, their times add
            up to the owner's.
    """

    ran: list[Ran]
    number: int


def what_ran(
    naming: Naming, device: DeviceAccount, owner: str, spans: Spans, *, most: int
) -> RanMost:
    """Return what ran during the time of one owner, by the rules of `Naming.parts`."""
    if owner not in NAMED_OWNERS:
        return pieces(spans, most=most)
    found: list[RanMost] = []
    left = spans
    if owner == "launch":
        way = left & device.latency
        found.append(pieces(way, LAUNCH_LATENCY, most=most))
        left = left - way
    for track in naming.in_order(device):
        if not len(left):
            break
        covered, at, time = naming.rows_of(track, owner, left)
        found.append(_events(naming, at, time, most=most))
        rest = covered.length_ps - int(time.sum())
        if rest > 0:
            whole = Ran(*(covered.hull or (0, 0)), _NO_EVENT, UNNAMED, rest)
            found.append(RanMost([whole], 1))
        left = left - covered
    tasks = naming.tasks_of_ops(device, owner, left)
    left = left - tasks
    for track in naming.function_tracks if owner in OF_FUNCTIONS else ():
        if not len(left):
            break
        functions, covered = _functions(naming, track, left, most=most)
        found.append(functions)
        left = left - covered
    rest_of = pieces(left | tasks, most=most)
    named = [
        Ran(one.start_ps, one.end_ps, _NO_EVENT, *name)
        for one in rest_of.ran
        for name in naming.rest(
            owner,
            Spans.of([(one.start_ps, one.end_ps)]),
            on_device=device.device is not None,
        )
    ]
    found.append(RanMost(named, rest_of.number + len(named) - len(rest_of.ran)))
    every = sorted(
        (one for each in found for one in each.ran), key=lambda ran: -ran.time_ps
    )
    return RanMost(every[:most], sum(each.number for each in found))


def pieces(spans: Spans, name: Name = UNNAMED, *, most: int) -> RanMost:
    """Return the intervals of a set by themselves, as what no event is."""
    length = spans.end_ps - spans.start_ps

    def made(at: int) -> tuple[int, int, int, Name]:
        return int(spans.start_ps[at]), int(spans.end_ps[at]), _NO_EVENT, name

    return largest(length, made, most=most)


def largest(
    time_ps: NDArray[np.int64],
    made: Callable[[int], tuple[int, int, int, Name]],
    *,
    most: int,
) -> RanMost:
    """Return the largest of some times, each with the rest of what ran by its place."""
    some = np.flatnonzero(time_ps > 0)
    order = some[np.argsort(-time_ps[some], kind="stable")[:most]]
    ran = [Ran(*made(at), int(time_ps[at])) for at in order.tolist()]
    return RanMost(ran, len(some))


def _events(
    naming: Naming, at: NDArray[np.int64], time: NDArray[np.int64], *, most: int
) -> RanMost:
    """Return rows of events that name some time, whole."""
    table = naming.classes.rows

    def made(place: int) -> tuple[int, int, int, Name]:
        row = int(at[place])
        start = int(table.start_ps[row])
        name = naming.of_type(int(naming.types[row]))
        return start, start + int(table.dur_ps[row]), row, name

    return largest(time, made, most=most)


def _functions(
    naming: Naming, track: int, spans: Spans, *, most: int
) -> tuple[RanMost, Spans]:
    frames = naming.frames
    if frames is None:
        return RanMost([], 0), Spans.empty()
    mine = np.flatnonzero(frames.track == track)
    start, end = frames.start_ps[mine], frames.end_ps[mine]
    time = spans.within(start, end)
    own = np.zeros(len(frames.track), np.int64)
    own[mine] = time
    parent = frames.parent[mine]
    np.subtract.at(own, parent[parent >= 0], time[parent >= 0])

    def made(row: int) -> tuple[int, int, int, Name]:
        name = naming.function(frames, int(frames.type[row]))
        first, last = int(frames.start_ps[row]), int(frames.end_ps[row])
        return first, last, int(frames.event[row]), name

    return largest(own, made, most=most), spans & Spans.from_events(start, end - start)
