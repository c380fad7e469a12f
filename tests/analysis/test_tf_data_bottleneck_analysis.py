"""`tf_data_bottleneck_analysis`: the slow stage, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl
import pytest

import blueprint
import stepscope as ss
from stepscope.analysis import tf_data_bottleneck_analysis as tool
from stepscope.analysis.pipeline_suggestions import SUGGESTIONS, Upstream
from stepscope.analysis.tf_data_bottleneck_analysis import (
    BOTTLENECK_ROWS,
    PIPELINE_ROWS,
    STAGE_ROWS,
    WAIT_ROWS,
    Options,
    TfDataBottleneckAnalysisResult,
)
from stepscope.derive.stat_values import find_handle
from stepscope.errors import BadUsage
from stepscope.report.plain import plain
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.model import TraceData

WHY = Unavailable(code="LOST_EVENTS", reason="taken away.", remedy="Put it back.")

#: Fields that other programs rely on.
SUMMARY = {
    *("input_bound", "host", "pipeline", "max_latency_us", "bottleneck", "suggestion"),
}
NODE = {
    *("id", "name", "type", "start_us", "total_us", "self_us", "calls", "critical"),
    "bottleneck",
}


def analysed(profile: ProfileData, **options: Any) -> TfDataBottleneckAnalysisResult:
    result = tool.analyse(profile, Options(**options))
    assert isinstance(result, TfDataBottleneckAnalysisResult)
    return result


def of_lines(*lines: blueprint.Line, **options: Any) -> TfDataBottleneckAnalysisResult:
    return analysed(blueprint.profile(blueprint.trace(list(lines))), **options)


def numbers(result: TfDataBottleneckAnalysisResult) -> dict[str, tuple[float, ...]]:
    """Last part of the name → total, self, calls, critical of the first graph."""
    return {
        node.name.split("::")[-1]: (
            node.total_us,
            node.self_us,
            node.calls,
            node.critical_time_us,
        )
        for node in result.graphs[0].nodes
    }


def critical(result: TfDataBottleneckAnalysisResult) -> list[str]:
    nodes = result.graphs[0].nodes
    return [node.name.split("::")[-1] for node in nodes if node.critical]


SYNCHRONOUS = (
    ("t", "Iterator::Batch", 0, 1000, {"id": 1}),
    ("t", "Iterator::Batch::Map", 100, 400, {"id": 2, "parent_id": 1}),
    ("t", "Iterator::Batch::Map", 500, 400, {"id": 2, "parent_id": 1}),
    ("t", "Iterator::Batch::Map::TFRecord", 150, 100, {"id": 3, "parent_id": 2}),
    ("t", "Iterator::Batch::Map::TFRecord", 550, 50, {"id": 3, "parent_id": 2}),
)


def made_ahead(shift: float = 0) -> list[blueprint.Line]:
    """A.9, 2: what the consumer takes is made `shift` µs earlier."""
    return [
        ("thread 1", "Iterator::Prefetch", 1000, 300, {"id": 1}),
        ("thread 1", "PrefetchConsume", 1290, 5, {"element_id": 7}),
        ("thread 2", "PrefetchProduce", 1050 - shift, 230, {"element_id": 7}),
        (
            "thread 2",
            "Iterator::Prefetch::Map",
            1060 - shift,
            210,
            {"id": 2, "parent_id": 1},
        ),
    ]


def test_a_synchronous_pipeline_as_in_a9_1() -> None:
    result = of_lines(*SYNCHRONOUS)
    assert numbers(result) == {
        "Batch": (1000, 200, 1, 200),
        "Map": (800, 650, 2, 650),
        "TFRecord": (150, 150, 2, 150),
    }
    assert critical(result) == ["Batch", "Map", "TFRecord"]
    summary = result.summary
    assert summary.input_bound is True
    assert (summary.host, summary.pipeline) == ("vm", "Host:0")
    assert summary.max_latency_us == 1000
    assert summary.bottleneck is not None
    assert summary.bottleneck.type == "Map"
    assert summary.bottleneck.long_name == "Iterator::Batch::Map"
    assert summary.bottleneck.self_us == 650
    assert summary.suggestion_kind == "has_parallel_form"
    assert "num_parallel_calls" in (summary.suggestion or "")
    assert result.pipelines.rows() == [
        ("vm", "Host:0", "host", "Iterator::Batch", 1, 1000.0, 1000.0, 1000.0, 1)
    ]
    assert [node.bottleneck for node in result.graphs[0].nodes] == [False, True, False]
    assert [(edge.consumer, edge.producer) for edge in result.graphs[0].edges] == [
        ("1", "2"),
        ("2", "3"),
    ]


def test_an_element_that_is_ready_late_as_in_a9_2() -> None:
    result = of_lines(*made_ahead())
    assert numbers(result) == {
        "Prefetch": (300, 90, 1, 90),
        "Map": (210, 210, 1, 210),
    }
    assert critical(result) == ["Prefetch", "Map"]
    assert result.summary.bottleneck is not None
    assert result.summary.bottleneck.type == "Map"


def test_an_element_that_was_ready_early_as_in_a9_3() -> None:
    result = of_lines(*made_ahead(shift=500))
    assert numbers(result) == {
        "Prefetch": (300, 300, 1, 300),
        "Map": (210, 210, 1, 0),
    }
    assert critical(result) == ["Prefetch"]
    assert result.summary.bottleneck is not None
    assert result.summary.bottleneck.type == "Prefetch"
    assert result.summary.suggestion_kind == "consumer_found_data"
    assert "found an element ready" in (result.summary.suggestion or "")


def test_transparent_stages_and_versions_as_in_a9_4() -> None:
    result = of_lines(
        ("t", "Iterator::Root", 0, 100, {"id": 1}),
        ("t", "Iterator::Root::Prefetch", 5, 90, {"id": 2, "parent_id": 1}),
        ("t", "Iterator::Root::Prefetch::BatchV2", 10, 70, {"id": 3, "parent_id": 2}),
    )
    assert result.pipelines["long_name"].to_list() == ["Iterator::Root"]
    types = [node.type for node in result.graphs[0].nodes]
    assert types == ["Root", "Prefetch", "Batch"]
    assert numbers(result) == {
        "Root": (100, 10, 1, 10),
        "Prefetch": (90, 20, 1, 20),
        "BatchV2": (70, 70, 1, 70),
    }
    assert result.summary.bottleneck is not None
    assert result.summary.bottleneck.type == "Batch"
    assert [node.transparent for node in result.graphs[0].nodes] == [
        True,
        False,
        False,
    ]


def test_a_transparent_stage_is_no_bottleneck_however_long_it_takes() -> None:
    result = of_lines(
        ("t", "Iterator::Model", 0, 100, {"id": 1}),
        ("t", "Iterator::Model::Map", 5, 10, {"id": 2, "parent_id": 1}),
    )
    assert result.summary.bottleneck is not None
    assert result.summary.bottleneck.type == "Map"


def test_a_call_without_transformations_has_no_bottleneck_and_says_why() -> None:
    result = of_lines(("t", "Iterator::Model", 0, 100, {"id": 1}))
    assert result.summary.bottleneck is None
    assert result.summary.suggestion is None
    missing = {one.field: one.code for one in result.missing}
    assert missing["summary.bottleneck"] == "NOT_RECORDED"
    assert missing["summary.suggestion"] == "NOT_RECORDED"
    assert result.bottlenecks["bottleneck_type"].to_list() == [None]


def test_equal_self_times_are_decided_by_what_the_call_is_charged_with() -> None:
    result = of_lines(
        ("main", "Iterator::ParallelMap", 1000, 100, {"id": 1}),
        ("main", "ParallelMapConsume", 1098, 1, {"element_id": 1}),
        ("main", "ParallelMapConsume", 1099, 1, {"element_id": 2}),
        # Both work for 90 µs; of the first one only 40 µs fall into the call.
        ("w1", "ParallelMapProduce", 950, 90, {"element_id": 1}),
        ("w1", "Iterator::ParallelMap::A", 950, 90, {"id": 2, "parent_id": 1}),
        ("w2", "ParallelMapProduce", 1005, 90, {"element_id": 2}),
        ("w2", "Iterator::ParallelMap::B", 1005, 90, {"id": 3, "parent_id": 1}),
    )
    assert numbers(result)["A"] == (90, 90, 1, 40)
    assert numbers(result)["B"] == (90, 90, 1, 55)
    assert result.summary.bottleneck is not None
    assert result.summary.bottleneck.type == "B"


def test_fifty_microseconds_are_not_slow() -> None:
    result = of_lines(
        ("t", "Iterator::Batch", 0, 50, {"id": 1}),
        ("t", "Iterator::Batch", 100, 20, {"id": 1}),
    )
    assert result.summary.input_bound is False
    assert result.summary.verdict == "not_slow"
    assert "if not all of its workers were recorded" in result.summary.text
    assert result.summary.suggestion_kind == "not_slow"
    assert result.pipelines["slow_calls"].to_list() == [0]
    slower = of_lines(("t", "Iterator::Batch", 0, 50.000001, {"id": 1}))
    assert slower.summary.input_bound is True
    assert slower.pipelines["slow_calls"].to_list() == [1]


def steps_with_call(*, call: float, work: float) -> list[blueprint.Line]:
    """Steps of 1000 µs whose thread first waits for a batch, then runs an op."""
    lines: list[blueprint.Line] = []
    for i in range(5):
        begin = 1000 * i
        lines += [
            ("main", "train", begin, 1000, {"_r": 1, "step_num": i}),
            ("main", "IteratorGetNextOp::DoCompute", begin, call),
            ("main", "Iterator::Batch", begin, call, {"id": 1}),
            ("main", "a/MatMul:MatMul", begin + call, work),
        ]
    return lines


@pytest.mark.parametrize(
    ("call", "verdict", "limits"),
    [
        (400, "slow", True),
        # The share at which a step counts as bound by input.
        (51, "slow", True),
        (50, "not_slow", True),
    ],
)
def test_the_wait_of_the_steps_stands_beside_the_verdict(
    call: float,
    verdict: str,
    limits: bool,  # noqa: FBT001 - a column of the table above
) -> None:
    result = of_lines(*steps_with_call(call=call, work=1000 - call))
    assert result.summary.verdict == verdict
    assert result.summary.exposed_wait_ms_per_step == pytest.approx(call / 1000)
    assert result.summary.exposed_wait_percent == pytest.approx(call / 10)
    assert result.summary.limits_steps is limits
    # The last step has no end.
    assert result.waits.rows() == [("vm", 4, call / 1000, call / 10)]


def test_a_slow_pipeline_that_runs_ahead_is_not_what_holds_up_the_run() -> None:
    lines = steps_with_call(call=20, work=980)
    lines.append(("elsewhere", "Iterator::Shuffle", 0, 900, {"id": 9}))
    result = of_lines(*lines)
    assert result.summary.input_bound is True
    assert result.summary.verdict == "slow_but_hidden"
    assert result.summary.limits_steps is False
    assert result.summary.exposed_wait_percent == pytest.approx(2)


def test_without_steps_how_long_they_wait_is_null_and_said_so() -> None:
    result = of_lines(*SYNCHRONOUS)
    assert result.summary.verdict == "slow_unweighed"
    assert result.summary.exposed_wait_ms_per_step is None
    assert result.summary.limits_steps is None
    missing = {one.field: one.code for one in result.missing}
    assert missing["summary.exposed_wait_ms_per_step"] == "NO_STEPS"
    assert missing["waits[vm]"] == "NO_STEPS"
    assert result.waits.rows() == [("vm", None, None, None)]


def two_hosts() -> ProfileData:
    """The second host is the slower one; it has two pipelines."""
    first = blueprint.trace(list(SYNCHRONOUS), host="a")
    second = blueprint.trace(
        [
            ("t", "Iterator::Batch", 0, 100, {"id": 1}),
            ("t", "Iterator::Batch", 200, 3000, {"id": 1}),
            ("t", "Iterator::Batch::Map", 250, 100, {"id": 2, "parent_id": 1}),
            ("t", "Iterator::Shuffle", 5000, 2000, {"id": 3}),
        ],
        host="b",
    )
    return blueprint.profile(first, second)


def test_the_most_input_bound_host_is_that_of_the_slowest_call() -> None:
    result = analysed(two_hosts())
    assert (result.summary.host, result.summary.pipeline) == ("b", "Host:0")
    assert result.summary.max_latency_us == 3000
    ranked = result.bottlenecks.select("host", "pipeline", "max_latency_us").rows()
    assert ranked == [
        ("b", "Host:0", 3000),
        ("b", "Host:1", 2000),
        ("a", "Host:0", 1000),
    ]
    assert [(graph.host, graph.pipeline) for graph in result.graphs] == [
        row[:2] for row in ranked
    ]
    calls = result.pipelines.select("host", "pipeline", "calls", "mean_latency_us")
    assert calls.rows() == [
        ("a", "Host:0", 1, 1000),
        ("b", "Host:0", 2, 1550),
        ("b", "Host:1", 1, 2000),
    ]
    assert set(result.inputs) == {"a", "b"}


def test_host_pipeline_and_rank_can_be_chosen() -> None:
    profile = two_hosts()
    on_a = analysed(profile, host="a")
    alone = analysed(profile.select(["a"]))
    assert plain(on_a) == plain(alone)
    assert on_a.summary.max_latency_us == 1000
    graph = analysed(profile, host="b", pipeline="Host:0", rank=1).graphs
    assert [(one.pipeline, one.rank, one.latency_us) for one in graph] == [
        ("Host:0", 1, 100.0)
    ]
    assert [node.type for node in graph[0].nodes] == ["Batch"]
    # The verdict is that of the slowest call whatever graph is shown.
    assert analysed(profile, rank=1).summary == analysed(profile).summary


def test_a_pipeline_with_fewer_calls_than_the_rank_says_so() -> None:
    result = analysed(two_hosts(), rank=1)
    assert [(one.host, one.pipeline) for one in result.graphs] == [("b", "Host:0")]
    missing = {one.field: one for one in result.missing}
    assert missing["graphs[a, Host:0]"].code == "NO_SAMPLES"
    assert missing["graphs[b, Host:1]"].code == "NO_SAMPLES"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host": "c"}, "no host 'c'; known: a, b"),
        ({"pipeline": "Host:7"}, "no input pipeline 'Host:7'; known: Host:0, Host:1"),
        ({"rank": 2}, "no call of rank '2'; known: 0 to 1"),
    ],
)
def test_a_choice_that_does_not_exist_is_named(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadUsage, match=message):
        tool.analyse(two_hosts(), Options(**options))


def test_a_negative_rank_is_refused_when_options_are_read() -> None:
    with pytest.raises(msgspec.ValidationError, match="rank"):
        msgspec.convert({"rank": -1}, Options)


def test_a_host_without_iterators_is_left_out_with_its_reason() -> None:
    other = blueprint.trace([("t", "a/MatMul:MatMul", 0, 10)], host="other")
    pipeline = blueprint.trace(list(SYNCHRONOUS), host="fed")
    result = analysed(blueprint.profile(other, pipeline))
    assert result.summary.host == "fed"
    missing = {one.field: one.code for one in result.missing}
    assert missing["hosts.other"] == "NO_TFDATA_EVENTS"


def test_a_program_without_a_pipeline_of_stages_has_no_graph() -> None:
    profile = blueprint.profile(blueprint.trace([("t", "a/MatMul:MatMul", 0, 10)]))
    result = tool.analyse(profile, Options())
    assert isinstance(result, Unavailable)
    assert result.code == "NO_TFDATA_EVENTS"
    assert result.remedy


def test_calls_that_name_no_stages_have_no_graph() -> None:
    trace = blueprint.trace([("t", "loader", 0, 10)])
    rows = {
        "event": [0],
        "track": [0],
        "start_ps": [0],
        "dur_ps": [10_000_000],
        "long_name": ["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"],
        "id": [None],
        "parent_id": [None],
    }
    frame = pl.DataFrame(rows, schema=TABLES["iterators"].dtypes())
    profile = blueprint.profile(blueprint.substitute(trace, iterators=frame))
    result = tool.analyse(profile, Options())
    assert isinstance(result, Unavailable)
    assert result.code == "NO_TFDATA_EVENTS"
    assert "no graph" in result.reason


def test_recorded_parameters_stand_with_their_stage() -> None:
    batch = {"id": 1, "batch_size": 16, "drop_remainder": "false", "_r": 1}
    ahead = {"id": 2, "parent_id": 1, "autotune": "true", "parallelism": "unavailable"}
    result = of_lines(
        ("t", "Iterator::Batch", 0, 100, batch),
        (
            "t",
            "Iterator::Batch::ParallelMapV2",
            5,
            10,
            ahead | {"buffered_elements": 1},
        ),
        (
            "t",
            "Iterator::Batch::ParallelMapV2",
            20,
            10,
            ahead | {"buffered_elements": 4},
        ),
        ("t", "Iterator::Batch::ParallelMapV2", 40, 10, ahead | {"ratio": 0.25}),
    )
    first, second = result.graphs[0].nodes
    assert first.parameters == {"batch_size": 16, "drop_remainder": False}
    # What is not known yet stands nowhere; how full the buffer was is a mean.
    assert second.parameters == {"autotune": True, "buffered_elements": 2.5}
    assert second.asynchronous
    assert "graphs.nodes.parameters" not in {one.field for one in result.missing}


def test_stages_that_say_nothing_of_themselves_are_said_to() -> None:
    missing = {one.field: one.code for one in of_lines(*SYNCHRONOUS).missing}
    assert missing["graphs.nodes.parameters"] == "NOT_RECORDED"


def test_devices_are_fed_by_pipelines_of_their_own() -> None:
    lines: list[blueprint.Line] = []
    for device in range(2):
        own = {"id": 10 + device}
        lines += [
            (f"main{device}", "Iterator::Prefetch", 0, 5000, own),
            (
                f"worker{device}",
                "Iterator::Prefetch::Generator",
                10,
                4000,
                {"id": 20 + device, "parent_id": 10 + device},
            ),
        ]
    lines.append(("host", "Iterator::Batch", 100, 300, {"id": 1}))
    result = of_lines(*lines)
    assert result.pipelines.select("pipeline", "kind").rows() == [
        ("Device:0", "device"),
        ("Device:1", "device"),
        ("Host:0", "host"),
    ]
    # Devices wait longer, but it is the host's pipeline that can be mended.
    assert (result.summary.pipeline, result.summary.max_latency_us) == ("Host:0", 300)
    assert result.bottlenecks["pipeline"].to_list() == ["Host:0"]
    assert result.graphs[0].pipeline == "Host:0"


def test_a_device_that_waits_for_its_generator_waits_for_the_host() -> None:
    fed = {"id": 2, "parent_id": 1}
    result = of_lines(
        ("main", "Iterator::Prefetch", 0, 5000, {"id": 1}),
        ("main", "PrefetchConsume", 4900, 5, {"element_id": 7}),
        ("worker", "PrefetchProduce", 5, 4500, {"element_id": 7}),
        ("worker", "Iterator::Prefetch::Generator", 10, 4000, fed),
    )
    assert result.graphs[0].suggestion_kind == "host_pipeline"
    # Of the host's own pipeline nothing is known, and nothing is made up.
    assert result.summary.verdict == "unknown"
    nothing = {
        name: getattr(result.summary, name)
        for name in result.summary.__struct_fields__
        if name not in {"verdict", "text"}
    }
    assert set(nothing.values()) == {None}
    missing = {one.field for one in result.missing}
    assert {f"summary.{name}" for name in nothing} <= missing
    assert result.bottlenecks.height == 0


@pytest.mark.parametrize(
    ("stage", "kind"),
    [
        ("TFRecord", "slow_source"),
        ("TensorSlice", "slow_source"),
        ("FlatMap::Generator", "slow_source"),
        ("DataServiceV4", "slow_service"),
        ("ReverbDataset", "remote_source"),
        ("Map", "has_parallel_form"),
        ("Interleave", "has_parallel_form"),
        ("ParallelMapV2", "slow_although_parallel"),
        ("ParallelInterleaveV4", "slow_although_parallel"),
        ("MapAndBatch", "slow_although_parallel"),
        ("BatchV2", "sequential"),
        ("Filter", "sequential"),
        ("PaddedBatchV2", "sequential"),
        ("Shuffle", "buffer_fill"),
        ("Prefetch", "upstream_unseen"),
        ("ForeverRepeat[3]", "other"),
    ],
)
def test_the_suggestion_follows_the_transformation(stage: str, kind: str) -> None:
    lines: list[blueprint.Line] = [("t", "Iterator::Root", 0, 1000, {"id": 1})]
    name = "Iterator::Root"
    for depth, part in enumerate(stage.split("::")):
        name = f"{name}::{part}"
        ids = {"id": depth + 2, "parent_id": depth + 1}
        lines.append(("t", name, depth + 1, 900 - 2 * depth, ids))
    assert of_lines(*lines).summary.suggestion_kind == kind


def test_a_prefetch_that_waits_points_upstream() -> None:
    lines = made_ahead()
    # The making takes long, but the stage that makes has little time of its own.
    lines.append(
        ("thread 2", "Iterator::Prefetch::Map::A", 1061, 60, {"id": 3, "parent_id": 2})
    )
    lines.append(
        ("thread 2", "Iterator::Prefetch::Map::B", 1125, 60, {"id": 4, "parent_id": 2})
    )
    lines.append(
        ("thread 2", "Iterator::Prefetch::Map::C", 1190, 60, {"id": 5, "parent_id": 2})
    )
    result = of_lines(*lines)
    assert result.summary.bottleneck is not None
    assert result.summary.bottleneck.type == "Prefetch"
    assert result.summary.suggestion_kind == "upstream_slow"


def test_every_suggestion_can_be_given_and_reads_as_sentences() -> None:
    for one in SUGGESTIONS:
        assert one.words.endswith(".")
        assert one.upstream in {"", Upstream.READY, Upstream.UNSEEN}
    assert not SUGGESTIONS[-1].types


def test_the_result_holds_the_contract_fields_and_declared_columns() -> None:
    data = plain(of_lines(*SYNCHRONOUS))
    assert isinstance(data, dict)
    assert {"summary", "pipelines", "graphs"} <= data.keys()
    summary: Any = data["summary"]
    assert summary.keys() >= SUMMARY
    assert summary["bottleneck"].keys() >= {"type", "long_name"}
    graph: Any = data["graphs"][0]  # type: ignore[index,call-overload]
    assert graph.keys() >= {"nodes", "edges"}
    assert graph["nodes"][0].keys() >= NODE
    result = of_lines(*SYNCHRONOUS)
    assert dict(result.pipelines.schema) == PIPELINE_ROWS
    assert dict(result.bottlenecks.schema) == BOTTLENECK_ROWS
    assert dict(result.waits.schema) == WAIT_ROWS
    assert dict(result.stages.schema) == STAGE_ROWS
    nodes = [(node.name, node.self_us) for node in result.graphs[0].nodes]
    assert result.stages.select("name", "self_us").rows() == nodes
    assert set(result.stages.select("host", "pipeline", "rank").rows()) == {
        ("vm", "Host:0", 0)
    }


def check_without(whole: TfDataBottleneckAnalysisResult, without: object) -> None:
    """What was known is the same, or null with a reason, or the tool says why not."""
    if isinstance(without, Unavailable):
        assert without.reason
        assert without.remedy
        return
    assert isinstance(without, TfDataBottleneckAnalysisResult)
    named = " ".join(one.field for one in without.missing)
    for name in whole.summary.__struct_fields__:
        before, after = getattr(whole.summary, name), getattr(without.summary, name)
        if after is None and before is not None:
            assert f"summary.{name}" in named
        if after == 0 and after is not False:
            assert before == 0
    for frame in ("bottlenecks", "pipelines"):
        assert getattr(without, frame).equals(getattr(whole, frame))
    waits = without.waits.join(whole.waits, on="host")
    for row in waits.to_dicts():
        for column in ("steps", "exposed_wait_ms_per_step", "exposed_wait_percent"):
            known = row[f"{column}_right"] is not None
            if known and row[column] is None:
                assert f"waits[{row['host']}]" in named
            if known and row[column] == 0:
                assert row[f"{column}_right"] == 0


@pytest.mark.parametrize("table", sorted(TABLES))
def test_a_blueprint_without_a_table(table: str) -> None:
    profile = blueprint.profile(blueprint.trace(steps_with_call(call=400, work=600)))
    without = tool.analyse(profile.without(table, WHY), Options())
    check_without(analysed(profile), without)
    if table in {"iterators", "events", "event_types", "stats", "tracks"}:
        assert without == WHY


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.parametrize("item", ["tf_cpu/input_bound", "gpu_tf/t4_starved"])
def test_a_real_profile_without_a_table(
    shared_profile: Callable[[str], Path], item: str, table: str
) -> None:
    profile = ss.open(shared_profile(item))
    whole = analysed(profile)
    check_without(whole, tool.analyse(profile.without(table, WHY), Options()))


def node_of(result: TfDataBottleneckAnalysisResult, name: str) -> Any:
    return next(node for node in result.graphs[0].nodes if node.name == name)


def test_the_sequential_map_equals_what_tensorflow_says(
    shared_profile: Callable[[str], Path],
) -> None:
    """A.9, 5: the values of TensorFlow 2.15's own converter."""
    result = analysed(ss.open(shared_profile("tf_cpu/sequential_map")))
    assert result.summary.max_latency_us == 35558.034
    name = "Iterator::Root::BatchV2::ForeverRepeat[0]::Map"
    assert result.summary.bottleneck is not None
    assert result.summary.bottleneck.long_name == name
    assert result.summary.bottleneck.type == "Map"
    slow = node_of(result, name)
    assert (slow.total_us, slow.self_us, slow.calls) == (35476.462, 35398.547, 16)
    assert slow.critical
    assert slow.bottleneck
    assert node_of(result, "Iterator::Root").self_us == 7.962
    assert result.summary.suggestion_kind == "has_parallel_form"
    assert result.summary.verdict == "slow"
    assert result.summary.limits_steps is True


