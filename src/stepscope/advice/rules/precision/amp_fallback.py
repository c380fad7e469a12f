"""`amp.fallback`: some products stay out of 16 bit.

Definition: docs/advice/amp_fallback.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.finding import Action, Finding
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
from stepscope.derive.facts.evidence import Fact
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.kernel_work import KernelWork
    from stepscope.thresholds import Thresholds

_ACTIONS: Final = (
    Action(
        cause="any",
        framework="TensorFlow",
        text="Remove explicit 32-bit types of the named layers, but for the last one.",
        code="layers.Dense(n, dtype='mixed_bfloat16')",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Call the named op inside autocast, with no .float() before it.",
        code="with torch.autocast('cuda', dtype=torch.bfloat16): …",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Cast both operands of the named op: one in 32 bit makes the product so.",
    ),
)
_WORDS: Final = Words(
    passed="products run in 16 bit where others do",
    texts={
        ("fail", None): (
            (
                (
                    "The program computes in 16 bit, and yet {value} of the kernels' "
                    "time is products in 32 bit or beside the matrix units, most of "
                    "it {named}."
                ),
            ),
        ),
        ("pass", None): (
            (
                (
                    "Of the kernels' time {value:nothing} is products that stay out "
                    "of 16 bit."
                ),
            ),
        ),
    },
)
_ITEM: Final = Item(
    id="amp.fallback",
    stage=6,
    title="some products stay out of 16 bit",
    words=_WORDS,
    pages=("kernel_stats",),
    confirm="Look at the operands of the named op: one of them has 32 bits.",
    refute="If the loss gets worse in 16 bit, the op needs its 32.",
    floors=("the memory that the kernels read and write: not measured here",),
    actions=_ACTIONS,
    explains=("tc.unused",),
)
_GAIN: Final = (1 / 3, 2 / 3)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time of products in 32 bit in a program that computes in 16."""
    work = kernels_of(_ITEM, signals, thresholds, matrix_units=True)
    if isinstance(work, Finding):
        return work
    computing = work.rows.filter(~pl.col("collective"))
    narrow = work.share(computing.filter(pl.col("precision") == "16"))
    if narrow < thresholds.amp_in_use.value:
        return _ITEM.not_applicable(_NOT_IN_USE)
    return judge_kernels(
        _ITEM,
        signals,
        thresholds,
        work,
        _worked(work, thresholds),
        warn=thresholds.units_warn,
        critical=thresholds.units_critical,
        facts=(Fact(name="narrow", value=narrow, unit="percent"),),
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


_NOT_IN_USE: Final = Unavailable(
    code="NO_SAMPLES",
    reason="The program does not compute in 16 bit.",
    remedy="Nothing to do here: see amp.share.",
)
RULE: Final = Rule(_ITEM, evaluate, WORKED_READS, faster(_worked))
