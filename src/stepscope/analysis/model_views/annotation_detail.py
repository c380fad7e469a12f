"""Details of one annotation: its calls, its steps, and the work inside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.results.tables import (
    declared_rows,
    package_reasons,
    sum_of_known,
    tool_tables,
)
from stepscope.derive.columns.arrays import handles
from stepscope.derive.host.op_events import host_op_events
from stepscope.derive.model.annotation_calls import add_inner_calls
from stepscope.derive.model.call_trees import inherit_labels
from stepscope.trace.reading.by_row import values_by_row
from stepscope.unavailable import Missing, Unavailable, require_available
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.model_views.annotation_rows import AnnotatedHost
    from stepscope.array_types import Bools
    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.schema import TableSchema

_WHY: Final = package_reasons("model_views")

_TABLES: Final = tool_tables("model_views")
ANNOTATION_CALLS: Final = _TABLES["calls"]
ANNOTATION_STEPS: Final = _TABLES["by_step"]
ANNOTATION_OPS: Final = _TABLES["ops"]
ANNOTATION_KERNELS: Final = _TABLES["kernels"]


class AnnotationDetail(msgspec.Struct, frozen=True, kw_only=True):
    """An annotation and the work inside its calls, over all its positions in the tree.

    A call inside another call of the same name is listed, but its time counts once.

    Attributes:
        name: Name of the annotation.
        call_count: Number of calls, listed or not.
        host_us: Host time of all calls.
        device_us: Total time of the device work that the calls launched; null if
            launches are unknown.
        launches: Number of launch calls in the calls whose device work was recorded;
            null if launches are unknown.
        calls: The calls with the most host time.
        by_step: The calls by step; null if no call began in a step.
        ops: Ops inside the calls, on the call's thread; null if no op was recorded.
        kernels: Device work that the calls launched, by name; null if unknown.
    """

    name: str
    call_count: int
    host_us: float
    device_us: float | None
    launches: int | None
    calls: Annotated[pl.DataFrame, ANNOTATION_CALLS]
    by_step: Annotated[pl.DataFrame, ANNOTATION_STEPS] | None
    ops: Annotated[pl.DataFrame, ANNOTATION_OPS] | None
    kernels: Annotated[pl.DataFrame, ANNOTATION_KERNELS] | None


def annotation_detail(
    profile: ProfileData,
    hosts: Sequence[AnnotatedHost],
    name: str,
    *,
    most_calls: int | None,
) -> tuple[AnnotationDetail, list[Missing]]:
    """Compute the details of one annotation, and list which values are missing.

    Args:
        hosts: Hosts with annotations; at least one has the annotation `name`.
        most_calls: Maximum number of calls to list; None lists all.
    """
    # By call: whether the call has the wanted name or is inside a call with that name.
    # The last entry, at index -1, is for calls without a parent.
    inside = []
    for host in hosts:
        chosen = host.calls.calls_named(name) & host.chosen
        label = np.where(chosen, 0, -1).astype(np.int32)
        lies_in = inherit_labels(host.calls.parent, label) >= 0
        inside.append(np.append(lies_in, False))
    calls = pl.concat(
        [
            _calls_of_host(profile, host, name, within)
            for host, within in zip(hosts, inside, strict=True)
        ]
    )
    outermost = calls.filter("outermost")
    missing: list[Missing] = []
    unknown = [host.work for host in hosts if isinstance(host.work, Unavailable)]
    launched = outermost["device_ps"].count() > 0
    if not launched and unknown:
        missing += [
            unknown[0].missing_field(f"detail.{field}")
            for field in ("device_us", "launches", "kernels", "calls.device_us")
        ]
    by_step = (
        outermost.drop_nulls("step")
        .sort("host", "start_ps")
        .group_by("host", "step", maintain_order=True)
        .agg(
            pl.len().alias("occurrences"),
            *map(sum_of_known, ("host_ps", "device_ps", "launches")),
        )
    )
    if by_step.is_empty():
        missing.append(_WHY["no_step"].missing_field("detail.by_step"))
    ops = _ops_inside(profile, hosts, inside)
    if isinstance(ops, Unavailable):
        missing.append(ops.missing_field("detail.ops"))
    longest = calls.sort(
        *("host_ps", "start_ps", "host", "row"), descending=[True, False, False, False]
    ).head(len(calls) if most_calls is None else most_calls)
    detail = AnnotationDetail(
        name=name,
        call_count=len(calls),
        host_us=int(outermost["host_ps"].sum()) / PS_PER_US,
        device_us=int(outermost["device_ps"].sum()) / PS_PER_US if launched else None,
        launches=int(outermost["launches"].sum()) if launched else None,
        calls=declared_rows(longest.with_row_index("rank", offset=1), ANNOTATION_CALLS),
        by_step=None
        if by_step.is_empty()
        else declared_rows(by_step, ANNOTATION_STEPS),
        ops=None if isinstance(ops, Unavailable) else ops,
        kernels=_kernels_inside(profile, hosts, inside) if launched else None,
    )
    return detail, missing


def _calls_of_host(
    profile: ProfileData, host: AnnotatedHost, name: str, inside: Bools
) -> pl.DataFrame:
    """Return the calls of one name; `row` is the index of the call, times are in ps."""
    calls = host.calls
    rows = np.flatnonzero(calls.calls_named(name) & host.chosen)
    events = require_available(profile.table(host.host, "events"))
    threads = require_available(profile.table(host.host, "tracks"))["name"]
    number: dict[int, int] = {}
    if host.step_rows is not None:
        number = dict(host.step_rows.select("row", "step").iter_rows())
    known = isinstance(host.work, pl.DataFrame)
    return pl.DataFrame(
        {
            "host": pl.Series([host.host] * len(rows), dtype=pl.String),
            "thread": threads.gather(
                values_by_row(handles(events, "track"), calls.event[rows])
            ),
            "row": pl.Series(rows, dtype=pl.Int64),
            "step": pl.Series(
                map(number.get, calls.step[rows].tolist()), dtype=pl.Int64
            ),
            "start_ps": calls.start_ps[rows],
            "host_ps": calls.dur_ps[rows],
            "host_self_ps": calls.self_ps[rows],
            **{
                column: pl.Series(
                    add_inner_calls(own, calls)[rows] if known else [None] * len(rows),
                    dtype=pl.Int64,
                )
                for column, own in (
                    ("device_ps", host.device_ps),
                    ("launches", host.launches),
                )
            },
            "outermost": ~inside[calls.parent[rows]],
        }
    )


def _ops_inside(
    profile: ProfileData, hosts: Sequence[AnnotatedHost], inside: list[Bools]
) -> pl.DataFrame | Unavailable:
    parts = []
    why = _WHY["no_ops_inside"]
    for host, within in zip(hosts, inside, strict=True):
        ran = profile.derived(host.host, host_op_events)
        if isinstance(ran, Unavailable):
            why = ran
            continue
        rows = np.flatnonzero(within[host.calls.of_event[ran.event]])
        named = ran.ops.select(
            name=pl.coalesce("framework_op", "name"),
            type=pl.coalesce("framework_type", "type"),
        )
        self_ps = pl.Series("host_self_ps", ran.self_ps[rows], pl.Int64)
        parts.append(named[ran.op[rows]].with_columns(self_ps))
    if not parts:
        return why
    return _sum_by_name(parts, ("name", "type"), "host_self_ps", ANNOTATION_OPS)


def _kernels_inside(
    profile: ProfileData, hosts: Sequence[AnnotatedHost], inside: list[Bools]
) -> pl.DataFrame:
    parts = []
    for host, within in zip(hosts, inside, strict=True):
        if isinstance(host.work, Unavailable):
            continue
        rows = np.flatnonzero(within[handles(host.work, "call")])
        activity = require_available(profile.table(host.host, "device_activity"))[rows]
        names = require_available(profile.table(host.host, "event_types"))["name"]
        parts.append(
            activity.select(
                pl.col("kind").cast(pl.String),
                name=names.gather(handles(activity, "type")),
                total_ps="dur_ps",
            )
        )
    return _sum_by_name(parts, ("name", "kind"), "total_ps", ANNOTATION_KERNELS)


def _sum_by_name(
    parts: list[pl.DataFrame], key: tuple[str, str], time: str, table: TableSchema
) -> pl.DataFrame:
    """Group rows by a key with a name; count them and add up a time; longest first."""
    summed = (
        pl.concat(parts)
        .group_by(key)
        .agg(pl.len().alias("occurrences"), pl.col(time).sum())
        .sort(time, *key, descending=[True, False, False])
    )
    return declared_rows(summed, table)
