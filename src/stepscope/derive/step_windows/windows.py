"""`windows`: the wall time of each step, from its start to the next step's start.

The windows of a host are consecutive, so that every gap between two steps lies inside
a window. Without steps the whole profile is one window.

Definition: docs/how-steps-are-found.md#windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints, nullable
from stepscope.derive.step_windows.device_spans import DEVICE_SPANS, device_spans
from stepscope.derive.step_windows.flags import WindowFacts, window_flags
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.steps.chosen import Steps
    from stepscope.trace.model import TraceData

__all__ = ["WINDOW_ROWS", "Windows", "windows"]

#: The host runs ahead if this share of the steps has device work, …
_DEVICE_STEPS: Final = 0.8
#: … and more than this share of the steps begins on the device after the host began the
#: next one. Definition: docs/how-steps-are-found.md#windows.
_RUN_AHEAD: Final = 0.5

#: Columns of `Windows.rows`.
WINDOW_ROWS: Final[dict[str, pl.DataType]] = {
    "step_row": pl.Int32(),  # row of steps.rows; null without steps
    "start_ps": pl.Int64(),
    "end_ps": pl.Int64(),
    "open_end": pl.Boolean(),  # the last window: nothing shows where it ends
    "flags": pl.List(pl.String),  # first, open_end, cut, compile, autotune, outlier
    "gap_start_ps": pl.Int64(),  # after the marker's end and the last device activity
    "gap_end_ps": pl.Int64(),  # both null where neither is known
    "device_step_time_ps": pl.Int64(),  # largest of its devices; null without any
}


class Windows(Frozen, frozen=True):
    """The windows of one host.

    Attributes:
        rows: One row per step in time order, columns `WINDOW_ROWS`; without steps one
            row for the hull of all events.
        anchor: `host` or `device`: the side whose times begin the windows; `profile`
            without steps.
        has_steps: False where the one row is the whole profile.
        device_spans: One row per (step, device) with activity or a stored span:
            `step_row`, `device`, `first_begin_ps`, `last_end_ps` (null without
            activity), `stored_start_ps`, `stored_end_ps` (the longest stored span of
            the step; null without one), `device_step_time_ps` (the stored span's
            length where there is one, else last end - first begin).
    """

    rows: pl.DataFrame
    anchor: str
    has_steps: bool
    device_spans: pl.DataFrame

    @property
    def measured(self) -> pl.DataFrame:
        """The rows that statistics use: the closed ones where there is at least one."""
        closed = self.rows.filter(~pl.col("open_end"))
        return closed if len(closed) else self.rows


def windows(
    *,
    trace: TraceData,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    host_values: dict[str, StatRows] | Unavailable,
    environment: pl.DataFrame,
    steps: Steps | Unavailable,
    activity_steps: NDArray[np.int32] | Unavailable,
    device_activity: pl.DataFrame | Unavailable,
    launches: pl.DataFrame | Unavailable,
    correlation: Correlation | Unavailable,
) -> Windows | Unavailable:
    """Place the windows and flag what is special about each."""
    if isinstance(steps, Unavailable):
        return _whole_profile(environment)
    activity = None if isinstance(device_activity, Unavailable) else device_activity
    spans = device_spans(
        steps,
        None if isinstance(activity_steps, Unavailable) else activity_steps,
        activity,
    )
    rows, anchor = _placed(steps, spans)
    values = None if isinstance(host_values, Unavailable) else host_values
    flags = window_flags(
        rows,
        steps,
        facts=WindowFacts(trace, events, event_types, event_kinds, values),
        device_activity=activity,
        launches=None if isinstance(launches, Unavailable) else launches,
        correlation=None if isinstance(correlation, Unavailable) else correlation,
    )
    typed = rows.with_columns(flags).select(
        pl.col(name).cast(kind) for name, kind in WINDOW_ROWS.items()
    )
    return Windows(typed, anchor, has_steps=True, device_spans=spans)


def _placed(steps: Steps, spans: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Return the windows in time order without their flags, and their anchor."""
    first, last, busy = _per_step(spans, len(steps.rows))
    anchor = _anchor(steps, first, busy)
    start = _starts(steps, first, last, busy, anchor=anchor)
    worked_until = _worked_until(steps, last, busy)
    end = _ends(steps, start, worked_until)
    order = np.argsort(start, kind="stable")
    closes = np.append(start[order][1:], end[order][-1])
    rows = pl.DataFrame(
        {
            "step_row": order.astype(np.int32),
            "start_ps": start[order],
            "end_ps": closes,
            "open_end": np.arange(len(order)) == len(order) - 1,
        }
    ).hstack(_gaps(start[order], closes, worked_until[order]))
    times = spans.group_by("step_row").agg(pl.col("device_step_time_ps").max())
    return rows.join(times, on="step_row", how="left", maintain_order="left"), anchor


