"""The rows that step tables are made of: one per (host, device, step)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.step_time.breakdown import BUCKETS, CATEGORIES, breakdown
from stepscope.derive.step_windows.windows import windows
from stepscope.derive.steps.chosen import steps
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.step_time.breakdown import Breakdown
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps

__all__ = [
    "BUCKET_COLUMNS",
    "HostSteps",
    "category_columns",
    "host_steps",
    "mean_over_devices",
    "present_categories",
    "reasons_of",
]

BUCKET_COLUMNS: Final = tuple(f"{bucket.name}_ps" for bucket in BUCKETS)
#: What is left when every cause has been charged; it is always known.
_REST: Final = BUCKETS[-1].category
#: A run without any device has nothing to look at there, and loses nothing.
_NO_DEVICE: Final = "NO_DEVICE_PLANE"
#: Measures of a row beside its buckets; they are averaged like them.
_MEASURES: Final = ("device_busy_ps", "device_working_ps", "idle_input_ps")


class HostSteps(Frozen, frozen=True):
    """The windows of one host with their breakdown.

    Attributes:
        host: Name of the host.
        steps: The steps, or why there are none; the only window is then the whole
            profile.
        windows: Windows of the host.
        breakdown: Breakdown of the windows.
        rows: One row per (window, device): `host`, `window`, `step`, `name`, `marker`,
            `batches`, `start_ps`, `window_ps`, `open_end`, `flags`, `device`, `gap_ps`,
            `device_step_time_ps`, the buckets and the measures beside them. `step` is
            null where there are no steps.
        any_device: Rows as in `rows`, with the devices taken as one.
    """

    host: str
    steps: Steps | Unavailable
    windows: Windows
    breakdown: Breakdown
    rows: pl.DataFrame
    any_device: pl.DataFrame

    @property
    def has_device(self) -> bool:
        """Whether the activity of a device could be looked at."""
        return bool(self.rows["device"].is_not_null().any())


def host_steps(
    profile: ProfileData, host: str, *, marker: str | None = None
) -> HostSteps | Unavailable:
    """Return the rows of one host, or why there are none.

    Args:
        profile: The run.
        host: Which of its hosts.
        marker: Only the steps of this marker name (train, test, …).
    """
    found = profile.derived(host, steps)
    step_windows = profile.derived(host, windows)
    charged = profile.derived(host, breakdown)
    if isinstance(step_windows, Unavailable):
        return step_windows
    if isinstance(charged, Unavailable):
        return charged
    named = _named_windows(host, step_windows, found, marker)
    return HostSteps(
        host,
        found,
        step_windows,
        charged,
        _joined(charged.rows, named, step_windows.device_spans),
        _joined(charged.any_device, named, step_windows.device_spans),
    )


def _named_windows(
    host: str, windows: Windows, steps: Steps | Unavailable, marker: str | None
) -> pl.DataFrame:
    rows = windows.rows.with_row_index("window").select(
        pl.lit(host).alias("host"),
        pl.col("window").cast(pl.Int32),
        "step_row",
        "start_ps",
        "open_end",
        "flags",
        (pl.col("gap_end_ps") - pl.col("gap_start_ps")).alias("gap_ps"),
    )
    if isinstance(steps, Unavailable):
        return rows.with_columns(
            step=pl.lit(None, pl.Int64),
            name=pl.lit("profile (no steps)"),
            marker=pl.lit(None, pl.String),
            batches=pl.lit(None, pl.Int64),
        )
    known = steps.rows.with_row_index("step_row").select(
        pl.col("step_row").cast(pl.Int32), "step", "name", "marker", "batches"
    )
    named = rows.join(known, on="step_row", how="left", maintain_order="left")
    return named if marker is None else named.filter(pl.col("marker") == marker)


def _joined(
    charged: pl.DataFrame, named: pl.DataFrame, spans: pl.DataFrame
) -> pl.DataFrame:
    """Add names and device step times to the charged rows.

    Without a device of its own a row takes the longest time of its step.
    """
    longest = spans.group_by("step_row").agg(
        pl.col("device_step_time_ps").max().alias("longest_ps")
    )
    return (
        named.join(charged, on="window", how="inner", maintain_order="left_right")
        .join(
            spans.select("step_row", "device", "device_step_time_ps"),
            on=["step_row", "device"],
            how="left",
            maintain_order="left",
        )
        .join(longest, on="step_row", how="left", maintain_order="left")
        .with_columns(
            device_step_time_ps=pl.when(pl.col("device").is_null())
            .then("longest_ps")
            .otherwise("device_step_time_ps")
        )
        .drop("longest_ps")
    )


def present_categories(
    rows: pl.DataFrame, why: Mapping[str, Unavailable]
) -> tuple[list[str], list[str]]:
    """Return categories and buckets that can be shown, in their order.

    A bucket is shown if every row could look at it. A category is shown if one of its
    buckets is; but where a part of it was lost (not: where the run has no device to
    look at), it is shown only if the rest holds time, as "at least so much". A zero
    would say that there was none.
    """
    full = {
        bucket.name
        for bucket in BUCKETS
        if len(rows) and not rows[f"{bucket.name}_ps"].null_count()
    }
    shown = set()
    for category in CATEGORIES:
        parts = [bucket.name for bucket in BUCKETS if bucket.category == category]
        known = [name for name in parts if name in full]
        lost = [name for name in parts if name in why and why[name].code != _NO_DEVICE]
        has_time = any(rows[f"{name}_ps"].sum() for name in known)
        if known and (not lost or category == _REST or has_time):
            shown.add(category)
    return (
        [name for name in CATEGORIES if name in shown],
        [bucket.name for bucket in BUCKETS if bucket.name in full],
    )


def category_columns(
    rows: pl.DataFrame, why: Mapping[str, Unavailable]
) -> pl.DataFrame:
    """Compute `<category>_ps` of every category that can be shown.

    What only some rows could look at counts as unattributed there, so that the
    categories of each row still add up to its window.

    Args:
        rows: Rows with the columns of the buckets.
        why: Bucket → why it could not be looked at.
    """
    categories, buckets = present_categories(rows, why)
    of_category = {
        name: [
            f"{bucket.name}_ps"
            for bucket in BUCKETS
            if bucket.category == name and bucket.name in buckets
        ]
        for name in categories
    }
    stray = [f"{bucket.name}_ps" for bucket in BUCKETS if bucket.name not in buckets]
    summed = {
        f"{name}_ps": pl.sum_horizontal(*columns)
        for name, columns in of_category.items()
    }
    if stray and "other" in categories:
        summed["other_ps"] = summed["other_ps"] + pl.sum_horizontal(*stray)
    return rows.select(**summed)


def mean_over_devices(rows: pl.DataFrame) -> pl.DataFrame:
    """Average over devices per (host, window); the means still add up exactly.

    Beside the means are `busy_least_ps` and `busy_most_ps`, the range of
    `device_busy_ps` over the devices.
    """
    keys = ["host", "window"]
    first = (
        *("step", "name", "marker", "batches"),
        *("start_ps", "window_ps", "open_end", "flags"),
    )
    grouped = rows.group_by(keys, maintain_order=True).agg(
        *(pl.col(name).first() for name in first),
        pl.col("gap_ps").first(),
        pl.col("device_step_time_ps").max(),
        pl.col("device").drop_nulls().len().alias("devices"),
        pl.len().alias("rows"),
        pl.col("device_busy_ps").min().alias("busy_least_ps"),
        pl.col("device_busy_ps").max().alias("busy_most_ps"),
        *(_sum(name) for name in BUCKET_COLUMNS),
        *((_sum(name) / pl.len()).round().cast(pl.Int64) for name in _MEASURES),
    )
    if grouped["rows"].max() in (None, 1):
        return grouped
    return _with_exact_means(grouped)


def _sum(name: str) -> pl.Expr:
    """Return the sum of a column, null where one of the values is."""
    column = pl.col(name)
    return pl.when(column.null_count() == 0).then(column.sum())


def _with_exact_means(sums: pl.DataFrame) -> pl.DataFrame:
    """Divide by the number of rows with largest-remainder rounding."""
    known = [name for name in BUCKET_COLUMNS if not sums[name].null_count()]
    totals = np.stack([sums[name].to_numpy() for name in known])
    count = sums["rows"].to_numpy().astype(np.int64)
    share, remainder = totals // count, totals % count
    lacking = sums["window_ps"].to_numpy() - share.sum(axis=0)
    # Position of each bucket among the remainders of its window, the largest first.
    rank = np.argsort(np.argsort(-remainder, axis=0, kind="stable"), axis=0)
    share += rank < lacking
    return sums.with_columns(
        pl.Series(name, values) for name, values in zip(known, share, strict=True)
    )


def reasons_of(hosts: Sequence[HostSteps]) -> Mapping[str, Unavailable]:
    """Return by bucket why some host could not look at it."""
    found: dict[str, Unavailable] = {}
    for host in hosts:
        found = {**host.breakdown.missing, **found}
    return found
