"""`tf_data_bottleneck_analysis`: the slowest stage of each input pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import polars as pl

from stepscope.analysis.results.result import ToolResult
from stepscope.analysis.results.tables import (
    missing_fields,
    package_reasons,
    tool_tables,
)
from stepscope.analysis.results.tool import derived_by_host
from stepscope.analysis.tf_data_bottleneck_analysis.exposed_wait import (
    ExposedWait,
    exposed_wait,
)
from stepscope.analysis.tf_data_bottleneck_analysis.nodes import (
    Edge,
    Node,
    call_edges,
    call_nodes,
)
from stepscope.derive.input_pipeline.calls import pipeline_calls
from stepscope.derive.input_pipeline.graph import pipeline_graph
from stepscope.derive.verdicts.input_actions import action_for_stage
from stepscope.derive.verdicts.input_verdict import INPUT_VERDICT_NEEDS, verdict_of_run
from stepscope.errors import BadUsage
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS
from stepscope.trace.quality import QualityNote
from stepscope.unavailable import Missing, Unavailable, require_available
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.options import TfDataBottleneckAnalysisOptions
    from stepscope.derive.input_pipeline.calls import PipelineCalls
    from stepscope.derive.input_pipeline.graph import PipelineGraph
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.verdicts.input_actions import InputAction, InputFact
    from stepscope.derive.verdicts.input_verdict import InputVerdict

_WHY: Final = package_reasons("tf_data_bottleneck_analysis")

_TABLES: Final = tool_tables("tf_data_bottleneck_analysis")
BOTTLENECK_ROWS: Final = _TABLES["bottlenecks"]
PIPELINE_ROWS: Final = _TABLES["pipelines"]
STAGE_ROWS: Final = _TABLES["stages"]
WAIT_ROWS: Final = _TABLES["waits"]

#: Derived data of each host that the tool reads with its default options.
NEEDS: Final = (*INPUT_VERDICT_NEEDS, pipeline_calls)


#: Maximum duration, in ps, of a call that found its element ready.
#: Definition: docs/tools/tf_data_bottleneck_analysis.md#how-each-number-is-defined.
_SLOW_PS: Final = THRESHOLDS.slow_fetch.value

#: Verdict on input pipelines → text of the verdict.
_TEXTS: Final = {
    "slow": "Calls of the input pipeline are slow, and the steps wait for them.",
    "slow_but_hidden": "Some calls of the input pipeline are slow, but the steps "
    "hardly wait for the pipeline: it does not slow this run.",
    "slow_unweighed": "Calls of the input pipeline are slow. How long the steps wait "
    "for the pipeline is not known.",
    "not_slow": "No call of the input pipeline is slow, and the steps do not wait for "
    "it.",
    "unknown": "No call of a host's input pipeline was recorded.",
}
#: Text for an input-bound run, by verdict and whether the steps wait for this pipeline.
_TEXTS_OF_BOUND: Final = {
    ("slow_but_hidden", False): "Some calls of the input pipeline are slow, but the "
    "steps hardly wait for the pipeline. They wait for other parts of the input, such "
    "as copies of the batch.",
    ("not_slow", True): "No call of the input pipeline is slow, but the steps wait for "
    "the pipeline: many short calls add up, or not all of its workers were recorded.",
    (
        "not_slow",
        False,
    ): "No call of the input pipeline is slow. The steps wait for the "
    "other parts of the input, such as copies of the batch.",
}
#: Text of the verdict `not_slow` if it is unknown whether the run is input-bound.
_NOT_SLOW_UNWEIGHED: Final = (
    "No call of the input pipeline is slow. The program may still be bound by input if "
    "not all of its workers were recorded."
)
#: Text before the advice on a pipeline that the steps do not wait for.
_NOT_AWAITED: Final = "The steps do not wait for this stage. To make it faster anyway: "


class Bottleneck(msgspec.Struct, frozen=True, kw_only=True):
    """The stage on the critical path with the longest self time.

    Attributes:
        type: Name of the transformation, without index and version.
        long_name: Long name of the stage: all stages from the last one up to this one.
        self_us: Self time of the stage in the call.
        critical_time_us: Part of the call's wall time that is charged to the stage.
    """

    type: str
    long_name: str
    self_us: float
    critical_time_us: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict over all hosts.

    Attributes:
        verdict: `slow`, `slow_but_hidden`, `slow_unweighed` (it is unknown how long the
            steps wait), `not_slow` or `unknown`.
        text: The verdict in words.
        input_bound: Whether the steps wait for their input, as the check `input.bound`
            decides; null if unknown.
        host: Host of the slowest call, the most input-bound host; null without a call.
        pipeline: Pipeline of the slowest call; null without a call.
        max_latency_us: Duration of the slowest call; null without a call.
        bottleneck: Bottleneck of the slowest call; null if the call has none.
        suggestion_kind: Stable name of the suggestion; null without a suggestion.
        suggestion: What to do about the slowest call's bottleneck; null if none.
        exposed_wait_ms_per_step: Mean time per step in which this host waits for input
            while no other work keeps the step busy; null if unknown.
        exposed_wait_percent: Share of step time in which this host waits for input
            while no other work keeps the step busy; null if unknown.
        limits_steps: Whether the run is `input_bound` and `exposed_wait_percent` is at
            least 5 %; null if either is unknown.
    """

    verdict: str
    text: str
    input_bound: bool | None
    host: str | None
    pipeline: str | None
    max_latency_us: float | None
    bottleneck: Bottleneck | None
    suggestion_kind: str | None
    suggestion: str | None
    exposed_wait_ms_per_step: float | None
    exposed_wait_percent: float | None
    limits_steps: bool | None


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """One call of one pipeline.

    Attributes:
        host: Host of the call.
        pipeline: Name of the call's pipeline.
        rank: Rank of the call among the calls of its pipeline; 0 is the slowest.
        start_us: Start of the call, since the start of the profile.
        latency_us: Duration of the call: the sum of its nodes' `critical_time_us`.
        suggestion_kind: Stable name of the suggestion; null without a bottleneck.
        suggestion: What to do about the call's bottleneck; null without a bottleneck.
        nodes: Stages of the pipeline, nearest to the consumer first.
        edges: Pairs of a stage and a stage that it called.
    """

    host: str
    pipeline: str
    rank: int
    start_us: float
    latency_us: float
    suggestion_kind: str | None
    suggestion: str | None
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