def _whole_profile(environment: pl.DataFrame) -> Windows | Unavailable:
    begin, end = environment.select("begin_ps", "end_ps").row(0)
    if begin is None or end is None:
        return Unavailable(
            code="NOT_RECORDED",
            reason="The profile holds no event at all.",
            remedy="Record while the program works.",
        )
    row = {"start_ps": begin, "end_ps": end, "open_end": False, "flags": []}
    rows = pl.DataFrame(
        {name: [row.get(name)] for name in WINDOW_ROWS}, schema=WINDOW_ROWS
    )
    return Windows(
        rows, "profile", has_steps=False, device_spans=pl.DataFrame(schema=DEVICE_SPANS)
    )


def _per_step(
    spans: pl.DataFrame, steps: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return first begin, last end and presence of device activity in each step."""
    first, last = np.zeros(steps, np.int64), np.zeros(steps, np.int64)
    busy = np.zeros(steps, np.bool_)
    known = (
        spans.filter(pl.col("first_begin_ps").is_not_null())
        .group_by("step_row")
        .agg(pl.col("first_begin_ps").min(), pl.col("last_end_ps").max())
    )
    row = handles(known, "step_row")
    first[row], last[row] = ints(known, "first_begin_ps"), ints(known, "last_end_ps")
    busy[row] = True
    return first, last, busy


def _anchor(steps: Steps, first: NDArray[np.int64], busy: NDArray[np.bool_]) -> str:
    if steps.on_device:
        return "device"
    host = ints(steps.rows, "start_ps")
    if len(host) < 2 or busy.mean() < _DEVICE_STEPS:
        return "host"
    begins = np.maximum.accumulate(np.where(busy, first, np.iinfo(np.int64).min))
    ahead = busy[:-1] & (begins[:-1] >= host[1:])
    return "device" if ahead.mean() > _RUN_AHEAD else "host"


def _starts(
    steps: Steps,
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    busy: NDArray[np.bool_],
    *,
    anchor: str,
) -> NDArray[np.int64]:
    host = ints(steps.rows, "start_ps")
    if anchor == "host" or steps.on_device:
        return host
    # A step without device work takes no device time: its window is empty and lies
    # at the begin of the next one, or after all work if none follows.
    highest = np.iinfo(np.int64).max
    following = np.minimum.accumulate(np.where(busy, first, highest)[::-1])[::-1]
    begins = np.where(busy, first, following)
    begins = np.where(begins == highest, last.max(), begins)
    return np.maximum.accumulate(begins)


def _worked_until(
    steps: Steps, last: NDArray[np.int64], busy: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the later end of marker and device work; the least int64 if unknown."""
    unknown = np.iinfo(np.int64).min
    ends = steps.rows["end_ps"].fill_null(unknown).to_numpy()
    until: NDArray[np.int64] = np.maximum(ends, np.where(busy, last, unknown))
    if steps.source == "device_line":
        # Activity that the producer left out of the last stored step is in no step.
        until[-1:] = ends[-1:]
    return until


def _ends(
    steps: Steps, start: NDArray[np.int64], worked_until: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the time at which each step would end if it were the last one."""
    ends = worked_until
    if steps.last_end_ps is not None and not steps.on_device:
        ends = np.maximum(ends, steps.last_end_ps)
    return np.maximum(ends, start)


def _gaps(
    start: NDArray[np.int64], end: NDArray[np.int64], worked_until: NDArray[np.int64]
) -> pl.DataFrame:
    known = worked_until != np.iinfo(np.int64).min
    gap_start = np.clip(worked_until, start, end)
    return pl.DataFrame(
        [
            nullable("gap_start_ps", gap_start, known),
            nullable("gap_end_ps", end, known),
        ]
    )
