"""Derived lines of the timeline, and the lines of steps and launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import (
    distinct_runs,
    extremes_by_code,
    number_rows,
    time_ranges_by_code,
)
from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import values_by_row
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.array_types import Int32s, Int64s
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps


class Names:
    """Texts of name codes; each distinct pair of displayed and full name has one code.

    A code below the number of event types is the row of an event type.
    """

    def __init__(self, event_types: pl.DataFrame) -> None:
        self._types = event_types
        self._code: dict[tuple[str, str | None], int] = {}

    def name_code(self, shown: str, full: str | None = None) -> int:
        """Return the code of a displayed name and of its full name, if that differs."""
        key = (shown, full if full != shown else None)
        return self._code.setdefault(key, len(self._types) + len(self._code))

    def name_codes(self, shown: Iterable[str]) -> Int32s:
        """Return the codes of displayed names."""
        return np.array([self.name_code(name) for name in shown], np.int32)

    def name_texts(self) -> tuple[pl.Series, pl.Series]:
        """Return the displayed names by code, and the full names where they differ."""
        recorded = self._types.select(
            shown=pl.coalesce("display_name", "name"),
            full=pl.when(pl.col("display_name") != pl.col("name")).then("name"),
        )
        derived = pl.DataFrame(
            list(self._code),
            schema={"shown": pl.String, "full": pl.String},
            orient="row",
        )
        both = pl.concat((recorded, derived))
        return both["shown"], both["full"]


class LineSpans(NamedTuple):
    """The spans of a derived line, in any order; arrays of equal length.

    Attributes:
        level: Depth within the line, 0 for the outermost level.
        event: Row of events with which the span begins, -1 for none.
        busy_ps: Time of the work that each span summarises; None for spans of steps,
            which count as busy for their whole duration.
    """

    start_ps: Int64s
    dur_ps: Int64s
    level: Int32s
    name: Int32s
    event: Int32s
    step: Int32s
    busy_ps: Int64s | None = None

    def order_spans(self) -> LineSpans:
        """Return the spans by start, then duration descending, then level."""
        if self.is_ordered():
            return self
        # Each level is already sorted by start, and a stable sort merges sorted runs
        # quickly. At equal starts the outer level, which is not shorter, stays first.
        merged = self._take_spans(np.argsort(self.start_ps, kind="stable"))
        if merged.is_ordered():
            return merged
        return self._take_spans(np.lexsort((self.level, -self.dur_ps, self.start_ps)))

    def _take_spans(self, order: Int64s) -> LineSpans:
        return LineSpans(
            self.start_ps[order],
            self.dur_ps[order],
            self.level[order],
            self.name[order],
            self.event[order],
            self.step[order],
            None if self.busy_ps is None else self.busy_ps[order],
        )

    def is_ordered(self) -> bool:
        """Return whether the spans already have the order of `order_spans`."""
        start, dur, level = self.start_ps, self.dur_ps, self.level
        same = start[1:] == start[:-1]
        longer = dur[1:] > dur[:-1]
        outer = (dur[1:] == dur[:-1]) & (level[1:] < level[:-1])
        return not ((start[1:] < start[:-1]) | (same & (longer | outer))).any()


class DerivedLine(Frozen, frozen=True, eq=True):
    """One derived line and where the timeline shows it.

    Attributes:
        view: View of the line: `step_windows` or a value of `derived` of `tracks`.
        device: Ordinal of the device; None for a line of the host.
        track: Row of `tracks` of the stream or thread from which the line is derived;
            None if the line is derived from a whole device or host.
        spans: Spans in the order of `LineSpans.order_spans`.
    """

    view: str
    device: int | None
    track: int | None
    spans: LineSpans


def no_spans() -> LineSpans:
    """Return a line without spans."""
    wide, narrow = np.empty(0, np.int64), np.empty(0, np.int32)
    return LineSpans(wide, wide, narrow, narrow, narrow, narrow)


#: Columns of the sums of launch calls.
LAUNCH_TOTALS: Final[dict[str, pl.DataType]] = {
    "device": pl.Int32(),
    "step": pl.Int32(),
    "num_launches": pl.Int64(),
    "max_launch_time_ps": pl.Int64(),
    "total_launch_time_ps": pl.Int64(),
}


def step_lines(
    steps: Steps | Unavailable, windows: Windows | Unavailable, names: Names
) -> list[DerivedLine]:
    """Return a line of steps per device, and a line of step windows on the host.

    On a device, the span of a step is the time range of the step's activities on it.
    For a step without activities on the device, the span is the stored one.

    Definition: docs/tools/trace_viewer.md#sections-and-tracks.
    """
    if isinstance(steps, Unavailable) or isinstance(windows, Unavailable):
        return []
    if not windows.has_steps:
        return []
    code = names.name_codes(step_names(steps))
    events = handles(steps.rows, "event")
    of_windows = _step_spans(windows.rows, code, events)
    lines = [DerivedLine("step_windows", None, None, of_windows)]
    ranges = windows.device_spans.select(
        *("device", "step_row"),
        start_ps=pl.coalesce("first_begin_ps", "stored_start_ps"),
        end_ps=pl.coalesce("last_end_ps", "stored_end_ps"),
    )
    for (device,), spans in ranges.group_by("device", maintain_order=True):
        of_device = _step_spans(spans, code, events)
        lines.append(DerivedLine("steps", int(str(device)), None, of_device))
    return lines


def step_names(steps: Steps) -> list[str]:
    """Return the name of each step, or its number if it has no name."""
    rows = steps.rows.select(
        pl.coalesce("name", pl.col("step").cast(pl.String), pl.lit("step"))
    )
    return rows.to_series().to_list()


def launch_lines(
    correlation: Correlation, *, activity_steps: Int32s, steps: Steps, names: Names
) -> tuple[list[DerivedLine], pl.DataFrame]:
    """Return one line of launch calls per device, and sums by device and step.

    The span of a step is the time from its first to its last launch call.

    Definition: docs/tools/trace_viewer.md#sections-and-tracks.

    Returns:
        The lines, and a frame with the columns `LAUNCH_TOTALS`.
    """
    totals = _launch_totals(correlation, activity_steps)
    code = names.name_codes(step_names(steps))
    lines = []
    launches, launch = correlation.launches, correlation.launch_of_activity
    launched_on = handles(correlation.activity, "device")
    for (device,), spans in totals.group_by("device", maintain_order=True):
        step = handles(spans, "step")
        begin = ints(spans, "start_ps")
        end = ints(spans, "end_ps")
        # Find the calls that launched work on the device.
        is_call = np.zeros(len(launches), np.bool_)
        is_call[launch[(launch >= 0) & (launched_on == int(str(device)))]] = True
        start_ps, dur_ps = ints(launches, "start_ps"), ints(launches, "dur_ps")
        drawn = LineSpans(
            begin,
            end - begin,
            np.zeros(len(step), np.int32),
            code[step],
            handles(spans, "event"),
            step,
            Spans.from_events(start_ps[is_call], dur_ps[is_call]).within(begin, end),
        )
        lines.append(
            DerivedLine("launch_stats", int(str(device)), None, drawn.order_spans())
        )
    columns = (pl.col(name).cast(kind) for name, kind in LAUNCH_TOTALS.items())
    return lines, totals.select(columns)


def launch_values(totals: pl.DataFrame) -> pl.DataFrame:
    """Return the statistics of launch calls with times in µs."""
    return totals.select(
        "num_launches",
        max_launch_time_us=pl.col("max_launch_time_ps") / PS_PER_US,
        avg_launch_time_us=pl.col("total_launch_time_ps")
        / pl.col("num_launches")
        / PS_PER_US,
    )


def _launch_totals(correlation: Correlation, activity_steps: Int32s) -> pl.DataFrame:
    """Return the launch calls of each device and step; each call counts once."""
    launches, launch = correlation.launches, correlation.launch_of_activity
    # A group is a device in a step; activities without a step have no group.
    known = activity_steps >= 0
    device = handles(correlation.activity, "device")
    device_steps = number_rows([device, activity_steps])
    runs = distinct_runs(
        device_steps.code,
        np.where(known, launch, np.int32(-1)),
        groups=device_steps.count,
        executions=len(launches),
    )
    further_place, further = runs.further
    # Only a few calls launch work for several groups.
    device_step = runs.owner
    start_ps, dur_ps = ints(launches, "start_ps"), ints(launches, "dur_ps")
    events = handles(launches, "event")
    if len(further):
        device_step = np.concatenate((device_step, further_place.astype(np.int32)))
        start_ps = np.concatenate((start_ps, start_ps[further]))
        dur_ps = np.concatenate((dur_ps, dur_ps[further]))
        events = np.concatenate((events, events[further]))
    count = device_steps.count
    ranges = time_ranges_by_code(device_step, start_ps, dur_ps, count=count)
    calls = extremes_by_code(device_step, dur_ps, count=count)
    of_call = values_by_row(ranges.first_ps, device_step, none=0)
    first = np.flatnonzero((device_step >= 0) & (start_ps == of_call))
    # If several first calls begin at the same time, use the first one in the table.
    event = np.full(count, np.iinfo(np.int32).max, np.int32)
    np.minimum.at(event, device_step[first], events[first])
    return (
        pl.DataFrame(
            {
                "device": device[device_steps.first],
                "step": activity_steps[device_steps.first],
                "start_ps": ranges.first_ps,
                "end_ps": ranges.last_ps,
                "event": event,
                "num_launches": calls.count,
                "max_launch_time_ps": calls.greatest,
                "total_launch_time_ps": calls.total,
            }
        )
        .filter(pl.col("num_launches") > 0)
        .sort("device", "step")
    )


def _step_spans(rows: pl.DataFrame, code: Int32s, events: Int32s) -> LineSpans:
    """Return the spans of rows with `start_ps`, `end_ps` and `step_row`."""
    start_ps, step = ints(rows, "start_ps"), handles(rows, "step_row")
    return LineSpans(
        start_ps,
        ints(rows, "end_ps") - start_ps,
        np.zeros(len(step), np.int32),
        code[step],
        events[step],
        step,
    ).order_spans()
