"""One memory of a result: its numbers, and what takes all of its events to know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
import polars as pl

from stepscope.analysis.memory_profile.columns import (
    BREAKDOWN_ROWS,
    STEP_ROWS,
    TIMELINE_ROWS,
)
from stepscope.analysis.results.statistics import Statistics
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from stepscope.analysis.memory_profile.rows import MemoryView

__all__ = [
    "Facts",
    "Memory",
    "MemoryPeak",
    "MemoryWarning",
    "facts_of",
    "passed_thresholds",
]


class MemoryPeak(msgspec.Struct, frozen=True, kw_only=True):
    """The first event after which stack and heap together are greatest.

    Attributes:
        time_ms: Since the start of its host's profile.
        memory_in_use_bytes: Stack and heap.
        stack_bytes: Reserved.
        heap_bytes: In use.
        free_bytes: Left.
        fragmentation: 1 - largest free chunk / free, 0 to 1; None where nothing was
            free.
        step_id: Number of the step; null in no step, and where no step is known.
    """

    time_ms: float
    memory_in_use_bytes: int
    stack_bytes: int | None
    heap_bytes: int
    free_bytes: int | None
    fragmentation: float | None
    step_id: int | None


class MemoryWarning(msgspec.Struct, frozen=True, kw_only=True):
    """A threshold that is passed at the peak.

    Definition: docs/tools/memory_profile.md#summary.

    Attributes:
        kind: `fragmentation` or `near_capacity`.
        severity: `warning` or `critical`.
        value: A share, 0 to 1.
        threshold: The share from which on it is said.
    """

    kind: str
    severity: str
    value: float
    threshold: float


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory of one host; counts are of all its events.

    Attributes:
        allocations: Allocations in the profile.
        deallocations: Deallocations in the profile.
        unmatched_deallocations: Those of blocks that nobody saw allocated, as a rule
            because they are older than the profile; None without addresses.
        address_reuse: Allocations at an address where a block was alive, so that its
            deallocation is missing; None without addresses.
        capacity_bytes: The size of the memory; where that is not recorded, stack, heap
            and free together, the greatest if it changes.
        peak_heap_lifetime_bytes: Greatest heap since the process began.
        peak: The peak in the profile; None where no use is known.
        level: `recorded`; `replayed` where events do not tell the memory in use, so
            that it is what they add up to and older blocks are only partly seen;
            `recorded_since_start` where the allocator counts no older blocks.
        timeline: Extremes and the peak, or every event.
        breakdown: What was alive; it adds up to the memory in use then.
        breakdown_time_ms: When: the peak, or what was asked for.
        steps: Use at the boundaries of steps.
        growth_bytes_per_step: Statistics over the closed steps.
        warnings: Thresholds that are passed at the peak.
    """

    allocations: int
    deallocations: int
    unmatched_deallocations: int | None
    address_reuse: int | None
    capacity_bytes: int | None
    peak_heap_lifetime_bytes: int | None
    peak: MemoryPeak | None
    level: str
    timeline: Annotated[pl.DataFrame, TIMELINE_ROWS]
    breakdown: Annotated[pl.DataFrame, BREAKDOWN_ROWS]
    breakdown_time_ms: float | None
    steps: Annotated[pl.DataFrame, STEP_ROWS]
    growth_bytes_per_step: Statistics
    warnings: tuple[MemoryWarning, ...]


class Facts(NamedTuple):
    """What takes all events of a memory to know.

    Attributes:
        frees: Deallocations.
        placed: Some event carries an address.
        capacity: Greatest size, or sum of stack, heap and free; None where never known.
        least_capacity: Least one.
        lifetime_peak: Greatest heap since the process began; None if not recorded.
    """

    frees: int
    placed: bool
    capacity: int | None
    least_capacity: int | None
    lifetime_peak: int | None


def facts_of(view: MemoryView) -> Facts:
    """Look at every event of a memory once."""
    rows = view.memory.rows
    events = view.allocations.select(
        *("kind", "address", "stack_bytes", "heap_bytes", "free_bytes", "peak_bytes"),
        *("capacity_bytes", "older_counted"),
    )
    if len(rows) < len(events):
        events = events[rows]
    parts = events["stack_bytes"] + events["heap_bytes"] + events["free_bytes"]
    total = events["capacity_bytes"].fill_null(parts)
    recorded = _integer(events["peak_bytes"].max())
    return Facts(
        frees=int((events["kind"] == "deallocate").sum()),
        placed=events["address"].null_count() < len(events),
        capacity=_integer(total.max()),
        least_capacity=_integer(total.min()),
        # A use that was seen was reached, whatever the allocator claims.
        lifetime_peak=None
        if recorded is None
        else max(recorded, int(view.memory.heap_bytes.max())),
    )


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) else None


def passed_thresholds(
    peak: MemoryPeak | None, capacity: int | None
) -> tuple[MemoryWarning, ...]:
    """What is said of a peak.

    Definition: docs/tools/memory_profile.md#summary.
    """
    if peak is None or not capacity:
        return ()
    found = []
    used = peak.memory_in_use_bytes / capacity
    nearly, full = THRESHOLDS.memory_warn.value, THRESHOLDS.memory_critical.value
    if used >= nearly:
        critical = used >= full
        found.append(
            MemoryWarning(
                kind="near_capacity",
                severity="critical" if critical else "warning",
                value=used,
                threshold=full if critical else nearly,
            )
        )
    divided, free = peak.fragmentation, peak.free_bytes
    if (
        divided is not None
        and divided >= THRESHOLDS.fragmented.value
        # Pieces of what is hardly there are of no use together either.
        and free is not None
        and free >= THRESHOLDS.worth_defragmenting.value * capacity
    ):
        found.append(
            MemoryWarning(
                kind="fragmentation",
                severity="warning",
                value=divided,
                threshold=THRESHOLDS.fragmented.value,
            )
        )
    return tuple(found)
