"""Reasons why columns of the views, and hosts, have no values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.analysis.model_views.tree import NO_SOURCE
from stepscope.analysis.ops.rows import NO_ACTIVITY, NO_OPS
from stepscope.analysis.results.tables import package_reasons
from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.model.work import SIDES, Side
from stepscope.derive.ops.database import host_ops
from stepscope.unavailable import Missing, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from stepscope.analysis.model_views.settings import Settings
    from stepscope.analysis.model_views.source_rows import SourceView
    from stepscope.analysis.model_views.tree import Tree
    from stepscope.derive.model.view_names import View
    from stepscope.derive.model.work import ModelWork
    from stepscope.derive.profile_data import ProfileData

_WHY: Final = package_reasons("model_views")

#: Column that can be unknown in the whole tree → metric that counts its known values.
_DECIDED_BY: Final = {
    "flops": "has_flops",
    "self_flops": "has_flops",
    "parameters": "has_parameters",
    "allocated_bytes": "has_allocated_bytes",
}


def why_no_ops(profile: ProfileData, host: str) -> Unavailable:
    """Return why no op is known to have run on a host."""
    why = profile.derived(host, host_ops)
    return why if isinstance(why, Unavailable) else NO_OPS


def why_nothing(
    profile: ProfileData,
    works: Mapping[str, ModelWork],
    ran: Mapping[str, Sequence[int] | None],
    *,
    everything: bool,
) -> Unavailable:
    """Return why no work on hosts or devices in the chosen steps is known."""
    if not ran:
        return why_no_ops(profile, profile.hosts[0])
    first = works[next(iter(ran))]
    side: Side = "device" if first.shows_side("device", None) else "host"
    return _why_no_side(first, side, everything=everything)


def _why_no_side(work: ModelWork, side: Side, *, everything: bool) -> Unavailable:
    """Return why work on hosts or on devices is unknown, overall or in some steps."""
    recorded, in_steps = work.runs_and_steps(side)
    if isinstance(recorded, Unavailable):
        return recorded
    if not everything and isinstance(in_steps, Unavailable):
        return in_steps
    return NO_ACTIVITY if side == "device" else NO_OPS


def missing_of_trees(
    works: Mapping[str, ModelWork],
    trees: Mapping[View, Tree],
    frames: Mapping[View, pl.DataFrame],
    settings: Settings,
    *,
    everything: bool,
) -> list[Missing]:
    """Return the reason for each column with nulls."""
    no_time = _WHY["no_time_of_nodes"].missing_field("flops_known_percent")
    if not works:
        # The entries of the hosts contain the reason.
        return [no_time]
    first = next(iter(works.values()))
    reasons = {
        "percent": _WHY["no_time_of_nodes"],
        **{
            column: _why_no_side(first, side, everything=everything)
            for side in SIDES
            for column in (f"{side}_us", f"total_{side}_us")
        },
        **dict.fromkeys(("flops", "self_flops"), _WHY["no_shapes"]),
        "flops_known_percent": _WHY["no_time_of_nodes"],
        "parameters": _WHY["no_variables"],
        "allocated_bytes": first.allocations
        if isinstance(first.allocations, Unavailable)
        else _WHY["no_bytes"],
    }
    described = [
        work.parameters
        for work in works.values()
        if not isinstance(work.parameters, Unavailable)
    ]
    missing = []
    for view, frame in frames.items():
        for column, why in reasons.items():
            if column not in frame.columns:
                continue
            metric = _DECIDED_BY.get(column)
            # A threshold on an unknown metric can remove all nodes, and thus all nulls.
            unknown = (
                metric and not trees[view].metric_values(metric, total=False).any()
            )
            if frame[column].null_count() or unknown:
                not_here = (
                    described and column == "parameters" and view in {"scope", "op"}
                )
                reason = _WHY["not_here"] if not_here else why
                missing.append(reason.missing_field(f"{view}.{column}"))
    if settings.trainable_only and any(
        table["trainable"].null_count() for table in described
    ):
        missing.append(
            _WHY["maybe_trained"].missing_field("scope.parameters[trainable]")
        )
    if not trees["code"].metric_values("spent_ps", total=False).any():
        missing.append(no_time)
    if NO_SOURCE in frames["code"]["name"].to_list():
        missing.append(_WHY["no_lines"].missing_field("code"))
    return missing


def missing_lines(
    profile: ProfileData,
    works: Mapping[str, ModelWork],
    source: SourceView,
    *,
    everything: bool,
) -> list[Missing]:
    """Return the reason for each null column of the program lines."""
    first = next(iter(works.values()), None)
    why = profile.derived(profile.hosts[0], activity_ops)
    otherwise = why if isinstance(why, Unavailable) else NO_ACTIVITY
    missing = []
    for side in SIDES:
        if getattr(source, side) or not source.rows.height:
            continue
        reason = otherwise
        if first is not None:
            reason = _why_no_side(first, side, everything=everything)
        if side == "device" and source.rows["device_us"].count():
            reason = _WHY["no_launches"]
        missing += [
            reason.missing_field(f"source.{column}")
            for column in (f"{side}_us", f"total_{side}_us")
        ]
    if not source.some or NO_SOURCE in source.rows["name"].to_list():
        missing.append(_WHY["no_lines"].missing_field("source"))
    return missing
