"""Many small pieces of work: kernels on a device, ops on the host alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from stepscope.advice.signals.signal import signal
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.device.kernel_names import plain_name
from stepscope.derive.device.kernels import kernels
from stepscope.derive.host.op_events import host_op_events
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import OpCategory
from stepscope.derive.ops.database import device_ops
from stepscope.derive.step_time.host_classes import host_classes
from stepscope.derive.step_time.host_codes import HostCode
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable, present
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: A longer pause between two ops is no way from one to the next.
_DISPATCH_PS: Final = PS_PER_MS
_OF_INPUT: Final = (
    *(HostCode.PIPELINE, HostCode.INPUT_WAIT),
    *(HostCode.OWN_INPUT, HostCode.ITERATOR),
)


class WorkGroup(Frozen, frozen=True):
    """Kernels of one op type; of one name where no op is known.

    Attributes:
        name: The op type, or the kernel.
        short_name: The op type, or the kernel's name without its arguments and types.
        has_op: Whether it is an op type.
        per_step: Mean number in a step.
        mean_ps: Mean duration.
        percent: Share of the device's kernel time.
        count_percent: Share of the number of kernels.
        classes: Rows of `activity_classes` that they are.
    """

    name: str
    short_name: str
    has_op: bool
    per_step: float
    mean_ps: float
    percent: float
    count_percent: float
    classes: tuple[int, ...] = ()


@signal(kernels, device_ops, windows)
def small_kernels(
    profile: ProfileData, _: Thresholds
) -> dict[str, tuple[WorkGroup, ...]] | Unavailable:
    """Return the kernels of each device by group, `host:device` → most time first."""
    found: dict[str, tuple[WorkGroup, ...]] = {}
    reasons: list[Unavailable] = []
    for host in profile.hosts:
        table = profile.derived(host, kernels)
        if isinstance(table, Unavailable):
            reasons.append(table)
            continue
        ops = profile.derived(host, device_ops)
        placed = profile.derived(host, windows)
        steps = (
            0
            if isinstance(placed, Unavailable) or not placed.has_steps
            else placed.rows.height
        )
        rows = table.rows[
            ["device", "class", "kernel_name", "op_name", "count", "total_ps"]
        ]
        if not isinstance(ops, Unavailable):
            # Of several programs that have the op, the one with most time counts.
            types: dict[tuple[Any, ...], str | None] = {}
            for *key, kind in ops.rows[["device", "name", "type"]].iter_rows():
                types.setdefault(tuple(key), kind)
            keys = rows[["device", "op_name"]].iter_rows()
            found_types = [types.get(key) for key in keys]
            rows = rows.with_columns(pl.Series("type", found_types, dtype=pl.String))
        else:
            rows = rows.with_columns(type=pl.lit(None, pl.String))
        for device in rows["device"].unique().sort():
            mine = rows.filter(pl.col("device") == device)
            found[f"{host}:{device}"] = _groups(mine, steps) if steps else ()
    if reasons and not found:
        return reasons[0]
    return found


def _groups(rows: pl.DataFrame, steps: int) -> tuple[WorkGroup, ...]:
    named = pl.col("op_name").fill_null("") != ""
    total, count = int(rows["total_ps"].sum()), int(rows["count"].sum())
    summed = (
        rows.with_columns(
            has_op=named,
            group=pl.when(named)
            .then(pl.coalesce("type", "op_name"))
            .otherwise(pl.col("kernel_name")),
        )
        .group_by("group", "has_op")
        .agg(pl.col("count").sum(), pl.col("total_ps").sum(), "class")
        .sort("total_ps", "group", descending=[True, False])
    )
    return tuple(
        WorkGroup(
            name=row["group"],
            short_name=row["group"] if row["has_op"] else plain_name(row["group"]),
            has_op=row["has_op"],
            per_step=row["count"] / steps,
            mean_ps=row["total_ps"] / row["count"],
            percent=100 * row["total_ps"] / total,
            count_percent=100 * row["count"] / count,
            classes=tuple(row["class"]),
        )
        for row in summed.iter_rows(named=True)
        if total and row["count"]
    )


def _making_batches(
    profile: ProfileData,
    host: str,
    track: NDArray[np.int32],
    start_ps: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Return which ops begin while their thread makes a batch: none of the step's."""
    found = np.zeros(len(track), np.bool_)
    classes = profile.derived(host, host_classes)
    if isinstance(classes, Unavailable):
        return found
    for thread in np.unique(track).tolist():
        sets = classes.by_thread.get(thread, {})
        spans = Spans.union_of(sets[code] for code in _OF_INPUT if code in sets)
        if len(spans):
            mine = np.flatnonzero(track == thread)
            start = start_ps[mine]
            found[mine] = spans.within(start, start + 1) > 0
    return found


