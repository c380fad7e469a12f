"""`mem.fragmentation`: free memory lies in pieces.

Definition: docs/advice/mem_fragmentation.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.rule import Rule
from stepscope.advice.words import Words
from stepscope.derive.facts.evidence import Evidence, Fact
from stepscope.derive.facts.memory_use import memory_signals
from stepscope.derive.facts.recording import record_grade
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.memory_use import MemoryUse
    from stepscope.thresholds import Thresholds

_GIB: Final = 2**30
_ACTIONS: Final = (
    Action(
        cause="any",
        framework="PyTorch",
        text="Let segments of memory grow in place.",
        env="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    ),
    Action(
        cause="any",
        framework="TensorFlow",
        text="Use the allocator of the driver, which maps pieces together.",
        env="TF_GPU_ALLOCATOR=cuda_malloc_async",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Keep preallocation on, and leave it enough.",
        env="XLA_CLIENT_MEM_FRACTION=0.9",
    ),
    Action(
        cause="any",
        framework="any",
        text="Keep shapes the same from step to step: pad the last batch and sequences "
        "to a few lengths.",
    ),
)
_WORDS: Final = Words(
    passed="free memory is in large pieces",
    texts={
        ("fail", None): (
            (
                (
                    "Free memory lies in pieces: {free_gib} GiB are free at the peak, "
                    "and the largest piece has {largest_gib} GiB."
                ),
            ),
        ),
        ("pass", None): (
            (
                (
                    "Free memory is in large enough pieces: at the peak the largest of "
                    "{free_gib} GiB has {largest_gib} GiB."
                ),
            ),
        ),
    },
)
_ITEM: Final = Item(
    id="mem.fragmentation",
    of_frameworks=True,
    stage=9,
    title="free memory lies in pieces",
    words=_WORDS,
    pages=("memory_profile",),
    confirm="Look at the timeline of the memory: the fragmentation stays high from "
    "step to step.",
    refute="Take a block of the size of all that is free: if that works, the pieces "
    "can be joined.",
    actions=_ACTIONS,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge how the free memory is divided at the peak of each memory."""
    found = signals.of(memory_signals)
    known = [
        (one.fragmentation, one.free_bytes, one.capacity_bytes, one)
        for one in found.memories
        if one.fragmentation is not None
        and one.free_bytes is not None
        and one.capacity_bytes
    ]
    if not known:
        absent = found.absent
        return _ITEM.cannot_tell(_NOT_TOLD if absent is None else absent)
    least = thresholds.worth_defragmenting.value
    divided = [
        (value, one)
        for value, free, capacity, one in known
        if value >= thresholds.fragmented.value
        and free >= least * capacity
        # A piece that large is enough for any block.
        and (1 - value) * free < least * capacity
    ]
    value, worst = max(
        divided or [(value, one) for value, *_, one in known], key=lambda each: each[0]
    )
    return _ITEM.finding(
        "fail" if divided else "pass",
        severity="warn" if divided else "info",
        confidence=signals.of(record_grade),
        value=value,
        unit="ratio",
        threshold=thresholds.fragmented,
        devices=tuple(one.label for _, one in divided) or (worst.label,),
        facts=_facts(worst, value),
        evidence=(
            Evidence(
                host=worst.host,
                device=None,
                track=worst.name,
                start_ps=worst.peak_ps,
                end_ps=worst.peak_ps,
            ),
        ),
        inputs=("allocations", "memory_replay"),
    )


def _facts(memory: MemoryUse, value: float) -> tuple[Fact, ...]:
    free = memory.free_bytes or 0
    return tuple(
        Fact(name=name, value=float(f"{size / _GIB:.3g}"), unit="ratio")
        for name, size in (("free_gib", free), ("largest_gib", (1 - value) * free))
    )


_NOT_TOLD: Final = Unavailable(
    code="NOT_RECORDED",
    reason="No allocator reports how its free memory is divided at the peak. Memory "
    "that a caching allocator keeps is not in pieces for that.",
    remedy="Use the memory snapshot of the framework: "
    "torch.cuda.memory._record_memory_history().",
)


RULE: Final = Rule(_ITEM, evaluate, (memory_signals, record_grade))
