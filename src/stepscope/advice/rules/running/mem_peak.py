"""`mem.peak`: memory is nearly full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.judging.fitting_actions import fitting
from stepscope.advice.rule import Rule
from stepscope.derive.facts.evidence import Evidence, Fact
from stepscope.derive.facts.memory_use import memory_signals
from stepscope.derive.facts.program_traits import program_traits
from stepscope.derive.facts.recording import record_grade

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.memory_use import MemoryUse
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("mem.peak")

_GIB: Final = 2**30


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
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
            return _ITEM.cannot_tell(found.absent or _ITEM.reason("unknown"))
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
        actions=fitting(_ITEM.actions, signals) if failed else (),
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
        _ITEM.fact("used", 100 * used, note=memory.label),
        *_ITEM.facts(limit=100 * thresholds.memory_warn.value),
        *(_ITEM.fact(name, float(f"{size / _GIB:.3g}")) for name, size in sizes),
    )


RULE: Final = Rule(_ITEM, evaluate, (memory_signals, program_traits, record_grade))
