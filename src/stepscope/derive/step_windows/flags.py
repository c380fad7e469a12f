"""Flags of windows: reasons to look at a window separately, never to drop it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints, picked
from stepscope.derive.host.values import text_codes
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import HostClass
from stepscope.derive.step_windows.kinds import device_work, host_work, other_kinds
from stepscope.derive.step_windows.warm_up import cold_start, warm_up
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import by_row
from stepscope.trace.reading.nullable import is_true
from stepscope.trace.reading.stat_keys import StatKey

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.steps.chosen import Steps
    from stepscope.trace.model import TraceData

#: Every flag, in the order in which a window lists them. Definition:
#: docs/how-steps-are-found.md#windows.
FLAGS: Final = (
    *("first", "open_end", "cut", "compile", "autotune"),
    *("dispatch_only", "unrecorded", "other_kind", "warm_up", "outlier"),
)
#: Windows with one of these are in no mean: work in them was not recorded, they do
#: other work than the others, or show what the recording's own start did.
LEFT_OUT: Final = ("unrecorded", "other_kind", "warm_up")

#: A window this many median absolute deviations above the median, …
_OUTLIER_MADS: Final = 5
#: … and by more than this share of the median, is an outlier.
_OUTLIER_SHARE: Final = 0.10
#: Kernels and host events of a library that tries out implementations.
_AUTOTUNE: Final = r"redzone_checker|XlaAutotuner"
#: What a value of `tf_function_call` begins with where the call traced the function.
_TRACED: Final = "traced"
#: Steps whose calls reach the device this much more rarely than before are cut off.
_FEWER_EXECUTED: Final = 0.9


class WindowFacts(Frozen, frozen=True, eq=True):
    """The tables by which what is special about a window is recognised.

    Attributes:
        complete_until_ps: From then on events are missing; None where none are known
            to be.
    """

    trace: TraceData
    tracks: pl.DataFrame
    events: pl.DataFrame
    event_types: pl.DataFrame
    event_kinds: EventKinds
    host_values: dict[str, StatRows] | None
    complete_until_ps: int | None = None


def window_flags(
    rows: pl.DataFrame,
    steps: Steps,
    *,
    facts: WindowFacts,
    device_activity: pl.DataFrame | None,
    activity_steps: NDArray[np.int32] | None,
    launches: pl.DataFrame | None,
    correlation: Correlation | None,
    unseen: bool,
) -> pl.Series:
    """Return the flags of each window, in the order of `FLAGS`.

    Args:
        rows: The windows.
        steps: The steps.
        facts: Further tables.
        device_activity: All activity; None if there is none.
        activity_steps: Step of each activity; None if unknown.
        launches: All launch calls; None if unknown.
        correlation: Which call put which work on a device; None if unknown.
        unseen: The windows show when work was asked for, not when it ran.
    """
    start, end = ints(rows, "start_ps"), ints(rows, "end_ps")
    step = handles(rows, "step_row")
    n = len(rows)
    is_open = rows["open_end"].to_numpy()
    cut = is_true(steps.rows["cut"])[step].copy()
    if n > 1 and launches is not None and correlation is not None:
        begin = ints(steps.rows, "start_ps")
        cut[-1] |= _last_is_unexecuted(begin, launches, correlation)
    unrecorded = np.zeros(n, np.bool_)
    if launches is not None and correlation is not None:
        unrecorded = _unrecorded(steps, launches, correlation)[step]
    if facts.complete_until_ps is not None:
        unrecorded |= end > facts.complete_until_ps
    other = _other_kinds(steps, facts, device_activity, activity_steps)[step]
    other &= ~unrecorded
    early = warm_up(steps, facts.events, facts.event_kinds)[step]
    compiles = _compiling(facts).within(start, end) > 0
    early |= cold_start(start, end, facts.events) & ~(compiles | unrecorded | other)
    marked = {
        "first": np.arange(n) == 0,
        "open_end": is_open,
        "cut": cut,
        "compile": compiles,
        "autotune": _autotuning(facts, device_activity).within(start, end) > 0,
        "dispatch_only": np.full(n, unseen),
        "unrecorded": unrecorded,
        "other_kind": other,
        "warm_up": early,
        "outlier": _outliers(end - start, ~(is_open | unrecorded | other | early)),
    }
    pattern = np.zeros(n, np.uint16)
    for bit, name in enumerate(FLAGS):
        pattern |= marked[name].astype(np.uint16) << bit
    # Few of the patterns occur: by each its names, by each window its pattern.
    occurring, place = np.unique(pattern, return_inverse=True)
    names = pl.Series(
        [
            [name for bit, name in enumerate(FLAGS) if value >> bit & 1]
            for value in occurring.tolist()
        ],
        dtype=pl.List(pl.String),
    )
    return names.gather(place).alias("flags")


def _other_kinds(
    steps: Steps,
    facts: WindowFacts,
    device_activity: pl.DataFrame | None,
    activity_steps: NDArray[np.int32] | None,
) -> NDArray[np.bool_]:
    """Return the steps of another kind: by their kernels, without any by their ops."""
    n = len(steps.rows)
    work = None
    if device_activity is not None and activity_steps is not None:
        work = device_work(device_activity, activity_steps)
    if work is None:
        work = host_work(steps, facts.tracks, facts.events, facts.event_kinds)
    return other_kinds(work, n, np.arange(n) < n - 1)


def _outliers(
    length: NDArray[np.int64], sample: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which windows of a sample are much longer than its median."""
    if not sample.any():
        return sample
    median = np.median(length[sample])
    deviation = np.median(np.abs(length[sample] - median))
    limit = median + max(_OUTLIER_MADS * deviation, _OUTLIER_SHARE * median)
    found: NDArray[np.bool_] = sample & (length > limit)
    return found


