"""`GapExplanation`: who owns a stretch of time, as numbers."""

from __future__ import annotations

from typing import Literal

import msgspec


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """Something that ran during the time of an owner, or a stretch without an event.

    Attributes:
        begin_ps: When it began, within the stretch.
        end_ps: When it ended, within the stretch.
        track: Row of the timeline's tracks; null where no event is it.
        item: Row of `events`; null where no event is it.
        name: What it is; null where nobody named it.
        ps: The owner's time that it names: what it covers and nothing inside it does.
        percent: `ps` as a share of the stretch.
    """

    begin_ps: int
    end_ps: int
    track: int | None
    item: int | None
    name: str | None
    ps: int
    percent: float


class NamedPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an owner's time, by name.

    Attributes:
        name: Op, call or function that the time goes to; null for the rest.
        detail: What most of it is; null where there is nothing to add.
        function: Python function; null where the name is none.
        file: File of the function; null where unknown.
        line: First line of the function; null where unknown.
        ps: The part.
        percent: `ps` as a share of the stretch.
    """

    name: str | None
    detail: str | None
    function: str | None
    file: str | None
    line: int | None
    ps: int
    percent: float


class OwnedTime(msgspec.Struct, frozen=True, kw_only=True):
    """The time of one owner.

    Attributes:
        owner: The owner, as in the account.
        ps: Its time in the stretch.
        percent: `ps` as a share of the stretch.
        parts: Its time by name, most first; the parts add up to it.
        intervals: What ran, in order of time: the 100 that name most of it.
        interval_count: How many there are in all.
    """

    owner: str
    ps: int
    percent: float
    parts: tuple[NamedPart, ...]
    intervals: tuple[Interval, ...]
    interval_count: int


class Neighbour(msgspec.Struct, frozen=True, kw_only=True):
    """What ran just before or just after.

    Attributes:
        name: Its name.
        track: Row of the timeline's tracks; null where it is not shown there.
        item: Row of `events`; null likewise.
        start_ps: When it began.
        dur_ps: How long it lasted.
    """

    name: str
    track: int | None
    item: int | None
    start_ps: int
    dur_ps: int


class HostWork(msgspec.Struct, frozen=True, kw_only=True):
    """What a thread of the host did meanwhile, by the name of the event.

    Attributes:
        thread: Name of the thread.
        launching: Whether the work that ended idle time was launched on this thread.
        name: Name of the event.
        count: Number of events of this name.
        ps: Their time in the stretch, without that of events inside them.
        percent: `ps` as a share of the stretch.
        begin_ps: When the longest of them began, within the stretch.
        end_ps: When it ended, within the stretch.
        track: Row of the timeline's tracks of the longest; null where it is not shown.
        item: Row of `events` of the longest.
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
    """Who owns a stretch of time on a device, or of the step threads without one.

    Attributes:
        host: Name of the host.
        device: Ordinal of the device; null on a host without devices.
        kind: "gap": the device did nothing; "busy": it worked; "host": one owner has
            the step threads of a host without devices; "interval": from one time to
            another, as asked.
        begin_ps: Begin of the stretch, since the start of the profile.
        end_ps: Its end.
        dur_ps: Its length.
        step: Number of the step in whose window it begins; null for none.
        owners: Whose time it is, most first; with `outside_ps` they add up to it.
        outside_ps: What lies before the first window of a step or after the last one,
            where no owner is looked for.
        before: What ended as a gap began; null of anything else.
        after: What ended a gap by its begin; null likewise.
        meanwhile: What the host's threads did, launching threads first, then by time.
        not_explained_percent: Share that nothing in the recording explains.
        confidence: "high", "medium" or "low".
        remedy: What to record to see more; null where next to nothing is unexplained.
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
