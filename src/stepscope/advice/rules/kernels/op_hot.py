"""`op.hot`: an op takes much time and is far from the device's peak rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.kernel_time import (
    WORKED_READS,
    idle_percent,
    judged_kernels,
)
from stepscope.derive.facts.devices.kernel_limits import op_roofs
from stepscope.derive.facts.devices.kernel_work import kernel_work
from stepscope.derive.facts.evidence import Part, Saving
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.savings.what_if_changes import Faster
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.savings.what_if_changes import Changes

_ITEM: Final = rule_item("op.hot")

#: Percentage of the device's peak rate that a good kernel reaches.
_GOOD_LIMIT_PERCENT: Final = 60.0


def hot_op_changes(signals: Signals) -> Changes:
    """Return what-if edits that make the op's kernels at most as fast as good ones."""
    work, roofs = signals.needed(kernel_work), signals.needed(op_roofs)
    slow = _heavy_ops(roofs).filter(pl.col("of_limit") < THRESHOLDS.slow_op.value)
    if not slow.height:
        return ()
    row = slow.row(0, named=True)
    classes = work.rows.filter(pl.col("op") == row["op"])["class"].to_list()
    return (Faster(classes, (1.0, min(row["of_limit"] / _GOOD_LIMIT_PERCENT, 1.0))),)


@rule(_ITEM, *WORKED_READS, op_roofs, change=hot_op_changes)
def evaluate(signals: Signals) -> Finding:
    work = judged_kernels(signals)
    heavy = _heavy_ops(signals.needed(op_roofs))
    slow = heavy.filter(pl.col("of_limit") < THRESHOLDS.slow_op.value)
    if not slow.height and heavy["of_limit"].null_count():
        return _ITEM.cannot_tell("unknown_work")
    if not heavy.height:
        return _ITEM.finding(
            "pass",
            confidence=signals.of(record_grade),
            devices=(work.label,),
            inputs=("op_costs",),
        )
    row = (slow if slow.height else heavy).row(0, named=True)
    time = row["share"] / 100 * work.device_ps
    gain = time * max(1 - row["of_limit"] / _GOOD_LIMIT_PERCENT, 0.0) / PS_PER_MS
    dominates = row["share"] >= THRESHOLDS.hot_critical.value
    grave = dominates and idle_percent(signals) < THRESHOLDS.starved_device.value
    total_ps = work.step_ps if work.has_steps else work.device_ps
    return _ITEM.finding(
        "fail" if slow.height else "pass",
        severity="warn" if slow.height and grave else "info",
        confidence=signals.of(record_grade),
        value=row["of_limit"],
        ms_per_step=time / PS_PER_MS if work.has_steps else None,
        threshold=THRESHOLDS.slow_op,
        steps_clean=work.steps if work.has_steps else None,
        devices=(work.label,),
        parts=(Part(name=row["op"], share_percent=100 * time / max(total_ps, 1)),),
        because=(row["bound"],) if slow.height else (),
        facts=_ITEM.facts(op_share=row["share"]),
        evidence=work.evidence(work.rows.filter(pl.col("op") == row["op"]), 1),
        inputs=("op_costs", "device_peaks"),
        saving_ms=Saving(high=gain) if slow.height and work.has_steps else None,
        actions=_ITEM.actions_for(row["bound"]),
    )


def _heavy_ops(roofs: pl.DataFrame) -> pl.DataFrame:
    return roofs.filter(pl.col("share") >= THRESHOLDS.hot_op.value)
