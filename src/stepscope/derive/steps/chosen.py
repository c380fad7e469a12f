"""`step_candidates` and `steps`: where the training steps are, and how surely.

The sources are tried in a fixed order; the first that applies gives the steps. Markers
and stored lines are cheap to find; launches and periods are looked for only where there
are none of these.

Definition: docs/how-steps-are-found.md#the-sources-most-certain-first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.derive.steps.candidates import INFERRED_CONFIDENCE, Candidate, FoundSteps
from stepscope.derive.steps.markers import engine_iterations, find_markers
from stepscope.derive.steps.stored import (
    steps_of_stored_calls,
    steps_of_stored_line,
    stored_steps,
)
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import polars as pl

    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.trace.model import TraceData

_REMEDY: Final = Remedy.MARK_STEPS_WITH_FETCH


class StepCandidates(Frozen, frozen=True):
    """Every way found to divide the profile into steps, the preferred one first.

    Attributes:
        found: Candidates with their steps. Inferred ones are only looked for where
            the recording holds neither markers nor a stored line of steps.
        stored: Spans of the stored step lines, columns `STORED_STEPS`; empty where
            there is no such line.
    """

    found: tuple[FoundSteps, ...]
    stored: pl.DataFrame


class Steps(Frozen, frozen=True):
    """The steps of one host.

    Attributes:
        rows: One row per step in time order, columns `STEP_ROWS`.
        source: `marker`, `device_line`, `stored_call`, `launch` or `period`.
        confidence: How sure the steps are, from 0 to 1; the rules of the advice call
            0.80 high and 0.60 medium.
        on_device: True where the boundaries are times of device work, not of the
            host.
        last_end_ps: End of the last event on the track that shows the boundaries; None
            of markers and stored lines, whose steps carry their own ends.
        candidates: The candidates that were tried, the accepted one first.
        stored: Spans of the stored step lines, columns `STORED_STEPS`.
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
        """Whether the steps were recognised by repetition, not announced."""
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
    """Try every source of steps."""
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
        # Only where nothing announces steps.
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

    `NO_STEPS` names the best candidate that was not good enough; `choose_steps` takes
    such a candidate on the user's word.
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
    """Return the steps of one candidate, whatever its confidence."""
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
