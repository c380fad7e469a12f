"""One memory of a result: its numbers, and what takes all of its events to know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import polars as pl

from stepscope.analysis.memory_profile.rows import (
    BREAKDOWN_ROWS,
    LINE_ROWS,
    STEP_ROWS,
    TIMELINE_ROWS,
)
from stepscope.analysis.results.statistics import Statistics
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from stepscope.analysis.memory_profile.rows import MemoryView


class MemoryPeak(msgspec.Struct, frozen=True, kw_only=True):
    """The first event after which stack and heap together are greatest.

    Attributes:
        time_ms: Time of the peak, since the start of its host's profile.
        memory_in_use_bytes: Size of stack and heap together.
        stack_bytes: Size of the stack, which is reserved beside the heap; null where
            unknown.
        heap_bytes: Size of the heap in use.
        free_bytes: Size of the free memory; null where not recorded.
        fragmentation: 1 - largest free chunk / free memory, 0 to 1; null where nothing
            was free or it was not recorded.
        step_id: Number of the step at the peak; null in no step, and where no step is
            known.
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
        value: Value that passes the threshold: a share, 0 to 1.
        threshold: Threshold: the share from which on the warning is given.
    """

    kind: str
    severity: str
    value: float
    threshold: float


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory of one host; counts are of all its events.

    Attributes:
        allocations: Number of allocations in the profile.
        deallocations: Number of deallocations in the profile.
        unmatched_deallocations: Number of deallocations of blocks whose allocation was
            not recorded, as a rule because they are older than the profile; null
            without addresses.
        address_reuse: Number of allocations at an address where a block was alive, so
            that its deallocation is missing; null without addresses.
        capacity_bytes: Size of the memory; where that is not recorded, stack, heap and
            free together, the greatest if it changes. Null where neither is known.
        peak_heap_lifetime_bytes: Greatest size of the heap since the process began;
            null where not recorded.
        peak: The peak in the profile; null where no use is known.
        level: How the memory in use is known: `recorded`; `replayed` where events do
            not report it, so that it is the sum of the events and older blocks are only
            partly seen; `recorded_since_start` where the allocator counts no older
            blocks; `one_instant` where the file shows a single instant.
        timeline: Extremes and the peak, or every event.
        breakdown: Blocks that were alive at `breakdown_time_ms`; they add up to the
            memory in use then.
        lines: What each line of the program held at that time; the largest first.
        breakdown_time_ms: Time of the breakdown, since the start of the profile: the
            peak, or the time that was asked for; null where neither is known.
        steps: Memory in use at the boundaries of steps.
        growth_bytes_per_step: Statistics of the growth of the memory in use over the
            closed steps.
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
    lines: Annotated[pl.DataFrame, LINE_ROWS]
    breakdown_time_ms: float | None
    steps: Annotated[pl.DataFrame, STEP_ROWS]
    growth_bytes_per_step: Statistics
    warnings: tuple[MemoryWarning, ...]


class Facts(Frozen, frozen=True, eq=True):
    """What takes all events of a memory to know.

    Attributes:
        frees: Number of deallocations.
        held: Number of rows that are neither, but blocks that were there before.
        placed: Whether it is known which allocation a deallocation ends: events carry
            addresses, or there are no events.
        capacity: Greatest capacity, or sum of stack, heap and free; None where never
            known.
        least_capacity: Least capacity, or sum of stack, heap and free; None where never
            known.
        lifetime_peak: Greatest size of the heap since the process began; None if not
            recorded.
    """

    frees: int
    held: int
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
    held = int((events["kind"] == "held").sum())
    return Facts(
        frees=int((events["kind"] == "deallocate").sum()),
        held=held,
        placed=events["address"].null_count() < len(events) or held == len(events),
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
    """List the warnings about a peak.

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
