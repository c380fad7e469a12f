"""Why columns of the views, and hosts, have no values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.analysis.model_views.tree import NO_SOURCE
from stepscope.analysis.ops.rows import NO_ACTIVITY, NO_OPS
from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.ops.database import host_ops
from stepscope.remedies import Remedy
from stepscope.unavailable import Missing, Unavailable

if TYPE_CHECKING:
    import polars as pl

    from stepscope.analysis.model_views.settings import Settings
    from stepscope.analysis.model_views.source_rows import SourceView
    from stepscope.derive.model.view_names import View
    from stepscope.derive.model.work import ModelWork
    from stepscope.derive.profile_data import ProfileData

#: Column that may be unknown of a whole tree → the metric that decides it.
TOLD_BY: Final = {
    "flops": "flops",
    "self_flops": "flops",
    "parameters": "parameters",
    "allocated_bytes": "allocated_bytes",
}
_NO_SHAPES: Final = Unavailable(
    code="NO_SHAPES",
    reason="for these ops the sizes of the operands were not recorded, or no formula "
    "is known.",
    remedy=Remedy.RECORD_SHAPES,
)
_NO_VARIABLES: Final = Unavailable(
    code="NO_SHAPES",
    reason="the sizes of the variables that these nodes read are not known: that "
    "takes the modules of the model and the sizes of operands.",
    remedy=Remedy.RECORD_MODULES_AND_SHAPES,
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
    remedy=Remedy.RECORD_OP_MEMORY,
)
_NO_LINES: Final = Unavailable(
    code="HOST_LEVEL",
    reason="for what is listed under (no source line) neither a line of the "
    "program nor the Python call around it was recorded.",
    remedy=Remedy.RECORD_LINES,
)
_NO_LAUNCHES: Final = Unavailable(
    code="NOT_RECORDED",
    reason="no call that launches work on a device was recorded, so it is not known "
    "which function launched it.",
    remedy=Remedy.RECORD_LAUNCHES,
)
_NO_TIME: Final = Unavailable(
    code="ZERO_DENOMINATOR",
    reason="these nodes took no time, so there is nothing to take a share of.",
    remedy="Nothing is wrong.",
)


def why_nothing(profile: ProfileData, host: str) -> Unavailable:
    """Return why nothing is known to have run on a host."""
    why = profile.derived(host, host_ops)
    return why if isinstance(why, Unavailable) else NO_OPS


def why_no_device(work: ModelWork, *, everything: bool) -> Unavailable:
    """Return why nothing is known of devices, in all of it or in some steps."""
    if isinstance(work.device_ops, Unavailable):
        return work.device_ops
    if not everything and isinstance(work.activity_steps, Unavailable):
        return work.activity_steps
    return NO_ACTIVITY


def why_no_host(work: ModelWork, *, everything: bool) -> Unavailable:
    """Return why nothing is known of the host, in all of it or in some steps."""
    if isinstance(work.host, Unavailable):
        return work.host
    if not everything and isinstance(work.windows, Unavailable):
        return work.windows
    return NO_OPS


def missing_fields(
    works: dict[str, ModelWork],
    frames: dict[View, pl.DataFrame],
    *,
    untold: dict[View, frozenset[str]],
    spent: int,
    settings: Settings,
    everything: bool,
) -> list[Missing]:
    """Explain each column with nulls."""
    if not works:
        # The reason stands by the hosts.
        return [_NO_TIME.for_field("flops_known_percent")]
    first = next(iter(works.values()))
    allocations = first.allocations
    reasons = {
        "percent": _NO_TIME,
        **dict.fromkeys(
            ("host_us", "total_host_us"), why_no_host(first, everything=everything)
        ),
        **dict.fromkeys(
            ("device_us", "total_device_us"),
            why_no_device(first, everything=everything),
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
    return found


def missing_lines(
    profile: ProfileData,
    works: dict[str, ModelWork],
    source: SourceView,
    *,
    everything: bool,
) -> list[Missing]:
    """Explain each column of the lines with nulls that are not explained by a row."""
    first = next(iter(works.values()), None)
    otherwise = profile.derived(profile.hosts[0], activity_ops)
    if not isinstance(otherwise, Unavailable):
        otherwise = NO_ACTIVITY
    found = []
    for side, known, why in (
        ("host", source.host, why_no_host),
        ("device", source.device, why_no_device),
    ):
        if known or not source.rows.height:
            continue
        reason = otherwise if first is None else why(first, everything=everything)
        if side == "device" and source.rows["device_us"].count():
            reason = _NO_LAUNCHES
        found += [
            reason.for_field(f"source.{column}")
            for column in (f"{side}_us", f"total_{side}_us")
        ]
    if not source.some or NO_SOURCE in source.rows["name"].to_list():
        found.append(_NO_LINES.for_field("source"))
    return found
