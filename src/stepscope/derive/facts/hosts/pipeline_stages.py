"""Stages of the input pipeline: time per batch, and best practices that are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.input_pipeline.stages import is_cut_off
from stepscope.derive.run_derivation import first_reason, known_hosts, of_run
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.derive.facts.hosts.batch_production import PythonElements
    from stepscope.derive.input_pipeline.calls import PipelineCalls
    from stepscope.derive.input_pipeline.graph import PipelineGraph
    from stepscope.derive.run_derivation import OfHosts
    from stepscope.trace.model import TraceData

#: Text in the names of calls of PyTorch's loader if it has no worker processes.
_OWN_PROCESS: Final = "SingleProcess"


class Stage(Frozen, frozen=True):
    """One stage of an input pipeline, over all calls that request a batch.

    Attributes:
        type: The transformation, without index and version.
        name: Long name: all stages from the last one to this one.
        depth: Number of stages from the last one to this one.
        percent: Share of the calls' time spent waiting for this stage.
        runs_per_call: Number of the stage's executions per call.
        mean_self_ps: Mean self time of an execution.
        transparent: Whether the stage only passes elements on.
        ready_percent: Share of the waiting for prefetched elements that were ready
            before the request; 0 without prefetching.
    """

    type: str
    name: str
    depth: int
    percent: float
    runs_per_call: float
    mean_self_ps: float
    transparent: bool
    ready_percent: float = 0.0


class PipelineSignals(Frozen, frozen=True):
    """The input pipeline with the longest calls, of all hosts.

    Attributes:
        host: Name of the host; None if no stage was recorded.
        stages: Its stages, those nearest to the consumer first.
        own_process: Whether a loader produces batches in the process of the steps.
        absent: Reason why there are no stages; None if there are stages.
    """

    host: str | None
    stages: tuple[Stage, ...]
    own_process: bool
    absent: Unavailable | None


@of_run
def pipeline_signals(
    *,
    host_pipelines: OfHosts[list[tuple[int, tuple[Stage, ...]]]],
    iterators: OfHosts[pl.DataFrame],
) -> PipelineSignals:
    """Choose the pipeline with the longest total time of calls."""
    own_process = any(
        rows["long_name"].str.contains(_OWN_PROCESS).any()
        for rows in known_hosts(iterators).values()
    )
    timed_pipelines = [
        (total, host, stages)
        for host, pipelines in known_hosts(host_pipelines).items()
        for total, stages in pipelines
    ]
    if not timed_pipelines:
        why = first_reason(host_pipelines) or _NO_PIPELINE
        return PipelineSignals(None, (), own_process, why)
    _, host, stages = max(timed_pipelines, key=lambda timed: timed[0])
    return PipelineSignals(host, stages, own_process, None)


_NO_PIPELINE: Final = Unavailable(
    code="NO_TFDATA_EVENTS",
    reason="No input pipeline was recorded.",
    remedy=Remedy.RECORD_PIPELINE_OF_LIBRARY,
)


def host_pipelines(
    *, pipeline_graph: PipelineGraph, pipeline_calls: PipelineCalls
) -> list[tuple[int, tuple[Stage, ...]]]:
    """Return the total time of calls and the stages of each pipeline on the host."""
    graph, calls = pipeline_graph, pipeline_calls
    numbered = calls.calls.with_row_index("call").with_columns(
        pl.col("call").cast(pl.Int32)
    )
    consumer = graph.stages["consumer"].gather(calls.stages["stage"])
    fed = (
        calls.stages.with_columns(consumer.alias("consumer"))
        .group_by("call", "consumer")
        .agg(pl.col("blocking").any().alias("waited"))
    )
    all_stages = calls.stages.join(
        fed, left_on=["call", "stage"], right_on=["call", "consumer"], how="left"
    )
    pipelines = []
    for pipeline, on_device in enumerate(graph.pipelines["device"]):
        own_calls = numbered.filter(pl.col("pipeline") == pipeline)
        total = int(own_calls["latency_ps"].sum())
        if on_device or not total:
            continue
        rows = (
            all_stages.join(own_calls.select("call"), on="call", how="semi")
            .group_by("stage")
            .agg(
                pl.col("self_ps", "critical_ps", "executions").sum(),
                pl.col("critical_ps").filter(~pl.col("waited")).sum().alias("ready_ps"),
            )
        )
        stages = []
        for row in rows.iter_rows(named=True):
            facts, waited = (
                graph.stages.row(row["stage"], named=True),
                row["critical_ps"],
            )
            ahead = facts["asynchronous"] and waited > 0
            stage = Stage(
                type=facts["type"],
                name=facts["long_name"],
                depth=facts["depth"],
                percent=100 * waited / total,
                runs_per_call=row["executions"] / len(own_calls),
                mean_self_ps=row["self_ps"] / max(row["executions"], 1),
                transparent=facts["transparent"],
                ready_percent=100 * row["ready_ps"] / waited if ahead else 0.0,
            )
            stages.append(stage)
        stages.sort(key=lambda stage: (stage.depth, stage.name))
        pipelines.append((total, tuple(stages)))
    return pipelines


#: Minimum number of batches from which their mean period is computed.
_MIN_BATCHES: Final = 3


class Service(Frozen, frozen=True):
    """The slowest stage of one host's pipeline: the one with the least idle time.

    Attributes:
        stage: Long name of the stage.
        batch_ps: Self time of the stage per batch.
        at_once: Maximum number of the stage's executions at the same time.
        period_ps: Mean time from one batch to the next.
        batches: Number of recorded batches.
    """

    host: str
    stage: str
    batch_ps: float
    at_once: int
    period_ps: float
    batches: int

    @property
    def busy_percent(self) -> float:
        """Return the busy percentage of the stage's parallel executions."""
        return 100 * self.batch_ps / (self.at_once * self.period_ps)


