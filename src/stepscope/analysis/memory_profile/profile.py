"""`memory_profile`: how full each memory was, and what filled it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import numpy as np
import polars as pl

from stepscope.analysis.memory_profile.memory import (
    Facts,
    Memory,
    MemoryPeak,
    growth_statistics,
    memory_doubts,
    memory_facts,
    missing_of_memory,
    missing_of_rows,
    passed_thresholds,
)
from stepscope.analysis.memory_profile.rows import (
    SUMMARY_ROWS,
    MemoryView,
    breakdown_rows,
    drawn_indexes,
    line_rows,
    step_rows,
    timeline_rows,
)
from stepscope.analysis.results.result import ToolResult
from stepscope.analysis.results.tables import package_reasons
from stepscope.derive.memory.replay import allocation_steps, memory_replay
from stepscope.errors import BadUsage
from stepscope.trace.quality import QualityNote
from stepscope.unavailable import Missing, Unavailable, require_available
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.analysis.options import MemoryProfileOptions
    from stepscope.derive.profile_data import ProfileData

_WHY: Final = package_reasons("memory_profile")

#: Derived data of each host that the tool reads with its default options.
NEEDS: Final = (allocation_steps, memory_replay)


class MemoryProfileResult(ToolResult, frozen=True, kw_only=True):
    """The memories of all selected hosts.

    Attributes:
        rows: One row per memory, by host, fullest memory first.
        memories: Id → memory, in the order of `rows`. The id is the allocator's name;
            if several hosts are selected, it starts with the host's name.
        missing: Values that could not be determined, with their reasons.
        quality: Contradictions in the events.
        inputs: Host → number of allocator events and memories that were read.
    """

    rows: Annotated[pl.DataFrame, SUMMARY_ROWS]
    memories: dict[str, Memory]
    missing: tuple[Missing, ...]
    quality: tuple[QualityNote, ...]
    inputs: dict[str, dict[str, int]]


def analyse(
    profile: ProfileData, options: MemoryProfileOptions
) -> MemoryProfileResult | Unavailable:
    """Compute the memory profile of every host.

    Definition: docs/tools/memory_profile.md.

    Raises:
        BadUsage: No memory has the requested id.
    """
    absent: dict[str, Unavailable] = {}
    inputs: dict[str, dict[str, int]] = {}
    views: dict[str, MemoryView] = {}
    host_of: dict[str, str] = {}
    for host in profile.hosts:
        allocations = profile.table(host, "allocations")
        if isinstance(allocations, Unavailable):
            absent[host] = allocations
            continue
        if not len(allocations):
            absent[host] = _WHY["no_events"]
            continue
        replay = require_available(profile.derived(host, memory_replay))
        steps = require_available(profile.derived(host, allocation_steps))
        strings = profile.trace(host).strings
        host_views = [
            MemoryView(allocations, replay, memory, steps, strings)
            for memory in replay.memories
        ]
        # Fullest memory first.
        host_views.sort(key=lambda view: (-view.most_in_use_bytes, view.memory.name))
        inputs[host] = {
            "allocator_events": len(host_views[0].allocations),
            "memories": len(host_views),
        }
        prefix = f"{host}/" if len(profile.hosts) > 1 else ""
        views |= {f"{prefix}{view.memory.name}": view for view in host_views}
        host_of |= {f"{prefix}{view.memory.name}": host for view in host_views}
    if not views:
        return next(iter(absent.values()), _WHY["no_events"])
    if options.memory is not None:
        if options.memory not in views:
            raise BadUsage.unknown_name("memory", options.memory, views)
        views = {options.memory: views[options.memory]}
    facts = {name: memory_facts(view) for name, view in views.items()}
    memories = {
        name: _memory_result(view, facts[name], options) for name, view in views.items()
    }
    rows = _summary_rows(memories, host_of)
    missing = missing_of_rows(rows, memories) + [
        lack
        for name, view in views.items()
        for lack in missing_of_memory(name, memories[name], view)
    ]
    missing += [why.missing_field(f"hosts.{host}") for host, why in absent.items()]
    return MemoryProfileResult(
        rows=rows,
        memories=memories,
        missing=tuple(missing),
        quality=tuple(
            note
            for name, view in views.items()
            for note in memory_doubts(name, memories[name], view, facts[name])
        ),
        inputs=inputs,
    )


def _memory_result(
    view: MemoryView, facts: Facts, options: MemoryProfileOptions
) -> Memory:
    memory = view.memory
    place, peak, time_ms = memory.peak, None, None
    if place is not None:
        row = timeline_rows(view, np.array([place])).row(0, named=True)
        peak = MemoryPeak(**{name: row[name] for name in MemoryPeak.__struct_fields__})
        time_ms = peak.time_ms
    if options.at_ms is not None:
        at_ps = round(options.at_ms * PS_PER_MS)
        place = int(np.searchsorted(view.time_ps, at_ps, side="right")) - 1
        time_ms = options.at_ms
    breakdown = breakdown_rows(view, -1 if place is None else place)
    steps = step_rows(view)
    growth, _ = growth_statistics(steps, field="")
    level = "recorded_since_start" if view.older_uncounted else "recorded"
    if facts.held and not np.ptp(view.time_ps):
        level = "one_instant"
    elif view.memory.replayed:
        level = "replayed"
    return Memory(
        allocations=len(memory.rows) - facts.frees - facts.held,
        deallocations=facts.frees,
        unmatched_deallocations=memory.unmatched if facts.placed else None,
        address_reuse=memory.reused if facts.placed else None,
        capacity_bytes=facts.capacity,
        peak_heap_lifetime_bytes=facts.lifetime_peak,
        peak=peak,
        level=level,
        timeline=timeline_rows(view, drawn_indexes(view, options.points)),
        breakdown=breakdown.clear() if place is None else breakdown,
        lines=line_rows(view, -1 if place is None else place),
        breakdown_time_ms=time_ms,
        steps=steps,
        growth_bytes_per_step=growth,
        warnings=passed_thresholds(peak, facts.capacity),
    )


def _summary_rows(memories: dict[str, Memory], host_of: dict[str, str]) -> pl.DataFrame:
    rows = []
    for name, memory in memories.items():
        row: dict[str, object] = {"memory_id": name, "host": host_of[name]}
        row |= {
            field: getattr(memory, field)
            for field in SUMMARY_ROWS.dtypes()
            if field in memory.__struct_fields__
        }
        peak = memory.peak
        if peak is not None:
            row["peak_bytes"] = peak.memory_in_use_bytes
            row |= {
                f"peak_{field}": getattr(peak, field)
                for field in ("time_ms", "stack_bytes", "heap_bytes", "free_bytes")
            }
            row["peak_fragmentation"] = peak.fragmentation
            if memory.capacity_bytes:
                share = peak.memory_in_use_bytes / memory.capacity_bytes
                row["peak_capacity_percent"] = 100.0 * share
        rows.append(row)
    return pl.DataFrame(rows, schema=SUMMARY_ROWS.dtypes())
