"""`tc.dims`: sizes keep products off the matrix units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
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

_ITEM: Final = rule_item("tc.dims")

#: A third to two thirds of the time goes, less what the padding costs.
_GAIN: Final = (0.3, 0.6)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    work = kernels_of(_ITEM, signals, thresholds, matrix_units=True)
    if isinstance(work, Finding):
        return work
    worked = _worked(work, thresholds)
    odd = worked.rows
    return judge_kernels(
        _ITEM,
        signals,
        thresholds,
        work,
        worked,
        warn=thresholds.units_warn,
        critical=thresholds.units_critical,
        why_unknown=_ITEM.reason("no_sizes"),
        facts=_ITEM.facts(odd_size=odd["odd_size"][0] if odd.height else None),
    )


def _worked(work: KernelWork, _: Thresholds) -> Worked:
    """Return the narrow products beside the matrix units whose sizes are odd."""
    beside = work.rows.filter(
        pl.col("eligible")
        & ~pl.col("collective")
        & ~pl.col("matrix_units")
        & (pl.col("precision") == "16")
    )
    return Worked(
        beside.filter(pl.col("odd_size").is_not_null()),
        _GAIN,
        pl.concat([beside.filter(~pl.col("sized")), undecided(work.rows)]),
    )


RULE: Final = Rule(_ITEM, evaluate, WORKED_READS, faster(_worked))
