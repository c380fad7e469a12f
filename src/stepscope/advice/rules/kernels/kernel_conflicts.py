"""`kernel.conflicts`: threads of a warp collide in shared memory.

Definition: docs/advice/kernel_conflicts.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.finding import Action
from stepscope.advice.item import Item
from stepscope.advice.judging.measured import MEASURED_READS, Fault, judge_measured
from stepscope.advice.rule import Rule
from stepscope.advice.words import Words

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.thresholds import Thresholds

_ACTIONS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Lay the tile out so that threads of a warp use different banks: pad its "
        "rows by one element, or swizzle the columns.",
        code="__shared__ float tile[32][33];",
    ),
    Action(
        cause="any",
        framework="any",
        text="Where a library or a compiler wrote the kernel, try its next release or "
        "other sizes of tiles.",
    ),
)
_WORDS: Final = Words(
    passed="threads rarely collide in shared memory",
    texts={
        ("fail", None): (
            (
                (
                    "For {value} of the kernels' time threads of a warp collide in the "
                    "banks of shared memory, most of it {named}: {conflicts} of its "
                    "passes are repetitions."
                ),
            ),
        ),
        ("pass", None): (
            (
                (
                    "For {value:nothing} of the kernels' time threads collide in "
                    "shared memory."
                ),
            ),
        ),
    },
)
_ITEM: Final = Item(
    id="kernel.conflicts",
    stage=5,
    title="threads of a warp collide in shared memory",
    words=_WORDS,
    pages=("kernel_stats",),
    confirm="Look at the kernel's stall reason: warps that wait for shared memory show "
    "short_scoreboard or mio_throttle.",
    refute="Where shared memory is not what limits the kernel, the repetitions are "
    "hidden behind other work.",
    floors=("a kernel goes no faster than its busiest unit allows",),
    actions=_ACTIONS,
    explains=("op.hot",),
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time of kernels by the passes of shared memory that are repetitions."""
    conflicts = pl.col("bank_conflict_percent")
    fault = Fault(
        found=conflicts >= thresholds.bank_conflicts.value,
        saved=conflicts / 100,
        shown={
            "conflicts": ("bank_conflict_percent", "percent"),
            "stall": ("stall_percent", "percent"),
        },
    )
    return judge_measured(_ITEM, signals, thresholds, fault)


RULE: Final = Rule(_ITEM, evaluate, MEASURED_READS)
