"""Pipelines of two hosts against plain sums over their calls."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.pipelines import analysed

if TYPE_CHECKING:
    from stepscope.analysis.tf_data_bottleneck_analysis import (
        TfDataBottleneckAnalysisResult,
    )

#: Host → (latency of a call, time in its map, elements that the map reads).
CALLS = {
    "a": ((30, 20, 1), (200, 150, 2), (50, 10, 1), (51, 40, 3)),
    "b": ((400, 100, 2), (90, 80, 1)),
}
READ_US = 3


def lines_of(host: str) -> list[blueprint.Line]:
    lines: list[blueprint.Line] = []
    for number, (latency, mapped, reads) in enumerate(CALLS[host]):
        at = 1000 * number + 7
        lines += [
            ("t", "Iterator::Batch", at, latency, {"id": 1}),
            ("t", "Iterator::Batch::Map", at + 2, mapped, {"id": 2, "parent_id": 1}),
        ]
        lines += [
            (
                *("t", "Iterator::Batch::Map::TFRecord", at + 3 + 4 * read, READ_US),
                {"id": 3, "parent_id": 2},
            )
            for read in range(reads)
        ]
    return lines


def of_hosts(**options: Any) -> TfDataBottleneckAnalysisResult:
    return analysed(
        blueprint.profile(
            *(blueprint.trace(lines_of(host), host=host) for host in CALLS)
        ),
        **options,
    )


def slowest_stage(call: tuple[int, int, int]) -> tuple[str, int]:
    latency, mapped, reads = call
    own = {"Batch": latency - mapped, "Map": mapped - READ_US * reads}
    return max(own.items(), key=lambda stage: stage[1])


def test_pipelines_have_the_range_of_their_calls() -> None:
    expected = [
        (
            *(host, "Host:0", "host", "Iterator::Batch", len(calls)),
            min(latency for latency, *_ in calls),
            pytest.approx(sum(latency for latency, *_ in calls) / len(calls)),
            max(latency for latency, *_ in calls),
            # 50 µs are not slow.
            sum(latency > 50 for latency, *_ in calls),
        )
        for host, calls in CALLS.items()
    ]
    assert of_hosts().pipelines.rows() == expected


def test_the_slowest_call_of_each_pipeline_names_its_stage_slowest_first() -> None:
    result = of_hosts()
    rows = []
    for host, calls in CALLS.items():
        worst = max(calls)
        stage, spent = slowest_stage(worst)
        alike = Counter(slowest_stage(call)[0] for call in calls)[stage]
        rows.append((host, "Host:0", worst[0], stage, spent, alike))
    rows.sort(key=lambda row: -row[2])
    found = result.bottlenecks.to_dicts()
    names = [
        name
        for name in result.bottlenecks.columns
        if name not in {"input_bound", "suggestion", "suggestion_kind"}
    ]
    values = [[row[name] for name in names] for row in found]
    for expected, row in zip(rows, values, strict=True):
        host, pipeline, latency, stage, spent, alike = expected
        assert row[:3] == [host, pipeline, latency]
        long_name = "Iterator::Batch" + ("::Map" if stage == "Map" else "")
        assert row[3:] == [stage, long_name, spent, alike]
    summary = result.summary
    assert (summary.host, summary.max_latency_us) == ("b", 400)
    assert summary.bottleneck is not None
    assert (summary.bottleneck.type, summary.bottleneck.self_us) == ("Batch", 300)
    assert summary.bottleneck.critical_time_us == 300


@pytest.mark.parametrize("rank", [0, 1])
def test_a_graph_has_the_stages_of_the_call_of_its_rank(rank: int) -> None:
    result = of_hosts(rank=rank)
    assert [graph.host for graph in result.graphs] == ["b", "a"]
    for graph in result.graphs:
        calls = CALLS[graph.host]
        ordered = sorted(range(len(calls)), key=lambda number: -calls[number][0])
        number = ordered[rank]
        latency, mapped, reads = calls[number]
        at = 1000 * number + 7
        assert (graph.rank, graph.start_us, graph.latency_us) == (rank, at, latency)
        own = {
            "Batch": latency - mapped,
            "Map": mapped - READ_US * reads,
            "TFRecord": READ_US * reads,
        }
        assert [
            (node.type, node.start_us, node.total_us, node.self_us, node.calls)
            for node in graph.nodes
        ] == [
            ("Batch", at, latency, own["Batch"], 1),
            ("Map", at + 2, mapped, own["Map"], 1),
            ("TFRecord", at + 3, READ_US * reads, own["TFRecord"], reads),
        ]
        assert {node.type: node.critical_time_us for node in graph.nodes} == own
        assert sum(node.critical_time_us for node in graph.nodes) == latency
        slowest = slowest_stage(calls[number])[0]
        assert [node.type for node in graph.nodes if node.bottleneck] == [slowest]
        assert [(edge.consumer, edge.producer) for edge in graph.edges] == [
            ("1", "2"),
            ("2", "3"),
        ]
    assert result.stages.height == 6
    columns = ("host", "rank", "type", "self_us")
    assert result.stages.select(columns).rows() == [
        (graph.host, rank, node.type, node.self_us)
        for graph in result.graphs
        for node in graph.nodes
    ]
    for host, calls in CALLS.items():
        stages = sum(2 + reads for *_, reads in calls)
        assert result.inputs[host] == {
            "executions": stages,
            "stages": 3,
            "calls": len(calls),
        }
