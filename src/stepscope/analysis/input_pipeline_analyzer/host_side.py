"""The host side of the input analysis: input ops, and work of worker processes."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec
import polars as pl

from stepscope.analysis.results.statistics import percent_of
from stepscope.analysis.results.tables import (
    package_reasons,
    share_percent,
    tool_tables,
)
from stepscope.analysis.results.tool import derived_by_host
from stepscope.derive.host.function_names import name_with_location
from stepscope.derive.input_pipeline.calls import pipeline_calls
from stepscope.derive.input_pipeline.graph import pipeline_graph
from stepscope.derive.input_pipeline.input_ops import (
    INPUT_CATEGORIES,
    WAITING_FOR_WORKERS,
    input_ops,
)
from stepscope.derive.input_pipeline.worker_functions import worker_functions
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.derive.profile_data import ProfileData

_WHY: Final = package_reasons("input_pipeline_analyzer")

INPUT_OPS: Final = tool_tables("input_pipeline_analyzer")["input_ops"]
WORKER_FUNCTIONS: Final = tool_tables("input_pipeline_analyzer")["worker_functions"]


class HostSide(msgspec.Struct, frozen=True, kw_only=True):
    """Where host-side input time goes; `InputPipelineResult` defines the fields.

    Attributes:
        largest_by_host: Host → category with the most time.
        calls: Host → number of calls of input ops.
        why_no_category: Why `largest_category` is null.
    """

    largest_category: str | None
    bottleneck_iterator: str | None
    host_breakdown_us: dict[str, float | None]
    host_breakdown_percent: dict[str, float | None]
    input_ops: pl.DataFrame
    largest_by_host: dict[str, str | None]
    calls: dict[str, int]
    why_no_category: Unavailable
    missing: tuple[Missing, ...]


def host_side(
    run: ProfileData,
    *,
    rows_of: Callable[[ProfileData, str], pl.DataFrame | Unavailable] | None = None,
) -> HostSide:
    """Add up the input ops of all hosts.

    Definition: docs/tools/input_pipeline_analyzer.md#host-side.

    Args:
        rows_of: Function that returns a host's input ops; None for stepscope's rules.
    """
    ops_by_host: dict[str, pl.DataFrame] = {}
    reasons: dict[str, list[Unavailable]] = {name: [] for name in INPUT_CATEGORIES}
    absent: list[Unavailable] = []
    for host in run.hosts:
        own = run.derived(host, input_ops) if rows_of is None else rows_of(run, host)
        if isinstance(own, Unavailable):
            absent.append(own)
        elif isinstance(own, pl.DataFrame):
            ops_by_host[host] = own
        else:
            ops_by_host[host] = own.rows
            for category, why in own.doubts.items():
                reasons[category].append(why)
    doubts = {name: [*absent, *causes] for name, causes in reasons.items()}
    spent = _breakdown_us(ops_by_host, doubts)
    total_us = sum(time for time in spent.values() if time is not None)
    shares = {name: percent_of(time, total_us) for name, time in spent.items()}
    paths = {host: _critical_path(run, host) for host in run.hosts}
    ops = _input_op_rows(ops_by_host, paths)
    biggest = _largest_category(spent, ops)
    missing = [
        *_missing_of_categories("host_breakdown_us", spent, doubts),
        *_missing_of_categories("host_breakdown_percent", shares, doubts),
        *_missing_of_ops(ops, absent, paths),
    ]
    # The result names the stage that the slowest call of any host waited for most.
    critical = [path for path in paths.values() if isinstance(path, _Critical)]
    slowest = max(critical, key=lambda path: path.latency_ps, default=None)
    bottleneck = None if slowest is None else slowest.bottleneck
    if bottleneck is None:
        lost = (path for path in paths.values() if isinstance(path, Unavailable))
        why = next(lost, _WHY["no_bottleneck"])
        missing.append(why.missing_field("bottleneck_iterator"))
    no_category = next(
        (causes[0] for causes in doubts.values() if causes), _WHY["no_time"]
    )
    if biggest is None:
        missing.append(no_category.missing_field("largest_category"))
    return HostSide(
        largest_category=biggest,
        bottleneck_iterator=bottleneck,
        host_breakdown_us=spent,
        host_breakdown_percent=shares,
        input_ops=ops,
        largest_by_host={
            host: _largest_category(
                _breakdown_us({host: rows}, {}), ops.filter(pl.col("host") == host)
            )
            for host, rows in ops_by_host.items()
        },
        calls={host: int(rows["count"].sum()) for host, rows in ops_by_host.items()},
        why_no_category=no_category,
        missing=tuple(missing),
    )


class _Critical(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting times of the pipeline calls of a host.

    Attributes:
        stages_ps: Long name of a stage → wall time of calls that is charged to it.
        latency_ps: Latency of the slowest call.
        bottleneck: Long name of the stage that the slowest call waited for most.
    """

    stages_ps: dict[str, int]
    latency_ps: int
    bottleneck: str | None


