"""`kernel.bound`: memory limits the kernels, not arithmetic."""

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

_ITEM: Final = rule_item("kernel.bound")

#: Half of the bytes, in half of the time.
_HALF: Final = 0.5


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    fault = Fault(
        found=pl.col("bound") == "memory",
        saved=pl.min_horizontal(
            pl.lit(_HALF), 1 - pl.col("compute_percent") / pl.col("memory_percent")
        ),
        shown={
            "memory": ("memory_percent", "percent"),
            "compute": ("compute_percent", "percent"),
        },
    )
    return judge_measured(
        _ITEM,
        signals,
        thresholds,
        fault,
        warn=thresholds.memory_bound_warn,
        severity="info",
    )


RULE: Final = Rule(_ITEM, evaluate, MEASURED_READS)
