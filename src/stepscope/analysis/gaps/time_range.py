"""Find the time range to explain, and what ran at the same time.

An event is reported as its row of `events` and the timeline track that shows it, so
that a page can link to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from stepscope.analysis.gaps.result import HostWork, Neighbour
from stepscope.derive.account.time_by_cause import account
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.intervals.nesting import nest_subset
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.device_sets import device_sets
from stepscope.derive.step_time.owners import IDLE_OWNERS
from stepscope.derive.step_windows.windows import windows
from stepscope.derive.trace_rows.drawn_rows import trace_timeline
from stepscope.errors import BadUsage
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.units import duration_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from stepscope.array_types import Int32s, Int64s
    from stepscope.derive.account.naming import Naming
    from stepscope.derive.account.time_by_cause import DeviceAccount
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.step_time.device_sets import DeviceTimes

_UNEXPLAINED_OWNER: Final = IDLE_OWNERS[-1]

#: Maximum number of event names listed for one thread, and for all threads.
_MAX_NAMES_PER_THREAD: Final = 5
_MAX_NAMES: Final = 20
#: Minimum share of the range's length for an event name to be listed.
_MIN_SHARE: Final = 0.005


class EventTracks(Frozen, frozen=True):
    """Timeline tracks that show the events of a host.

    Attributes:
        track: Track of the timeline, by row of tracks; -1 for none.
        of_event: Row of tracks, by row of events.
    """

    track: Int64s
    of_event: Int32s

    def track_of_event(self, event: int) -> int | None:
        """Return the timeline track that shows an event; None if no track does."""
        if event < 0:
            return None
        track = int(self.track[self.of_event[event]])
        return track if track >= 0 else None


def shown_events(profile: ProfileData, host: str) -> EventTracks:
    """Return which timeline tracks show the events of a host; empty without tables."""
    events, tracks = profile.table(host, "events"), profile.table(host, "tracks")
    timeline = profile.derived(host, trace_timeline)
    if isinstance(events, Unavailable) or isinstance(tracks, Unavailable):
        return EventTracks(np.empty(0, np.int64), np.empty(0, np.int32))
    track = np.full(tracks.height, -1, np.int64)
    if not isinstance(timeline, Unavailable):
        source = handles(timeline.tracks, "source")
        track[source[source >= 0]] = np.flatnonzero(source >= 0)
    return EventTracks(track, handles(events, "track"))


def on_host(
    time_range: TimeRange, naming: Naming, tracks: pl.DataFrame, where: EventTracks
) -> tuple[HostWork, ...]:
    """Return the events that ran on a host's threads during a time range, by name."""
    device = time_range.owned.device
    launching = {
        track
        for track, spans in device.walked_by.items()
        if len(spans & time_range.spans)
    }
    works_of_host: list[HostWork] = []
    for track in naming.naming_threads(device):
        name = tracks["name"][track]
        works_of_host += [
            HostWork(thread=name, launching=track in launching, **work)
            for work in _thread_work(time_range, naming, track, where)
        ]
    works_of_host.sort(key=lambda host_work: (not host_work.launching, -host_work.ps))
    return tuple(works_of_host[:_MAX_NAMES])


def _thread_work(
    time_range: TimeRange, naming: Naming, track: int, where: EventTracks
) -> Iterator[dict[str, Any]]:
    begin, end = time_range.begin_ps, time_range.end_ps
    table = naming.classes.rows
    rows = table.track_rows(track)
    start = table.start_ps[rows]
    last = int(np.searchsorted(start, end, side="left"))
    ends = start[:last] + table.dur_ps[rows][:last]
    overlapping = np.flatnonzero(ends > begin)
    first, after = (
        np.maximum(start[overlapping], begin),
        np.minimum(ends[overlapping], end),
    )
    nested = nest_subset(first, after - first, track=np.zeros(len(first), np.int32))
    kinds, place = np.unique(naming.types[rows][overlapping], return_inverse=True)
    total = np.zeros(len(kinds), np.int64)
    np.add.at(total, place, nested.self_ps)
    # Step markers are not work, so they are not listed.
    total[naming.marks[kinds]] = 0
    min_ps = max(_MIN_SHARE * (end - begin), 1)
    for kind in np.argsort(-total, kind="stable")[:_MAX_NAMES_PER_THREAD].tolist():
        if total[kind] < min_ps:
            break
        of_kind = np.flatnonzero(place == kind)
        longest = int(of_kind[np.argmax(nested.self_ps[of_kind])])
        event = rows.start + int(overlapping[longest])
        yield {
            "name": naming.names[int(kinds[kind])],
            "count": len(of_kind),
            "ps": int(total[kind]),
            "percent": 100 * int(total[kind]) / (end - begin),
            "begin_ps": int(first[longest]),
            "end_ps": int(after[longest]),
            "track": where.track_of_event(event),
            "item": event,
        }


