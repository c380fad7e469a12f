"""`windows`: the wall time of each step, from its start to the next step's start.

The windows of a host are consecutive, so that every gap between two steps lies inside a
window. If there are no steps, the whole profile is one window.

Definition: docs/how-steps-are-found.md#windows.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import ACTIVITY_CODES, codes, handles, ints
from stepscope.derive.columns.dense_codes import (
    distinct_runs,
    extremes_by_code,
    time_ranges_by_code,
    totals_by_code,
)
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.reasons import WHY
from stepscope.derive.sequences import instruction_sequence
from stepscope.derive.step_windows.closing import is_last_closed
from stepscope.derive.step_windows.device_spans import DEVICE_SPANS, device_spans
from stepscope.derive.step_windows.flags import (
    LEFT_OUT,
    steps_with_fewer_records,
    window_flags,
)
from stepscope.derive.steps.periods import MIN_STEPS
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import fill_nulls, nullable_series
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.sequences import SymbolSequence
    from stepscope.derive.steps.chosen import Steps
    from stepscope.trace.model import TraceData

#: The host runs ahead only if at least this share of steps has kernels on the stream.
_MIN_DEVICE_STEPS: Final = 0.8
#: The host runs ahead only if more than this share of steps, except the last, is late.
_MIN_LATE_STEPS: Final = 0.5
#: A step is late if its kernels outlast it on the host by this share of its length.
_MIN_LATE_SHARE: Final = 0.05
#: A device waits for a step if it idles for this share of the step before the step's
#: first launch call.
_MAX_WAIT_SHARE: Final = 0.05
#: Minimum launches in all late steps together; fewer may belong to other steps.
_MIN_LAUNCHES: Final = 2


class StepKernels(Frozen, frozen=True):
    """The kernels of each step on the busiest compute stream of the busiest device.

    If no device is recorded, the HLO instructions that host threads execute in compiled
    programs replace the kernels.

    Attributes:
        side: `device` or `executor`.
        first_ps: By row of steps, start of the first kernel; 0 without a kernel.
        last_ps: By row of steps, end of the last kernel; 0 without a kernel.
        launches: By row of steps, number of launch calls of the kernels; an unrecorded
            call of a kernel counts as one. For an executor: number of instructions.
        called_ps: By row of steps, start of the kernels' first launch call; 0 if
            unknown.
    """

    side: str
    first_ps: Int64s
    last_ps: Int64s
    launches: Int64s
    called_ps: Int64s

    @property
    def any(self) -> Bools:
        """By row of steps, whether the step has a kernel (or instruction)."""
        return self.launches > 0


#: Markers only dispatch steps if more than this share of work ran after all markers.
_MIN_WORK_AFTER_MARKERS: Final = 0.5
#: Instructions define steps only if this share of the work repeats in every step;
#: markers do if this share of the steps runs this share of the usual work inside.
_MIN_EQUAL_WORK: Final = 0.9


def step_instructions(steps: Steps, instructions: SymbolSequence) -> StepKernels | None:
    """Return when the executor ran each step; None if steps cannot be distinguished.

    Each step starts at an instruction that ran once per step, or in all but the last
    step because the recording ended. If several instructions qualify, the earliest is
    used. If that instruction ran before its step began on the host, or if the program
    waits for each step inside its marker, the result is None.
    """
    host = ints(steps.rows, "start_ps")
    n = len(host)
    if n < MIN_STEPS or _end_synchronised(steps, instructions):
        return None
    for runs in (n, n - 1):
        symbols = np.flatnonzero(instructions.counts == runs)
        if not len(symbols) or not _repeats_evenly(instructions, runs):
            continue
        entries = min(
            instructions.symbol_entries(symbols), key=lambda rows: int(rows[0])
        )
        first = instructions.at_ps[entries]
        if (first < host[:runs]).any():
            return None
        # Find the end of the last instruction before each next step.
        after = np.append(entries[1:], len(instructions))
        last: Int64s = _busy_until(instructions)[after - 1]
        count = np.diff(np.append(entries, len(instructions)))
        missing = (0, n - runs)
        columns = (first, last, count, np.zeros(runs, np.int64))
        return StepKernels("executor", *(np.pad(each, missing) for each in columns))
    return None


def _busy_until(instructions: SymbolSequence) -> Int64s:
    """Return by instruction when all instructions that have begun have ended."""
    pauses = instructions.at_ps[1:] - instructions.gap_ps[1:]
    return np.append(pauses, instructions.end_ps)


def _end_synchronised(steps: Steps, instructions: SymbolSequence) -> bool:
    """Return whether nearly every step runs all of its instructions in its marker."""
    if steps.rows["end_ps"].null_count():
        return False
    ends = ints(steps.rows, "end_ps")
    begun = np.searchsorted(instructions.at_ps, ends)
    inside = begun - np.searchsorted(instructions.at_ps, ints(steps.rows, "start_ps"))
    whole = inside >= max(1.0, _MIN_EQUAL_WORK * float(np.median(inside)))
    whole &= _busy_until(instructions)[begun - 1] <= ends
    return bool(whole.mean() >= _MIN_EQUAL_WORK)


def only_dispatched(steps: Steps, instructions: SymbolSequence | None) -> bool:
    """Return whether most of the work ran after the last step's marker."""
    ends = steps.rows["end_ps"]
    if instructions is None or ends.null_count() or len(ends) < 2:
        return False
    weight = instructions.weight
    behind = instructions.at_ps >= int(ints(steps.rows, "end_ps").max())
    return float(weight[behind].sum()) > _MIN_WORK_AFTER_MARKERS * float(weight.sum())


