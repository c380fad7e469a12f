"""Evidence for a finding: causes and parts of lost time, numbers, timeline ranges."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

import msgspec
import numpy as np

from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.array_types import Int64s
    from stepscope.derive.host.function_names import FunctionKey, FunctionName
    from stepscope.derive.intervals.spans import Spans
    from stepscope.trace.model import TraceData

#: Maximum number of timeline ranges shown per finding.
MAX_RANGES_SHOWN: Final = 3


class CauseShare(msgspec.Struct, frozen=True, kw_only=True):
    """A named cause of a finding's lost time, with its percentage of step time."""

    cause: str
    share_percent: float


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A range of the timeline in which the lost time is visible.

    Attributes:
        host: Host on whose timeline the range is.
        device: Number of the device that waited; null for a range of host threads.
        track: Name of the thread or stream in which the range is; null if unknown.
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

    @classmethod
    def of_range(
        cls,
        host: str,
        device: int | None,
        start_ps: int,
        end_ps: int,
        *,
        track: str | None = None,
        op: str | None = None,
    ) -> Evidence:
        """Describe a range in which at most one op is named."""
        return cls(
            host=host,
            device=device,
            track=track,
            start_ps=start_ps,
            end_ps=end_ps,
            ops=(op,) if op else (),
        )


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """The estimated time that a change saves per step, from `low` to `high`.

    In a finding, `low` and `high` are within the `Limits` of the finding. Without a
    replay, only `high` is known.

    Attributes:
        low: Least saving in milliseconds per step.
        high: Greatest saving in milliseconds per step.
        basis: "replay" if the step was replayed on its dependencies without the cause;
            "bound" if `high` is a bound computed from the breakdown of step time; then
            findings of a report have a `low` of 0.
        identity_error_percent: Difference between the measured step and a replay
            without any change; null without a replay.
        open_above: Whether the saving may exceed `high`, because the change leads to
            kernels of another algorithm, whose speed cannot be predicted.
    """

    low: float = 0.0
    high: float
    basis: Literal["replay", "bound"] = "bound"
    identity_error_percent: float | None = None
    open_above: bool = False

    @classmethod
    def of_part(cls, effect_ms: float, least_effect_ms: float) -> Saving:
        """Return the saving for lost time that a change rarely removes as a whole.

        Args:
            effect_ms: Mean lost time per step in the recording.
            least_effect_ms: Mean lost time per step that can be expected at least.
        """
        return cls(low=min(effect_ms / 2, least_effect_ms), high=effect_ms)

    def within(self, limits: Limits) -> Saving:
        """Return the saving, with `low` and `high` clipped to 0 … `max_saving_ms`."""
        high = min(max(self.high, 0.0), limits.max_saving_ms)
        low = min(max(self.low, 0.0), high)
        return msgspec.structs.replace(self, low=low, high=high)


class Limits(Frozen, frozen=True, eq=True):
    """Upper bounds of the saving of a change, in milliseconds per step.

    Attributes:
        effect_ms: Mean time per step that the finding calls lost; None if unknown.
        step_ms: Mean duration of a step; None if unknown.
        floor_ms: Least duration of a step after the change.
    """

    effect_ms: float | None
    step_ms: float | None
    floor_ms: float = 0.0

    @property
    def max_saving_ms(self) -> float:
        """Return the upper bound of the saving, from the lost time and the step."""
        known = [] if self.effect_ms is None else [self.effect_ms]
        if self.step_ms is not None:
            known.append(self.step_ms - self.floor_ms)
        return max(min(known, default=math.inf), 0.0)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A named part of the time of a finding.

    Attributes:
        name: Name of the op or function, or names of the two events around the part.
        detail: What takes most of the part, shown next to the name; null for nothing.
        function: The function, if the part is a function; else null.
        file: File of the function; null if not recorded.
        line: First line of the function; null if not recorded.
        lines: First and last line of the part of the function; null for all of it.
        loop: Whether the function is the loop that executes the steps.
        thread: Name of another thread of the program that executes the function while
            the steps wait; null if the steps themselves execute the part.
        share_percent: Share of the time of all judged steps.
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
        """Describe a function, and its share of step time, as a part."""
        return cls(
            name=name.function,
            function=name.function,
            file=name.file,
            line=name.line,
            share_percent=share_percent,
        )

    @property
    def key(self) -> FunctionKey:
        """Return what identifies the part's function: its name, file and first line."""
        return self.function, self.file, self.line


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A measured number that explains the verdict.

    Attributes:
        name: Stable name of the number.
        value: The number in `unit`; null if it could not be measured.
        unit: "us", "count", "percent", "ratio" or "bytes".
        note: Source of the number; null if there is nothing to add.
    """

    name: str
    value: float | None
    unit: str
    note: str | None = None


def longest_intervals(spans: Spans) -> tuple[tuple[int, int], ...]:
    """Return the `MAX_RANGES_SHOWN` longest intervals of a set, longest first."""
    order = indices_of_largest(spans.end_ps - spans.start_ps)
    return tuple((int(spans.start_ps[row]), int(spans.end_ps[row])) for row in order)


def indices_of_largest(values: Int64s) -> Int64s:
    """Return the indices of the `MAX_RANGES_SHOWN` largest values, largest first.

    Indices of equal values ascend.
    """
    chosen = np.arange(len(values))
    if len(values) > MAX_RANGES_SHOWN:
        # Sort only the largest values and those equal to the smallest of them.
        smallest = np.partition(values, -MAX_RANGES_SHOWN)[-MAX_RANGES_SHOWN]
        equal = np.flatnonzero(values == smallest)[:MAX_RANGES_SHOWN]
        chosen = np.sort(np.append(equal, np.flatnonzero(values > smallest)))
    return chosen[np.argsort(-values[chosen], kind="stable")[:MAX_RANGES_SHOWN]]


def event_labels(
    trace: TraceData, rows: list[int]
) -> dict[int, tuple[str | None, str]]:
    """Return, by row of the events table, the names of the track and of the event."""
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