def gap_neighbours(
    profile: ProfileData, time_range: TimeRange, where: EventTracks
) -> tuple[Neighbour | None, Neighbour | None]:
    """Return the last activity before a gap and the first activity after it."""
    activity = profile.table(time_range.owned.host, "device_activity")
    types = profile.table(time_range.owned.host, "event_types")
    if (
        time_range.kind != "gap"
        or isinstance(activity, Unavailable)
        or isinstance(types, Unavailable)
    ):
        return None, None
    rows = np.flatnonzero(handles(activity, "device") == time_range.owned.device.device)
    start = ints(activity, "start_ps")[rows]
    end = start + ints(activity, "dur_ps")[rows]
    earlier, later = end <= time_range.begin_ps, start >= time_range.end_ps
    before = after = None
    if earlier.any():
        before = rows[earlier][np.argmax(end[earlier])]
    if later.any():
        after = rows[later][np.argmin(start[later])]
    neighbours: list[Neighbour | None] = [None, None]
    columns = activity.select("event", "type", "start_ps", "dur_ps")
    for place, row in enumerate((before, after)):
        if row is None:
            continue
        event, kind, start_ps, dur_ps = columns.row(int(row))
        neighbours[place] = Neighbour(
            name=types["name"][kind] or "",
            track=None if event is None else where.track_of_event(event),
            item=event,
            start_ps=start_ps,
            dur_ps=dur_ps,
        )
    return neighbours[0], neighbours[1]


class AccountedDevice(Frozen, frozen=True):
    """The time of one device, or of a host without devices, by cause (owner).

    Attributes:
        device: Idle time by cause.
        busy: Busy time of the device; None without a device.
        unknown: Causes whose time was not measured; their time counts as unexplained.
        account_range: Start of the first window and end of the last one, in ps.
        end_ps: End of the recording.
    """

    host: str
    device: DeviceAccount
    busy: DeviceTimes | None
    unknown: frozenset[str]
    account_range: tuple[int, int]
    end_ps: int

    def spans_by_owner(self) -> dict[str, Spans]:
        """Return the spans of each cause of time, disjoint within `account_range`."""
        charged = {} if self.busy is None else self.busy.charged
        spans = {**charged, **self.device.idle}
        by_owner = {name: spans[name] for name in spans if name not in self.unknown}
        lost = (spans[name] for name in spans if name in self.unknown)
        by_owner[_UNEXPLAINED_OWNER] = Spans.union_of(
            (spans[_UNEXPLAINED_OWNER], *lost)
        )
        return by_owner


class TimeRange(Frozen, frozen=True):
    """A time range, and its kind.

    Attributes:
        kind: As in `GapExplanation`.
    """

    owned: AccountedDevice
    kind: Literal["gap", "busy", "host", "interval"]
    begin_ps: int
    end_ps: int

    @property
    def spans(self) -> Spans:
        """Return the range as a set of spans."""
        return Spans.of([(self.begin_ps, self.end_ps)])


