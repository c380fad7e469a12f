"""Steps that the producer stored: a step line of a device, or calls on the host.

The time of a step line also appears on streams. The step line shows where steps are;
its time is never added to a total.

A producer that finds no markers in the program treats calls of the program's graph as
steps. Such a producer stores a group and a step name with each call. If several graphs
were called, the steps are the calls of the graph with the most time.

Definition: docs/how-steps-are-found.md#the-sources-most-certain-first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import (
    LINE_CODES,
    codes,
    handles,
    ints,
    wanted_rows,
)
from stepscope.derive.columns.stat_values import (
    find_handle,
    owner_numbers,
    owner_texts,
    rows_of_owners,
    rows_with_key,
)
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.derive.sequences import program_threads
from stepscope.derive.steps import candidates as step_sources
from stepscope.derive.steps.candidates import recorded_steps
from stepscope.trace.reading.nullable import nullable_series
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.steps.candidates import CandidateSteps, SourceTables

#: Columns of the frame of stored step spans; null means not recorded.
STORED_STEPS: Final[dict[str, pl.DataType]] = {
    "event": pl.Int32(),  # row of events
    "track": pl.Int32(),  # row of tracks
    "device": pl.Int32(),
    "start_ps": pl.Int64(),
    "end_ps": pl.Int64(),
    "group": pl.Int64(),  # step group
    "number": pl.Int64(),  # step number
    "name": pl.String(),  # as recorded
    "key": pl.Int64(),  # equal for the spans of one step
}


def stored_steps(tables: SourceTables) -> pl.DataFrame:
    """Return all spans of the stored step lines, in the order of `events`.

    Spans with the same group belong to one step. If groups are not recorded, the step
    number identifies a step; else the position in the line does.
    """
    tracks, events = tables.tracks, tables.events
    lines = np.flatnonzero(codes(tracks, "derived") == LINE_CODES["steps"])
    begin, end = (ints(tracks, f"event_{edge}")[lines] for edge in ("begin", "end"))
    ranges = [
        np.arange(first, last, dtype=np.int32)
        for first, last in zip(begin.tolist(), end.tolist(), strict=True)
    ]
    event = np.sort(np.concatenate([np.empty(0, np.int32), *ranges]))
    if not len(event):
        return pl.DataFrame(schema=STORED_STEPS)
    rows = rows_of_owners(tables.stats, "event", event)
    strings = tables.trace.strings
    group, grouped = owner_numbers(rows, event, find_handle(strings, StatKey.GROUP_ID))
    number, known = owner_numbers(rows, event, find_handle(strings, StatKey.STEP_NUM))
    key = find_handle(strings, StatKey.STEP_NAME)
    label = owner_texts(tables.trace, rows, event, key)
    recorded = tables.event_types["name"].gather(handles(events, "type")[event])
    in_name = recorded.str.extract(r"^(?:Step )?([0-9]{1,18})$", 1).cast(pl.Int64)
    number = np.where(known, number, in_name.fill_null(-1).to_numpy())
    known |= in_name.is_not_null().to_numpy()
    track = handles(events, "track")[event]
    index = np.arange(len(track))
    begins_line = np.concatenate([[True], np.diff(track) != 0])
    in_line = index - np.maximum.accumulate(np.where(begins_line, index, 0))
    same = group if grouped.all() else number if known.all() else in_line
    start = ints(events, "start_ps")[event]
    return pl.DataFrame(
        {
            "event": event,
            "track": track,
            "device": tracks["device"].gather(track),
            "start_ps": start,
            "end_ps": start + ints(events, "dur_ps")[event],
            "group": nullable_series("group", group, grouped),
            "number": nullable_series("number", number, known),
            "name": pl.Series(label, dtype=pl.String).fill_null(recorded),
            "key": same,
        },
        schema=STORED_STEPS,
    )


def mark_separate_spans(stored: pl.DataFrame) -> pl.DataFrame:
    """Return the spans with `apart`: whether a gap separates a span from the main ones.

    The gap is longer than the longest span of the step: devices that far apart did not
    work together on the step. The main spans contain the longest span.
    """
    longest = (pl.col("end_ps") - pl.col("start_ps")).max().over("key")
    ended = pl.col("end_ps").cum_max().shift().over("key")
    hole = (pl.col("start_ps") - ended > longest).fill_null(value=False)
    parts = stored.sort("key", "start_ps").with_columns(
        part=hole.cast(pl.Int32).cum_sum().over("key")
    )
    length = pl.col("end_ps") - pl.col("start_ps")
    main = pl.col("part").get(length.arg_max()).over("key")
    return parts.with_columns(apart=pl.col("part") != main).drop("part")


def steps_of_stored_line(stored: pl.DataFrame) -> CandidateSteps | None:
    """Return one step per stored key: the time range of its spans. None without spans.

    Spans that are `apart` from the main spans are left out.
    """
    if not len(stored):
        return None
    merged = (
        mark_separate_spans(stored)
        .filter(~pl.col("apart"))
        .group_by("key", maintain_order=True)
        .agg(
            pl.col("start_ps").min(),
            pl.col("end_ps").max(),
            *(pl.col(name).first() for name in ("event", "track", "group", "number")),
            pl.col("name").drop_nulls().first(),
        )
        .sort("start_ps", "key")
    )
    number = merged["number"].fill_null(merged["group"])
    known = ("start_ps", "end_ps", "track", "event", "name", "group")
    return recorded_steps(
        "device_line",
        "the stored line of steps",
        {
            "step": number.fill_null(pl.Series(np.arange(len(merged)))),
            **{name: merged[name] for name in known},
        },
        confidence=step_sources.DEVICE_LINE,
        on_device=True,
    )


def steps_of_stored_calls(tables: SourceTables) -> CandidateSteps | None:
    """Return one step per stored call of the longest-running graph; None without calls.

    A single call is one step. Ops that a program runs one by one are not steps, even if
    the producer stored them. If there is a device, the result is None, because a call
    then shows only the time to dispatch the step.
    """
    if not isinstance(tables.trace.table("devices"), Unavailable):
        return None
    events, event_kinds, stats = tables.events, tables.event_kinds, tables.stats
    named, group_id = (
        find_handle(tables.trace.strings, key)
        for key in (StatKey.STEP_NAME, StatKey.GROUP_ID)
    )
    event = np.unique(rows_with_key(stats, "event", named).owner)
    event = event[program_threads(tables.tracks)[handles(events, "track")[event]]]
    # Find the type of the graph call around each event; -1 without a graph call. If an
    # event itself runs a graph and has no call around it, use its own type.
    of_type = handles(events, "type")
    calls = wanted_rows(of_type, event_kinds.has(EventFlag.FUNCTION_CALL))
    runs = event_kinds.has(EventFlag.FUNCTION_RUN)[of_type[event]]
    graph = np.where(runs, of_type[event], np.int32(-1))
    begin_ps, length_ps = (ints(events, name) for name in ("start_ps", "dur_ps"))
    thread = handles(events, "track")
    for index, row in enumerate(event.tolist()):
        around = calls[
            (thread[calls] == thread[row])
            & (begin_ps[calls] <= begin_ps[row])
            & (begin_ps[calls] + length_ps[calls] >= begin_ps[row] + length_ps[row])
        ]
        if len(around):
            graph[index] = of_type[around[np.argmax(begin_ps[around])]]
    event, graph = event[graph >= 0], graph[graph >= 0]
    group, known = owner_numbers(rows_of_owners(stats, "event", event), event, group_id)
    if not known.any():
        return None
    start, dur = (ints(events, name)[event] for name in ("start_ps", "dur_ps"))
    spent = np.bincount(graph[known], weights=dur[known])
    steps = np.flatnonzero(known & (graph == np.argmax(spent)))
    steps = steps[np.argsort(start[steps], kind="stable")]
    name = str(tables.event_types["name"][int(graph[steps[0]])]).rpartition(": ")[2]
    event, group, start = event[steps], group[steps], start[steps]
    return recorded_steps(
        "stored_call",
        f"{name}, as the producer stored it",
        {
            "step": group,
            "name": [f"{name} {number}" for number in group.tolist()],
            "start_ps": start,
            "end_ps": start + dur[steps],
            "track": thread[event],
            "event": event,
            "group": group,
        },
        confidence=step_sources.STORED_CALL,
    )
