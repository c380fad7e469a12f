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
    annotated,
    annotation_missing,
    annotation_rows,
    unannotated_ps,
)
from stepscope.analysis.model_views.reasons import (
    TOLD_BY,
    missing_fields,
    missing_lines,
    why_no_device,
    why_no_host,
    why_nothing,
)
from stepscope.analysis.model_views.rows import VIEW_ROWS, view_rows
from stepscope.analysis.model_views.settings import (
    Settings,
    settings_of,
    some_steps,
    step_numbers,
    step_rows,
)
from stepscope.analysis.model_views.source_rows import (
    SOURCE_ROWS,
    source_view,
    with_functions,
)
from stepscope.analysis.model_views.tree import grown
from stepscope.analysis.ops.rows import NO_OPS, without_steps
from stepscope.analysis.ops.selection import select_ops
from stepscope.derive.model.annotation_calls import annotation_calls
from stepscope.derive.model.source_lines import source_lines
from stepscope.derive.model.view_names import ANNOTATION, SOURCE, VIEWS
from stepscope.derive.model.work import charges_of, model_charges, model_work
from stepscope.unavailable import Missing, Unavailable, present
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.analysis.options import ModelViewsOptions
    from stepscope.derive.model.view_names import View
    from stepscope.derive.model.work import ModelWork
    from stepscope.derive.profile_data import ProfileData

#: What is asked of each host for the options as they are.
NEEDS: Final = (annotation_calls, model_charges, source_lines)


class ModelViewsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Views of the same costs, over all selected hosts and devices.

    Attributes:
        view: Name of the view to show first.
        scope: Costs by name scope, or by module of the model; columns as far as
            selected, depth first. The roots' totals add up to all recorded time.
        graph: Costs by op, each op beneath the op that called it.
        op: Costs by op type.
        code: Costs by line of the program, each beneath the function that called it.
        source: Time by line of the program, in one list; its self times add up to the
            time in which threads ran ops or functions, and to that of all device work.
        annotation: Time in the ranges that the program named, each inside the range
            around it on its thread, and of the device work that was launched there.
        unannotated_device_us: Time of the device work that was launched in none of
            these ranges, in all of the recording; null where launches are not known.
        total_us: Time of everything that was accounted, on hosts and devices.
        flops_known_percent: Share of the total time taken by ops with known operations;
            null where no time was recorded.
        settings: The options as they were decided.
        step: Number of the step that is shown; null for all of the recording, and where
            several are asked for.
        steps: Numbers of the steps that are shown, by host; null for all of the
            recording.
        missing: Columns that hold nulls, with the reasons.
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
    """The views, of which `annotation` shows one annotation, and that one closely.

    Attributes:
        detail: The annotation that was asked for.
    """

    detail: AnnotationDetail


def analyse(
    profile: ProfileData, options: ModelViewsOptions
) -> ModelViewsResult | Unavailable:
    """Hang what ran into the trees.

    Definition: docs/tools/model_views.md#the-views.

    Raises:
        BadUsage: There is no such step or annotation as was asked for.
    """
    settings = settings_of(options)
    works, absent = _works(profile)
    named = _with_annotations(profile)
    if options.op is not None and not named:
        return _no_annotation(profile)
    lined = with_functions(profile)
    if not works and not named and not lined:
        return next(iter(absent.values()), NO_OPS)
    known = works.keys() | named | lined
    seen = [name for name in profile.hosts if name in known]
    chosen = step_rows(profile, seen, options)
    if isinstance(chosen, Unavailable):
        return chosen
    everything = not some_steps(options)
    ran = {name: rows for name, rows in chosen.items() if name in works}
    host = any(works[name].sees_host(rows) for name, rows in ran.items())
    device = any(works[name].sees_device(rows) for name, rows in ran.items())
    nothing = None
    if not host and not device:
        nothing = _why_nothing_ran(profile, works, ran, everything=everything)
        if not named and not lined:
            return nothing
    frames: dict[View, pl.DataFrame] = {}
    spent = with_flops = 0
    untold: dict[View, frozenset[str]] = {}
    charges = [
        present(profile.derived(name, model_charges))
        if rows is None and not settings.trainable_only
        else charges_of(works[name], rows, trainable_only=settings.trainable_only)
        for name, rows in ran.items()
    ]
    for view in VIEWS:
        hung = [of_host[view] for of_host in charges]
        tree = grown(hung, view, settings.account_type_regexes)
        frames[view] = view_rows(tree, settings, host=host, device=device)
        untold[view] = frozenset(
            column
            for column, metric in TOLD_BY.items()
            if not tree.value(f"has_{metric}", total=False).any()
        )
        spent = int(tree.spent_ps(total=False).sum())
        with_flops = int(tree.value("known_ps", total=False).sum())
    missing = missing_fields(
        *(works, frames),
        untold=untold,
        spent=spent,
        settings=settings,
        everything=everything,
    )
    source = source_view(profile, chosen, settings)
    missing += missing_lines(profile, works, source, everything=everything)
    without = [absent[name].for_field(f"hosts.{name}") for name in absent]
    if nothing is not None:
        without += [nothing.for_field(view) for view in VIEWS]
    views = ModelViewsResult(
        view=_first(options, nothing, named),
        **frames,
        source=source.rows,
        annotation=pl.DataFrame(schema=ANNOTATION_ROWS.dtypes()),
        unannotated_device_us=None,
        total_us=spent / PS_PER_US,
        flops_known_percent=100.0 * with_flops / spent if spent else None,
        settings=settings,
        step=options.step,
        steps=None if everything else step_numbers(profile, chosen),
        missing=(*missing, *without),
        inputs={name: _inputs(work) for name, work in works.items()},
    )
    return _with_annotation(profile, views, chosen, options)