def _repeats_evenly(instructions: SymbolSequence, runs: int) -> bool:
    """Return whether nearly all work runs a multiple of `runs` or `runs + 1` times."""
    often = instructions.counts[instructions.symbol]
    multiple = (often % runs == 0) | (often % (runs + 1) == 0)
    weight = instructions.weight
    return float(weight[multiple].sum()) >= _MIN_EQUAL_WORK * float(weight.sum())


def step_kernels(
    steps: int,
    activity_steps: Int32s | None,
    device_activity: pl.DataFrame | None,
    correlation: Correlation | None,
) -> StepKernels:
    """Find the kernels of each step on the stream with the most kernel time."""
    none = np.zeros(steps, np.int64)
    if activity_steps is None or device_activity is None:
        return StepKernels("device", none, none, none, none)
    # Keep the step of kernels on one stream of the busiest device; others get -1.
    is_kernel = codes(device_activity, "kind") == (ACTIVITY_CODES["kernel"])
    chosen = is_kernel & (activity_steps >= 0)
    for column in ("device", "track") if chosen.any() else ():
        handle = handles(device_activity, column)
        totals = totals_by_code(
            handle,
            ints(device_activity, "dur_ps"),
            count=int(handle.max()) + 1,
            where=chosen,
        )
        # Add the count, so that kernels of length 0 outweigh a stream without kernels.
        chosen &= handle == int(np.argmax(totals.total + totals.count))
    step = np.where(chosen, activity_steps, np.int32(-1))
    ranges = time_ranges_by_code(
        step,
        ints(device_activity, "start_ps"),
        ints(device_activity, "dur_ps"),
        count=steps,
    )
    launches, called = ranges.count, none
    if correlation is not None:
        of_steps = step >= 0
        launch = np.where(of_steps, correlation.launch_of_activity, np.int32(-1))
        # Nearly all calls belong to one step; `further` has the steps of all others.
        executions = len(correlation.activity_count_of_launch)
        runs = distinct_runs(step, launch, groups=steps, executions=executions)
        owner = runs.owner
        launches = runs.count + np.bincount(
            step[of_steps & (launch < 0)], minlength=steps
        )
        owned = owner >= 0
        called = np.full(steps, np.iinfo(np.int64).max)
        call_ps = ints(correlation.launches, "start_ps")[owned]
        np.minimum.at(called, owner[owned], call_ps)
    return StepKernels("device", ranges.first_ps, ranges.last_ps, launches, called)


