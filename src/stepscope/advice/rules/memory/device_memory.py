"""Rules about how full a memory is: failed allocations, the peak, fragmentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.program_facts import program_facts
from stepscope.derive.facts.evidence import Evidence
from stepscope.derive.facts.memory_use import memory_signals
from stepscope.derive.facts.program_traits import program_traits
from stepscope.derive.facts.recording import record_grade
from stepscope.thresholds import THRESHOLDS
from stepscope.units import GIB

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding, Severity
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.evidence import Fact
    from stepscope.derive.facts.memory_use import Failure


_PEAK_ITEM: Final = rule_item("mem.peak")


@rule(_PEAK_ITEM, memory_signals, program_traits, record_grade)
def judge_peak(signals: Signals) -> Finding:
    memories = signals.of(memory_signals)
    warn, critical = THRESHOLDS.memory_warn, THRESHOLDS.memory_critical
    known = sorted(
        (
            (memory.used, memory.label, memory)
            for memory in memories.memories
            if memory.used is not None and (memory.counted or memory.used >= warn.value)
        ),
        key=lambda row: (-row[0], row[1]),
    )
    # The memory of the process does not show the memory of the devices.
    if not known or all(memory.name == "process" for *_, memory in known):
        of_process = known[0] if known else None
        if of_process is None or of_process[0] < warn.value:
            return _PEAK_ITEM.cannot_tell(
                memories.absent or _PEAK_ITEM.reason("unknown")
            )
    used, _, fullest = known[0]
    failed = used >= warn.value
    severity: Severity = "critical" if used >= critical.value else "warn"
    facts = program_facts(signals)
    # A serving engine fills the device's memory with its cache in advance.
    engine = failed and fullest.of_device and "engine" in facts
    return _PEAK_ITEM.finding(
        "fail" if failed else "pass",
        severity=severity if failed and not engine else "info",
        note="engine" if engine else None,
        confidence=signals.of(record_grade),
        value=used,
        unit="ratio",
        threshold=critical if used >= critical.value else warn,
        devices=tuple(label for _, label, _ in known),
        parts=fullest.alive if failed else (),
        actions=_PEAK_ITEM.actions_for(*facts),
        facts=(
            _PEAK_ITEM.fact("used", 100 * used, note=fullest.label),
            *_PEAK_ITEM.facts(
                limit=100 * warn.value,
                peak_gib=_as_gib(fullest.peak_bytes or 0),
                capacity_gib=_as_gib(fullest.capacity_bytes or 0),
            ),
        ),
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


_FRAGMENTATION_ITEM: Final = rule_item("mem.fragmentation")


@rule(_FRAGMENTATION_ITEM, memory_signals, record_grade)
def judge_fragmentation(signals: Signals) -> Finding:
    memories = signals.of(memory_signals)
    known = [
        (memory.fragmentation, memory.free_bytes, memory.capacity_bytes, memory)
        for memory in memories.memories
        if memory.fragmentation is not None
        and memory.free_bytes is not None
        and memory.capacity_bytes
    ]
    if not known:
        absent = memories.absent
        return _FRAGMENTATION_ITEM.cannot_tell(
            _FRAGMENTATION_ITEM.reason("not_told") if absent is None else absent
        )
    min_share = THRESHOLDS.worth_defragmenting.value
    divided = [
        (value, memory)
        for value, free, capacity, memory in known
        if value >= THRESHOLDS.fragmented.value
        and free >= min_share * capacity
        # A free piece of at least this size is enough for any block.
        and (1 - value) * free < min_share * capacity
    ]
    value, worst = max(
        divided or [(value, memory) for value, *_, memory in known],
        key=lambda row: row[0],
    )
    return _FRAGMENTATION_ITEM.finding(
        "fail" if divided else "pass",
        severity="warn" if divided else "info",
        confidence=signals.of(record_grade),
        value=value,
        unit="ratio",
        threshold=THRESHOLDS.fragmented,
        devices=tuple(memory.label for _, memory in divided) or (worst.label,),
        facts=_FRAGMENTATION_ITEM.facts(
            free_gib=_as_gib(worst.free_bytes or 0),
            largest_gib=_as_gib((1 - value) * (worst.free_bytes or 0)),
        ),
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


_FAILED_ALLOCATION_ITEM: Final = rule_item("mem.oom")


@rule(_FAILED_ALLOCATION_ITEM, memory_signals, record_grade)
def judge_failed_allocation(signals: Signals) -> Finding:

    memories = signals.of(memory_signals)
    if not memories.failures:
        if not memories.tells_failures:
            return _FAILED_ALLOCATION_ITEM.cannot_tell("not_told")
        return _FAILED_ALLOCATION_ITEM.finding(
            "pass", facts=_failed_allocation_facts(None), inputs=("events",)
        )
    last = memories.failures[-1]
    because = "pieces" if last.fits_in_pieces else "capacity"
    return _FAILED_ALLOCATION_ITEM.finding(
        "fail",
        severity="info" if last.recovered else "critical",
        note="recovered" if last.recovered else None,
        confidence=signals.of(record_grade),
        value=len(memories.failures),
        unit="count",
        devices=(last.label,),
        parts=last.alive,
        because=(because,),
        facts=_failed_allocation_facts(last),
        evidence=(
            Evidence(
                host=last.host,
                device=last.device,
                track=None,
                start_ps=last.time_ps,
                end_ps=last.time_ps,
            ),
        ),
        inputs=("events",),
        actions=_FAILED_ALLOCATION_ITEM.actions_for(because),
    )


def _failed_allocation_facts(failure: Failure | None) -> tuple[Fact, ...]:
    sizes: tuple[int | None, ...] = (None, None, None)
    free = memory = None
    if failure is not None:
        sizes = (failure.asked_bytes, failure.allocated_bytes, failure.kept_bytes)
        free, memory = failure.free_bytes, failure.memory
    asked, allocated, kept = (None if size is None else _as_gib(size) for size in sizes)
    return (
        _FAILED_ALLOCATION_ITEM.fact("asked_gib", asked, note=memory),
        *_FAILED_ALLOCATION_ITEM.facts(
            allocated_gib=allocated, kept_gib=kept, free=free
        ),
    )


def _as_gib(size: float) -> float:
    return float(f"{size / GIB:.3g}")
