"""The hardware of a run, and how much of its peak the run's kernels reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.results.tables import package_reasons
from stepscope.derive.columns.arrays import handles
from stepscope.derive.columns.stat_values import (
    find_handle,
    owner_numbers,
    rows_with_key,
)
from stepscope.derive.ops.costs import op_costs
from stepscope.derive.ops.database import device_ops
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Missing, Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

_WHY: Final = package_reasons("ops")


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """Hardware of a run; `missing` explains nulls.

    Attributes:
        cores: Number of cores that a process of the run may use, as recorded by its
            input pipeline; null if not recorded.
        peak_percent: FLOPs of the kernels, in percent of what their compute units could
            do in the same time; null if unknown.
        peak_covered_percent: Share of the devices' time for which `peak_percent` is
            known; null if unknown.
        missing: Null fields with their reasons.
    """

    cores: int | None
    peak_percent: float | None
    peak_covered_percent: float | None
    missing: tuple[Missing, ...]


def run_hardware(profile: ProfileData) -> Hardware:
    """Describe the hardware of all hosts of a run."""
    counts = stage_numbers(profile, StatKey.CPU_BUDGET)
    cores = min((count for count in counts if count > 0), default=None)
    peak = _peak_share(profile)
    missing = [] if cores is not None else [_WHY["no_cores"].missing_field("cores")]
    if isinstance(peak, Unavailable):
        missing += map(peak.missing_field, ("peak_percent", "peak_covered_percent"))
        peak = None, None
    return Hardware(
        cores=cores,
        peak_percent=peak[0],
        peak_covered_percent=peak[1],
        missing=tuple(missing),
    )


def stage_numbers(profile: ProfileData, key: StatKey) -> list[int]:
    """Return the numbers that stages of the input pipelines recorded under a key."""
    recorded: list[int] = []
    for host in profile.hosts:
        stats = profile.table(host, "stats")
        stages = profile.table(host, "iterators")
        if isinstance(stats, Unavailable) or isinstance(stages, Unavailable):
            continue
        handle = find_handle(profile.trace(host).strings, key)
        values = rows_with_key(stats, "event", handle)
        events = np.intersect1d(values.owner, handles(stages, "event"))
        numbers, known = owner_numbers(values, events, handle)
        recorded += numbers[known].tolist()
    return recorded


def _peak_share(
    profile: ProfileData,
) -> tuple[float | None, float | None] | Unavailable:
    """Return the percentage of the peak, and of the device time with a known peak."""
    performed = possible = 0.0
    known_ps = whole_ps = 0
    why: Unavailable = _WHY["no_peak"]
    for host in profile.hosts:
        costs = profile.derived(host, op_costs)
        ops = profile.derived(host, device_ops)
        if isinstance(costs, Unavailable) or isinstance(ops, Unavailable):
            why = next(lost for lost in (ops, costs) if isinstance(lost, Unavailable))
            continue
        rows = costs[["device", "module", "name", "flops", "peak_flops"]].join(
            ops.rows[["device", "module", "name", "total_ps"]],
            on=["device", "module", "name"],
            nulls_equal=True,
        )
        known = rows.filter((pl.col("flops") > 0) & pl.col("peak_flops").is_not_null())
        performed += float(known["flops"].sum())
        possible += float(known["peak_flops"].sum())
        known_ps += int(known["total_ps"].sum())
        whole_ps += int(ops.rows["total_ps"].sum())
    if not possible or not whole_ps:
        return why
    return 100 * performed / possible, 100 * known_ps / whole_ps
