"""Lines of steps: on each device, on the host, and what launching each one took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import (
    combined,
    distinct_runs,
    extremes_by,
    hulls_by_code,
)
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.timeline.derived_lines import DerivedLine, LineSpans
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import by_row
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps
    from stepscope.derive.timeline.derived_lines import Names

_TOTALS: Final[dict[str, pl.DataType]] = {
    "device": pl.Int32(),
    "step": pl.Int32(),
    "num_launches": pl.Int64(),
    "max_launch_time_ps": pl.Int64(),
    "total_launch_time_ps": pl.Int64(),
}


class LaunchLines(Frozen, frozen=True):
    """Per device, the time from the first to the last launch call of each step.

    Definition: docs/tools/trace_viewer.md#sections-and-tracks.

    Attributes:
        totals: By device and step: `num_launches`, `max_launch_time_ps` and
            `total_launch_time_ps`.
    """

    lines: list[DerivedLine]
    totals: pl.DataFrame

    @classmethod
    def no_lines(cls) -> LaunchLines:
        """No line."""
        return cls([], pl.DataFrame(schema=_TOTALS))


def step_lines(
    steps: Steps | Unavailable, windows: Windows | Unavailable, names: Names
) -> list[DerivedLine]:
    """Return a line of steps per device, and the line of their windows on the host.

    A step's span on a device is the hull of its activity there; without activity it is
    the span that the producer stored.

    Definition: docs/tools/trace_viewer.md#sections-and-tracks.
    """
    if isinstance(steps, Unavailable) or isinstance(windows, Unavailable):
        return []
    if not windows.has_steps:
        return []
    code = names.name_codes(step_names(steps))
    events = handles(steps.rows, "event")
    rows = windows.rows
    lines = [
        DerivedLine(
            "step_windows",
            None,
            None,
            _step_spans(
                ints(rows, "start_ps"),
                ints(rows, "end_ps"),
                handles(rows, "step_row"),
                code,
                events,
            ),
        )
    ]
    hulls = windows.device_spans.with_columns(
        begin=pl.coalesce("first_begin_ps", "stored_start_ps"),
        end=pl.coalesce("last_end_ps", "stored_end_ps"),
    )
    for (device,), spans in hulls.group_by("device", maintain_order=True):
        of_device = _step_spans(
            ints(spans, "begin"),
            ints(spans, "end"),
            handles(spans, "step_row"),
            code,
            events,
        )
        lines.append(DerivedLine("steps", int(str(device)), None, of_device))
    return lines


def step_names(steps: Steps) -> list[str]:
    """Return the name of each step; its number where it has no name."""
    rows = steps.rows.select(
        pl.coalesce("name", pl.col("step").cast(pl.String), pl.lit("step"))
    )
    return rows.to_series().to_list()


def launch_lines(
    correlation: Correlation,
    *,
    activity_steps: NDArray[np.int32],
    steps: Steps,
    names: Names,
) -> LaunchLines:
    """Add up the launch calls that put work on each device, step by step."""
    totals = _launch_totals(correlation, activity_steps)
    code = names.name_codes(step_names(steps))
    lines = []
    launches, launch = correlation.launches, correlation.launch_of_activity
    launched_on = handles(correlation.activity, "device")
    for (device,), spans in totals.group_by("device", maintain_order=True):
        step = handles(spans, "step")
        begin = ints(spans, "start_ps")
        end = ints(spans, "end_ps")
        # When calls ran that put work on a device.
        is_call = np.zeros(len(launches), np.bool_)
        is_call[launch[(launch >= 0) & (launched_on == int(str(device)))]] = True
        start_ps, dur_ps = ints(launches, "start_ps"), ints(launches, "dur_ps")
        found = LineSpans(
            begin,
            end - begin,
            np.zeros(len(step), np.int32),
            code[step],
            handles(spans, "event"),
            step,
            Spans.from_events(start_ps[is_call], dur_ps[is_call]).within(begin, end),
        )
        lines.append(
            DerivedLine("launch_stats", int(str(device)), None, found.order_spans())
        )
    return LaunchLines(
        lines, totals.select(pl.col(name).cast(kind) for name, kind in _TOTALS.items())
    )


def launch_values(totals: pl.DataFrame) -> pl.DataFrame:
    """Return the statistics of launch calls under their names, times in µs."""
    return totals.select(
        "num_launches",
        max_launch_time_us=pl.col("max_launch_time_ps") / PS_PER_US,
        avg_launch_time_us=pl.col("total_launch_time_ps")
        / pl.col("num_launches")
        / PS_PER_US,
    )


def _launch_totals(
    correlation: Correlation, activity_steps: NDArray[np.int32]
) -> pl.DataFrame:
    """Return by device and step the calls that put work there, each of them once."""
    launches, launch = correlation.launches, correlation.launch_of_activity
    # A place is a device in a step; activities of no step have no place.
    known = activity_steps >= 0
    device = handles(correlation.activity, "device")
    places = combined([device, activity_steps])
    found = distinct_runs(
        places.code,
        np.where(known, launch, np.int32(-1)),
        places=places.count,
        executions=len(launches),
    )
    further_place, further = found.further
    # As a rule no call puts work in several places.
    place = found.owner
    start_ps, dur_ps = ints(launches, "start_ps"), ints(launches, "dur_ps")
    events = handles(launches, "event")
    if len(further):
        place = np.concatenate((place, further_place.astype(np.int32)))
        start_ps = np.concatenate((start_ps, start_ps[further]))
        dur_ps = np.concatenate((dur_ps, dur_ps[further]))
        events = np.concatenate((events, events[further]))
    count = places.count
    hulls = hulls_by_code(place, start_ps, dur_ps, count=count)
    calls = extremes_by(place, dur_ps, count=count)
    of_call = by_row(hulls.first_ps, place, none=0)
    first = np.flatnonzero((place >= 0) & (start_ps == of_call))[::-1]
    event = np.full(count, -1, np.int32)
    # Of several calls that begin first, the first in the table of calls.
    event[place[first]] = events[first]
    return (
        pl.DataFrame(
            {
                "device": device[places.first],
                "step": activity_steps[places.first],
                "start_ps": hulls.first_ps,
                "end_ps": hulls.last_ps,
                "event": event,
                "num_launches": calls.count,
                "max_launch_time_ps": calls.greatest,
                "total_launch_time_ps": calls.total,
            }
        )
        .filter(pl.col("num_launches") > 0)
        .sort("device", "step")
    )


def _step_spans(
    start_ps: NDArray[np.int64],
    end_ps: NDArray[np.int64],
    step: NDArray[np.int32],
    code: NDArray[np.int32],
    events: NDArray[np.int32],
) -> LineSpans:
    return LineSpans(
        start_ps,
        end_ps - start_ps,
        np.zeros(len(step), np.int32),
        code[step],
        events[step],
        step,
    ).order_spans()
