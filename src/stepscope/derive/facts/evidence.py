"""What shows an effect: its causes, parts, numbers and ranges of the timeline."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

import msgspec
import numpy as np

from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.array_types import Int64s
    from stepscope.derive.host.function_names import FunctionName
    from stepscope.derive.intervals.spans import Spans
    from stepscope.trace.model import TraceData

#: Number of ranges shown per finding.
SHOWN: Final = 3


class CauseShare(msgspec.Struct, frozen=True, kw_only=True):
    """A named part of the effect, with its share of the step in percent."""

    cause: str
    share_percent: float


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A range of the timeline in which the effect can be seen.

    Attributes:
        host: Host on whose timeline the range is.
        device: Ordinal of the device that waited; null for a range of host threads.
        track: Name of the thread or stream to look at; null where it is not known.
        start_ps: Start of the range in ps since the start of the host's profile.
        end_ps: End of the range in ps since the start of the host's profile.
        ops: Names of the ops, kernels or host events in the range.
        frame: Python frame that ran in the range; null where none was recorded.
    """

    host: str
    device: int | None
    track: str | None
    start_ps: int
    end_ps: int
    ops: tuple[str, ...] = ()
    frame: str | None = None


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """The time that a change would save per step, from `low` to `high`.

    Of a finding neither is more than its `Limits` allow.

    Attributes:
        low: Milliseconds per step at least.
        high: Milliseconds per step at most.
        basis: "replay" where the step was run again on its dependencies without the
            cause; "bound" where the numbers are limits that follow from the account.
        identity_error_percent: How far a replay that changes nothing misses the
            measured step; null where there was no replay.
        open_above: Whether more may be gained than `high`: with the change kernels of
            another algorithm run, and how fast these are cannot be predicted.
    """

    low: float
    high: float
    basis: Literal["replay", "bound"] = "bound"
    identity_error_percent: float | None = None
    open_above: bool = False

    def within(self, limits: Limits) -> Saving:
        """Return it with both ends from 0 to the most that the limits allow."""
        high = min(max(self.high, 0.0), limits.most_ms)
        low = min(max(self.low, 0.0), high)
        return msgspec.structs.replace(self, low=low, high=high)


class Limits(Frozen, frozen=True, eq=True):
    """What limits the saving of a change, in milliseconds per step.

    Attributes:
        effect_ms: Mean time that the change is about; None where it is not known.
        step_ms: Mean step; None where it is not known.
        floor_ms: What a step takes at least after the change.
    """

    effect_ms: float | None
    step_ms: float | None
    floor_ms: float = 0.0

    @property
    def most_ms(self) -> float:
        """Return the most that can be saved: the effect, and no more than the step."""
        known = [] if self.effect_ms is None else [self.effect_ms]
        if self.step_ms is not None:
            known.append(self.step_ms - self.floor_ms)
        return max(min(known, default=math.inf), 0.0)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the time of a finding, by name.

    Attributes:
        name: What ran, or between which two events the time lies.
        detail: What most of it is, next to the name; null for nothing.
        function: The function, where the name is one.
        file: Its file; null where it was not recorded.
        line: Its line; null where it was not recorded.
        lines: First and last of its own lines that the part is; null for all of it.
        loop: Whether the function runs around steps: it is none of their work.
        thread: Name of the other thread of the program that is in the function while
            the steps wait; null for what the steps themselves do.
        share_percent: Its share of all judged steps' time.
        inclusive: Whether that counts what the function calls, and this is more than
            its own.
    """

    name: str
    detail: str | None = None
    function: str | None = None
    file: str | None = None
    line: int | None = None
    lines: tuple[int, int] | None = None
    loop: bool = False
    thread: str | None = None
    share_percent: float
    inclusive: bool = False

    @classmethod
    def from_function(cls, name: FunctionName, share_percent: float) -> Part:
        """Return the part that a function has."""
        return cls(
            name=name.function,
            function=name.function,
            file=name.file,
            line=name.line,
            share_percent=share_percent,
        )

    @property
    def key(self) -> tuple[str | None, str | None, int | None]:
        """What tells a function from others: its name, its file and its first line."""
        return self.function, self.file, self.line


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A measured number that explains the verdict.

    Attributes:
        name: Stable name of the number.
        value: The number in `unit`; null where it could not be measured.
        unit: "us", "count", "percent" or "ratio".
        note: What the number was computed from; null where there is nothing to add.
    """

    name: str
    value: float | None
    unit: str
    note: str | None = None


def longest_intervals(spans: Spans) -> list[tuple[int, int]]:
    """Return the longest intervals of a set, longest first."""
    order = places_of_largest(spans.end_ps - spans.start_ps)
    return [(int(spans.start_ps[row]), int(spans.end_ps[row])) for row in order]


def places_of_largest(values: Int64s) -> Int64s:
    """Return the places of the largest values, largest first, of equal ones the first.

    This many are returned as are shown.
    """
    chosen = np.arange(len(values))
    if len(values) > SHOWN:
        # Of many only those that may be shown are sorted; equal ones may be many.
        least = np.partition(values, -SHOWN)[-SHOWN]
        equal = np.flatnonzero(values == least)[:SHOWN]
        chosen = np.sort(np.append(equal, np.flatnonzero(values > least)))
    places: Int64s = chosen[np.argsort(-values[chosen], kind="stable")[:SHOWN]]
    return places


def event_labels(
    trace: TraceData, rows: list[int]
) -> dict[int, tuple[str | None, str]]:
    """Return the names of some events' tracks, and the events' own names, by row."""
    events = trace.table("events")
    types = trace.table("event_types")
    tracks = trace.table("tracks")
    if (
        isinstance(events, Unavailable)
        or isinstance(types, Unavailable)
        or isinstance(tracks, Unavailable)
    ):
        return dict.fromkeys(rows, (None, ""))
    track = tracks["name"].gather(events["track"].gather(rows)).to_list()
    name = types["name"].gather(events["type"].gather(rows)).to_list()
    return dict(zip(rows, zip(track, name, strict=True), strict=True))
