"""`kernel.spills`: threads keep values in memory instead of registers.

Definition: docs/advice/kernel_spills.md.
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
        text="Let threads keep fewer values: smaller tiles, fewer unrolled rounds, or "
        "a larger bound on registers.",
        code="__launch_bounds__(256)",
    ),
    Action(
        cause="any",
        framework="any",
        text="Index arrays of a thread by constants only, so that they fit registers.",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="For kernels of Triton: fewer stages, or more warps for the same tile.",
        code="triton.Config({...}, num_warps=8, num_stages=2)",
    ),
)
_WORDS: Final = Words(
    passed="threads keep their values in registers",
    texts={
        ("fail", None): (
            (
                (
                    "For {value} of the kernels' time threads keep values in memory "
                    "instead of registers, most of it {named}: {local} of its traffic "
                    "is of that kind."
                ),
            ),
        ),
        ("pass", None): (
            (
                (
                    "For {value:nothing} of the kernels' time threads keep values in "
                    "memory instead of registers."
                ),
            ),
        ),
    },
)
_ITEM: Final = Item(
    id="kernel.spills",
    stage=5,
    title="threads keep values in memory instead of registers",
    words=_WORDS,
    pages=("kernel_stats",),
    confirm="Compile the kernel with `-Xptxas -v`: it names the spilled bytes.",
    refute="Arrays that a thread indexes by a variable are in local memory too, and "
    "are no spills.",
    floors=("a kernel goes no faster than its busiest unit allows",),
    actions=_ACTIONS,
    explains=("op.hot",),
)
_SECTOR_BYTES: Final = 32


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time of kernels by the share of local memory in their traffic."""
    local = pl.col("local_memory_sectors")
    loads, stores = pl.col("global_load_sectors"), pl.col("global_store_sectors")
    every = pl.coalesce(pl.col("l1_bytes") / _SECTOR_BYTES, local + loads + stores)
    share = (
        pl.when(local == 0)
        .then(pl.lit(0.0))
        .when(every > 0)
        .then((local / every).clip(0, 1))
    )
    fault = Fault(
        found=100 * share >= thresholds.spilled_traffic.value,
        saved=share,
        shown={
            "local": ("local_percent", "percent"),
            "registers": ("registers", "count"),
        },
        added={"local_percent": 100 * share},
    )
    return judge_measured(_ITEM, signals, thresholds, fault)


RULE: Final = Rule(_ITEM, evaluate, MEASURED_READS)
