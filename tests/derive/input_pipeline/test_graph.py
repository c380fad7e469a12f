"""`pipeline_graph`: which execution caused which, and whose call it belongs to."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint

from stepscope.derive.input_pipeline.calls import PipelineCalls, pipeline_calls
from stepscope.derive.input_pipeline.graph import PipelineGraph, pipeline_graph
from stepscope.derive.input_pipeline.stages import read_name
from stepscope.unavailable import Unavailable


def graph_of(*lines: blueprint.Line) -> PipelineGraph:
    profile = blueprint.profile(blueprint.trace(list(lines)))
    graph = profile.derived("vm", pipeline_graph)
    assert isinstance(graph, PipelineGraph)
    return graph


def calls_of(*lines: blueprint.Line) -> tuple[PipelineGraph, PipelineCalls]:
    profile = blueprint.profile(blueprint.trace(list(lines)))
    calls = profile.derived("vm", pipeline_calls)
    assert isinstance(calls, PipelineCalls)
    return profile.derived("vm", pipeline_graph), calls


def edges(graph: PipelineGraph) -> set[tuple[str, str]]:
    """Edges as last parts of names with starts in µs: `Batch@0` → `Map@10`."""

    def shown(execution: int) -> str:
        name = graph.stages["long_name"][int(graph.stage[execution])].split("::")[-1]
        return f"{name}@{int(graph.start_ps[execution]) // 1_000_000}"

    pairs = zip(graph.parent.tolist(), graph.child.tolist(), strict=True)
    return {(shown(parent), shown(child)) for parent, child in pairs}


def roots(graph: PipelineGraph) -> list[tuple[str, str, int]]:
    """Pipeline, long name and start in µs of each call."""
    return [
        (
            graph.pipelines["name"][pipeline],
            graph.stages["long_name"][int(graph.stage[root])],
            int(graph.start_ps[root]) // 1_000_000,
        )
        for root, pipeline in zip(
            graph.root.tolist(), graph.pipeline.tolist(), strict=True
        )
    ]


def stage(track: str, name: str, start: float, dur: float, *ids: int) -> blueprint.Line:
    """An execution with its stage's id and that of the consumer, where given."""
    stats = dict(zip(("id", "parent_id"), ids, strict=False))
    return (track, f"Iterator::{name}", start, dur, stats)


def test_a_long_name_is_taken_apart() -> None:
    cases: list[Any] = [
        ("Batch", ("Batch", "outermost"), None),
        ("Batch::Map", ("Map",), "Batch"),
        ("Root", ("Root", "transparent", "outermost"), None),
        ("Root::Prefetch", ("Prefetch", "asynchronous", "outermost"), "Root"),
        (
            "Root::BatchV2::ForeverRepeat[0]::ParallelMapV2",
            ("ParallelMap", "asynchronous"),
            "Root::BatchV2::ForeverRepeat",
        ),
        (
            "Model::MaxIntraOpParallelism",
            ("MaxIntraOpParallelism", "transparent", "outermost"),
            "Model",
        ),
        ("Batch::Options", ("Options", "transparent"), "Batch"),
        ("ForeverRepeat[12]", ("ForeverRepeat", "outermost"), None),
        ("MapAndBatchV2[3]", ("MapAndBatch", "asynchronous", "outermost"), None),
        ("Root::Prefetch::Generator", ("Generator", "feeds_device"), "Root::Prefetch"),
        ("V2", ("V2", "outermost"), None),
    ]
    for name, what, consumer in cases:
        read = read_name(f"Iterator::{name}")
        flags = ("transparent", "asynchronous", "outermost", "feeds_device")
        assert (read.type, *(flag for flag in flags if getattr(read, flag))) == what
        assert read.consumer == (consumer and f"Iterator::{consumer}")


