"""`tf_data_bottleneck_analysis`: the slow stage, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl
import pytest
from tests.support.traces import blueprint
from tests.support.traces.pipelines import (
    SYNCHRONOUS,
    analysed,
    made_ahead,
    of_lines,
    steps_with_call,
)

from stepscope.analysis import tf_data_bottleneck_analysis as tool
from stepscope.analysis.tf_data_bottleneck_analysis import (
    Options,
    TfDataBottleneckAnalysisResult,
)
from stepscope.analysis.tf_data_bottleneck_analysis.bottleneck import (
    BOTTLENECK_ROWS,
    PIPELINE_ROWS,
    STAGE_ROWS,
    WAIT_ROWS,
)
from stepscope.errors import BadUsage
from stepscope.reporting.plain import plain
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData


#: Fields that other programs rely on.
SUMMARY = {
    *("input_bound", "host", "pipeline", "max_latency_us", "bottleneck", "suggestion"),
}


NODE = {
    *("id", "name", "type", "start_us", "total_us", "self_us", "calls", "critical"),
    "bottleneck",
}


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


def test_a_synchronous_pipeline_as_in_a9_1() -> None:
    result = of_lines(*SYNCHRONOUS)
    assert numbers(result) == {
        "Batch": (1000, 200, 1, 200),
        "Map": (800, 650, 2, 650),
        "TFRecord": (150, 150, 2, 150),
    }
    assert critical(result) == ["Batch", "Map", "TFRecord"]
    summary = result.summary
    # Without steps nothing shows whether any wait for it.
    assert summary.input_bound is None
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
    assert "were ready when requested" in (result.summary.suggestion or "")


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
    assert result.summary.input_bound is None
    assert result.summary.verdict == "not_slow"
    assert "if not all of its workers were recorded" in result.summary.text
    assert result.summary.suggestion_kind == "not_slow"
    assert result.pipelines["slow_calls"].to_list() == [0]
    slower = of_lines(("t", "Iterator::Batch", 0, 50.000001, {"id": 1}))
    assert slower.summary.verdict == "slow_unweighed"
    assert slower.pipelines["slow_calls"].to_list() == [1]


@pytest.mark.parametrize(
    ("call", "verdict", "limits"),
    [
        (400, "slow", True),
        # 10 % of the step, and the least time of a step that is a finding.
        (100, "slow", True),
        (99, "slow_but_hidden", False),
        # 5 %: the share is one that counts, the time is not.
        (51, "slow_but_hidden", False),
        (50, "not_slow", False),
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
    assert result.summary.input_bound is limits
    assert result.bottlenecks["input_bound"].to_list() == [limits]
    # The last step has no end.
    assert result.waits.rows() == [("vm", 5, call / 1000, call / 10)]


def test_a_slow_pipeline_that_runs_ahead_is_not_what_holds_up_the_run() -> None:
    lines = steps_with_call(call=20, work=980)
    lines.append(("elsewhere", "Iterator::Shuffle", 0, 900, {"id": 9}))
    result = of_lines(*lines)
    assert result.summary.input_bound is False
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
    assert "no pipeline graph" in result.reason


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
    assert dict(result.pipelines.schema) == PIPELINE_ROWS.dtypes()
    assert dict(result.bottlenecks.schema) == BOTTLENECK_ROWS.dtypes()
    assert dict(result.waits.schema) == WAIT_ROWS.dtypes()
    assert dict(result.stages.schema) == STAGE_ROWS.dtypes()
    nodes = [(node.name, node.self_us) for node in result.graphs[0].nodes]
    assert result.stages.select("name", "self_us").rows() == nodes
    assert set(result.stages.select("host", "pipeline", "rank").rows()) == {
        ("vm", "Host:0", 0)
    }
