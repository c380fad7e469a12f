"""Every call of the chosen ops, and their kernels, copies and launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from stepscope.analysis.results.tables import (
    complete_sum,
    declared_rows,
    share_percent,
    tool_tables,
)
from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.columns.dense_codes import extremes_by_code
from stepscope.derive.device.activity_classes import activity_classes
from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.device.correlation import correlation, device_timeline
from stepscope.derive.device.kernels import launch_dimensions
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.steps.chosen import activity_steps, steps
from stepscope.trace.reading.nullable import nullable_series
from stepscope.trace.tables import ACTIVITY_KINDS
from stepscope.unavailable import Unavailable, require_available
from stepscope.units import GIB, PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.framework_op_stats.work import OpWork
    from stepscope.array_types import Int32s, Int64s
    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.schema import TableSchema

_TABLES: Final = tool_tables("framework_op_stats")
CALL_ROWS: Final = _TABLES["calls"]
KERNEL_ROWS: Final = _TABLES["kernels"]
COPY_ROWS: Final = _TABLES["copies"]
LAUNCH_ROWS: Final = _TABLES["launches"]

_KINDS: Final = ACTIVITY_KINDS.categories.to_list()
_KERNEL: Final = _KINDS.index("kernel")
_COLLECTIVE: Final = _KINDS.index("collective")
_WAIT: Final = _KINDS.index("transfer_wait")
_ON_DEVICE: Final = (
    *("device_ps", "waiting_ps", "kernels", "collectives", "copies", "copy_bytes"),
    "devices",
)

_KERNELS: Final = (_KERNEL, _COLLECTIVE)
_SHAPE: Final = (
    *("kernel_name", "op_name", "kind", "fill", "grid_dim", "block_dim", "blocks"),
    *("multiprocessors", "registers", "shared_memory_bytes", "occupancy_percent"),
    *("occupancy_limiter", "tensor_core_eligible", "uses_tensor_core", "precision"),
)


def call_rows(
    profile: ProfileData,
    works: Sequence[OpWork],
    shapes: Sequence[pl.Series],
    *,
    max_calls: int | None,
) -> pl.DataFrame:
    """Return the calls by time on devices, then on hosts; columns `CALL_ROWS`.

    Args:
        max_calls: Maximum number of rows; None keeps all.
    """
    frames = [
        _calls_of_host(profile, work).with_columns(shape)
        for work, shape in zip(works, shapes, strict=True)
    ]
    ordered = pl.concat(frames, how="diagonal_relaxed").sort(
        *("device_ps", "host_ps", "start_ps", "host", "call"),
        descending=[True, True, False, False, False],
        nulls_last=True,
    )
    if max_calls is not None:
        ordered = ordered.head(max_calls)
    return declared_rows(ordered.with_row_index("rank", offset=1), CALL_ROWS)


def _calls_of_host(profile: ProfileData, work: OpWork) -> pl.DataFrame:
    count = len(work.calls)
    order = np.argsort(ints(work.calls, "start_ps"), kind="stable")
    number = np.empty(count, np.int64)
    number[order] = np.arange(1, count + 1)
    launches = pl.Series("launches", np.bincount(work.launch_call, minlength=count))
    if "launches" in work.absent:
        launches = pl.Series("launches", [None] * count, pl.Int64)
    calls = work.calls.with_columns(
        pl.lit(work.host).alias("host"),
        pl.Series("call", number),
        launches,
        _step_numbers(profile, work),
    )
    if "device_activity" in work.absent:
        kinds: dict[str, Any] = dict.fromkeys(_ON_DEVICE, pl.Int64())
        kinds["devices"] = pl.List(pl.Int32())
        return calls.with_columns(
            pl.lit(None, dtype).alias(name) for name, dtype in kinds.items()
        )
    device_columns = pl.DataFrame(_device_columns(profile, work))
    if "launches" in work.absent:
        # If launches were not recorded, the device work of host calls is unknown.
        only_on_device = pl.int_range(pl.len()) >= work.executions
        device_columns = device_columns.select(pl.when(only_on_device).then(pl.all()))
    return calls.hstack(device_columns)


def _device_columns(profile: ProfileData, work: OpWork) -> list[pl.Series]:
    count = len(work.calls)
    activity = require_available(profile.table(work.host, "device_activity"))
    dur_ps = ints(activity, "dur_ps")[work.activity]
    kind = codes(activity, "kind")[work.activity]
    device = handles(activity, "device")[work.activity]
    spent = np.zeros(count, np.int64)
    np.add.at(spent, work.call, dur_ps)
    is_copy = ~np.isin(kind, (*_KERNELS, _WAIT))
    counts = {
        "kernels": kind == _KERNEL,
        "collectives": kind == _COLLECTIVE,
        "copies": is_copy,
    }
    used = (
        pl.DataFrame({"call": work.call, "device": device})
        .group_by("call")
        .agg(pl.col("device").unique().sort())
    )
    devices = (
        pl.DataFrame({"call": np.arange(count)})
        .join(used, on="call", how="left", maintain_order="left")
        .select(pl.col("device").fill_null([]).cast(pl.List(pl.Int32)).alias("devices"))
        .to_series()
    )
    end_ps = ints(activity, "start_ps")[work.activity] + dur_ps
    sizes = activity["bytes"].gather(work.activity[is_copy])
    calls = work.call[is_copy]
    copied = np.zeros(count, np.int64)
    np.add.at(copied, calls, sizes.fill_null(0).to_numpy())
    sized = np.ones(count, np.bool_)
    sized[calls[sizes.is_null().to_numpy()]] = False
    return [
        pl.Series("device_ps", spent),
        _idle_times(profile, work, device, end_ps),
        *(
            pl.Series(name, np.bincount(work.call[of_kind], minlength=count))
            for name, of_kind in counts.items()
        ),
        nullable_series("copy_bytes", copied, sized),
        devices,
    ]


def _idle_times(
    profile: ProfileData, work: OpWork, device: Int32s, end_ps: Int64s
) -> pl.Series:
    """Return each call's idle time of its devices, from its start to its last activity.

    A time is null if the call's start is unknown, and for calls without device work.
    """
    count = len(work.calls)
    start_ps = ints(work.calls, "start_ps")
    waited = np.zeros(count, np.int64)
    with_work = np.zeros(count, np.bool_)
    with_work[work.call] = True
    timeline = require_available(profile.derived(work.host, device_timeline))
    for timeline_device in timeline.devices:
        on_device = device == timeline_device.device
        last = np.full(count, np.iinfo(np.int64).min)
        np.maximum.at(last, work.call[on_device], end_ps[on_device])
        calls = np.flatnonzero(last > start_ps)
        busy = Spans.from_events(timeline_device.start_ps, timeline_device.dur_ps)
        begins, ends = start_ps[calls], last[calls]
        waited[calls] += ends - begins - busy.within(begins, ends)
    known = with_work & work.calls["launched"].to_numpy()
    return nullable_series("waiting_ps", waited, known)


def _step_numbers(profile: ProfileData, work: OpWork) -> pl.Series:
    """Return the step number of each call; null for none.

    The step of a call is the step of its device work. If the device work has no known
    step, the call's step is the step during which the call began on the host.
    """
    host_steps = profile.derived(work.host, steps)
    if isinstance(host_steps, Unavailable):
        return pl.Series("step", [None] * len(work.calls), pl.Int64)
    row = np.full(len(work.calls), -1, np.int64)
    if not host_steps.on_device:
        starts = ints(host_steps.rows, "start_ps")
        started = (
            np.searchsorted(starts, ints(work.calls, "start_ps"), side="right") - 1
        )
        row = np.where(work.calls["launched"].to_numpy(), started, -1)
    of_activity = profile.derived(work.host, activity_steps)
    if not isinstance(of_activity, Unavailable):
        step = of_activity[work.activity]
        known = np.flatnonzero(step >= 0)[::-1]
        row[work.call[known]] = step[known]
    numbers = pl.concat([host_steps.rows["step"], pl.Series("step", [None], pl.Int64)])
    of_call: pl.Series = numbers.gather(np.where(row < 0, len(host_steps.rows), row))
    return of_call


def kernel_rows(
    profile: ProfileData, works: Sequence[OpWork], fills: dict[str, pl.DataFrame]
) -> pl.DataFrame:
    """Return one row per kernel, op and launch shape, by total time.

    Args:
        fills: Host → result of `kernel_fill`.
    """
    frames = []
    for work in works:
        classes = require_available(profile.derived(work.host, activity_classes))
        activity = require_available(profile.table(work.host, "device_activity"))
        dur_ps = ints(activity, "dur_ps")[work.activity]
        extremes = extremes_by_code(
            classes.code[work.activity], dur_ps, count=len(classes.rows)
        )
        used = np.flatnonzero(extremes.count).astype(np.int32)
        sums = pl.DataFrame(
            {
                "class": used,
                "n": extremes.count[used],
                "total_ps": extremes.total[used],
                "min_ps": extremes.least[used],
                "max_ps": extremes.greatest[used],
            }
        )
        kinds = classes.rows["kind"].to_numpy()
        rows = sums.join(fills[work.host], on="class", how="inner").with_columns(
            host=pl.lit(work.host)
        )
        kind = kinds[rows["class"].to_numpy()]
        frames.append(
            rows.with_columns(
                kind=pl.Series([_KINDS[code] for code in kind], dtype=pl.String)
            )
            .filter(pl.Series(np.isin(kind, _KERNELS), dtype=pl.Boolean))
            .with_columns(
                launch_dimensions("grid"),
                launch_dimensions("block"),
                pl.when(pl.col("kind") == "kernel").then("fill").alias("fill"),
            )
            .select(*_SHAPE, "host", "device", "n", "total_ps", "min_ps", "max_ps")
        )
    all_rows = pl.concat(frames)
    percent = share_percent(pl.col("total_ps"), int(all_rows["total_ps"].sum()))
    return _rank_by_time(
        _sum_by_key(all_rows, _SHAPE).with_columns(percent.alias("percent")),
        KERNEL_ROWS,
        ("kernel_name", "op_name", "grid_dim", "block_dim"),
    )


def copy_rows(profile: ProfileData, works: Sequence[OpWork]) -> pl.DataFrame:
    """Return a row per direction, name and op of copies and memsets, by total time."""
    frames = []
    for work in works:
        activity = require_available(profile.table(work.host, "device_activity"))
        rows = work.activity[~np.isin(codes(activity, "kind")[work.activity], _KERNELS)]
        ops = require_available(profile.derived(work.host, activity_ops))
        types = require_available(profile.table(work.host, "event_types"))
        chosen = activity[rows]
        frames.append(
            chosen.select(
                pl.col("kind").cast(pl.String),
                types["name"][handles(chosen, "type")].alias("name"),
                ops.ops["name"][ops.op[rows]].alias("op_name"),
                "device",
                pl.lit(work.host).alias("host"),
                pl.lit(1, pl.Int64).alias("n"),
                *(pl.col("dur_ps").alias(f"{name}_ps") for name in _EXTREMES),
                "bytes",
            )
        )
    all_rows = pl.concat(frames)
    key = ("kind", "name", "op_name")
    rate = pl.col("bytes") * (PS_PER_S / GIB) / pl.col("total_ps")
    summed = _sum_by_key(all_rows, key, complete_sum(pl.col("bytes"))).with_columns(
        pl.when(pl.col("total_ps") > 0).then(rate).alias("gib_per_s")
    )
    return _rank_by_time(summed, COPY_ROWS, key)


_EXTREMES: Final = ("total", "min", "max")


def _sum_by_key(rows: pl.DataFrame, key: Sequence[str], *more: pl.Expr) -> pl.DataFrame:
    return rows.group_by(*key).agg(
        pl.col("n").sum().alias("occurrences"),
        pl.col("total_ps").sum(),
        pl.col("min_ps").min(),
        pl.col("max_ps").max(),
        pl.col("host").unique().sort().alias("hosts"),
        pl.col("device").unique().sort().alias("devices"),
        *more,
    )


def _rank_by_time(
    summed: pl.DataFrame, schema: TableSchema, ties: Sequence[str]
) -> pl.DataFrame:
    ranked = (
        summed.sort("total_ps", *ties, descending=[True, *(False for _ in ties)])
        .with_row_index("rank", offset=1)
        .with_columns(avg_ps=pl.col("total_ps") / pl.col("occurrences"))
    )
    return declared_rows(ranked, schema)


def launch_rows(profile: ProfileData, works: Sequence[OpWork]) -> pl.DataFrame:
    """Return one row per API function that launched device work, by total time."""
    calls, started = [], []
    for work in works:
        launches = require_available(profile.table(work.host, "launches"))
        types = require_available(profile.table(work.host, "event_types"))
        names = types["name"][handles(launches, "type")]
        calls.append(
            launches[work.launch].select(names[work.launch].alias("name"), "dur_ps")
        )
        matched = require_available(profile.derived(work.host, correlation))
        launch = matched.launch_of_activity[work.activity]
        rows = work.activity[launch >= 0]
        started.append(
            pl.DataFrame(
                {
                    "name": names[launch[launch >= 0]],
                    "idle": matched.queue_empty[rows],
                    "wait_ps": matched.latency_ps[rows],
                }
            )
        )
    waits = pl.when(pl.col("idle")).then("wait_ps")
    of_name = (
        pl.concat(started)
        .group_by("name")
        .agg(
            pl.len().alias("activities"),
            pl.col("idle").sum().alias("idle_launches"),
            waits.median().alias("median_wait_ps"),
        )
    )
    duration = pl.col("dur_ps")
    summed = (
        pl.concat(calls)
        .group_by("name")
        .agg(
            pl.len().alias("calls"),
            duration.sum().alias("total_ps"),
            (duration.sum() / pl.len()).alias("avg_ps"),
            duration.max().alias("max_ps"),
        )
        .join(of_name, on="name", how="left")
        .with_columns(pl.col("activities", "idle_launches").fill_null(0))
        .sort("total_ps", "name", descending=[True, False])
        .with_row_index("rank", offset=1)
    )
    return declared_rows(summed, LAUNCH_ROWS)
