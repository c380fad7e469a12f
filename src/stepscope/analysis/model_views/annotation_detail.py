"""One annotation closely: its calls, its steps, and what ran inside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import numpy as np
import polars as pl

from stepscope._core.nesting import inherit
from stepscope.analysis.results.tables import room_reasons, sum_of_known, tables_of
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.host.op_events import host_op_events
from stepscope.derive.model.annotation_calls import added_up
from stepscope.frozen import Frozen
from stepscope.unavailable import Missing, Unavailable, present
from stepscope.units import PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.analysis.model_views.annotation_rows import (
        Annotated as AnnotatedHost,
    )
    from stepscope.derive.profile_data import ProfileData

_WHY: Final = room_reasons("model_views")

_TABLES: Final = tables_of("model_views")
ANNOTATION_CALLS: Final = _TABLES["calls"]
ANNOTATION_STEPS: Final = _TABLES["by_step"]
ANNOTATION_OPS: Final = _TABLES["ops"]
ANNOTATION_KERNELS: Final = _TABLES["kernels"]


class AnnotationDetail(msgspec.Struct, frozen=True, kw_only=True):
    """An annotation and what its calls hold, over all places where it stands.

    Where a call holds another call of the same name, the inner one is listed, and its
    time counts once.

    Attributes:
        name: Name of the annotation.
        call_count: Number of calls, listed or not.
        host_us: Host time of all calls.
        device_us: Sum of the times of the device work that was launched in them; null
            where launches are not known.
        launches: Number of their launch calls whose work on a device was recorded; null
            where launches are not known.
        calls: The calls with most host time.
        by_step: The calls by step; null where no call began in a step.
        ops: Ops that ran inside the calls on the thread of the call; null where no op
            was recorded.
        kernels: What the calls launched, by name; null where launches are not known.
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
    """Look closely at one annotation; and say what cannot be told of it.

    Args:
        hosts: Hosts with annotations; one of them has it.
        most_calls: How many calls to list at most; all where it is None.
    """
    of_hosts = [_calls_of(profile, one, name) for one in hosts]
    calls = pl.concat([one.calls for one in of_hosts])
    outermost = calls.filter("outermost")
    missing: list[Missing] = []
    unknown = next(
        (one.work for one in hosts if isinstance(one.work, Unavailable)), None
    )
    launched = outermost["device_ps"].count() > 0
    if not launched and unknown is not None:
        fields = ("device_us", "launches", "kernels", "calls.device_us")
        missing += [unknown.for_field(f"detail.{field}") for field in fields]
    by_step = _by_step(outermost)
    if by_step is None:
        missing.append(_WHY["no_step"].for_field("detail.by_step"))
    ops = _ops(profile, hosts, of_hosts)
    if isinstance(ops, Unavailable):
        missing.append(ops.for_field("detail.ops"))
    found = AnnotationDetail(
        name=name,
        call_count=len(calls),
        host_us=int(outermost["host_ps"].sum()) / PS_PER_US,
        device_us=int(outermost["device_ps"].sum()) / PS_PER_US if launched else None,
        launches=int(outermost["launches"].sum()) if launched else None,
        calls=_listed(calls, most_calls),
        by_step=by_step,
        ops=None if isinstance(ops, Unavailable) else ops,
        kernels=_kernels(profile, hosts, of_hosts) if launched else None,
    )
    return found, missing


class _Calls(Frozen, frozen=True):
    """The calls of one name on one host.

    Attributes:
        calls: `host`, `thread`, `step`, `start_ps`, `host_ps`, `host_self_ps`,
            `device_ps`, `launches`, `outermost`, and `row`, the call's own.
        inside: By call of any name: whether it is such a call or lies in one.
    """

    calls: pl.DataFrame
    inside: NDArray[np.bool_]


def _calls_of(profile: ProfileData, one: AnnotatedHost, name: str) -> _Calls:
    found = one.found
    mine = found.named(name) & one.chosen
    label = np.where(mine, np.int32(0), np.int32(-1)).astype(np.int32)
    answer = inherit(found.parent, label, 0, len(label))
    if answer < 0:
        raise ValueError(f"the kernel refused its arrays ({answer})")
    inside: NDArray[np.bool_] = label >= 0
    rows = np.flatnonzero(mine)
    around = found.parent[rows]
    nested = (around >= 0) & np.append(inside, False)[around]
    events = present(profile.table(one.host, "events"))
    track = handles(events, "track")[found.event[rows]]
    threads = present(profile.table(one.host, "tracks"))["name"]
    known = not isinstance(one.work, Unavailable)
    nothing = [None] * len(rows)
    calls = pl.DataFrame(
        {
            "host": pl.Series([one.host] * len(rows), dtype=pl.String),
            "thread": threads.gather(track),
            "row": pl.Series(rows, dtype=pl.Int64),
            "step": _numbers(one, rows),
            "start_ps": found.start_ps[rows],
            "host_ps": found.dur_ps[rows],
            "host_self_ps": found.self_ps[rows],
            "device_ps": pl.Series(
                added_up(one.device_ps(), found)[rows] if known else nothing,
                dtype=pl.Int64,
            ),
            "launches": pl.Series(
                added_up(one.launches(), found)[rows] if known else nothing,
                dtype=pl.Int64,
            ),
            "outermost": ~nested,
        }
    )
    return _Calls(calls, inside)


