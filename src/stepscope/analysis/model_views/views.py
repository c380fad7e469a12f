"""`model_views`: costs by name scope, by graph, by op and by line of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import polars as pl

from stepscope.analysis.model_views.columns import VIEW_ROWS
from stepscope.analysis.model_views.rows import view_rows
from stepscope.analysis.model_views.settings import Settings, settings_of
from stepscope.analysis.model_views.tree import NO_SOURCE, grown
from stepscope.analysis.ops.rows import NO_ACTIVITY, NO_OPS
from stepscope.analysis.options.model_views import Options
from stepscope.derive.model.view_names import VIEWS
from stepscope.derive.model.work import charges_of, model_charges, model_work
from stepscope.derive.ops.database import host_ops
from stepscope.derive.steps.chosen import steps
from stepscope.errors import BadUsage
from stepscope.remedies import RECORD_SHAPES
from stepscope.unavailable import Missing, Unavailable, present
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.derive.model.view_names import View
    from stepscope.derive.model.work import ModelWork
    from stepscope.derive.profile_data import ProfileData

__all__ = ["ModelViewsResult", "Options", "analyse"]


class ModelViewsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Four views of the same costs, over all selected hosts and devices.

    Attributes:
        view: Name of the view to show first.
        scope: Costs by name scope, or by module of the model; columns as far as
            selected, depth first. The roots' totals add up to all recorded time.
        graph: Costs by op, each op beneath the op that called it.
        op: Costs by op type.
        code: Costs by line of the program.
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
    total_us: float
    flops_known_percent: float | None
    settings: Settings
    step: int | None
    steps: dict[str, tuple[int, ...]] | None
    missing: tuple[Missing, ...]
    inputs: dict[str, dict[str, int]]


def analyse(profile: ProfileData, options: Options) -> ModelViewsResult | Unavailable:
    """Hang what ran into the four trees.

    Definition: docs/tools/model_views.md#the-views.
    """
    settings = settings_of(options)
    works: dict[str, ModelWork] = {}
    absent: list[Unavailable] = []
    for name in profile.hosts:
        work = profile.derived(name, model_work)
        if isinstance(work, Unavailable):
            absent.append(work)
        elif not work.sees_host(None) and not work.sees_device(None):
            absent.append(_why_nothing(profile, name))
        else:
            works[name] = work
    if not works:
        return absent[0] if absent else NO_OPS
    steps = _step_rows(profile, works, options)
    if isinstance(steps, Unavailable):
        return steps
    host = any(works[name].sees_host(rows) for name, rows in steps.items())
    device = any(works[name].sees_device(rows) for name, rows in steps.items())
    if not host and not device:
        first = works[next(iter(steps))]
        side = _why_no_device if first.sees_device(None) else _why_no_host
        return side(first, everything=not _chosen(options))
    frames: dict[View, pl.DataFrame] = {}
    spent = known = 0
    untold: dict[View, frozenset[str]] = {}
    charges = [
        present(profile.derived(name, model_charges))
        if rows is None and not settings.trainable_only
        else charges_of(works[name], rows, trainable_only=settings.trainable_only)
        for name, rows in steps.items()
    ]
    for view in VIEWS:
        hung = [of_host[view] for of_host in charges]
        tree = grown(hung, view, settings.account_type_regexes)
        frames[view] = view_rows(tree, settings, host=host, device=device)
        untold[view] = frozenset(
            column
            for column, metric in _TOLD_BY.items()
            if not tree.value(f"has_{metric}", total=False).any()
        )
        spent = int(tree.spent_ps(total=False).sum())
        known = int(tree.value("known_ps", total=False).sum())
    return ModelViewsResult(
        view=options.view,
        scope=frames["scope"],
        graph=frames["graph"],
        op=frames["op"],
        code=frames["code"],
        total_us=spent / PS_PER_US,
        flops_known_percent=100.0 * known / spent if spent else None,
        settings=settings,
        step=options.step,
        steps=_numbers(works, steps) if _chosen(options) else None,
        missing=tuple(
            _missing(
                profile,
                works,
                frames,
                untold=untold,
                spent=spent,
                settings=settings,
                everything=not _chosen(options),
            )
        ),
        inputs={name: _inputs(work) for name, work in works.items()},
    )


#: Column that may be unknown of a whole tree → the metric that decides it.
_TOLD_BY: Final = {
    "flops": "flops",
    "self_flops": "flops",
    "parameters": "parameters",
    "allocated_bytes": "allocated_bytes",
}
_NO_SHAPES: Final = Unavailable(
    code="NO_SHAPES",
    reason="for these ops the sizes of the operands were not recorded, or no formula "
    "is known.",
    remedy=RECORD_SHAPES,
)
_NO_VARIABLES: Final = Unavailable(
    code="NO_SHAPES",
    reason="the sizes of the variables that these nodes read are not known: that "
    "takes the modules of the model and the sizes of operands.",
    remedy="Record modules and shapes with the profiler of the framework where it can "
    "(`with_modules=True`, `record_shapes=True`).",
)
#: Type of the nodes of described variables.
_OF_TABLE: Final = frozenset({("scope", "parameters"), ("op", "parameters")})
_NOT_HERE: Final = Unavailable(
    code="NO_SAMPLES",
    reason="the model's description has no variable in these nodes, or not its sizes.",
    remedy="Look at the scopes that the variables are named after, or at the type "
    "`Variable`.",
)
_MAYBE_TRAINED: Final = Unavailable(
    code="NOT_RECORDED",
    reason="of some variables it is not known whether they are trained; they are "
    "counted.",
    remedy="Look at what the optimizer of the program is given.",
)
_NO_BYTES: Final = Unavailable(
    code="NO_ALLOCATOR_EVENTS",
    reason="no recorded allocation names an op of these nodes.",
    remedy="Record memory with the profiler of the framework where it can "
    "(`profile_memory=True`).",
)
_NO_LINES: Final = Unavailable(
    code="HOST_LEVEL",
    reason="for what is listed under (no source line) neither a line of the "
    "program nor the Python call around it was recorded.",
    remedy="Record with the Python tracer on (`python_tracer_level=1`, "
    "`with_stack=True`), or compile the step (`jit_compile=True`, `jax.jit`).",
)
_NO_TIME: Final = Unavailable(
    code="ZERO_DENOMINATOR",
    reason="these nodes took no time, so there is nothing to take a share of.",
    remedy="Nothing is wrong.",
)


def _why_nothing(profile: ProfileData, host: str) -> Unavailable:
    """Return why nothing is known to have run on a host."""
    why = profile.derived(host, host_ops)
    return why if isinstance(why, Unavailable) else NO_OPS


def _why_no_device(work: ModelWork, *, everything: bool) -> Unavailable:
    if isinstance(work.device_ops, Unavailable):
        return work.device_ops
    if not everything and isinstance(work.activity_steps, Unavailable):
        return work.activity_steps
    return NO_ACTIVITY


def _why_no_host(work: ModelWork, *, everything: bool) -> Unavailable:
    if isinstance(work.host, Unavailable):
        return work.host
    if not everything and isinstance(work.windows, Unavailable):
        return work.windows
    return NO_OPS


def _chosen(options: Options) -> bool:
    """Return whether only some steps are asked for."""
    wanted = (options.step, options.step_name, options.last_steps)
    return any(one is not None for one in wanted)


def _step_rows(
    profile: ProfileData, works: dict[str, ModelWork], options: Options
) -> dict[str, tuple[int, ...] | None] | Unavailable:
    """Return by host the rows of the steps asked for; None for everything.

    Raises:
        BadUsage: No host has such a step.
    """
    if not _chosen(options):
        return dict.fromkeys(works)
    if options.last_steps is not None and options.last_steps < 1:
        raise BadUsage(f"last_steps={options.last_steps} is no number of steps")
    marked = {name: _marked(profile, name) for name in works}
    if not any(marked.values()):
        why = profile.derived(next(iter(works)), steps)
        return why if isinstance(why, Unavailable) else NO_OPS
    found: dict[str, tuple[int, ...] | None] = {}
    for name, numbered in marked.items():
        rows = [
            row
            for row, (number, marker) in enumerate(numbered)
            if options.step in {None, number} and options.step_name in {None, marker}
        ]
        if rows:
            found[name] = tuple(rows[-(options.last_steps or len(rows)) :])
    if found:
        return found
    raise BadUsage(_no_such_step(options, marked))


def _no_such_step(
    options: Options, marked: dict[str, list[tuple[int, str | None]]]
) -> str:
    every = [step for steps in marked.values() for step in steps]
    if options.step_name is not None:
        names = sorted({marker for _, marker in every if marker is not None})
        listed = ", ".join(names) or "none; the steps were inferred"
        return f"no step is marked {options.step_name!r}; marks: {listed}"
    numbers = sorted(number for number, _ in every)
    return f"there is no step {options.step}; there are {numbers[0]} to {numbers[-1]}"


def _marked(profile: ProfileData, host: str) -> list[tuple[int, str | None]]:
    """Number and marker of each step of a host."""
    of_host = profile.derived(host, steps)
    if isinstance(of_host, Unavailable):
        return []
    found: list[tuple[int, str | None]] = of_host.rows.select("step", "marker").rows()
    return found


def _numbers(
    works: dict[str, ModelWork], steps: dict[str, tuple[int, ...] | None]
) -> dict[str, tuple[int, ...]]:
    """Return numbers of the steps that were chosen, by host."""
    return {
        name: tuple(works[name].step_numbers[row] for row in rows or ())
        for name, rows in steps.items()
    }


def _missing(
    profile: ProfileData,
    works: dict[str, ModelWork],
    frames: dict[View, pl.DataFrame],
    *,
    untold: dict[View, frozenset[str]],
    spent: int,
    settings: Settings,
    everything: bool,
) -> list[Missing]:
    """Explain each column with nulls, and each host that was left out."""
    first = next(iter(works.values()))
    allocations = first.allocations
    reasons = {
        "percent": _NO_TIME,
        **dict.fromkeys(
            ("host_us", "total_host_us"), _why_no_host(first, everything=everything)
        ),
        **dict.fromkeys(
            ("device_us", "total_device_us"),
            _why_no_device(first, everything=everything),
        ),
        **dict.fromkeys(("flops", "self_flops"), _NO_SHAPES),
        "flops_known_percent": _NO_TIME,
        "parameters": _NO_VARIABLES,
        "allocated_bytes": allocations
        if isinstance(allocations, Unavailable)
        else _NO_BYTES,
    }
    described = [
        work.parameters
        for work in works.values()
        if not isinstance(work.parameters, Unavailable)
    ]
    found = [
        (_NOT_HERE if described and (view, column) in _OF_TABLE else why).for_field(
            f"{view}.{column}"
        )
        for view, frame in frames.items()
        for column, why in reasons.items()
        if column in frame.columns
        # Where a threshold of what is not known leaves no node, there is no null.
        and (frame[column].null_count() or column in untold[view])
    ]
    if settings.trainable_only and any(
        table["trainable"].null_count() for table in described
    ):
        found.append(_MAYBE_TRAINED.for_field("scope.parameters[trainable]"))
    if not spent:
        found.append(_NO_TIME.for_field("flops_known_percent"))
    if NO_SOURCE in frames["code"]["name"].to_list():
        found.append(_NO_LINES.for_field("code"))
    for name in profile.hosts:
        if name not in works:
            work = profile.derived(name, model_work)
            why = work if isinstance(work, Unavailable) else _why_nothing(profile, name)
            found.append(why.for_field(f"hosts.{name}"))
    return found


def _inputs(work: ModelWork) -> dict[str, int]:
    found = {}
    if not isinstance(work.host, Unavailable):
        found["host_op_executions"] = len(work.host.event)
    if not isinstance(work.costs, Unavailable):
        found["executions_with_operands"] = work.costs.recorded
    if work.device is not None:
        found["device_activities"] = len(work.device.op)
    return found
