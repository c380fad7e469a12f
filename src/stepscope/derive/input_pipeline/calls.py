"""`pipeline_calls`: how the time of each call of an input pipeline is divided by stage.

A call is one execution of a pipeline's outermost stage with all executions that it
caused. For each call and stage, the result has the total time of the executions, their
self time, and the part of the call's wall time that is charged to them.

Definition: docs/tools/tf_data_bottleneck_analysis.md#how-each-number-is-defined.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from stepscope.frozen import Frozen
from stepscope.trace.quality import QualityNote

if TYPE_CHECKING:
    from stepscope.array_types import Bools, Int64s
    from stepscope.derive.input_pipeline.graph import PipelineGraph

#: Maximum depth of executions that cause each other; deeper ones are left out.
#: Definition: docs/tools/tf_data_bottleneck_analysis.md#how-each-number-is-defined.
_MAX_DEPTH: Final = 100

#: Columns of `PipelineCalls.calls`, sorted by start; the row number is the call's id.
CALLS: Final[dict[str, pl.DataType]] = {
    "pipeline": pl.Int32(),  # row of pipelines
    "start_ps": pl.Int64(),
    "latency_ps": pl.Int64(),
    "rank": pl.Int64(),  # position among the calls of its pipeline, 0 for the slowest
    "bottleneck": pl.Int32(),  # row of stages; null if all are transparent
}
#: Columns of `PipelineCalls.stages`, sorted by call and stage.
CALL_STAGES: Final[dict[str, pl.DataType]] = {
    "call": pl.Int32(),
    "stage": pl.Int32(),
    "start_ps": pl.Int64(),  # start of the stage's first execution
    "total_ps": pl.Int64(),
    "self_ps": pl.Int64(),
    "critical_ps": pl.Int64(),
    "executions": pl.Int64(),
    "blocking": pl.Boolean(),
}


class PipelineCalls(Frozen, frozen=True):
    """All calls of the pipelines of a host.

    Attributes:
        calls: Columns `CALLS`.
        stages: Columns `CALL_STAGES`; a call's `critical_ps` add up to its latency.
        call: int64, ascending; rows of `calls`, one entry per execution of a call.
        execution: int64; the execution of each entry of `call`, an index into the
            arrays of `PipelineGraph`.
    """

    calls: pl.DataFrame
    stages: pl.DataFrame
    call: Int64s
    execution: Int64s
    notes: tuple[QualityNote, ...]

    def stages_of(self, call: int) -> pl.DataFrame:
        """Return the rows of `stages` of one call."""
        calls = self.stages["call"]
        first = int(calls.search_sorted(call, side="left"))
        last = int(calls.search_sorted(call, side="right"))
        return self.stages.slice(first, last - first)

    def executions_of(self, call: int) -> Int64s:
        """Return the executions that belong to one call."""
        first, last = np.searchsorted(self.call, (call, call + 1))
        return self.execution[first:last]


def pipeline_calls(*, pipeline_graph: PipelineGraph) -> PipelineCalls:
    """Find the executions of all calls, starting at the roots, level by level."""
    walk = _Walk(pipeline_graph)
    reached = walk.walk_blocking()
    unwaited = walk.walk_unwaited(reached)
    call = np.concatenate((reached.call, unwaited.call))
    execution = np.concatenate((reached.execution, unwaited.execution))
    critical = np.concatenate((reached.kept_ps, np.zeros(len(unwaited.call), np.int64)))
    blocking = np.arange(len(call)) < len(reached.call)
    order = np.lexsort((execution, call))
    stages = _sum_by_stage(
        pipeline_graph,
        call=call[order],
        execution=execution[order],
        critical_ps=critical[order],
        blocking=blocking[order],
    )
    too_deep = QualityNote(
        kind="pipeline_too_deep",
        severity="warning",
        count=walk.cut,
        scope="input pipelines",
        message=f"{walk.cut:,} executions of input pipeline stages are more "
        f"than {_MAX_DEPTH} levels deep; their time is charged to the stages that "
        "waited for them.",
    )
    # Find latency, rank and bottleneck of each call.
    named = pipeline_graph.stages.with_row_index("stage").select(
        pl.col("stage").cast(pl.Int32), "transparent", "long_name"
    )
    bottlenecks = (
        stages.filter("blocking")
        .join(named, on="stage", how="left", maintain_order="left")
        .filter(~pl.col("transparent"))
        .sort(
            *("self_ps", "critical_ps", "long_name", "stage"),
            descending=[True, True, False, False],
        )
        .group_by("call")
        .agg(pl.col("stage").first().alias("bottleneck"))
    )
    slowest_first = pl.struct(-pl.col("latency_ps"), "call").rank("ordinal")
    return PipelineCalls(
        calls=pl.DataFrame(
            {
                "call": np.arange(len(pipeline_graph.root), dtype=np.int32),
                "pipeline": pipeline_graph.pipeline,
                "start_ps": pipeline_graph.start_ps[pipeline_graph.root],
                "latency_ps": pipeline_graph.dur_ps[pipeline_graph.root],
            }
        )
        .with_columns((slowest_first.over("pipeline") - 1).alias("rank"))
        .join(bottlenecks, on="call", how="left", maintain_order="left")
        .select(pl.col(name).cast(kind) for name, kind in CALLS.items()),
        stages=stages,
        call=call[order],
        execution=execution[order],
        notes=(too_deep,) if walk.cut else (),
    )


class _Reached(NamedTuple):
    """Executions that belong to calls.

    Attributes:
        kept_ps: int64; part of the call's wall time charged to the execution.
    """

    call: Int64s
    execution: Int64s
    kept_ps: Int64s


class _Edges(Frozen, frozen=True, eq=True):
    """Some edges of a graph, grouped by parent.

    Attributes:
        first: int64 by execution, and one more; index in `child` of its first edge.
        child: int64; child executions, in the order of the graph's edges.
    """

    first: Int64s
    child: Int64s

    @classmethod
    def choose_edges(cls, graph: PipelineGraph, chosen: Bools) -> _Edges:
        """Return the edges of a graph that are chosen."""
        count = np.bincount(graph.parent[chosen], minlength=len(graph.start_ps))
        return cls(np.concatenate(([0], np.cumsum(count))), graph.child[chosen])

    def follow_edges(self, rows: Int64s) -> tuple[Int64s, Int64s]:
        """Return by child the index of its parent in `rows`, and all children."""
        count = self.first[rows + 1] - self.first[rows]
        ends = np.cumsum(count)
        above = np.repeat(np.arange(len(rows)), count)
        within = np.arange(len(above)) - np.repeat(ends - count, count)
        return above, self.child[self.first[rows][above] + within]


class _Walk:
    """Follows the edges of a graph and visits each execution once per call."""

    def __init__(self, graph: PipelineGraph) -> None:
        self.graph = graph
        self.end_ps = graph.start_ps + graph.dur_ps
        #: By edge: whether the child overlaps its parent.
        self.overlaps = np.maximum(
            graph.start_ps[graph.parent], graph.start_ps[graph.child]
        ) < np.minimum(self.end_ps[graph.parent], self.end_ps[graph.child])
        incoming = np.bincount(graph.child, minlength=len(graph.start_ps))
        incoming[graph.root] += 1
        #: Executions with several incoming edges.
        self.shared = incoming > 1
        self.seen = np.empty(0, np.int64)
        self.cut = 0

    def walk_blocking(self) -> _Reached:
        """Return the executions that calls waited for, with their wall time.

        Each execution is charged with one interval of the call's wall time. While
        children of the execution run, time is charged to the earliest child, so that
        each child also gets one interval. Other time is charged to the execution.
        """
        graph, edges = self.graph, _Edges.choose_edges(self.graph, self.overlaps)
        call, execution = np.arange(len(graph.root)), graph.root
        low, high = graph.start_ps[execution], self.end_ps[execution]
        self._mark_new(call, execution)
        levels = []
        for level in count():
            above, child = self._new_children(edges, call, execution, level)
            starts = np.clip(graph.start_ps[child], low[above], high[above])
            ends = np.clip(self.end_ps[child], starts, high[above])
            starts = np.minimum(_begins_after_earlier(above, starts, ends), ends)
            passed = _sum_sorted_groups(above, ends - starts, count=len(execution))
            levels.append(_Reached(call, execution, high - low - passed))
            call, execution, low, high = call[above], child, starts, ends
            if not len(execution):
                break
        return _stack_reached(levels)

    def walk_unwaited(self, reached: _Reached) -> _Reached:
        """Return executions that the calls caused but did not wait for."""
        call, execution, _ = reached
        edges = _Edges.choose_edges(self.graph, ~self.overlaps)
        every = _Edges.choose_edges(self.graph, np.ones(len(self.overlaps), np.bool_))
        levels = []
        for level in count():
            above, execution = self._new_children(edges, call, execution, level)
            call = call[above]
            levels.append(_Reached(call, execution, np.zeros(len(execution), np.int64)))
            edges = every
            if not len(execution):
                break
        return _stack_reached(levels)

    def _new_children(
        self, edges: _Edges, call: Int64s, rows: Int64s, level: int
    ) -> tuple[Int64s, Int64s]:
        """Return indices into `rows`, and their children that are new to their call."""
        above, child = edges.follow_edges(rows)
        fresh = self._mark_new(call[above], child)
        if level == _MAX_DEPTH:
            self.cut += int(fresh.sum())
            fresh[:] = False
        return above[fresh], child[fresh]

    def _mark_new(self, call: Int64s, execution: Int64s) -> Bools:
        """Return which (call, execution) pairs are new, and mark them as seen."""
        fresh = np.ones(len(call), np.bool_)
        shared = np.flatnonzero(self.shared[execution])
        key = call[shared] * np.int64(len(self.shared)) + execution[shared]
        distinct, first = np.unique(key, return_index=True)
        is_new = ~np.isin(distinct, self.seen, assume_unique=True)
        fresh[shared] = False
        fresh[shared[first[is_new]]] = True
        self.seen = np.concatenate((self.seen, distinct[is_new]))
        return fresh


def _stack_reached(levels: list[_Reached]) -> _Reached:
    return _Reached(*(np.concatenate(column) for column in zip(*levels, strict=True)))


def _begins_after_earlier(group: Int64s, starts: Int64s, ends: Int64s) -> Int64s:
    """Return the starts of intervals, moved after all earlier intervals of their group.

    Groups are ascending, and so are starts in a group. A start may then exceed its end.
    """
    follows = group[1:] == group[:-1]
    # Find the latest end so far in each group. Ends are compared by rank, and the ranks
    # of each group are shifted above those of the previous group.
    order = np.argsort(ends, kind="stable")
    rank = np.empty(len(ends), np.int64)
    rank[order] = np.arange(len(ends))
    changes = np.concatenate(([0], np.cumsum(~follows)))
    reach = np.maximum.accumulate(changes * len(ends) + rank) - changes * len(ends)
    after = starts.copy()
    after[1:][follows] = np.maximum(starts[1:], ends[order[reach[:-1]]])[follows]
    return after


def _sum_sorted_groups(group: Int64s, values: Int64s, *, count: int) -> Int64s:
    before = np.concatenate(([0], np.cumsum(values)))
    ends = np.cumsum(np.bincount(group, minlength=count))
    return before[ends] - before[np.concatenate(([0], ends[:-1]))]


def _sum_by_stage(
    graph: PipelineGraph,
    *,
    call: Int64s,
    execution: Int64s,
    critical_ps: Int64s,
    blocking: Bools,
) -> pl.DataFrame:
    # Find each execution's time during which none of its direct children run.
    low = graph.start_ps[graph.parent]
    high = low + graph.dur_ps[graph.parent]
    end_ps = graph.start_ps + graph.dur_ps
    starts = np.clip(graph.start_ps[graph.child], low, high)
    ends = np.clip(end_ps[graph.child], starts, high)
    starts = np.minimum(_begins_after_earlier(graph.parent, starts, ends), ends)
    covered = _sum_sorted_groups(graph.parent, ends - starts, count=len(graph.start_ps))
    own: Int64s = graph.dur_ps - covered
    rows = pl.DataFrame(
        {
            "call": call,
            "stage": graph.stage[execution],
            "start_ps": graph.start_ps[execution],
            "total_ps": graph.dur_ps[execution],
            "self_ps": own[execution],
            "critical_ps": critical_ps,
            "blocking": blocking,
        }
    )
    summed = rows.group_by("call", "stage").agg(
        pl.col("start_ps").min(),
        pl.col("total_ps").sum(),
        pl.col("self_ps").sum(),
        pl.col("critical_ps").sum(),
        pl.len().alias("executions"),
        pl.col("blocking").any(),
    )
    typed = summed.select(pl.col(name).cast(kind) for name, kind in CALL_STAGES.items())
    return typed.sort("call", "stage")
