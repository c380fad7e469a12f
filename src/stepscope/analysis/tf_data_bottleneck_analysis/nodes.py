"""One call of an input pipeline as a graph of stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepscope.derive.input_pipeline.stages import (
    FILL,
    Parameter,
    numbers_of_key,
    recorded_parameters,
)
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    import polars as pl

    from stepscope.array_types import Int64s
    from stepscope.derive.input_pipeline.calls import PipelineCalls
    from stepscope.derive.input_pipeline.graph import PipelineGraph
    from stepscope.trace.model import TraceData


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A stage in one call of an input pipeline.

    Definition: docs/tools/tf_data_bottleneck_analysis.md#how-each-number-is-defined.

    Attributes:
        id: Recorded id of the stage, in decimal; the long name if no id was recorded.
        name: Long name: all stages from the last one up to this one.
        type: Name of the transformation, without index and version.
        start_us: Start of the stage's first execution, since the profile's start.
        total_us: Total time of the stage's executions; may exceed the call's latency,
            because elements are produced ahead and by several threads.
        self_us: Time of the stage's executions without overlap with direct children.
        calls: Number of executions of the stage in this call.
        critical: Whether the stage is on the critical path: the call waited for it.
        bottleneck: Whether the stage has the longest self time on the critical path.
        critical_time_us: Part of the call's wall time that is charged to the stage.
        transparent: Whether the stage passes elements on unchanged: never a bottleneck.
        asynchronous: Whether the stage fetches its elements on separate threads.
        parameters: Values that the stage recorded at its first execution (parallelism,
            buffer limit, …); `buffered_elements` is the mean over its executions.
    """

    id: str
    name: str
    type: str
    start_us: float
    total_us: float
    self_us: float
    calls: int
    critical: bool
    bottleneck: bool
    critical_time_us: float
    transparent: bool
    asynchronous: bool
    parameters: dict[str, Parameter]


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """A stage that consumed elements of another stage; both fields are ids of nodes."""

    consumer: str
    producer: str


def call_nodes(
    trace: TraceData,
    stats: pl.DataFrame | None,
    graph: PipelineGraph,
    calls: PipelineCalls,
    *,
    call: int,
) -> tuple[Node, ...]:
    """Return the stages of one call, nearest to the consumer first."""
    parameters = _reported_parameters(trace, stats, graph, calls.executions_of(call))
    bottleneck = calls.calls["bottleneck"][call]
    nodes = []
    for row in calls.stages_of(call).iter_rows(named=True):
        stage = graph.stages.row(row["stage"], named=True)
        node = Node(
            id=_node_id(graph, row["stage"]),
            name=stage["long_name"],
            type=stage["type"],
            start_us=row["start_ps"] / PS_PER_US,
            total_us=row["total_ps"] / PS_PER_US,
            self_us=row["self_ps"] / PS_PER_US,
            calls=row["executions"],
            critical=row["blocking"],
            bottleneck=row["stage"] == bottleneck,
            critical_time_us=row["critical_ps"] / PS_PER_US,
            transparent=stage["transparent"],
            asynchronous=stage["asynchronous"],
            parameters=parameters.get(row["stage"], {}),
        )
        nodes.append((stage["depth"], node.name, node.id, node))
    return tuple(node for *_, node in sorted(nodes, key=lambda ranked: ranked[:3]))


def call_edges(
    graph: PipelineGraph, calls: PipelineCalls, *, call: int
) -> tuple[Edge, ...]:
    """Return the pairs of a stage and a stage that it called, in one call."""
    executions = calls.executions_of(call)
    first = np.searchsorted(graph.parent, executions, side="left")
    last = np.searchsorted(graph.parent, executions, side="right")
    pairs: set[tuple[int, int]] = set()
    # This loop runs over the executions of one call, not of the whole profile.
    for execution, begin, end in zip(
        executions.tolist(), first.tolist(), last.tolist(), strict=True
    ):
        children = graph.child[begin:end]
        inside = children[np.isin(children, executions)]
        above = int(graph.stage[execution])
        pairs |= {(above, stage) for stage in graph.stage[inside].tolist()}
    return tuple(
        Edge(consumer=_node_id(graph, above), producer=_node_id(graph, below))
        for above, below in sorted(pairs)
        if above != below
    )


def _node_id(graph: PipelineGraph, stage: int) -> str:
    number, name = graph.stages["id"][stage], graph.stages["long_name"][stage]
    return str(name if number is None else number)


def _reported_parameters(
    trace: TraceData,
    stats: pl.DataFrame | None,
    graph: PipelineGraph,
    executions: Int64s,
) -> dict[int, dict[str, Parameter]]:
    if stats is None:
        return {}
    by_start = executions[np.argsort(graph.start_ps[executions], kind="stable")]
    stages, first = np.unique(graph.stage[by_start], return_index=True)
    events = graph.event[by_start[first]]
    recorded = recorded_parameters(trace, stats, events)
    by_stage = {
        stage: dict(recorded.get(event, {}))
        for stage, event in zip(stages.tolist(), events.tolist(), strict=True)
    }
    executed = graph.event[executions]
    owner, fill = numbers_of_key(trace, stats, executed)
    of_event = dict(
        zip(executed.tolist(), graph.stage[executions].tolist(), strict=True)
    )
    stage_of = np.array([of_event[event] for event in owner.tolist()], np.int64)
    for stage in np.unique(stage_of).tolist():
        by_stage[stage][FILL] = float(fill[stage_of == stage].mean())
    return by_stage
