"""`tc.dims`: sizes keep products off the matrix units.

Definition: docs/advice/tc_dims.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.finding import Action, Fact, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.worked import (
    WORKED_READS,
    Worked,
    faster,
    judge_kernels,
    kernels_of,
    undecided,
)
from stepscope.advice.rule import Rule
from stepscope.advice.words import Words
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals.computing.kernel_work import KernelWork
    from stepscope.advice.signals.signal import Signals
    from stepscope.thresholds import Thresholds

_ACTIONS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Round the odd size up: a vocabulary of 50257 to 50304, heads, channels "
        "and the batch to multiples of 8, better of 64.",
        code="size = -(-size // 64) * 64",
    ),
)
_WORDS: Final = Words(
    passed="no size keeps products off the matrix units",
    texts={
        ("fail", None): (
            (
                (
                    "Products with a size of {odd_size}, no multiple of 8, run beside "
                    "the matrix units: {value} of the kernels' time, most of it "
                    "{named}."
                ),
            ),
        ),
        ("pass", None): (
            (
                (
                    "Of the kernels' time {value:nothing} is products that an odd size "
                    "keeps off the matrix units."
                ),
            ),
        ),
    },
)
_ITEM: Final = Item(
    id="tc.dims",
    stage=5,
    title="sizes keep products off the matrix units",
    words=_WORDS,
    pages=("kernel_stats", "framework_op_stats"),
    confirm="Run the op by itself with the size rounded up, and compare the kernels.",
    refute="If the padded product takes as long, the size is not what holds it up.",
    floors=("the work on the padding itself",),
    actions=_ACTIONS,
    explains=("tc.unused",),
)
#: A third to two thirds of the time goes, less what the padding costs.
_GAIN: Final = (0.3, 0.6)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time of narrow products beside the matrix units whose sizes are odd."""
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
        why_unknown=_NO_SIZES,
        facts=(
            Fact(
                name="odd_size",
                value=odd["odd_size"][0] if odd.height else None,
                unit="count",
            ),
        ),
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


_NO_SIZES: Final = Unavailable(
    code="NO_SHAPES",
    reason="Products run beside the matrix units, and their sizes were not recorded.",
    remedy=Remedy.RECORD_SHAPES,
)
RULE: Final = Rule(_ITEM, evaluate, WORKED_READS, faster(_worked))
