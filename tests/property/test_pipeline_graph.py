"""Calls of input pipelines: their wall time is shared out exactly."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.traces import blueprint

from stepscope.derive.input_pipeline.calls import PipelineCalls, pipeline_calls
from stepscope.derive.input_pipeline.contexts import Elements, match_handovers
from stepscope.derive.input_pipeline.graph import PipelineGraph
from stepscope.derive.input_pipeline.stages import PIPELINES, STAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Times are small so that an oracle can look at every instant.
END = 24

spans = st.tuples(st.integers(0, END), st.integers(0, END)).map(
    lambda pair: (min(pair), max(pair))
)


def literal(
    times: Sequence[tuple[int, int]],
    pairs: Sequence[tuple[int, int]],
    roots: Sequence[int],
) -> PipelineGraph:
    """A graph in which every execution is a stage of its own."""
    start = np.array([begin for begin, _ in times], np.int64)
    dur = np.array([end - begin for begin, end in times], np.int64)
    count = len(times)
    ordered = sorted(set(pairs), key=lambda pair: (pair[0], start[pair[1]], pair[1]))
    edges = np.array(ordered, np.int64).reshape(-1, 2)
    stages = pl.DataFrame(
        {
            "id": list(range(1, count + 1)),
            "long_name": [f"Iterator::S{number}" for number in range(count)],
            "type": ["Map"] * count,
            "depth": [1] * count,
            "transparent": [False] * count,
            "asynchronous": [False] * count,
            "consumer": [None] * count,
        },
        schema=STAGES,
    )
    return PipelineGraph(
        stages=stages,
        pipelines=pl.DataFrame([("Host:0", False, 0)], schema=PIPELINES, orient="row"),
        event=np.arange(count),
        start_ps=start,
        dur_ps=dur,
        stage=np.arange(count, dtype=np.int32),
        parent=np.ascontiguousarray(edges[:, 0]),
        child=np.ascontiguousarray(edges[:, 1]),
        root=np.array(roots, np.int64),
        pipeline=np.zeros(len(roots), np.int32),
        notes=(),
    )


@st.composite
def trees(draw: st.DrawFn) -> PipelineGraph:
    """One call; the parent of an execution comes before it."""
    times = draw(st.lists(spans, min_size=1, max_size=9))
    pairs = [
        (draw(st.integers(0, number - 1)), number) for number in range(1, len(times))
    ]
    return literal(times, pairs, [0])


@st.composite
def any_graphs(draw: st.DrawFn) -> PipelineGraph:
    """Several calls over edges in any direction, circles included."""
    times = draw(st.lists(spans, min_size=1, max_size=9))
    anyone = st.integers(0, len(times) - 1)
    pairs = draw(st.lists(st.tuples(anyone, anyone), max_size=16))
    roots = draw(st.lists(anyone, min_size=1, max_size=3, unique=True))
    return literal(times, [(a, b) for a, b in pairs if a != b], roots)


def instants(graph: PipelineGraph, execution: int) -> set[int]:
    begin = int(graph.start_ps[execution])
    return set(range(begin, begin + int(graph.dur_ps[execution])))


def children(graph: PipelineGraph, execution: int) -> list[int]:
    return graph.child[graph.parent == execution].tolist()


def walked(graph: PipelineGraph) -> dict[int, tuple[int, int, bool]]:
    """By the definitions, instant by instant: self time, charge, blocking."""
    found: dict[int, tuple[int, int, bool]] = {}

    def walk(execution: int, charged: set[int], *, blocking: bool) -> None:
        mine = instants(graph, execution)
        below = children(graph, execution)
        covered = set().union(*(instants(graph, child) & mine for child in below))
        left = set(charged)
        for child in below:
            overlap = instants(graph, child) & mine
            waits = blocking and bool(overlap)
            passed = left & instants(graph, child) if waits else set()
            walk(child, passed, blocking=waits)
            left -= passed
        found[execution] = (len(mine - covered), len(left), blocking)

    walk(0, instants(graph, 0), blocking=True)
    return found


@given(graph=trees())
def test_a_tree_is_shared_out_as_defined(graph: PipelineGraph) -> None:
    calls = pipeline_calls(pipeline_graph=graph)
    rows = calls.stages.select("stage", "self_ps", "critical_ps", "blocking").rows()
    assert {stage: tuple(rest) for stage, *rest in rows} == walked(graph)
    assert calls.stages["total_ps"].to_list() == graph.dur_ps.tolist()


@given(graph=trees())
def test_the_bottleneck_waits_longest_on_its_own(graph: PipelineGraph) -> None:
    oracle = walked(graph)
    waiting = {stage: row for stage, row in oracle.items() if row[2]}
    best = max((own, charged) for own, charged, _ in waiting.values())
    found = pipeline_calls(pipeline_graph=graph).calls["bottleneck"][0]
    assert waiting[found][:2] == best


@given(graph=any_graphs())
def test_every_call_is_shared_out_to_the_last_instant(graph: PipelineGraph) -> None:
    calls = pipeline_calls(pipeline_graph=graph)
    charged = (
        calls.stages.group_by("call").agg(pl.col("critical_ps").sum()).sort("call")
    )
    assert charged["call"].to_list() == list(range(len(graph.root)))
    assert charged["critical_ps"].to_list() == graph.dur_ps[graph.root].tolist()
    assert calls.stages["critical_ps"].min() >= 0
    assert (calls.stages["critical_ps"] <= calls.stages["total_ps"]).all()
    assert (calls.stages["self_ps"] <= calls.stages["total_ps"]).all()
    assert calls.stages["self_ps"].min() >= 0


@given(graph=any_graphs())
def test_a_call_is_what_its_root_reaches_and_waits_where_they_overlap(
    graph: PipelineGraph,
) -> None:
    def reached(root: int, *, overlapping: bool) -> set[int]:
        found, new = {root}, [root]
        while new:
            above = new.pop()
            for child in children(graph, above):
                overlaps = instants(graph, above) & instants(graph, child)
                if child not in found and (overlaps or not overlapping):
                    found.add(child)
                    new.append(child)
        return found

    calls = pipeline_calls(pipeline_graph=graph)
    for call, root in enumerate(graph.root.tolist()):
        belonging = calls.executions_of(call).tolist()
        assert max(Counter(belonging).values()) == 1
        assert set(belonging) == reached(root, overlapping=False)
        rows = calls.stages_of(call)
        waiting = rows.filter("blocking")["stage"].to_list()
        assert set(waiting) == reached(root, overlapping=True)


elements = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([0, 1, -(2**63)]), st.integers(0, 9)),
    max_size=7,
)


@given(made=elements, taken=elements)
def test_an_element_goes_to_the_first_taking_that_ends_after_its_making_began(
    made: list[tuple[int, int, int]], taken: list[tuple[int, int, int]]
) -> None:
    def columns(rows: list[tuple[int, int, int]]) -> Elements:
        stage, number, time_ps = zip(*rows, strict=True) if rows else ((), (), ())
        return Elements(
            np.array(stage, np.int32),
            np.array(number, np.int64),
            np.array(time_ps, np.int64),
        )

    wanted = {}
    for place, (*what, begun) in enumerate(made):
        ends = [end for *other, end in taken if other == what and end >= begun]
        if ends:
            wanted[place] = (*what, min(ends))
    made_at, taken_at = match_handovers(columns(made), columns(taken))
    found = zip(made_at.tolist(), taken_at.tolist(), strict=True)
    assert {place: taken[other] for place, other in found} == wanted
    assert len(made_at) == len(wanted)


@st.composite
def pipelines(draw: st.DrawFn) -> list[blueprint.Line]:
    """Calls of `Prefetch` over `Batch` over `Map`, made ahead on another thread."""
    lines: list[blueprint.Line] = []
    making = taking = 0
    for element in range(draw(st.integers(1, 4))):
        making += draw(st.integers(0, 5))
        length = draw(st.integers(4, 30))
        lines += [
            ("worker", "PrefetchProduce", making, length, {"element_id": element}),
            (
                "worker",
                "Iterator::Prefetch::Batch",
                making + 1,
                length - 2,
                {"id": 2, "parent_id": 1},
            ),
        ]
        cuts = sorted(draw(st.lists(st.integers(2, length - 2), max_size=4)))
        lines += [
            (
                "worker",
                "Iterator::Prefetch::Batch::Map",
                making + begin,
                end - begin,
                {"id": 3, "parent_id": 2},
            )
            for begin, end in zip(cuts[::2], cuts[1::2], strict=False)
        ]
        making += length
        taking += draw(st.integers(0, 20))
        ends = max(making + 1, taking + 2) if draw(st.booleans()) else making + 9
        taking = min(taking, ends - 2)
        lines += [
            ("main", "Iterator::Prefetch", taking, ends - taking, {"id": 1}),
            ("main", "PrefetchConsume", ends - 1, 1, {"element_id": element}),
        ]
        taking = ends
    return lines


@pytest.mark.slow(seconds=0.4)
@given(lines=pipelines())
@settings(max_examples=25)
def test_recorded_pipelines_keep_every_execution_and_every_instant(
    lines: list[blueprint.Line],
) -> None:
    profile = blueprint.profile(blueprint.trace(lines))
    calls = profile.derived("vm", pipeline_calls)
    assert isinstance(calls, PipelineCalls)
    latency = {
        call: row["latency_ps"] for call, row in enumerate(calls.calls.to_dicts())
    }
    for call, whole in latency.items():
        assert calls.stages_of(call)["critical_ps"].sum() == whole
    # Each element was handed over once, so each execution belongs to one call.
    wanted = sum(name.startswith("Iterator::") for _, name, *_ in lines)
    assert sorted(calls.execution.tolist()) == list(range(wanted))
