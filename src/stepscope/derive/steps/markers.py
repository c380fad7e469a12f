"""Steps that the program marked: numbered events, numbered ranges, engine iterations.

A marker is a host event that has the number of the step in a value or in its name. A
serving engine marks each iteration, which runs the model once for all open requests.

Definition: docs/how-steps-are-found.md#the-sources-most-certain-first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import are_host_threads, handles, ints, wanted_rows
from stepscope.derive.columns.stat_values import (
    find_handle,
    owner_numbers,
    owner_texts,
    rows_of_owners,
    rows_with_key,
    values_of_owners,
)
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.derive.steps import candidates as step_sources
from stepscope.derive.steps.candidates import recorded_steps
from stepscope.derive.steps.launches import program_rows
from stepscope.derive.steps.periods import MAX_CONFIDENCE
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import (
    fill_nulls,
    nullable_series,
    present_mask,
)
from stepscope.trace.reading.stat_keys import StatKey

if TYPE_CHECKING:
    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.steps.candidates import CandidateSteps, SourceTables
    from stepscope.trace.model import TraceData

#: Name of the marker of Keras 3, which is accepted even if it occurs only once.
_SURE_WITHOUT_ROOT: Final = "Profiled batch"
#: Pattern of a numbered range that marks a step: a word for step and a number.
STEP_RANGE: Final = (
    r"^(?:NVTX:)?(ProfilerStep|(?i:(?:.*[^a-z])?(?:step|iter|iteration|batch)))"
    r"(?:\s*#\s*|\s+)([0-9]{1,18})$"
)

#: Pattern of a stored step name: text and the step's number.
_STORED_NAME: Final = r"^(.*\S) ([0-9]{1,18})$"


class Marks(Frozen, frozen=True):
    """Marker events, one entry per event.

    Markers with equal `name` differ only in their number.
    """

    event: Int32s
    track: Int32s
    type: Int32s
    name: Int32s
    start_ps: Int64s
    end_ps: Int64s
    number: Int64s

    def __len__(self) -> int:
        return len(self.event)

    def choose_marks(self, chosen: Bools | Int64s) -> Marks:
        """Return the entries selected by a mask, or by indices in the given order."""
        return Marks(*(column[chosen] for column in msgspec.structs.astuple(self)))


def numbered_events(tables: SourceTables) -> tuple[Marks, Bools]:
    """Return host events that have a `step_num`, and a mask of the root events.

    A root has `_r` ≥ 1, or a name that older TensorFlow releases use for roots.
    """
    events, stats, type_stats = tables.events, tables.stats, tables.type_stats
    number_key, root_key = (
        find_handle(tables.trace.strings, key)
        for key in (StatKey.STEP_NUM, StatKey.ROOT_LEVEL)
    )
    own = rows_with_key(stats, "event", number_key)
    event = np.unique(own.owner)
    number, present = owner_numbers(own, event, number_key)
    own_root = rows_of_owners(stats, "event", event)
    level, has_level = owner_numbers(own_root, event, root_key)
    shared = rows_with_key(type_stats, "type", number_key)
    if len(shared.owner):
        types = np.unique(shared.owner)
        shared_number, _ = owner_numbers(shared, types, number_key)
        of_type = handles(events, "type")
        added = np.flatnonzero(np.isin(of_type, types)).astype(np.int32)
        added = added[~np.isin(added, event[present])]
        event = np.concatenate([event[present], added])
        number = np.concatenate(
            [number[present], shared_number[np.searchsorted(types, of_type[added])]]
        )
        own_root = rows_of_owners(stats, "event", np.sort(event))
        event, order = np.unique(event, return_index=True)
        number, present = number[order], np.ones(len(event), np.bool_)
        level, has_level = owner_numbers(own_root, event, root_key)
    event, number = event[present], number[present]
    level, has_level = level[present], has_level[present]
    marks = _build_marks(events, event, number)
    rows = rows_with_key(type_stats, "type", root_key)
    # Find the `_r` that all events of a type share; 0 if the type has no `_r`.
    shared_level = np.zeros(len(marks.type), np.int64)
    if len(rows.owner):
        owners = np.unique(rows.owner)
        level_of_owner, _ = owner_numbers(rows, owners, root_key)
        shared_level, _ = values_of_owners(marks.type, owners, level_of_owner)
    level = np.where(has_level, level, shared_level)
    on_host = are_host_threads(tables.tracks)[marks.track]
    root = (level >= 1) | tables.event_kinds.has(EventFlag.TRACE_CONTEXT)[marks.type]
    return marks.choose_marks(on_host), root[on_host]


def stored_names(trace: TraceData, marks: Marks, stats: pl.DataFrame) -> pl.Series:
    """Return the name that the producer stored for each step, without its number.

    The name is null if none is stored, or if it does not end in the step's number.
    """
    order = np.argsort(marks.event, kind="stable")
    event = marks.event[order]
    key = find_handle(trace.strings, StatKey.STEP_NAME)
    names: list[str | None] = [None] * len(marks)
    if key >= 0:
        texts = owner_texts(trace, rows_of_owners(stats, "event", event), event, key)
        for index, text in zip(order.tolist(), texts, strict=True):
            names[index] = text
    parts = pl.DataFrame({"text": names}, schema={"text": pl.String}).select(
        name=pl.col("text").str.extract(_STORED_NAME, 1),
        number=pl.col("text").str.extract(_STORED_NAME, 2).cast(pl.Int64),
    )
    same = parts["number"] == pl.Series(marks.number)
    return pl.select(pl.when(same).then(parts["name"])).to_series()


def growing_numbers(marks: Marks, event_types: pl.DataFrame) -> Marks:
    """Return markers without `_r` that have a known name or growing numbers."""
    if not len(marks):
        return marks
    ordered = marks.choose_marks(np.lexsort((marks.event, marks.name, marks.track)))
    size, falls, run = _count_falls(ordered)
    names = event_types["name"].gather(ordered.type)
    sure = (names == _SURE_WITHOUT_ROOT).to_numpy()
    return ordered.choose_marks(sure | ((size >= 2) & (falls == 0))[run])


def numbered_ranges(
    tracks: pl.DataFrame, events: pl.DataFrame, event_types: pl.DataFrame
) -> Marks:
    """Return ranges named `<text> <n>` or `<text>#<n>` whose text is a word for step.

    Ranges do not mark steps if their numbers fall or repeat on one thread.
    """
    parts = event_types.select(
        text=pl.col("name").str.extract(STEP_RANGE, 1),
        number=pl.col("name").str.extract(STEP_RANGE, 2).cast(pl.Int64),
    )
    of_type = handles(events, "type")
    event = wanted_rows(of_type, present_mask(parts["number"])).astype(np.int32)
    marks = _build_marks(events, event, fill_nulls(parts["number"], 0)[of_type[event]])
    marks = marks.choose_marks(are_host_threads(tracks)[marks.track])
    if not len(marks):
        return marks
    texts, text = np.unique(
        parts["text"].gather(marks.type).to_numpy().astype(str), return_inverse=True
    )
    marks = msgspec.structs.replace(marks, name=text.astype(np.int32))
    marks = marks.choose_marks(np.lexsort((marks.event, marks.name, marks.track)))
    size, falls, run = _count_falls(marks)
    steps = [text.startswith("ProfilerStep") for text in texts.tolist()]
    sure = np.array(steps, bool)[marks.name]
    return marks.choose_marks(
        ((falls == 0) & (size >= 2))[run] | (sure & (falls == 0)[run])
    )


def _build_marks(events: pl.DataFrame, event: Int32s, number: Int64s) -> Marks:
    start = ints(events, "start_ps")[event]
    of_type = handles(events, "type")[event]
    return Marks(
        event=event,
        track=handles(events, "track")[event],
        type=of_type,
        name=of_type,
        start_ps=start,
        end_ps=start + ints(events, "dur_ps")[event],
        number=number,
    )


def _count_falls(marks: Marks) -> tuple[Int64s, Int64s, Int64s]:
    """Return the size and number of falls of each group, and the group of each marker.

    Markers of a group have the same thread and name. A fall is a marker whose number is
    not larger than the previous one. `marks` are ordered by thread, name and time.
    """
    same = (np.diff(marks.track) == 0) & (np.diff(marks.name) == 0)
    run = np.concatenate([[0], np.cumsum(~same)])
    falls = np.zeros(int(run[-1]) + 1, np.int64)
    np.add.at(falls, run[1:], same & (np.diff(marks.number) <= 0))
    return np.bincount(run), falls, run


#: A single outermost marker that contains at least this many markers is ignored.
_MIN_INNER_MARKERS: Final = 3
#: Maximum unmarked share of the time at which numbers growing by n mean n batches.
_MAX_UNMARKED_SHARE: Final = 0.5


def find_markers(tables: SourceTables) -> tuple[CandidateSteps, ...]:
    """Return the steps of each kind of marker in the recording, the surest kind first.

    Of nested markers only the outermost counts, unless a single one has several inside.
    """
    event_types = tables.event_types
    marks, has_root = numbered_events(tables)
    unrooted = growing_numbers(marks.choose_marks(~has_root), event_types)
    ranges = numbered_ranges(tables.tracks, tables.events, event_types)
    candidates = [
        _marked_steps(outermost, tables, confidence)
        for chosen, confidence in (
            (marks.choose_marks(has_root), step_sources.ROOT_MARKER),
            (unrooted, step_sources.MARKER),
            (ranges, step_sources.NUMBERED_RANGE),
        )
        if len(outermost := _one_per_step(chosen))
    ]
    # Prefer another source if a single marker of the first source contains its markers.
    if len(candidates) < 2 or len(candidates[0].rows) != 1:
        return tuple(candidates)
    start, end = candidates[0].rows.select("start_ps", "end_ps").row(0)
    for index, inner in enumerate(candidates[1:], start=1):
        inside = inner.rows.filter(pl.col("start_ps") >= start, pl.col("end_ps") <= end)
        if len(inside) >= _MIN_INNER_MARKERS:
            return (inner, *candidates[:index], *candidates[index + 1 :])
    return tuple(candidates)


def _one_per_step(marks: Marks) -> Marks:
    if not len(marks):
        return marks
    chosen = [
        _outermost_marks(marks.choose_marks(np.flatnonzero(marks.track == track)))
        for track in np.unique(marks.track)
    ]
    kept = marks.choose_marks(
        np.flatnonzero(np.isin(marks.event, np.concatenate(chosen)))
    )
    kept = kept.choose_marks(np.lexsort((kept.event, kept.end_ps, kept.start_ps)))
    # Replicas mark a step on several threads: overlapping equal numbers are one step.
    before = np.concatenate(
        [[np.iinfo(np.int64).min], np.maximum.accumulate(kept.end_ps)[:-1]]
    )
    overlaps = kept.start_ps < before
    repeated = np.concatenate([[False], np.diff(kept.number) == 0]) & overlaps
    return kept.choose_marks(~repeated)


def _outermost_marks(marks: Marks) -> Int32s:
    marks = marks.choose_marks(np.lexsort((marks.event, -marks.end_ps, marks.start_ps)))
    while len(marks):
        reach = np.maximum.accumulate(marks.end_ps)
        inside = np.concatenate([[False], marks.end_ps[1:] <= reach[:-1]])
        outer = np.flatnonzero(~inside)
        holds = np.diff(np.append(outer, len(marks))) - 1
        _, name, count = np.unique(
            marks.name[outer], return_inverse=True, return_counts=True
        )
        is_dropped = (count[name] == 1) & (holds >= _MIN_INNER_MARKERS)
        if not is_dropped.any():
            return marks.event[outer]
        marks = marks.choose_marks(~np.isin(np.arange(len(marks)), outer[is_dropped]))
    return marks.event


def _own_values(marks: Marks, tables: SourceTables, name: StatKey) -> pl.Series:
    key, stats = find_handle(tables.trace.strings, name), tables.stats
    value = np.zeros(len(marks), np.int64)
    present = np.zeros(len(marks), np.bool_)
    if key >= 0:
        by_event = np.argsort(marks.event, kind="stable")
        event = marks.event[by_event]
        rows = rows_of_owners(stats, "event", event)
        value[by_event], present[by_event] = owner_numbers(rows, event, key)
    return nullable_series("value", value, present)


def _marked_steps(
    marks: Marks, tables: SourceTables, confidence: float
) -> CandidateSteps:
    stored = stored_names(tables.trace, marks, tables.stats)
    full = stored.fill_null(tables.event_types["name"].gather(marks.type))
    numbered = full.str.extract(STEP_RANGE, 1)
    marker = numbered.fill_null(full)
    number = pl.Series(marks.number)
    name = full.zip_with(numbered.is_not_null(), full + " " + number.cast(pl.String))
    # Batches per step: the recorded number, else derived from the step numbers.
    stated = _own_values(marks, tables, StatKey.N_STEPS)
    batches = pl.select(pl.when(stated >= 1).then(stated)).to_series()
    if batches.null_count() == len(batches):
        batches = pl.Series([_batches_per_step(marks)] * len(marks), dtype=pl.Int64)
    return recorded_steps(
        "marker",
        ", ".join(marker.unique(maintain_order=True).to_list()),
        {
            "step": number,
            "name": name,
            "marker": marker,
            "start_ps": marks.start_ps,
            "end_ps": marks.end_ps,
            "track": marks.track,
            "event": marks.event,
            "batches": batches,
            "group": _own_values(marks, tables, StatKey.GROUP_ID),
        },
        confidence=confidence,
    )


def _batches_per_step(marks: Marks) -> int | None:
    """Return the constant difference of step numbers: the batches per step."""
    batches, *others = np.unique(np.diff(marks.number)).tolist() or [0]
    if others or batches < 1:
        return None
    unmarked = np.maximum(marks.start_ps[1:] - marks.end_ps[:-1], 0)
    periods = np.diff(marks.start_ps)
    # Marks on each tenth step also grow by ten, but leave most time unmarked.
    if batches > 1 and unmarked.sum() > _MAX_UNMARKED_SHARE * periods.sum():
        return None
    return int(batches)


def engine_iterations(tables: SourceTables) -> CandidateSteps | None:
    """Return one step per engine iteration, even for a single one; None without any."""
    events, iterations = tables.events, EventFlag.ENGINE_ITERATION
    row = program_rows(tables.tracks, events, tables.event_kinds.has(iterations))
    # Keep the outermost ranges of each thread, in time order.
    start_ps, dur = (ints(events, name)[row] for name in ("start_ps", "dur_ps"))
    thread, end = handles(events, "track")[row], start_ps + dur
    kept = np.zeros(len(row), np.bool_)
    for track in np.unique(thread).tolist():
        own_rows = np.flatnonzero(thread == track)
        own_rows = own_rows[np.lexsort((-end[own_rows], start_ps[own_rows]))]
        reach = np.maximum.accumulate(end[own_rows])
        kept[own_rows] = np.concatenate([[True], end[own_rows][1:] > reach[:-1]])
    row, start = row[kept], start_ps[kept]
    order = np.argsort(start, kind="stable")
    row, start = row[order], start[order]
    if not len(row):
        return None
    return recorded_steps(
        "launch",
        "iterations of a serving engine",
        {
            "step": np.arange(len(row)),
            "name": tables.event_types["name"].gather(handles(events, "type")[row]),
            "start_ps": start,
            "end_ps": start + ints(events, "dur_ps")[row],
            "track": handles(events, "track")[row],
            "event": row.astype(np.int32),
        },
        confidence=MAX_CONFIDENCE,
    )
