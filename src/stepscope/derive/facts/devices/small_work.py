"""Short kernels on a device, and short ops on a host without devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles
from stepscope.derive.device.kernel_names import plain_name
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import OpCategory
from stepscope.derive.run_derivation import of_each_device_or_why, of_each_host_or_why
from stepscope.derive.step_time.host_time import HostCode
from stepscope.derive.step_windows.windows import windows_of_times
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.device.kernels import Kernels
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.ops.database import DeviceOps
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.step_windows.windows import Windows

#: Maximum gap between two ops that counts as the dispatch of the second op.
_DISPATCH_PS: Final = PS_PER_MS
_OF_INPUT: Final = (
    *(HostCode.PIPELINE, HostCode.INPUT_WAIT),
    *(HostCode.OWN_INPUT, HostCode.ITERATOR),
)


class WorkGroup(Frozen, frozen=True):
    """The kernels of one op type; if their op is unknown, the kernels of one name.

    Attributes:
        name: The op type, or the kernel's name.
        short_name: The op type, or the kernel's name without arguments and types.
        has_op: Whether `name` is an op type.
        per_step: Mean number of these kernels in a step.
        mean_ps: Mean duration of a kernel.
        percent: Share of the time of all kernels on the device.
        count_percent: Share of the number of all kernels.
        classes: Rows of `activity_classes` of the kernels.
    """

    name: str
    short_name: str
    has_op: bool
    per_step: float
    mean_ps: float
    percent: float
    count_percent: float
    classes: tuple[int, ...] = ()


@of_each_device_or_why
def small_kernels(
    *,
    kernels: Kernels,
    device_ops: DeviceOps | Unavailable,
    windows: Windows | Unavailable,
) -> dict[int | None, tuple[WorkGroup, ...]]:
    """Group the kernels of each device by op type, most time first."""
    placed = None if isinstance(windows, Unavailable) else windows
    steps = 0 if placed is None or not placed.has_steps else placed.rows.height
    rows = kernels.rows[
        ["device", "class", "kernel_name", "op_name", "count", "total_ps"]
    ]
    # An op in several programs has the type that it has in the program with most time.
    types: dict[tuple[Any, ...], str | None] = {}
    if not isinstance(device_ops, Unavailable):
        for *key, kind in device_ops.rows[["device", "name", "type"]].iter_rows():
            types.setdefault(tuple(key), kind)
    known = [types.get(key) for key in rows[["device", "op_name"]].iter_rows()]
    rows = rows.with_columns(pl.Series("type", known, dtype=pl.String))
    return {
        device: _work_groups(rows.filter(pl.col("device") == device), steps)
        if steps
        else ()
        for device in rows["device"].unique().sort()
    }


def _work_groups(rows: pl.DataFrame, steps: int) -> tuple[WorkGroup, ...]:
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


def _produces_batches(
    classes: HostClasses | Unavailable, track: Int32s, start_ps: Int64s
) -> Bools:
    """Return whether each op begins while its thread produces a batch."""
    produces_batch = np.zeros(len(track), np.bool_)
    if isinstance(classes, Unavailable):
        return produces_batch
    for thread in np.unique(track).tolist():
        sets = classes.by_thread.get(thread, {})
        spans = Spans.union_of(sets[code] for code in _OF_INPUT if code in sets)
        if len(spans):
            on_thread = np.flatnonzero(track == thread)
            start = start_ps[on_thread]
            produces_batch[on_thread] = spans.within(start, start + 1) > 0
    return produces_batch


class SmallOps(Frozen, frozen=True):
    """Short ops of frequent types on the threads of a host.

    Attributes:
        dispatch_ps: Time from the end of a short op to the start of the next one on its
            thread, in each judged step.
        own_ps: Self time of the short ops in each judged step.
        per_step: Mean number of short ops in a step.
        mean_ps: Mean self time of a short op; null without short ops.
        names: Type → mean number in a step, most `dispatch_ps` first.
    """

    dispatch_ps: tuple[int, ...]
    own_ps: tuple[int, ...]
    per_step: float
    mean_ps: float | None
    names: tuple[tuple[str, float], ...]


@of_each_host_or_why
def small_ops(
    *,
    host_op_events: HostOpEvents,
    host_classes: HostClasses | Unavailable,
    events: pl.DataFrame,
    windows: Windows,
) -> SmallOps | None:
    """Return the short ops of each host; hosts without any op are left out."""
    ops = host_op_events
    if not len(ops.event):
        return None
    measured = windows.measured
    steps = len(measured)
    category = ops.ops["category"].to_numpy()[ops.op]
    track = handles(events, "track")[ops.event]
    produces_batch = _produces_batches(host_classes, track, ops.start_ps)
    rows = pl.DataFrame(
        {
            "track": track,
            "window": windows_of_times(measured, ops.start_ps),
            "start": ops.start_ps,
            "end": ops.start_ps + ops.dur_ps,
            "self": ops.self_ps,
            "program": (category != OpCategory.DATASET) & ~produces_batch,
            "type": ops.ops.select(pl.coalesce("type", "name"))
            .to_series()
            .gather(ops.op),
        }
    ).filter(pl.col("window") >= 0)
    often = (
        rows.filter("program")
        .group_by("type")
        .agg(pl.len().cast(pl.Int64).alias("count"), pl.col("self").sum())
        .filter(
            (pl.col("count") >= THRESHOLDS.small_op_runs.value * steps)
            & (pl.col("self") < THRESHOLDS.small_op.value * pl.col("count"))
        )
    )
    if often.is_empty():
        nothing = (0,) * steps
        return SmallOps(nothing, nothing, per_step=0.0, mean_ps=None, names=())
    short = rows.with_columns(short=pl.col("type").is_in(often["type"].to_list()))
    gaps = _dispatch_gaps(short)
    times = np.zeros(steps, np.int64)
    np.add.at(times, gaps["window"].to_numpy(), gaps["gap"].to_numpy())
    counted = short.filter(pl.col("short") & pl.col("program"))
    own = np.bincount(counted["window"], counted["self"], minlength=steps)
    largest = (
        gaps.group_by("type")
        .agg(pl.col("gap").sum())
        .join(often, on="type")
        .sort("gap", "type", descending=[True, False])
    )
    count = int(often["count"].sum())
    return SmallOps(
        dispatch_ps=tuple(times.tolist()),
        own_ps=tuple(own.astype(np.int64).tolist()),
        per_step=count / steps,
        mean_ps=int(often["self"].sum()) / count,
        names=tuple(
            (name, number / steps)
            for name, number in largest.select("type", "count").iter_rows()
        ),
    )


def _dispatch_gaps(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the gaps between two consecutive short ops on a thread."""
    return (
        rows.sort("track", "start", "end", descending=[False, False, True])
        .select(
            "window",
            "type",
            gap=pl.col("start") - pl.col("end").cum_max().shift(1).over("track"),
            follows=pl.col("short") & pl.col("short").shift(1).over("track"),
        )
        .filter(pl.col("follows"), pl.col("gap") > 0, pl.col("gap") <= _DISPATCH_PS)
    )
