"""`tf_data_bottleneck_analysis` on real pipelines whose slow stage is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces.pipelines import analysed

import stepscope as ss
from stepscope.analysis import tf_data_bottleneck_analysis as tool
from stepscope.analysis.tf_data_bottleneck_analysis import (
    Options,
    TfDataBottleneckAnalysisResult,
)
from stepscope.derive.columns.stat_values import find_handle
from stepscope.derive.input_pipeline.calls import pipeline_calls
from stepscope.derive.input_pipeline.graph import pipeline_graph
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.trace.model import TraceData


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
        calls = profile.derived(host, pipeline_calls)
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
    key = find_handle(trace.strings, StatKey.ELEMENT_ID)
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
        graph = profile.derived(host, pipeline_graph)
        calls = profile.derived(host, pipeline_calls)
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


@pytest.mark.parametrize(
    "item", ["jax_cpu/steps", "tpu/tpu_inference_2", "tf_cpu/inference"]
)
def test_real_programs_without_a_pipeline_say_so(
    shared_profile: Callable[[str], Path], item: str
) -> None:
    result = tool.analyse(ss.open(shared_profile(item)), Options())
    assert isinstance(result, Unavailable)
    assert result.code in {"NO_TFDATA_EVENTS", "HOST_LEVEL", "CORRUPT"}
    assert result.remedy
