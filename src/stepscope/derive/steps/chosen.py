"""The chosen steps, their confidence, and the step of each device activity."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import time_ranges_by_code
from stepscope.derive.steps.candidates import (
    INFERRED_CONFIDENCE,
    Candidate,
    CandidateSteps,
    SourceTables,
)
from stepscope.derive.steps.markers import engine_iterations, find_markers
from stepscope.derive.steps.stored import (
    steps_of_stored_calls,
    steps_of_stored_line,
    stored_steps,
)
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.trace.reading.by_row import values_by_row
from stepscope.unavailable import Unavailable
from stepscope.units import duration_text

if TYPE_CHECKING:
    import polars as pl

    from stepscope.array_types import Int32s, Int64s
    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.trace.model import TraceData

_REMEDY: Final = Remedy.MARK_STEPS_WITH_FETCH


class StepCandidates(Frozen, frozen=True):
    """All candidates for the steps of the profile, the preferred one first.

    Attributes:
        found: Candidates with their steps. Steps are inferred only if the recording has
            no markers, no engine iterations and no stored line of steps.
        stored: Spans of the stored step lines, columns `STORED_STEPS`; empty if the
            recording has no such line.
    """

    found: tuple[CandidateSteps, ...]
    stored: pl.DataFrame


class Steps(Frozen, frozen=True):
    """The steps of one host.

    Attributes:
        rows: One row per step in time order, columns `STEP_ROWS`.
        source: As in `Candidate`.
        confidence: As in `Candidate`; advice rules call 0.80 high and 0.60 medium.
        on_device: As in `CandidateSteps`.
        last_end_ps: As in `CandidateSteps`.
        pause_share: As in `CandidateSteps`.
        candidates: All candidates, the accepted one first.
        stored: As in `StepCandidates`.
    """

    rows: pl.DataFrame
    source: str
    confidence: float
    on_device: bool
    last_end_ps: int | None
    candidates: tuple[Candidate, ...]
    stored: pl.DataFrame
    pause_share: float | None = None

    @property
    def inferred(self) -> bool:
        """Whether the steps were inferred from repetition, not recorded."""
        return self.source in ("launch", "period")


def step_candidates(
    *,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    stats: pl.DataFrame,
    type_stats: pl.DataFrame,
    host_values: dict[str, StatRows] | Unavailable,
    device_activity: pl.DataFrame | Unavailable,
    correlation: Correlation | Unavailable,
) -> StepCandidates:
    """Find candidates for the steps in every source of steps."""
    tables = SourceTables(
        trace, tracks, events, event_types, event_kinds, stats, type_stats
    )
    stored = stored_steps(tables)
    other_sources = (steps_of_stored_line(stored), engine_iterations(tables))
    candidates = [*find_markers(tables), *filter(None, other_sources)]
    if not candidates:
        from stepscope.derive.steps.inferred import find_inferred  # noqa: PLC0415

        candidates = find_inferred(
            tables,
            host_values=host_values,
            device_activity=device_activity,
            correlation=correlation,
        )
        if not any(candidate.candidate.accepted for candidate in candidates):
            candidates += filter(None, [steps_of_stored_calls(tables)])
    return StepCandidates(tuple(candidates), stored)


def steps(*, step_candidates: StepCandidates) -> Steps | Unavailable:
    """Return the steps of the first accepted candidate.

    If no candidate is accepted, the `NO_STEPS` reason names the best one. A user can
    still choose that candidate with `choose_steps`.
    """
    for index, candidate in enumerate(step_candidates.found):
        if candidate.candidate.accepted:
            return choose_steps(step_candidates, index)
    tried = "no event with a step number, no numbered range, no stored line of steps"
    if not step_candidates.found:
        reason = f"No steps were found: {tried}, and no ops or launches that repeat."
    else:
        best = max(
            (each.candidate for each in step_candidates.found),
            key=lambda candidate: candidate.confidence,
        )
        repeats = f"the best repetition, {best.n} times {best.what}, has"
        if best.may_be_steps and best.period_ps:
            passes = f"{best.n} equal passes of {duration_text(best.period_ps)}"
            repeats = f"{passes} ({best.what}), perhaps steps, have"
        reason = (
            f"No steps were found: {tried}; {repeats} a confidence of "
            f"{best.confidence:.2f} and {INFERRED_CONFIDENCE:.2f} is needed."
        )
    return Unavailable(code="NO_STEPS", reason=reason, remedy=_REMEDY)


def choose_steps(step_candidates: StepCandidates, index: int) -> Steps:
    """Return the steps of one candidate, even if the candidate was not accepted."""
    chosen = step_candidates.found[index]
    rejected = (each.candidate for each in step_candidates.found if each is not chosen)
    return Steps(
        rows=chosen.rows,
        source=chosen.candidate.source,
        confidence=chosen.candidate.confidence,
        on_device=chosen.on_device,
        last_end_ps=chosen.last_end_ps,
        candidates=(chosen.candidate, *rejected),
        stored=step_candidates.stored,
        pause_share=chosen.pause_share,
    )


#: Instead of the row of a step: the work was launched after the last step.
AFTER_STEPS: Final = -2
#: All work of a call belongs to one step if the work lasts less than this many steps.
_MAX_CALL_STEPS: Final = 1.5
#: Minimum average length of ascending runs of times for searching each run separately.
_MIN_RUN_LENGTH: Final = 4096


def activity_steps(
    *,
    steps: Steps,
    device_activity: pl.DataFrame,
    correlation: Correlation | Unavailable,
    recording_end: int | Unavailable | None,
) -> Int32s | Unavailable:
    """Return the step of each device activity, as row of `steps.rows`; -1 for none.

    The step is the first known one of: the step group that the producer stored; the
    step on the host in which the launch call began; the step of the previous activity
    on the same stream. Work launched after the last step has no step. If the step
    boundaries are device times, the step in which the activity began replaces that of
    the call; if a call has several activities, they get the step at the middle of their
    time range.

    Definition: docs/how-steps-are-found.md#which-step-an-activity-belongs-to.
    """
    starts = ints(steps.rows, "start_ps")
    if steps.on_device:
        last_end = steps.rows["end_ps"][-1]
        step_of = _step_within(starts, last_end, ints(device_activity, "start_ps"))
        if not isinstance(correlation, Unavailable):
            _unite_call_activities(starts, last_end, correlation, step_of)
    elif isinstance(correlation, Unavailable):
        step_of = np.full(len(device_activity), -1, np.int32)
        _assign_by_group(steps, device_activity, step_of)
        if (step_of < 0).all():
            return correlation
    else:
        # A call's activities belong to one step, so the step is found once per call.
        step_of_call = steps_of_calls(steps, correlation.launches)
        step_of = values_by_row(step_of_call, correlation.launch_of_activity, none=-1)
    _assign_by_group(steps, device_activity, step_of)
    # Fill gaps from the previous row of the same stream; rows are ordered by stream.
    track = handles(device_activity, "track")
    if not len(step_of):
        return step_of
    if (step_of < 0).any():
        step_of = _fill_by_stream(step_of, track)
    if isinstance(recording_end, int) and not isinstance(correlation, Unavailable):
        # The work that ends the recording belongs to no step.
        ending = ints(correlation.launches, "start_ps") >= recording_end
        launch = correlation.launch_of_activity
        step_of[values_by_row(ending, launch, none=False)] = -1
    return step_of


def _fill_by_stream(step_of: Int32s, track: Int32s) -> Int32s:
    last = np.maximum.accumulate(np.where(step_of != -1, np.arange(len(step_of)), -1))
    filled = np.where(last >= 0, step_of[last], np.int32(-1))
    same = (last >= 0) & (track[last] == track) & (filled >= 0)
    return np.where(same, filled, np.int32(-1)).astype(np.int32)


def steps_of_calls(steps: Steps, launches: pl.DataFrame) -> Int32s:
    """Return the step in which each launch call began, as row of `steps.rows`.

    -1: the call began before the first step. `AFTER_STEPS`: it began after the end of
    the last step, later than any call after the end of another step. An inferred step
    is at most as long as the longest other one.
    """
    rows, called = steps.rows, ints(launches, "start_ps")
    starts = ints(rows, "start_ps")
    step_of = _last_step_begun(starts, called)
    last, has_ends = len(starts) - 1, not rows["end_ps"].null_count()
    if rows["track"][last] is None or (not last and not has_ends):
        return step_of
    ends = ints(rows, "end_ps") if has_ends else starts
    # Other threads may still launch work of a step whose marker has ended.
    late = handles(launches, "track") == rows["track"][last]
    late &= (step_of >= 0) & (called >= ends[step_of])
    since = called - ends[step_of]
    tail = since[late & (step_of < last)].max(initial=-1)
    if not has_ends:
        tail = np.diff(starts).max() - 1
    step_of[late & (step_of == last) & (since > tail)] = AFTER_STEPS
    return step_of


def _step_within(starts: Int64s, last_end: int | None, times: Int64s) -> Int32s:
    step_of = _last_step_begun(starts, times)
    if last_end is not None:
        step_of[times >= last_end] = -1
    return step_of


def _unite_call_activities(
    starts: Int64s, last_end: int | None, correlation: Correlation, step_of: Int32s
) -> None:
    """Assign all activities of one call to one step.

    The boundaries are times of one device. A second device that is slightly behind ends
    a step's work after the next boundary; a device that is ahead begins a step early.
    """
    launch = correlation.launch_of_activity
    several = correlation.activity_count_of_launch > 1
    if not several.any():
        return
    start_ps = ints(correlation.activity, "start_ps")
    dur_ps = ints(correlation.activity, "dur_ps")
    ranges = time_ranges_by_code(launch, start_ps, dur_ps, count=len(several))
    middle = ranges.first_ps + (ranges.last_ps - ranges.first_ps) // 2
    # Leave out calls whose work spans several steps, such as a graph of steps. Work
    # within two steps belongs to one step. Work within three steps belongs to one step
    # if it lasts about as long as the middle step and only extends slightly beyond it.
    begin, end = (
        _last_step_begun(starts, ranges.first_ps),
        _last_step_begun(starts, ranges.last_ps),
    )
    fits_step = end - begin <= 1
    three = np.flatnonzero(end - begin == 2)
    between = begin[three] + 1
    lasts = ranges.last_ps[three] - ranges.first_ps[three]
    fits_step[three] = lasts < _MAX_CALL_STEPS * (starts[between + 1] - starts[between])
    several &= fits_step
    rows = np.flatnonzero((launch >= 0) & several[launch])
    step_of[rows] = _step_within(starts, last_end, middle)[launch[rows]]


def _last_step_begun(starts: Int64s, times: Int64s) -> Int32s:
    """Return the last step that began by each time, or -1 before the first step.

    The times are a few ascending runs, one per track. Finding few starts among many
    times is faster than finding each time among the starts.
    """
    turns = np.flatnonzero(times[1:] < times[:-1]) + 1
    if len(turns) * _MIN_RUN_LENGTH > len(times):
        return (np.searchsorted(starts, times, side="right") - 1).astype(np.int32)
    step_of = np.empty(len(times), np.int32)
    edges = [0, *turns.tolist(), len(times)]
    steps = np.arange(-1, len(starts), dtype=np.int32)
    for begin, end in pairwise(edges):
        cuts = np.searchsorted(times[begin:end], starts, side="left")
        lengths = np.diff(np.concatenate(([0], cuts, [end - begin])))
        step_of[begin:end] = np.repeat(steps, lengths)
    return step_of


def _assign_by_group(steps: Steps, activity: pl.DataFrame, step_of: Int32s) -> None:
    groups = steps.rows["group"]
    column = activity["group"]
    if groups.null_count() == len(groups) or column.null_count() == len(column):
        return
    row = np.flatnonzero(groups.is_not_null().to_numpy())
    group = groups.drop_nulls().to_numpy()
    order = np.argsort(group, kind="stable")
    grouped = np.flatnonzero(column.is_not_null().to_numpy())
    wanted = column.drop_nulls().to_numpy()
    index = np.minimum(np.searchsorted(group[order], wanted), len(group) - 1)
    hit = group[order][index] == wanted
    step_of[grouped[hit]] = row[order][index[hit]]
