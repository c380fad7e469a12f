"""`op.hot`: an op takes much time and comes nowhere near what the device allows.

Definition: docs/advice/op_hot.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.finding import Action, Fact, Finding, Part, Saving
from stepscope.advice.item import Item
from stepscope.advice.judging.worked import WORKED_READS, idle_percent, kernels_of
from stepscope.advice.rule import Rule
from stepscope.advice.signals.computing.kernel_work import kernel_work
from stepscope.advice.signals.computing.roofs import op_roofs
from stepscope.advice.signals.record import record_grade
from stepscope.advice.signals.replaying.change import Faster
from stepscope.advice.words import Words
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.advice.signals.replaying.change import Change
    from stepscope.advice.signals.signal import Signals
    from stepscope.thresholds import Thresholds

_ACTIONS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Look at the op's kernels, and measure the largest one with a profiler "
        "of hardware counters; ask first whether sizes or types keep it off the "
        "matrix units.",
        code="stepscope ncu -- python train.py",
    ),
    Action(
        cause="memory",
        framework="any",
        text="Give it more to do for the bytes that it reads: fuse it with its "
        "neighbours, or compute in 16 bit.",
    ),
)
_WORDS: Final = Words(
    passed="no op that takes much time is far from what the device allows",
    texts={
        ("fail", None): (
            (
                (
                    "The op {named} takes {op_share} of the kernels' time and reaches "
                    "{value} of what the device allows."
                ),
            ),
        ),
        ("pass", None): (
            (
                (
                    "The op that takes most of the kernels' time ({op_share}) reaches "
                    "{value} of what the device allows."
                ),
                "{passed}.",
            ),
        ),
    },
    causes={"memory": "bound by the memory", "compute": "bound by arithmetic"},
)
_ITEM: Final = Item(
    id="op.hot",
    stage=5,
    title="an op takes much time and comes nowhere near what the device allows",
    words=_WORDS,
    pages=("framework_op_stats", "kernel_stats"),
    confirm="Compare the op's rates with the device's peaks in the table of ops.",
    refute="If a better kernel for these sizes does not exist, this is what the "
    "device gives.",
    actions=_ACTIONS,
)
#: What a good kernel reaches.
_GOOD: Final = 60.0


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the ops with most kernel time by what they reach of the device's limits."""
    work = kernels_of(_ITEM, signals, thresholds)
    if isinstance(work, Finding):
        return work
    roofs = signals.of(op_roofs)
    if isinstance(roofs, Unavailable):
        return _ITEM.cannot_tell(roofs)
    heavy = _heavy(roofs, thresholds)
    slow = heavy.filter(pl.col("of_limit") < thresholds.slow_op.value)
    if not slow.height and heavy["of_limit"].null_count():
        return _ITEM.cannot_tell(_UNKNOWN_WORK)
    if not heavy.height:
        return _ITEM.finding(
            "pass",
            confidence=signals.of(record_grade),
            devices=(work.label,),
            inputs=("op_costs",),
        )
    row = (slow if slow.height else heavy).row(0, named=True)
    time = row["share"] / 100 * work.device_ps
    gain = time * max(1 - row["of_limit"] / _GOOD, 0.0) / PS_PER_MS
    dominates = row["share"] >= thresholds.hot_critical.value
    grave = dominates and idle_percent(signals) < thresholds.starved_device.value
    whole = work.step_ps if work.stepped else work.device_ps
    return _ITEM.finding(
        "fail" if slow.height else "pass",
        severity="warn" if slow.height and grave else "info",
        confidence=signals.of(record_grade),
        value=row["of_limit"],
        ms_per_step=time / PS_PER_MS if work.stepped else None,
        threshold=thresholds.slow_op,
        steps_clean=work.steps if work.stepped else None,
        devices=(work.label,),
        parts=(Part(name=row["op"], share_percent=100 * time / max(whole, 1)),),
        because=(row["bound"],) if slow.height else (),
        facts=(Fact(name="op_share", value=row["share"], unit="percent"),),
        evidence=work.evidence(work.rows.filter(pl.col("op") == row["op"]), 1),
        inputs=("op_costs", "device_peaks"),
        saving_ms=Saving(low=0.0, high=gain) if slow.height and work.stepped else None,
        actions=tuple(one for one in _ACTIONS if one.cause in ("any", row["bound"]))
        if slow.height
        else (),
    )


_UNKNOWN_WORK: Final = Unavailable(
    code="NO_SHAPES",
    reason="How much the ops that take most of the time compute and move is not "
    "known, or not what the device allows.",
    remedy=Remedy.RECORD_SHAPES,
)


def changes(signals: Signals, thresholds: Thresholds) -> tuple[Change, ...]:
    """Let the kernels of the op take at best what good ones would."""
    work, roofs = signals.of(kernel_work), signals.of(op_roofs)
    if isinstance(work, Unavailable) or isinstance(roofs, Unavailable):
        return ()
    slow = _heavy(roofs, thresholds).filter(
        pl.col("of_limit") < thresholds.slow_op.value
    )
    if not slow.height:
        return ()
    row = slow.row(0, named=True)
    mine = work.rows.filter(pl.col("op") == row["op"])["class"].to_list()
    return (Faster(mine, (1.0, min(row["of_limit"] / _GOOD, 1.0))),)


def _heavy(roofs: pl.DataFrame, thresholds: Thresholds) -> pl.DataFrame:
    return roofs.filter(pl.col("share") >= thresholds.hot_op.value)


RULE: Final = Rule(_ITEM, evaluate, (*WORKED_READS, op_roofs), changes)
