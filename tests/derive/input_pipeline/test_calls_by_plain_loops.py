"""Calls of input pipelines: what belongs to them, against plain loops over graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from stepscope.derive.input_pipeline.calls import CALLS, pipeline_calls
from stepscope.derive.input_pipeline.graph import PipelineGraph
from stepscope.derive.input_pipeline.stages import PIPELINES, STAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Whether each stage passes its elements on unchanged, and its name. Two have one name.
KINDS = [
    (False, "Iterator::Batch"),
    (True, "Iterator::Prefetch"),
    (False, "Iterator::Batch"),
]


class Reached(NamedTuple):
    call: int
    execution: int
    kept: int
    blocking: bool


def graph_of(
    rows: list[tuple[int, int, int]], edges: set[tuple[int, int]], roots: list[int]
) -> PipelineGraph:
    """Executions are (start, duration, stage); the calls are of two pipelines."""
    start, dur, stage = (np.array([row[k] for row in rows], np.int64) for k in range(3))
    listed = sorted(edges, key=lambda edge: (edge[0], rows[edge[1]][0], edge[1]))
    roots = sorted(roots, key=lambda root: rows[root][0])
    return PipelineGraph(
        stages=pl.DataFrame(
            {
                "long_name": [name for _, name in KINDS],
                "transparent": [transparent for transparent, _ in KINDS],
            },
            schema_overrides=STAGES,
        ),
        pipelines=pl.DataFrame(schema=PIPELINES),
        event=np.arange(len(rows)),
        start_ps=start,
        dur_ps=dur,
        stage=stage.astype(np.int32),
        parent=np.array([parent for parent, _ in listed], np.int64),
        child=np.array([child for _, child in listed], np.int64),
        root=np.array(roots, np.int64),
        pipeline=np.array([root % 2 for root in roots], np.int32),
        notes=(),
    )


def children(graph: PipelineGraph, row: int) -> list[int]:
    return graph.child[graph.parent == row].tolist()


def ends(graph: PipelineGraph) -> list[int]:
    return (graph.start_ps + graph.dur_ps).tolist()


def shares(
    graph: PipelineGraph, rows: list[int], low: int, high: int
) -> Iterator[tuple[int, int]]:
    """What of a time each of some executions has: the first to start comes first."""
    reach, end = low, ends(graph)
    for row in rows:
        begin = min(max(int(graph.start_ps[row]), low), high)
        stop = min(max(end[row], begin), high)
        begin = min(max(begin, reach), stop)
        reach = max(reach, stop)
        yield begin, stop


def overlap(graph: PipelineGraph, parent: int, child: int) -> bool:
    end, start = ends(graph), graph.start_ps
    return min(end[parent], end[child]) > max(start[parent], start[child])


def reached_by(graph: PipelineGraph, call: int) -> list[Reached]:
    """First what the call waited for, level by level, then what it only caused."""
    root = int(graph.root[call])
    seen, found = {root}, []
    level = [(root, int(graph.start_ps[root]), ends(graph)[root])]
    while level:
        below = []
        for row, low, high in level:
            fresh = [
                child
                for child in children(graph, row)
                if overlap(graph, row, child) and child not in seen
            ]
            seen.update(fresh)
            parts = list(shares(graph, fresh, low, high))
            below += [(child, *part) for child, part in zip(fresh, parts, strict=True)]
            kept = high - low - sum(stop - begin for begin, stop in parts)
            found.append(Reached(call, row, kept, blocking=True))
        level = below
    rows, every = [each.execution for each in found], False
    while rows:
        further = []
        for row in rows:
            for child in children(graph, row):
                if child not in seen and (every or not overlap(graph, row, child)):
                    seen.add(child)
                    further.append(child)
                    found.append(Reached(call, child, 0, blocking=False))
        rows, every = further, True
    return found


def own_time(graph: PipelineGraph, row: int) -> int:
    low, high = int(graph.start_ps[row]), ends(graph)[row]
    parts = shares(graph, children(graph, row), low, high)
    return high - low - sum(stop - begin for begin, stop in parts)


def test_a_call_does_not_come_back_to_its_first_execution() -> None:
    graph = graph_of([(0, 10, 0), (2, 5, 2)], {(0, 1), (1, 0)}, [0])
    found = pipeline_calls(pipeline_graph=graph)
    assert found.execution.tolist() == [0, 1]
    assert found.stages["critical_ps"].to_list() == [5, 5]
    assert found.notes == ()


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 15), st.integers(0, 2)),
        min_size=1,
        max_size=7,
    ),
    data=st.data(),
)
def test_calls_have_what_they_waited_for_and_what_they_caused(
    rows: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    numbers = st.integers(0, len(rows) - 1)
    edges = data.draw(st.sets(st.tuples(numbers, numbers), max_size=10))
    edges = {(above, below) for above, below in edges if above != below}
    roots = data.draw(st.sets(numbers, min_size=1, max_size=3))
    graph = graph_of(rows, edges, sorted(roots))
    found = pipeline_calls(pipeline_graph=graph)
    expected = [reached_by(graph, call) for call in range(len(roots))]
    by_pipeline: dict[int, list[tuple[int, int]]] = {0: [], 1: []}
    assert found.notes == ()
    assert found.calls.schema == CALLS
    for call, reached in enumerate(expected):
        listed = found.executions_of(call).tolist()
        assert listed == sorted(each.execution for each in reached)
        stages = found.stages_of(call)
        by_stage: dict[int, list[Reached]] = {}
        for each in reached:
            by_stage.setdefault(int(graph.stage[each.execution]), []).append(each)
        sums = {
            stage: {
                "call": call,
                "stage": stage,
                "start_ps": min(int(graph.start_ps[each.execution]) for each in group),
                "total_ps": sum(int(graph.dur_ps[each.execution]) for each in group),
                "self_ps": sum(own_time(graph, each.execution) for each in group),
                "critical_ps": sum(each.kept for each in group),
                "executions": len(group),
                "blocking": any(each.blocking for each in group),
            }
            for stage, group in sorted(by_stage.items())
        }
        assert stages.to_dicts() == list(sums.values())
        candidates = [
            (-row["self_ps"], -row["critical_ps"], KINDS[stage][1], stage)
            for stage, row in sums.items()
            if row["blocking"] and not KINDS[stage][0]
        ]
        row = found.calls.row(call, named=True)
        root = int(graph.root[call])
        assert row["bottleneck"] == (min(candidates)[-1] if candidates else None)
        assert row["start_ps"] == graph.start_ps[root]
        assert (row["pipeline"], row["latency_ps"]) == (root % 2, graph.dur_ps[root])
        # The wall time of a call is charged once.
        assert sum(each.kept for each in reached) == row["latency_ps"]
        by_pipeline[root % 2].append((-row["latency_ps"], call))
    ranks = {
        call: rank
        for slowest in by_pipeline.values()
        for rank, (_, call) in enumerate(sorted(slowest))
    }
    assert found.calls["rank"].to_list() == [ranks[call] for call in range(len(roots))]