@of_run
def service_signals(
    *, slowest_stage: OfHosts[Service]
) -> tuple[Service, ...] | Unavailable:
    """Return the slowest stage of each host's longest pipeline, the busiest first."""
    services = known_hosts(slowest_stage).values()
    if not services:
        return first_reason(slowest_stage) or _FEW_BATCHES
    return tuple(sorted(services, key=lambda one: -one.busy_percent))


def slowest_stage(
    *, trace: TraceData, pipeline_graph: PipelineGraph, pipeline_calls: PipelineCalls
) -> Service | Unavailable:
    """Return the slowest stage of the longest pipeline of a host."""
    graph, calls = pipeline_graph, pipeline_calls
    on_host = graph.pipelines.with_row_index("pipeline").filter(~pl.col("device"))
    host_calls = (
        calls.calls.with_row_index("call")
        .cast({"call": pl.Int32})
        .join(on_host.select(pl.col("pipeline").cast(pl.Int32)), on="pipeline")
    )
    longest = (
        host_calls.group_by("pipeline", maintain_order=True)
        .agg(pl.col("latency_ps").sum())
        .sort("latency_ps", descending=True)
        .head(1)
    )
    chosen = host_calls.join(longest.select("pipeline"), on="pipeline").sort("start_ps")
    if len(chosen) < _MIN_BATCHES:
        return _FEW_BATCHES
    begin = chosen["start_ps"].to_numpy()
    period = float(begin[-1] - begin[0]) / (len(chosen) - 1)
    own = (
        calls.stages.join(chosen.select("call"), on="call", how="semi")
        .group_by("stage", maintain_order=True)
        .agg(pl.col("self_ps").sum())
    )
    ran = np.unique(calls.execution[np.isin(calls.call, chosen["call"].to_numpy())])
    services = []
    for stage, time in own.iter_rows():
        if graph.stages["transparent"][stage] or period <= 0:
            continue
        # Maximum number of executions of the stage at the same time.
        executions = ran[graph.stage[ran] == stage]
        start, dur = graph.start_ps[executions], graph.dur_ps[executions]
        begun = np.sort(start)
        ended = np.searchsorted(np.sort(start + dur), begun, side="right")
        overlap = max(int((np.arange(1, len(begun) + 1) - ended).max()), 1)
        name = str(graph.stages["long_name"][stage])
        services.append(
            Service(trace.host, name, time / len(chosen), overlap, period, len(chosen))
        )
    return max(services, key=lambda service: service.busy_percent, default=_FEW_BATCHES)


_FEW_BATCHES: Final = Unavailable(
    code="NO_SAMPLES",
    reason="Too few batches were recorded to measure how busy their pipeline is.",
    remedy="Record more steps.",
)

