"""`layout.transpose`: tensors are re-ordered around convolutions."""

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
)
from stepscope.advice.rule import Rule

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.kernel_work import KernelWork
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("layout.transpose")

#: Types of ops, and parts of kernels' names.
_OPS: Final = r"(?i)conv(?:[^e]|$)|batch_?norm"
_CONVOLUTION: Final = (
    r"(?i)conv(?:[^e]|$)|fprop|dgrad|wgrad|winograd|batch_?norm|bn_(?:fw|bw)"
)
_GAIN: Final = (0.5, 1.0)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    work = kernels_of(_ITEM, signals, thresholds)
    if isinstance(work, Finding):
        return work
    if not _convolutions(work):
        return _ITEM.not_applicable("no_convolution")
    return judge_kernels(
        _ITEM,
        signals,
        thresholds,
        work,
        _worked(work, thresholds),
        warn=thresholds.reorder_warn,
        critical=thresholds.reorder_critical,
    )


def _convolutions(work: KernelWork) -> set[int]:
    """Return the classes of convolutions, and of what normalizes their batches."""
    found = work.rows.filter(
        (
            pl.col("full_name").str.contains(_CONVOLUTION)
            | pl.col("op_type").fill_null("").str.contains(_OPS)
        )
        & ~pl.col("reorders")
    )
    return set(found["class"])


def _worked(work: KernelWork, _: Thresholds) -> Worked:
    """Return the kernels that re-order tensors next to convolutions."""
    beside = _neighbours(work.shown, _convolutions(work))
    return Worked(
        work.rows.filter(pl.col("reorders") & pl.col("class").is_in(sorted(beside))),
        _GAIN,
    )


def _neighbours(shown: pl.DataFrame, classes: set[int]) -> set[int]:
    """Return the classes right before or after one of some classes, on one stream."""
    ordered = shown.sort("stream", "start_ps", maintain_order=True)
    is_one = ordered["class"].is_in(sorted(classes))
    same = ordered["stream"] == ordered["stream"].shift(1)
    after = is_one.shift(1, fill_value=False) & same.fill_null(value=False)
    before = is_one.shift(-1, fill_value=False) & same.shift(-1).fill_null(value=False)
    return set(ordered.filter(after | before)["class"])


RULE: Final = Rule(_ITEM, evaluate, WORKED_READS, faster(_worked))
