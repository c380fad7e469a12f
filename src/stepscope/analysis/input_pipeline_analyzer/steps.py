"""The device side of the input analysis: each step, and its time lost to input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.results.tables import package_reasons, tool_tables
from stepscope.analysis.steps.measured_hosts import measured_rows
from stepscope.analysis.steps.rows import NO_DEVICE
from stepscope.analysis.steps.summary import Step, step_list
from stepscope.derive.columns.arrays import ints
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.input_between_steps import input_between_steps
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.steps.rows import HostSteps
    from stepscope.array_types import Int64s
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.step_time.input_between_steps import InputBetweenSteps

_WHY: Final = package_reasons("input_pipeline_analyzer")

DEVICE_ROWS: Final = tool_tables("input_pipeline_analyzer")["devices"]


class InputStep(Step, frozen=True, kw_only=True):
    """One step of one host, with the time of its input.

    Attributes:
        counted: Whether the statistics include the step.
        input_ms: Time spent waiting for input and transferring it, mean over the
            devices; null if unknown.
        input_wait_ms: Time in which the device is idle and the host waits for input,
            mean over the devices. If no batch fetch was recorded, idle time before the
            copy of a batch is included. Null if unknown.
        input_transfer_ms: Time of input transfers that do not overlap with other device
            work, mean over the devices; null if unknown.
        input_percent_avg: `input_ms` as a share of the step; null if unknown.
        input_percent_min: Share of input in the step on the device with the smallest
            share; null if unknown.
        input_percent_max: Share of input in the step on the device with the largest
            share; null if unknown.
        consumer_wait_ms: Time in which the program waited for input, while a device
            worked or not; null if unknown.
    """

    counted: bool
    input_ms: float | None
    input_wait_ms: float | None = None
    input_transfer_ms: float | None = None
    input_percent_avg: float | None
    input_percent_min: float | None
    input_percent_max: float | None
    consumer_wait_ms: float | None = None


class ConsumerWait(msgspec.Struct, frozen=True, kw_only=True):
    """How long the program waited for its next batch, over the counted steps.

    Attributes:
        total_ms: Time of all waits, on the threads that drive the steps.
        per_step_ms: Mean waiting time per step.
        exposed_ms: Waiting time that is charged to steps as input; mean over devices.
        exposed_per_step_ms: Mean exposed waiting time per step.
        hidden_ms: Waiting time in which a device worked, or was idle for another
            reason; null without a device.
        waits: Number of uninterrupted waits.
        slow_waits: Number of waits longer than 50 µs: the batch was not ready.
        longest_ms: Length of the longest wait.
    """

    total_ms: float
    per_step_ms: float
    exposed_ms: float
    exposed_per_step_ms: float
    hidden_ms: float | None
    waits: int
    slow_waits: int
    longest_ms: float


class BetweenSteps(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting for input between the markers of the steps.

    A wait between two steps' markers counts as input of the earlier step, because a
    step lasts until the next step begins.

    Attributes:
        outside_markers: Whether the iterator is called outside the markers: at least
            half of the gaps contain waiting, and no marker does.
        wait_ms: Total waiting time between markers.
        gaps: Number of gaps between markers.
        gaps_with_wait: Number of gaps between markers that contain waiting.
    """

    outside_markers: bool
    wait_ms: float
    gaps: int
    gaps_with_wait: int


def input_steps(
    run: ProfileData,
    host: HostSteps,
    *,
    excluded_flags: Sequence[str],
    waits: Spans | None,
    wait_known: bool,
) -> tuple[InputStep, ...]:
    """Return every window of a host with the time of its input.

    Args:
        waits: Spans in which the host's step threads wait for batches; None if no
            request for a batch was recorded.
        wait_known: Whether a waiting time of 0 means that there was no waiting.
    """
    parts = _input_parts(host, host.rows, wait_known=wait_known)
    share = 100.0 * pl.col("input_ps") / pl.col("window_ps")
    known = pl.when(pl.col("window_ps") > 0).then(share)
    grouped = parts.group_by("window", maintain_order=True).agg(
        *(
            pl.when(pl.col(name).null_count() == 0).then(
                pl.col(name).mean() / PS_PER_MS
            )
            for name in ("input_ps", "wait_ps", "transfer_ps")
        ),
        known.mean().alias("avg"),
        known.min().alias("min"),
        known.max().alias("max"),
    )
    counted = set(measured_rows(host, excluded_flags)["window"].to_list())
    waited: list[float | None] = [None] * len(grouped)
    if waits is not None:
        windows = host.windows.rows[grouped["window"]]
        inside = waits.within(ints(windows, "start_ps"), ints(windows, "end_ps"))
        waited = (inside / PS_PER_MS).tolist()
    return tuple(
        InputStep(
            # A shallow copy of the step's fields, as a dictionary.
            **{name: getattr(step, name) for name in Step.__struct_fields__},
            counted=row["window"] in counted,
            input_ms=row["input_ps"],
            input_wait_ms=row["wait_ps"],
            input_transfer_ms=row["transfer_ps"],
            input_percent_avg=row["avg"],
            input_percent_min=row["min"],
            input_percent_max=row["max"],
            consumer_wait_ms=wait,
        )
        # This loop runs once per step, not per event: a page lists every step.
        for step, row, wait in zip(
            step_list(run, host), grouped.iter_rows(named=True), waited, strict=True
        )
    )


