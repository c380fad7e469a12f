"""Calls of the host that the producer stored as steps, where nobody marked any.

A producer that finds no marks of the program takes the calls of its graph for steps,
and notes so at each: the group, and the name that it shows for the step. Several graphs
may have been called: those whose calls last longest are the steps.

Definition: docs/how-steps-are-found.md#the-sources-surest-first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints, picked
from stepscope.derive.columns.stat_values import (
    find_handle,
    numbers_of,
    rows_of_owners,
    rows_with_key,
)
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.derive.repetition.sequences import program_threads
from stepscope.derive.steps import candidates as step_sources
from stepscope.derive.steps.candidates import Candidate, FoundSteps, median_period
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.trace.model import TraceData


def steps_of_stored_calls(
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    *,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    stats: pl.DataFrame,
) -> FoundSteps | None:
    """Return one step per stored call of the graph that took most time; None without.

    A single call is one step of one. Ops that a program runs one by one are no steps,
    though a producer may store them so. Where there is a device, a call shows how long
    it takes to ask for a step, and no more.
    """
    if not isinstance(trace.table("devices"), Unavailable):
        return None
    named, group_key = (
        find_handle(trace.strings, key) for key in (StatKey.STEP_NAME, StatKey.GROUP_ID)
    )
    event = np.unique(rows_with_key(stats, "event", named).owner)
    event = event[program_threads(tracks)[handles(events, "track")[event]]]
    graph = _graph_of(events, event_kinds, event)
    event, graph = event[graph >= 0], graph[graph >= 0]
    rows = rows_of_owners(stats, "event", event)
    group, grouped = numbers_of(rows, event, group_key)
    if not grouped.any():
        return None
    start, dur = (ints(events, name)[event] for name in ("start_ps", "dur_ps"))
    spent = np.bincount(graph[grouped], weights=dur[grouped])
    steps = np.flatnonzero(grouped & (graph == np.argmax(spent)))
    steps = steps[np.argsort(start[steps], kind="stable")]
    name = str(event_types["name"][int(graph[steps[0]])]).rpartition(": ")[2]
    return _found(events, event[steps], group[steps], name)


def _graph_of(
    events: pl.DataFrame, event_kinds: EventKinds, event: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Return the type of the call of a graph around each event; -1 where none is.

    What runs a graph stands for itself where no call is around it.
    """
    of_type = handles(events, "type")
    calls = picked(of_type, event_kinds.has(EventFlag.FUNCTION_CALL))
    runs = event_kinds.has(EventFlag.FUNCTION_RUN)[of_type[event]]
    graph = np.where(runs, of_type[event], np.int32(-1))
    start, dur = (ints(events, name) for name in ("start_ps", "dur_ps"))
    thread = handles(events, "track")
    for at, row in enumerate(event.tolist()):
        around = calls[
            (thread[calls] == thread[row])
            & (start[calls] <= start[row])
            & (start[calls] + dur[calls] >= start[row] + dur[row])
        ]
        if len(around):
            graph[at] = of_type[around[np.argmax(start[around])]]
    return graph


def _found(
    events: pl.DataFrame, event: NDArray[np.int32], group: NDArray[np.int64], name: str
) -> FoundSteps:
    start = ints(events, "start_ps")[event]
    nothing = pl.Series([None] * len(event))
    rows = pl.DataFrame(
        {
            "step": group,
            "name": [f"{name} {number}" for number in group.tolist()],
            "marker": nothing,
            "start_ps": start,
            "end_ps": start + ints(events, "dur_ps")[event],
            "track": handles(events, "track")[event],
            "event": event,
            "batches": nothing,
            "group": group,
            "slack_ps": nothing,
            "cut": np.zeros(len(event), np.bool_),
        },
        schema=step_sources.STEP_ROWS,
    )
    candidate = Candidate(
        source="stored_call",
        what=f"{name}, as the producer stored it",
        n=len(rows),
        period_ps=median_period(start),
        coverage=None,
        cv=None,
        confidence=step_sources.STORED_CALL,
        accepted=True,
    )
    return FoundSteps(candidate, rows, on_device=False)
