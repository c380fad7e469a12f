"""What sources of steps read, and what they return: candidates with their steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import ints
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.array_types import Int64s
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.trace.model import TraceData

#: Confidence of each source that reads recorded steps instead of inferring them.
#: Definition: docs/how-steps-are-found.md#the-sources-most-certain-first.
ROOT_MARKER: Final = 1.00
MARKER: Final = 0.95
NUMBERED_RANGE: Final = 0.95
DEVICE_LINE: Final = 0.95
STORED_CALL: Final = 0.80
#: Confidence of passes: equal sequences of ops with nothing before, between and after.
EQUAL_PASSES: Final = 0.80

#: Minimum confidence at which inferred steps are used. Definition:
#: docs/how-steps-are-found.md#steps-without-markers.
INFERRED_CONFIDENCE: Final = THRESHOLDS.medium_confidence.value

#: Repetitions are equal if they cover this share of the work, less its variation.
_MIN_EQUAL_SHARE: Final = 0.95

#: Columns of `Steps.rows`; null means unknown.
STEP_ROWS: Final = {
    "step": pl.Int64(),  # step number to show
    "name": pl.String(),  # step name to show
    "marker": pl.String(),  # name of the marker without the number; null if inferred
    "start_ps": pl.Int64(),
    "end_ps": pl.Int64(),  # null if inferred
    "track": pl.Int32(),  # row of tracks with the boundary
    "event": pl.Int32(),  # row of events; null if no event marks the step
    "batches": pl.Int64(),  # batches per step; null if unknown
    "group": pl.Int64(),  # step group that the producer stored
    "slack_ps": pl.Int64(),  # by how much the step may begin earlier; null with markers
    "cut": pl.Boolean(),  # whether the recording begins or ends inside the step
}


class SourceTables(Frozen, frozen=True):
    """The tables of one host in which recorded steps are searched."""

    trace: TraceData
    tracks: pl.DataFrame
    events: pl.DataFrame
    event_types: pl.DataFrame
    event_kinds: EventKinds
    stats: pl.DataFrame
    type_stats: pl.DataFrame


class Candidate(Frozen, frozen=True, eq=True):
    """One possible division of the profile into steps.

    Definition: docs/how-steps-are-found.md.

    Attributes:
        source: `marker`, `device_line`, `stored_call`, `launch` or `period`.
        what: Name of what repeats: a marker, a launch, a kernel.
        n: Number of steps.
        period_ps: Median time from step start to step start; None for fewer than two.
        coverage: Share (0 to 1) of the activity that is in steps similar to each other;
            None if the steps are recorded, not inferred.
        cv: Standard deviation over mean of the work per complete step; None if the
            steps are recorded, not inferred.
        confidence: Confidence that the steps are right, from 0 to 1.
        accepted: Whether the candidate is good enough to define the steps.
        why_not: Reason for not accepting the candidate; empty if accepted.
    """

    source: str
    what: str
    n: int
    period_ps: int | None
    coverage: float | None
    cv: float | None
    confidence: float
    accepted: bool
    why_not: str = ""

    @property
    def may_be_steps(self) -> bool:
        """Whether nearly all work repeats equally, but nothing else shows a step."""
        uneven = 1.0 if self.cv is None else self.cv
        equal = (self.coverage or 0.0) * (1.0 - uneven) >= _MIN_EQUAL_SHARE
        return equal and self.confidence < INFERRED_CONFIDENCE


class CandidateSteps(Frozen, frozen=True, eq=True):
    """A candidate and its steps.

    Attributes:
        rows: One row per step in time order, columns `STEP_ROWS`.
        on_device: Whether the boundaries are times of device work, not host times.
        last_end_ps: End of the last event on the track with the boundaries; None if
            each step has a recorded end.
        pause_share: Share (0 to 1) of the steps' time that is idle just before a step;
            None if the steps are recorded, not inferred.
    """

    candidate: Candidate
    rows: pl.DataFrame
    on_device: bool
    last_end_ps: int | None = None
    pause_share: float | None = None


def step_rows(columns: Mapping[str, Any]) -> pl.DataFrame:
    """Return rows of steps; columns of `STEP_ROWS` that are not given are null.

    Steps are not `cut` unless that column is given.
    """
    count = len(columns["start_ps"])
    given = {"cut": np.zeros(count, np.bool_), **columns}
    nothing = pl.Series([None] * count)
    return pl.DataFrame(
        {name: given.get(name, nothing) for name in STEP_ROWS}, schema=STEP_ROWS
    )


def recorded_steps(
    source: str,
    what: str,
    columns: Mapping[str, Any],
    *,
    confidence: float,
    on_device: bool = False,
) -> CandidateSteps:
    """Return steps that were recorded, not inferred; `columns` as for `step_rows`."""
    rows = step_rows(columns)
    candidate = Candidate(
        source=source,
        what=what,
        n=len(rows),
        period_ps=median_period(ints(rows, "start_ps")),
        coverage=None,
        cv=None,
        confidence=confidence,
        accepted=True,
    )
    return CandidateSteps(candidate, rows, on_device=on_device)


def median_period(start_ps: Int64s) -> int | None:
    """Return the median difference of ascending times; None for fewer than two."""
    if len(start_ps) < 2:
        return None
    distances = np.sort(np.diff(start_ps))
    middle = len(distances) // 2
    if len(distances) % 2:
        return int(distances[middle])
    return (int(distances[middle - 1]) + int(distances[middle])) // 2
