"""`mem.peak`: memory is nearly full.

Definition: docs/advice/mem_peak.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.fitting_actions import fitting
from stepscope.advice.rule import Rule
from stepscope.advice.words import Words
from stepscope.derive.facts.evidence import Evidence, Fact
from stepscope.derive.facts.memory_use import memory_signals
from stepscope.derive.facts.program_traits import program_traits
from stepscope.derive.facts.recording import record_grade
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.memory_use import MemoryUse
    from stepscope.thresholds import Thresholds

_GIB: Final = 2**30
_ACTIONS: Final = (
    Action(
        cause="training",
        framework="any",
        text="Compute activations again in the backward pass instead of keeping them.",
        code="tf.recompute_grad(f) · jax.checkpoint(f) · "
        "torch.utils.checkpoint.checkpoint(f, x)",
    ),
    Action(
        cause="training",
        framework="any",
        text="Keep activations in 16 bit (mixed precision).",
    ),
    Action(
        cause="training",
        framework="any",
        text="Use a smaller batch, and accumulate gradients over several.",
    ),
    Action(
        cause="training",
        framework="any",
        text="Divide parameters and optimizer state among devices.",
    ),
    Action(
        cause="engine",
        framework="any",
        text="A server of models takes memory ahead, for its cache of keys and values. "
        "Where something else needs room, let it take less.",
        code="vllm serve … --gpu-memory-utilization 0.8 · "
        "sglang.launch_server … --mem-fraction-static 0.8",
    ),
    Action(
        cause="engine",
        framework="any",
        text="Answer fewer requests at once, or shorter ones.",
    ),
    Action(
        cause="inference",
        framework="any",
        text="Work through the batch in smaller parts, keep no activations for "
        "gradients, and drop results that nothing reads any more.",
        code="with torch.inference_mode(): …",
    ),
    Action(
        cause="inference",
        framework="any",
        text="Keep weights and caches in a narrower type, or divide them among "
        "devices.",
    ),
)
_HELD: Final = tuple(
    f"{{peak_gib}} of {{capacity_gib}} GiB are in use at the peak ({{used}}){named}."
    for named in ("; the largest part that was recorded is that of {named}", "")
)
_WORDS: Final = Words(
    passed="there is room in memory",
    lead=(
        "Memory is nearly full: {peak_gib} of {capacity_gib} GiB at the peak ({used}).",
    ),
    texts={
        ("fail", None): (("Memory is nearly full.",), _HELD),
        ("pass", None): (
            (
                (
                    "There is room in memory: {used} of it is in use at the peak (a "
                    "matter from {limit} on)."
                ),
            ),
        ),
    },
)
_ITEM: Final = Item(
    id="mem.peak",
    of_frameworks=True,
    stage=9,
    title="memory is nearly full",
    words=_WORDS,
    pages=("memory_profile",),
    confirm="Look at the timeline of the memory, and at what was alive at the peak.",
    refute="Raise the batch by a tenth: if it still runs, there was room.",
    actions=_ACTIONS,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the fullest memory at its peak."""
    found = signals.of(memory_signals)
    warn, critical = thresholds.memory_warn, thresholds.memory_critical
    known = sorted(
        (
            (one.used, one.label, one)
            for one in found.memories
            if one.used is not None and (one.counted or one.used >= warn.value)
        ),
        key=lambda each: (-each[0], each[1]),
    )
    # The process's own memory says nothing of the devices'.
    if not known or all(one.name == "process" for *_, one in known):
        told = known[0] if known else None
        if told is None or told[0] < warn.value:
            return _ITEM.cannot_tell(found.absent or _UNKNOWN)
    used, _, fullest = known[0]
    failed = used >= warn.value
    return _ITEM.finding(
        "fail" if failed else "pass",
        severity=_severity(used, thresholds) if failed else "info",
        confidence=signals.of(record_grade),
        value=used,
        unit="ratio",
        threshold=critical if used >= critical.value else warn,
        devices=tuple(label for _, label, _ in known),
        parts=fullest.alive if failed else (),
        actions=fitting(_ACTIONS, signals) if failed else (),
        facts=_facts(fullest, used, thresholds),
        evidence=(
            Evidence(
                host=fullest.host,
                device=None,
                track=fullest.name,
                start_ps=fullest.peak_ps,
                end_ps=fullest.peak_ps,
                ops=tuple(part.name for part in fullest.alive[:1]),
            ),
        ),
        inputs=("allocations", "memory_replay"),
    )


def _severity(used: float, thresholds: Thresholds) -> str:
    return "critical" if used >= thresholds.memory_critical.value else "warn"


def _facts(memory: MemoryUse, used: float, thresholds: Thresholds) -> tuple[Fact, ...]:
    sizes = (
        ("peak_gib", memory.peak_bytes or 0),
        ("capacity_gib", memory.capacity_bytes or 0),
    )
    return (
        Fact(name="used", value=100 * used, unit="percent", note=memory.label),
        Fact(name="limit", value=100 * thresholds.memory_warn.value, unit="percent"),
        *(
            Fact(name=name, value=float(f"{size / _GIB:.3g}"), unit="ratio")
            for name, size in sizes
        ),
    )


_UNKNOWN: Final = Unavailable(
    code="NOT_RECORDED",
    reason="Of no memory both its size and its use are known.",
    remedy="Record with a release of the framework whose allocator reports both.",
)


RULE: Final = Rule(_ITEM, evaluate, (memory_signals, program_traits, record_grade))
