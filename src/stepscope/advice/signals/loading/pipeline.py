"""Signals about the input pipeline: its stages, and what each takes of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.signals.signal import signal
from stepscope.derive.input_pipeline.calls import pipeline_calls
from stepscope.derive.input_pipeline.graph import pipeline_graph
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.input_pipeline.calls import PipelineCalls
    from stepscope.derive.input_pipeline.graph import PipelineGraph
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: PyTorch's loader without worker processes, as it names its calls.
_OWN_PROCESS: Final = "SingleProcess"


class Stage(Frozen, frozen=True):
    """One stage of a pipeline, over all of its calls.

    Attributes:
        type: The transformation, without index and version.
        name: Its long name: all stages from the last one up to it.
        depth: Number of stages from the last one on.
        percent: Share of the calls' time that they waited for it.
        runs_per_call: How often it ran for a call.
        mean_self_ps: Mean time of its own of a run.
        transparent: Whether it only passes elements on.
        ready_percent: Share of that waiting in which all that it fetches ahead had
            been made before it was asked; 0 where it fetches nothing ahead.
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
    """The pipeline of the host that waits most for its own.

    Attributes:
        host: Name of the host; None where no stage was recorded.
        stages: Its stages, those nearest to the consumer first.
        own_process: Whether a loader makes batches in the process of the steps.
        absent: Why there are no stages; None where there are.
    """

    host: str | None
    stages: tuple[Stage, ...]
    own_process: bool
    absent: Unavailable | None


@signal(pipeline_graph, pipeline_calls)
def pipeline_signals(profile: ProfileData, _: Thresholds) -> PipelineSignals:
    """Look at the pipeline with the longest calls in all."""
    found: list[tuple[int, str, tuple[Stage, ...]]] = []
    reasons: list[Unavailable] = []
    own_process = False
    for host in profile.hosts:
        own_process |= _loads_itself(profile, host)
        graph = profile.derived(host, pipeline_graph)
        calls = profile.derived(host, pipeline_calls)
        if isinstance(graph, Unavailable):
            reasons.append(graph)
        elif isinstance(calls, Unavailable):
            reasons.append(calls)
        else:
            found += [
                (total, host, stages) for total, stages in _pipelines(graph, calls)
            ]
    if not found:
        return PipelineSignals(None, (), own_process, next(iter(reasons), _NO_PIPELINE))
    longest = max(found, key=lambda one: one[0])
    return PipelineSignals(longest[1], longest[2], own_process, None)


_NO_PIPELINE: Final = Unavailable(
    code="NO_TFDATA_EVENTS",
    reason="No input pipeline was recorded.",
    remedy=Remedy.RECORD_PIPELINE_OF_LIBRARY,
)


def _loads_itself(profile: ProfileData, host: str) -> bool:
    iterators = profile.table(host, "iterators")
    if isinstance(iterators, Unavailable):
        return False
    return bool(iterators["long_name"].str.contains(_OWN_PROCESS).any())


def _pipelines(
    graph: PipelineGraph, calls: PipelineCalls
) -> list[tuple[int, tuple[Stage, ...]]]:
    """Return the time of all calls of each host pipeline, and its stages."""
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
    found = []
    for pipeline, on_device in enumerate(graph.pipelines["device"]):
        mine = numbered.filter(pl.col("pipeline") == pipeline)
        total = int(mine["latency_ps"].sum())
        if on_device or not total:
            continue
        rows = (
            all_stages.join(mine.select("call"), on="call", how="semi")
            .group_by("stage")
            .agg(
                pl.col("self_ps", "critical_ps", "executions").sum(),
                pl.col("critical_ps").filter(~pl.col("waited")).sum().alias("ready_ps"),
            )
        )
        stages = [
            _stage(graph.stages.row(row["stage"], named=True), row, total, len(mine))
            for row in rows.iter_rows(named=True)
        ]
        stages.sort(key=lambda one: (one.depth, one.name))
        found.append((total, tuple(stages)))
    return found


def _stage(
    facts: dict[str, object], row: dict[str, int], total: int, calls: int
) -> Stage:
    waited = row["critical_ps"]
    ahead = bool(facts["asynchronous"]) and waited > 0
    return Stage(
        type=str(facts["type"]),
        name=str(facts["long_name"]),
        depth=int(str(facts["depth"])),
        percent=100 * waited / total,
        runs_per_call=row["executions"] / calls,
        mean_self_ps=row["self_ps"] / max(row["executions"], 1),
        transparent=bool(facts["transparent"]),
        ready_percent=100 * row["ready_ps"] / waited if ahead else 0.0,
    )