def window_anchor(steps: Steps, run: StepKernels) -> str:
    """Return where the windows get their start times: `device`, `executor` or `host`.

    The side is `device` if step boundaries are device times. The side is `run.side` if
    most steps end there after the next step's host start. Else it is `host`.
    """
    if steps.on_device:
        return "device"
    host = ints(steps.rows, "start_ps")
    busy = run.any
    if len(host) < 2 or busy.mean() < _MIN_DEVICE_STEPS:
        return "host"
    past = run.last_ps[:-1] - host[1:]
    late = busy[:-1] & (past > _MIN_LATE_SHARE * np.diff(host))
    proven = int(run.launches[:-1][late].sum()) >= _MIN_LAUNCHES
    return run.side if proven and late.mean() > _MIN_LATE_STEPS else "host"


def work_starts(run: StepKernels, host: Int64s) -> Int64s:
    """Return the start of each step's first kernel, as an ascending sequence.

    A step without a kernel has an empty window, which lies at the start of the next
    step with a kernel, or after all kernels if none follows. If the device usually
    waits for the first launch call, for example because the batch is late, the wait
    belongs to the step: it begins when the previous step's kernels end, the first step
    on the host.

    Args:
        host: Start of each step on the host.
    """
    highest = np.iinfo(np.int64).max
    own = np.where(run.any, run.first_ps, highest)
    begins = np.where(run.any, own, np.minimum.accumulate(own[::-1])[::-1])
    begins = np.where(begins == highest, run.last_ps.max(), begins)
    begins = np.maximum.accumulate(begins)
    ended, period = np.maximum.accumulate(run.last_ps)[:-1], np.diff(begins)
    waited = np.minimum(begins[1:], run.called_ps[1:]) - ended
    if (waited > _MAX_WAIT_SHARE * period).mean() > _MIN_LATE_STEPS:
        # Later, the first kernel waits for kernels of earlier steps.
        if begins[0] - run.called_ps[0] <= _MAX_WAIT_SHARE * float(np.median(period)):
            begins[0] = min(begins[0], host[0])
        begins[1:] = np.clip(ended, begins[0], begins[1:])
    return begins


#: Columns of `Windows.rows`.
WINDOW_ROWS: Final[dict[str, pl.DataType]] = {
    "step_row": pl.Int32(),  # row of steps.rows; null without steps
    "start_ps": pl.Int64(),
    "end_ps": pl.Int64(),
    "open_end": pl.Boolean(),  # True for the last window if its end is unknown
    "flags": pl.List(pl.String),  # names from FLAGS, in the order of FLAGS
    "gap_start_ps": pl.Int64(),  # later of: marker end, end of last device activity
    "gap_end_ps": pl.Int64(),  # end of the window; null if gap_start_ps is unknown
    "device_step_time_ps": pl.Int64(),  # maximum over devices; null without any
    # Time between the starts of this and the next step on the host; null for the last
    # step, and if the boundaries are device times.
    "host_period_ps": pl.Int64(),
}
_LEFT_OUT_FLAGS: Final = frozenset(LEFT_OUT)