def test_stages_nest_on_their_thread_through_whatever_lies_between() -> None:
    graph = graph_of(
        stage("t", "Batch", 0, 100, 1),
        ("t", "InstantiatedCapturedFunction::Run", 5, 90),
        stage("t", "Batch::Map", 10, 30, 2, 1),
        stage("t", "Batch::Map", 50, 30, 2, 1),
        stage("t", "Batch::Map::Range", 60, 5, 3, 2),
    )
    assert edges(graph) == {
        ("Batch@0", "Map@10"),
        ("Batch@0", "Map@50"),
        ("Map@50", "Range@60"),
    }
    assert graph.stages.height == 3
    assert graph.stages["consumer"].to_list() == [None, 0, 1]
    assert roots(graph) == [("Host:0", "Iterator::Batch", 0)]


def test_an_element_links_its_making_to_its_taking() -> None:
    graph = graph_of(
        stage("main", "Prefetch", 0, 100, 1),
        ("main", "PrefetchConsume", 90, 5, {"element_id": 7}),
        stage("main", "Prefetch", 200, 100, 1),
        ("main", "PrefetchConsume", 290, 5, {"element_id": 8}),
        ("worker", "PrefetchProduce", 10, 70, {"element_id": 7}),
        stage("worker", "Prefetch::Map", 11, 30, 2, 1),
        stage("worker", "Prefetch::Map", 45, 30, 2, 1),
        ("worker", "PrefetchProduce", 90, 70, {"element_id": 8}),
        stage("worker", "Prefetch::Map", 91, 60, 2, 1),
    )
    # Only the first child of a making represents its element.
    assert edges(graph) == {
        ("Prefetch@0", "Map@11"),
        ("Prefetch@200", "Map@91"),
    }
    assert [start for _, _, start in roots(graph)] == [0, 200]


def test_several_makings_of_one_element_are_all_linked() -> None:
    graph = graph_of(
        stage("main", "MapAndBatch", 0, 100, 1),
        ("main", "MapAndBatchConsume", 90, 5, {"element_id": 7}),
        ("worker", "MapAndBatchProduce", 10, 20, {"element_id": 7}),
        stage("worker", "MapAndBatch::Range", 11, 5, 2, 1),
        ("worker", "MapAndBatchProduce", 40, 20, {"element_id": 7}),
        stage("worker", "MapAndBatch::Range", 41, 5, 2, 1),
    )
    assert edges(graph) == {
        ("MapAndBatch@0", "Range@11"),
        ("MapAndBatch@0", "Range@41"),
    }


def test_a_number_that_is_used_again_links_each_making_to_the_next_taking() -> None:
    lines: list[blueprint.Line] = []
    for epoch in (0, 1000):
        lines += [
            ("worker", "PrefetchProduce", epoch, 50, {"element_id": 0}),
            stage("worker", "Prefetch::Map", epoch + 10, 30, 2, 1),
            stage("main", "Prefetch", epoch + 100, 50, 1),
            ("main", "PrefetchConsume", epoch + 140, 5, {"element_id": 0}),
        ]
    assert edges(graph_of(*lines)) == {
        ("Prefetch@100", "Map@10"),
        ("Prefetch@1100", "Map@1010"),
    }


def test_elements_of_different_stages_and_without_a_number_are_told_apart() -> None:
    graph = graph_of(
        stage("main", "Prefetch", 0, 100, 1),
        ("main", "PrefetchConsume", 90, 5, {"element_id": 7}),
        stage("main", "Prefetch", 200, 100, 1),
        ("main", "PrefetchConsume", 290, 5),
        ("worker", "ParallelMapProduce", 10, 20, {"element_id": 7}),
        stage("worker", "Other::ParallelMap::Range", 11, 5, 5, 4),
        ("worker", "PrefetchProduce", 40, 20),
        stage("worker", "Prefetch::Map", 41, 5, 2, 1),
    )
    assert edges(graph) == set()


