"""Flags of unusual windows; a flagged window stays in the table of windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope._core import numbering
from stepscope.derive.columns.arrays import (
    ACTIVITY_CODES,
    accepted_answer,
    codes,
    handles,
    ints,
    wanted_rows,
)
from stepscope.derive.columns.dense_codes import number_values, totals_by_code
from stepscope.derive.host.values import traced_calls
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag, HostClass
from stepscope.derive.sequences import program_threads
from stepscope.derive.steps.chosen import steps_of_calls
from stepscope.derive.steps.launches import PROGRAM_CALLS
from stepscope.derive.steps.periods import MIN_STEPS, modal_row, rows_likeness
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.reading.nullable import is_true

if TYPE_CHECKING:
    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.steps.chosen import Steps
    from stepscope.trace.model import TraceData

#: Minimum number of other complete steps for detecting warm-up or a cold start.
_MIN_OTHER_STEPS: Final = 8
#: Minimum share of a typical step spent waiting for input, for detecting warm-up.
_MIN_WAIT_SHARE: Final = 0.05
#: A batch counts as ready if its step waits less than this share of the typical wait.
_MAX_READY_WAIT_RATIO: Final = 0.5
#: Maximum probability that the batches of the first steps are ready by chance.
_MAX_CHANCE: Final = 0.05
#: A first step counts as cold if it is longer than this many times the median of the
#: other steps, and longer than `_MIN_COLD_TO_LONGEST` times the longest.
_MIN_COLD_TO_MEDIAN: Final = 3
_MIN_COLD_TO_LONGEST: Final = 2
#: The length of a first step counts as explained if an event that occurs only in it
#: lasts at least this share of the excess over the median.
_MIN_EXPLAINED_SHARE: Final = 0.5

#: Minimum share of its work that a normal step has in common with the usual step.
_MIN_SHARED_WORK: Final = 0.5
#: Several unusual steps are part of the training cycle, for example a weight update
#: after every fourth batch, if they are more than this share of all steps.
_MAX_RARE_SHARE: Final = 0.15
#: Maximum steps × names when steps are compared; names with least time are dropped.
_MAX_CELLS: Final = 20_000_000
#: Arrays (step, type, duration), one entry per execution; step -1 means no step.
Work = tuple["Int32s", "Int32s", "Int64s"]

#: All flags, in the order in which they are listed for a window. Definition:
#: docs/how-steps-are-found.md#windows.
FLAGS: Final = (
    *("first", "open_end", "cut", "compile", "autotune"),
    *("dispatch_only", "unrecorded", "other_kind", "warm_up", "outlier"),
)
#: Flags of windows that no mean includes: their work was not recorded, differs from
#: that of the other windows, or is affected by the start of the recording.
LEFT_OUT: Final = ("unrecorded", "other_kind", "warm_up")

#: Minimum distance of an outlier above the median, in median absolute deviations.
_MIN_OUTLIER_MADS: Final = 5
#: Minimum distance of an outlier above the median, as a share of the median.
_MIN_OUTLIER_SHARE: Final = 0.10
#: Pattern of kernels and host events with which XLA tries out implementations.
_AUTOTUNE: Final = r"redzone_checker|XlaAutotuner"
#: A first or last step counts as incomplete if the share of its calls with device
#: records is below this part of the same share in the other steps.
_MIN_EXECUTED_RATIO: Final = 0.9


def window_flags(
    rows: pl.DataFrame,
    steps: Steps,
    *,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    host_values: dict[str, StatRows] | None,
    complete_until_ps: int | None,
    profiler_work: Spans,
    device_activity: pl.DataFrame | None,
    activity_steps: Int32s | None,
    fewer_records: Bools | None,
    dispatch_only: bool,
) -> pl.Series:
    """Return the flags of each window, in the order of `FLAGS`.

    Args:
        complete_until_ps: Time after which events are missing; None if none are.
        fewer_records: Result of `steps_with_fewer_records`; None without launches.
        dispatch_only: Whether windows show when work was dispatched, not when it ran.
    """
    start, end = ints(rows, "start_ps"), ints(rows, "end_ps")
    step = handles(rows, "step_row")
    n = len(rows)
    is_open = rows["open_end"].to_numpy()
    cut = is_true(steps.rows["cut"])[step].copy()
    missing = np.zeros(n, np.bool_)
    if fewer_records is not None:
        cut[-1] |= fewer_records[-1]
        missing = _unrecorded_steps(fewer_records)[step]
    if complete_until_ps is not None:
        missing |= end > complete_until_ps
    count = len(steps.rows)
    work = None
    if device_activity is not None and activity_steps is not None:
        work = device_work(device_activity, activity_steps)
    if work is None:
        work = host_work(steps, tracks, events, event_kinds)
    is_other = steps_of_other_kinds(work, count, np.arange(count) < count - 1)[step]
    is_other &= ~missing
    early = warm_up(steps, events, event_kinds)[step]
    early |= _filled_windows(start, end, profiler_work) & ~missing
    # Mark windows in which the host compiled, or traced a function again.
    of_compiling = event_kinds.host_class == HostClass.COMPILE
    compiling = wanted_rows(handles(events, "type"), of_compiling)
    if host_values is not None:
        calls, traced = traced_calls(trace, host_values)
        compiling = np.concatenate([compiling, calls[traced]])
    compiles = Spans.from_rows(events, compiling).within(start, end) > 0
    early |= cold_start(start, end, events) & ~(compiles | missing | is_other)
    usual = ~(is_open | missing | is_other | early)
    tunes = _autotune_spans(events, event_types, device_activity)
    marked = {
        "first": np.arange(n) == 0,
        "open_end": is_open,
        "cut": cut,
        "compile": compiles,
        "autotune": tunes.within(start, end) > 0,
        "dispatch_only": np.full(n, dispatch_only),
        "unrecorded": missing,
        "other_kind": is_other,
        "warm_up": early,
        "outlier": _length_outliers(end - start, usual),
    }
    pattern = np.zeros(n, np.uint16)
    for bit, name in enumerate(FLAGS):
        pattern |= marked[name].astype(np.uint16) << bit
    # Build each list of names only once per distinct combination of flags.
    occurring, index = np.unique(pattern, return_inverse=True)
    names = pl.Series(
        [
            [name for bit, name in enumerate(FLAGS) if value >> bit & 1]
            for value in occurring.tolist()
        ],
        dtype=pl.List(pl.String),
    )
    return names.gather(index).alias("flags")


def _filled_windows(start: Int64s, end: Int64s, profiler_work: Spans) -> Bools:
    """Return the windows of which a profiler takes half, if enough others remain."""
    filled: Bools = 2 * profiler_work.within(start, end) > end - start
    return filled & (np.count_nonzero(~filled) >= _MIN_OTHER_STEPS)


def _length_outliers(length: Int64s, sample: Bools) -> Bools:
    if not sample.any():
        return sample
    median = np.median(length[sample])
    deviation = np.median(np.abs(length[sample] - median))
    limit = median + max(_MIN_OUTLIER_MADS * deviation, _MIN_OUTLIER_SHARE * median)
    outliers: Bools = sample & (length > limit)
    return outliers


def _autotune_spans(
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    device_activity: pl.DataFrame | None,
) -> Spans:
    tunes = event_types["name"].str.contains(_AUTOTUNE).to_numpy()
    tuning = wanted_rows(handles(events, "type"), tunes)
    on_host = Spans.from_rows(events, tuning)
    if device_activity is None or not tunes.any():
        return on_host
    kernel = np.flatnonzero(tunes[handles(device_activity, "type")])
    return on_host | Spans.from_rows(device_activity, kernel)


def steps_with_fewer_records(steps: Steps, correlation: Correlation) -> Bools:
    """Return the steps with fewer device records per launch call than the best step."""
    n, launches = len(steps.rows), correlation.launches
    step = steps_of_calls(steps, launches)
    executed = correlation.activity_count_of_launch > 0
    # Leave out calls that never lead to a device record, such as event queries.
    type_ = handles(launches, "type")
    leading = np.zeros(int(type_.max(initial=-1)) + 1, np.bool_)
    leading[type_[executed]] = True
    inside = step >= 0
    called = np.bincount(step[inside & values_by_row(leading, type_)], minlength=n)
    recorded = np.bincount(step[inside & executed], minlength=n)
    share = np.where(called > 0, recorded / np.maximum(called, 1), 1.0)
    fewer: Bools = share < _MIN_EXECUTED_RATIO * share[called > 0].max(initial=0.0)
    return fewer


def _unrecorded_steps(fewer: Bools) -> Bools:
    """Return the first and the last steps with fewer device records than the others.

    The device's records may begin later or end earlier than the host's. The very last
    step is never returned; `cut` and `open_end` cover it.
    """
    unrecorded = np.logical_and.accumulate(fewer)
    unrecorded |= np.logical_and.accumulate(fewer[::-1])[::-1]
    unrecorded[-1:] = False
    return unrecorded


def steps_of_other_kinds(work: Work | None, steps: int, judged: Bools) -> Bools:
    """Return the few steps whose work clearly differs from the work of the other steps.

    Two steps are compared by how often each name occurs, weighted by its mean duration.

    Args:
        work: What each step executed; None if unknown.
        judged: By step, whether the step was recorded completely.
    """
    differs = np.zeros(steps, np.bool_)
    if work is None or judged.sum() <= MIN_STEPS or not len(work[0]):
        return differs
    # Build a table of occurrences times mean duration, by step and name.
    step, of_type, dur = work
    name = number_values(of_type)
    sums = totals_by_code(name.code, dur, count=name.count, where=step >= 0)
    total = sums.total.astype(np.float64)
    used = np.flatnonzero(sums.count)
    mean = np.maximum(total[used] / sums.count[used], 1)
    kept = np.argsort(-total[used], kind="stable")[: max(1, _MAX_CELLS // steps)]
    column = np.full(name.count, -1, np.int32)
    column[used[kept]] = np.arange(len(kept))
    count = np.zeros((steps, len(kept)), np.int64)
    accepted_answer(
        numbering.tally_names(np.ascontiguousarray(step), name.code, column, count)
    )
    weighed: Int64s = (count * mean[kept]).astype(np.int64)
    table = weighed[judged]
    different = rows_likeness(table, table[modal_row(table)]) < _MIN_SHARED_WORK
    number = int(different.sum())
    if (
        number <= max(1.0, _MAX_RARE_SHARE * len(table))
        and len(table) - number >= MIN_STEPS
    ):
        differs[np.flatnonzero(judged)[different]] = True
    return differs


def device_work(device_activity: pl.DataFrame, activity_steps: Int32s) -> Work | None:
    """Return the kernels and collectives of each step; None if no step has any."""
    kernel = np.isin(
        codes(device_activity, "kind"),
        [ACTIVITY_CODES["kernel"], ACTIVITY_CODES["collective"]],
    )
    step = np.where(kernel, activity_steps, np.int32(-1))
    if not (step >= 0).any():
        return None
    return step, handles(device_activity, "type"), ints(device_activity, "dur_ps")


def host_work(
    steps: Steps, tracks: pl.DataFrame, events: pl.DataFrame, event_kinds: EventKinds
) -> Work | None:
    """Return the ops and program calls on each step's thread until the next step.

    The result is None if no step boundary is on a host thread.
    """
    if steps.on_device or steps.rows["track"].null_count():
        return None
    wanted = event_kinds.is_op() | event_kinds.has(PROGRAM_CALLS)
    wanted &= ~event_kinds.has(EventFlag.DATASET | EventFlag.ALLOCATOR)
    carrier, boundary = handles(steps.rows, "track"), ints(steps.rows, "start_ps")
    threads = np.unique(carrier)
    rows, of_step = [], []
    for thread in threads[program_threads(tracks)[threads]].tolist():
        own_steps = np.flatnonzero(carrier == thread)
        begin, end = (int(tracks[f"event_{edge}"][thread]) for edge in ("begin", "end"))
        row = wanted_rows(handles(events, "type"), wanted, begin, end)
        start_ps = ints(events, "start_ps")[row]
        step = np.searchsorted(boundary[own_steps], start_ps, side="right") - 1
        rows.append(row[step >= 0])
        of_step.append(own_steps[step[step >= 0]])
    row = np.concatenate([np.empty(0, np.int64), *rows])
    if not len(row):
        return None
    return (
        np.concatenate(of_step).astype(np.int32),
        handles(events, "type")[row],
        ints(events, "dur_ps")[row],
    )


def warm_up(steps: Steps, events: pl.DataFrame, event_kinds: EventKinds) -> Bools:
    """Return the steps before the first step with a typical wait for input.

    The typical wait is the median of the second half of the steps. The last step is
    ignored because it may be cut.
    """
    start = ints(steps.rows, "start_ps")
    n = len(start)
    is_warm_up = np.zeros(n, np.bool_)
    if steps.on_device or n <= _MIN_OTHER_STEPS:
        return is_warm_up
    wait = _input_waits(steps, events, event_kinds).within(start[:-1], start[1:])
    typical = float(np.median(wait[(n - 1) // 2 :]))
    if typical < _MIN_WAIT_SHARE * float(np.median(np.diff(start))):
        return is_warm_up
    ready = wait < _MAX_READY_WAIT_RATIO * typical
    first = int(np.flatnonzero(~ready)[0])
    if (
        n - 1 - first >= _MIN_OTHER_STEPS
        and ((int(ready[first:].sum()) + 1) / (len(ready[first:]) + 2)) ** first
        <= _MAX_CHANCE
    ):
        is_warm_up[:first] = True
    return is_warm_up


def cold_start(start_ps: Int64s, end_ps: Int64s, events: pl.DataFrame) -> Bools:
    """Return True for a first window that is far longer without a known cause.

    Events that no other window has, such as loading a checkpoint, are causes. The last
    window is ignored.

    Args:
        start_ps: Start of each window, ascending.
    """
    n = len(start_ps)
    is_cold = np.zeros(n, np.bool_)
    if n - 2 < _MIN_OTHER_STEPS:
        return is_cold
    length = (end_ps - start_ps)[:-1]
    later = length[1:]
    usual = float(np.median(later))
    if length[0] <= _MIN_COLD_TO_MEDIAN * usual or length[
        0
    ] <= _MIN_COLD_TO_LONGEST * int(later.max()):
        return is_cold
    begin, dur = ints(events, "start_ps"), ints(events, "dur_ps")
    min_ps = _MIN_EXPLAINED_SHARE * (length[0] - usual)
    inside = (begin >= start_ps[0]) & (begin + dur <= end_ps[0]) & (dur >= min_ps)
    types = handles(events, "type")
    reasons = np.unique(types[inside])
    repeated = np.unique(types[np.isin(types, reasons) & (begin >= end_ps[0])])
    is_cold[0] = len(repeated) == len(reasons)
    return is_cold


def _input_waits(steps: Steps, events: pl.DataFrame, event_kinds: EventKinds) -> Spans:
    waits = event_kinds.host_class == HostClass.INPUT_WAIT
    if not waits.any():
        return Spans.empty()
    types, track = handles(events, "type"), handles(events, "track")
    spans = []
    for thread in steps.rows["track"].drop_nulls().unique().sort().to_list():
        # The rows of one track are consecutive.
        begin, end = np.searchsorted(track, np.array([thread, thread + 1], track.dtype))
        row = wanted_rows(types, waits, int(begin), int(end))
        spans.append(Spans.from_rows(events, row))
    return Spans.union_of(spans)