class TfDataBottleneckAnalysisResult(ToolResult, frozen=True, kw_only=True):
    """The input pipelines of all selected hosts.

    Attributes:
        summary: The verdict over all hosts.
        bottlenecks: The slowest call of each host pipeline, ordered by latency.
        pipelines: All pipelines, by host and order of appearance.
        waits: How long the steps of each host wait for input.
        graphs: One call of each selected pipeline: host pipelines by largest latency,
            then device pipelines.
        stages: The stages of all calls in `graphs`, as one table.
        quality: Doubts about the pipelines.
        missing: Null fields and hosts that could not be analysed.
        inputs: Host → number of executions, stages and calls that were read.
    """

    summary: Summary
    bottlenecks: Annotated[pl.DataFrame, BOTTLENECK_ROWS]
    pipelines: Annotated[pl.DataFrame, PIPELINE_ROWS]
    waits: Annotated[pl.DataFrame, WAIT_ROWS]
    graphs: tuple[Graph, ...]
    stages: Annotated[pl.DataFrame, STAGE_ROWS]
    quality: tuple[QualityNote, ...]
    missing: tuple[Missing, ...]
    inputs: dict[str, dict[str, int]]


class _Host(Frozen, frozen=True, eq=True):
    name: str
    graph: PipelineGraph
    calls: PipelineCalls
    wait: ExposedWait | Unavailable
    decided: InputVerdict | Unavailable

    @property
    def input_bound(self) -> bool | None:
        """Whether the steps of the run wait for input; None if unknown."""
        known = self.decided
        return None if isinstance(known, Unavailable) else known.input_bound

    @property
    def limits_steps(self) -> bool | None:
        """Whether the steps of this host wait for pipelines; None if unknown."""
        if isinstance(self.wait, Unavailable) or self.input_bound is None:
            return None
        return self.input_bound and self.wait.percent >= THRESHOLDS.input_warn.value