def test_work_handed_to_another_thread_belongs_to_who_handed_it_over() -> None:
    graph = graph_of(
        stage("main", "Prefetch", 0, 100, 1),
        ("main", "FunctionRun", 10, 80, {"_pt": 2, "_p": 77}),
        ("executor", "ExecutorState::Process", 20, 50, {"_ct": 2, "_c": 77}),
        stage("executor", "Prefetch::Map", 30, 30, 2, 1),
        # Another type, another id: nobody's.
        ("executor", "ExecutorState::Process", 80, 9, {"_ct": 3, "_c": 77}),
        stage("executor", "Prefetch::Map", 81, 5, 2, 1),
        ("executor", "ExecutorState::Process", 90, 9, {"_ct": 2, "_c": 78}),
        stage("executor", "Prefetch::Map", 91, 5, 2, 1),
    )
    assert edges(graph) == {("Prefetch@0", "Map@30")}


def test_work_is_followed_through_several_threads_and_a_pool() -> None:
    graph = graph_of(
        stage("main", "Prefetch", 0, 100, 1),
        ("main", "FunctionRun", 10, 80, {"_pt": 2, "_p": 77}),
        ("executor", "ExecutorState::Process", 20, 9, {"_ct": 2, "_c": 77}),
        ("executor", "ThreadpoolListener::Record", 25, 0, {"_pt": 15, "_p": 9}),
        ("pool", "ThreadpoolListener::StartRegion", 30, 0, {"_ct": 15, "_c": 9}),
        stage("pool", "Prefetch::Map", 35, 20, 2, 1),
        ("pool", "ThreadpoolListener::StopRegion", 60, 0),
        # After the task, and on another thread at the same time.
        stage("pool", "Prefetch::Map", 70, 20, 2, 1),
        stage("elsewhere", "Prefetch::Map", 36, 20, 2, 1),
    )
    assert edges(graph) == {("Prefetch@0", "Map@35")}


def test_a_stage_may_itself_hand_over_and_take_over() -> None:
    graph = graph_of(
        ("main", "Iterator::Prefetch", 0, 100, {"id": 1, "_pt": 2, "_p": 7}),
        (
            "worker",
            "Iterator::Prefetch::Map",
            10,
            50,
            {"id": 2, "parent_id": 1, "_ct": 2, "_c": 7},
        ),
    )
    assert edges(graph) == {("Prefetch@0", "Map@10")}


def test_a_consumer_of_another_process_takes_nothing_over() -> None:
    graph = graph_of(
        ("main", "Iterator::Prefetch", 0, 100, {"id": 1, "_pt": 2, "_p": 7}),
        ("worker", "Process", 5, 80, {"_ct": 2, "_c": 7, "_pid": 4711}),
        stage("worker", "Prefetch::Map", 10, 50, 2, 1),
    )
    assert edges(graph) == set()


@pytest.mark.parametrize(("consumers", "linked"), [(63, True), (64, False)])
def test_a_context_in_which_everybody_takes_part_is_left_out_and_reported(
    consumers: int,
    linked: bool,  # noqa: FBT001 - what the table says
) -> None:
    lines: list[blueprint.Line] = [
        (f"main{i}", "Iterator::Prefetch", 0, 100, {"id": 1, "_pt": 2, "_p": 7})
        for i in range(64)
    ]
    lines += [
        (f"worker{i}", "Process", 5, 80, {"_ct": 2, "_c": 7}) for i in range(consumers)
    ]
    lines.append(stage("worker0", "Prefetch::Map", 10, 50, 2, 1))
    graph = graph_of(*lines)
    assert len(graph.parent) == (64 if linked else 0)
    assert [(note.kind, note.count) for note in graph.notes] == (
        [] if linked else [("contexts_skipped", 1)]
    )


def test_asynchronous_marks_keep_a_stage_out_of_the_nesting() -> None:
    graph = graph_of(
        stage("t", "Batch", 0, 100, 1),
        ("t", "Iterator::Batch::Map", 10, 30, {"id": 2, "parent_id": 1, "_a": 1}),
    )
    assert edges(graph) == set()


