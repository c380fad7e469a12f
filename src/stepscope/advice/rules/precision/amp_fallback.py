"""`amp.fallback`: some products stay out of 16 bit."""

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

_ITEM: Final = rule_item("amp.fallback")

_GAIN: Final = (1 / 3, 2 / 3)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    work = kernels_of(_ITEM, signals, thresholds, matrix_units=True)
    if isinstance(work, Finding):
        return work
    computing = work.rows.filter(~pl.col("collective"))
    narrow = work.share(computing.filter(pl.col("precision") == "16"))
    if narrow < thresholds.amp_in_use.value:
        return _ITEM.not_applicable("not_in_use")
    return judge_kernels(
        _ITEM,
        signals,
        thresholds,
        work,
        _worked(work, thresholds),
        warn=thresholds.units_warn,
        critical=thresholds.units_critical,
        facts=_ITEM.facts(narrow=narrow),
    )


def _worked(work: KernelWork, _: Thresholds) -> Worked:
    """Return the products in 32 bit, and those in 16 beside the matrix units."""
    eligible = work.rows.filter(
        pl.col("eligible") & ~pl.col("reorders") & ~pl.col("collective")
    )
    outside = eligible.filter(
        pl.col("told") & pl.col("precision").is_in(["32", "64"])
        | (pl.col("precision") == "16") & ~pl.col("matrix_units")
    )
    unknown = pl.concat([eligible.filter(~pl.col("told")), undecided(work.rows)])
    return Worked(outside, _GAIN, unknown, narrowed=True)


RULE: Final = Rule(_ITEM, evaluate, WORKED_READS, faster(_worked))
