"""Rules about how full a memory is: failed allocations, peak, fragments, and growth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.program_facts import program_facts
from stepscope.derive.facts.evidence import Evidence, Part
from stepscope.derive.facts.hosts.pipeline_buffers import pipeline_buffers
from stepscope.derive.facts.memory_use import PROCESS, kept_growth, memory_signals
from stepscope.derive.facts.program_traits import program_traits
from stepscope.derive.facts.recording import record_grade
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS
from stepscope.units import GIB, MIB

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.advice.finding import Finding, Severity
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.evidence import Fact
    from stepscope.derive.facts.hosts.pipeline_buffers import PipelineBuffer
    from stepscope.derive.facts.memory_use import Failure, KeptGrowth, MemoryUse

_PEAK_ITEM: Final = rule_item("mem.peak")


@rule(_PEAK_ITEM, memory_signals, pipeline_buffers, program_traits, record_grade)
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
    buffers = _large_buffers(signals, fullest) if failed else ()
    kinds = [buffer.kind for buffer in buffers]
    peak_bytes = fullest.peak_bytes or 1
    parts = tuple(
        Part(name=buffer.type, share_percent=100 * buffer.held_bytes / peak_bytes)
        for buffer in buffers
    )
    return _PEAK_ITEM.finding(
        "fail" if failed else "pass",
        severity=severity if failed and not engine else "info",
        note="engine" if engine else "buffer" if buffers else None,
        confidence=signals.of(record_grade),
        value=used,
        unit="ratio",
        threshold=critical if used >= critical.value else warn,
        devices=tuple(label for _, label, _ in known),
        parts=parts or (fullest.alive if failed else ()),
        actions=_PEAK_ITEM.actions_for(*(kinds or facts)),
        facts=(
            _PEAK_ITEM.fact("used", 100 * used, note=fullest.label),
            *_PEAK_ITEM.facts(
                held=buffers[0].held_bytes if buffers else None,
                element=buffers[0].element_bytes if buffers else None,
                before=buffers[0].smallest_bytes if buffers else None,
                limit=100 * warn.value,
                peak_gib=_as_gib(fullest.peak_bytes or 0),
                capacity_gib=_as_gib(fullest.capacity_bytes or 0),
            ),
        ),
        evidence=_evidence_of_peak(fullest, *(part.name for part in fullest.alive[:1])),
        inputs=("allocations", "memory_replay"),
    )


def _large_buffers(signals: Signals, memory: MemoryUse) -> tuple[PipelineBuffer, ...]:
    """Return the buffers of tf.data that are a large part of a process's memory."""
    if memory.name != PROCESS:
        return ()
    least = THRESHOLDS.buffer_share.value * (memory.peak_bytes or 0) / 100
    buffers = signals.of(pipeline_buffers).get(memory.host, ())
    return tuple(buffer for buffer in buffers if buffer.held_bytes >= least)


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
        evidence=_evidence_of_peak(worst),
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
    others = () if _bytes_of_others(last) is None else ("others",)
    because = (*others, "pieces" if last.fits_in_pieces else "capacity")
    return _FAILED_ALLOCATION_ITEM.finding(
        "fail",
        severity="info" if last.recovered else "critical",
        note="recovered" if last.recovered else None,
        confidence=signals.of(record_grade),
        value=len(memories.failures),
        unit="count",
        devices=(last.label,),
        parts=last.alive,
        because=because,
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
        actions=_FAILED_ALLOCATION_ITEM.actions_for(*because),
    )


def _bytes_of_others(failure: Failure) -> int | None:
    """Return the memory outside the allocator if it is a large part of the device's."""
    others, capacity = failure.others_bytes, failure.capacity_bytes or 0
    large = others is not None and (
        100 * others >= THRESHOLDS.others_share.value * capacity
    )
    return others if large else None


def _failed_allocation_facts(failure: Failure | None) -> tuple[Fact, ...]:
    sizes: tuple[int | None, ...] = (None, None, None)
    free = memory = others = capacity = None
    if failure is not None:
        others, capacity = _bytes_of_others(failure), failure.capacity_bytes
        sizes = (failure.asked_bytes, failure.allocated_bytes, failure.kept_bytes)
        free, memory = failure.free_bytes, failure.memory
    asked, allocated, kept = (None if size is None else _as_gib(size) for size in sizes)
    return (
        _FAILED_ALLOCATION_ITEM.fact("asked_gib", asked, note=memory),
        *_FAILED_ALLOCATION_ITEM.facts(
            allocated_gib=allocated,
            kept_gib=kept,
            free=free,
            device=capacity,
            others=others,
        ),
    )


def _evidence_of_peak(memory: MemoryUse, *names: str) -> tuple[Evidence, ...]:
    return (
        Evidence(
            host=memory.host,
            device=None,
            track=memory.name,
            start_ps=memory.peak_ps,
            end_ps=memory.peak_ps,
            ops=names,
        ),
    )


def _as_gib(size: float) -> float:
    return float(f"{size / GIB:.3g}")


_LEAK_ITEM: Final = rule_item("mem.leak")

#: Growth lasts if the slope of each half is at least this part of the whole slope.
_GOES_ON: Final = 0.5


class _Growth(Frozen, frozen=True, eq=True):
    """Growth of one memory: bytes per step, and whether the growth is significant."""

    per_step: float
    leaks: bool
    steps_left: float | None
    memory: MemoryUse


@rule(_LEAK_ITEM, memory_signals, kept_growth, record_grade)
def judge_leak(signals: Signals) -> Finding:
    finding = _finding_of_memories(signals)
    if finding.status == "fail" and finding.severity != "info":
        return finding
    return _finding_of_containers(signals) or finding


