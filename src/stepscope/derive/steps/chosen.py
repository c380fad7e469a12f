"""`step_candidates` and `steps`: where the training steps are, and how surely.

The sources are tried in the order of spec: tools, section 3.3; the first that applies
gives the steps. What announces itself (markers, a stored line) is cheap to find; only
without it are launches and periods looked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.derive.steps.candidates import (
    INFERRED_CONFIDENCE,
    STEP_ROWS,
    Candidate,
    FoundSteps,
)
from stepscope.derive.steps.inferred import find_inferred
from stepscope.derive.steps.markers import find_markers
from stepscope.derive.steps.stored import (
    STORED_STEPS,
    steps_of_stored_line,
    stored_steps,
)
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import polars as pl

    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.trace.model import TraceData

__all__ = [
    "STEP_ROWS",
    "STORED_STEPS",
    "Candidate",
    "FoundSteps",
    "StepCandidates",
    "Steps",
    "choose_steps",
    "step_candidates",
    "steps",
]

_REMEDY: Final = (
    "Mark each step: `Trace(name, step_num=i, _r=1)` around fetching the batch and the "
    "step itself, with the dataset iterator inside the context."
)


class StepCandidates(Frozen, frozen=True):
    """Every way found to divide the profile into steps, the preferred one first.

    Attributes:
        found: Candidates with their steps. Inferred ones are only looked for where
            nothing announces steps.
        stored: Spans of the stored step lines, columns `STORED_STEPS`; empty where
            there is no such line.
    """

    found: tuple[FoundSteps, ...]
    stored: pl.DataFrame


class Steps(Frozen, frozen=True):
    """The steps of one host.

    Attributes:
        rows: One row per step in time order, columns `STEP_ROWS`.
        source: `marker`, `device_line`, `launch` or `period`.
        confidence: 0 to 1; rules call 0.80 high and 0.60 medium.
        on_device: The boundaries are times of device work, not of the host.
        last_end_ps: Where the track that shows the boundaries ends; None of markers
            and stored lines, whose steps carry their own ends.
        candidates: What was tried, the accepted one first.
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
        """The program did not announce them; its repetitions were recognised."""
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
    launches: pl.DataFrame | Unavailable,
    correlation: Correlation | Unavailable,
) -> StepCandidates:
    """Try every source of steps.

    Definition: docs/how-steps-are-found.md.
    """
    stored = stored_steps(trace, tracks, events, stats=stats)
    found = list(
        find_markers(
            tracks,
            events,
            event_types=event_types,
            stats=stats,
            type_stats=type_stats,
            strings=trace.strings,
        )
    )
    of_line = steps_of_stored_line(stored)
    if of_line is not None:
        found.append(of_line)
    if not found:
        found = find_inferred(
            tracks,
            events,
            event_types=event_types,
            event_kinds=event_kinds,
            host_values=host_values,
            device_activity=device_activity,
            launches=launches,
            correlation=correlation,
        )
    return StepCandidates(tuple(found), stored)


def steps(*, step_candidates: StepCandidates) -> Steps | Unavailable:
    """The steps that the first accepted candidate gives.

    `NO_STEPS` names what was found and was not good enough; `choose_steps` takes such
    a candidate on the user's word.
    """
    for index, found in enumerate(step_candidates.found):
        if found.candidate.accepted:
            return choose_steps(step_candidates, index)
    return Unavailable(
        code="NO_STEPS", reason=_nothing_found(step_candidates.found), remedy=_REMEDY
    )


def choose_steps(step_candidates: StepCandidates, index: int) -> Steps:
    """The steps of one candidate, whatever its confidence."""
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


def _nothing_found(found: tuple[FoundSteps, ...]) -> str:
    tried = "no event with a step number, no numbered range, no stored line of steps"
    if not found:
        return f"Steps cannot be told apart: {tried}, and nothing that repeats."
    best = max((each.candidate for each in found), key=lambda it: it.confidence)
    return (
        f"Steps cannot be told apart: {tried}; the best repetition, {best.n} times "
        f"{best.what}, has a confidence of {best.confidence:.2f} and "
        f"{INFERRED_CONFIDENCE:.2f} is needed."
    )
