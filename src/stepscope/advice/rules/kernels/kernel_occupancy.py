"""`kernel.occupancy`: too few warps hide the waits of kernels.

Definition: docs/advice/kernel_occupancy.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.finding import Action
from stepscope.advice.item import Item
from stepscope.advice.judging.measured import MEASURED_READS, Fault, judge_measured
from stepscope.advice.rule import Rule
from stepscope.advice.words import Words
from stepscope.derive.facts.devices.device_fill import fill_signals
from stepscope.derive.facts.devices.kernel_work import kernel_work
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.thresholds import Thresholds

_ACTIONS: Final = (
    Action(
        cause="registers",
        framework="any",
        text="Let threads keep fewer values: split the kernel, or bound its registers "
        "and check that none are spilled.",
        code="__launch_bounds__(256, 4)",
    ),
    Action(
        cause="shared_memory",
        framework="any",
        text="Give each block less shared memory: smaller tiles, or fewer stages of a "
        "software pipeline.",
    ),
    Action(
        cause="warps",
        framework="any",
        text="Choose blocks whose threads divide what a multiprocessor holds.",
    ),
    Action(
        cause="blocks",
        framework="any",
        text="Give each block more threads: a multiprocessor holds few blocks.",
    ),
    Action(
        cause="work",
        framework="any",
        text="Give the kernel more blocks, of even work: a larger batch, or a finer "
        "division.",
    ),
    Action(
        cause="any",
        framework="any",
        text="Let each thread have several loads on the way at once, which hides waits "
        "with as few warps.",
    ),
)
_WORDS: Final = Words(
    passed="kernels have the warps that they need",
    texts={
        ("fail", None): (
            (
                (
                    "For {value} of the kernels' time too few warps are at work to "
                    "hide their waits, most of it {named}, where {occupancy} of the "
                    "room for warps is used."
                ),
            ),
        ),
        ("pass", None): (
            (
                (
                    "For {value:nothing} of the kernels' time too few warps are at "
                    "work to hide their waits."
                ),
            ),
        ),
    },
    causes={
        "registers": "registers of a thread",
        "shared_memory": "shared memory of a block",
        "warps": "threads of a block",
        "blocks": "the number of blocks that a multiprocessor holds",
        "work": "too few blocks, or blocks of uneven work",
    },
)
_ITEM: Final = Item(
    id="kernel.occupancy",
    stage=5,
    title="too few warps hide the waits of kernels",
    words=_WORDS,
    pages=("kernel_stats",),
    confirm="Look at the kernel's stall reason and its limiter of occupancy in the "
    "table of kernels.",
    refute="Large products run at a low occupancy on purpose: where computing or the "
    "memory is busy, more warps change nothing.",
    floors=("a kernel goes no faster than its busiest unit allows",),
    actions=_ACTIONS,
    explains=("op.hot",),
)
#: Where a unit is as busy, it limits the kernel (as NVIDIA's section Speed of Light
#: has it).
_BUSY: Final = 60.0


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time of kernels in which nothing is busy and few warps are at work."""
    achieved = pl.col("achieved_occupancy_percent")
    few_blocks = pl.col("class").is_in(_few_blocks(signals))
    low = thresholds.low_occupancy.value
    bound = pl.col("bound")
    busiest = pl.max_horizontal("compute_percent", "memory_percent")
    found = (
        pl.when((achieved >= low) | bound.is_in(["compute", "memory"]) | few_blocks)
        .then(pl.lit(value=False))
        .when((achieved < low) & (bound == "latency"))
        .then(pl.lit(value=True))
    )
    limited = pl.col("theoretical_occupancy_percent") < low
    fault = Fault(
        found=found,
        saved=pl.min_horizontal(1 - busiest / _BUSY, 1 - achieved / 100),
        because=pl.when(limited)
        .then("occupancy_limiter")
        .when(~limited)
        .then(pl.lit("work")),
        shown={
            "occupancy": ("achieved_occupancy_percent", "percent"),
            "theoretical_occupancy": ("theoretical_occupancy_percent", "percent"),
            "stall": ("stall_percent", "percent"),
        },
    )
    return judge_measured(_ITEM, signals, thresholds, fault)


def _few_blocks(signals: Signals) -> list[int]:
    """Return the classes of kernels that leave multiprocessors without any block.

    Another rule judges these, `kernel.fill`: more blocks are what they lack.
    """
    devices = signals.of(fill_signals)
    work = signals.of(kernel_work)
    if isinstance(devices, Unavailable) or isinstance(work, Unavailable):
        return []
    fill = devices.get(work.label)
    if fill is None:
        return []
    return [one for _, classes in fill.classes for one in classes]


RULE: Final = Rule(_ITEM, evaluate, (*MEASURED_READS, fill_signals))
