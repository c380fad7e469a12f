"""Input pipelines of literal stages and calls: every field, worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.support.traces.literal import ABSENT, OTHER, Tables, fields_of

from stepscope.derive.facts.hosts.batch_production import PythonElements
from stepscope.derive.facts.hosts.pipeline_stages import (
    PipelineSignals,
    Service,
    Stage,
    host_pipelines,
    missing_practices,
    pipeline_signals,
    service_signals,
    slowest_stage,
)
from stepscope.unavailable import Unavailable

#: Prefetch ◀ Map ◀ TFRecord, and a pipeline of a device, and one without calls.
STAGES = pl.DataFrame(
    {
        "type": ["Prefetch", "Map", "TFRecord", "Infeed", "Range"],
        "long_name": ["P", "P::M", "P::M::T", "I", "R"],
        "depth": [0, 1, 2, 0, 0],
        "consumer": pl.Series([None, 0, 1, None, None], dtype=pl.Int32),
        "asynchronous": [True, False, True, False, False],
        "transparent": [False, False, False, False, True],
    }
)


def graph_of(**fields: Any) -> Any:
    return SimpleNamespace(
        **{
            "stages": STAGES,
            "pipelines": pl.DataFrame({"device": [False, True, False]}),
            "stage": np.array([0, 1, 1, 2, 2, 2, 3, 1], np.int32),
            "start_ps": np.array([0, 0, 5, 0, 4, 9, 0, 900], np.int64),
            "dur_ps": np.array([50, 10, 10, 10, 5, 1, 9, 50], np.int64),
            **fields,
        }
    )


def calls_of(*calls: tuple[int, int, int], stages: list[tuple[Any, ...]]) -> Any:
    """Calls (pipeline, start, latency), and their stages.

    A stage is (call, stage, self, critical, executions, whether it blocks).
    """
    columns = ("call", "stage", "self_ps", "critical_ps", "executions")
    schema = {**dict.fromkeys(columns[:2], pl.Int32)}
    schema |= {**dict.fromkeys(columns[2:], pl.Int64), "blocking": pl.Boolean}
    return SimpleNamespace(
        calls=pl.DataFrame(
            calls,
            schema={
                "pipeline": pl.Int32,
                "start_ps": pl.Int64,
                "latency_ps": pl.Int64,
            },
            orient="row",
        ),
        stages=pl.DataFrame(stages, schema=schema, orient="row"),
        call=np.array([0, 0, 1, 1, 2, 2, 3, 4], np.int64),
        execution=np.array([0, 1, 2, 3, 4, 5, 6, 7], np.int64),
    )


CALLS = calls_of(
    *((0, 0, 60), (0, 100, 40), (0, 300, 100)),
    *((1, 0, 900), (2, 0, 0)),
    stages=[
        *((0, 0, 10, 30, 1, True), (0, 1, 40, 20, 2, False), (0, 2, 90, 10, 4, False)),
        *((1, 0, 10, 30, 1, True), (1, 1, 20, 10, 2, True), (1, 2, 60, 0, 4, False)),
        *((2, 0, 10, 40, 1, True), (2, 1, 60, 60, 2, True)),
        *((3, 3, 800, 800, 1, True), (4, 4, 1, 0, 0, True)),
    ],
)


def test_every_field_of_the_stages_of_a_pipeline() -> None:
    """Three calls take 200 ps, 100 of them for the last stage.

    In the first call the map, which feeds the prefetch, blocks nobody: 30 ps were
    for elements that were ready. So were 10 of the reader, whose consumer is the map.
    """
    ((total, stages),) = host_pipelines(pipeline_graph=graph_of(), pipeline_calls=CALLS)
    assert total == 200
    assert fields_of(stages) == fields_of(
        (
            Stage("Prefetch", "P", 0, 50.0, 1.0, 10.0, False, 30.0),  # noqa: FBT003
            Stage("Map", "P::M", 1, 45.0, 2.0, 20.0, False, 0.0),  # noqa: FBT003
            Stage("TFRecord", "P::M::T", 2, 5.0, 8 / 3, 150 / 8, False, 0.0),  # noqa: FBT003
        )
    )


def test_the_pipeline_with_the_longest_calls_is_judged() -> None:
    stage = Stage("Map", "M", 0, 1.0, 1.0, 1.0, False)  # noqa: FBT003
    loaders = pl.DataFrame({"long_name": ["x", "_SingleProcessDataLoaderIter"]})
    others = pl.DataFrame({"long_name": ["x"]})
    hosts = {"a": [(5, ()), (8, (stage,))], "b": [(7, ())], "c": ABSENT}
    found = pipeline_signals.function(
        host_pipelines=hosts, iterators={"a": others, "b": loaders, "c": ABSENT}
    )
    expected = PipelineSignals("a", (stage,), own_process=True, absent=None)
    assert fields_of(found) == fields_of(expected)
    none = pipeline_signals.function(
        host_pipelines={"b": [], "c": OTHER}, iterators={"b": others}
    )
    assert fields_of(none) == fields_of(
        PipelineSignals(None, (), own_process=False, absent=OTHER)
    )
    nothing = pipeline_signals.function(host_pipelines={"b": []}, iterators={})
    assert nothing.absent.code == "NO_TFDATA_EVENTS"


def test_the_slowest_stage_is_the_busiest_of_the_longest_pipeline() -> None:
    """Three batches are 150 ps apart. The map takes 40 of a batch, and the reader 50.

    Two executions of the map overlap, and two of the reader; the prefetch takes 10.
    """
    found = slowest_stage(
        trace=Tables("h"), pipeline_graph=graph_of(), pipeline_calls=CALLS
    )
    expected = Service("h", "P::M::T", 50.0, 2, 150.0, 3)
    assert fields_of(found) == fields_of(expected)
    assert expected.busy_percent == pytest.approx(100 * 50 / 300)
    # Without overlaps of the map, which then has 40 of 150, it is the busiest.
    apart = graph_of(start_ps=np.array([0, 0, 10, 0, 4, 9, 0, 900], np.int64))
    found = slowest_stage(trace=Tables("h"), pipeline_graph=apart, pipeline_calls=CALLS)
    assert fields_of(found) == fields_of(Service("h", "P::M", 40.0, 1, 150.0, 3))


@pytest.mark.parametrize(
    "calls", [((0, 0, 60), (0, 1, 40)), ((1, 0, 1),) * 5, ((0, 7, 1),) * 3]
)
def test_few_batches_have_no_slowest_stage(calls: Any) -> None:
    stages = [(at, 0, 10, 30, 1, True) for at in range(len(calls))]
    found = slowest_stage(
        trace=Tables("h"),
        pipeline_graph=graph_of(),
        pipeline_calls=calls_of(*calls, stages=stages),
    )
    assert isinstance(found, Unavailable)
    assert found.code == "NO_SAMPLES"


def test_the_busiest_of_all_hosts_is_first() -> None:
    idle, busy = (
        Service(host, "x", ps, 1, 100.0, 3) for host, ps in (("a", 10.0), ("b", 20.0))
    )
    found = service_signals.function(slowest_stage={"a": idle, "b": busy, "c": OTHER})
    assert found == (busy, idle)
    assert service_signals.function(slowest_stage={"c": OTHER}) == OTHER
    nothing = service_signals.function(slowest_stage={})
    assert nothing.code == "NO_SAMPLES"


# --- best practices ---


def stage(kind: str, percent: float, depth: int = 1, **fields: Any) -> Stage:
    usual = {"runs_per_call": 1.0, "mean_self_ps": 1e9, "transparent": False}
    return Stage(
        **{"type": kind, "name": kind, "depth": depth, "percent": percent}
        | usual
        | fields
    )


PREFETCH = stage("Prefetch", 0.0, 0)


def lacks(*stages: Stage) -> tuple[str, ...]:
    signals = PipelineSignals("a", stages, own_process=True, absent=None)
    return missing_practices(signals, None)


def test_five_percent_after_the_last_prefetch_could_be_prefetched() -> None:
    assert lacks(PREFETCH, stage("Batch", 90.0)) == ("cheaper",)
    behind = stage("Prefetch", 0.0, 1)
    assert lacks(behind, stage("Batch", 5.0, 0)) == ("prefetch",)
    assert lacks(behind, stage("Batch", 4.9, 0)) == ("cheaper",)
    assert lacks(stage("Prefetch", 0.0, 2), stage("Prefetch", 9.0, 0)) == ("cheaper",)
    # Without a prefetch, everything is after it.
    assert lacks(stage("Batch", 5.0, 7)) == ("prefetch",)


def test_thirty_percent_of_reading_could_be_parallel_and_cached() -> None:
    records = stage("TFRecord", 30.0)
    assert lacks(PREFETCH, records) == ("parallel_read", "cache")
    assert lacks(PREFETCH, stage("TFRecord", 29.9)) == ("cheaper",)
    two = stage("TFRecord", 20.0), stage("CSV", 10.0)
    assert lacks(PREFETCH, *two) == ("parallel_read", "cache")
    parallel = stage("ParallelInterleave", 0.0)
    assert lacks(PREFETCH, records, parallel) == ("cheaper", "cache")


def test_thirty_percent_of_mapping_could_be_parallel_and_cached() -> None:
    assert lacks(PREFETCH, stage("Map", 30.0)) == ("parallel_map", "cache")
    assert lacks(PREFETCH, stage("Map", 15.0), stage("Map", 14.9)) == ("cheaper",)
    cached = stage("Map", 30.0), stage("Cache", 0.0)
    assert lacks(PREFETCH, *cached) == ("parallel_map",)
    assert lacks(PREFETCH, stage("ParallelMap", 30.0)) == ("cheaper", "cache")
    both = stage("Map", 10.0), stage("ParallelMap", 20.0)
    assert lacks(PREFETCH, *both) == ("cheaper", "cache")


def test_eight_brief_calls_of_a_map_for_each_batch_could_be_one() -> None:
    def called(times: float, self_ps: float, percent: float = 30.0) -> Stage:
        fields = {"runs_per_call": times, "mean_self_ps": self_ps}
        return stage("ParallelMap", percent, **fields)

    assert lacks(PREFETCH, called(8, 49_999_999)) == ("vectorise", "cache")
    assert lacks(PREFETCH, called(7.9, 1.0)) == ("cheaper", "cache")
    assert lacks(PREFETCH, called(8, 50_000_000)) == ("cheaper", "cache")
    assert lacks(PREFETCH, called(8, 1.0, 29.9)) == ("cheaper",)
    batch = stage("Batch", 90.0, runs_per_call=8, mean_self_ps=1.0)
    assert lacks(PREFETCH, batch) == ("cheaper",)


def test_twenty_percent_of_generators_could_be_native() -> None:
    assert lacks(PREFETCH, stage("Generator", 20.0)) == ("native_code",)
    assert lacks(PREFETCH, stage("Generator", 19.9)) == ("cheaper",)


def test_half_of_the_waits_for_a_prefetch_may_be_for_ready_elements() -> None:
    assert lacks(stage("Prefetch", 30.0, 0, ready_percent=50.0)) == ("ready",)
    # Nothing upstream was recorded.
    assert lacks(stage("Prefetch", 30.0, 0, ready_percent=49.9)) == ("unseen",)
    assert lacks(stage("Prefetch", 29.9, 0, ready_percent=90.0)) == ("cheaper",)
    ready = stage("Prefetch", 30.0, 0, ready_percent=90.0)
    assert lacks(ready, stage("Map", 30.0)) == ("parallel_map", "cache")


@pytest.mark.parametrize(
    ("percent", "waiting", "native"),
    [(20.0, None, True), (19.9, None, False), (20.0, 24.9, True), (20.0, 25.0, False)],
)
def test_python_that_computes_could_be_native(
    percent: float, waiting: float | None, *, native: bool
) -> None:
    python = PythonElements(percent, None, waiting=waiting)
    code = ("native_code",) if native else ()
    for own_process, workers in ((True, ("workers",)), (False, ())):
        bare = PipelineSignals(None, (), own_process=own_process, absent=None)
        assert missing_practices(bare, python) == (*code, *workers)
    staged = PipelineSignals("a", (PREFETCH,), own_process=True, absent=None)
    assert missing_practices(staged, python) == (code or ("cheaper",))
    # A stage in Python that waits is no computing either.
    generator = (PREFETCH, stage("Generator", 50.0))
    staged = PipelineSignals("a", generator, own_process=True, absent=None)
    expected = ("cheaper",) if waiting == 25.0 else ("native_code",)
    assert missing_practices(staged, python) == expected
