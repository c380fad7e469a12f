"""`kernel.conflicts`: threads of a warp collide in shared memory."""

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

_ITEM: Final = rule_item("kernel.conflicts")


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    conflicts = pl.col("bank_conflict_percent")
    fault = Fault(
        found=conflicts >= thresholds.bank_conflicts.value,
        saved=conflicts / 100,
        shown={
            "conflicts": ("bank_conflict_percent", "percent"),
            "stall": ("stall_percent", "percent"),
        },
    )
    return judge_measured(_ITEM, signals, thresholds, fault)


RULE: Final = Rule(_ITEM, evaluate, MEASURED_READS)
