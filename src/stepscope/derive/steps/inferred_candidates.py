"""A way to infer steps, what speaks against it, and the steps it would give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.derive.steps.candidates import (
    INFERRED_CONFIDENCE,
    STEP_ROWS,
    Candidate,
    FoundSteps,
    median_period,
)
from stepscope.derive.steps.periods import objection
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import nullable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.repetition.symbol_sequence import SymbolSequence
    from stepscope.derive.steps.segments import Period

#: Characters of a name that are shown.
_NAME: Final = 60
#: Highest confidence where the length of a step is clear, but not where it begins.
_UNCLEAR_BEGIN: Final = 0.79
#: Highest confidence where the segments may as well be layers.
_NO_EDGE: Final = 0.59


class Measured(Frozen, frozen=True):
    """A candidate with the sequence that it was measured in.

    Attributes:
        source: `launch` or `period`.
        what: What repeats, in words.
        label: Row of event_types of what repeats.
        sequence: The work between the boundaries.
        period: The boundaries.
        track: int32 by boundary; row of tracks, -1 for boundaries seen on several.
        slack_ps: By boundary, time before it in which nothing was recorded; None if
            unknown.
        on_device: Whether the boundaries are times of device work.
        begin_is_clear: Whether no other place in the cycle could be its begin.
        layers: What shows that it repeats inside a step, as layers do; empty where
            nothing does.
        edge: Whether its segments hold something that a step begins or ends with.
    """

    source: str
    what: str
    label: int
    sequence: SymbolSequence
    period: Period
    track: NDArray[np.int32]
    slack_ps: NDArray[np.int64] | None
    on_device: bool
    begin_is_clear: bool = True
    layers: str = ""
    edge: bool = True

    @property
    def confidence(self) -> float:
        """Confidence of the period.

        Less where a step could equally begin elsewhere, or where nothing tells its
        segments from layers.
        """
        sure = self.period.confidence
        if self.layers or not self.edge:
            sure = min(sure, _NO_EDGE)
        return sure if self.begin_is_clear else min(sure, _UNCLEAR_BEGIN)


def objection_to(measured: Measured) -> str:
    """Name the limit that a candidate breaks; empty where it breaks none."""
    if measured.source == "period" and measured.period.repeats <= 1:
        # A launch alone proves that a program ran once more; a lone kernel may
        # be anything.
        return "one lone symbol that repeats is no step"
    if measured.layers:
        return measured.layers
    broken = objection(measured.sequence, measured.period)
    if broken or measured.edge:
        return broken
    return "its segments neither fetch, copy, wait, update nor serve, as steps do"


def sureness(measured: Measured) -> tuple[bool, float]:
    """Return the ranking key: candidates without objection first, then the surest."""
    good = not objection_to(measured)
    return good, measured.confidence


def together(alike: list[Measured]) -> Measured:
    """Unite steps of several threads to one sequence in time order."""
    if len(alike) == 1:
        return alike[0]
    start = np.concatenate([it.period.start_ps for it in alike])
    order = np.argsort(start, kind="stable")
    slack = [it.slack_ps for it in alike if it.slack_ps is not None]
    weights = [int(it.sequence.weight_before[-1]) for it in alike]
    coverage = np.average([it.period.coverage for it in alike], weights=weights)
    period = msgspec.structs.replace(
        alike[0].period,
        first=np.concatenate([it.period.first for it in alike])[order],
        start_ps=start[order],
        period_ps=median_period(start[order]) or 0,
        coverage=float(coverage),
        cv=max(it.period.cv for it in alike),
    )
    return msgspec.structs.replace(
        alike[0],
        period=period,
        track=np.concatenate([it.track for it in alike])[order],
        slack_ps=np.concatenate(slack)[order] if len(slack) == len(alike) else None,
    )


def similarity(a: dict[int, int], b: dict[int, int]) -> float:
    """Return the multiset Jaccard index of two multisets."""
    labels = a.keys() | b.keys()
    either = sum(max(a.get(label, 0), b.get(label, 0)) for label in labels)
    common = sum(min(a.get(label, 0), b.get(label, 0)) for label in labels)
    return common / either if either else 0.0


def found_steps(measured: Measured, *, rejected: bool) -> FoundSteps:
    """Number a candidate's steps from 0; `rejected` means another was chosen."""
    period, n = measured.period, measured.period.n
    why_not = objection_to(measured)
    if not why_not and measured.confidence < INFERRED_CONFIDENCE:
        why_not = f"a confidence of {INFERRED_CONFIDENCE:.2f} is needed"
    elif not why_not and rejected:
        why_not = "another candidate explains the profile better"
    candidate = Candidate(
        source=measured.source,
        what=measured.what,
        n=n,
        period_ps=period.period_ps,
        coverage=period.coverage,
        cv=period.cv,
        confidence=measured.confidence,
        accepted=not why_not,
        why_not=why_not,
    )
    cut = np.zeros(n, np.bool_)
    cut[-1:] = not period.last_is_alike
    on_track = measured.track >= 0
    slack = measured.slack_ps
    rows = pl.DataFrame(
        {
            "step": np.arange(n),
            "name": pl.select(
                pl.format("step {} (inferred)", pl.int_range(n))
            ).to_series(),
            "marker": pl.Series([None] * n, dtype=pl.String),
            "start_ps": period.start_ps,
            "end_ps": pl.Series([None] * n, dtype=pl.Int64),
            "track": nullable("track", measured.track, on_track),
            "event": pl.Series([None] * n, dtype=pl.Int32),
            "batches": pl.Series([None] * n, dtype=pl.Int64),
            "group": pl.Series([None] * n, dtype=pl.Int64),
            "slack_ps": pl.Series([None] * n, dtype=pl.Int64)
            if slack is None
            else pl.Series(slack),
            "cut": cut,
        },
        schema=STEP_ROWS,
    )
    return FoundSteps(candidate, rows, measured.on_device, measured.sequence.end_ps)


def shortened(name: str) -> str:
    """Shorten a name to fit in a sentence; names of kernels may fill a page."""
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"
