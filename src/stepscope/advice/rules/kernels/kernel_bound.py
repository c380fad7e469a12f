"""`kernel.bound`: memory limits the kernels, not arithmetic.

Definition: docs/advice/kernel_bound.md.
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
        framework="PyTorch",
        text="Let fewer kernels touch the same data: compile the step, so that "
        "neighbours are fused.",
        code="torch.compile(model)",
    ),
    Action(
        cause="any",
        framework="TensorFlow",
        text="Let fewer kernels touch the same data: compile the step, so that "
        "neighbours are fused.",
        code="@tf.function(jit_compile=True)",
    ),
    Action(
        cause="any",
        framework="any",
        text="Keep what is moved in 16 bit: half of the bytes take half of the time.",
    ),
)
_WORDS: Final = Words(
    passed="memory does not limit most kernels",
    texts={
        ("fail", None): (
            (
                (
                    "For {value} of the kernels' time memory is what limits them, most "
                    "of it {named}, which reaches {memory} of what the memory gives: "
                    "only fewer bytes make it faster."
                ),
            ),
        ),
        ("pass", None): (
            (("For {value:nothing} of the kernels' time memory is what limits them."),),
        ),
    },
)
_ITEM: Final = Item(
    id="kernel.bound",
    stage=5,
    title="memory limits the kernels, not arithmetic",
    words=_WORDS,
    pages=("kernel_stats",),
    confirm="Look at the shares of the peak in the table of kernels: that of the "
    "memory is above that of computing, and above 60 %.",
    refute="Where each byte is moved once and in the narrowest type, this is what the "
    "device gives.",
    floors=("a kernel goes no faster than its arithmetic allows",),
    actions=_ACTIONS,
)
#: Half of the bytes, in half of the time.
_HALF: Final = 0.5


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the share of kernels that the memory limits in the time of all."""
    fault = Fault(
        found=pl.col("bound") == "memory",
        saved=pl.min_horizontal(
            pl.lit(_HALF), 1 - pl.col("compute_percent") / pl.col("memory_percent")
        ),
        shown={
            "memory": ("memory_percent", "percent"),
            "compute": ("compute_percent", "percent"),
        },
    )
    return judge_measured(
        _ITEM,
        signals,
        thresholds,
        fault,
        warn=thresholds.memory_bound_warn,
        severity="info",
    )


RULE: Final = Rule(_ITEM, evaluate, MEASURED_READS)
