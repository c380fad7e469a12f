"""What could not be looked at in a memory, and what its events contradict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.analysis.memory_profile.rows import LOST
from stepscope.analysis.results.null_columns import missing_columns
from stepscope.analysis.results.statistics import Statistics, statistics_of
from stepscope.remedies import Remedy
from stepscope.trace.quality import QualityNote
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import bytes_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.analysis.memory_profile.memory import Facts, Memory
    from stepscope.analysis.memory_profile.rows import MemoryView

_RECORD_MORE: Final = (
    "Record with a release of the framework whose allocator reports it."
)
_NOT_RECORDED: Final = {
    field: Unavailable(code="NOT_RECORDED", reason=reason, remedy=_RECORD_MORE)
    for field, reason in {
        "stack_bytes": "No event reports a stack, which is set aside beside the heap.",
        "heap_bytes": "The events report neither the memory in use nor all sizes.",
        "free_bytes": "No event reports how much is free.",
        "fragmentation": "No event reports how the free memory is divided.",
        "requested_bytes": "No event reports how much was asked for.",
        "allocation_bytes": "No event reports the size of its block.",
        "op_name": "No allocation names the op that asked for it.",
        "region_type": "No allocation reports what it is for.",
        "data_type": "No allocation reports its data type.",
        "tensor_shape": "No allocation reports its shape.",
        "peak_heap_lifetime_bytes": "No event reports the greatest use since the "
        "process began.",
        "addresses": "No event carries an address, so it is not known which allocation "
        "a deallocation ends, or what was alive.",
    }.items()
} | {
    "capacity_bytes": Unavailable(
        code="NOT_RECORDED",
        reason="Neither the size of the memory is recorded nor all of its parts "
        "(stack, heap and free), which add up to it.",
        remedy="Look it up where the program ran (`nvidia-smi`, `free -h`).",
    )
}
_IN_SNAPSHOTS: Final = {
    field: Unavailable(code="NOT_RECORDED", reason=reason, remedy=Remedy.WRITE_MEMORY)
    for field, reason in {
        "tensor_bytes": "No event tells freed blocks that wait for a stream from the "
        "rest of the heap.",
        "source": "No allocation reports the line of the program that asked for it.",
        "stack": "No allocation reports its call stack.",
    }.items()
}
#: Columns that are levels of the memory in use.
_LEVELS: Final = (
    *("memory_in_use_bytes", "start_bytes", "end_bytes", "growth_bytes"),
    *("min_bytes", "max_bytes"),
)
_OLDER_UNCOUNTED: Final = Unavailable(
    code="NOT_RECORDED",
    reason="The allocator counts blocks from the begin of the recording on; what older "
    "blocks take is not recorded.",
    remedy="Begin to record before the program builds its model.",
)
_NOT_AT_PEAK: Final = Unavailable(
    code="NOT_RECORDED",
    reason="The event of the peak does not report it.",
    remedy="Look at the timeline, where other events may.",
)
_IN_NO_STEP: Final = Unavailable(
    code="NO_STEPS",
    reason="It lies in none of the steps.",
    remedy="Nothing to do: memory is used before, between and after steps too.",
)
_NOTHING_FREE: Final = Unavailable(
    code="ZERO_DENOMINATOR",
    reason="Nothing was free at the peak, so there was nothing to be divided.",
    remedy="Look at the timeline, where some memory is free.",
)


def growth_of(
    steps: pl.DataFrame, *, field: str
) -> tuple[Statistics, tuple[Missing, ...]]:
    """Return the growth over closed steps, else over the open one."""
    closed = steps.filter(~pl.col("open_end"))
    measured = closed if len(closed) else steps
    return statistics_of(measured["growth_bytes"].drop_nulls().to_numpy(), field=field)


def missing_of_rows(
    rows: pl.DataFrame, memories: Mapping[str, Memory]
) -> list[Missing]:
    """Return columns of the summary that no memory has a value for."""
    no_use, nowhere = _NOT_RECORDED["heap_bytes"], _NOT_RECORDED["addresses"]
    reasons = {
        "capacity_bytes": _NOT_RECORDED["capacity_bytes"],
        "peak_heap_lifetime_bytes": _NOT_RECORDED["peak_heap_lifetime_bytes"],
        **dict.fromkeys(
            (
                *("peak_bytes", "peak_time_ms", "peak_heap_bytes"),
                "peak_capacity_percent",
            ),
            no_use,
        ),
        **{
            f"peak_{field}": _NOT_RECORDED[field]
            for field in ("stack_bytes", "free_bytes", "fragmentation")
        },
        **dict.fromkeys(("unmatched_deallocations", "address_reuse"), nowhere),
    }
    if rows["peak_bytes"].is_not_null().any():
        told = any(
            it.timeline["fragmentation"].is_not_null().any() for it in memories.values()
        )
        if told:
            reasons["peak_fragmentation"] = _NOT_AT_PEAK
        reasons["peak_capacity_percent"] = _NOT_RECORDED["capacity_bytes"]
    return missing_columns(rows, reasons, prefix="rows.")


def missing_of(name: str, memory: Memory, view: MemoryView) -> list[Missing]:
    """Return every field of a memory that is null, and every column that is."""
    path = f"memories.{name}"
    found = [
        _NOT_RECORDED[field].for_field(f"{path}.{field}")
        for field in ("capacity_bytes", "peak_heap_lifetime_bytes")
        if getattr(memory, field) is None
    ]
    if memory.unmatched_deallocations is None:
        found += [
            _NOT_RECORDED["addresses"].for_field(f"{path}.{field}")
            for field in ("unmatched_deallocations", "address_reuse", "breakdown")
        ]
    reasons = _NOT_RECORDED | _IN_SNAPSHOTS
    reasons["step_id"] = view.steps.why or _IN_NO_STEP
    if view.steps.why is not None:
        found += [
            view.steps.why.for_field(f"{path}.{field}")
            for field in ("steps", "growth_bytes_per_step")
        ]
    else:
        field = f"{path}.growth_bytes_per_step"
        found += growth_of(memory.steps, field=field)[1]
    found += _missing_at_peak(path, memory, reasons)
    reasons |= dict.fromkeys((*_LEVELS, "share_percent"), reasons["heap_bytes"])
    reasons["reserved_bytes"] = reasons["free_bytes"]
    if memory.lines.is_empty() and not memory.breakdown.is_empty():
        found.append(reasons["source"].for_field(f"{path}.lines"))
    # A row that is no single allocation has no requested size.
    itemised = {"breakdown": pl.col("occurrences").is_not_null()}
    if view.older_uncounted and memory.breakdown["allocation_bytes"].null_count():
        found.append(_OLDER_UNCOUNTED.for_field(f"{path}.breakdown.allocation_bytes"))
    for table in ("timeline", "breakdown", "lines", "steps"):
        frame = getattr(memory, table)
        columns = {key: why for key, why in reasons.items() if key in frame.columns}
        found += missing_columns(
            frame, columns, prefix=f"{path}.{table}.", where=itemised.get(table)
        )
    return found


def _missing_at_peak(
    path: str, memory: Memory, reasons: dict[str, Unavailable]
) -> list[Missing]:
    peak = memory.peak
    if peak is None:
        fields = ["peak"]
        if memory.breakdown_time_ms is None:
            fields += ["breakdown", "breakdown_time_ms"]
        return [reasons["heap_bytes"].for_field(f"{path}.{field}") for field in fields]
    found = []
    for field in peak.__struct_fields__:
        if getattr(peak, field) is not None:
            continue
        elsewhere = memory.timeline[field].is_not_null().any()
        why = _NOT_AT_PEAK if elsewhere else reasons.get(field, _NOT_AT_PEAK)
        if field == "fragmentation" and peak.free_bytes == 0:
            why = _NOTHING_FREE
        if field == "step_id":
            why = reasons[field]
        found.append(why.for_field(f"{path}.peak.{field}"))
    return found


def doubts_of(
    name: str, memory: Memory, view: MemoryView, facts: Facts
) -> list[QualityNote]:
    """Return what is contradictory in the events of one memory."""
    found = []
    least, greatest = facts.least_capacity, facts.capacity
    if least is not None and greatest is not None and least != greatest:
        found.append(
            QualityNote(
                kind="memory_capacity_changed",
                severity="warning",
                scope=name,
                message=f"The capacity of {name} changes from "
                f"{bytes_text(least)} to {bytes_text(greatest)}; the greatest "
                "is shown.",
            )
        )
    lost = memory.breakdown.filter(pl.col("op_name") == LOST)
    if len(lost):
        found.append(
            QualityNote(
                kind="allocator_events_lost",
                severity="warning",
                scope=name,
                message=f"The events of {name} leave "
                f"{bytes_text(-lost['allocation_bytes'][0])} more alive than are in "
                "use (LOST_EVENTS): deallocations are missing.",
                remedy="Record a shorter time.",
            )
        )
    if view.older_uncounted:
        found.append(
            QualityNote(
                kind="memory_use_since_start",
                severity="info",
                scope=name,
                message=f"The events of {name} count blocks from the begin of the "
                "recording on: older blocks are in use beside them and are not shown.",
                remedy="Begin to record before the program builds its model.",
            )
        )
    if view.memory.replayed and memory.peak is not None:
        found.append(
            QualityNote(
                kind="memory_use_replayed",
                severity="info",
                scope=name,
                message=f"The events of {name} do not report the memory in use; it is "
                "what they add up to, so blocks older than the profile are only seen "
                "where they are freed.",
            )
        )
    return found
