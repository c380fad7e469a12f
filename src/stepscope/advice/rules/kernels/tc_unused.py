"""`tc.unused`: products run beside the matrix units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.judging.fitting_actions import for_kernels
from stepscope.advice.judging.worked import (
    WORKED_READS,
    Worked,
    faster,
    judge_kernels,
    kernels_of,
    undecided,
)
from stepscope.advice.rule import Rule

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.kernel_work import KernelWork
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("tc.unused")

#: At least a third of the time goes, at most two thirds: up to three times as fast.
_GAIN: Final = (1 / 3, 2 / 3)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    work = kernels_of(_ITEM, signals, thresholds, matrix_units=True)
    if isinstance(work, Finding):
        return work
    worked = _worked(work, thresholds)
    return judge_kernels(
        _ITEM,
        signals,
        thresholds,
        work,
        worked,
        warn=thresholds.units_warn,
        critical=thresholds.units_critical,
        actions=for_kernels(_ITEM.actions, signals, work, worked.rows),
        facts=_ITEM.facts(eligible=work.share(_eligible(work))),
    )


def _eligible(work: KernelWork) -> pl.DataFrame:
    return work.rows.filter(
        pl.col("eligible") & ~pl.col("collective") & ~pl.col("reorders")
    )


def _worked(work: KernelWork, _: Thresholds) -> Worked:
    """Return the products that use no matrix unit."""
    eligible = _eligible(work)
    unknown = eligible.filter(pl.col("matrix_units").is_null())
    return Worked(
        eligible.filter(~pl.col("matrix_units")),
        _GAIN,
        pl.concat([unknown, undecided(work.rows)]),
        narrowed=True,
    )


RULE: Final = Rule(_ITEM, evaluate, WORKED_READS, faster(_worked))
