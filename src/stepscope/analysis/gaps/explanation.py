"""Explain a time range: its owners by the account, and what ran at the same time.

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
from stepscope.analysis.gaps.stretch import (
    gap_neighbours,
    on_host,
    owned_time,
    shown_events,
    stretch_around_instant,
    stretch_between,
)
from stepscope.analysis.results.remedied import with_fitting_remedies
from stepscope.analysis.steps.rows import step_number_at
from stepscope.derive.account.naming import UNNAMED, naming
from stepscope.derive.account.parts import interval_parts, largest_times, what_ran
from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.device.precision import precision
from stepscope.derive.step_time.device_sets import owner_places
from stepscope.derive.step_time.host_time import BUSY_OWNERS
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.analysis.gaps.stretch import Shown, Stretch
    from stepscope.derive.account.naming import Name, Naming
    from stepscope.derive.account.parts import RanMost
    from stepscope.derive.intervals.spans import Spans
    from stepscope.derive.profile_data import ProfileData

#: What to explain, in ps: an instant, or start and end of a time range.
Asked: TypeAlias = "int | tuple[int, int]"

#: Maximum number of intervals listed per owner.
_MOST_INTERVALS: Final = 100
#: Owners of time that nothing in the recording explains, and the owner whose time is
#: explained only if an event or function names it.
_DARK: Final = ("queued", "unexplained")
_IF_NAMED: Final = "between"
#: Unexplained shares of the range, in percent: above `_SURE` the confidence is not
#: high, above `_UNSURE` it is low. From `_WORTH_SAYING` on a remedy is given.
_SURE: Final = 20.0
_UNSURE: Final = 40.0
_WORTH_SAYING: Final = 5.0
#: Share of the idle time whose launching thread must be known for high confidence.
_LAUNCH_KNOWN: Final = 0.5


def explain_gap(
    profile: ProfileData, host: str, asked: Asked, *, device: int | None = None
) -> GapExplanation | Unavailable:
    """Explain a time range of a device, or of the step threads without a device.

    Args:
        asked: Instant or (start, end) of a range, in ps since the profile's start.
        device: Ordinal of the device; None chooses the device with the longest gap at
            the instant, or the busiest device for a range.

    Raises:
        BadUsage: The host, the device or the time is not in the recording.
    """
    found = owned_time(profile, host, device)
    if isinstance(found, Unavailable):
        return found
    stretch = (
        stretch_around_instant(found, asked)
        if isinstance(asked, int)
        else stretch_between(found, *asked)
    )
    named = profile.derived(host, naming)
    names = None if isinstance(named, Unavailable) else named
    where = shown_events(profile, host)
    hull = stretch.owned.hull
    begin, end = max(stretch.begin_ps, hull[0]), min(stretch.end_ps, hull[1])
    owners = tuple(
        _owned_time(profile, stretch, (owner, spans), names=names, where=where)
        for owner, whole in stretch.owned.spans_by_owner().items()
        if len(spans := whole.clip(begin, end))
    )
    dur = stretch.end_ps - stretch.begin_ps
    outside = dur - sum(one.ps for one in owners)
    nameless_ps = sum(
        part.ps
        for one in owners
        if one.owner == _IF_NAMED
        for part in one.parts
        if part.name is None
    )
    dark_ps = sum(one.ps for one in owners if one.owner in _DARK) + nameless_ps
    dark = 100 * (dark_ps + outside) / dur
    tracks = profile.table(host, "tracks")
    before, after = gap_neighbours(profile, stretch, where)
    # Carrier of the remedy for unexplained time, which is adapted to the recording.
    see_more = Unavailable(
        code="NOT_RECORDED", reason="", remedy=Remedy.RECORD_UNKNOWN_TIME
    )
    return GapExplanation(
        host=host,
        device=stretch.owned.device.device,
        kind=stretch.kind,
        begin_ps=stretch.begin_ps,
        end_ps=stretch.end_ps,
        dur_ps=dur,
        step=step_number_at(profile, host, stretch.begin_ps),
        owners=tuple(sorted(owners, key=lambda one: -one.ps)),
        outside_ps=outside,
        before=before,
        after=after,
        meanwhile=()
        if names is None or isinstance(tracks, Unavailable)
        else on_host(stretch, names, tracks, where),
        not_explained_percent=dark,
        confidence=_confidence_level(stretch, dark),
        remedy=with_fitting_remedies(profile, see_more).remedy
        if dark >= _WORTH_SAYING > 100 * outside / dur
        else None,
    )


def _owned_time(
    profile: ProfileData,
    stretch: Stretch,
    mine: tuple[str, Spans],
    *,
    names: Naming | None,
    where: Shown,
) -> OwnedTime:
    owner, spans = mine
    whole = stretch.end_ps - stretch.begin_ps
    if owner in BUSY_OWNERS:
        ran, parts = _device_activities(profile, stretch, owner, spans)
    elif names is None:
        ran = interval_parts(spans, most=_MOST_INTERVALS)
        parts = [(UNNAMED, spans.length_ps)]
    else:
        device = stretch.owned.device
        ran = what_ran(names, device, owner, spans, most=_MOST_INTERVALS)
        parts = names.named_parts(device, owner, spans)
    grouped: dict[Name, int] = {}
    for name, time in parts:
        grouped[name] = grouped.get(name, 0) + time
    return OwnedTime(
        owner=owner,
        ps=spans.length_ps,
        percent=100 * spans.length_ps / whole,
        parts=tuple(
            NamedPart(
                name=name.name,
                detail=name.detail,
                function=name.function,
                file=name.file,
                line=name.line,
                ps=time,
                percent=100 * time / whole,
            )
            for name, time in sorted(grouped.items(), key=lambda one: -one[1])
            if time
        ),
        intervals=tuple(
            Interval(
                begin_ps=max(one.start_ps, stretch.begin_ps),
                end_ps=min(one.end_ps, stretch.end_ps),
                track=where.track_of_event(one.event),
                item=None if one.event < 0 else one.event,
                name=one.name.name,
                ps=one.time_ps,
                percent=100 * one.time_ps / whole,
            )
            for one in sorted(ran.ran)
        ),
        interval_count=ran.number,
    )


def _device_activities(
    profile: ProfileData, stretch: Stretch, owner: str, spans: Spans
) -> tuple[RanMost, list[tuple[Name, int]]]:
    """Return the device's activities of an owner, and their time by name."""
    host = stretch.owned.host
    activity, types = (
        profile.table(host, name) for name in ("device_activity", "event_types")
    )
    widths = profile.derived(host, precision)
    if (
        isinstance(activity, Unavailable)
        or isinstance(types, Unavailable)
        or isinstance(widths, Unavailable)
    ):
        whole = [(UNNAMED, spans.length_ps)]
        return interval_parts(spans, most=_MOST_INTERVALS), whole
    start = ints(activity, "start_ps")
    end = start + ints(activity, "dur_ps")
    mine = handles(activity, "device") == stretch.owned.device.device
    mine &= (start < stretch.end_ps) & (end > stretch.begin_ps)
    place = owner_places(codes(activity, "kind"), widths)
    rows = np.flatnonzero(mine & (place == BUSY_OWNERS.index(owner)))
    rows = rows[np.argsort(start[rows], kind="stable")]
    # An activity is charged only for time that no earlier activity covers.
    fresh, ends = start[rows], end[rows]
    fresh[1:] = np.clip(np.maximum.accumulate(ends)[:-1], fresh[1:], ends[1:])
    time = spans.within(fresh, ends)
    events, kinds = handles(activity, "event")[rows], handles(activity, "type")[rows]

    def made(at: int) -> tuple[int, int, int, Name]:
        row, name = rows[at], UNNAMED._replace(name=types["name"][int(kinds[at])])
        return int(start[row]), int(end[row]), int(events[at]), name

    used, at = np.unique(kinds, return_inverse=True)
    total = np.zeros(len(used), np.int64)
    np.add.at(total, at, time)
    parts = [
        (UNNAMED._replace(name=name), spent)
        for name, spent in zip(
            types["name"].gather(used).to_list(), total.tolist(), strict=True
        )
    ]
    return largest_times(time, made, most=_MOST_INTERVALS), parts


def _confidence_level(
    stretch: Stretch, dark: float
) -> Literal["high", "medium", "low"]:
    """Return how certain the owners are.

    The owner of a gap follows from the thread that launched the work after the gap. If
    that thread is unknown, all threads that drive the step were examined together.
    """
    if dark > _UNSURE:
        return "low"
    device = stretch.owned.device
    walked = stretch.spans
    known = sum(
        (spans & walked).length_ps
        for track, spans in device.walked_by.items()
        if track >= 0
    )
    unknown = sum(
        (spans & walked).length_ps
        for track, spans in device.walked_by.items()
        if track < 0
    )
    asked_all = unknown > 0 and known < _LAUNCH_KNOWN * (known + unknown)
    return "medium" if dark > _SURE or asked_all else "high"