def _critical_path(run: ProfileData, host: str) -> _Critical | Unavailable:
    calls = run.derived(host, pipeline_calls)
    if isinstance(calls, Unavailable):
        return calls
    graph = run.derived(host, pipeline_graph)
    if isinstance(graph, Unavailable):
        return graph
    # Calls of a device pipeline contain calls of host pipelines; count their time once.
    on_device = graph.pipelines["device"].gather(calls.calls["pipeline"])
    stages = calls.stages.with_columns(
        on_device.gather(calls.stages["call"]).alias("device"),
        graph.stages["long_name"].gather(calls.stages["stage"]).alias("name"),
    )
    of_host = pl.col("critical_ps").filter(~pl.col("device"))
    charged = stages.group_by("name").agg(
        pl.when(of_host.len() > 0)
        .then(of_host.sum())
        .otherwise(pl.col("critical_ps").sum())
        .alias("critical_ps")
    )
    ranked = calls.calls.with_columns(on_device.alias("device"))
    slowest = ranked.sort(
        "device", "latency_ps", descending=[False, True], maintain_order=True
    ).head(1)
    bottleneck = slowest["bottleneck"].drop_nulls()
    return _Critical(
        stages_ps=dict(charged.iter_rows()),
        latency_ps=int(slowest["latency_ps"].sum()),
        bottleneck=graph.stages["long_name"][int(bottleneck[0])]
        if len(bottleneck)
        else None,
    )


def _input_op_rows(
    by_host: Mapping[str, pl.DataFrame], critical: Mapping[str, _Critical | Unavailable]
) -> pl.DataFrame:
    """Return a row per host and op, by self time descending, then name, then host.

    The columns of percentages refer to the self time of all input ops of all hosts,
    which is the total time spent on input.
    """
    frames = []
    for host, rows in by_host.items():
        path = critical.get(host)
        times = path.stages_ps if isinstance(path, _Critical) else {}
        known = [times.get(name) for name in rows["name"].to_list()]
        frames.append(
            rows.with_columns(
                pl.Series("critical_ps", known, dtype=pl.Int64), host=pl.lit(host)
            )
        )
    if not frames:
        return pl.DataFrame(schema=INPUT_OPS.dtypes())
    everything = pl.concat(frames)
    total_ps = int(everything["self_ps"].sum())
    return (
        everything.sort("self_ps", "name", "host", descending=[True, False, False])
        .with_columns(
            (pl.col("total_ps") / PS_PER_US).alias("total_time_us"),
            share_percent(pl.col("total_ps"), total_ps).alias("total_time_percent"),
            (pl.col("self_ps") / PS_PER_US).alias("self_time_us"),
            share_percent(pl.col("self_ps"), total_ps).alias("self_time_percent"),
            (pl.col("critical_ps") / PS_PER_MS).alias("critical_time_ms"),
        )
        .select(INPUT_OPS.cast_columns())
    )


def _missing_of_ops(
    ops: pl.DataFrame,
    absent: Sequence[Unavailable],
    critical: Mapping[str, _Critical | Unavailable],
) -> list[Missing]:
    if not len(ops):
        return [why.missing_field("input_ops") for why in absent[:1]]
    missing = []
    without = ops["critical_time_ms"].null_count()
    if without:
        lost = [path for path in critical.values() if isinstance(path, Unavailable)]
        why = lost[0] if lost and without == len(ops) else _WHY["no_stage"]
        missing.append(why.missing_field("input_ops.critical_time_ms"))
    if ops["self_time_percent"].null_count():
        missing += [
            _WHY["no_time"].missing_field(f"input_ops.{name}_time_percent")
            for name in ("total", "self")
        ]
    return missing


