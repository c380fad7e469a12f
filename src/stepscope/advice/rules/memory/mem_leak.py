"""`mem.leak`: memory grows in every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.memory_use import PROCESS, kept_growth, memory_signals
from stepscope.derive.facts.recording import record_grade
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS
from stepscope.units import MIB

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.advice.finding import Finding, Severity
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.memory_use import KeptGrowth, MemoryUse

_ITEM: Final = rule_item("mem.leak")

#: Growth lasts if the second half's slope is at least this part of the whole slope.
_GOES_ON: Final = 0.5


class _Growth(Frozen, frozen=True, eq=True):
    """Growth of one memory: bytes per step, and whether the growth is significant."""

    per_step: float
    leaks: bool
    steps_left: float | None
    memory: MemoryUse


@rule(_ITEM, memory_signals, kept_growth, record_grade)
def evaluate(signals: Signals) -> Finding:
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
    return _ITEM.finding(
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
            _ITEM.fact(kind, round(per_step / MIB, 1)),
            *_ITEM.facts(kept_left=left, steps=growth.steps),
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
            return _ITEM.cannot_tell(memories.absent)
        return _ITEM.cannot_tell("few")
    grown = [_memory_growth(memory) for memory in enough]
    worst = max(grown, key=lambda growth: (growth.leaks, growth.per_step))
    if memories.absent is not None and not worst.leaks:
        # The memory of the process does not show the memory of a device.
        return _ITEM.cannot_tell(memories.absent)
    soon = worst.steps_left is not None and (
        worst.steps_left < THRESHOLDS.leak_soon.value
    )
    severity: Severity = "critical" if soon else "warn"
    if not worst.leaks or worst.memory.name == PROCESS:
        # The recording itself makes the process grow too.
        severity = "info"
    return _ITEM.finding(
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
            _ITEM.fact(
                "growth_mib", round(worst.per_step / MIB, 1), note=worst.memory.label
            ),
            *_ITEM.facts(
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
    later, _ = _theil_sen_slope(step[half:], use[half:])
    capacity = memory.capacity_bytes or 0
    leaks = (
        low > 0
        and 100 * slope >= THRESHOLDS.leak_growth.value * capacity
        and later >= _GOES_ON * slope
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