def _compiling(facts: WindowFacts) -> Spans:
    """Return when the host compiled or traced a function anew."""
    compiles = facts.event_kinds.host_class == HostClass.COMPILE
    chosen = _events_of_types(facts.events, compiles)
    traced = _traced_calls(facts)
    return _spans_of(facts.events, np.concatenate([chosen, traced]))


def _traced_calls(facts: WindowFacts) -> NDArray[np.int64]:
    """Calls whose function was traced before it ran."""
    if facts.host_values is None:
        return np.empty(0, np.int64)
    owner, code, texts = text_codes(
        facts.trace, facts.host_values[StatKey.FUNCTION_CALL]
    )
    traced = np.array([text.startswith(_TRACED) for text in texts], np.bool_)
    if not traced.any():
        return np.empty(0, np.int64)
    found: NDArray[np.int64] = owner[traced[code]].astype(np.int64)
    return found


def _autotuning(facts: WindowFacts, device_activity: pl.DataFrame | None) -> Spans:
    tunes = facts.event_types["name"].str.contains(_AUTOTUNE).to_numpy()
    on_host = _spans_of(facts.events, _events_of_types(facts.events, tunes))
    if device_activity is None or not tunes.any():
        return on_host
    kernel = np.flatnonzero(tunes[handles(device_activity, "type")])
    return on_host | _spans_of(device_activity, kernel)


def _events_of_types(
    events: pl.DataFrame, types: NDArray[np.bool_]
) -> NDArray[np.int64]:
    return picked(handles(events, "type"), types)


def _spans_of(frame: pl.DataFrame, rows: NDArray[np.int64]) -> Spans:
    if not len(rows):
        return Spans.empty()
    return Spans.from_events(ints(frame, "start_ps")[rows], ints(frame, "dur_ps")[rows])


def _unrecorded(
    steps: Steps, launches: pl.DataFrame, correlation: Correlation
) -> NDArray[np.bool_]:
    """Return the steps at either end whose calls have fewer records than the others'.

    A device whose records begin later, or end earlier, than those of the host leaves
    steps of the host alone. The last step has flags of its own.
    """
    n = len(steps.rows)
    step = np.searchsorted(
        ints(steps.rows, "start_ps"), ints(launches, "start_ps"), side="right"
    )
    executed = correlation.activity_count_of_launch > 0
    # Calls that never lead to records, such as queries of events, say nothing.
    type_ = handles(launches, "type")
    leading = np.zeros(int(type_.max(initial=-1)) + 1, np.bool_)
    leading[type_[executed]] = True
    leads = by_row(leading, type_)
    called = np.bincount(step[leads], minlength=n + 1)[1:]
    some = np.bincount(step[executed], minlength=n + 1)[1:]
    share = np.where(called > 0, some / np.maximum(called, 1), 1.0)
    fewer = share < _FEWER_EXECUTED * share[called > 0].max(initial=0.0)
    found = np.logical_and.accumulate(fewer)
    found |= np.logical_and.accumulate(fewer[::-1])[::-1]
    found[n - 1 :] = False
    return found


def _last_is_unexecuted(
    begin: NDArray[np.int64], launches: pl.DataFrame, correlation: Correlation
) -> bool:
    """Return whether the capture ended before the device did the last step's work."""
    called = ints(launches, "start_ps")
    executed = correlation.activity_count_of_launch > 0
    last = called >= begin[-1]
    before = (called >= begin[0]) & ~last
    if not last.any() or not before.any():
        return False
    share_before = float(executed[before].mean())
    return float(executed[last].mean()) < _FEWER_EXECUTED * share_before
