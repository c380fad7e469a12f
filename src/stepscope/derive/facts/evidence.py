"""Evidence for an effect: its causes, parts, numbers and ranges of the timeline."""

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
MAX_RANGES_SHOWN: Final = 3


class CauseShare(msgspec.Struct, frozen=True, kw_only=True):
    """A named part of the effect, with its share of the step in percent."""

    cause: str
    share_percent: float


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A range of the timeline in which the effect is visible.

    Attributes:
        host: Host on whose timeline the range is.
        device: Number of the device that waited; null for a range of host threads.
        track: Name of the thread or stream that shows the effect; null if unknown.
        start_ps: Start of the range in ps since the start of the host's profile.
        end_ps: End of the range in ps since the start of the host's profile.
        ops: Names of the ops, kernels or host events in the range.
        frame: Python frame that ran in the range; null if not recorded.
    """

    host: str
    device: int | None
    track: str | None
    start_ps: int
    end_ps: int
    ops: tuple[str, ...] = ()
    frame: str | None = None


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """The estimated time that a change saves per step, from `low` to `high`.

    In a finding both numbers are within its `Limits`.

    Attributes:
        low: Least saving in milliseconds per step.
        high: Greatest saving in milliseconds per step.
        basis: "replay" if the step was replayed on its dependencies without the cause;
            "bound" if the numbers are limits computed from the time account.
        identity_error_percent: Difference between the measured step and a replay
            without any change; null without a replay.
        open_above: Whether the saving may exceed `high`, because the change leads to
            kernels of another algorithm, whose speed cannot be predicted.
    """

    low: float
    high: float
    basis: Literal["replay", "bound"] = "bound"
    identity_error_percent: float | None = None
    open_above: bool = False

    def within(self, limits: Limits) -> Saving:
        """Return the saving with both ends between 0 and the most the limits allow."""
        high = min(max(self.high, 0.0), limits.max_saving_ms)
        low = min(max(self.low, 0.0), high)
        return msgspec.structs.replace(self, low=low, high=high)


class Limits(Frozen, frozen=True, eq=True):
    """Limits of the saving of a change, in milliseconds per step.

    Attributes:
        effect_ms: Mean time of the effect that the change removes; None if unknown.
        step_ms: Mean duration of a step; None if unknown.
        floor_ms: Least duration of a step after the change.
    """

    effect_ms: float | None
    step_ms: float | None
    floor_ms: float = 0.0

    @property
    def max_saving_ms(self) -> float:
        """Return the greatest possible saving: at most the effect, at most the step."""
        known = [] if self.effect_ms is None else [self.effect_ms]
        if self.step_ms is not None:
            known.append(self.step_ms - self.floor_ms)
        return max(min(known, default=math.inf), 0.0)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A named part of the time of a finding.

    Attributes:
        name: Name of the op or function, or the two events around the time.
        detail: The main content of the part, shown next to the name; null for none.
        function: The function, if the part is a function; else null.
        file: File of the function; null if not recorded.
        line: First line of the function; null if not recorded.
        lines: First and last line of the part of the function; null for all of it.
        loop: Whether the function is the loop around the steps, and not work of a step.
        thread: Name of another thread of the program that executes the function while
            the steps wait; null for work of the steps themselves.
        share_percent: Share of all judged steps' time.
        inclusive: Whether the share is total time and exceeds the self time.
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
        """Return the part for a function and its share."""
        return cls(
            name=name.function,
            function=name.function,
            file=name.file,
            line=name.line,
            share_percent=share_percent,
        )

    @property
    def key(self) -> tuple[str | None, str | None, int | None]:
        """Identity of the part's function: its name, its file and its first line."""
        return self.function, self.file, self.line


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A measured number that explains the verdict.

    Attributes:
        name: Stable name of the number.
        value: The number in `unit`; null if it could not be measured.
        unit: "us", "count", "percent" or "ratio".
        note: Source of the number; null if there is nothing to add.
    """

    name: str
    value: float | None
    unit: str
    note: str | None = None


def longest_intervals(spans: Spans) -> list[tuple[int, int]]:
    """Return the `MAX_RANGES_SHOWN` longest intervals of a set, longest first."""
    order = indices_of_largest(spans.end_ps - spans.start_ps)
    return [(int(spans.start_ps[row]), int(spans.end_ps[row])) for row in order]


def indices_of_largest(values: Int64s) -> Int64s:
    """Return the indices of the `MAX_RANGES_SHOWN` largest values, largest first.

    Equal values are in the order of their indices.
    """
    chosen = np.arange(len(values))
    if len(values) > MAX_RANGES_SHOWN:
        # Only candidates are sorted, including values equal to the smallest.
        smallest = np.partition(values, -MAX_RANGES_SHOWN)[-MAX_RANGES_SHOWN]
        equal = np.flatnonzero(values == smallest)[:MAX_RANGES_SHOWN]
        chosen = np.sort(np.append(equal, np.flatnonzero(values > smallest)))
    rows: Int64s = chosen[np.argsort(-values[chosen], kind="stable")[:MAX_RANGES_SHOWN]]
    return rows


def event_labels(
    trace: TraceData, rows: list[int]
) -> dict[int, tuple[str | None, str]]:
    """Return the track name and the name of each given event, by row of events."""
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