def test_a_map_that_the_pipeline_made_parallel_by_itself_is_the_bottleneck(
    shared_profile: Callable[[str], Path],
) -> None:
    result = analysed(ss.open(shared_profile("tf_cpu/input_bound")))
    assert result.summary.bottleneck is not None
    assert result.summary.bottleneck.type == "ParallelMap"
    assert result.summary.verdict == "slow"
    # 48.05 % is the waiting within the markers; the gaps between them come on top.
    assert result.summary.exposed_wait_percent == pytest.approx(50, abs=3)
    ahead = node_of(result, "Iterator::Root::Prefetch")
    assert str(ahead.parameters["name"]).startswith("inject/")


@pytest.mark.parametrize(
    ("item", "share"), [("tf_cpu/healthy", 3.0), ("tf_cpu/keras_fit", 0.5)]
)
def test_a_healthy_run_is_not_held_up_by_its_pipeline(
    shared_profile: Callable[[str], Path], item: str, share: float
) -> None:
    result = analysed(ss.open(shared_profile(item)))
    assert result.summary.limits_steps is False
    assert result.summary.verdict == "slow_but_hidden"
    assert result.summary.exposed_wait_percent is not None
    assert 0 < result.summary.exposed_wait_percent < share


def test_mirrored_replicas_have_pipelines_of_their_own(
    shared_profile: Callable[[str], Path],
) -> None:
    result = analysed(ss.open(shared_profile("tf_cpu/mirrored")))
    kinds = result.pipelines.select("kind", "calls").sort("kind", "calls").rows()
    assert kinds == [("device", 15), ("device", 15), ("host", 30)]
    assert result.summary.pipeline == "Host:0"


