"""`model_views`: costs by name scope, graph, op, line and named range of a program."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import polars as pl

from stepscope.analysis.model_views.annotation_detail import (
    AnnotationDetail,
    annotation_detail,
)
from stepscope.analysis.model_views.annotation_rows import (
    ANNOTATION_ROWS,
    AnnotatedHost,
    annotated_host,
    annotation_missing,
    annotation_rows,
    unannotated_us,
)
from stepscope.analysis.model_views.reasons import (
    missing_lines,
    missing_of_trees,
    why_no_ops,
    why_nothing,
)
from stepscope.analysis.model_views.settings import (
    SELECTABLE,
    Settings,
    choose_steps,
    decide_settings,
)
from stepscope.analysis.model_views.source_rows import (
    SOURCE_ROWS,
    hosts_with_functions,
    source_view,
)
from stepscope.analysis.model_views.tree import Tree, grow_tree, show_nodes
from stepscope.analysis.ops.rows import NO_OPS, without_steps
from stepscope.analysis.ops.selection import select_ops
from stepscope.analysis.results.result import ToolResult
from stepscope.analysis.results.statistics import percent_of
from stepscope.analysis.results.tables import tool_tables
from stepscope.analysis.results.tool import derived_by_host
from stepscope.derive.model.annotation_calls import annotation_calls
from stepscope.derive.model.source_lines import source_lines
from stepscope.derive.model.view_names import ANNOTATION, SOURCE, VIEWS
from stepscope.derive.model.work import (
    SIDES,
    charges_in_steps,
    model_charges,
    model_work,
)
from stepscope.unavailable import Missing, Unavailable, require_available
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.analysis.options import ModelViewsOptions
    from stepscope.derive.model.work import ModelWork
    from stepscope.derive.profile_data import ProfileData

VIEW_ROWS: Final = tool_tables("model_views")["scope"]
#: Derived data of each host that the tool reads with its default options.
NEEDS: Final = (annotation_calls, model_charges, source_lines)


class ModelViewsResult(ToolResult, frozen=True, kw_only=True):
    """Views of the same costs, over all selected hosts and devices.

    Attributes:
        view: Name of the view to show first.
        scope: Costs by name scope, or by module of the model; selected columns, depth
            first. The totals of the roots add up to all recorded time.
        graph: Costs by op; the parent of an op is the op that called it.
        op: Costs by op type.
        code: Costs by line of the program, below the function that called the line.
        source: Time by line of the program, as a flat list. Self times add up to the
            time of threads in ops or functions, and to the time of all device work.
        annotation: Time in the ranges that the program named, and of device work
            launched in them; the parent of a range is the range around it.
        unannotated_device_us: Time of device work launched outside all named ranges, in
            the whole recording; null if launches are unknown.
        total_us: Time of all work in the view, on hosts and devices.
        flops_known_percent: Share of the total time in ops with a known number of
            operations; null if no time was recorded.
        settings: The options, with presets and defaults applied.
        step: Number of the requested step; null for all or several steps.
        steps: Host → numbers of the shown steps; null for the whole recording.
        missing: Columns that contain nulls, with the reasons.
        inputs: Host → number of executions and device activities that were read.
    """

    view: str
    scope: Annotated[pl.DataFrame, VIEW_ROWS]
    graph: Annotated[pl.DataFrame, VIEW_ROWS]
    op: Annotated[pl.DataFrame, VIEW_ROWS]
    code: Annotated[pl.DataFrame, VIEW_ROWS]
    source: Annotated[pl.DataFrame, SOURCE_ROWS]
    annotation: Annotated[pl.DataFrame, ANNOTATION_ROWS]
    unannotated_device_us: float | None
    total_us: float
    flops_known_percent: float | None
    settings: Settings
    step: int | None
    steps: dict[str, tuple[int, ...]] | None
    missing: tuple[Missing, ...]
    inputs: dict[str, dict[str, int]]


class AnnotationDetailResult(ModelViewsResult, frozen=True, kw_only=True):
    """The views, with `annotation` limited to one annotation, and its details.

    Attributes:
        detail: Details of the requested annotation.
    """

    detail: AnnotationDetail


#: Column of a tree → its metric, and whether descendants count.
_COLUMNS: Final = {
    "occurrences": ("occurrences", True),
    "total_us": ("spent_ps", True),
    "self_us": ("spent_ps", False),
    "host_us": ("host_ps", False),
    "device_us": ("device_ps", False),
    "total_host_us": ("host_ps", True),
    "total_device_us": ("device_ps", True),
    "flops": ("flops", True),
    "self_flops": ("flops", False),
    "parameters": ("parameters", True),
    "allocated_bytes": ("allocated_bytes", True),
}


def analyse(
    profile: ProfileData, options: ModelViewsOptions
) -> ModelViewsResult | Unavailable:
    """Build the trees of costs from recorded work.

    Definition: docs/tools/model_views.md#the-views.

    Raises:
        BadUsage: The requested step or annotation does not exist.
    """
    settings = decide_settings(options)
    works, absent = _works_of_hosts(profile)
    _, no_calls = derived_by_host(profile, annotation_calls)
    named = {*profile.hosts} - no_calls.keys()
    if options.op is not None and not named:
        return no_calls[profile.hosts[0]]
    lined = hosts_with_functions(profile)
    known = works.keys() | named | lined
    if not known:
        return next(iter(absent.values()), NO_OPS)
    known_hosts = [name for name in profile.hosts if name in known]
    chosen = choose_steps(profile, known_hosts, options)
    if isinstance(chosen, Unavailable):
        return chosen
    step_rows, numbers = chosen
    everything = numbers is None
    ran = {name: rows for name, rows in step_rows.items() if name in works}
    unknown = {
        f"{side}_ps"
        for side in SIDES
        if not any(works[name].shows_side(side, rows) for name, rows in ran.items())
    }
    missing = [why.missing_field(f"hosts.{name}") for name, why in absent.items()]
    view: str = options.view
    if len(unknown) == len(SIDES):
        nothing = why_nothing(profile, works, ran, everything=everything)
        if not named and not lined:
            return nothing
        missing += [nothing.missing_field(tree) for tree in VIEWS]
        if view == VIEWS[0]:
            view = ANNOTATION if named else SOURCE
    charges = [
        require_available(profile.derived(name, model_charges))
        if rows is None and not settings.trainable_only
        else charges_in_steps(works[name], rows, trainable_only=settings.trainable_only)
        for name, rows in ran.items()
    ]
    types = settings.account_type_regexes
    trees = {
        tree: grow_tree([of_host[tree] for of_host in charges], tree, types)
        for tree in VIEWS
    }
    frames = {
        name: _rows_of_tree(tree, settings, unknown) for name, tree in trees.items()
    }
    spent, with_flops = (
        int(trees["code"].metric_values(metric, total=False).sum())
        for metric in ("spent_ps", "known_ps")
    )
    source = source_view(profile, step_rows, settings)
    views = ModelViewsResult(
        view=view,
        **frames,
        source=source.rows,
        annotation=pl.DataFrame(schema=ANNOTATION_ROWS.dtypes()),
        unannotated_device_us=None,
        total_us=spent / PS_PER_US,
        flops_known_percent=percent_of(with_flops, spent),
        settings=settings,
        step=options.step,
        steps=numbers,
        missing=(
            *missing_of_trees(works, trees, frames, settings, everything=everything),
            *missing_lines(profile, works, source, everything=everything),
            *missing,
        ),
        inputs={name: _count_inputs(work) for name, work in works.items()},
    )
    return _add_annotations(profile, views, step_rows, options)


def _works_of_hosts(
    profile: ProfileData,
) -> tuple[dict[str, ModelWork], dict[str, Unavailable]]:
    """Return the work of each host, and the reason by host without known work."""
    works: dict[str, ModelWork] = {}
    absent: dict[str, Unavailable] = {}
    for name in profile.hosts:
        work = profile.derived(name, model_work)
        if isinstance(work, Unavailable):
            absent[name] = work
        elif any(work.shows_side(side, None) for side in SIDES):
            works[name] = work
        else:
            absent[name] = why_no_ops(profile, name)
    return works, absent


def _rows_of_tree(tree: Tree, settings: Settings, unknown: set[str]) -> pl.DataFrame:
    shown = show_nodes(tree, settings)
    columns = shown.tree.metric_columns(_COLUMNS, unknown)
    spent, known = (
        pl.Series(name, shown.tree.metric_values(name, total=True))
        for name in ("spent_ps", "known_ps")
    )
    shares = pl.select(
        flops_known_percent=pl.when(spent > 0).then(100.0 * known / spent)
    )
    columns |= {
        "type": pl.Series(tree.type, dtype=pl.String),
        "percent": shown.tree.percent_of_time(),
        "flops_known_percent": shares.to_series(),
    }
    return shown.select_columns(columns, VIEW_ROWS, settings.select, SELECTABLE)


def _add_annotations(
    profile: ProfileData,
    views: ModelViewsResult,
    chosen: dict[str, tuple[int, ...] | None],
    options: ModelViewsOptions,
) -> ModelViewsResult:
    """Add the named ranges, and the details of one range if requested."""
    every_host = [annotated_host(profile, name, rows) for name, rows in chosen.items()]
    hosts = [host for host in every_host if isinstance(host, AnnotatedHost)]
    if not hosts:
        calls = profile.derived(profile.hosts[0], annotation_calls)
        why = calls if isinstance(calls, Unavailable) else NO_OPS
        fields = list(map(why.missing_field, (ANNOTATION, "unannotated_device_us")))
        return msgspec.structs.replace(views, missing=(*views.missing, *fields))
    known = [name for host in hosts for name in host.calls.names]
    meant = select_ops(options.op, None, known, what="annotation")
    settings = views.settings
    if meant is not None and meant.op is not None:
        only = (re.escape(meant.op),)
        settings = msgspec.structs.replace(settings, start_name_regexes=only)
    rows = annotation_rows(hosts, settings)
    views = msgspec.structs.replace(
        views,
        annotation=rows,
        unannotated_device_us=unannotated_us(hosts),
        missing=(
            *views.missing,
            *annotation_missing(hosts, rows, without_steps(profile)),
        ),
    )
    if meant is None or meant.op is None:
        return views
    detail, missing = annotation_detail(
        profile, hosts, meant.op, most_calls=options.most_calls
    )
    members = msgspec.structs.asdict(views)
    members |= {"view": ANNOTATION, "missing": (*views.missing, *missing)}
    return AnnotationDetailResult(**members, detail=detail)


def _count_inputs(work: ModelWork) -> dict[str, int]:
    counts = {}
    if not isinstance(work.host, Unavailable):
        counts["host_op_executions"] = len(work.host.event)
    if not isinstance(work.costs, Unavailable):
        counts["executions_with_operands"] = work.costs.recorded
    if work.device is not None:
        counts["device_activities"] = len(work.device.op)
    return counts
