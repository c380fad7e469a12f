"""`windows`: the wall time of each step, from its start to the next step's start.

The windows of a host are consecutive, so that every gap between two steps lies inside
a window. Without steps the whole profile is one window.

Definition: docs/how-steps-are-found.md#windows.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import extremes_by
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.derive.sequences import instruction_sequence
from stepscope.derive.step_windows.anchor import (
    StepKernels,
    anchor_of,
    only_dispatched,
    step_instructions,
    step_kernels,
    work_starts,
)
from stepscope.derive.step_windows.device_spans import DEVICE_SPANS, device_spans
from stepscope.derive.step_windows.flags import LEFT_OUT, WindowFacts, window_flags
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import filled, nullable
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.steps.chosen import Steps
    from stepscope.trace.model import TraceData

#: What lies between two steps is less than this share of them: the range is the step.
_BETWEEN: Final = 0.05
#: A whole step begins this share of the events of the one that begins the fewest.
_WHOLE: Final = 0.9

#: Columns of `Windows.rows`.
WINDOW_ROWS: Final[dict[str, pl.DataType]] = {
    "step_row": pl.Int32(),  # row of steps.rows; null without steps
    "start_ps": pl.Int64(),
    "end_ps": pl.Int64(),
    "open_end": pl.Boolean(),  # the last window: nothing shows where it ends
    "flags": pl.List(pl.String),  # some of FLAGS, in their order
    "gap_start_ps": pl.Int64(),  # after the marker's end and the last device activity
    "gap_end_ps": pl.Int64(),  # both null where neither is known
    "device_step_time_ps": pl.Int64(),  # largest of its devices; null without any
    # From the step's begin on the host to the next one's there; null of the last one,
    # and where the boundaries are device times.
    "host_period_ps": pl.Int64(),
}
_APART: Final = frozenset(LEFT_OUT)


class Windows(Frozen, frozen=True, dict=True):
    """The windows of one host.

    Attributes:
        rows: One row per step in time order, columns `WINDOW_ROWS`; without steps one
            row for the hull of all events.
        anchor: Whose times begin the windows: `host`, `device`, `executor` (threads of
            the host that run compiled programs), or `profile` without steps.
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

    @cached_property
    def typical(self) -> NDArray[np.bool_]:
        """Which of the rows statistics use: see `are_typical`."""
        return are_typical(self.rows)

    @cached_property
    def measured(self) -> pl.DataFrame:
        """The rows that statistics use."""
        return _where(self.rows, self.typical)

    @cached_property
    def judged(self) -> Spans:
        """The instants of these rows."""
        starts, ends = (ints(self.measured, it) for it in ("start_ps", "end_ps"))
        return Spans.from_events(starts, ends - starts)

    def measured_of(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows whose `window`, a row of `rows`, is one of the typical."""
        return _where(frame, self.typical[ints(frame, "window")])


#: Why nothing can be said of a recording without events.
NOTHING_RECORDED: Final = Unavailable(
    code="NOT_RECORDED",
    reason="The profile holds no event at all.",
    remedy="Record while the program works.",
)


def are_typical(rows: pl.DataFrame) -> NDArray[np.bool_]:
    """Tell closed windows of the main kind; without any the closed ones, else all.

    Args:
        rows: One row per window or more, with `open_end` and `flags`.
    """
    closed = ~rows["open_end"].to_numpy()
    # Windows are few, and an expression over lists of texts takes long to begin.
    usual = [_APART.isdisjoint(flags) for flags in rows["flags"].to_list()]
    for wanted in (closed & np.array(usual, np.bool_), closed):
        if wanted.any():
            return wanted
    return np.ones(len(rows), np.bool_)


def typical(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the windows that statistics use: see `are_typical`."""
    return _where(rows, are_typical(rows))


def _where(rows: pl.DataFrame, wanted: NDArray[np.bool_]) -> pl.DataFrame:
    return rows if wanted.all() else rows.filter(wanted)


def windows(
    *,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    host_values: dict[str, StatRows] | Unavailable,
    environment: pl.DataFrame,
    steps: Steps | Unavailable,
    activity_steps: NDArray[np.int32] | Unavailable,
    device_activity: pl.DataFrame | Unavailable,
    correlation: Correlation | Unavailable,
) -> Windows | Unavailable:
    """Place the windows and flag what is special about each."""
    if isinstance(steps, Unavailable):
        return _whole_profile(environment)
    activity = None if isinstance(device_activity, Unavailable) else device_activity
    correlated = None if isinstance(correlation, Unavailable) else correlation
    of_steps = None if isinstance(activity_steps, Unavailable) else activity_steps
    spans = device_spans(steps, of_steps, activity)
    values = None if isinstance(host_values, Unavailable) else host_values
    instructions = None
    if activity is None and values is not None:
        executed = values[StatKey.HLO_OP].owner
        instructions = instruction_sequence(tracks, events, event_kinds, executed)
    run = step_kernels(len(steps.rows), of_steps, activity, correlated)
    if instructions is not None:
        run = step_instructions(steps, instructions) or run
    rows, anchor = _placed(steps, spans, run)
    if (
        activity is None
        and anchor == "host"
        and closes_itself(steps, events, event_kinds)
    ):
        rows = rows.with_columns(open_end=False)
    flags = window_flags(
        rows,
        steps,
        facts=WindowFacts(
            trace,
            tracks,
            events,
            event_types,
            event_kinds,
            values,
            environment["complete_until_ps"].item(),
        ),
        device_activity=activity,
        activity_steps=of_steps,
        correlation=correlated,
        unseen=anchor == "host" and only_dispatched(steps, instructions),
    )
    typed = rows.with_columns(flags).select(
        pl.col(name).cast(kind) for name, kind in WINDOW_ROWS.items()
    )
    return Windows(typed, anchor, has_steps=True, device_spans=spans)


def _placed(
    steps: Steps, spans: pl.DataFrame, run: StepKernels
) -> tuple[pl.DataFrame, str]:
    last, busy = _last_activity(spans, len(steps.rows))
    anchor = anchor_of(steps, run)
    if anchor == "executor":
        last, busy = run.last_ps, run.any
    host = ints(steps.rows, "start_ps")
    by_host = anchor == "host" or steps.on_device
    start = host if by_host else work_starts(run)
    # The later end of marker and device work; the least int64 if unknown.
    unknown = np.iinfo(np.int64).min
    ends = filled(steps.rows["end_ps"], unknown)
    worked_until: NDArray[np.int64] = np.maximum(ends, np.where(busy, last, unknown))
    if steps.source == "device_line":
        # Activity that the producer left out of the last stored step is in no step.
        worked_until[-1:] = ends[-1:]
    # The time at which each step would end if it were the last one.
    closing = worked_until
    if steps.last_end_ps is not None and not steps.on_device:
        closing = np.maximum(closing, steps.last_end_ps)
    end = np.maximum(closing, start)
    order = np.argsort(start, kind="stable")
    closes = np.append(start[order][1:], end[order][-1])
    period = np.append(np.diff(host), 0)
    known = np.full(len(host), not steps.on_device)
    known[-1:] = False
    until = worked_until[order]
    has_end = until != np.iinfo(np.int64).min
    gap_start = np.clip(until, start[order], closes)
    rows = pl.DataFrame(
        {
            "step_row": order.astype(np.int32),
            "start_ps": start[order],
            "end_ps": closes,
            "open_end": np.arange(len(order)) == len(order) - 1,
            "host_period_ps": nullable("period", period[order], known[order]),
            "gap_start_ps": nullable("gap_start_ps", gap_start, has_end),
            "gap_end_ps": nullable("gap_end_ps", closes, has_end),
        }
    )
    times = extremes_by(
        handles(spans, "step_row"), ints(spans, "device_step_time_ps"), count=len(order)
    )
    longest = nullable("longest", times.greatest[order], times.count[order] > 0)
    return rows.with_columns(device_step_time_ps=longest), anchor


def _whole_profile(environment: pl.DataFrame) -> Windows | Unavailable:
    begin, end = environment.select("begin_ps", "end_ps").row(0)
    if begin is None or end is None:
        return NOTHING_RECORDED
    row = {"start_ps": begin, "end_ps": end, "open_end": False, "flags": []}
    rows = pl.DataFrame(
        {name: [row.get(name)] for name in WINDOW_ROWS}, schema=WINDOW_ROWS
    )
    return Windows(
        rows, "profile", has_steps=False, device_spans=pl.DataFrame(schema=DEVICE_SPANS)
    )


def _last_activity(
    spans: pl.DataFrame, steps: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    last, busy = np.zeros(steps, np.int64), np.zeros(steps, np.bool_)
    known = (
        spans.filter(pl.col("last_end_ps").is_not_null())
        .group_by("step_row")
        .agg(pl.col("last_end_ps").max())
    )
    row = handles(known, "step_row")
    last[row], busy[row] = ints(known, "last_end_ps"), True
    return last, busy


def closes_itself(steps: Steps, events: pl.DataFrame, event_kinds: EventKinds) -> bool:
    """Return whether the last step is a whole one of PyTorch's profiler.

    Work of a device may go on after it: that is not asked here.
    """
    rows = steps.rows
    if rows.height < 2 or rows.select("event", "end_ps").null_count().row(0) != (0, 0):
        return False
    marks = ints(rows, "event")
    types = handles(events, "type")[marks]
    if not event_kinds.has(EventFlag.PROFILER_STEP)[types].all():
        return False
    start, end = ints(rows, "start_ps"), ints(rows, "end_ps")
    if ((start[1:] - end[:-1]) > _BETWEEN * (start[1:] - start[:-1])).any():
        return False
    begun = np.sort(
        ints(events, "start_ps")[
            handles(events, "track") == int(steps.rows["track"][-1])
        ]
    )
    held = np.searchsorted(begun, end) - np.searchsorted(begun, start)
    return bool(held[-1] >= _WHOLE * held[:-1].min())
