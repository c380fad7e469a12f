"""The Structs of `pod_viewer`'s result, and functions that fill in the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import polars as pl

from stepscope.analysis.pod_viewer.comparison import SlowestWorker, StepComparison
from stepscope.analysis.results.result import ToolResult
from stepscope.analysis.steps.rows import category_columns, present_categories
from stepscope.derive.step_time.owners import CATEGORIES, OWNERS
from stepscope.trace.quality import QualityNote
from stepscope.unavailable import Missing
from stepscope.units import PS_PER_MS, in_unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.analysis.steps.rows import HostSteps


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """One worker in one step.

    Attributes:
        host: Host of the worker.
        device: Ordinal of the worker's device; null for a host without devices.
        chip_id: Number of the device in TensorBoard's pod viewer; null without devices.
        node_id: Number of the worker's host among the hosts of the run.
        step: Number of the step; null for the whole profile.
        total_ms: Length of the step on this worker, until the next step begins.
        device_step_time_ms: Time from the first to the last device activity of the
            step; null without device activity.
        start_ms: Start of the step on its host's clock, since the recording's start.
        aligned_start_ms: Start of the step on the clock of the reference host; null if
            the two clocks cannot be aligned.
        flags: Flags of the step's window.
        breakdown_ms: Category → time; the values add up to `total_ms`.
        breakdown_detail_ms: Owner → time; the values add up to `total_ms`.
        bottleneck: The category with the most time.
        device_work_ms: Time of device work without collectives; null without a device.
        collective_wait_ms: Part of the collectives in `breakdown_ms` in which the
            worker waited for other workers; without a device, part of the collectives
            of its threads. Null if unknown.
        collective_transfer_ms: Part of the collectives in `breakdown_ms` in which data
            was transferred; null if unknown.
        collective_untold_ms: Part of the collectives in `breakdown_ms` that may be
            waiting or transfer; null if unknown.
        waited_for_ms: Time that the other workers waited for this worker, summed over
            them; null if unknown.
    """

    host: str
    device: int | None
    chip_id: int | None
    node_id: int
    step: int | None
    total_ms: float
    device_step_time_ms: float | None
    start_ms: float
    aligned_start_ms: float | None
    flags: tuple[str, ...]
    breakdown_ms: dict[str, float]
    breakdown_detail_ms: dict[str, float]
    bottleneck: str
    device_work_ms: float | None
    collective_wait_ms: float | None
    collective_transfer_ms: float | None
    collective_untold_ms: float | None
    waited_for_ms: float | None


class WorkerSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One worker over its counted steps; a time is the mean of its known values.

    Attributes:
        host: Host of the worker.
        device: Ordinal of the worker's device; null for a host without devices.
        steps: Number of counted steps; 0 if the whole recording is the only window.
        slowest_in: Number of steps in which the worker was the slowest.
        waited_for_ms: Mean over the counted steps: time that the other workers waited
            for this worker, summed over them; null if unknown.
        collective_wait_ms: Mean over the counted steps: part of the collectives in
            `breakdown_ms` spent waiting for other workers; null if unknown.
        collective_transfer_ms: Mean over the counted steps: part of the collectives in
            `breakdown_ms` in which data was transferred; null if unknown.
        collective_untold_ms: Mean over the counted steps: part of the collectives in
            `breakdown_ms` that may be waiting or transfer; null if unknown.
        total_ms: Mean length of a step on this worker, until the next step begins.
        device_work_ms: Mean over the counted steps: time of device work other than
            collectives; null without a device.
        device_step_time_ms: Mean over the counted steps: time from the first to the
            last device activity of the step; null without device activity.
        bottleneck: The category with the most time.
        breakdown_ms: Category → mean time; the values add up to `total_ms`.
    """

    host: str
    device: int | None
    steps: int
    slowest_in: int
    total_ms: float
    bottleneck: str
    waited_for_ms: float | None
    collective_wait_ms: float | None
    collective_transfer_ms: float | None
    collective_untold_ms: float | None
    device_work_ms: float | None
    device_step_time_ms: float | None
    breakdown_ms: dict[str, float]


