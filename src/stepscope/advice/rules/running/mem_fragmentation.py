"""`mem.fragmentation`: free memory lies in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.rule import Rule
from stepscope.derive.facts.evidence import Evidence, Fact
from stepscope.derive.facts.memory_use import memory_signals
from stepscope.derive.facts.recording import record_grade

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.memory_use import MemoryUse
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("mem.fragmentation")

_GIB: Final = 2**30


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
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
        return _ITEM.cannot_tell(_ITEM.reason("not_told") if absent is None else absent)
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
        _ITEM.fact(name, float(f"{size / _GIB:.3g}"))
        for name, size in (("free_gib", free), ("largest_gib", (1 - value) * free))
    )


RULE: Final = Rule(_ITEM, evaluate, (memory_signals, record_grade))
