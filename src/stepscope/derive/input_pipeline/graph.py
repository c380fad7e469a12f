"""`pipeline_graph`: which executions of an input pipeline's stages caused which others.

An *execution* is one event of a stage; a stage is an iterator of the pipeline. The
executions of a host form a graph. An execution causes nested executions, those on other
threads that produced an element it took, and those that ran on its behalf.

Definition: docs/tools/tf_data_bottleneck_analysis.md#how-each-number-is-defined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints, wanted_rows
from stepscope.derive.columns.stat_values import values_of_owners
from stepscope.derive.host.values import host_stats, int_values
from stepscope.derive.input_pipeline.contexts import (
    Elements,
    find_callers,
    match_handovers,
    read_contexts,
)
from stepscope.derive.input_pipeline.stages import (
    BEGINNING,
    MARKS,
    STAGES,
    last_stages,
    list_pipelines,
    unite_stages,
)
from stepscope.derive.intervals.nesting import nearest_above
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.derive.reasons import WHY
from stepscope.frozen import Frozen
from stepscope.trace.quality import QualityNote
from stepscope.trace.reading.stat_keys import StatKey

if TYPE_CHECKING:
    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.input_pipeline.contexts import Context
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.trace.model import TraceData
    from stepscope.unavailable import Unavailable


class PipelineGraph(Frozen, frozen=True):
    """Executions of all stages of a host; index arrays contain indices of executions.

    Attributes:
        event: int64; row of events with the values of the execution.
        parent: int64 by edge, ascending; the execution that caused another one. Edges
            with the same parent are ordered by the start of the child.
        child: int64 by edge; the execution that was caused. Each edge occurs once.
        root: int64; executions with which a call of a pipeline begins, by start.
        pipeline: int32 by root; row of pipelines.
    """

    stages: pl.DataFrame
    pipelines: pl.DataFrame
    event: Int64s
    start_ps: Int64s
    dur_ps: Int64s
    stage: Int32s
    parent: Int64s
    child: Int64s
    root: Int64s
    pipeline: Int32s
    notes: tuple[QualityNote, ...]


def pipeline_graph(
    *,
    iterators: pl.DataFrame,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    event_nesting: Nesting,
    stats: pl.DataFrame,
) -> PipelineGraph | Unavailable:
    """Reconstruct the input pipelines of a host from the events of their stages.

    Args:
        iterators: The table `iterators`; calls of anything but stages are ignored.
        stats: The table `stats`, for the numbers of elements and for contexts.
    """
    listed = iterators.filter(pl.col("long_name").str.starts_with(BEGINNING))
    if not len(listed):
        return WHY["no_pipeline_stages"]
    stages, stage = unite_stages(listed)
    rows = ints(listed, "event")
    same = np.ones(len(listed) - 1, np.bool_)
    for column in ("track", "start_ps", "dur_ps"):
        values = ints(listed, column)
        same &= values[1:] == values[:-1]
    group = np.concatenate(([0], np.cumsum(~same)))
    order = np.lexsort((stages["depth"].to_numpy()[stage], group))
    stage = stage[order]
    runs = _Executions(rows, event_nesting.parent, stage, ints(listed, "start_ps"))
    nested = runs.enclosing
    key = StatKey.ELEMENT_ID
    makes = np.zeros(len(event_types), np.bool_)
    takes = makes.copy()
    names = event_types["name"]
    for row in np.flatnonzero(event_kinds.has(EventFlag.PRODUCER)).tolist():
        mark = MARKS.get(names[row])
        makes[row], takes[row] = mark is True, mark is False
    handed = _handed_over(
        runs,
        stages,
        events,
        elements=int_values(host_stats(trace.strings, tracks, stats, (key,))[key]),
        marks=(makes, takes),
    )
    outermost = np.flatnonzero(nested < 0)
    origin, calls, crowds = find_callers(
        rows[outermost],
        parent=event_nesting.parent,
        is_call=runs.is_call,
        events=events,
        contexts=read_contexts(trace.strings, tracks, events, event_kinds, stats),
    )
    inside = np.flatnonzero(nested >= 0)
    parent, child = _distinct_edges(
        np.concatenate((nested[inside], handed[0], runs.find_executions(calls))),
        np.concatenate((inside, handed[1], outermost[origin])),
        runs.start_ps,
    )
    roots, of_root = _call_roots(runs, stages)
    if not len(roots):
        return WHY["no_whole_call"]
    pipelines, pipeline = list_pipelines(stages, of_root)
    return PipelineGraph(
        stages=stages.select(*STAGES),
        pipelines=pipelines,
        event=rows[order],
        start_ps=runs.start_ps,
        dur_ps=ints(listed, "dur_ps"),
        stage=stage,
        parent=parent,
        child=child,
        root=roots,
        pipeline=pipeline,
        notes=_crowd_notes(trace.host, crowds),
    )


class _Executions:
    """Executions, found by the rows of their events."""

    def __init__(
        self, place: Int64s, parent: Int32s, stage: Int32s, start_ps: Int64s
    ) -> None:
        self.place = place
        self.parent = parent
        self.stage = stage
        self.start_ps = start_ps
        self.is_call = np.zeros(len(parent), np.bool_)
        self.is_call[place] = True
        above = nearest_above(parent, place, self.is_call)
        #: The execution around each execution on the same thread, -1 for none.
        self.enclosing = np.where(above < 0, -1, self.find_executions(above))

    def find_executions(self, rows: Int64s) -> Int64s:
        """Return the executions at the given rows of events."""
        return np.searchsorted(self.place, rows)


def _handed_over(
    runs: _Executions,
    stages: pl.DataFrame,
    events: pl.DataFrame,
    *,
    elements: tuple[Int32s, Int64s],
    marks: tuple[Bools, Bools],
) -> tuple[Int64s, Int64s]:
    """Pair executions that took an element with the executions that produced it.

    Args:
        elements: Rows of events that have the number of an element, and the numbers.
        marks: By row of event_types: whether the type marks production, or taking.
    """
    types = handles(events, "type")
    produced_rows, taken_rows = (wanted_rows(types, mark) for mark in marks)
    # Find the first execution directly inside each event that produces an element.
    stops = runs.is_call.copy()
    stops[produced_rows] = True
    around = nearest_above(runs.parent, runs.place, stops)
    begun = np.flatnonzero(np.isin(around, produced_rows))
    productions, first = np.unique(around[begun], return_index=True)
    begun = begun[first]
    consumer = handles(stages, "consumer")[runs.stage[begun]]
    number, numbered = values_of_owners(productions, *elements)
    usable = numbered & (consumer >= 0)
    begun = begun[usable]
    produced = Elements(consumer[usable], number[usable], runs.start_ps[begun])
    within = nearest_above(runs.parent, taken_rows, runs.is_call)
    number, numbered = values_of_owners(taken_rows, *elements)
    known = numbered & (within >= 0)
    taker, rows = runs.find_executions(within[known]), taken_rows[known]
    ends_ps = ints(events, "start_ps")[rows] + ints(events, "dur_ps")[rows]
    taken = Elements(runs.stage[taker], number[known], ends_ps)
    produced_at, taken_at = match_handovers(produced, taken)
    return taker[taken_at], begun[produced_at]


def _distinct_edges(
    parent: Int64s, child: Int64s, start_ps: Int64s
) -> tuple[Int64s, Int64s]:
    distinct = parent != child
    parent, child = parent[distinct], child[distinct]
    order = np.lexsort((child, start_ps[child], parent))
    parent, child = parent[order], child[order]
    fresh = np.ones(len(parent), np.bool_)
    fresh[1:] = (parent[1:] != parent[:-1]) | (child[1:] != child[:-1])
    return parent[fresh], child[fresh]


def _call_roots(runs: _Executions, stages: pl.DataFrame) -> tuple[Int64s, Int32s]:
    """Return executions that begin a call, by start, and each call's last stage.

    A chain of transparent stages begins one call. If the recording lacks the beginning
    of the chain, the call still counts as a call of the whole pipeline.
    """
    outermost = stages["outermost"].to_numpy()
    is_wrapper = outermost & stages["transparent"].to_numpy()
    around = np.where(runs.enclosing >= 0, runs.stage[runs.enclosing], -1)
    begins = (around < 0) | (~is_wrapper[around] & (around != runs.stage))
    roots = np.flatnonzero(outermost[runs.stage] & begins)
    roots = roots[np.argsort(runs.start_ps[roots], kind="stable")]
    return roots, last_stages(stages)[runs.stage[roots]]


def _crowd_notes(host: str, crowds: set[Context]) -> tuple[QualityNote, ...]:
    if not crowds:
        return ()
    return (
        QualityNote(
            kind="contexts_skipped",
            severity="info",
            count=len(crowds),
            scope=host,
            message=f"{len(crowds):,} contexts have too many producers and consumers "
            "to show which stage of an input pipeline called which.",
        ),
    )