class Windows(Frozen, frozen=True, dict=True):
    """The windows of one host.

    Attributes:
        rows: One row per step in time order, columns `WINDOW_ROWS`. If there are no
            steps, one row for the time range of all events.
        anchor: Source of the start times: `host`, `device`, `executor` (threads of the
            host that run compiled programs), or `profile` without steps.
        has_steps: False if the only row is the whole profile.
        device_spans: One row per (step, device) with activity or a stored span:
            `step_row`, `device`, `first_begin_ps`, `last_end_ps` (null without
            activity), `stored_start_ps`, `stored_end_ps` (the longest stored span of
            the step; null without one), `device_step_time_ps` (the length of the stored
            span if there is one, else last end - first begin).
    """

    rows: pl.DataFrame
    anchor: str
    has_steps: bool
    device_spans: pl.DataFrame

    @cached_property
    def typical(self) -> Bools:
        """Mask of the rows that statistics use: see `are_typical`."""
        return are_typical(self.rows)

    @cached_property
    def measured(self) -> pl.DataFrame:
        """The rows that statistics use."""
        return _rows_with_window(self.rows, self.typical)

    @cached_property
    def judged(self) -> Spans:
        """The times covered by the windows that statistics use."""
        return Spans.from_bounds(*window_bounds(self.measured))

    def rows_of_measured(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of `frame` whose window (row of `rows`) is typical."""
        return _rows_with_window(frame, self.typical[ints(frame, "window")])


NOTHING_RECORDED: Final = WHY["nothing_recorded"]


def are_typical(rows: pl.DataFrame) -> Bools:
    """Return a mask of the typical windows: complete ones without a flag in `LEFT_OUT`.

    If no window is typical, return the complete windows whose records are all there,
    else the complete windows; if none is complete, all.
    `rows` has at least one window, with `open_end` and `flags`.
    """
    closed = ~rows["open_end"].to_numpy()
    # Loop in Python: windows are few, and polars expressions over lists start slowly.
    flags_of_rows = rows["flags"].to_list()
    usual = [_LEFT_OUT_FLAGS.isdisjoint(flags) for flags in flags_of_rows]
    recorded = ["unrecorded" not in flags for flags in flags_of_rows]
    for kept in (usual, recorded, [True] * len(rows)):
        wanted = closed & np.array(kept, np.bool_)
        if wanted.any():
            return wanted
    return np.ones(len(rows), np.bool_)


def typical_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the windows that statistics use: see `are_typical`."""
    return _rows_with_window(rows, are_typical(rows))


def window_range(rows: pl.DataFrame) -> tuple[int, int]:
    """Return the start of the first window and the end of the last one."""
    return int(ints(rows, "start_ps").min()), int(ints(rows, "end_ps").max())


def window_bounds(rows: pl.DataFrame) -> tuple[Int64s, Int64s]:
    """Return the starts and the ends of some windows."""
    return ints(rows, "start_ps"), ints(rows, "end_ps")


def windows_of_times(rows: pl.DataFrame, times_ps: Int64s) -> Int64s:
    """Return the row of `rows` (in time order) that contains each time, or -1."""
    window = np.searchsorted(ints(rows, "start_ps"), times_ps, side="right") - 1
    inside = times_ps < np.append(ints(rows, "end_ps"), 0)[window]
    return np.where(inside & (window >= 0), window, -1)


def _rows_with_window(rows: pl.DataFrame, wanted: Bools) -> pl.DataFrame:
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
    activity_steps: Int32s | Unavailable,
    device_activity: pl.DataFrame | Unavailable,
    correlation: Correlation | Unavailable,
    recording_end: int | Unavailable | None,
    profiler_work: Spans,
) -> Windows | Unavailable:
    """Find the windows of the steps and flag the unusual ones."""
    if isinstance(steps, Unavailable):
        begin, end = environment.select("begin_ps", "end_ps").row(0)
        if begin is None or end is None:
            return NOTHING_RECORDED
        row = {"start_ps": begin, "end_ps": end, "open_end": False, "flags": []}
        profile_row = pl.DataFrame(
            {name: [row.get(name)] for name in WINDOW_ROWS}, schema=WINDOW_ROWS
        )
        return Windows(
            profile_row,
            "profile",
            has_steps=False,
            device_spans=pl.DataFrame(schema=DEVICE_SPANS),
        )
    work = None if isinstance(device_activity, Unavailable) else device_activity
    correlated = None if isinstance(correlation, Unavailable) else correlation
    of_steps = None if isinstance(activity_steps, Unavailable) else activity_steps
    is_ended = isinstance(recording_end, int)
    spans = device_spans(steps, of_steps, work, is_ended=is_ended)
    values = None if isinstance(host_values, Unavailable) else host_values
    instructions = None
    if work is None and values is not None:
        executed = values[StatKey.HLO_OP].owner
        instructions = instruction_sequence(tracks, events, event_kinds, executed)
    run = step_kernels(len(steps.rows), of_steps, work, correlated)
    if instructions is not None:
        run = step_instructions(steps, instructions) or run
    rows, anchor = _place_windows(steps, spans, run, is_ended=is_ended)
    fewer = None if correlated is None else steps_with_fewer_records(steps, correlated)
    if is_ended or is_last_closed(rows, steps, events, of_steps, fewer):
        rows = rows.with_columns(open_end=False)
    flags = window_flags(
        rows,
        steps,
        trace=trace,
        tracks=tracks,
        events=events,
        event_types=event_types,
        event_kinds=event_kinds,
        host_values=values,
        complete_until_ps=environment["complete_until_ps"].item(),
        profiler_work=profiler_work,
        device_activity=work,
        activity_steps=of_steps,
        fewer_records=fewer,
        dispatch_only=anchor == "host" and only_dispatched(steps, instructions),
    )
    typed = rows.with_columns(flags).select(
        pl.col(name).cast(kind) for name, kind in WINDOW_ROWS.items()
    )
    return Windows(typed, anchor, has_steps=True, device_spans=spans)


