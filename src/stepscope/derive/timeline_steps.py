"""Lines of steps: on each device, on the host, and what launching each one took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from stepscope.derive.arrays import handles, ints
from stepscope.derive.timeline_lines import DerivedLine, LineSpans
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.correlate import Correlation
    from stepscope.derive.steps import Steps
    from stepscope.derive.timeline_lines import Names
    from stepscope.derive.windows import Windows

__all__ = ["LaunchLines", "launch_lines", "step_lines", "step_names"]

_TOTALS: Final[dict[str, pl.DataType]] = {
    "device": pl.Int32(),
    "step": pl.Int32(),
    "num_launches": pl.Int64(),
    "max_launch_time_ps": pl.Int64(),
    "total_launch_time_ps": pl.Int64(),
}


class LaunchLines(NamedTuple):
    """Per device, the time from the first to the last launch call of each step.

    Attributes:
        lines: One per device.
        totals: By device and step: `num_launches`, `max_launch_time_ps` and
            `total_launch_time_ps` (spec: tools, section 6c).
    """

    lines: list[DerivedLine]
    totals: pl.DataFrame

    @classmethod
    def nothing(cls) -> LaunchLines:
        """No line."""
        return cls([], pl.DataFrame(schema=_TOTALS))


def step_lines(
    steps: Steps | Unavailable, windows: Windows | Unavailable, names: Names
) -> list[DerivedLine]:
    """A line of steps per device, and the line of their windows on the host.

    A step's span on a device is the hull of its activity there (spec: tools, section
    6b); without activity the span that the producer stored.
    """
    if isinstance(steps, Unavailable) or isinstance(windows, Unavailable):
        return []
    if not windows.has_steps:
        return []
    shown = step_names(steps)
    code = names.codes(shown)
    events = handles(steps.rows, "event")
    rows = windows.rows
    lines = [
        DerivedLine(
            "step_windows",
            None,
            None,
            _of_steps(
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
        of_device = _of_steps(
            ints(spans, "begin"),
            ints(spans, "end"),
            handles(spans, "step_row"),
            code,
            events,
        )
        lines.append(DerivedLine("steps", int(str(device)), None, of_device))
    return lines


def step_names(steps: Steps) -> list[str]:
    """What each step is called; its number where it has no name."""
    rows = steps.rows.select(
        pl.coalesce("name", pl.col("step").cast(pl.String), pl.lit("step"))
    )
    return rows.to_series().to_list()


def launch_lines(
    launches: pl.DataFrame,
    correlation: Correlation,
    device_activity: pl.DataFrame,
    *,
    activity_steps: NDArray[np.int32],
    steps: Steps,
    names: Names,
) -> LaunchLines:
    """Add up the launch calls that put work on each device, step by step."""
    launch = correlation.launch_of_activity
    known = np.flatnonzero((launch >= 0) & (activity_steps >= 0))
    calls = pl.DataFrame(
        {
            "device": handles(device_activity, "device")[known],
            "step": activity_steps[known],
            "launch": launch[known],
        }
    ).unique(maintain_order=True)
    at = calls["launch"].to_numpy()
    start_ps = ints(launches, "start_ps")[at]
    dur_ps = ints(launches, "dur_ps")[at]
    totals = (
        calls.with_columns(
            start_ps=start_ps,
            end_ps=start_ps + dur_ps,
            dur_ps=dur_ps,
            event=handles(launches, "event")[at],
        )
        .group_by("device", "step")
        .agg(
            pl.col("start_ps").min(),
            pl.col("end_ps").max(),
            pl.col("event").sort_by("start_ps").first(),
            pl.len().cast(pl.Int64).alias("num_launches"),
            pl.col("dur_ps").max().alias("max_launch_time_ps"),
            pl.col("dur_ps").sum().alias("total_launch_time_ps"),
        )
        .sort("device", "step")
    )
    code = names.codes(step_names(steps))
    lines = []
    for (device,), spans in totals.group_by("device", maintain_order=True):
        step = handles(spans, "step")
        begin = ints(spans, "start_ps")
        found = LineSpans(
            begin,
            ints(spans, "end_ps") - begin,
            np.zeros(len(step), np.int32),
            code[step],
            handles(spans, "event"),
            step,
        )
        lines.append(
            DerivedLine("launch_stats", int(str(device)), None, found.ordered())
        )
    return LaunchLines(
        lines,
        totals.select(pl.col(name).cast(kind) for name, kind in _TOTALS.items()),
    )


def _of_steps(
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
    ).ordered()
