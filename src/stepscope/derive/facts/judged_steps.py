"""How steps were found, which steps the rules judge, and waiting outside the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints, wanted_rows
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.run_derivation import (
    of_each_device,
    of_each_host,
    of_each_host_or_why,
)
from stepscope.derive.step_time.input_between_steps import InputBetweenSteps
from stepscope.derive.step_windows.flags import LEFT_OUT
from stepscope.derive.verdicts.effect_status import step_basis
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS
from stepscope.trace.quality import ENDED_EARLY
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_NS

if TYPE_CHECKING:
    from stepscope.derive.account.time_by_cause import Account
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_purposes import FunctionPurposes
    from stepscope.derive.inference_requests import Requests
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.candidates import Candidate
    from stepscope.derive.steps.chosen import StepCandidates, Steps
    from stepscope.trace.model import TraceData

#: Flags that mark the step of a window as untypical.
_UNTYPICAL = frozenset((*LEFT_OUT, "outlier", "cut"))


def clean_rows(charged: pl.DataFrame, windows: Windows) -> pl.DataFrame:
    """Choose the steps of one device that are judged.

    Incomplete windows are judged only if no window is complete. Untypical steps are
    judged only if all steps are untypical.
    """
    rows = charged.hstack(windows.rows[["open_end", "flags"]][ints(charged, "window")])
    closed = rows.filter(~rows["open_end"])
    if not closed.height:
        return rows
    # The windows are few, and a Python loop is faster than an expression on lists.
    usual = [_UNTYPICAL.isdisjoint(flags) for flags in closed["flags"].to_list()]
    compiling = closed["compile_ps"].fill_null(0) * 100 > (
        closed["window_ps"] * THRESHOLDS.dirty_compile.value
    )
    typical = closed.filter(pl.Series(usual, dtype=pl.Boolean) & ~compiling)
    return typical if typical.height else closed


class HostSteps(Frozen, frozen=True):
    """The steps of one host.

    Attributes:
        source: How the steps were found; null without steps.
        confidence: Confidence in the steps, 0 to 1; 0 without steps.
        count: Number of steps.
        anchor: Whether windows start at host markers or kernels; null if none.
        period_ps: Median length of a judged window; null without steps.
        left_out: Flag → number of windows that means exclude because of the flag.
        tried: Candidate divisions into steps; accepted ones first, then by confidence.
        requests: Number of requests that the program served.
        outside_percent: If batches are fetched outside the step markers: the waiting
            for them, in percent of the time of all steps. Null if not, or if unknown.
        begins_ns: Start of the first step, in ns since 1970; null without a clock.
        early_end: Message that the program ended before its first step, with the
            reason; null without this message.
        recorded_ps: Length of the recording; 0 if unknown.
    """

    source: str | None
    confidence: float
    count: int
    anchor: str | None
    period_ps: int | None
    left_out: dict[str, int]
    tried: tuple[Candidate, ...]
    requests: int
    outside_percent: float | None
    begins_ns: int | None
    early_end: str | None = None
    recorded_ps: int = 0


@of_each_host_or_why
def step_signals(
    *,
    trace: TraceData,
    step_candidates: StepCandidates,
    steps: Steps | Unavailable,
    windows: Windows | Unavailable,
    requests: Requests | Unavailable,
    input_between_steps: InputBetweenSteps | Unavailable | None,
) -> HostSteps:
    """Describe the steps of every host."""
    tried = sorted(
        (scored.candidate for scored in step_candidates.found),
        key=lambda each: (not each.accepted, -each.confidence),
    )
    has_steps = not isinstance(steps, Unavailable)
    source, confidence = step_basis(steps)
    rows = median = anchor = outside = start_ns = None
    left_out: dict[str, int] = {}
    if not isinstance(windows, Unavailable):
        rows, anchor, measured = windows.rows, windows.anchor, windows.measured
        median = (measured["end_ps"] - measured["start_ps"]).median()
        flags = rows.filter(~pl.col("open_end"))["flags"].explode().drop_nulls()
        left_out = dict(flags.value_counts().sort(flags.name).iter_rows())
    between = input_between_steps
    if isinstance(between, InputBetweenSteps) and between.outside:
        covered_ps = between.covered_ps
        outside = 100 * between.wait_ps / covered_ps if covered_ps else None
    recorded_ps = 0
    environment = trace.table("environment")
    if not isinstance(environment, Unavailable) and environment.height:
        start_ns, begin, end = environment.select(
            "start_unix_ns", "begin_ps", "end_ps"
        ).row(0)
        recorded_ps = 0 if begin is None or end is None else int(end) - int(begin)
    ends = [note.message for note in trace.quality_notes() if note.kind == ENDED_EARLY]
    first_ps = rows["start_ps"][0] if rows is not None and rows.height else None
    return HostSteps(
        source=source,
        confidence=confidence,
        count=0 if isinstance(steps, Unavailable) else steps.rows.height,
        anchor=anchor,
        period_ps=int(median) if has_steps and isinstance(median, float) else None,
        left_out=left_out,
        tried=tuple(tried),
        requests=0 if isinstance(requests, Unavailable) else requests.rows.height,
        outside_percent=outside,
        begins_ns=int(start_ns) + first_ps // PS_PER_NS
        if has_steps and start_ns is not None and first_ps is not None
        else None,
        early_end=next(iter(ends), None),
        recorded_ps=recorded_ps,
    )


#: Ops that begin a pass over the data: they create an iterator.
_CREATES_ITERATOR: Final = (
    r"(?:^|[/:])(?:MakeIterator|AnonymousIterator(?:V\d)?|OneShotIterator"
    r"|MultiDeviceIteratorInit)(?::|$)"
)


@of_each_host
def epoch_starts(
    *,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    function_frames: FunctionFrames | Unavailable,
    function_purposes: FunctionPurposes | Unavailable,
) -> tuple[int, ...]:
    """Return when passes over the data begin, in ps: an iterator is created or reset.

    Afterwards worker processes start, and shuffle buffers are filled.
    """
    creates = event_types["name"].str.contains(_CREATES_ITERATOR).fill_null(value=False)
    rows = wanted_rows(handles(events, "type"), creates.to_numpy())
    times = [ints(events, "start_ps")[rows]]
    if not isinstance(function_frames, Unavailable) and not isinstance(
        function_purposes, Unavailable
    ):
        kinds = function_purposes.types_with_work("begins_epoch")
        times.append(function_frames.start_ps[np.isin(function_frames.type, kinds)])
    return tuple(np.unique(np.concatenate(times)).tolist())


@of_each_device
def unexplained_outside(
    *, account: Account, windows: Windows
) -> dict[int | None, float]:
    """Return the percentage of unexplained time before and after a device's activity.

    In such time the program starts or ends, or the recording is longer than the
    program. Recordings with steps, and devices without activity, are left out.
    """
    if windows.has_steps:
        return {}
    judged = windows.judged
    percents: dict[int | None, float] = {}
    for device in account.devices:
        worked = (judged - Spans.union_of(device.idle.values())).time_range
        if device.device is None or worked is None:
            continue
        unexplained = device.idle["unexplained"] & judged
        outside = unexplained.length_ps - unexplained.clip(*worked).length_ps
        percents[device.device] = 100 * outside / judged.length_ps
    return percents
