"""Rules about kernels that Nsight Compute measured."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec
import polars as pl

from stepscope.advice.catalogue import rule_item, shared_texts
from stepscope.advice.item import rule
from stepscope.advice.judging.kernel_time import (
    WORKED_READS,
    Worked,
    judge_kernels,
    judged_kernels,
)
from stepscope.derive.facts.devices.device_fill import fill_signals
from stepscope.derive.facts.devices.kernel_limits import measured_alone, measured_work
from stepscope.derive.facts.devices.kernel_work import kernel_work
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.advice.finding import Finding
    from stepscope.advice.item import Item
    from stepscope.advice.signals import Signals
    from stepscope.derive.run_derivation import RunDerivation

_TEXTS: Final = shared_texts("measured")

#: Signals that the functions of this module read.
MEASURED_READS: Final[tuple[RunDerivation[Any], ...]] = (
    *WORKED_READS,
    measured_alone,
    measured_work,
)
_SECTOR_BYTES: Final = 32


class Fault(Frozen, frozen=True, eq=True):
    """A fault that a rule looks for in the rows of `measured_work`.

    Attributes:
        found: Whether a kernel has the fault; null if its metrics cannot show that.
        saved: Maximum share of such a kernel's time, 0 to 1, that a change saves; the
            gain is limited by Amdahl's law.
        because: Identifier of the cause, by kernel; None if there is only one cause.
        shown: Key of a fact → column with its value, shown for the longest such kernel.
        added: Further columns for `shown`.
    """

    found: pl.Expr
    saved: pl.Expr
    because: pl.Expr | None = None
    shown: Mapping[str, str] = MappingProxyType({})
    added: Mapping[str, pl.Expr] = MappingProxyType({})


def judge_measured(
    item: Item, signals: Signals, fault: Fault, **fields: Any
) -> Finding:
    """Judge the share of kernels with a fault in the time of all kernels.

    The verdict is "cannot_tell" if kernels that were not measured could change the
    verdict. `fields` go to the finding.
    """
    alone = signals.of(measured_alone)
    if isinstance(alone, Unavailable):
        work, rows = judged_kernels(signals), signals.needed(measured_work)
    else:
        work, rows = alone
    judged = rows.with_columns(
        found=fault.found,
        saved=pl.col("time_ps") * fault.saved.clip(0, 1),
        because=pl.lit(None, pl.String) if fault.because is None else fault.because,
        **fault.added,
    )
    chosen = judged.filter("found")
    unknown = judged.filter(pl.col("found").is_null())
    because = tuple(chosen["because"].drop_nulls().head(1))
    time_ps = max(int(chosen["time_ps"].sum()), 1)
    max_gain = float(chosen["saved"].fill_null(0).sum()) / time_ps
    share = work.share(unknown)
    finding = judge_kernels(
        item,
        signals,
        work,
        # The minimum gain is 0, because something else may limit the kernel.
        Worked(chosen, (0.0, max_gain), unknown),
        why_unknown=_TEXTS.reason(
            "unmeasured", share=work.share(chosen), unknown=share
        ),
        facts=(
            *(
                item.fact(key, chosen[column][0] if chosen.height else None)
                for key, column in fault.shown.items()
            ),
            _TEXTS.fact("unmeasured", share),
        ),
        inputs=("kernels", "measured_kernels"),
        because=because,
        actions=item.actions_for(*because),
        **fields,
    )
    if finding.status != "fail":
        return finding
    confidence = min(finding.confidence, *chosen["confidence"])
    return msgspec.structs.replace(finding, confidence=confidence)


_MEMORY_BOUND_ITEM: Final = rule_item("kernel.bound")

#: Assumed maximum saving: half of the bytes, and so half of the time.
_HALF: Final = 0.5


@rule(_MEMORY_BOUND_ITEM, *MEASURED_READS)
def judge_memory_bound(signals: Signals) -> Finding:
    fault = Fault(
        found=pl.col("bound") == "memory",
        saved=pl.min_horizontal(
            pl.lit(_HALF), 1 - pl.col("compute_percent") / pl.col("memory_percent")
        ),
        because=pl.col("memory_level").fill_null("dram"),
        shown={
            "memory": "memory_percent",
            "compute": "compute_percent",
            "dram": "dram_percent",
        },
    )
    return judge_measured(_MEMORY_BOUND_ITEM, signals, fault, severity="info")


_COALESCING_ITEM: Final = rule_item("kernel.coalescing")

#: Sectors that 32 threads need if each thread reads 4 bytes, or 16 bytes (the maximum).
#: From `_SCATTERED` sectors on, the threads read at distant addresses.
_SECTORS_OF_4_BYTES: Final = 4
_SECTORS_OF_16_BYTES: Final = 16
_SCATTERED: Final = 24


@rule(_COALESCING_ITEM, *MEASURED_READS)
def judge_coalescing(signals: Signals) -> Finding:
    loads, stores = _wasted_share("load"), _wasted_share("store")
    weights = [
        pl.col(f"global_{access}_sectors").fill_null(1) for access in ("load", "store")
    ]
    known = pl.sum_horizontal(
        pl.when(wasted_part.is_not_null()).then(weight)
        for wasted_part, weight in zip((loads, stores), weights, strict=True)
    )
    wasted = pl.sum_horizontal(loads * weights[0], stores * weights[1]) / known
    # If neither loads nor stores are known, the quotient is 0 / 0.
    wasted = pl.when(known > 0).then(wasted)
    min_wasted = THRESHOLDS.wasted_sectors.value / 100
    partly = (loads.is_null() & _touches_memory("load")) | (
        stores.is_null() & _touches_memory("store")
    )
    is_wasteful = (
        pl.when(pl.col("bound") == "compute")
        .then(pl.lit(value=False))
        .when(wasted >= min_wasted)
        .then(pl.lit(value=True))
        .when(wasted.is_not_null() & ~partly)
        .then(pl.lit(value=False))
    )
    fault = Fault(
        found=is_wasteful,
        saved=wasted,
        shown={
            "wasted": "wasted_percent",
            "load_sectors": "load_sectors_per_request",
            "store_sectors": "store_sectors_per_request",
        },
        added={"wasted_percent": 100 * wasted},
    )
    return judge_measured(_COALESCING_ITEM, signals, fault)


def _touches_memory(what: str) -> pl.Expr:
    """Return whether a kernel loads (or stores) global memory; true if unknown."""
    return (pl.col(f"global_{what}_requests") != 0).fill_null(value=True)


def _wasted_share(what: str) -> pl.Expr:
    """Return the share of transferred bytes that were not requested; null if unknown.

    With 4 to 24 sectors, each thread may read 4 or 16 bytes; only the count of
    requested bytes shows which.
    """
    used = pl.col(f"{what}_bytes_per_sector")
    sectors = pl.col(f"{what}_sectors_per_request")
    return (
        pl.when(used.is_not_null())
        .then((1 - used / _SECTOR_BYTES).clip(lower_bound=0))
        .when(sectors >= _SCATTERED)
        .then(1 - _SECTORS_OF_16_BYTES / sectors)
        .when(sectors <= _SECTORS_OF_4_BYTES)
        .then(pl.lit(0.0))
        .when(pl.col(f"global_{what}_requests") == 0)
        .then(pl.lit(0.0))
    )


_CONFLICTS_ITEM: Final = rule_item("kernel.conflicts")


@rule(_CONFLICTS_ITEM, *MEASURED_READS)
def judge_conflicts(signals: Signals) -> Finding:
    conflicts = pl.col("bank_conflict_percent")
    fault = Fault(
        found=conflicts >= THRESHOLDS.bank_conflicts.value,
        saved=conflicts / 100,
        shown={"conflicts": "bank_conflict_percent", "stall": "stall_percent"},
    )
    return judge_measured(_CONFLICTS_ITEM, signals, fault)


_OCCUPANCY_ITEM: Final = rule_item("kernel.occupancy")

#: Minimum load of a unit, in percent, that limits a kernel (NVIDIA's Speed of Light).
_BUSY_UNIT_PERCENT: Final = 60.0


@rule(_OCCUPANCY_ITEM, *MEASURED_READS, fill_signals)
def judge_occupancy(signals: Signals) -> Finding:
    achieved = pl.col("achieved_occupancy_percent")
    few_blocks = pl.col("class").is_in(_classes_with_few_blocks(signals))
    low = THRESHOLDS.low_occupancy.value
    bound = pl.col("bound")
    busiest = pl.max_horizontal("compute_percent", "memory_percent")
    is_low = (
        pl.when((achieved >= low) | bound.is_in(["compute", "memory"]) | few_blocks)
        .then(pl.lit(value=False))
        .when((achieved < low) & (bound == "latency"))
        .then(pl.lit(value=True))
    )
    limited = pl.col("theoretical_occupancy_percent") < low
    fault = Fault(
        found=is_low,
        saved=pl.min_horizontal(1 - busiest / _BUSY_UNIT_PERCENT, 1 - achieved / 100),
        because=pl.when(limited)
        .then("occupancy_limiter")
        .when(~limited)
        .then(pl.lit("work")),
        shown={
            "occupancy": "achieved_occupancy_percent",
            "theoretical_occupancy": "theoretical_occupancy_percent",
            "stall": "stall_percent",
        },
    )
    return judge_measured(_OCCUPANCY_ITEM, signals, fault)


def _classes_with_few_blocks(signals: Signals) -> list[int]:
    """Return the classes of kernels with fewer blocks than multiprocessors.

    The rule `kernel.fill` judges these kernels, because they need more blocks.
    """
    devices, work = signals.known(fill_signals), signals.known(kernel_work)
    fill = None if devices is None or work is None else devices.get(work.label)
    if fill is None:
        return []
    return [kernel_class for _, classes in fill.classes for kernel_class in classes]


_SPILLS_ITEM: Final = rule_item("kernel.spills")


@rule(_SPILLS_ITEM, *MEASURED_READS)
def judge_spills(signals: Signals) -> Finding:
    local = pl.col("local_memory_sectors")
    loads, stores = pl.col("global_load_sectors"), pl.col("global_store_sectors")
    total = pl.coalesce(pl.col("l1_bytes") / _SECTOR_BYTES, local + loads + stores)
    share = (
        pl.when(local == 0)
        .then(pl.lit(0.0))
        .when(total > 0)
        .then((local / total).clip(upper_bound=1))
    )
    fault = Fault(
        found=100 * share >= THRESHOLDS.spilled_traffic.value,
        saved=share,
        shown={"local": "local_percent", "registers": "registers"},
        added={"local_percent": 100 * share},
    )
    return judge_measured(_SPILLS_ITEM, signals, fault)
