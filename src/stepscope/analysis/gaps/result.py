"""`GapExplanation`: what the time of a range is attributed to, in numbers."""

from __future__ import annotations

from typing import Literal

import msgspec


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """An event that ran during time with one cause, or an interval without an event.

    Attributes:
        begin_ps: Start of the interval, clipped to the explained range.
        end_ps: End of the interval, clipped to the explained range.
        track: Row in the timeline's tracks; null without an event.
        item: Row of `events`; null without an event.
        name: Name of the event or function; null if unknown.
        ps: Time with this cause that the event covers and no nested event covers.
        percent: `ps` as a share of the explained range.
    """

    begin_ps: int
    end_ps: int
    track: int | None
    item: int | None
    name: str | None
    ps: int
    percent: float


class NamedPart(msgspec.Struct, frozen=True, kw_only=True):
    """The time that has one cause and one name.

    Attributes:
        name: Op, call or function that took the time; null for time without a name.
        detail: What took most of this time, shown next to `name`; null for none.
        function: Python function; null if `name` is not a function.
        file: File of the function; null if unknown.
        line: First line of the function; null if unknown.
        ps: Time with this cause and name.
        percent: `ps` as a share of the explained range.
    """

    name: str | None
    detail: str | None
    function: str | None
    file: str | None
    line: int | None
    ps: int
    percent: float


class OwnedTime(msgspec.Struct, frozen=True, kw_only=True):
    """The time that has one cause (owner).

    Attributes:
        owner: What the time is attributed to, as in the breakdown of step time.
        ps: Time with this cause in the explained range.
        percent: `ps` as a share of the explained range.
        parts: This time by name, longest first; the parts add up to `ps`.
        intervals: The 100 intervals that took most of the time, in order of time.
        interval_count: Number of all intervals, listed or not.
    """

    owner: str
    ps: int
    percent: float
    parts: tuple[NamedPart, ...]
    intervals: tuple[Interval, ...]
    interval_count: int


class Neighbour(msgspec.Struct, frozen=True, kw_only=True):
    """The device activity just before or just after a gap.

    Attributes:
        name: Name of the activity.
        track: Row in the timeline's tracks; null if the timeline does not show it.
        item: Row of `events`; null if the activity has no event.
        start_ps: Start of the activity, since the start of the profile.
        dur_ps: Duration of the activity.
    """

    name: str
    track: int | None
    item: int | None
    start_ps: int
    dur_ps: int


class HostWork(msgspec.Struct, frozen=True, kw_only=True):
    """Events of one name on one host thread during the explained range.

    Attributes:
        thread: Name of the thread.
        launching: Whether the thread launched the work that ended idle time.
        name: Name of the events.
        count: Number of events of this name.
        ps: Self time of the events in the explained range.
        percent: `ps` as a share of the explained range.
        begin_ps: Start of the longest event, clipped to the explained range.
        end_ps: End of the longest event, clipped to the explained range.
        track: Row in the timeline's tracks of the longest event; null if not shown.
        item: Row of `events` of the longest event.
    """

    thread: str
    launching: bool
    name: str
    count: int
    ps: int
    percent: float
    begin_ps: int
    end_ps: int
    track: int | None
    item: int


class GapExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The causes of time in a range, on a device or on step threads without a device.

    Attributes:
        host: Name of the host.
        device: Ordinal of the device; null on a host without devices.
        kind: "gap": the device was idle; "busy": the device worked; "host": an interval
            with one cause on a host without devices; "interval": the requested range.
        begin_ps: Start of the range, since the start of the profile.
        end_ps: End of the range, since the start of the profile.
        dur_ps: Length of the range.
        step: Number of the step in whose window the range begins; null for none.
        owners: Time by cause, longest first; with `outside_ps` it adds up to the range.
        outside_ps: Time before the first window or after the last, which has no cause.
        before: Activity that ended when a gap began; null if the range is not a gap.
        after: Activity that began when a gap ended; null if the range is not a gap.
        meanwhile: Work of the host's threads; launching threads first, then by time.
        not_explained_percent: Share of the range without a recorded explanation.
        confidence: Certainty of the causes: "high", "medium" or "low".
        remedy: What to record to see more; null if nearly all time is explained.
    """

    host: str
    device: int | None
    kind: Literal["gap", "busy", "host", "interval"]
    begin_ps: int
    end_ps: int
    dur_ps: int
    step: int | None
    owners: tuple[OwnedTime, ...]
    outside_ps: int
    before: Neighbour | None
    after: Neighbour | None
    meanwhile: tuple[HostWork, ...]
    not_explained_percent: float
    confidence: Literal["high", "medium", "low"]
    remedy: str | None