def test_a_chain_of_transparent_stages_begins_one_call() -> None:
    graph = graph_of(
        stage("t", "Model", 0, 100, 1),
        stage("t", "Model::MaxIntraOpParallelism", 1, 98, 2, 1),
        stage("t", "Model::MaxIntraOpParallelism::Map", 2, 96, 3, 2),
    )
    assert roots(graph) == [("Host:0", "Iterator::Model", 0)]


def test_a_call_whose_beginning_was_cut_off_is_one_of_the_same_pipeline() -> None:
    graph = graph_of(
        stage("t", "Root::Prefetch", 0, 50, 2, 1),
        stage("t", "Root", 100, 60, 1),
        stage("t", "Root::Prefetch", 105, 50, 2, 1),
    )
    assert roots(graph) == [
        ("Host:0", "Iterator::Root::Prefetch", 0),
        ("Host:0", "Iterator::Root", 100),
    ]
    assert graph.pipelines["stage"].to_list() == [
        graph.stages["long_name"].to_list().index("Iterator::Root")
    ]


def test_work_without_a_call_begins_none() -> None:
    profile = blueprint.profile(
        blueprint.trace([stage("t", "Prefetch::Batch", 0, 50, 2, 1)])
    )
    graph = profile.derived("vm", pipeline_graph)
    assert isinstance(graph, Unavailable)
    assert graph.code == "NO_TFDATA_EVENTS"
    assert profile.derived("vm", pipeline_calls) == graph


def test_the_pipeline_of_a_device_is_the_one_that_a_generator_feeds() -> None:
    graph = graph_of(
        stage("main", "Root", 0, 40, 10),
        stage("main", "Root::Prefetch", 1, 38, 11, 10),
        stage("host", "Root", 5, 40, 20),
        stage("host", "Root::Prefetch", 6, 38, 21, 20),
        stage("w0", "Root::Prefetch::Generator", 2, 30, 12, 11),
        stage("w1", "Root::Prefetch::Generator", 3, 30, 32, 31),
        stage("main", "Root", 50, 40, 30),
        stage("main", "Root::Prefetch", 51, 38, 31, 30),
        # A generator of the host's own lies deeper.
        stage("w2", "Root::Prefetch::FlatMap[0]::Generator", 7, 5, 23, 21),
    )
    assert roots(graph) == [
        ("Device:0", "Iterator::Root", 0),
        ("Host:0", "Iterator::Root", 5),
        ("Device:1", "Iterator::Root", 50),
    ]


def test_a_pipeline_called_inside_of_another_one_has_calls_of_its_own() -> None:
    graph = graph_of(
        stage("t", "Prefetch", 0, 100, 1),
        stage("t", "Prefetch::Generator", 5, 90, 2, 1),
        stage("t", "Root", 10, 60, 3),
        stage("t", "Root::Batch", 11, 50, 4, 3),
    )
    assert roots(graph) == [
        ("Device:0", "Iterator::Prefetch", 0),
        ("Host:0", "Iterator::Root", 10),
    ]
    assert ("Generator@5", "Root@10") in edges(graph)


def test_without_an_id_stages_are_told_by_their_long_names() -> None:
    graph = graph_of(
        stage("main", "Prefetch", 0, 100),
        ("main", "PrefetchConsume", 90, 5, {"element_id": 7}),
        ("worker", "PrefetchProduce", 10, 70, {"element_id": 7}),
        stage("worker", "Prefetch::Map", 11, 60),
        ("worker", "Iterator::Prefetch::Map::Range", 15, 5, {"id": 0}),
        ("worker", "Iterator::Prefetch::Map::Range", 25, 5),
    )
    assert edges(graph) == {
        ("Prefetch@0", "Map@11"),
        ("Map@11", "Range@15"),
        ("Map@11", "Range@25"),
    }
    assert graph.stages["id"].to_list() == [None, None, None]


def test_stages_of_equal_name_and_different_id_are_different() -> None:
    graph = graph_of(stage("t", "Batch", 0, 10, 1), stage("t", "Batch", 20, 10, 2))
    assert roots(graph) == [
        ("Host:0", "Iterator::Batch", 0),
        ("Host:1", "Iterator::Batch", 20),
    ]


