"""Ranges of the timeline that show an effect, with the events to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.finding import Evidence
from stepscope.derive.columns.arrays import codes, handles, ints, picked
from stepscope.trace.device_activity import ACTIVITY_KINDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.intervals.spans import Spans
    from stepscope.derive.profile_data import ProfileData

#: Number of ranges shown per finding.
SHOWN: Final = 3


def longest(spans: Spans) -> list[tuple[int, int]]:
    """Return the longest intervals of a set, longest first."""
    order = largest(spans.end_ps - spans.start_ps)
    return [(int(spans.start_ps[at]), int(spans.end_ps[at])) for at in order]


def largest(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of the largest values, largest first, of equal ones the first.

    So many are returned as are shown.
    """
    some = np.arange(len(values))
    if len(values) > SHOWN:
        # Of many only those that may be shown are sorted; equal ones may be many.
        least = np.partition(values, -SHOWN)[-SHOWN]
        equal = np.flatnonzero(values == least)[:SHOWN]
        some = np.sort(np.append(equal, np.flatnonzero(values > least)))
    found: NDArray[np.int64] = some[np.argsort(-values[some], kind="stable")[:SHOWN]]
    return found


def host_ranges(
    profile: ProfileData,
    host: str,
    spans: Spans,
    *,
    device: int | None,
    wanted: NDArray[np.bool_],
    kinds: tuple[str, ...] = (),
) -> tuple[Evidence, ...]:
    """Return the longest intervals, each with the event that fills most of it.

    Args:
        profile: The profile.
        host: Host on whose timeline the intervals are.
        spans: Where the effect is.
        device: Ordinal of the device that waited meanwhile.
        wanted: Row of event_types → whether events of this type may explain a range.
        kinds: Kinds of work on that device that may also explain a range.
    """
    events = profile.table(host, "events")
    if isinstance(events, Unavailable) or not len(spans):
        return ()
    rows = np.concatenate(
        (
            _device_rows(profile, host, device=device, kinds=kinds),
            picked(handles(events, "type"), wanted),
        )
    )
    starts = ints(events, "start_ps")[rows]
    ends = starts + ints(events, "dur_ps")[rows]
    found = []
    for start, end in longest(spans):
        shared = np.minimum(ends, end) - np.maximum(starts, start)
        at = int(np.argmax(shared)) if len(shared) else -1
        around = at >= 0 and shared[at] > 0
        track, name = (
            event_label(profile, host, int(rows[at])) if around else (None, "")
        )
        found.append(
            Evidence(
                host=host,
                device=device,
                track=track,
                start_ps=start,
                end_ps=end,
                ops=(name,) if name else (),
            )
        )
    return tuple(found)


def _device_rows(
    profile: ProfileData, host: str, *, device: int | None, kinds: tuple[str, ...]
) -> NDArray[np.int64]:
    """Return the rows of events that are work of these kinds on the device."""
    activity = profile.table(host, "device_activity")
    if device is None or isinstance(activity, Unavailable):
        return np.empty(0, np.int64)
    wanted = [ACTIVITY_KINDS.categories.to_list().index(kind) for kind in kinds]
    event = handles(activity, "event")
    mine = np.isin(codes(activity, "kind"), wanted) & (event >= 0)
    mine &= handles(activity, "device") == device
    return event[mine].astype(np.int64)


def event_label(profile: ProfileData, host: str, row: int) -> tuple[str | None, str]:
    """Return the name of an event's track, and the event's own name."""
    return event_labels(profile, host, [row])[row]


def event_labels(
    profile: ProfileData, host: str, rows: list[int]
) -> dict[int, tuple[str | None, str]]:
    """Return the names of some events' tracks, and the events' own names, by row."""
    events = profile.table(host, "events")
    types = profile.table(host, "event_types")
    tracks = profile.table(host, "tracks")
    if (
        isinstance(events, Unavailable)
        or isinstance(types, Unavailable)
        or isinstance(tracks, Unavailable)
    ):
        return dict.fromkeys(rows, (None, ""))
    track = tracks["name"].gather(events["track"].gather(rows)).to_list()
    name = types["name"].gather(events["type"].gather(rows)).to_list()
    return dict(zip(rows, zip(track, name, strict=True), strict=True))
