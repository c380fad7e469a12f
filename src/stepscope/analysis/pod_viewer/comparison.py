"""Comparison of workers: which is slow, by how much, and in which category."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import polars as pl

from stepscope.analysis.results.tables import package_reasons
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_MS, in_unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.derive.collectives.waits import HostClock
    from stepscope.unavailable import Unavailable

_WHY: Final = package_reasons("pod_viewer")

#: Kinds of evidence for the slowest worker, strongest first.
BASES: Final = ("collectives", "device_work", "step_time")
#: A cause that is not a category: the worker began the step later than other workers.
LATE_START: Final = "late_start"
#: Clock alignments too weak to compare times inside a step.
_NO_SKEW: Final = ("none", "steps")


class WorkerName(msgspec.Struct, frozen=True, kw_only=True):
    """One device of one host; `device` is null for a host without devices."""

    host: str
    device: int | None


class StepComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Comparison of the workers of one step; fields are null if there is one worker.

    Attributes:
        start_skew_ms: Time between the first and the last worker that begins to
            compute; null if unknown or for one worker.
        start_skew_doubt_ms: Possible error of `start_skew_ms`, because each host has
            its own clock; 0 on one host, null if unknown.
        imbalance: Largest / median device work - 1, as a fraction; null if unknown.
        concurrency: Host → busy time summed over its devices / time in which any device
            was busy: the number of devices if they run in parallel, 1 if they run one
            at a time. Contains only hosts with several devices.
        slowest: The worker that delayed the other workers; null if workers differ by
            less than 0.5 % of the step.
        slowest_by: Evidence for the slowest worker: `collectives` (the other workers
            waited longest for it), `device_work` (its device worked longest) or
            `step_time`; null without a slowest worker.
        fastest: The fastest worker by `slowest_by`; null without a slowest worker.
    """

    start_skew_ms: float | None
    start_skew_doubt_ms: float | None
    imbalance: float | None
    concurrency: dict[str, float]
    slowest: WorkerName | None
    slowest_by: str | None
    fastest: WorkerName | None

    def withhold_work(self) -> StepComparison:
        """Return the comparison without fields that depend on all devices' work."""
        return msgspec.structs.replace(
            self, imbalance=None, slowest=None, slowest_by=None, fastest=None
        )


class SlowestWorker(msgspec.Struct, frozen=True, kw_only=True):
    """The worker that delays the other workers, over all compared steps.

    Attributes:
        host: Host of the worker.
        device: Ordinal of the worker's device; null for a host without devices.
        by: Evidence for the slowest worker: `collectives` (the other workers waited
            longest for it), `device_work` (its device worked longest) or `step_time`.
        steps: Number of steps in which it was the slowest worker.
        of_steps: Number of compared steps.
        waited_for_ms: Time that the other workers waited for this worker, summed over
            workers and steps; null unless `by` is `collectives`.
        cause: Where the worker spends the most extra time: a category, or `late_start`;
            null if it spends no extra time.
        excess_ms: Category or `late_start` → extra time of the worker compared with the
            median of the other workers, mean per step; without waiting in collectives.
    """

    host: str
    device: int | None
    by: str
    steps: int
    of_steps: int
    waited_for_ms: float | None
    cause: str | None
    excess_ms: dict[str, float]


def compare_steps(
    rows: pl.DataFrame, clocks: Mapping[str, HostClock], any_device: pl.DataFrame
) -> dict[int, StepComparison]:
    """Compare the workers of every step of the run.

    Args:
        any_device: `host`, `window`, `united_ps` (time in which any device is busy).

    Returns:
        Slot → comparison of its workers.
    """
    known = pl.DataFrame(
        [
            (clock.host, clock.doubt_ps, clock.source not in _NO_SKEW)
            for clock in clocks.values()
        ],
        schema={"host": pl.String, "doubt_ps": pl.Int64, "tied": pl.Boolean},
        orient="row",
    )
    numbered = rows.join(
        known, on="host", how="left", maintain_order="left"
    ).with_row_index("row")
    work = pl.col("work_ps")
    measured = (pl.len() > 1) & (work.null_count() == 0) & (work.median() > 0)
    begun = pl.col("begin_ps").is_not_null()
    begin = pl.col("begin_ps").filter(begun)
    # If the offset of a host's clock is unknown, its starts cannot be compared.
    one_host = pl.col("host").n_unique() == 1
    doubt = pl.col("doubt_ps").filter(begun)
    both = doubt.get(begin.arg_min()) + doubt.get(begin.arg_max())
    comparable = (begun.sum() > 1) & (one_host | pl.col("tied").all())
    compared = numbered.group_by("slot", maintain_order=True).agg(
        pl.len().alias("count"),
        pl.when(comparable).then(begin.max() - begin.min()).alias("skew_ps"),
        pl.when(comparable)
        .then(pl.when(one_host).then(0).otherwise(both))
        .alias("skew_doubt_ps"),
        pl.when(measured).then(work.max() / work.median() - 1.0).alias("imbalance"),
        *_scale_ends(),
    )
    names = [
        WorkerName(host=host, device=device)
        for host, device in rows.select("host", "device").rows()
    ]
    several = (
        rows.group_by("slot", "host", "window", maintain_order=True)
        .agg(pl.len().alias("devices"), pl.col("device_busy_ps").sum())
        .join(any_device, on=["host", "window"], maintain_order="left")
        .filter((pl.col("devices") > 1) & (pl.col("united_ps") > 0))
        .select("slot", "host", pl.col("device_busy_ps") / pl.col("united_ps"))
    )
    concurrency: dict[int, dict[str, float]] = {}
    for slot, host, value in several.rows():
        concurrency.setdefault(slot, {})[host] = value
    # This loop runs once per step, not per event: a page shows every step.
    return {
        row["slot"]: _step_comparison(row, names, concurrency.get(row["slot"], {}))
        for row in compared.iter_rows(named=True)
    }