_READERS: Final = frozenset(
    {
        *("TFRecord", "SSTable", "RecordIO", "ArrayRecord", "TextLine"),
        *("FixedLengthRecord", "LMDB", "CSV"),
    }
)
_PARALLEL_READERS: Final = frozenset({"ParallelInterleave", "LegacyParallelInterleave"})
_PYTHON_STAGES: Final = frozenset({"Generator", "GeneratorDatasetOp", "PyFunc"})
#: Best practices are advised for stages with this percentage of a batch's time or more.
_MIN_PERCENT: Final = 30.0
MIN_PYTHON_PERCENT: Final = 20.0
#: If a Python function waits for at least this percentage of its time, it counts as
#: waiting, not computing: it does not hold the GIL. The value is low because CPU times
#: are sampled, which misses a part of the waiting.
_MIN_WAITING_PERCENT: Final = 25.0
#: Stages after the last prefetch count if they take this percentage of batch time.
_MIN_LATE_PERCENT: Final = 5.0
#: The cost of calling a map function dominates if it is called at least this often per
#: batch, and each call takes less than this self time (ps).
_MIN_CALLS_PER_BATCH: Final = 8
_MAX_BRIEF_CALL_PS: Final = 50_000_000


def missing_practices(
    signals: PipelineSignals, python: PythonElements | None
) -> tuple[str, ...]:
    """Return the best practices that the pipeline lacks, in the order of the guide."""
    stages = signals.stages
    if not stages:
        native = ("native_code",) if _is_python({}, python) else ()
        return (*native, *(("workers",) if signals.own_process else ()))
    types = {stage.type for stage in stages}
    share = {stage.type: 0.0 for stage in stages}
    for stage in stages:
        share[stage.type] += stage.percent
    reading = sum(share[kind] for kind in types & _READERS)
    mapping = share.get("Map", 0.0)
    prefetches = [stage for stage in stages if stage.type == "Prefetch"]
    first = min((stage.depth for stage in prefetches), default=None)
    late = sum(
        stage.percent for stage in stages if first is None or stage.depth < first
    )
    calls_mostly = any(
        stage.type in {"Map", "ParallelMap"}
        and stage.runs_per_call >= _MIN_CALLS_PER_BATCH
        and stage.mean_self_ps < _MAX_BRIEF_CALL_PS
        and stage.percent >= _MIN_PERCENT
        for stage in stages
    )
    tests = (
        # A part of each batch is produced only after the batch is requested.
        ("prefetch", late >= _MIN_LATE_PERCENT),
        ("parallel_read", reading >= _MIN_PERCENT and not types & _PARALLEL_READERS),
        ("parallel_map", mapping >= _MIN_PERCENT),
        # A map function is short and is called often per batch.
        ("vectorise", calls_mostly),
        ("native_code", _is_python(share, python)),
    )
    lacking = tuple(name for name, holds in tests if holds)
    prefetched = share.get("Prefetch", 0.0)
    ready = sum(stage.percent * stage.ready_percent / 100 for stage in prefetches)
    if not lacking and prefetched >= _MIN_PERCENT and ready >= prefetched / 2:
        # Most of the waiting is for the transfer of batches that are already produced.
        return ("ready",)
    producing = reading + mapping + share.get("ParallelMap", 0.0)
    cached = ("cache",) if producing >= _MIN_PERCENT and "Cache" not in types else ()
    if lacking:
        return (*lacking, *cached)
    if prefetched < _MIN_PERCENT:
        return ("cheaper", *cached)
    names = [stage.name for stage in stages]
    unseen = all(is_cut_off(stage.name, names) for stage in prefetches)
    return ("unseen" if unseen else "upstream", *cached)


def _is_python(share: Mapping[str, float], python: PythonElements | None) -> bool:
    """Return whether Python functions that compute produce the elements.

    Functions that wait for storage are excluded: meanwhile other functions can run.
    """
    inside = 0.0 if python is None else python.percent
    if python is not None and (python.waiting or 0.0) >= _MIN_WAITING_PERCENT:
        return False
    stages = sum(share.get(kind, 0.0) for kind in _PYTHON_STAGES)
    return max(inside, stages) >= MIN_PYTHON_PERCENT
