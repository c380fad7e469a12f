"""`kernel.occupancy`: too few warps hide the waits of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.catalogue import rule_item
from stepscope.advice.judging.measured import MEASURED_READS, Fault, judge_measured
from stepscope.advice.rule import Rule
from stepscope.derive.facts.devices.device_fill import fill_signals
from stepscope.derive.facts.devices.kernel_work import kernel_work
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("kernel.occupancy")

#: Where a unit is as busy, it limits the kernel (as NVIDIA's section Speed of Light
#: has it).
_BUSY: Final = 60.0


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    achieved = pl.col("achieved_occupancy_percent")
    few_blocks = pl.col("class").is_in(_few_blocks(signals))
    low = thresholds.low_occupancy.value
    bound = pl.col("bound")
    busiest = pl.max_horizontal("compute_percent", "memory_percent")
    found = (
        pl.when((achieved >= low) | bound.is_in(["compute", "memory"]) | few_blocks)
        .then(pl.lit(value=False))
        .when((achieved < low) & (bound == "latency"))
        .then(pl.lit(value=True))
    )
    limited = pl.col("theoretical_occupancy_percent") < low
    fault = Fault(
        found=found,
        saved=pl.min_horizontal(1 - busiest / _BUSY, 1 - achieved / 100),
        because=pl.when(limited)
        .then("occupancy_limiter")
        .when(~limited)
        .then(pl.lit("work")),
        shown={
            "occupancy": ("achieved_occupancy_percent", "percent"),
            "theoretical_occupancy": ("theoretical_occupancy_percent", "percent"),
            "stall": ("stall_percent", "percent"),
        },
    )
    return judge_measured(_ITEM, signals, thresholds, fault)


def _few_blocks(signals: Signals) -> list[int]:
    """Return the classes of kernels that leave multiprocessors without any block.

    Another rule judges these, `kernel.fill`: more blocks are what they lack.
    """
    devices = signals.of(fill_signals)
    work = signals.of(kernel_work)
    if isinstance(devices, Unavailable) or isinstance(work, Unavailable):
        return []
    fill = devices.get(work.label)
    if fill is None:
        return []
    return [one for _, classes in fill.classes for one in classes]


RULE: Final = Rule(_ITEM, evaluate, (*MEASURED_READS, fill_signals))