#: Field of a result → column of `worker_rows`.
_TIMES: Final = {
    "total_ms": "window_ps",
    "device_step_time_ms": "device_step_time_ps",
    "device_work_ms": "work_ps",
    "collective_wait_ms": "collective_wait_ps",
    "collective_transfer_ms": "transfer_ps",
    "collective_untold_ms": "untold_ps",
    "waited_for_ms": "waited_for_ps",
}
_STARTS: Final = {"start_ms": "start_ps", "aligned_start_ms": "aligned_start_ps"}


def step_workers(
    rows: pl.DataFrame, hosts: Mapping[str, HostSteps]
) -> dict[int, list[Worker]]:
    """Return slot (index of a step of the run) → the step's workers.

    Args:
        hosts: Host → its steps, in the order of the run.
    """
    node = {name: number for number, name in enumerate(hosts)}
    by_slot: dict[int, list[Worker]] = {slot: [] for slot in rows["slot"].unique()}
    for (name,), host_rows in rows.partition_by(
        "host", as_dict=True, maintain_order=True
    ).items():
        parts = _columns_ms(category_columns(host_rows, hosts[name].missing), "_ps")
        _, names = present_categories(host_rows, hosts[name].missing)
        known = [owner.name for owner in OWNERS if owner.name in names]
        detail = _columns_ms(host_rows.select(f"{owner}_ps" for owner in known), "_ps")
        times = _columns_ms(host_rows.select(**(_TIMES | _STARTS)))
        # This loop runs once per worker and step, not per event.
        for row, time, split, fine in zip(
            host_rows.select("slot", "host", "device", "step", "flags").iter_rows(
                named=True
            ),
            times.iter_rows(named=True),
            parts.iter_rows(named=True),
            detail.iter_rows(named=True),
            strict=True,
        ):
            by_slot[row["slot"]].append(
                Worker(
                    host=row["host"],
                    device=row["device"],
                    chip_id=row["device"],
                    node_id=node[name],
                    step=row["step"],
                    flags=tuple(row["flags"]),
                    **time,
                    breakdown_ms=split,
                    breakdown_detail_ms=fine,
                    bottleneck=_largest_category(split),
                )
            )
    return {
        slot: sorted(workers, key=lambda worker: node[worker.host])
        for slot, workers in by_slot.items()
    }


def worker_summaries(
    rows: pl.DataFrame,
    hosts: Sequence[HostSteps],
    compared: Mapping[int, StepComparison],
) -> tuple[WorkerSummary, ...]:
    """Summarise each worker over its counted steps.

    Args:
        compared: Slot → comparison of its workers.
    """
    summaries = []
    for host in hosts:
        host_rows = rows.filter((pl.col("host") == host.host) & pl.col("counted"))
        # A category is shown for all devices of a host or for none.
        split = category_columns(host_rows, host.missing)
        both = host_rows.drop(split.columns, strict=False).hstack(split)
        for device_rows in both.partition_by("device", maintain_order=True):
            parts = _mean_ms(device_rows.select(split.columns), "_ps")
            device = device_rows["device"][0]
            slowest = [compared[slot].slowest for slot in device_rows["slot"].to_list()]
            times: dict[str, Any] = _mean_ms(device_rows.select(**_TIMES))
            summaries.append(
                WorkerSummary(
                    host=host.host,
                    device=device,
                    steps=len(device_rows) if host.windows.has_steps else 0,
                    slowest_in=sum(
                        worker is not None
                        and (worker.host, worker.device) == (host.host, device)
                        for worker in slowest
                    ),
                    **times,
                    bottleneck=_largest_category(parts),
                    breakdown_ms=parts,
                )
            )
    return tuple(summaries)


def _mean_ms(frame: pl.DataFrame, suffix: str = "") -> dict[str, Any]:
    """Return the mean of each column in milliseconds; None without known values."""
    sums = frame.select(pl.all().drop_nulls().sum()).row(0)
    counts = frame.select(pl.all().drop_nulls().len()).row(0)
    return {
        name.removesuffix(suffix): total / count / PS_PER_MS if count else None
        for name, total, count in zip(frame.columns, sums, counts, strict=True)
    }