class SmallOps(Frozen, frozen=True):
    """Short ops on the threads of a host, of types that occur often.

    Attributes:
        dispatch_ps: Time from the end of one such op to the begin of the next on its
            thread, in each judged step.
        own_ps: Their self time in each judged step.
        call_ps: The part of it that calling them takes, whatever they compute.
        per_step: Mean number of these ops in a step.
        mean_ps: Their mean self time; null where there are none.
        names: Type → its number in a step, most of that time first.
    """

    dispatch_ps: tuple[int, ...]
    own_ps: tuple[int, ...]
    call_ps: tuple[int, ...]
    per_step: float
    mean_ps: float | None
    names: tuple[tuple[str, float], ...]


@signal(host_classes, host_op_events, windows, seldom=True)
def small_ops(
    profile: ProfileData, thresholds: Thresholds
) -> dict[str, SmallOps] | Unavailable:
    """Return the short ops of each host; hosts without any op are left out."""
    found: dict[str, SmallOps] = {}
    reasons: list[Unavailable] = []
    for host in profile.hosts:
        ops = profile.derived(host, host_op_events)
        if isinstance(ops, Unavailable):
            reasons.append(ops)
        elif len(ops.event):
            found[host] = _of_host(profile, host, ops, thresholds)
    if reasons and not found:
        return reasons[0]
    return found


def _of_host(
    profile: ProfileData, host: str, ops: HostOpEvents, thresholds: Thresholds
) -> SmallOps:
    measured = present(profile.derived(host, windows)).measured
    starts, ends = ints(measured, "start_ps"), ints(measured, "end_ps")
    steps = len(starts)
    window = np.searchsorted(starts, ops.start_ps, side="right") - 1
    judged = (window >= 0) & (ops.start_ps < ends[np.maximum(window, 0)])
    events = present(profile.table(host, "events"))
    category = ops.ops["category"].to_numpy()[ops.op]
    track = handles(events, "track")[ops.event]
    making = _making_batches(profile, host, track, ops.start_ps)
    rows = pl.DataFrame(
        {
            "track": track,
            "window": window,
            "start": ops.start_ps,
            "end": ops.start_ps + ops.dur_ps,
            "self": ops.self_ps,
            "program": (category != OpCategory.DATASET) & ~making,
            "type": ops.ops.select(pl.coalesce("type", "name"))
            .to_series()
            .gather(ops.op),
        }
    ).filter(pl.Series(judged))
    often = (
        rows.filter("program")
        .group_by("type")
        .agg(pl.len().cast(pl.Int64).alias("count"), pl.col("self").sum())
        .filter(
            (pl.col("count") >= thresholds.small_op_runs.value * steps)
            & (pl.col("self") < thresholds.small_op.value * pl.col("count"))
        )
    )
    if often.is_empty():
        nothing = (0,) * steps
        return SmallOps(nothing, nothing, nothing, per_step=0.0, mean_ps=None, names=())
    short = rows.with_columns(short=pl.col("type").is_in(often["type"].to_list()))
    gaps = _gaps(short)
    times = np.zeros(steps, np.int64)
    np.add.at(times, gaps["window"].to_numpy(), gaps["gap"].to_numpy())
    most = thresholds.op_call.value * pl.col("count")
    called = often.select("type", call=(most / pl.col("self")).clip(upper_bound=1))
    counted = (
        short.filter(pl.col("short") & pl.col("program"))
        .join(called, on="type")
        .with_columns(call=pl.col("call") * pl.col("self"))
    )
    own, call = (
        np.bincount(counted["window"], counted[name], minlength=steps).astype(np.int64)
        for name in ("self", "call")
    )
    largest = (
        gaps.group_by("type")
        .agg(pl.col("gap").sum())
        .join(often, on="type")
        .sort("gap", "type", descending=[True, False])
    )
    count = int(often["count"].sum())
    return SmallOps(
        dispatch_ps=tuple(times.tolist()),
        own_ps=tuple(own.tolist()),
        call_ps=tuple(call.tolist()),
        per_step=count / steps,
        mean_ps=int(often["self"].sum()) / count,
        names=tuple(
            (name, number / steps)
            for name, number in largest.select("type", "count").iter_rows()
        ),
    )


def _gaps(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the pauses between two short ops that follow each other on a thread."""
    ordered = rows.sort("track", "start", "end", descending=[False, False, True])
    return ordered.select(
        "window",
        "type",
        gap=pl.col("start") - pl.col("end").cum_max().shift(1).over("track"),
        follows=pl.col("short") & pl.col("short").shift(1).over("track"),
    ).filter(pl.col("follows") & (pl.col("gap") > 0) & (pl.col("gap") <= _DISPATCH_PS))
