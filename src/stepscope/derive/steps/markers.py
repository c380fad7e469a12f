"""Steps that were announced: events with a step number, numbered ranges, iterations.

A marker is a host event whose values or whose name carry the number of the step. A
serving engine marks each of its iterations, which runs the model once, for all requests
that are being served.

Definition: docs/how-steps-are-found.md#the-sources-most-certain-first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints, picked
from stepscope.derive.columns.stat_values import find_handle, numbers_of, rows_of_owners
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.derive.sequences import program_threads
from stepscope.derive.steps import candidates as step_sources
from stepscope.derive.steps.candidates import (
    STEP_ROWS,
    Candidate,
    FoundSteps,
    median_period,
)
from stepscope.derive.steps.marker_events import (
    STEP_RANGE,
    Marks,
    growing_numbers,
    numbered_events,
    numbered_ranges,
    stored_names,
)
from stepscope.derive.steps.periods import HIGHEST_CONFIDENCE
from stepscope.trace.reading.nullable import nullable
from stepscope.trace.reading.stat_keys import StatKey

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.trace.model import TraceData

#: An outermost marker that occurs once gives way to this many markers inside it.
_INNER_WINS: Final = 3
#: Numbers that grow by n stand for n batches only if little time is unmarked.
_LARGEST_UNMARKED: Final = 0.5


def find_markers(
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    *,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    stats: pl.DataFrame,
    type_stats: pl.DataFrame,
) -> tuple[FoundSteps, ...]:
    """Return the steps of each kind of marker that occurs, the surest first.

    Markers inside each other count once: the outermost wins, unless it occurs once
    and holds three or more others.
    """
    marks, has_root = numbered_events(
        tracks,
        events,
        stats=stats,
        type_stats=type_stats,
        strings=trace.strings,
        event_kinds=event_kinds,
    )
    ranges = numbered_ranges(tracks, events, event_types)
    sources = (
        (marks.only(has_root), step_sources.ROOT_MARKER),
        (growing_numbers(marks.only(~has_root), event_types), step_sources.MARKER),
        (ranges, step_sources.NUMBERED_RANGE),
    )
    keys = [
        find_handle(trace.strings, key) for key in (StatKey.GROUP_ID, StatKey.N_STEPS)
    ]
    found: list[FoundSteps] = []
    for chosen, confidence in sources:
        outermost = _one_per_step(chosen)
        if len(outermost):
            values = [_own_values(outermost, stats, key) for key in keys]
            stored = stored_names(trace, outermost, stats)
            rows = _step_rows(outermost, event_types, stored, *values)
            names = rows["marker"].unique(maintain_order=True).to_list()
            candidate = Candidate(
                source="marker",
                what=", ".join(names),
                n=len(rows),
                period_ps=median_period(ints(rows, "start_ps")),
                coverage=None,
                cv=None,
                confidence=confidence,
                accepted=True,
            )
            found.append(FoundSteps(candidate, rows, on_device=False))
    # Order by source, but let a lone marker yield to markers inside it.
    if len(found) < 2 or len(found[0].rows) != 1:
        return tuple(found)
    start, end = found[0].rows.select("start_ps", "end_ps").row(0)
    for index, other in enumerate(found[1:], start=1):
        inside = other.rows.filter(
            (pl.col("start_ps") >= start) & (pl.col("end_ps") <= end)
        )
        if len(inside) >= _INNER_WINS:
            return (other, *found[:index], *found[index + 1 :])
    return tuple(found)


def _one_per_step(marks: Marks) -> Marks:
    """Outermost markers of every thread in one time order, each step once."""
    if not len(marks):
        return marks
    chosen = [
        _outermost(marks.only(np.flatnonzero(marks.track == track)))
        for track in np.unique(marks.track)
    ]
    kept = marks.only(np.flatnonzero(np.isin(marks.event, np.concatenate(chosen))))
    kept = kept.only(np.lexsort((kept.event, kept.end_ps, kept.start_ps)))
    # The replicas of one step announce it on a thread each: an equal number at an
    # equal time is one step.
    before = np.concatenate(
        [[np.iinfo(np.int64).min], np.maximum.accumulate(kept.end_ps)[:-1]]
    )
    overlaps = kept.start_ps < before
    repeated = np.concatenate([[False], np.diff(kept.number) == 0]) & overlaps
    return kept.only(~repeated)


def _outermost(marks: Marks) -> NDArray[np.int32]:
    marks = marks.only(np.lexsort((marks.event, -marks.end_ps, marks.start_ps)))
    while len(marks):
        reach = np.maximum.accumulate(marks.end_ps)
        inside = np.concatenate([[False], marks.end_ps[1:] <= reach[:-1]])
        outer = np.flatnonzero(~inside)
        holds = np.diff(np.append(outer, len(marks))) - 1
        _, name, count = np.unique(
            marks.name[outer], return_inverse=True, return_counts=True
        )
        gives_way = (count[name] == 1) & (holds >= _INNER_WINS)
        if not gives_way.any():
            return marks.event[outer]
        marks = marks.only(~np.isin(np.arange(len(marks)), outer[gives_way]))
    return marks.event


def _own_values(marks: Marks, stats: pl.DataFrame, key: int) -> pl.Series:
    """Return each marker's own value under a key; null where it has none."""
    value = np.zeros(len(marks), np.int64)
    present = np.zeros(len(marks), np.bool_)
    if key >= 0:
        by_event = np.argsort(marks.event, kind="stable")
        event = marks.event[by_event]
        rows = rows_of_owners(stats, "event", event)
        value[by_event], present[by_event] = numbers_of(rows, event, key)
    return nullable("value", value, present)