def test_of_stages_that_span_the_same_time_the_outer_one_is_the_parent() -> None:
    # Producers write an event when it ends, so the inner one comes first in the file.
    graph = graph_of(
        stage("t", "Batch::Map::Range", 0, 10, 3, 2),
        stage("t", "Batch::Map", 0, 10, 2, 1),
        stage("t", "Batch", 0, 10, 1),
    )
    pairs = zip(graph.parent.tolist(), graph.child.tolist(), strict=True)
    assert [
        (
            graph.stages["type"][int(graph.stage[a])],
            graph.stages["type"][int(graph.stage[b])],
        )
        for a, b in pairs
    ] == [("Batch", "Map"), ("Map", "Range")]
    assert len(roots(graph)) == 1


def test_overlapping_children_share_the_wall_time_by_their_starts() -> None:
    graph, calls = calls_of(
        stage("main", "ParallelInterleave", 0, 100, 1),
        ("main", "ParallelInterleaveConsume", 98, 1, {"element_id": 1}),
        ("main", "ParallelInterleaveConsume", 99, 1, {"element_id": 2}),
        ("w1", "ParallelInterleaveProduce", 10, 50, {"element_id": 1}),
        stage("w1", "ParallelInterleave::TFRecord", 10, 50, 2, 1),
        ("w2", "ParallelInterleaveProduce", 30, 60, {"element_id": 2}),
        stage("w2", "ParallelInterleave::TextLine", 30, 60, 3, 1),
    )
    types = graph.stages["type"].gather(calls.stages["stage"]).to_list()
    us = [
        [value // 1_000_000 for value in calls.stages[column].to_list()]
        for column in ("total_ps", "self_ps", "critical_ps")
    ]
    assert dict(zip(types, zip(*us, strict=True), strict=True)) == {
        "ParallelInterleave": (100, 20, 20),
        "TFRecord": (50, 50, 50),
        # Its first 30 µs belong to the one that started earlier.
        "TextLine": (60, 60, 30),
    }


def test_an_execution_that_two_others_took_counts_once_in_a_call() -> None:
    graph, calls = calls_of(
        stage("main", "Zip", 0, 100, 1),
        ("main", "Iterator::Zip[0]::Prefetch", 5, 40, {"id": 2, "_pt": 1, "_p": 3}),
        ("main", "Iterator::Zip[1]::Prefetch", 50, 40, {"id": 4, "_pt": 1, "_p": 3}),
        ("w", "Iterator::Zip[0]::Prefetch::Map", 10, 70, {"id": 5, "_ct": 1, "_c": 3}),
    )
    assert len(graph.parent) == 4
    assert len(calls.executions_of(0)) == 4
    assert calls.stages["executions"].to_list() == [1, 1, 1, 1]
    assert calls.stages["critical_ps"].sum() == 100_000_000


def test_calls_are_ranked_within_their_pipeline_the_slowest_first() -> None:
    _, calls = calls_of(
        stage("a", "Batch", 0, 10, 1),
        stage("b", "Shuffle", 5, 99, 2),
        stage("a", "Batch", 20, 30, 1),
        stage("a", "Batch", 60, 30, 1),
    )
    rows = calls.calls.select("pipeline", "rank").rows()
    assert rows == [(0, 2), (1, 0), (0, 0), (0, 1)]


def test_what_lies_deeper_than_the_limit_is_charged_to_what_waits_for_it() -> None:
    depth = 110
    lines = [
        stage("t", "::".join(["Map"] * (k + 1)), k, 400 - 2 * k, k + 1, k)
        for k in range(depth)
    ]
    graph, calls = calls_of(*lines)
    assert graph.stages.height == depth
    assert len(calls.executions_of(0)) == 101
    assert calls.stages["critical_ps"].sum() == 400_000_000
    assert [note.kind for note in calls.notes] == ["pipeline_too_deep"]
