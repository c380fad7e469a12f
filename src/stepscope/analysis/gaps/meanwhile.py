"""What ran beside a stretch of time: on the host's threads, and just before and after.

An event is given by its row of `events` and the track that shows it, so that a page can
go there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepscope.analysis.gaps.result import HostWork, Neighbour
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.intervals.nesting import nest_subset
from stepscope.derive.timeline.drawn_rows import trace_timeline
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl
    from numpy.typing import NDArray

    from stepscope.analysis.gaps.stretch import Stretch
    from stepscope.derive.account.naming import Naming
    from stepscope.derive.profile_data import ProfileData

#: Names that are given of one thread, and of all.
_OF_A_THREAD: Final = 5
_MOST: Final = 20
#: Share of the stretch from which on a name is given.
_LEAST: Final = 0.005


class Shown(Frozen, frozen=True):
    """Where events are shown in the timeline.

    Attributes:
        track: Track of the timeline by row of tracks; -1 for none.
        of_event: Row of tracks by row of events.
    """

    track: NDArray[np.int64]
    of_event: NDArray[np.int32]

    def of(self, event: int) -> int | None:
        """Return the track of the timeline that shows an event; None for none."""
        if event < 0:
            return None
        found = int(self.track[self.of_event[event]])
        return found if found >= 0 else None


def shown(profile: ProfileData, host: str) -> Shown:
    """Return where the events of a host are shown; nowhere without a timeline."""
    events, tracks = profile.table(host, "events"), profile.table(host, "tracks")
    timeline = profile.derived(host, trace_timeline)
    if isinstance(events, Unavailable) or isinstance(tracks, Unavailable):
        return Shown(np.empty(0, np.int64), np.empty(0, np.int32))
    track = np.full(tracks.height, -1, np.int64)
    if not isinstance(timeline, Unavailable):
        source = handles(timeline.tracks, "source")
        track[source[source >= 0]] = np.flatnonzero(source >= 0)
    return Shown(track, handles(events, "track"))


def on_host(
    stretch: Stretch, naming: Naming, tracks: pl.DataFrame, where: Shown
) -> tuple[HostWork, ...]:
    """Return what the threads of the host did during a stretch, by name.

    Args:
        stretch: The stretch.
        naming: What gives time its names.
        tracks: The table.
        where: Where events are shown.
    """
    device = stretch.owned.device
    walked = {
        track
        for track, spans in device.walked_by.items()
        if track >= 0 and len(spans & stretch.spans)
    }
    found: list[HostWork] = []
    for track in naming.in_order(device):
        name = tracks["name"][track]
        works = _of_thread(stretch, naming, track, where)
        found += [
            HostWork(thread=name, launching=track in walked, **work) for work in works
        ]
    found.sort(key=lambda one: (not one.launching, -one.ps))
    return tuple(found[:_MOST])


def _of_thread(
    stretch: Stretch, naming: Naming, track: int, where: Shown
) -> Iterator[dict[str, Any]]:
    begin, end = stretch.begin_ps, stretch.end_ps
    table = naming.classes.rows
    rows = table.rows(track)
    start = table.start_ps[rows]
    last = int(np.searchsorted(start, end, side="left"))
    ends = start[:last] + table.dur_ps[rows][:last]
    met = np.flatnonzero(ends > begin)
    first, after = np.maximum(start[met], begin), np.minimum(ends[met], end)
    nested = nest_subset(first, after - first, track=np.zeros(len(met), np.int32))
    types = naming.types[rows][met]
    kinds, place = np.unique(types, return_inverse=True)
    total = np.zeros(len(kinds), np.int64)
    np.add.at(total, place, nested.self_ps)
    # Marks of steps say nothing of what is done.
    total[naming.marks[kinds]] = 0
    least = max(_LEAST * (end - begin), 1)
    for kind in np.argsort(-total, kind="stable")[:_OF_A_THREAD].tolist():
        if total[kind] < least:
            break
        mine = np.flatnonzero(place == kind)
        longest = int(mine[np.argmax(nested.self_ps[mine])])
        event = rows.start + int(met[longest])
        yield {
            "name": naming.names[int(kinds[kind])],
            "count": len(mine),
            "ps": int(total[kind]),
            "percent": 100 * int(total[kind]) / (end - begin),
            "begin_ps": int(first[longest]),
            "end_ps": int(after[longest]),
            "track": where.of(event),
            "item": event,
        }


def neighbours(
    profile: ProfileData, stretch: Stretch, where: Shown
) -> tuple[Neighbour | None, Neighbour | None]:
    """Return the activities that ended before a gap and that began after it."""
    activity = profile.table(stretch.owned.host, "device_activity")
    types = profile.table(stretch.owned.host, "event_types")
    if (
        stretch.kind != "gap"
        or isinstance(activity, Unavailable)
        or isinstance(types, Unavailable)
    ):
        return None, None
    mine = np.flatnonzero(handles(activity, "device") == stretch.owned.device.device)
    start = ints(activity, "start_ps")[mine]
    end = start + ints(activity, "dur_ps")[mine]
    over, later = end <= stretch.begin_ps, start >= stretch.end_ps
    before = after = None
    if over.any():
        before = mine[int(np.argmax(np.where(over, end, -1)))]
    if later.any():
        after = mine[int(np.argmin(np.where(later, start, np.iinfo(np.int64).max)))]
    found = [
        None if row is None else _neighbour(activity, types, int(row), where)
        for row in (before, after)
    ]
    return found[0], found[1]


def _neighbour(
    activity: pl.DataFrame, types: pl.DataFrame, row: int, where: Shown
) -> Neighbour:
    event, kind, start, dur = activity.select(
        "event", "type", "start_ps", "dur_ps"
    ).row(row)
    return Neighbour(
        name=types["name"][kind] or "",
        track=None if event is None else where.of(event),
        item=event,
        start_ps=start,
        dur_ps=dur,
    )