def _numbers(one: AnnotatedHost, rows: NDArray[np.int64]) -> pl.Series:
    """Return the numbers of the steps of some calls, null for none."""
    if one.step_rows is None:
        return pl.Series([None] * len(rows), dtype=pl.Int64)
    number = dict(one.step_rows.select("row", "step").iter_rows())
    found = [number.get(step) for step in one.found.step[rows].tolist()]
    return pl.Series(found, dtype=pl.Int64)


def _listed(calls: pl.DataFrame, most: int | None) -> pl.DataFrame:
    ordered = calls.sort(
        *("host_ps", "start_ps", "host", "row"), descending=[True, False, False, False]
    )
    if most is not None:
        ordered = ordered.head(most)
    whole = ordered.with_row_index("rank", offset=1).with_columns(
        start_ms=pl.col("start_ps") / PS_PER_MS, **_in_us("host", "host_self", "device")
    )
    return _declared(whole, ANNOTATION_CALLS.dtypes())


def _by_step(calls: pl.DataFrame) -> pl.DataFrame | None:
    stepped = calls.filter(pl.col("step").is_not_null())
    if not len(stepped):
        return None
    grouped = (
        stepped.sort("host", "start_ps")
        .group_by("host", "step", maintain_order=True)
        .agg(
            pl.len().alias("occurrences"),
            pl.col("host_ps").sum(),
            *(sum_of_known(name) for name in ("device_ps", "launches")),
        )
        .with_columns(**_in_us("host", "device"))
    )
    return _declared(grouped, ANNOTATION_STEPS.dtypes())


def _ops(
    profile: ProfileData, hosts: Sequence[AnnotatedHost], of_hosts: Sequence[_Calls]
) -> pl.DataFrame | Unavailable:
    parts = []
    why = _WHY["no_ops_inside"]
    for one, calls in zip(hosts, of_hosts, strict=True):
        ran = profile.derived(one.host, host_op_events)
        if isinstance(ran, Unavailable):
            why = ran
            continue
        inside = np.append(calls.inside, False)[one.found.of_event[ran.event]]
        rows = np.flatnonzero(inside)
        named = ran.ops.select(
            name=pl.coalesce("framework_op", "name"),
            type=pl.coalesce("framework_type", "type"),
        )
        parts.append(
            named[ran.op[rows]].with_columns(
                pl.Series("self_ps", ran.self_ps[rows], pl.Int64)
            )
        )
    if not parts:
        return why
    summed = (
        pl.concat(parts)
        .group_by("name", "type")
        .agg(pl.len().alias("occurrences"), host_self_us=pl.col("self_ps").sum())
        .with_columns(pl.col("host_self_us") / PS_PER_US)
        .sort("host_self_us", "name", descending=[True, False])
    )
    return _declared(summed, ANNOTATION_OPS.dtypes())


def _kernels(
    profile: ProfileData, hosts: Sequence[AnnotatedHost], of_hosts: Sequence[_Calls]
) -> pl.DataFrame:
    parts = []
    for one, calls in zip(hosts, of_hosts, strict=True):
        if isinstance(one.work, Unavailable):
            continue
        rows = np.flatnonzero(np.append(calls.inside, False)[one.work.call])
        activity = present(profile.table(one.host, "device_activity"))
        names = present(profile.table(one.host, "event_types"))["name"]
        parts.append(
            pl.DataFrame(
                {
                    "name": names.gather(handles(activity, "type")[rows]),
                    "kind": activity["kind"].gather(rows).cast(pl.String),
                    "ps": ints(activity, "dur_ps")[rows],
                }
            )
        )
    summed = (
        pl.concat(parts)
        .group_by("name", "kind")
        .agg(pl.len().alias("occurrences"), total_us=pl.col("ps").sum())
        .with_columns(pl.col("total_us") / PS_PER_US)
        .sort("total_us", "name", "kind", descending=[True, False, False])
    )
    return _declared(summed, ANNOTATION_KERNELS.dtypes())


def _in_us(*names: str) -> dict[str, pl.Expr]:
    return {f"{name}_us": pl.col(f"{name}_ps") / PS_PER_US for name in names}


def _declared(frame: pl.DataFrame, dtypes: dict[str, pl.DataType]) -> pl.DataFrame:
    return frame.select(pl.col(name).cast(dtype) for name, dtype in dtypes.items())
