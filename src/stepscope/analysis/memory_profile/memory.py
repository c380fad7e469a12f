"""One memory of a result: its numbers, missing values, and contradictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import polars as pl

from stepscope.analysis.memory_profile.rows import (
    BREAKDOWN_ROWS,
    LINE_ROWS,
    LOST,
    STEP_ROWS,
    SUMMARY_ROWS,
    TIMELINE_ROWS,
)
from stepscope.analysis.results.statistics import Statistics, sample_statistics
from stepscope.analysis.results.tables import (
    declared_reasons,
    missing_columns,
    missing_fields,
    package_reasons,
)
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.thresholds import THRESHOLDS
from stepscope.trace.quality import QualityNote
from stepscope.units import bytes_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.analysis.memory_profile.rows import MemoryView
    from stepscope.trace.schema import TableSchema
    from stepscope.unavailable import Missing, Unavailable

_WHY: Final = package_reasons("memory_profile")


class MemoryPeak(msgspec.Struct, frozen=True, kw_only=True):
    """The first event after which stack and heap together are largest.

    Attributes:
        time_ms: Time of the peak, since the start of its host's profile.
        memory_in_use_bytes: Size of stack and heap together.
        stack_bytes: Size of the stack, which is not in the heap; null if unknown.
        heap_bytes: Size of the heap in use.
        free_bytes: Size of the free memory; null if not recorded.
        fragmentation: 1 - largest free chunk / free memory, from 0 to 1; null if no
            memory was free or free memory was not recorded.
        step_id: Number of the step at the peak; null outside known steps.
    """

    time_ms: float
    memory_in_use_bytes: int
    stack_bytes: int | None
    heap_bytes: int
    free_bytes: int | None
    fragmentation: float | None
    step_id: int | None


class MemoryWarning(msgspec.Struct, frozen=True, kw_only=True):
    """A threshold that is reached at the peak.

    Definition: docs/tools/memory_profile.md#summary.

    Attributes:
        kind: `fragmentation` or `near_capacity`.
        severity: `warning` or `critical`.
        value: Value that reaches the threshold: a share, from 0 to 1.
        threshold: Share from which the warning is given, from 0 to 1.
    """

    kind: str
    severity: str
    value: float
    threshold: float


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory of one host; counts cover all its events.

    Attributes:
        allocations: Number of allocations in the profile.
        deallocations: Number of deallocations in the profile.
        unmatched_deallocations: Number of deallocations without a recorded allocation,
            usually because the block is older than the profile; null without addresses.
        address_reuse: Number of allocations at the address of a live block, whose
            deallocation was thus not recorded; null without addresses.
        capacity_bytes: Size of the memory or, if not recorded, of stack, heap and free
            memory together; the largest value if it changes. Null if unknown.
        peak_heap_lifetime_bytes: Largest heap since the process began; null if unknown.
        peak: The peak in the profile; null if the memory in use is unknown.
        level: How the memory in use is known: `recorded`; `replayed`: the sum of the
            events, because the events do not contain it (older blocks are only partly
            included); `recorded_since_start`: recorded, but without older blocks;
            `one_instant`: the file shows a single instant.
        timeline: Memory in use over time: extremes and the peak, or every event.
        breakdown: Blocks alive at `breakdown_time_ms`; the sum is the memory in use.
        lines: Memory by line of the program at `breakdown_time_ms`, largest first.
        breakdown_time_ms: Time of the breakdown, since the start of the profile: the
            requested time, or the peak; null if neither is known.
        steps: Memory in use at the boundaries of steps.
        growth_bytes_per_step: Statistics of the memory growth over complete steps.
        warnings: Thresholds that are reached at the peak.
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
    """Numbers that are computed from all events of a memory.

    Attributes:
        frees: Number of deallocations.
        held: Number of rows that are blocks from before the recording.
        placed: Whether deallocations can be matched with allocations: events have
            addresses, or no events were recorded.
        capacity: Largest capacity (or stack + heap + free memory); None if unknown.
        least_capacity: Smallest capacity (or stack + heap + free memory), or None.
        lifetime_peak: Largest heap since the process began; None if not recorded.
    """

    frees: int
    held: int
    placed: bool
    capacity: int | None
    least_capacity: int | None
    lifetime_peak: int | None


def memory_facts(view: MemoryView) -> Facts:
    """Compute the facts of a memory in one pass over its events."""
    rows = view.memory.rows
    events = view.allocations.select(
        *("kind", "address", "stack_bytes", "heap_bytes", "free_bytes", "peak_bytes"),
        *("capacity_bytes", "older_counted"),
    )
    if len(rows) < len(events):
        events = events[rows]
    parts = events["stack_bytes"] + events["heap_bytes"] + events["free_bytes"]
    total = events["capacity_bytes"].fill_null(parts)
    recorded = _integer_or_none(events["peak_bytes"].max())
    held = int((events["kind"] == "held").sum())
    return Facts(
        frees=int((events["kind"] == "deallocate").sum()),
        held=held,
        placed=events["address"].null_count() < len(events) or held == len(events),
        capacity=_integer_or_none(total.max()),
        least_capacity=_integer_or_none(total.min()),
        # At least the largest heap of an event, even if the allocator's peak is lower.
        lifetime_peak=None
        if recorded is None
        else max(recorded, int(view.memory.heap_bytes.max())),
    )


def _integer_or_none(value: object) -> int | None:
    return value if isinstance(value, int) else None


def passed_thresholds(
    peak: MemoryPeak | None, capacity: int | None
) -> tuple[MemoryWarning, ...]:
    """Return the warnings about a peak.

    Definition: docs/tools/memory_profile.md#summary.
    """
    if peak is None or not capacity:
        return ()
    warnings = []
    used = peak.memory_in_use_bytes / capacity
    nearly, full = THRESHOLDS.memory_warn.value, THRESHOLDS.memory_critical.value
    if used >= nearly:
        critical = used >= full
        warnings.append(
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
        # With little free memory, fragmentation does not matter.
        and free is not None
        and free >= THRESHOLDS.worth_defragmenting.value * capacity
    ):
        warnings.append(
            MemoryWarning(
                kind="fragmentation",
                severity="warning",
                value=divided,
                threshold=THRESHOLDS.fragmented.value,
            )
        )
    return tuple(warnings)


_RECORD_MORE: Final = (
    "Record with a release of the framework whose allocator reports this value."
)
#: Column → remedy if the column has no values; `_RECORD_MORE` for all other columns.
_REMEDIES: Final = {
    "capacity_bytes": "Look up the capacity where the program ran (`nvidia-smi`, "
    "`free -h`).",
    **dict.fromkeys(("tensor_bytes", "source", "stack"), Remedy.WRITE_MEMORY),
}


def growth_statistics(
    steps: pl.DataFrame, *, field: str
) -> tuple[Statistics, tuple[Missing, ...]]:
    """Return growth statistics over complete steps or, if there are none, all steps."""
    closed = steps.filter(~pl.col("open_end"))
    rows = closed if len(closed) else steps
    return sample_statistics(rows["growth_bytes"].drop_nulls().to_numpy(), field=field)


def _column_reasons(table: TableSchema) -> dict[str, Unavailable]:
    """Return the reason for each empty column; names of steps need no reason."""
    return declared_reasons(
        table,
        {
            column.name: ("NOT_RECORDED", _REMEDIES.get(column.name, _RECORD_MORE))
            for column in table.columns
            if column.null and column.name != "name"
        },
    )


def missing_of_rows(
    rows: pl.DataFrame, memories: Mapping[str, Memory]
) -> list[Missing]:
    """Return the columns of the summary that are null for every memory."""
    reasons = _column_reasons(SUMMARY_ROWS)
    if rows["peak_bytes"].is_not_null().any():
        fragmentation_known = any(
            memory.timeline["fragmentation"].is_not_null().any()
            for memory in memories.values()
        )
        if fragmentation_known:
            reasons["peak_fragmentation"] = _WHY["not_at_peak"]
        reasons["peak_capacity_percent"] = reasons["capacity_bytes"]
    return missing_columns(rows, reasons, prefix="rows.")


def missing_of_memory(name: str, memory: Memory, view: MemoryView) -> list[Missing]:
    """Return every null field of a memory, and every column without values."""
    path = f"memories.{name}"
    of_rows = _column_reasons(SUMMARY_ROWS)
    own = {
        field: of_rows[field] for field in memory.__struct_fields__ if field in of_rows
    }
    missing = missing_fields(memory, own, prefix=f"{path}.")
    if memory.unmatched_deallocations is None:
        why_unknown = of_rows["unmatched_deallocations"]
        missing.append(why_unknown.missing_field(f"{path}.breakdown"))
    if view.steps.why is not None:
        missing += [
            view.steps.why.missing_field(f"{path}.{field}")
            for field in ("steps", "growth_bytes_per_step")
        ]
    else:
        field = f"{path}.growth_bytes_per_step"
        missing += growth_statistics(memory.steps, field=field)[1]
    no_step = {"step_id": view.steps.why or _WHY["in_no_step"]}
    missing += _missing_at_peak(path, memory, _column_reasons(TIMELINE_ROWS) | no_step)
    if memory.lines.is_empty() and not memory.breakdown.is_empty():
        missing.append(
            _column_reasons(LINE_ROWS)["source"].missing_field(f"{path}.lines")
        )
    if view.older_uncounted and memory.breakdown["allocation_bytes"].null_count():
        missing.append(
            _WHY["older_uncounted"].missing_field(f"{path}.breakdown.allocation_bytes")
        )
    for table in (TIMELINE_ROWS, BREAKDOWN_ROWS, LINE_ROWS, STEP_ROWS):
        field = table.name.removeprefix("memories.")
        reasons = _column_reasons(table)
        # Rows that are not allocations have no requested size.
        itemised = pl.col("occurrences").is_not_null()
        missing += missing_columns(
            getattr(memory, field),
            reasons | no_step if "step_id" in reasons else reasons,
            prefix=f"{path}.{field}.",
            where=itemised if table is BREAKDOWN_ROWS else None,
        )
    return missing


def _missing_at_peak(
    path: str, memory: Memory, reasons: dict[str, Unavailable]
) -> list[Missing]:
    peak = memory.peak
    if peak is None:
        fields = ["peak"]
        if memory.breakdown_time_ms is None:
            fields += ["breakdown", "breakdown_time_ms"]
        return [
            reasons["heap_bytes"].missing_field(f"{path}.{field}") for field in fields
        ]
    at_peak = {
        field: reasons[field] for field in peak.__struct_fields__ if field in reasons
    }
    for field in at_peak:
        if field != "step_id" and memory.timeline[field].is_not_null().any():
            at_peak[field] = _WHY["not_at_peak"]
    if peak.free_bytes == 0:
        at_peak["fragmentation"] = _WHY["nothing_free"]
    return missing_fields(peak, at_peak, prefix=f"{path}.peak.")


def memory_doubts(
    name: str, memory: Memory, view: MemoryView, facts: Facts
) -> list[QualityNote]:
    """Return the contradictions in the events of one memory."""
    notes = []
    smallest, greatest = facts.least_capacity, facts.capacity
    if smallest is not None and greatest is not None and smallest != greatest:
        notes.append(
            QualityNote(
                kind="memory_capacity_changed",
                severity="warning",
                scope=name,
                message=f"The capacity of {name} changes from "
                f"{bytes_text(smallest)} to {bytes_text(greatest)}. The largest value "
                "is shown.",
            )
        )
    lost = memory.breakdown.filter(pl.col("op_name") == LOST)
    if len(lost):
        notes.append(
            QualityNote(
                kind="allocator_events_lost",
                severity="warning",
                scope=name,
                message=f"By its events, {name} has "
                f"{bytes_text(-lost['allocation_bytes'][0])} more allocated than in "
                "use (LOST_EVENTS): deallocations are missing.",
                remedy="Record a shorter time.",
            )
        )
    if view.older_uncounted:
        notes.append(
            QualityNote(
                kind="memory_use_since_start",
                severity="info",
                scope=name,
                message=f"The events of {name} count only blocks allocated during the "
                "recording. Older blocks are also in use, but are not shown.",
                remedy="Start the recording before the program builds its model.",
            )
        )
    if view.memory.replayed and memory.peak is not None:
        notes.append(
            QualityNote(
                kind="memory_use_replayed",
                severity="info",
                scope=name,
                message=f"The events of {name} do not contain the memory in use, so "
                "it is computed as their sum. Blocks older than the profile are "
                "included only if the profile contains their deallocation.",
            )
        )
    return notes