class _Pipeline(Frozen, frozen=True, eq=True):
    """A pipeline of a host with its calls, columns `CALLS` and `call`, by rank."""

    host: _Host
    row: int
    name: str
    on_device: bool
    calls: pl.DataFrame


def analyse(
    profile: ProfileData, options: TfDataBottleneckAnalysisOptions
) -> TfDataBottleneckAnalysisResult | Unavailable:
    """Find the slowest stage of the slowest pipeline call.

    Definition: docs/tools/tf_data_bottleneck_analysis.md#how-each-number-is-defined.
    """
    run = profile.select([options.host]) if options.host else profile
    calls, absent = derived_by_host(run, pipeline_calls)
    if not calls:
        return next(iter(absent.values()))
    decided = verdict_of_run(run)
    hosts = [
        _Host(
            host,
            require_available(run.derived(host, pipeline_graph)),
            of_host,
            exposed_wait(run, host),
            decided,
        )
        for host, of_host in calls.items()
    ]
    pipelines: list[_Pipeline] = []
    for host in hosts:
        ranked_calls = host.calls.calls.with_row_index("call").sort("pipeline", "rank")
        parts = ranked_calls.partition_by("pipeline", as_dict=True)
        names = host.graph.pipelines.select("name", "device").iter_rows()
        pipelines += (
            _Pipeline(host, row, name, on_device, parts[row,])
            for row, (name, on_device) in enumerate(names)
        )
    ranked = sorted(
        pipelines, key=lambda pipeline: (pipeline.on_device, -_slowest_ps(pipeline))
    )
    summary, missing = _run_summary(ranked)
    named = [pipeline for pipeline in ranked if options.pipeline in {"", pipeline.name}]
    if not named:
        known = dict.fromkeys(pipeline.name for pipeline in ranked)
        raise BadUsage.unknown_name("input pipeline", options.pipeline, known)
    max_calls = max(len(pipeline.calls) for pipeline in named)
    if options.rank >= max_calls:
        ranks = [f"0 to {max_calls - 1}" if max_calls > 1 else "0"]
        raise BadUsage.unknown_name("call of rank", str(options.rank), ranks)
    graphs, lacks = _call_graphs(run, named, options)
    missing += lacks
    missing += [
        host.wait.missing_field(f"waits[{host.name}]")
        for host in hosts
        if isinstance(host.wait, Unavailable)
    ]
    missing += [why.missing_field(f"hosts.{host}") for host, why in absent.items()]
    wait_rows = [
        (host.name, None, None, None)
        if isinstance(host.wait, Unavailable)
        else (host.name, host.wait.steps, host.wait.ms_per_step, host.wait.percent)
        for host in hosts
    ]
    return TfDataBottleneckAnalysisResult(
        summary=summary,
        bottlenecks=_bottleneck_rows(ranked),
        pipelines=_pipeline_rows(pipelines),
        waits=pl.DataFrame(wait_rows, schema=WAIT_ROWS.dtypes(), orient="row"),
        graphs=graphs,
        stages=_stage_rows(graphs),
        quality=tuple(
            note for host in hosts for note in (*host.graph.notes, *host.calls.notes)
        ),
        missing=tuple(missing),
        inputs={
            host.name: {
                "executions": len(host.graph.event),
                "stages": host.graph.stages.height,
                "calls": host.calls.calls.height,
            }
            for host in hosts
        },
    )


def _slowest_ps(pipeline: _Pipeline) -> int:
    latency: int = pipeline.calls["latency_ps"][0]
    return latency