def _scale_ends() -> list[pl.Expr]:
    """Return the slowest and fastest worker by each evidence, and if they differ."""
    alike = THRESHOLDS.worker_difference.value
    min_difference = pl.max_horizontal(alike * pl.col("window_ps").median(), 1.0)
    # Mean time for which each other worker waited for the most awaited worker.
    per_other = pl.col("waited_for_ps").max().fill_null(0) / (pl.len() - 1)
    work, window = pl.col("work_ps"), pl.col("window_ps")
    return [
        (per_other >= min_difference).alias("collectives"),
        _row_at_end("waited_for_ps").alias("collectives_slowest"),
        _row_at_end("collective_wait_ps").alias("collectives_fastest"),
        pl.when(work.null_count() == 0)
        .then(work.max() - work.min() >= min_difference)
        .alias("device_work"),
        _row_at_end("work_ps").alias("device_work_slowest"),
        _row_at_end("work_ps", descending=False).alias("device_work_fastest"),
        (window.max() - window.min() >= min_difference).alias("step_time"),
        _row_at_end("window_ps").alias("step_time_slowest"),
        _row_at_end("window_ps", descending=False).alias("step_time_fastest"),
    ]


def _row_at_end(column: str, *, descending: bool = True) -> pl.Expr:
    """Return the row with the largest (or smallest) value of a column, or the first."""
    return (
        pl.col("row")
        .sort_by(column, descending=descending, nulls_last=True, maintain_order=True)
        .first()
    )


def _step_comparison(
    row: dict[str, Any], names: Sequence[WorkerName], concurrency: dict[str, float]
) -> StepComparison:
    basis = None
    if row["count"] > 1:
        # If there are no devices, device work is null, so step time is used.
        scales = BASES[:2] if row["device_work"] is not None else BASES[::2]
        basis = next((scale for scale in scales if row[scale]), None)
    return StepComparison(
        start_skew_ms=in_unit(row["skew_ps"], PS_PER_MS),
        start_skew_doubt_ms=in_unit(row["skew_doubt_ps"], PS_PER_MS),
        imbalance=row["imbalance"],
        concurrency=concurrency,
        slowest=None if basis is None else names[row[f"{basis}_slowest"]],
        slowest_by=basis,
        fastest=None if basis is None else names[row[f"{basis}_fastest"]],
    )


def slowest_worker(
    rows: pl.DataFrame,
    named: Sequence[tuple[WorkerName | None, str | None]],
    categories: Sequence[str],
    *,
    on_one_clock: bool,
) -> SlowestWorker | Unavailable:
    """Return the worker that delays the other workers, over all steps.

    Args:
        rows: `worker_rows` of the compared steps, with a column `<category>_ps` for
            each of `categories`.
        named: Slowest worker of each step, and the evidence for it.
        categories: The categories that are known for all workers.
        on_one_clock: Whether the starts of the workers can be compared.
    """
    known_names = [
        (name, basis) for name, basis in named if name is not None and basis is not None
    ]
    if not known_names:
        return ALIKE if named else _WHY["one_worker"]
    basis = min((basis for _, basis in known_names), key=BASES.index)
    scale = ("waited_for_ps", "work_ps", "window_ps")[BASES.index(basis)]
    totals = (
        rows.group_by("host", "device", maintain_order=True)
        .agg(pl.col(scale).sum())
        .sort(scale, descending=True, maintain_order=True)
    )
    host, device, total = totals.row(0)
    name = WorkerName(host=host, device=device)
    waiting = pl.col("collective_wait_ps").fill_null(0)
    spent = {
        category: pl.col(f"{category}_ps")
        - (waiting if category == "device_collectives" else 0)
        for category in categories
    }
    if on_one_clock:
        start = pl.col("aligned_start_ps")
        spent[LATE_START] = start - start.min().over("slot")
    means = (
        rows.with_columns(**spent).group_by("host", "device").agg(pl.col(*spent).mean())
    )
    slowest = (pl.col("host") == name.host) & pl.col("device").eq_missing(name.device)
    own_means, other_means = means.filter(slowest), means.filter(~slowest)
    excess = {
        category: (own_means[category][0] - other_means[category].median()) / PS_PER_MS
        for category in spent
        if own_means[category][0] is not None
        and other_means[category].median() is not None
    }
    worst = max(excess, key=excess.__getitem__, default=None)
    return SlowestWorker(
        host=host,
        device=device,
        by=basis,
        steps=sum(step_name == name for step_name, _ in known_names),
        of_steps=len(named),
        waited_for_ms=total / PS_PER_MS if basis == BASES[0] else None,
        cause=worst if worst is not None and excess[worst] > 0 else None,
        excess_ms=excess,
    )


ALIKE: Final = _WHY["alike"]
