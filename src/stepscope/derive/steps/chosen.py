"""The chosen steps, their confidence, and the step of each device activity."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import hulls_by_code
from stepscope.derive.steps.candidates import INFERRED_CONFIDENCE, Candidate, FoundSteps
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
        found: Candidates with their steps. Steps are inferred only without markers,
            engine iterations and a stored line of steps.
        stored: Spans of the stored step lines, columns `STORED_STEPS`; empty if the
            recording has no such line.
    """

    found: tuple[FoundSteps, ...]
    stored: pl.DataFrame


class Steps(Frozen, frozen=True):
    """The steps of one host.

    Attributes:
        rows: One row per step in time order, columns `STEP_ROWS`.
        source: As in `Candidate`.
        confidence: As in `Candidate`; advice rules call 0.80 high and 0.60 medium.
        on_device: As in `FoundSteps`.
        last_end_ps: As in `FoundSteps`.
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
    """Find candidates for the steps in every source."""
    stored = stored_steps(trace, tracks, events, stats=stats)
    found = list(
        find_markers(
            trace,
            tracks,
            events,
            event_types=event_types,
            event_kinds=event_kinds,
            stats=stats,
            type_stats=type_stats,
        )
    )
    of_line = steps_of_stored_line(stored)
    if of_line is not None:
        found.append(of_line)
    engine = engine_iterations(
        tracks, events, event_types=event_types, event_kinds=event_kinds
    )
    if engine is not None:
        found.append(engine)
    if not found:
        from stepscope.derive.steps.inferred import find_inferred  # noqa: PLC0415

        found = find_inferred(
            tracks,
            events,
            event_types=event_types,
            event_kinds=event_kinds,
            host_values=host_values,
            device_activity=device_activity,
            correlation=correlation,
        )
        if not any(it.candidate.accepted for it in found):
            calls = steps_of_stored_calls(
                trace,
                tracks,
                events,
                event_types=event_types,
                event_kinds=event_kinds,
                stats=stats,
            )
            found += [] if calls is None else [calls]
    return StepCandidates(tuple(found), stored)


def steps(*, step_candidates: StepCandidates) -> Steps | Unavailable:
    """Return the steps of the first accepted candidate.

    If no candidate is accepted, the `NO_STEPS` reason names the best one. A user can
    still choose that candidate with `choose_steps`.
    """
    for index, found in enumerate(step_candidates.found):
        if found.candidate.accepted:
            return choose_steps(step_candidates, index)
    tried = "no event with a step number, no numbered range, no stored line of steps"
    if not step_candidates.found:
        nothing_found = (
            f"No steps were found: {tried}, and no ops or launches that repeat."
        )
    else:
        best = max(
            (each.candidate for each in step_candidates.found),
            key=lambda it: it.confidence,
        )
        nothing_found = (
            f"No steps were found: {tried}; the best repetition, {best.n} times "
            f"{best.what}, has a confidence of {best.confidence:.2f} and "
            f"{INFERRED_CONFIDENCE:.2f} is needed."
        )
    return Unavailable(code="NO_STEPS", reason=nothing_found, remedy=_REMEDY)


def choose_steps(step_candidates: StepCandidates, index: int) -> Steps:
    """Return the steps of one candidate, even if the candidate was not accepted."""
    found = step_candidates.found[index]
    others = (other.candidate for other in step_candidates.found if other is not found)
    return Steps(
        rows=found.rows,
        source=found.candidate.source,
        confidence=found.candidate.confidence,
        on_device=found.on_device,
        last_end_ps=found.last_end_ps,
        candidates=(found.candidate, *others),
        stored=step_candidates.stored,
    )


#: All work of a call belongs to one step if it lasts less than this many steps.
_ONE_STEP: Final = 1.5
#: Minimum average length of an ascending run of times that is worth its own search.
_WORTHWHILE: Final = 4096


def activity_steps(
    *,
    steps: Steps,
    device_activity: pl.DataFrame,
    correlation: Correlation | Unavailable,
) -> Int32s | Unavailable:
    """Return the step of each device activity, as row of `steps.rows`; -1 for none.

    The first known one of these is the step: the step group that the producer stored;
    the step in whose host interval the launch call began; the step of the nearest
    earlier activity on the same stream. If the boundaries are device times, the second
    one is the step in which the activity itself began; several activities of one call
    belong to the step at the middle of their time range. Unavailable if no activity can
    be assigned.

    Definition: docs/how-steps-are-found.md#which-step-an-activity-belongs-to.
    """
    starts = ints(steps.rows, "start_ps")
    if steps.on_device:
        last_end = steps.rows["end_ps"][-1]
        found = _step_within(starts, last_end, ints(device_activity, "start_ps"))
        if not isinstance(correlation, Unavailable):
            _unite_call_activities(starts, last_end, correlation, found)
    elif isinstance(correlation, Unavailable):
        found = np.full(len(device_activity), -1, np.int32)
        _assign_by_group(steps, device_activity, found)
        if (found < 0).all():
            return correlation
    else:
        # All activities of a call belong to one step, so the step is found once per
        # call.
        step_of_call = _last_step_begun(starts, ints(correlation.launches, "start_ps"))
        found = values_by_row(step_of_call, correlation.launch_of_activity, none=-1)
    _assign_by_group(steps, device_activity, found)
    # Fill gaps from the previous row of the same stream; rows are ordered by stream.
    track = handles(device_activity, "track")
    if not len(found) or (found >= 0).all():
        return found
    last = np.maximum.accumulate(np.where(found >= 0, np.arange(len(found)), -1))
    filled = np.where(last >= 0, found[last], np.int32(-1))
    same = (last >= 0) & (track[last] == track)
    return np.where(same, filled, np.int32(-1)).astype(np.int32)


def _step_within(starts: Int64s, last_end: int | None, times: Int64s) -> Int32s:
    found = _last_step_begun(starts, times)
    if last_end is not None:
        found[times >= last_end] = -1
    return found


def _unite_call_activities(
    starts: Int64s, last_end: int | None, correlation: Correlation, found: Int32s
) -> None:
    """Assign all activities of one call to one step.

    The boundaries are times of one device. A second device that is slightly behind ends
    a step's work after the next boundary; one that is ahead begins before the boundary.
    """
    launch = correlation.launch_of_activity
    several = correlation.activity_count_of_launch > 1
    if not several.any():
        return
    start_ps, dur_ps = (ints(correlation.activity, it) for it in ("start_ps", "dur_ps"))
    hulls = hulls_by_code(launch, start_ps, dur_ps, count=len(several))
    middle = hulls.first_ps + (hulls.last_ps - hulls.first_ps) // 2
    # Leave out calls whose work spans several steps, such as a graph of steps. Work
    # that touches one or two steps belongs to one step. Work that touches three either
    # extends slightly beyond its step on both sides, and then lasts about as long as
    # the middle step, or comes from a graph of several steps.
    begin, end = (
        _last_step_begun(starts, hulls.first_ps),
        _last_step_begun(starts, hulls.last_ps),
    )
    one_step = end - begin <= 1
    three = np.flatnonzero(end - begin == 2)
    between = begin[three] + 1
    lasts = hulls.last_ps[three] - hulls.first_ps[three]
    one_step[three] = lasts < _ONE_STEP * (starts[between + 1] - starts[between])
    several &= one_step
    rows = np.flatnonzero((launch >= 0) & several[launch])
    found[rows] = _step_within(starts, last_end, middle)[launch[rows]]


def _last_step_begun(starts: Int64s, times: Int64s) -> Int32s:
    """Return the last step that began by each time, or -1 before the first step.

    Times are a few ascending runs, one per track. Searching the few starts in the many
    times of a run is faster than searching every time in the starts.
    """
    turns = np.flatnonzero(times[1:] < times[:-1]) + 1
    if len(turns) * _WORTHWHILE > len(times):
        return (np.searchsorted(starts, times, side="right") - 1).astype(np.int32)
    found = np.empty(len(times), np.int32)
    edges = [0, *turns.tolist(), len(times)]
    steps = np.arange(-1, len(starts), dtype=np.int32)
    for begin, end in pairwise(edges):
        cuts = np.searchsorted(times[begin:end], starts, side="left")
        lengths = np.diff(np.concatenate(([0], cuts, [end - begin])))
        found[begin:end] = np.repeat(steps, lengths)
    return found


def _assign_by_group(
    steps: Steps, device_activity: pl.DataFrame, found: Int32s
) -> None:
    groups = steps.rows["group"]
    column = device_activity["group"]
    if groups.null_count() == len(groups) or column.null_count() == len(column):
        return
    row = np.flatnonzero(groups.is_not_null().to_numpy())
    group = groups.drop_nulls().to_numpy()
    order = np.argsort(group, kind="stable")
    grouped = np.flatnonzero(column.is_not_null().to_numpy())
    wanted = column.drop_nulls().to_numpy()
    at = np.minimum(np.searchsorted(group[order], wanted), len(group) - 1)
    hit = group[order][at] == wanted
    found[grouped[hit]] = row[order][at[hit]]
