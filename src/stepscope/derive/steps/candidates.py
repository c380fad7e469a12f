"""What every source of steps returns: a candidate and its rows of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from stepscope.array_types import Int64s

#: Confidence of the sources that need no inference. Definition:
#: docs/how-steps-are-found.md#the-sources-most-certain-first.
ROOT_MARKER: Final = 1.00
MARKER: Final = 0.95
NUMBERED_RANGE: Final = 0.95
DEVICE_LINE: Final = 0.95
STORED_CALL: Final = 0.80

#: Below this confidence inferred steps are not used. Definition:
#: docs/how-steps-are-found.md#steps-without-markers.
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
    "slack_ps": pl.Int64(),  # how much earlier it may have begun; null where marked
    "cut": pl.Boolean(),  # the capture is known to have begun or ended inside
}


class Candidate(Frozen, frozen=True, eq=True):
    """One way in which the profile could be divided into steps.

    Definition: docs/how-steps-are-found.md.

    Attributes:
        source: `marker`, `device_line`, `stored_call`, `launch` or `period`.
        what: What repeats, in words: a marker's name, a launch, a kernel.
        period_ps: Median time from one step's begin to the next one's; None where the
            candidate gives fewer than two steps.
        coverage: Share (0 to 1) of the activity that lies in steps alike; None where
            markers or a stored line give the steps.
        cv: Standard deviation of the work of the closed steps over its mean; None
            where markers or a stored line give the steps.
        confidence: How sure it is that these are the steps, from 0 to 1.
        accepted: True where the candidate is good enough to give the steps.
        why_not: Why the candidate is not accepted; empty where it is.
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
        rows: One row per step in time order, columns `STEP_ROWS`.
        on_device: True where the boundaries are times of device work, not of the
            host.
        last_end_ps: End of the last event on the track that shows the boundaries; None
            of markers, whose steps carry their own ends.
    """

    candidate: Candidate
    rows: pl.DataFrame
    on_device: bool
    last_end_ps: int | None = None


def median_period(start_ps: Int64s) -> int | None:
    """Return the median distance of ascending times; None of fewer than two."""
    if len(start_ps) < 2:
        return None
    distances = np.sort(np.diff(start_ps))
    middle = len(distances) // 2
    if len(distances) % 2:
        return int(distances[middle])
    return (int(distances[middle - 1]) + int(distances[middle])) // 2