def _run_summary(ranked: Sequence[_Pipeline]) -> tuple[Summary, list[Missing]]:
    fields: dict[str, Any] = dict.fromkeys(_OF_HOST_PIPELINE)
    worst = ranked[0]
    if worst.on_device:
        fields["input_bound"] = worst.host.input_bound
        reasons = dict.fromkeys(fields, _WHY["only_devices"])
        missing = missing_fields(fields, reasons, prefix="summary.")
        return Summary(verdict="unknown", text=_TEXTS["unknown"], **fields), missing
    wait, latency_ps = worst.host.wait, _slowest_ps(worst)
    missing = []
    if isinstance(wait, Unavailable):
        missing += [wait.missing_field(f"summary.{name}") for name in _OF_WAIT]
    else:
        fields["exposed_wait_ms_per_step"] = wait.ms_per_step
        fields["exposed_wait_percent"] = wait.percent
    fields["bottleneck"] = _call_bottleneck(worst)
    advice = _call_suggestion(worst)
    if advice is not None:
        fields |= {"suggestion_kind": advice.suggestion_kind, "suggestion": advice.text}
    missing += [
        _WHY["only_transparent"].missing_field(f"summary.{name}")
        for name in ("bottleneck", "suggestion_kind", "suggestion")
        if fields[name] is None
    ]
    limits, bound = worst.host.limits_steps, worst.host.input_bound
    if latency_ps <= _SLOW_PS:
        verdict = "not_slow"
    elif limits is None:
        verdict = "slow_unweighed"
    else:
        verdict = "slow" if limits else "slow_but_hidden"
    fields |= {"input_bound": bound, "max_latency_us": latency_ps / PS_PER_US}
    fields |= {"host": worst.host.name, "pipeline": worst.name, "limits_steps": limits}
    why = worst.host.decided
    if not isinstance(why, Unavailable):
        why = why.why or _WHY["undecided"]
    names = ["input_bound"] if fields["input_bound"] is None else []
    if fields["limits_steps"] is None and not isinstance(worst.host.wait, Unavailable):
        names.append("limits_steps")
    missing += [why.missing_field(f"summary.{name}") for name in names]
    text = _TEXTS[verdict]
    if bound:
        text = _TEXTS_OF_BOUND.get((verdict, bool(limits)), text)
    elif bound is None and verdict == "not_slow":
        text = _NOT_SLOW_UNWEIGHED
    return Summary(verdict=verdict, text=text, **fields), missing


#: Fields of the summary that are null without a host pipeline.
_OF_HOST_PIPELINE: Final = tuple(
    name for name in Summary.__struct_fields__ if name not in {"verdict", "text"}
)
#: Fields of the summary that are null without steps.
_OF_WAIT: Final = ("exposed_wait_ms_per_step", "exposed_wait_percent", "limits_steps")


def _call_bottleneck(pipeline: _Pipeline) -> Bottleneck | None:
    """Return the slowest call's bottleneck; None if all its stages are transparent."""
    call = pipeline.calls.row(0, named=True)
    stage = call["bottleneck"]
    if stage is None:
        return None
    facts = pipeline.host.graph.stages.row(stage, named=True)
    rows = pipeline.host.calls.stages_of(call["call"])
    stage_row = rows.row(by_predicate=pl.col("stage") == stage, named=True)
    return Bottleneck(
        type=facts["type"],
        long_name=facts["long_name"],
        self_us=stage_row["self_ps"] / PS_PER_US,
        critical_time_us=stage_row["critical_ps"] / PS_PER_US,
    )


def _call_suggestion(pipeline: _Pipeline, rank: int = 0) -> InputAction | None:
    """Return the advice on one call; None if a slow call has no bottleneck."""
    call = pipeline.calls.row(rank, named=True)
    stage = call["bottleneck"]
    limits_steps = pipeline.host.limits_steps
    if call["latency_ps"] <= _SLOW_PS:
        waits: list[InputFact] = ["steps_wait"] if limits_steps else []
        return action_for_stage("", ["no_call_is_slow", *waits])
    if stage is None:
        return None
    stages = pipeline.host.graph.stages
    stage_row = stages.row(stage, named=True)
    facts: list[InputFact] = ["device_pipeline"] if pipeline.on_device else []
    if stage_row["asynchronous"]:
        rows = pipeline.host.calls.stages_of(call["call"])
        consumer = stages["consumer"].gather(rows["stage"])
        feeding = rows.filter((consumer == stage).fill_null(value=False))
        if feeding.is_empty():
            facts.append("upstream_unseen")
        elif not feeding["blocking"].any():
            facts.append("upstream_ready")
    action = action_for_stage(stage_row["type"], facts)
    if limits_steps is False:
        return msgspec.structs.replace(action, text=f"{_NOT_AWAITED}{action.text}")
    return action


