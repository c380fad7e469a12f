"""How busy the slowest stage of each host's input pipeline is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.advice.signals.signal import signal
from stepscope.derive.input_pipeline.calls import pipeline_calls
from stepscope.derive.input_pipeline.graph import pipeline_graph
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.input_pipeline.calls import PipelineCalls
    from stepscope.derive.input_pipeline.graph import PipelineGraph
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: Fewer batches have no pace.
_ENOUGH: Final = 3


class Service(Frozen, frozen=True):
    """The slowest stage of one host's pipeline: the one with least time to spare.

    Attributes:
        host: Name of the host.
        stage: Its long name.
        batch_ps: Its own time for a batch.
        at_once: How many of its executions ran at a time, at most.
        period_ps: Mean time from one batch to the next.
        batches: Number of batches.
    """

    host: str
    stage: str
    batch_ps: float
    at_once: int
    period_ps: float
    batches: int

    @property
    def busy_percent(self) -> float:
        """Return how much of its time the stage works."""
        return 100 * self.batch_ps / (self.at_once * self.period_ps)


@signal(pipeline_graph, pipeline_calls)
def service_signals(
    profile: ProfileData, _: Thresholds
) -> tuple[Service, ...] | Unavailable:
    """Return the slowest stage of each host's longest pipeline, the busiest first."""
    found: list[Service] = []
    reasons: list[Unavailable] = []
    for host in profile.hosts:
        graph = profile.derived(host, pipeline_graph)
        calls = profile.derived(host, pipeline_calls)
        if isinstance(graph, Unavailable):
            reasons.append(graph)
        elif isinstance(calls, Unavailable):
            reasons.append(calls)
        else:
            one = _of_host(host, graph, calls)
            reasons += [_FEW] if one is None else []
            found += [] if one is None else [one]
    if not found:
        return reasons[0] if reasons else _FEW
    return tuple(sorted(found, key=lambda one: -one.busy_percent))


def _of_host(host: str, graph: PipelineGraph, calls: PipelineCalls) -> Service | None:
    on_host = graph.pipelines.with_row_index("pipeline").filter(~pl.col("device"))
    mine = (
        calls.calls.with_row_index("call")
        .cast({"call": pl.Int32})
        .join(on_host.select(pl.col("pipeline").cast(pl.Int32)), on="pipeline")
    )
    longest = (
        mine.group_by("pipeline", maintain_order=True)
        .agg(pl.col("latency_ps").sum())
        .sort("latency_ps", descending=True)
        .head(1)
    )
    chosen = mine.join(longest.select("pipeline"), on="pipeline").sort("start_ps")
    if len(chosen) < _ENOUGH:
        return None
    begin = chosen["start_ps"].to_numpy()
    period = float(begin[-1] - begin[0]) / (len(chosen) - 1)
    own = (
        calls.stages.join(chosen.select("call"), on="call", how="semi")
        .group_by("stage", maintain_order=True)
        .agg(pl.col("self_ps").sum())
    )
    ran = np.unique(calls.execution[np.isin(calls.call, chosen["call"].to_numpy())])
    stages = [
        Service(
            host=host,
            stage=str(graph.stages["long_name"][stage]),
            batch_ps=time / len(chosen),
            at_once=_most_at_once(graph, ran[graph.stage[ran] == stage]),
            period_ps=period,
            batches=len(chosen),
        )
        for stage, time in own.iter_rows()
        if not graph.stages["transparent"][stage] and period > 0
    ]
    return max(stages, key=lambda one: one.busy_percent, default=None)


def _most_at_once(graph: PipelineGraph, ran: NDArray[np.int64]) -> int:
    """Return how many of some executions overlapped at most."""
    begin = np.sort(graph.start_ps[ran])
    end = np.sort(graph.start_ps[ran] + graph.dur_ps[ran])
    ended = np.searchsorted(end, begin, side="right")
    return max(int((np.arange(1, len(begin) + 1) - ended).max()), 1)


_FEW: Final = Unavailable(
    code="NO_SAMPLES",
    reason="Too few batches were recorded to tell how busy their pipeline is.",
    remedy="Record more steps.",
)