def _finding_of_containers(signals: Signals) -> Finding | None:
    """Return the finding about a container to which most steps add arrays."""
    sizes = {
        memory.host: memory.capacity_bytes
        for memory in signals.of(memory_signals).memories
        if memory.name == PROCESS
    }
    grown = [
        growth
        for growth in signals.of(kept_growth)
        if growth.steps >= THRESHOLDS.kept_steps.value
        and growth.items >= THRESHOLDS.kept_every.value * growth.steps
        and (left := _full_after(growth, sizes.get(growth.host))) is not None
        and left <= THRESHOLDS.kept_full.value
    ]
    if not grown:
        return None
    growth = max(grown, key=_kept_bytes)
    counted, per_step = growth.counted, _kept_bytes(growth) / growth.steps
    kind = "kept_graphs" if growth.graph_bytes > growth.array_bytes else "kept_arrays"
    left = _full_after(growth, sizes.get(growth.host))
    return _LEAK_ITEM.finding(
        "fail",
        severity="warn",
        confidence=signals.of(record_grade),
        value=left,
        unit="count",
        threshold=THRESHOLDS.kept_full,
        devices=(f"{growth.host}:{PROCESS}",),
        parts=(
            Part(
                name=counted.path,
                function=counted.function,
                file=counted.file,
                line=counted.line,
                share_percent=100 * _kept_bytes(growth) / sum(map(_kept_bytes, grown)),
            ),
        ),
        facts=(
            _LEAK_ITEM.fact(kind, round(per_step / MIB, 1)),
            *_LEAK_ITEM.facts(kept_left=left, steps=growth.steps),
        ),
        inputs=("events", "windows"),
    )


def _kept_bytes(growth: KeptGrowth) -> float:
    return growth.array_bytes + growth.graph_bytes


def _full_after(growth: KeptGrowth, capacity: int | None) -> float | None:
    """Return after how many steps a container fills a memory."""
    if not capacity or not _kept_bytes(growth):
        return None
    return capacity * growth.steps / _kept_bytes(growth)


def _finding_of_memories(signals: Signals) -> Finding:
    """Judge how the minimum memory use of a step grows from step to step."""
    memories = signals.of(memory_signals)
    enough = [
        memory
        for memory in memories.memories
        if len(memory.least_bytes) >= THRESHOLDS.leak_steps.value
        and memory.at_step[-1] - memory.at_step[0] >= THRESHOLDS.leak_steps.value - 1
        and memory.capacity_bytes
    ]
    if not enough:
        if memories.absent is not None and not memories.memories:
            return _LEAK_ITEM.cannot_tell(memories.absent)
        return _LEAK_ITEM.cannot_tell("few")
    grown = [_memory_growth(memory) for memory in enough]
    worst = max(grown, key=lambda growth: (growth.leaks, growth.per_step))
    if memories.absent is not None and not worst.leaks:
        # The memory of the process does not show the memory of a device.
        return _LEAK_ITEM.cannot_tell(memories.absent)
    soon = worst.steps_left is not None and (
        worst.steps_left < THRESHOLDS.leak_soon.value
    )
    severity: Severity = "critical" if soon else "warn"
    if not worst.leaks or worst.memory.name == PROCESS:
        # The recording itself makes the process grow too.
        severity = "info"
    return _LEAK_ITEM.finding(
        "fail" if worst.leaks else "pass",
        severity=severity,
        confidence=signals.of(record_grade),
        value=100 * worst.per_step / (worst.memory.capacity_bytes or 1),
        threshold=THRESHOLDS.leak_growth,
        devices=tuple(
            growth.memory.label for growth in grown if growth.leaks == worst.leaks
        ),
        parts=worst.memory.grown if worst.leaks else (),
        facts=(
            _LEAK_ITEM.fact(
                "growth_mib", round(worst.per_step / MIB, 1), note=worst.memory.label
            ),
            *_LEAK_ITEM.facts(
                steps_left=worst.steps_left, steps=len(worst.memory.least_bytes)
            ),
        ),
        inputs=("allocations", "memory_replay", "windows"),
    )


def _memory_growth(memory: MemoryUse) -> _Growth:
    use = np.array(memory.least_bytes, np.float64)
    step = np.array(memory.at_step, np.float64)
    slope, low = _theil_sen_slope(step, use)
    half = len(use) // 2
    earlier, _ = _theil_sen_slope(step[:half], use[:half])
    later, _ = _theil_sen_slope(step[half:], use[half:])
    capacity = memory.capacity_bytes or 0
    leaks = (
        low > 0
        and 100 * slope >= THRESHOLDS.leak_growth.value * capacity
        and min(earlier, later) >= _GOES_ON * slope
    )
    left = float((capacity - use[-1]) / slope) if leaks else None
    return _Growth(float(slope), bool(leaks), left, memory)


def _theil_sen_slope(
    step: NDArray[np.float64], use: NDArray[np.float64]
) -> tuple[float, float]:
    """Return the Theil-Sen slope, and the lower end of its 95 % interval.

    The interval follows from the ranks of the slopes of all pairs of steps (Sen 1968).
    """
    count = len(step)
    # Steps ascend, so each step is paired with the later steps.
    after = np.searchsorted(step, step, side="right")
    ends = np.cumsum(count - after)
    slopes = np.empty(int(ends[-1]) if count else 0)
    for row, (first, end) in enumerate(zip(after.tolist(), ends.tolist(), strict=True)):
        pairs = slice(end - (count - first), end)
        slopes[pairs] = (use[first:] - use[row]) / (step[first:] - step[row])
    if not len(slopes):
        return 0.0, 0.0
    spread = 1.96 * np.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    lowest = max(int((len(slopes) - spread) / 2), 0)
    slopes.partition(lowest)
    low = float(slopes[lowest])
    return float(np.median(slopes, overwrite_input=True)), low
