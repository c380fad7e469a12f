"""What the calls of the chosen ops consist of: kernels, copies, launches, shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.analysis.results.nulls import share
from stepscope.analysis.results.tool_tables import tables_of
from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.columns.dense_codes import extremes_by
from stepscope.derive.device.activity_classes import activity_classes
from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.device.correlation import correlation
from stepscope.derive.device.kernels import launch_dimensions
from stepscope.trace.device_activity import ACTIVITY_KINDS
from stepscope.unavailable import present
from stepscope.units import GIB, PS_PER_S, PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.analysis.framework_op_stats.work import OpWork
    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.schema import TableSchema

_TABLES: Final = tables_of("framework_op_stats")
KERNEL_ROWS: Final = _TABLES["kernels"]
COPY_ROWS: Final = _TABLES["copies"]
LAUNCH_ROWS: Final = _TABLES["launches"]

_KINDS: Final = ACTIVITY_KINDS.categories.to_list()
_KERNELS: Final = (_KINDS.index("kernel"), _KINDS.index("collective"))
_SHAPE: Final = (
    *("kernel_name", "op_name", "kind", "fill", "grid_dim", "block_dim", "blocks"),
    *("multiprocessors", "registers", "shared_memory_bytes", "occupancy_percent"),
    *("occupancy_limiter", "tensor_core_eligible", "uses_tensor_core", "precision"),
)


def kernel_rows(
    profile: ProfileData, works: Sequence[OpWork], fills: dict[str, pl.DataFrame]
) -> pl.DataFrame:
    """Return one row per kernel, op and launch shape, by total time.

    Args:
        works: Hosts whose device activity is known.
        fills: Host → as `kernel_fill` returns.
    """
    frames = []
    for work in works:
        classes = present(profile.derived(work.host, activity_classes))
        sums = _class_sums(profile, work, classes.code, len(classes.rows))
        kinds = classes.rows["kind"].to_numpy()
        rows = sums.join(fills[work.host], on="class", how="inner").with_columns(
            host=pl.lit(work.host)
        )
        kind = kinds[rows["class"].to_numpy()]
        frames.append(
            rows.with_columns(kind=pl.Series([_KINDS[one] for one in kind]))
            .filter(pl.Series(np.isin(kind, _KERNELS), dtype=pl.Boolean))
            .with_columns(
                launch_dimensions("grid"),
                launch_dimensions("block"),
                pl.when(pl.col("kind") == "kernel").then("fill").alias("fill"),
            )
            .select(*_SHAPE, "host", "device", "n", "sum_ps", "least_ps", "most_ps")
        )
    whole = pl.concat(frames)
    total = int(whole["sum_ps"].sum())
    return _ranked(
        _summed(whole, _SHAPE).with_columns(
            (pl.col("least_ps") / PS_PER_US).alias("min_us"),
            share(pl.col("sum_ps"), total).alias("percent"),
        ),
        KERNEL_ROWS,
        ("kernel_name", "op_name", "grid_dim", "block_dim"),
    )


def _class_sums(
    profile: ProfileData, work: OpWork, code: NDArray[np.int32], count: int
) -> pl.DataFrame:
    """Add up by class the activities of the calls."""
    activity = present(profile.table(work.host, "device_activity"))
    dur_ps = ints(activity, "dur_ps")[work.activity]
    sums = extremes_by(code[work.activity], dur_ps, count=count)
    rows = np.flatnonzero(sums.count).astype(np.int32)
    return pl.DataFrame(
        {
            "class": rows,
            "n": sums.count[rows],
            "sum_ps": sums.total[rows],
            "least_ps": sums.least[rows],
            "most_ps": sums.greatest[rows],
        }
    )


def copy_rows(profile: ProfileData, works: Sequence[OpWork]) -> pl.DataFrame:
    """Return one row per direction, name and op, by total time: copies and memsets."""
    frames = []
    for work in works:
        activity = present(profile.table(work.host, "device_activity"))
        kind = codes(activity, "kind")[work.activity]
        rows = work.activity[~np.isin(kind, _KERNELS)]
        ops = present(profile.derived(work.host, activity_ops))
        types = present(profile.table(work.host, "event_types"))
        chosen = activity[rows]
        frames.append(
            chosen.select(
                pl.col("kind").cast(pl.String),
                types["name"][handles(chosen, "type")].alias("name"),
                ops.ops["name"][ops.op[rows]].alias("op_name"),
                "device",
                pl.lit(work.host).alias("host"),
                pl.lit(1, pl.Int64).alias("n"),
                pl.col("dur_ps").alias("sum_ps"),
                pl.col("dur_ps").alias("least_ps"),
                pl.col("dur_ps").alias("most_ps"),
                "bytes",
            )
        )
    whole = pl.concat(frames)
    key = ("kind", "name", "op_name")
    sizes = pl.when(pl.col("bytes").null_count() == 0).then(pl.col("bytes").sum())
    rate = pl.col("bytes") * (PS_PER_S / GIB) / pl.col("sum_ps")
    summed = _summed(whole, key, sizes.alias("bytes")).with_columns(
        pl.when(pl.col("sum_ps") > 0).then(rate).alias("gib_per_s")
    )
    return _ranked(summed, COPY_ROWS, key)


def _summed(whole: pl.DataFrame, key: Sequence[str], *more: pl.Expr) -> pl.DataFrame:
    return whole.group_by(*key).agg(
        pl.col("n").sum().alias("occurrences"),
        pl.col("sum_ps").sum(),
        pl.col("least_ps").min(),
        pl.col("most_ps").max(),
        pl.col("host").unique().sort().alias("hosts"),
        pl.col("device").unique().sort().alias("devices"),
        *more,
    )


def _ranked(
    summed: pl.DataFrame, schema: TableSchema, ties: Sequence[str]
) -> pl.DataFrame:
    return (
        summed.sort("sum_ps", *ties, descending=[True, *(False for _ in ties)])
        .with_row_index("rank", offset=1)
        .with_columns(
            (pl.col("sum_ps") / PS_PER_US).alias("total_us"),
            (pl.col("sum_ps") / pl.col("occurrences") / PS_PER_US).alias("avg_us"),
            (pl.col("most_ps") / PS_PER_US).alias("max_us"),
        )
        .select(schema.cast_columns())
    )


def launch_rows(profile: ProfileData, works: Sequence[OpWork]) -> pl.DataFrame:
    """Return one row per API call that put work on a device, by total time.

    Args:
        works: Hosts whose launches are known.
    """
    calls, started = [], []
    for work in works:
        launches = present(profile.table(work.host, "launches"))
        types = present(profile.table(work.host, "event_types"))
        names = types["name"][handles(launches, "type")]
        calls.append(
            launches[work.launch].select(names[work.launch].alias("name"), "dur_ps")
        )
        matched = present(profile.derived(work.host, correlation))
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
            (waits.median() / PS_PER_US).alias("median_wait_us"),
        )
    )
    duration = pl.col("dur_ps")
    return (
        pl.concat(calls)
        .group_by("name")
        .agg(
            pl.len().alias("calls"),
            (duration.sum() / PS_PER_US).alias("total_us"),
            (duration.sum() / pl.len() / PS_PER_US).alias("avg_us"),
            (duration.max() / PS_PER_US).alias("max_us"),
        )
        .join(of_name, on="name", how="left")
        .with_columns(pl.col("activities", "idle_launches").fill_null(0))
        .sort("total_us", "name", descending=[True, False])
        .with_row_index("rank", offset=1)
        .select(LAUNCH_ROWS.cast_columns())
    )