def owned_time(
    profile: ProfileData, host: str, device: int | None
) -> tuple[AccountedDevice, ...] | Unavailable:
    """Return the time by cause of one device or, for None, of all a host's devices.

    Raises:
        BadUsage: The host or device does not exist.
    """
    accounted = profile.derived(host, account)
    step_windows = profile.derived(host, windows)
    if isinstance(accounted, Unavailable):
        return accounted
    if isinstance(step_windows, Unavailable):
        return step_windows
    account_range = (
        int(ints(step_windows.rows, "start_ps").min()),
        int(ints(step_windows.rows, "end_ps").max()),
    )
    end_ps, events = account_range[1], profile.table(host, "events")
    if not isinstance(events, Unavailable) and events.height:
        ends = ints(events, "start_ps") + ints(events, "dur_ps")
        end_ps = max(end_ps, int(ends.max()))
    sets = profile.derived(host, device_sets)
    busy = (
        {}
        if isinstance(sets, Unavailable)
        else {device_set.device: device_set for device_set in sets.devices}
    )
    devices = [
        AccountedDevice(
            host,
            device_account,
            None if device_account.device is None else busy[device_account.device],
            frozenset(accounted.missing),
            account_range,
            end_ps,
        )
        for device_account in accounted.devices
    ]
    chosen = tuple(owned for owned in devices if device in (None, owned.device.device))
    if not chosen:
        known = [
            str(owned.device.device) for owned in devices if owned.busy is not None
        ]
        if not known:
            raise BadUsage(f"device {device}: the recording of {host} has no device")
        raise BadUsage.unknown_name("device", str(device), known)
    return chosen


def range_around_instant(devices: tuple[AccountedDevice, ...], at_ps: int) -> TimeRange:
    """Return the time range around an instant.

    The range is the longest gap of any device at the instant. If all devices are busy,
    the range is the busy interval of the first device. Without devices, the range is
    the interval around the instant in which the step threads' time has one cause.

    Raises:
        BadUsage: The instant is outside the recording.
    """
    _check_times(devices[0], at_ps, at_ps + 1)
    ranges = [_range_in_device(owned, at_ps) for owned in devices]
    gaps = [time_range for time_range in ranges if time_range.kind == "gap"]
    return max(gaps or ranges[:1], key=lambda span: span.end_ps - span.begin_ps)


def range_between_times(
    devices: tuple[AccountedDevice, ...], from_ps: int, to_ps: int
) -> TimeRange:
    """Return the given time range, on the busiest device of the recording.

    Raises:
        BadUsage: The times are not in order, or are outside the recording.
    """
    if to_ps <= from_ps:
        raise BadUsage(
            f"the end, {duration_text(to_ps)}, is not after the start, "
            f"{duration_text(from_ps)}"
        )
    _check_times(devices[0], from_ps, to_ps)

    def work(owned: AccountedDevice) -> int:
        return 0 if owned.busy is None else owned.busy.busy.length_ps

    return TimeRange(max(devices, key=work), "interval", from_ps, to_ps)


def _check_times(owned: AccountedDevice, from_ps: int, to_ps: int) -> None:
    for time_ps, inside in (
        (from_ps, 0 <= from_ps < owned.end_ps),
        (to_ps, to_ps <= owned.end_ps),
    ):
        if not inside:
            raise BadUsage(
                f"{duration_text(time_ps)} is outside the recording of "
                f"{owned.host}, which lasts {duration_text(owned.end_ps)}"
            )


def _range_in_device(owned: AccountedDevice, at_ps: int) -> TimeRange:
    """Return the range around an instant, inside or outside of `account_range`."""
    edges = (0, *owned.account_range, owned.end_ps)
    place = int(np.searchsorted(edges[1:3], at_ps, side="right"))
    begin, end = edges[place], max(edges[place + 1], at_ps + 1)
    if owned.busy is None:
        if place != _INSIDE_WINDOWS:
            return TimeRange(owned, "host", begin, end)
        held = (_interval_around(spans, at_ps) for spans in owned.device.idle.values())
        return TimeRange(owned, "host", *next(filter(None, held), (begin, end)))
    gap = _interval_around(owned.busy.busy.gaps(begin, end), at_ps)
    if gap is not None:
        return TimeRange(owned, "gap", *gap)
    worked = (_interval_around(spans, at_ps) for spans in owned.busy.charged.values())
    return TimeRange(owned, "busy", *next(filter(None, worked), (begin, end)))


#: Index of the range inside `account_range`; 0 is the range before it, 2 the one after.
_INSIDE_WINDOWS: Final = 1


def _interval_around(spans: Spans, at_ps: int) -> tuple[int, int] | None:
    """Return the interval of the spans that contains an instant; None if none does."""
    index = int(np.searchsorted(spans.end_ps, at_ps, side="right"))
    if index == len(spans) or spans.start_ps[index] > at_ps:
        return None
    return int(spans.start_ps[index]), int(spans.end_ps[index])