def _step_rows(
    marks: Marks,
    event_types: pl.DataFrame,
    stored: pl.Series,
    group: pl.Series,
    stated: pl.Series,
) -> pl.DataFrame:
    full = stored.fill_null(event_types["name"].gather(marks.type))
    numbered = full.str.extract(STEP_RANGE, 1)
    marker = numbered.fill_null(full)
    number = pl.Series(marks.number)
    name = full.zip_with(numbered.is_not_null(), full + " " + number.cast(pl.String))
    return pl.DataFrame(
        {
            "step": number,
            "name": name,
            "marker": marker,
            "start_ps": marks.start_ps,
            "end_ps": marks.end_ps,
            "track": marks.track,
            "event": marks.event,
            "batches": _batches(marks, stated),
            "group": group,
            "slack_ps": pl.Series([None] * len(marks), dtype=pl.Int64),
            "cut": np.zeros(len(marks), np.bool_),
        },
        schema=step_sources.STEP_ROWS,
    )


def _batches(marks: Marks, stated: pl.Series) -> pl.Series:
    """Return the batches of each step: as its marker states, else by the step numbers.

    A count below one states nothing.
    """
    known = stated.to_frame("stated").select(
        pl.when(pl.col("stated") >= 1).then("stated")
    )["stated"]
    if known.null_count() < len(known):
        return known
    return pl.Series([_grown_by(marks)] * len(marks), dtype=pl.Int64)


def _grown_by(marks: Marks) -> int | None:
    """Return the constant difference of the step numbers, which is batches per step."""
    grows = np.unique(np.diff(marks.number))
    if len(grows) != 1 or grows[0] < 1:
        return None
    unmarked = np.maximum(marks.start_ps[1:] - marks.end_ps[:-1], 0)
    periods = np.diff(marks.start_ps)
    # Every tenth step marked also makes the numbers grow by ten, with much between.
    if grows[0] > 1 and unmarked.sum() > _LARGEST_UNMARKED * periods.sum():
        return None
    return int(grows[0])


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
    # In time order, the ranges that lie in no other range of their thread.
    start_ps, dur = (ints(events, name)[row] for name in ("start_ps", "dur_ps"))
    thread, end = handles(events, "track")[row], start_ps + dur
    kept = np.zeros(len(row), np.bool_)
    for track in np.unique(thread).tolist():
        mine = np.flatnonzero(thread == track)
        mine = mine[np.lexsort((-end[mine], start_ps[mine]))]
        reach = np.maximum.accumulate(end[mine])
        kept[mine] = np.concatenate([[True], end[mine][1:] > reach[:-1]])
    row, start = row[kept], start_ps[kept]
    order = np.argsort(start, kind="stable")
    row, start = row[order], start[order]
    if not len(row):
        return None
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