def _input_parts(
    host: HostSteps, rows: pl.DataFrame, *, wait_known: bool
) -> pl.DataFrame:
    """Return waiting time, transfer time and their sum, per row; null if unknown.

    If only waiting or only transfer is known, the sum is that time, or null if it is 0.
    """
    wait = pl.col("input_ps") + pl.col("starved_ps")
    if not wait_known:
        wait = pl.when(wait > 0).then(wait)
    no_transfers = host.missing.get("copy_in")
    no_device = no_transfers is not None and no_transfers.code == NO_DEVICE
    total = pl.col("wait_ps") if no_device else pl.col("wait_ps") + pl.col("copy_in_ps")
    parts = [pl.when(pl.col(name) > 0).then(name) for name in ("wait_ps", "copy_in_ps")]
    return (
        rows.select(
            "window", "device", "window_ps", "copy_in_ps", wait.alias("wait_ps")
        )
        .with_columns(input_ps=pl.coalesce(total, *parts))
        .rename({"copy_in_ps": "transfer_ps"})
    )


def device_rows(
    host: HostSteps, *, excluded_flags: Sequence[str], wait_known: bool
) -> pl.DataFrame:
    """Return the share of input in each device's time, over the counted steps.

    Args:
        wait_known: Whether a waiting time of 0 means that there was no waiting.
    """
    counted = measured_rows(host, excluded_flags)
    parts = _input_parts(host, counted, wait_known=wait_known)
    total_ps = pl.col("window_ps").sum()
    steps = pl.len() if host.windows.has_steps else pl.lit(0)
    return (
        parts.group_by("device", maintain_order=True)
        .agg(
            steps.alias("steps"),
            *(
                pl.when((pl.col(part).null_count() == 0) & (total_ps > 0))
                .then(100.0 * pl.col(part).sum() / total_ps)
                .alias(name)
                for name, part in _SHARES.items()
            ),
        )
        .with_columns(host=pl.lit(host.host))
        .select(DEVICE_ROWS.cast_columns())
    )


_SHARES: Final = {
    "input_percent": "input_ps",
    "input_wait_percent": "wait_ps",
    "input_transfer_percent": "transfer_ps",
}


def consumer_wait(
    hosts: Sequence[tuple[HostSteps, Spans]], *, excluded_flags: Sequence[str]
) -> tuple[ConsumerWait | None, tuple[Missing, ...]]:
    """Add up the waiting of the step threads of some hosts; None without windows.

    Args:
        hosts: Each host with the spans in which its step threads wait for input.
    """
    total = exposed = windows = 0
    lengths: list[Int64s] = []
    for host, waits in hosts:
        counted = measured_rows(host, excluded_flags)
        window_rows = counted["window"].unique().sort().to_numpy()
        starts = ints(host.windows.rows, "start_ps")[window_rows]
        ends = ints(host.windows.rows, "end_ps")[window_rows]
        inside = waits & Spans.from_events(starts, ends - starts)
        total += inside.length_ps
        # Input time also includes blocking copies and functions that fetch data, which
        # are not waits for a batch.
        idle = [
            (inside & device.idle["input"]).length_ps for device in host.account.devices
        ]
        exposed += round(sum(idle) / len(idle))
        lengths.append(inside.end_ps - inside.start_ps)
        windows += len(window_rows)
    if not windows:
        return None, ()
    durations = np.concatenate(lengths)
    hides = all(host.has_device for host, _ in hosts)
    return ConsumerWait(
        total_ms=total / PS_PER_MS,
        per_step_ms=total / windows / PS_PER_MS,
        exposed_ms=exposed / PS_PER_MS,
        exposed_per_step_ms=exposed / windows / PS_PER_MS,
        hidden_ms=(total - exposed) / PS_PER_MS if hides else None,
        waits=len(durations),
        slow_waits=int((durations > THRESHOLDS.slow_fetch.value).sum()),
        longest_ms=int(durations.max(initial=0)) / PS_PER_MS,
    ), () if hides else (_WHY["no_device_to_hide"].missing_field(_HIDDEN),)


_HIDDEN: Final = "consumer_wait.hidden_ms"


def between_steps(
    run: ProfileData, hosts: Sequence[HostSteps]
) -> BetweenSteps | Unavailable:
    """Measure the waits between step markers, over all hosts with markers."""
    host_waits: list[InputBetweenSteps] = []
    for host in hosts:
        host_wait = run.derived(host.host, input_between_steps)
        if isinstance(host_wait, Unavailable):
            return host_wait
        if host_wait is not None:
            host_waits.append(host_wait)
    if not host_waits:
        return _WHY["no_markers"]
    return BetweenSteps(
        outside_markers=any(wait.outside for wait in host_waits),
        wait_ms=sum(wait.wait_ps for wait in host_waits) / PS_PER_MS,
        gaps=sum(wait.gaps for wait in host_waits),
        gaps_with_wait=sum(wait.gaps_with_wait for wait in host_waits),
    )
