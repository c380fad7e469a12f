"""What every source of steps hands over: a candidate and the rows it stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "DEVICE_LINE",
    "INFERRED_CONFIDENCE",
    "MARKER",
    "NUMBERED_RANGE",
    "ROOT_MARKER",
    "STEP_ROWS",
    "Candidate",
    "FoundSteps",
    "median_period",
]


#: Confidence of the sources that need no inference (docs/how-steps-are-found.md#the-sources-surest-first).
ROOT_MARKER: Final = 1.00
MARKER: Final = 0.95
NUMBERED_RANGE: Final = 0.95
DEVICE_LINE: Final = 0.95

#: Below this confidence inferred steps are not used (docs/how-steps-are-found.md#steps-that-nobody-announced).
INFERRED_CONFIDENCE: Final = THRESHOLDS.medium_confidence.value

#: Columns of `Steps.rows`; null means unknown.
STEP_ROWS: Final = {
    "step": pl.Int64(),  # the number to show
    "name": pl.String(),  # the name to show
    "marker": pl.String(),  # the marker's name, to filter by; null where inferred
    "start_ps": pl.Int64(),
    "end_ps": pl.Int64(),  # null where inferred
    "track": pl.Int32(),  # row of tracks that carries the boundary
    "event": pl.Int32(),  # row of events that is the boundary; null if there is none
    "batches": pl.Int64(),  # batches per step; null where unknown
    "group": pl.Int64(),  # step group that the producer stored
    "slack_ps": pl.Int64(),  # it may have begun this much earlier; null where marked
    "cut": pl.Boolean(),  # the capture began or ended inside, as far as can be told
}


class Candidate(Frozen, frozen=True, eq=True):
    """One way in which the profile could be divided into steps.

    Definition: docs/how-steps-are-found.md.

    Attributes:
        source: `marker`, `device_line`, `launch` or `period`.
        what: What repeats, in words: a marker's name, a launch, a kernel.
        n: How many steps it gives.
        period_ps: Median distance of their beginnings; None of fewer than two.
        coverage: Share (0 to 1) of the activity inside equal steps; None of markers.
        cv: Spread of the work of the closed steps relative to its mean; None likewise.
        confidence: 0 to 1.
        accepted: Steps may be based on it.
        why_not: Why it is not accepted; empty where it is.
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


class FoundSteps(Frozen, frozen=True, eq=True):
    """A candidate together with its steps.

    Attributes:
        candidate: The evidence.
        rows: One row per step in time order, columns `STEP_ROWS`.
        on_device: The boundaries are times of device work, not of the host.
        last_end_ps: Where the track that shows the boundaries ends; None of markers,
            whose steps carry their own ends.
    """

    candidate: Candidate
    rows: pl.DataFrame
    on_device: bool
    last_end_ps: int | None = None


def median_period(start_ps: NDArray[np.int64]) -> int | None:
    """Median distance of ascending times; None of fewer than two."""
    if len(start_ps) < 2:
        return None
    distances = np.sort(np.diff(start_ps))
    middle = len(distances) // 2
    if len(distances) % 2:
        return int(distances[middle])
    return (int(distances[middle - 1]) + int(distances[middle])) // 2