def _place_windows(
    steps: Steps, spans: pl.DataFrame, run: StepKernels, *, is_ended: bool
) -> tuple[pl.DataFrame, str]:
    count = len(steps.rows)
    last, busy = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    known_ends = (
        spans.filter(pl.col("last_end_ps").is_not_null())
        .group_by("step_row")
        .agg(pl.col("last_end_ps").max())
    )
    row = handles(known_ends, "step_row")
    last[row], busy[row] = ints(known_ends, "last_end_ps"), True
    anchor = window_anchor(steps, run)
    if anchor == "executor":
        last, busy = run.last_ps, run.any
    host = ints(steps.rows, "start_ps")
    by_host = anchor == "host" or steps.on_device
    start = host if by_host else work_starts(run, host)
    # Find the later end, of marker or device work; lowest int64 if both are unknown.
    unknown = np.iinfo(np.int64).min
    ends = fill_nulls(steps.rows["end_ps"], unknown)
    worked_until: Int64s = np.maximum(ends, np.where(busy, last, unknown))
    if steps.source == "device_line":
        # Activity after the end of the last stored step belongs to no step. The step
        # line may include the work that ends the recording.
        worked_until[-1] = ends[-1]
        if is_ended and busy[-1]:
            worked_until[-1] = min(ends[-1], last[-1])
    # Find the time at which each step would end if it were the last step.
    closing = worked_until
    if steps.last_end_ps is not None and not steps.on_device:
        closing = np.maximum(closing, steps.last_end_ps)
    if not by_host and busy[-1]:
        closing[-1] = last[-1]
    # Starts ascend, on the host as on the device.
    closes = np.append(start[1:], max(closing[-1], start[-1]))
    has_period = np.full(count, not steps.on_device)
    has_period[-1] = False
    has_end = worked_until != unknown
    gap_start = np.clip(worked_until, start, closes)
    times = extremes_by_code(
        handles(spans, "step_row"), ints(spans, "device_step_time_ps"), count=count
    )
    period = np.append(np.diff(host), 0)
    longest = nullable_series("longest", times.greatest, times.count > 0)
    rows = pl.DataFrame(
        {
            "step_row": np.arange(count, dtype=np.int32),
            "start_ps": start,
            "end_ps": closes,
            "open_end": np.arange(count) == count - 1,
            "host_period_ps": nullable_series("period", period, has_period),
            "gap_start_ps": nullable_series("gap_start_ps", gap_start, has_end),
            "gap_end_ps": nullable_series("gap_end_ps", closes, has_end),
            "device_step_time_ps": longest,
        }
    )
    return rows, anchor