REAL = [
    "tf_cpu/eager_1m",
    "tf_cpu/healthy",
    "tf_cpu/input_bound",
    "tf_cpu/keras_fit",
    "tf_cpu/mirrored",
    "tf_cpu/sequential_map",
    "tf_cpu/tf215_python_tracer",
    "tf_cpu/two_workers",
    "tf_cpu/xla",
    "gpu_tf/t4_healthy",
    "gpu_tf/t4_starved",
    "gpu_tf/turing_launch_bound",
    "gpu_tf/v100_large",
    "gpu_tf/xprof_gpu_multi_worker",
]


@pytest.mark.parametrize("item", REAL)
def test_real_calls_are_shared_out_to_the_picosecond(
    shared_profile: Callable[[str], Path], item: str
) -> None:
    profile = ss.open(shared_profile(item))
    for host in profile.hosts:
        calls = profile.derived(host, "pipeline_calls")
        charged = calls.stages.group_by("call").agg(pl.col("critical_ps").sum())
        assert charged.sort("call")["critical_ps"].equals(
            calls.calls["latency_ps"].alias("critical_ps")
        )
        assert (calls.stages["self_ps"] >= 0).all()
        assert (calls.stages["critical_ps"] <= calls.stages["total_ps"]).all()


def marks(trace: TraceData, ending: str) -> pl.DataFrame:
    """Events with an element's number whose names end so, by start."""
    names = trace.table("event_types")["name"]
    events = trace.table("events").with_row_index("event")
    key = find_handle(trace.strings, "element_id")
    numbered = trace.table("stats").filter(pl.col("key") == key)
    return (
        events.with_columns(name=names.gather(events["type"]))
        .filter(pl.col("name").str.ends_with(ending))
        .join(
            numbered.select(pl.col("event").cast(pl.UInt32), number="value"),
            on="event",
        )
        .sort("start_ps")
    )


