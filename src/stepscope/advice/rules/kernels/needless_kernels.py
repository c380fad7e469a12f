"""Rules about kernels that a step does not need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.kernel_time import (
    WORKED_READS,
    Worked,
    faster_kernels_change,
    judge_kernels,
    judged_kernels,
)
from stepscope.advice.judging.program_facts import program_facts
from stepscope.derive.facts.devices.kernel_kinds import MIN_RUN_KERNELS
from stepscope.derive.facts.devices.kernel_work import kernel_work
from stepscope.derive.facts.program_traits import program_traits
from stepscope.derive.facts.savings.what_if_changes import Joined

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.kernel_work import KernelWork
    from stepscope.derive.facts.savings.what_if_changes import Changes

_FUSABLE_RUNS_ITEM: Final = rule_item("fuse.runs")


def fusable_runs_changes(signals: Signals) -> Changes:
    """Return what-if edits that fuse each run of kernels into one shorter kernel."""
    runs = signals.needed(kernel_work).runs
    classes = runs.rows["class"].to_list()
    return (Joined(classes, MIN_RUN_KERNELS, (1.0, 1 - runs.removable)),)


@rule(_FUSABLE_RUNS_ITEM, *WORKED_READS, program_traits, change=fusable_runs_changes)
def judge_fusable_runs(signals: Signals) -> Finding:
    work = judged_kernels(signals)
    runs = work.runs
    return judge_kernels(
        _FUSABLE_RUNS_ITEM,
        signals,
        work,
        Worked(runs.rows, (0.0, runs.removable)),
        actions=_FUSABLE_RUNS_ITEM.actions_for(*program_facts(signals)),
        facts=_FUSABLE_RUNS_ITEM.facts(
            runs=runs.count if work.has_steps else None,
            runs_in_all=None if work.has_steps else runs.count,
            removable=100 * runs.removable,
        ),
    )


_TRANSPOSES_ITEM: Final = rule_item("layout.transpose")

#: Patterns of op types and of kernel names.
_OPS: Final = r"(?i)conv(?:[^e]|$)|batch_?norm"
_CONVOLUTION: Final = (
    r"(?i)conv(?:[^e]|$)|fprop|dgrad|wgrad|winograd|batch_?norm|bn_(?:fw|bw)"
    r"|igemm_|implicit_gemm|[sh]cudnn"
)
#: Kernels with which cuDNN and MIOpen re-order the tensors of convolutions.
_OF_CONVOLUTIONS: Final = r"(?i)nchw_?to_?nhwc|nhwc_?to_?nchw|^batched_transpose_\d+x"
_TRANSPOSES_GAIN: Final = (0.5, 1.0)


def _reorder_kernels(work: KernelWork) -> Worked:
    """Return the kernels that reorder tensors next to convolutions."""
    ordered = work.shown.sort("stream", "start_ps", maintain_order=True)
    # Of consecutive kernels that re-order, all count if one is next to a convolution.
    reorders = ordered["class"].is_in(work.rows.filter("reorders")["class"].implode())
    is_convolution = ordered["class"].is_in(sorted(_convolution_classes(work)))
    same = (ordered["stream"] == ordered["stream"].shift(1)).fill_null(value=False)
    after = is_convolution.shift(1, fill_value=False) & same
    before = (is_convolution & same).shift(-1, fill_value=False)
    run = (~(reorders & reorders.shift(1) & same).fill_null(value=False)).cum_sum()
    near_runs = run.filter(reorders & (after | before))
    nearby = ordered["class"].filter(run.is_in(near_runs.implode()))
    of_convolutions = pl.col("full_name").str.contains(_OF_CONVOLUTIONS) & (
        pl.col("op_type").is_null() | pl.col("op_type").str.contains(_OPS)
    )
    return Worked(
        work.rows.filter(
            pl.col("reorders")
            & (of_convolutions | pl.col("class").is_in(nearby.unique().implode()))
        ),
        _TRANSPOSES_GAIN,
    )


@rule(_TRANSPOSES_ITEM, *WORKED_READS, change=faster_kernels_change(_reorder_kernels))
def judge_transposes(signals: Signals) -> Finding:
    work = judged_kernels(signals)
    if not _convolution_classes(work):
        return _TRANSPOSES_ITEM.not_applicable("no_convolution")
    return judge_kernels(_TRANSPOSES_ITEM, signals, work, _reorder_kernels(work))


def _convolution_classes(work: KernelWork) -> set[int]:
    convolutions = work.rows.filter(
        (
            pl.col("full_name").str.contains(_CONVOLUTION)
            | pl.col("op_type").fill_null("").str.contains(_OPS)
        )
        & ~pl.col("reorders")
    )
    return set(convolutions["class"])
