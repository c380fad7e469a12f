"""Iterations of a serving engine, which the engine marks with a range of its own.

Each iteration runs the model once, for all requests that are being served.

Definition: docs/how-steps-are-found.md#the-sources-surest-first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints, picked
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.derive.repetition.sequences import program_threads
from stepscope.derive.steps.candidates import (
    STEP_ROWS,
    Candidate,
    FoundSteps,
    median_period,
)
from stepscope.derive.steps.segments import HIGHEST_CONFIDENCE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.names.event_kinds import EventKinds


def engine_iterations(
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    *,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
) -> FoundSteps | None:
    """Return one step per iteration, also of a single one; None without any."""
    of_type = handles(events, "type")
    ranges = event_kinds.has(EventFlag.ENGINE_ITERATION)
    row = picked(of_type, ranges)
    row = row[program_threads(tracks)[handles(events, "track")[row]]]
    row = _outermost(events, row)
    if not len(row):
        return None
    start = ints(events, "start_ps")[row]
    nothing = pl.Series([None] * len(row))
    rows = pl.DataFrame(
        {
            "step": np.arange(len(row)),
            "name": event_types["name"].gather(of_type[row]),
            "marker": nothing,
            "start_ps": start,
            "end_ps": start + ints(events, "dur_ps")[row],
            "track": handles(events, "track")[row],
            "event": row.astype(np.int32),
            **dict.fromkeys(("batches", "group", "slack_ps"), nothing),
            "cut": np.zeros(len(row), np.bool_),
        },
        schema=STEP_ROWS,
    )
    candidate = Candidate(
        source="launch",
        what="iterations of a serving engine",
        n=len(rows),
        period_ps=median_period(start),
        coverage=None,
        cv=None,
        confidence=HIGHEST_CONFIDENCE,
        accepted=True,
    )
    return FoundSteps(candidate, rows, on_device=False)


def _outermost(events: pl.DataFrame, row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, in time order, the ranges that lie in no other range of their thread."""
    start, dur = (ints(events, name)[row] for name in ("start_ps", "dur_ps"))
    thread, end = handles(events, "track")[row], start + dur
    kept = np.zeros(len(row), np.bool_)
    for track in np.unique(thread).tolist():
        mine = np.flatnonzero(thread == track)
        mine = mine[np.lexsort((-end[mine], start[mine]))]
        reach = np.maximum.accumulate(end[mine])
        kept[mine] = np.concatenate([[True], end[mine][1:] > reach[:-1]])
    row, start = row[kept], start[kept]
    outer: NDArray[np.int64] = row[np.argsort(start, kind="stable")]
    return outer
