"""`kernel.spills`: threads keep values in memory instead of registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.catalogue import rule_item
from stepscope.advice.judging.measured import MEASURED_READS, Fault, judge_measured
from stepscope.advice.rule import Rule

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("kernel.spills")

_SECTOR_BYTES: Final = 32


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    local = pl.col("local_memory_sectors")
    loads, stores = pl.col("global_load_sectors"), pl.col("global_store_sectors")
    every = pl.coalesce(pl.col("l1_bytes") / _SECTOR_BYTES, local + loads + stores)
    share = (
        pl.when(local == 0)
        .then(pl.lit(0.0))
        .when(every > 0)
        .then((local / every).clip(0, 1))
    )
    fault = Fault(
        found=100 * share >= thresholds.spilled_traffic.value,
        saved=share,
        shown={
            "local": ("local_percent", "percent"),
            "registers": ("registers", "count"),
        },
        added={"local_percent": 100 * share},
    )
    return judge_measured(_ITEM, signals, thresholds, fault)


RULE: Final = Rule(_ITEM, evaluate, MEASURED_READS)