def _first(
    options: ModelViewsOptions, nothing: Unavailable | None, named: frozenset[str]
) -> str:
    """Return the view to show first: another one where what was asked for is empty."""
    if nothing is None or options.view != VIEWS[0]:
        return options.view
    return ANNOTATION if named else SOURCE


def _works(
    profile: ProfileData,
) -> tuple[dict[str, ModelWork], dict[str, Unavailable]]:
    """Return what ran on each host, and why nothing is known of the others."""
    works: dict[str, ModelWork] = {}
    absent: dict[str, Unavailable] = {}
    for name in profile.hosts:
        work = profile.derived(name, model_work)
        if isinstance(work, Unavailable):
            absent[name] = work
        elif not work.sees_host(None) and not work.sees_device(None):
            absent[name] = why_nothing(profile, name)
        else:
            works[name] = work
    return works, absent


def _why_nothing_ran(
    profile: ProfileData,
    works: dict[str, ModelWork],
    ran: dict[str, tuple[int, ...] | None],
    *,
    everything: bool,
) -> Unavailable:
    """Return why neither a host nor a device shows what ran, in the steps chosen."""
    if not ran:
        return why_nothing(profile, profile.hosts[0])
    first = works[next(iter(ran))]
    side = why_no_device if first.sees_device(None) else why_no_host
    return side(first, everything=everything)


def _with_annotations(profile: ProfileData) -> frozenset[str]:
    return frozenset(
        name
        for name in profile.hosts
        if not isinstance(profile.derived(name, annotation_calls), Unavailable)
    )


def _no_annotation(profile: ProfileData) -> Unavailable:
    why = profile.derived(profile.hosts[0], annotation_calls)
    return why if isinstance(why, Unavailable) else NO_OPS


def _with_annotation(
    profile: ProfileData,
    views: ModelViewsResult,
    chosen: dict[str, tuple[int, ...] | None],
    options: ModelViewsOptions,
) -> ModelViewsResult:
    """Add the named ranges, and one of them closely where it was asked for."""
    looked = [annotated(profile, name, rows) for name, rows in chosen.items()]
    hosts = [one for one in looked if not isinstance(one, Unavailable)]
    if not hosts:
        why = _no_annotation(profile)
        without = [
            why.for_field(name) for name in ("annotation", "unannotated_device_us")
        ]
        return msgspec.structs.replace(views, missing=(*views.missing, *without))
    known = [name for one in hosts for name in one.found.names]
    meant = select_ops(options.op, None, known, what="annotation")
    settings = views.settings
    if meant is not None and meant.op is not None:
        only = (re.escape(meant.op),)
        settings = msgspec.structs.replace(settings, start_name_regexes=only)
    rows = annotation_rows(hosts, settings)
    outside = unannotated_ps(hosts)
    missing = (*views.missing, *annotation_missing(hosts, rows, without_steps(profile)))
    views = msgspec.structs.replace(
        views,
        annotation=rows,
        unannotated_device_us=None if outside is None else outside / PS_PER_US,
        missing=missing,
    )
    if meant is None or meant.op is None:
        return views
    detail, of_detail = annotation_detail(
        profile, hosts, meant.op, most_calls=options.most_calls
    )
    whole = {
        **msgspec.structs.asdict(views),
        "view": ANNOTATION,
        "missing": (*missing, *of_detail),
    }
    return AnnotationDetailResult(**whole, detail=detail)


def _inputs(work: ModelWork) -> dict[str, int]:
    found = {}
    if not isinstance(work.host, Unavailable):
        found["host_op_executions"] = len(work.host.event)
    if not isinstance(work.costs, Unavailable):
        found["executions_with_operands"] = work.costs.recorded
    if work.device is not None:
        found["device_activities"] = len(work.device.op)
    return found
