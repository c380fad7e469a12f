"""Explain a time range: what its time is attributed to, and what ran in parallel.

Definition: docs/explain.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from stepscope.analysis.gaps.result import (
    GapExplanation,
    Interval,
    NamedPart,
    OwnedTime,
)
from stepscope.analysis.gaps.time_range import (
    gap_neighbours,
    on_host,
    owned_time,
    range_around_instant,
    range_between_times,
    shown_events,
)
from stepscope.analysis.results.fitting_remedies import with_fitting_remedies
from stepscope.analysis.steps.rows import step_number_at
from stepscope.derive.account.naming import UNNAMED, naming
from stepscope.derive.account.parts import interval_parts, largest_times, owner_events
from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.device.precision import precision
from stepscope.derive.step_time.device_sets import owner_indices
from stepscope.derive.step_time.owners import BUSY_OWNERS
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.analysis.gaps.time_range import EventTracks, TimeRange
    from stepscope.derive.account.naming import Name, Naming
    from stepscope.derive.account.parts import LargestEvents
    from stepscope.derive.intervals.spans import Spans
    from stepscope.derive.profile_data import ProfileData

#: What to explain, in ps: an instant, or start and end of a time range.
RequestedTime: TypeAlias = "int | tuple[int, int]"

#: Maximum number of intervals listed per cause (owner) of time.
_MAX_INTERVALS: Final = 100
#: Causes (owners) that leave time unexplained; and the cause whose time is explained
#: only where an event or function was recorded.
_UNEXPLAINED_OWNERS: Final = ("queued", "unexplained")
_EXPLAINED_IF_NAMED: Final = "between"
#: Thresholds of the range's unexplained percentage: above the first the confidence is
#: not high, above the second it is low, from the third on a remedy is given.
_MAX_UNEXPLAINED_HIGH: Final = 20.0
_MAX_UNEXPLAINED_MEDIUM: Final = 40.0
_MIN_PERCENT_FOR_REMEDY: Final = 5.0
#: Minimum share of idle time with a known launching thread for high confidence.
_MIN_KNOWN_LAUNCH_PART: Final = 0.5


def explain_gap(
    run: ProfileData, host: str, requested: RequestedTime, *, device: int | None = None
) -> GapExplanation | Unavailable:
    """Explain a time range of a device, or of a deviceless host's step threads.

    Args:
        requested: Instant or (start, end) of a range, in ps since the profile's start.
        device: Ordinal of the device; None chooses the device with the longest gap at
            the instant, or the busiest device for a range.

    Raises:
        BadUsage: The host, the device or the time is not in the recording.
    """
    devices = owned_time(run, host, device)
    if isinstance(devices, Unavailable):
        return devices
    time_range = (
        range_around_instant(devices, requested)
        if isinstance(requested, int)
        else range_between_times(devices, *requested)
    )
    named = run.derived(host, naming)
    names = None if isinstance(named, Unavailable) else named
    where = shown_events(run, host)
    account_range = time_range.owned.account_range
    begin, end = (
        max(time_range.begin_ps, account_range[0]),
        min(time_range.end_ps, account_range[1]),
    )
    owners = tuple(
        _owned_time(run, time_range, (owner, spans), names=names, where=where)
        for owner, owner_spans in time_range.owned.spans_by_owner().items()
        if len(spans := owner_spans.clip(begin, end))
    )
    dur = time_range.end_ps - time_range.begin_ps
    outside = dur - sum(owned.ps for owned in owners)
    nameless_ps = sum(
        part.ps
        for owned in owners
        if owned.owner == _EXPLAINED_IF_NAMED
        for part in owned.parts
        if part.name is None
    )
    dark_ps = (
        sum(owned.ps for owned in owners if owned.owner in _UNEXPLAINED_OWNERS)
        + nameless_ps
    )
    unexplained = 100 * (dark_ps + outside) / dur
    tracks = run.table(host, "tracks")
    before, after = gap_neighbours(run, time_range, where)
    # The remedy for unexplained time, which is then adapted to the recording.
    see_more = Unavailable(
        code="NOT_RECORDED", reason="", remedy=Remedy.RECORD_UNKNOWN_TIME
    )
    return GapExplanation(
        host=host,
        device=time_range.owned.device.device,
        kind=time_range.kind,
        begin_ps=time_range.begin_ps,
        end_ps=time_range.end_ps,
        dur_ps=dur,
        step=step_number_at(run, host, time_range.begin_ps),
        owners=tuple(sorted(owners, key=lambda owned: -owned.ps)),
        outside_ps=outside,
        before=before,
        after=after,
        meanwhile=()
        if names is None or isinstance(tracks, Unavailable)
        else on_host(time_range, names, tracks, where),
        not_explained_percent=unexplained,
        confidence=_confidence_level(time_range, unexplained),
        remedy=with_fitting_remedies(run, see_more).remedy
        if unexplained >= _MIN_PERCENT_FOR_REMEDY > 100 * outside / dur
        else None,
    )


def _owned_time(
    profile: ProfileData,
    time_range: TimeRange,
    owner_spans: tuple[str, Spans],
    *,
    names: Naming | None,
    where: EventTracks,
) -> OwnedTime:
    owner, spans = owner_spans
    range_ps = time_range.end_ps - time_range.begin_ps
    if owner in BUSY_OWNERS:
        ran, parts = _device_activities(profile, time_range, owner, spans)
    elif names is None:
        ran = interval_parts(spans, most=_MAX_INTERVALS)
        parts = [(UNNAMED, spans.length_ps)]
    else:
        device = time_range.owned.device
        ran = owner_events(names, device, owner, spans, most=_MAX_INTERVALS)
        parts = names.named_parts(device, owner, spans)
    grouped: dict[Name, int] = {}
    for name, time in parts:
        grouped[name] = grouped.get(name, 0) + time
    return OwnedTime(
        owner=owner,
        ps=spans.length_ps,
        percent=100 * spans.length_ps / range_ps,
        parts=tuple(
            NamedPart(
                name=name.name,
                detail=name.detail,
                function=name.function,
                file=name.file,
                line=name.line,
                ps=time,
                percent=100 * time / range_ps,
            )
            for name, time in sorted(grouped.items(), key=lambda pair: -pair[1])
            if time
        ),
        intervals=tuple(
            Interval(
                begin_ps=max(interval.start_ps, time_range.begin_ps),
                end_ps=min(interval.end_ps, time_range.end_ps),
                track=where.track_of_event(interval.event),
                item=None if interval.event < 0 else interval.event,
                name=interval.name.name,
                ps=interval.time_ps,
                percent=100 * interval.time_ps / range_ps,
            )
            for interval in sorted(ran.ran)
        ),
        interval_count=ran.number,
    )


def _device_activities(
    profile: ProfileData, time_range: TimeRange, owner: str, spans: Spans
) -> tuple[LargestEvents, list[tuple[Name, int]]]:
    host = time_range.owned.host
    activity, types = (
        profile.table(host, name) for name in ("device_activity", "event_types")
    )
    kernel_precision = profile.derived(host, precision)
    if (
        isinstance(activity, Unavailable)
        or isinstance(types, Unavailable)
        or isinstance(kernel_precision, Unavailable)
    ):
        return interval_parts(spans, most=_MAX_INTERVALS), [(UNNAMED, spans.length_ps)]
    start = ints(activity, "start_ps")
    end = start + ints(activity, "dur_ps")
    in_range = handles(activity, "device") == time_range.owned.device.device
    in_range &= (start < time_range.end_ps) & (end > time_range.begin_ps)
    place = owner_indices(codes(activity, "kind"), kernel_precision)
    rows = np.flatnonzero(in_range & (place == BUSY_OWNERS.index(owner)))
    rows = rows[np.argsort(start[rows], kind="stable")]
    # An activity counts only for time that no earlier activity covers.
    fresh, ends = start[rows], end[rows]
    fresh[1:] = np.clip(np.maximum.accumulate(ends)[:-1], fresh[1:], ends[1:])
    time = spans.within(fresh, ends)
    events, kinds = handles(activity, "event")[rows], handles(activity, "type")[rows]

    def activity_of_row(index: int) -> tuple[int, int, int, Name]:
        row, name = rows[index], UNNAMED._replace(name=types["name"][int(kinds[index])])
        return int(start[row]), int(end[row]), int(events[index]), name

    used, type_index = np.unique(kinds, return_inverse=True)
    total = np.zeros(len(used), np.int64)
    np.add.at(total, type_index, time)
    parts = [
        (UNNAMED._replace(name=name), spent)
        for name, spent in zip(
            types["name"].gather(used).to_list(), total.tolist(), strict=True
        )
    ]
    return largest_times(time, activity_of_row, most=_MAX_INTERVALS), parts


def _confidence_level(
    time_range: TimeRange, unexplained: float
) -> Literal["high", "medium", "low"]:
    """Return how certain the attribution of the time is.

    A gap is attributed to what the thread did that launched the work after the gap. If
    the launching thread is unknown, all step threads are examined instead.
    """
    if unexplained > _MAX_UNEXPLAINED_MEDIUM:
        return "low"
    device = time_range.owned.device
    walked_ps = {
        track: (spans & time_range.spans).length_ps
        for track, spans in device.walked_by.items()
    }
    known = sum(walked_ps[track] for track in walked_ps if track >= 0)
    asked_all = known < _MIN_KNOWN_LAUNCH_PART * sum(walked_ps.values())
    return "medium" if unexplained > _MAX_UNEXPLAINED_HIGH or asked_all else "high"