def _columns_ms(frame: pl.DataFrame, suffix: str = "") -> pl.DataFrame:
    """Return the columns in milliseconds, and remove a suffix from their names.

    Values are divided one by one, because dividing a frame can change the last digit:
    0.6 would become 0.6000000000000001.
    """
    return pl.DataFrame(
        [
            pl.Series(
                column.name.removesuffix(suffix),
                [in_unit(ps, PS_PER_MS) for ps in column.to_list()],
                pl.Float64,
            )
            for column in frame
        ]
    )


def _largest_category(parts: Mapping[str, float]) -> str:
    """Return the category with the most time; of equal ones the first in order."""
    return max((name for name in CATEGORIES if name in parts), key=parts.__getitem__)


class Category(msgspec.Struct, frozen=True, kw_only=True):
    """One of the ten categories of step time.

    Attributes:
        id: Number of the category in TensorBoard's pod viewer, which has one category
            for both precisions.
        category: Name of the category in `breakdown_ms`.
        name: Category of TensorFlow's guides that contains this category.
    """

    id: int
    category: str
    name: str


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """How well the times of a host can be compared with those of other hosts.

    Attributes:
        host: Name of the host.
        source: How the host's clock is aligned: `reference` (other hosts are aligned to
            it), `collectives` (all members leave them together), `recorded` (unchecked
            absolute times of both hosts), `steps` (shared steps) or `none`.
        shift_us: What to add to a time of this host to get the time on the reference
            host's clock, in µs; null if the two clocks cannot be aligned.
        offset_us: How far the host's recorded clock is ahead of the reference host's
            clock, in µs; null if unknown.
        doubt_us: Error of the alignment if the members of a collective leave it
            together, in µs; null if unknown.
        bound_us: Largest possible error of the alignment, even if members leave a
            collective at different times, in µs; null if unknown.
        samples: Number of collectives or steps used for the alignment.
    """

    host: str
    source: str
    shift_us: float | None
    offset_us: float | None
    doubt_us: float | None
    bound_us: float | None
    samples: int


class PodStep(StepComparison, frozen=True, kw_only=True):
    """One step of the run, on all workers.

    Attributes:
        step: Number of the step; null for the whole profile.
        name: Name of the step; null if it has none.
        counted: Whether statistics include the step.
        complete: Whether all hosts that run in lock step have the step.
        hosts: Hosts that ran the step; one host if hosts do not run in lock step.
        workers: One entry per worker of the step.
    """

    step: int | None
    name: str | None
    counted: bool
    complete: bool
    hosts: tuple[str, ...]
    workers: tuple[Worker, ...]


class PodViewerResult(ToolResult, frozen=True, kw_only=True):
    """Every step on every worker; `missing` explains nulls.

    Attributes:
        workers: Each worker, with means over its steps.
        steps: Every step of the run, in order.
        slowest: The worker that delays the other workers; null if none does.
        imbalance: Median, over the steps, of (largest device work / median device work
            - 1); null if unknown.
        start_skew_ms: Median over the steps of the time between the first and the last
            worker that begins to compute; null if unknown.
        hosts_matched_by: How the steps of several hosts were matched: `step_num`,
            `time` or `none`; `one_host` for a single host.
        in_lock_step: Whether the hosts take part in the same steps.
        processes: Number of processes of the run; null if not recorded.
        clocks: How well the times of each host can be compared with other hosts'.
        collectives_matched: Number of collective calls matched with other workers.
        collectives_unmatched: Number of collective calls without a match on other
            workers; the waiting time in these calls is unknown.
        unused_devices: Host → devices that its recording lists without any activity.
            These devices are not idle workers, because other processes may use them.
        categories: Names of the categories, and numbers in TensorBoard's pod viewer.
        quality: Doubts that follow from comparing all hosts.
        missing: Null fields and left-out categories with their reasons.
        inputs: Host → number of rows read from each table.
    """

    workers: tuple[WorkerSummary, ...]
    steps: tuple[PodStep, ...]
    slowest: SlowestWorker | None
    imbalance: float | None
    start_skew_ms: float | None
    hosts_matched_by: str
    in_lock_step: bool
    processes: int | None
    clocks: tuple[Clock, ...]
    collectives_matched: int
    collectives_unmatched: int
    unused_devices: dict[str, tuple[int, ...]]
    categories: tuple[Category, ...]
    quality: tuple[QualityNote, ...]
    missing: tuple[Missing, ...]
    inputs: dict[str, dict[str, int | None]]
