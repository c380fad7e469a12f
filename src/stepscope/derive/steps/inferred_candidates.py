"""Candidates for inferred steps: objections, rows of steps, and where the steps begin.

If the length of the cycle is known, every event that occurs once per cycle on the
driving thread may begin a step. A program fetches a batch before using it, so a cycle
with a fetch begins at the fetch. Other cycles begin after their longest pause.

Definition: docs/how-steps-are-found.md#steps-without-markers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import number_values
from stepscope.derive.names.event_kinds import EventFlag, EventKinds, HostClass
from stepscope.derive.steps.candidates import (
    EQUAL_PASSES,
    INFERRED_CONFIDENCE,
    Candidate,
    CandidateSteps,
    median_period,
    step_rows,
)
from stepscope.derive.steps.periods import MIN_STEPS, period_objection
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import nullable_series

if TYPE_CHECKING:
    import polars as pl

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.sequences import SymbolSequence
    from stepscope.derive.steps.periods import Period

#: Kinds of bookkeeping events, which are ignored.
_NOISE: Final = EventFlag.THREADPOOL | EventFlag.ALLOCATOR | EventFlag.END_THUNK
#: Maximum length of an event that is part of a cycle, as a share of the recording.
_MAX_EVENT_SHARE: Final = 0.5
#: An event may begin the cycles if at least this share of cycles contains it once.
_MIN_CYCLES_SHARE: Final = 0.98
#: Maximum number of cycles in which events are counted.
_MAX_CYCLES_READ: Final = 300
#: The begin is ambiguous if a second pause exceeds this share of the longest pause.
_MAX_RIVAL_RATIO: Final = 0.5


class Boundaries(Frozen, frozen=True, eq=True):
    """Starts of cycles.

    Attributes:
        slack_ps: Time just before each start in which nothing was recorded.
        clear: False if the cycle could equally well begin at another event.
    """

    start_ps: Int64s
    slack_ps: Int64s
    clear: bool


#: Maximum number of characters of a name to show.
_MAX_NAME_LENGTH: Final = 60
#: Maximum confidence if a step's length is clear, but the position of its start is not.
_MAX_CONFIDENCE_UNCLEAR_BEGIN: Final = 0.79
#: Maximum confidence if the segments may be layers instead of steps.
_MAX_CONFIDENCE_NO_EDGE: Final = 0.59


class Measured(Frozen, frozen=True):
    """A candidate and the sequence in which it was measured.

    Attributes:
        source: `launch` or `period`.
        sequence: The work between the boundaries.
        track: int32 by boundary; row of tracks, -1 if the boundary is on several.
        slack_ps: By boundary, empty time before it; None if unknown.
        begin_is_clear: Whether the cycle can begin at one event only.
        layers: Evidence that segments are layers of a step; empty without evidence.
        edge: Whether the segments contain an event with which a step begins or ends.
        are_passes: Whether the segments are equal passes: all ops of the program.
    """

    source: str
    what: str
    label: int
    sequence: SymbolSequence
    period: Period
    track: Int32s
    slack_ps: Int64s | None
    on_device: bool
    begin_is_clear: bool = True
    layers: str = ""
    edge: bool = True
    are_passes: bool = False

    @property
    def confidence(self) -> float:
        """Confidence (0 to 1) that the period is a step.

        It is reduced if steps may begin elsewhere, or if segments may be layers.
        """
        sure = self.period.confidence
        if self.are_passes:
            sure = max(sure, EQUAL_PASSES)
        if self.layers or not self.edge:
            sure = min(sure, _MAX_CONFIDENCE_NO_EDGE)
        return sure if self.begin_is_clear else min(sure, _MAX_CONFIDENCE_UNCLEAR_BEGIN)


def candidate_objection(measured: Measured) -> str:
    """Return the reason for rejecting a candidate; empty if there is none."""
    if measured.source == "period" and measured.period.repeats <= 1:
        # Unlike a single kernel, a launch proves that a program ran again.
        return "a single repeating symbol is not a step"
    if measured.layers:
        return measured.layers
    broken = ""
    if not measured.are_passes:
        broken = period_objection(measured.sequence, measured.period)
    if broken or measured.edge:
        return broken
    return "its segments lack what steps have: a fetch, copy, wait, update or request"


def ranking_key(measured: Measured) -> tuple[bool, float]:
    """Return a sort key that is highest for the best candidate."""
    return not candidate_objection(measured), measured.confidence


def unite_threads(alike: list[Measured]) -> Measured:
    """Unite the steps of several threads into one sequence in time order."""
    if len(alike) == 1:
        return alike[0]
    start = np.concatenate([each.period.start_ps for each in alike])
    order = np.argsort(start, kind="stable")
    slack = [each.slack_ps for each in alike if each.slack_ps is not None]
    weights = [int(each.sequence.weight_before[-1]) for each in alike]
    coverage = np.average([each.period.coverage for each in alike], weights=weights)
    period = msgspec.structs.replace(
        alike[0].period,
        first=np.concatenate([each.period.first for each in alike])[order],
        start_ps=start[order],
        period_ps=median_period(start[order]) or 0,
        coverage=float(coverage),
        cv=max(each.period.cv for each in alike),
    )
    return msgspec.structs.replace(
        alike[0],
        period=period,
        track=np.concatenate([each.track for each in alike])[order],
        slack_ps=np.concatenate(slack)[order] if len(slack) == len(alike) else None,
    )


def multiset_similarity(a: dict[int, int], b: dict[int, int]) -> float:
    """Return the Jaccard index of two multisets."""
    labels = a.keys() | b.keys()
    either = sum(max(a.get(label, 0), b.get(label, 0)) for label in labels)
    common = sum(min(a.get(label, 0), b.get(label, 0)) for label in labels)
    return common / either if either else 0.0


def candidate_steps(measured: Measured, *, rejected: bool) -> CandidateSteps:
    """Return a candidate with its steps; `rejected` if another candidate was chosen."""
    period, n = measured.period, measured.period.n
    why_not = candidate_objection(measured)
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
    rows = step_rows(
        {
            "step": np.arange(n),
            "name": [f"step {number} (inferred)" for number in range(n)],
            "start_ps": period.start_ps,
            "track": nullable_series("track", measured.track, on_track),
            "cut": cut,
            **({} if slack is None else {"slack_ps": slack}),
        }
    )
    return CandidateSteps(
        candidate,
        rows,
        measured.on_device,
        measured.sequence.end_ps,
        period.pause_ps / max(period.period_ps, 1),
    )


def shorten_name(name: str) -> str:
    """Shorten a name to fit in a sentence; kernel names can be very long."""
    return name if len(name) <= _MAX_NAME_LENGTH else f"{name[: _MAX_NAME_LENGTH - 1]}…"


def begin_of_cycle(
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_kinds: EventKinds,
    *,
    track: int,
    start_ps: Int64s,
) -> Boundaries | None:
    """Move boundaries to the begin of each cycle; None if the thread shows no begin.

    Args:
        start_ps: One boundary anywhere in each cycle, ascending.
    """
    outer = _outermost_events(tracks, events, event_kinds, track)
    if not len(outer):
        return None
    start, dur = (ints(events, name)[outer] for name in ("start_ps", "dur_ps"))
    end = start + dur
    pause = np.maximum(start - np.concatenate([start[:1], end[:-1]]), 0)
    # If an event is around a boundary, the cycle begins at the start of that event.
    holder = np.searchsorted(start, start_ps, side="right") - 1
    held = (holder >= 0) & (start_ps < end[np.maximum(holder, 0)])
    edges = np.where(held, start[np.maximum(holder, 0)], start_ps)
    if len(edges) < MIN_STEPS or (np.diff(edges) <= 0).any():
        return None
    # Find the cycle in which each event begins; -1 for events before the first cycle.
    cuts = np.searchsorted(start, edges, side="left")
    lengths = np.diff(np.concatenate(([0], cuts, [len(start)])))
    cycle = np.repeat(np.arange(-1, len(edges)), lengths)
    waits = event_kinds.host_class == HostClass.INPUT_WAIT
    fetches = np.zeros(len(start), np.bool_)
    if waits.any():
        is_wait = waits[handles(events, "type")] & (handles(events, "track") == track)
        began = np.sort(ints(events, "start_ps")[is_wait])
        fetches = np.searchsorted(began, end) > np.searchsorted(began, start)
    first = _first_fetches(fetches, cycle, start, end)
    if first is not None:
        return Boundaries(start[first], pause[first], clear=True)
    names = number_values(handles(events, "type")[outer])
    chosen = _once_per_cycle(names.code, cycle, names.count, len(edges))
    if not len(chosen):
        return None
    mean = np.bincount(names.code, weights=pause) / np.bincount(names.code)
    ranked = chosen[np.argsort(-mean[chosen], kind="stable")]
    rows = np.flatnonzero(names.code == ranked[0])
    clear = len(ranked) == 1 or mean[ranked[1]] <= _MAX_RIVAL_RATIO * mean[ranked[0]]
    return Boundaries(start[rows], pause[rows], clear=bool(clear))


def _first_fetches(
    fetches: Bools, cycle: Int64s, start: Int64s, end: Int64s
) -> Int64s | None:
    """Find the fetch that begins each cycle; None if numbers of fetches differ.

    If a cycle has several fetches (for example one per replica), it begins at the one
    with the longest average pause before it.
    """
    rows = np.flatnonzero(fetches)
    if not len(rows):
        return None
    cycles = int(cycle[-1]) + 1
    inside = cycle[rows] >= 0
    per_cycle = np.bincount(cycle[rows][inside], minlength=cycles)[:-1]
    usual = int(np.median(per_cycle)) if len(per_cycle) else 0
    if not usual or (per_cycle == usual).mean() < _MIN_CYCLES_SHARE:
        return None
    index = np.arange(len(rows)) % usual
    distance = start[rows[1:]] - end[rows[:-1]]
    mean = [
        float(distance[index[1:] == slot].mean()) if (index[1:] == slot).any() else 0.0
        for slot in range(usual)
    ]
    first: Int64s = rows[index == int(np.argmax(mean))]
    return first


def _outermost_events(
    tracks: pl.DataFrame, events: pl.DataFrame, event_kinds: EventKinds, track: int
) -> Int64s:
    begin, end = (int(tracks[f"event_{edge}"][track]) for edge in ("begin", "end"))
    start, dur = (ints(events, name)[begin:end] for name in ("start_ps", "dur_ps"))
    if not len(start):
        return np.empty(0, np.int64)
    ends = start + dur
    range_ps = int(ends.max()) - int(start[0])
    left_out = event_kinds.has(_NOISE)[handles(events, "type")[begin:end]]
    left_out |= dur <= 0
    left_out |= dur > _MAX_EVENT_SHARE * range_ps
    # Give left-out events the earliest end, so that they enclose nothing.
    ends[left_out] = start[0]
    reach = np.maximum.accumulate(ends, out=ends)
    outer = ~left_out
    outer[1:] &= start[1:] >= reach[:-1]
    return begin + np.flatnonzero(outer)


def _once_per_cycle(code: Int32s, cycle: Int64s, names: int, cycles: int) -> Int64s:
    # For counting, the first cycles are enough.
    cycles = min(cycles, _MAX_CYCLES_READ)
    read = cycle < cycles
    code, cycle = code[read], cycle[read]
    inside = cycle >= 0
    cell = np.bincount(
        code[inside].astype(np.int64) * cycles + cycle[inside], minlength=names * cycles
    ).reshape(names, cycles)
    # Ignore the last cycle and the time before the first cycle; both may be cut.
    once = (cell[:, :-1] == 1).mean(axis=1)
    maximum = np.maximum(cell.max(axis=1), np.bincount(code[~inside], minlength=names))
    return np.flatnonzero((once >= _MIN_CYCLES_SHARE) & (maximum == 1))
