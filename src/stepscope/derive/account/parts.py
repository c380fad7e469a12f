"""`account_parts`: time of each owner (cause) by name, and an owner's longest events.

Definition: docs/where-a-steps-time-goes.md#names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl

from stepscope.derive.account.naming import (
    LAUNCH_LATENCY,
    NAMED_OWNERS,
    OF_FUNCTIONS,
    UNNAMED,
    Name,
)
from stepscope.derive.account.topics import TOPICS
from stepscope.derive.intervals.nesting import self_times
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.owners import IDLE_OWNERS, PLACES
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepscope.array_types import Int64s
    from stepscope.derive.account.naming import Naming
    from stepscope.derive.account.time_by_cause import Account, DeviceAccount
    from stepscope.derive.account.topics import IdleTopics
    from stepscope.derive.step_windows.windows import Windows

#: Columns of `AccountParts.rows`.
PART_ROWS: Final[dict[str, pl.DataType]] = {
    "device": pl.Int32(),  # null without a recorded device
    "owner": pl.String(),
    "place": pl.String(),  # one of `PLACES`
    "name": pl.String(),  # null for time without a name
    "detail": pl.String(),  # what takes most of the time; null for nothing
    "function": pl.String(),  # null if no function gives the name
    "file": pl.String(),
    "line": pl.Int64(),
    "loop": pl.Boolean(),  # whether the function is the loop around steps
    "time_ps": pl.Int64(),
}
#: Columns of `AccountParts.callers`.
CALLER_ROWS: Final[dict[str, pl.DataType]] = {
    name: kind
    for name, kind in PART_ROWS.items()
    if name not in ("name", "detail", "loop")
}
#: Minimum share of the windows' time for which the calling function is searched.
_MIN_CALLED_SHARE: Final = 0.02


class AccountParts(Frozen, frozen=True):
    """The idle time of the measured windows by owner (cause), place in step, and name.

    Attributes:
        rows: Columns `PART_ROWS`, most time first. The parts of one (device, owner,
            place) add up to the owner's time there.
        topics: Columns `PART_ROWS` by kind of host work (topic), in column `owner`.
        callers: Columns `CALLER_ROWS`: per (device, owner, place) the program's deepest
            function from which most of this time is called, with the time inside it.
            Times below 2 % of the windows have no row.
    """

    rows: pl.DataFrame
    topics: pl.DataFrame
    callers: pl.DataFrame
    window_ps: int
    windows: int


def account_parts(
    *,
    account: Account,
    idle_topics: IdleTopics,
    windows: Windows,
    naming: Naming | Unavailable,
) -> AccountParts:
    """Name the time of each cause as precisely as the recording allows."""
    measured, judged = windows.measured, windows.judged
    namer = None if isinstance(naming, Unavailable) else naming
    owner_rows, callers = [], []
    for device in account.devices:
        for owner in IDLE_OWNERS:
            if owner in account.missing:
                continue
            for place, spans in _split_by_place(device, device.idle[owner] & judged):
                key = (device.device, owner, place)
                owner_rows += [
                    (*key, *name, time)
                    for name, time in _named_parts(namer, device, owner, spans)
                ]
                if (
                    namer is not None
                    and spans.length_ps >= _MIN_CALLED_SHARE * judged.length_ps
                ):
                    callers += [
                        (*key, name.function, name.file, name.line, time)
                        for name, time in namer.calling_functions(owner, spans)
                    ]
    topic_rows = [
        (topics.device, topic, place, *name, time)
        for device, topics in zip(account.devices, idle_topics.devices, strict=False)
        for topic in TOPICS
        for place, spans in _split_by_place(device, topics.spans[topic] & judged)
        for name, time in _named_parts(namer, device, topic, spans)
    ]
    return AccountParts(
        _sum_parts(owner_rows),
        _sum_parts(topic_rows),
        pl.DataFrame(callers, schema=CALLER_ROWS, orient="row"),
        int((measured["end_ps"] - measured["start_ps"]).sum()),
        len(measured),
    )


def _sum_parts(parts: list[tuple[Any, ...]]) -> pl.DataFrame:
    rows = pl.DataFrame(parts, schema=PART_ROWS, orient="row")
    grouped = rows.group_by(list(PART_ROWS)[:-1], maintain_order=True).agg(
        pl.col("time_ps").sum()
    )
    return grouped.sort("time_ps", descending=True, maintain_order=True)


def _split_by_place(device: DeviceAccount, spans: Spans) -> Iterator[tuple[str, Spans]]:
    for place, part in zip(
        PLACES, (spans - device.between, spans & device.between), strict=True
    ):
        if len(part):
            yield place, part


def _named_parts(
    named: Naming | None, device: DeviceAccount, owner: str, spans: Spans
) -> list[tuple[Name, int]]:
    if named is None:
        return [(UNNAMED, spans.length_ps)]
    return named.named_parts(device, owner, spans)


#: Event row for time without an event.
_NONE: Final = -1


class NamedEvent(NamedTuple):
    """An event that ran, or an interval without an event, in the time of one cause.

    Attributes:
        start_ps: Start of the event, or of the interval without an event.
        event: Row of events; -1 without an event.
    """

    start_ps: int
    end_ps: int
    event: int
    name: Name
    time_ps: int


class LargestEvents(NamedTuple):
    """The events that name most of a cause's time, and the number of all such events.

    Attributes:
        ran: At most the requested number; all events' times add up to the cause's time.
    """

    ran: list[NamedEvent]
    number: int


def owner_events(
    naming: Naming, device: DeviceAccount, owner: str, spans: Spans, *, most: int
) -> LargestEvents:
    """Return the events that name a cause's time, as `Naming.named_parts` does."""
    if owner not in NAMED_OWNERS:
        return interval_parts(spans, most=most)
    parts: list[LargestEvents] = []
    left = spans
    if owner == "launch":
        in_transit = left & device.latency
        parts.append(interval_parts(in_transit, LAUNCH_LATENCY, most=most))
        left = left - in_transit
    for track in naming.naming_threads(device):
        if not len(left):
            break
        covered, rows, time = naming.covering_rows(track, owner, left)
        parts.append(_top_events(naming, rows, time, limit=most))
        unnamed_ps = covered.length_ps - int(time.sum())
        if unnamed_ps > 0:
            unnamed = NamedEvent(
                *(covered.time_range or (0, 0)), _NONE, UNNAMED, unnamed_ps
            )
            parts.append(LargestEvents([unnamed], 1))
        left = left - covered
    tasks = naming.tasks_of_ops(device, owner, left)
    left = left - tasks
    for track in naming.function_tracks if owner in OF_FUNCTIONS else ():
        if not len(left):
            break
        functions, covered = _largest_functions(naming, track, left, limit=most)
        parts.append(functions)
        left = left - covered
    rest = interval_parts(left | tasks, most=most)
    named = [
        NamedEvent(event.start_ps, event.end_ps, _NONE, *name)
        for event in rest.ran
        for name in naming.remaining_parts(
            owner,
            Spans.of([(event.start_ps, event.end_ps)]),
            on_device=device.device is not None,
        )
    ]
    parts.append(LargestEvents(named, rest.number + len(named) - len(rest.ran)))
    ranked = sorted(
        (event for part in parts for event in part.ran), key=lambda ran: -ran.time_ps
    )
    return LargestEvents(ranked[:most], sum(part.number for part in parts))