@pytest.mark.parametrize("item", [item for item in REAL if item.startswith("tf_cpu")])
def test_in_real_pipelines_only_elements_that_nobody_took_belong_to_no_call(
    shared_profile: Callable[[str], Path], item: str
) -> None:
    profile = ss.open(shared_profile(item))
    for host in profile.hosts:
        graph = profile.derived(host, "pipeline_graph")
        calls = profile.derived(host, "pipeline_calls")
        trace = profile.trace(host)
        made = marks(trace, "Produce")
        if not len(made):
            continue
        # Executions that nothing caused and that begin no call were made ahead.
        alone = set(range(len(graph.event))) - set(graph.child.tolist())
        heads = sorted(alone - set(graph.root.tolist()))
        found = (
            trace.table("events")[graph.event[heads].tolist()]
            .sort("start_ps")
            .join_asof(made, on="start_ps", by="track", check_sortedness=False)
        )
        # What took an element before the first execution of its thread was cut off.
        begun = (
            trace.table("iterators")
            .group_by("track")
            .agg(pl.col("start_ps").min().alias("begun_ps"))
        )
        taken = (
            marks(trace, "Consume")
            .join(begun, on="track")
            .filter(pl.col("start_ps") >= pl.col("begun_ps"))
        )
        # Null where the making began before the recording did.
        assert not set(taken["number"]) & set(found["number"].drop_nulls())
        assert len(set(calls.execution.tolist())) == len(calls.execution)


@pytest.mark.parametrize("item", ["jax_cpu/steps", "tpu", "tf_cpu/inference"])
def test_real_programs_without_a_pipeline_say_so(
    shared_profile: Callable[[str], Path], item: str
) -> None:
    path = shared_profile(item)
    runs = [path] if (path / "plugins").is_dir() else sorted(path.iterdir())
    for run in runs:
        result = tool.analyse(ss.open(run), Options())
        assert isinstance(result, Unavailable)
        assert result.code in {"NO_TFDATA_EVENTS", "HOST_LEVEL", "CORRUPT"}
        assert result.remedy