def _call_graphs(
    run: ProfileData,
    chosen: Sequence[_Pipeline],
    options: TfDataBottleneckAnalysisOptions,
) -> tuple[tuple[Graph, ...], list[Missing]]:
    graphs, missing = [], []
    for pipeline in chosen:
        field = f"graphs[{pipeline.host.name}, {pipeline.name}]"
        if options.rank < len(pipeline.calls):
            host, call = pipeline.host, pipeline.calls.row(options.rank, named=True)
            advice = _call_suggestion(pipeline, options.rank)
            stats = run.table(host.name, "stats")
            graph = Graph(
                host=host.name,
                pipeline=pipeline.name,
                rank=options.rank,
                start_us=call["start_ps"] / PS_PER_US,
                latency_us=call["latency_ps"] / PS_PER_US,
                suggestion_kind=advice.suggestion_kind if advice else None,
                suggestion=advice.text if advice else None,
                nodes=call_nodes(
                    run.trace(host.name),
                    None if isinstance(stats, Unavailable) else stats,
                    host.graph,
                    host.calls,
                    call=call["call"],
                ),
                edges=call_edges(host.graph, host.calls, call=call["call"]),
            )
            graphs.append(graph)
            if graph.suggestion is None:
                missing += [
                    _WHY["only_transparent"].missing_field(f"{field}.{name}")
                    for name in ("suggestion_kind", "suggestion")
                ]
            continue
        why = Unavailable(
            code="NO_SAMPLES",
            reason=f"This pipeline has only {len(pipeline.calls)} calls.",
            remedy=f"Choose a rank up to {len(pipeline.calls) - 1}.",
        )
        missing.append(why.missing_field(field))
    if not any(node.parameters for graph in graphs for node in graph.nodes):
        missing.append(_WHY["no_parameters"].missing_field("graphs.nodes.parameters"))
    return tuple(graphs), missing


def _stage_rows(graphs: Sequence[Graph]) -> pl.DataFrame:
    columns = STAGE_ROWS.dtypes()
    rows = [
        {
            name: getattr(node if name in Node.__struct_fields__ else graph, name)
            for name in columns
        }
        for graph in graphs
        for node in graph.nodes
    ]
    return pl.DataFrame(rows, schema=columns)


def _bottleneck_rows(ranked: Sequence[_Pipeline]) -> pl.DataFrame:
    """Return the bottleneck of each host pipeline's slowest call."""
    rows = []
    for pipeline in ranked:
        if pipeline.on_device:
            continue
        row: dict[str, object] = {
            "host": pipeline.host.name,
            "pipeline": pipeline.name,
            "max_latency_us": _slowest_ps(pipeline) / PS_PER_US,
            "input_bound": pipeline.host.input_bound,
        }
        if (bottleneck := _call_bottleneck(pipeline)) is not None:
            stage = pipeline.calls.row(0, named=True)["bottleneck"]
            row["bottleneck_calls"] = (pipeline.calls["bottleneck"] == stage).sum()
            for name in ("type", "long_name", "self_us"):
                row[f"bottleneck_{name}"] = getattr(bottleneck, name)
        if (advice := _call_suggestion(pipeline)) is not None:
            row |= {
                "suggestion_kind": advice.suggestion_kind,
                "suggestion": advice.text,
            }
        rows.append(row)
    return pl.DataFrame(rows, schema=BOTTLENECK_ROWS.dtypes())


def _pipeline_rows(pipelines: Sequence[_Pipeline]) -> pl.DataFrame:
    rows = []
    for pipeline in pipelines:
        graph, latency = pipeline.host.graph, pipeline.calls["latency_ps"]
        stage = graph.pipelines["stage"][pipeline.row]
        rows.append(
            (
                pipeline.host.name,
                pipeline.name,
                "device" if pipeline.on_device else "host",
                graph.stages["long_name"][stage],
                len(latency),
                latency[-1] / PS_PER_US,
                int(latency.sum()) / len(latency) / PS_PER_US,
                latency[0] / PS_PER_US,
                int((latency > _SLOW_PS).sum()),
            )
        )
    return pl.DataFrame(rows, schema=PIPELINE_ROWS.dtypes(), orient="row")