def interval_parts(spans: Spans, name: Name = UNNAMED, *, most: int) -> LargestEvents:
    """Return the longest intervals of some spans as parts without an event."""
    length = spans.end_ps - spans.start_ps

    def described_part(index: int) -> tuple[int, int, int, Name]:
        return int(spans.start_ps[index]), int(spans.end_ps[index]), _NONE, name

    return largest_times(length, described_part, most=most)


def largest_times(
    time_ps: Int64s,
    described_part: Callable[[int], tuple[int, int, int, Name]],
    *,
    most: int,
) -> LargestEvents:
    """Return the largest times; `described_part` describes the event of each index."""
    nonzero = np.flatnonzero(time_ps > 0)
    order = nonzero[np.argsort(-time_ps[nonzero], kind="stable")[:most]]
    ran = [
        NamedEvent(*described_part(index), int(time_ps[index]))
        for index in order.tolist()
    ]
    return LargestEvents(ran, len(nonzero))


def _top_events(
    naming: Naming, rows: Int64s, time: Int64s, *, limit: int
) -> LargestEvents:
    table = naming.classes.rows

    def described_part(index: int) -> tuple[int, int, int, Name]:
        row = int(rows[index])
        start = int(table.start_ps[row])
        name = naming.type_name(int(naming.types[row]))
        return start, start + int(table.dur_ps[row]), row, name

    return largest_times(time, described_part, most=limit)


def _largest_functions(
    naming: Naming, track: int, spans: Spans, *, limit: int
) -> tuple[LargestEvents, Spans]:
    frames = naming.frames
    if frames is None:
        return LargestEvents([], 0), Spans.empty()
    on_track = frames.track == track
    time = np.where(on_track, spans.within(frames.start_ps, frames.end_ps), 0)

    def described_part(row: int) -> tuple[int, int, int, Name]:
        name = naming.function_name(frames, int(frames.type[row]))
        first, last = int(frames.start_ps[row]), int(frames.end_ps[row])
        return first, last, int(frames.event[row]), name

    largest = largest_times(self_times(time, frames.parent), described_part, most=limit)
    return largest, spans & frames.spans(on_track)
