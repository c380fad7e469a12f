"""Why columns of the views, and hosts, have no values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.analysis.model_views.tree import NO_SOURCE
from stepscope.analysis.ops.rows import NO_ACTIVITY, NO_OPS
from stepscope.analysis.results.tables import room_reasons
from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.ops.database import host_ops
from stepscope.unavailable import Missing, Unavailable

if TYPE_CHECKING:
    import polars as pl

    from stepscope.analysis.model_views.settings import Settings
    from stepscope.analysis.model_views.source_rows import SourceView
    from stepscope.derive.model.view_names import View
    from stepscope.derive.model.work import ModelWork
    from stepscope.derive.profile_data import ProfileData

_WHY: Final = room_reasons("model_views")

#: Column that may be unknown of a whole tree → the metric that decides it.
TOLD_BY: Final = {
    "flops": "flops",
    "self_flops": "flops",
    "parameters": "parameters",
    "allocated_bytes": "allocated_bytes",
}
#: Type of the nodes of described variables.
_OF_TABLE: Final = frozenset({("scope", "parameters"), ("op", "parameters")})


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
        return [_WHY["no_time_of_nodes"].for_field("flops_known_percent")]
    first = next(iter(works.values()))
    allocations = first.allocations
    reasons = {
        "percent": _WHY["no_time_of_nodes"],
        **dict.fromkeys(
            ("host_us", "total_host_us"), why_no_host(first, everything=everything)
        ),
        **dict.fromkeys(
            ("device_us", "total_device_us"),
            why_no_device(first, everything=everything),
        ),
        **dict.fromkeys(("flops", "self_flops"), _WHY["no_shapes"]),
        "flops_known_percent": _WHY["no_time_of_nodes"],
        "parameters": _WHY["no_variables"],
        "allocated_bytes": allocations
        if isinstance(allocations, Unavailable)
        else _WHY["no_bytes"],
    }
    described = [
        work.parameters
        for work in works.values()
        if not isinstance(work.parameters, Unavailable)
    ]
    found = [
        (
            _WHY["not_here"] if described and (view, column) in _OF_TABLE else why
        ).for_field(f"{view}.{column}")
        for view, frame in frames.items()
        for column, why in reasons.items()
        if column in frame.columns
        # Where a threshold of what is not known leaves no node, there is no null.
        and (frame[column].null_count() or column in untold[view])
    ]
    if settings.trainable_only and any(
        table["trainable"].null_count() for table in described
    ):
        found.append(_WHY["maybe_trained"].for_field("scope.parameters[trainable]"))
    if not spent:
        found.append(_WHY["no_time_of_nodes"].for_field("flops_known_percent"))
    if NO_SOURCE in frames["code"]["name"].to_list():
        found.append(_WHY["no_lines"].for_field("code"))
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
            reason = _WHY["no_launches"]
        found += [
            reason.for_field(f"source.{column}")
            for column in (f"{side}_us", f"total_{side}_us")
        ]
    if not source.some or NO_SOURCE in source.rows["name"].to_list():
        found.append(_WHY["no_lines"].for_field("source"))
    return found
