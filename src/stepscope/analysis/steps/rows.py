"""The rows of step tables: one per (host, device, step)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.analysis.results.tables import complete_sum, package_reasons
from stepscope.derive.account.time_by_cause import account
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.input_pipeline.input_ops import input_ops
from stepscope.derive.step_time.host_classes import host_classes
from stepscope.derive.step_time.owners import BUSY_OWNERS, CATEGORIES, OWNERS
from stepscope.derive.step_windows.windows import typical_rows, windows
from stepscope.derive.steps.chosen import steps
from stepscope.derive.verdicts.input_verdict import with_starved_time
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import nullable_series
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.derive.account.time_by_cause import Account
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps

_WHY: Final = package_reasons("steps")

OWNER_COLUMNS: Final = tuple(f"{owner.name}_ps" for owner in OWNERS)
#: Category of the unexplained time; it is always known.
_OTHER_CATEGORY: Final = OWNERS[-1].category
#: Code of the reason that the run has no device, which does not mean lost data.
NO_DEVICE: Final = "NO_DEVICE_PLANE"
#: Categories of device work; on a host without devices, only host events show them.
_OF_DEVICES: Final = frozenset({"output", "device_collectives"})
_BETWEEN_DEVICES: Final = "device_collectives"
_BUSY: Final = frozenset(BUSY_OWNERS)
#: Measured columns in addition to time by cause; they are averaged as well.
_MEASURES: Final = ("device_busy_ps", "device_working_ps", "idle_input_ps")

NO_BATCH_REQUESTS: Final = _WHY["unasked"]
#: Columns of time that may be waits for batches, if no batch request was recorded.
UNKNOWN_CAUSE_COLUMNS: Final = ("between_ps", "unexplained_ps")


class HostSteps(Frozen, frozen=True, dict=True):
    """The windows of one host with their time by cause (owner).

    Attributes:
        steps: The steps, or why there are none and the profile is the only window.
        rows: One row per (window, device): `host`, `window`, `step`, `name`, `marker`,
            `batches`, `start_ps`, `window_ps`, `open_end`, `flags`, `host_period_ps`,
            `device`, `gap_ps`, `device_step_time_ps`, the owners, and further measures
            such as `starved_ps`. `step` is null without steps.
        any_device: Rows as in `rows`, with all devices as one, which is busy if any is.
        missing: Cause → why its time could not be measured on this host. Waiting for
            input is also missing if no event shows a request for a batch and time of
            unknown cause may be such a wait.
    """

    host: str
    steps: Steps | Unavailable
    windows: Windows
    account: Account
    rows: pl.DataFrame
    any_device: pl.DataFrame
    missing: Mapping[str, Unavailable]

    @property
    def has_device(self) -> bool:
        """Whether the activity of any device could be analysed."""
        return self.rows["device"].null_count() < len(self.rows)

    @cached_property
    def by_window(self) -> pl.DataFrame:
        """One row per window, in time order, with `end_ps`."""
        return self.rows.unique("window", maintain_order=True).with_columns(
            end_ps=pl.col("start_ps") + pl.col("window_ps")
        )

    @cached_property
    def means(self) -> pl.DataFrame:
        """The rows of steps, averaged over devices by `mean_over_devices`."""
        return mean_over_devices(self.rows)

    @cached_property
    def measured(self) -> pl.DataFrame:
        """The rows that statistics use if no flag is excluded, by `typical_rows`."""
        return typical_rows(self.rows)


def host_steps(
    profile: ProfileData, host: str, *, marker: str | None = None
) -> HostSteps | Unavailable:
    """Return the rows of one host, or why there are none.

    Args:
        marker: Only steps with this marker name (train, test, …); None for all.
    """
    return profile.kept(_host_steps, host, marker)


def _host_steps(
    profile: ProfileData, host: str, marker: str | None
) -> HostSteps | Unavailable:
    detected = profile.derived(host, steps)
    step_windows = profile.derived(host, windows)
    charged = profile.derived(host, account)
    if isinstance(step_windows, Unavailable):
        return step_windows
    if isinstance(charged, Unavailable):
        return charged
    named = step_windows.rows.with_row_index("window").select(
        pl.lit(host).alias("host"),
        pl.col("window").cast(pl.Int32),
        "step_row",
        "start_ps",
        "open_end",
        "flags",
        "host_period_ps",
        (pl.col("gap_end_ps") - pl.col("gap_start_ps")).alias("gap_ps"),
    )
    if isinstance(detected, Unavailable):
        named = named.with_columns(
            step=pl.lit(None, pl.Int64),
            name=pl.lit("profile (no steps)"),
            marker=pl.lit(None, pl.String),
            batches=pl.lit(None, pl.Int64),
        )
    else:
        columns = pl.col("step", "name", "marker", "batches")
        named = named.hstack(detected.rows.select(columns.gather(named["step_row"])))
        if marker is not None:
            named = named.filter(pl.col("marker") == marker)
    rows = with_starved_time(
        profile, host, _join_charges(charged.rows, named, step_windows.device_spans)
    ).with_columns(pl.col("idle_input_ps") + pl.col("starved_ps"))
    any_device = _join_charges(charged.any_device, named, step_windows.device_spans)
    missing = charged.missing
    if (
        "input" not in missing
        and may_hide_input(rows)
        and not shows_batch_requests(profile, host)
    ):
        missing = {**missing, "input": NO_BATCH_REQUESTS}
    return HostSteps(host, detected, step_windows, charged, rows, any_device, missing)


def _join_charges(
    charged: pl.DataFrame, named: pl.DataFrame, spans: pl.DataFrame
) -> pl.DataFrame:
    """Add names and device step times to the rows.

    A row without a device has the longest device step time of its step.
    """
    rows = named.join(charged, on="window", how="inner", maintain_order="left_right")
    step, device = handles(rows, "step_row"), handles(rows, "device")
    of_step, of_device = handles(spans, "step_row"), handles(spans, "device")
    # The last row, at index -1, stands for no step; the last column for no device.
    times = np.full(
        [
            2 + int(max(row_codes.max(initial=-1), span_codes.max(initial=-1)))
            for row_codes, span_codes in ((step, of_step), (device, of_device))
        ],
        -1,
        np.int64,
    )
    times[of_step, of_device] = ints(spans, "device_step_time_ps")
    times[:, -1] = times.max(axis=1)
    step_time = times[step, device]
    return rows.with_columns(
        nullable_series("device_step_time_ps", step_time, step_time >= 0)
    )


def present_categories(
    rows: pl.DataFrame, why: Mapping[str, Unavailable]
) -> tuple[list[str], list[str]]:
    """Return categories and causes (owners) that can be shown, in their order.

    A cause is shown if every row measured it; if it is in `why`, its time must also be
    positive. A category is shown if any of its causes is. If time of a category was not
    recorded (for other reasons than a missing device), the category is shown only if
    its remaining time is positive, as a lower bound: a zero would mean no time at all.
    """
    nulls = {column.name: column.null_count() for column in rows.get_columns()}
    full = {
        owner.name
        for owner in OWNERS
        if len(rows) and not nulls[f"{owner.name}_ps"]
        if owner.name not in why or rows[f"{owner.name}_ps"].sum()
    }
    shown = set()
    for category in CATEGORIES:
        parts = [owner.name for owner in OWNERS if owner.category == category]
        known = [name for name in parts if name in full]
        lost = [
            name
            for name in parts
            if name in why and (why[name].code != NO_DEVICE or category in _OF_DEVICES)
        ]
        has_time = any(rows[f"{name}_ps"].sum() for name in known)
        if category == _BETWEEN_DEVICES and not _BUSY & set(known):
            # Without devices, waits for other workers are in the category `other`.
            continue
        if known and (not lost or category == _OTHER_CATEGORY or has_time):
            shown.add(category)
    return (
        [name for name in CATEGORIES if name in shown],
        [owner.name for owner in OWNERS if owner.name in full],
    )


def category_columns(
    rows: pl.DataFrame, why: Mapping[str, Unavailable]
) -> pl.DataFrame:
    """Return `<category>_ps` of every category that can be shown.

    Time by a cause that only some rows measured counts as unexplained, so that the
    categories of each row still add up to its window.

    Args:
        rows: Rows with columns of time by cause.
        why: Cause → why its time could not be measured.
    """
    categories, owners = present_categories(rows, why)
    of_category = {
        name: [
            f"{owner.name}_ps"
            for owner in OWNERS
            if owner.category == name and owner.name in owners
        ]
        for name in categories
    }
    stray = [
        f"{owner.name}_ps"
        for owner in OWNERS
        if owner.name not in owners or owner.category not in categories
    ]
    summed = {
        f"{name}_ps": pl.sum_horizontal(*parts) for name, parts in of_category.items()
    }
    if stray and "other" in categories:
        summed["other_ps"] = summed["other_ps"] + pl.sum_horizontal(*stray)
    return rows.select(**summed)


def mean_over_devices(rows: pl.DataFrame) -> pl.DataFrame:
    """Average over devices per (host, window); means are rounded without a loss.

    Columns `busy_least_ps` and `busy_most_ps` are the range of `device_busy_ps`.
    """
    keys = ["host", "window"]
    grouped = rows.group_by(keys, maintain_order=True).agg(
        pl.col("step", "name", "marker", "batches", "start_ps", "window_ps").first(),
        pl.col("open_end", "flags", "gap_ps").first(),
        pl.col("device_step_time_ps").max(),
        pl.col("device").drop_nulls().len().alias("devices"),
        pl.len().alias("rows"),
        pl.col("device_busy_ps").min().alias("busy_least_ps"),
        pl.col("device_busy_ps").max().alias("busy_most_ps"),
        *(complete_sum(pl.col(name)) for name in OWNER_COLUMNS),
        *(
            (complete_sum(pl.col(name)) / pl.len()).round().cast(pl.Int64)
            for name in _MEASURES
        ),
    )
    if grouped["rows"].max() in (None, 1):
        return grouped
    # Largest-remainder rounding.
    known = [name for name in OWNER_COLUMNS if not grouped[name].null_count()]
    totals = np.stack([grouped[name].to_numpy() for name in known])
    count = grouped["rows"].to_numpy().astype(np.int64)
    share, remainder = totals // count, totals % count
    lacking = grouped["window_ps"].to_numpy() - share.sum(axis=0)
    # Rank of each cause's rounding remainder in its window, largest first.
    rank = np.argsort(np.argsort(-remainder, axis=0, kind="stable"), axis=0)
    share += rank < lacking
    return grouped.with_columns(
        pl.Series(name, values) for name, values in zip(known, share, strict=True)
    )


def why_no_category(
    category: str, why: Mapping[str, Unavailable]
) -> Unavailable | None:
    """Return why a category is left out; None if none of its causes is missing.

    Any other reason takes precedence over a missing device.
    """
    reasons = [
        why[owner.name]
        for owner in OWNERS
        if owner.category == category and owner.name in why
    ]
    lost = [reason for reason in reasons if reason.code != NO_DEVICE]
    return next(iter([*lost, *reasons]), None)


def why_no_owner(hosts: Sequence[HostSteps]) -> Mapping[str, Unavailable]:
    """Return cause of time → why its time could not be measured on some host."""
    by_owner: dict[str, Unavailable] = {}
    for host in hosts:
        by_owner = {**host.missing, **by_owner}
    return by_owner


def shows_batch_requests(profile: ProfileData, host: str) -> bool:
    """Return whether the recording of a host shows a request for a batch."""
    classes = profile.derived(host, host_classes)
    if not isinstance(classes, Unavailable) and len(classes.input_wait):
        return True
    ops = profile.derived(host, input_ops)
    return not isinstance(ops, Unavailable) and ops.pipeline_calls > 0


def may_hide_input(rows: pl.DataFrame) -> bool:
    """Return whether rows show no wait for input but have time of unknown cause."""
    typical = typical_rows(rows)
    waits = typical["input_ps"]
    if waits.null_count() or waits.sum():
        return False
    return bool(typical.select(pl.sum_horizontal(UNKNOWN_CAUSE_COLUMNS).sum()).item())


def step_number_at(profile: ProfileData, host: str, time_ps: int) -> int | None:
    """Return the number of the step whose window contains an instant; None for none.

    Args:
        time_ps: Time since the start of the host's profile.
    """
    step_windows = profile.derived(host, windows)
    stepped = profile.derived(host, steps)
    if isinstance(step_windows, Unavailable) or isinstance(stepped, Unavailable):
        return None
    containing = step_windows.rows.filter(
        (pl.col("start_ps") <= time_ps) & (pl.col("end_ps") > time_ps)
    )
    if not len(containing) or containing["step_row"][0] is None:
        return None
    number: int | None = stepped.rows["step"][containing["step_row"][0]]
    return number