def _breakdown_us(
    ops_by_host: Mapping[str, pl.DataFrame], doubts: Mapping[str, Sequence[Unavailable]]
) -> dict[str, float | None]:
    """Add up input ops' self times by category; null, not 0, if records may be lost."""
    spent: dict[str, float | None] = {}
    totals: Counter[str] = Counter()
    for rows in ops_by_host.values():
        sums = rows.group_by("category").agg(pl.col("self_ps").sum())
        totals.update(dict(sums.iter_rows()))
    for category in INPUT_CATEGORIES:
        total = totals[category]
        lost = bool(doubts.get(category))
        spent[category] = None if lost and not total else total / PS_PER_US
    return spent


def _missing_of_categories(
    field: str,
    values: Mapping[str, float | None],
    doubts: Mapping[str, Sequence[Unavailable]],
) -> list[Missing]:
    """Return why categories are null; one entry if all of them are null."""
    absent = {
        name: next(iter(doubts[name]), _WHY["no_time"])
        for name, value in values.items()
        if value is None
    }
    if len(absent) == len(values):
        return [next(iter(absent.values())).missing_field(field)]
    return [why.missing_field(f"{field}.{name}") for name, why in absent.items()]


def waiting_us(ops: pl.DataFrame) -> float:
    """Return how long data loaders only wait for worker processes."""
    waiting = ops.filter(pl.col("category") == WAITING_FOR_WORKERS)
    return float(waiting["self_time_us"].sum())


def _largest_category(
    spent: Mapping[str, float | None], ops: pl.DataFrame
) -> str | None:
    """Return the category with the most time.

    The category is None if no time is known, or if loaders mostly wait for their worker
    processes, whose work may be the largest category.
    """
    waited_us = waiting_us(ops)
    known = {name: time for name, time in spent.items() if time and time > waited_us}
    return max(known, key=lambda name: known[name]) if known else None


#: Workers are idle if no worker works during at least this share of the batch waits.
_MIN_IDLE_PART: Final = 0.5


class WorkerSide(msgspec.Struct, frozen=True, kw_only=True):
    """The worker processes of all hosts.

    Attributes:
        functions: One row per host and function, or other state, of the workers.
        idle: Whether no worker works during most of the time in which steps wait for a
            batch; None if unknown.
        most: Function with most of the worker processes' time, with file and line; None
            if no function dominates.
    """

    functions: pl.DataFrame
    idle: bool | None
    most: str | None
    missing: tuple[Missing, ...]


def worker_side(run: ProfileData) -> WorkerSide:
    """Combine the workers of all hosts in one table.

    Definition: docs/tools/input_pipeline_analyzer.md#worker-processes.
    """
    by_host, absent = derived_by_host(run, worker_functions)
    rows: list[tuple[object, ...]] = []
    no_source = (None,) * 5
    for host, samples in by_host.items():
        works = [
            (
                (
                    "works",
                    function.function,
                    function.inside,
                    function.file,
                    function.line,
                    function.hot_line,
                ),
                function.time_ps,
            )
            for function in samples.functions
        ]
        unnamed_ps = samples.works_ps - sum(
            function.time_ps for function in samples.functions
        )
        remaining = (
            (("works", *no_source), unnamed_ps),
            (("hands_over", *no_source), samples.gives_ps),
            (("waits_for_work", *no_source), samples.waits_ps),
        )
        for cells, time_ps in (*works, *(row for row in remaining if row[1] > 0)):
            percent = 100 * time_ps / samples.sampled_ps
            rows.append((*cells, time_ps / PS_PER_MS, percent, samples.workers, host))
    awaited = sum(samples.awaited_ps for samples in by_host.values())
    idle = sum(samples.idle_ps for samples in by_host.values())
    named = [
        samples.worth_naming
        for samples in by_host.values()
        if samples.worth_naming is not None
    ]
    busiest = max(named, key=lambda function: function.time_ps, default=None)
    return WorkerSide(
        functions=pl.DataFrame(rows, schema=WORKER_FUNCTIONS.dtypes(), orient="row"),
        idle=idle >= _MIN_IDLE_PART * awaited if awaited else None,
        most=None
        if busiest is None
        else name_with_location(f"`{busiest.function}`", busiest.file, busiest.line),
        missing=()
        if rows
        else tuple(
            why.missing_field("worker_functions") for why in islice(absent.values(), 1)
        ),
    )
