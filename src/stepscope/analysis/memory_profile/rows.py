"""The tables of one memory: use over time, live blocks, program lines, and steps."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.analysis.results.tables import declared_rows, tool_tables
from stepscope.derive.columns.arrays import ints
from stepscope.frozen import Frozen
from stepscope.trace.reading.data_types import data_type_name
from stepscope.trace.reading.nullable import nullable_series
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.array_types import Bools, Int64s
    from stepscope.derive.memory.replay import (
        AllocationSteps,
        MemoryReplay,
        ReplayedMemory,
    )

_TABLES: Final = tool_tables("memory_profile")
SUMMARY_ROWS: Final = _TABLES["rows"]
TIMELINE_ROWS: Final = _TABLES["memories.timeline"]
BREAKDOWN_ROWS: Final = _TABLES["memories.breakdown"]
LINE_ROWS: Final = _TABLES["memories.lines"]
STEP_ROWS: Final = _TABLES["memories.steps"]

#: Name of the row for memory in use without an allocation event
#: (docs/tools/memory_profile.md#breakdown).
BEFORE: Final = "allocated before the profile started"
STACK: Final = "stack"
#: Name of the row for a negative remainder: live blocks exceed the memory in use, so
#: deallocations are missing.
LOST: Final = "freed without a recorded event"
_UNSIZED: Final = "of unknown size"
_UNPLACED: Final = "without a recorded address"
_PERSISTENT: Final = "persist/dynamic"

#: Column of allocations → its name in results; the values come from the allocation that
#: an event starts or ends.
_OWN: Final = {
    "op": "op_name",
    "region": "region_type",
    "shape": "tensor_shape",
    "source": "source",
}
#: Kind of an event → its name in results.
_EVENTS: Final = {
    "allocate": "allocation",
    "deallocate": "deallocation",
    "held": "there before",
}


class MemoryView(Frozen, frozen=True, dict=True):
    """One memory of one host, with the data that its tables need."""

    allocations: pl.DataFrame
    replay: MemoryReplay
    memory: ReplayedMemory
    steps: AllocationSteps
    strings: Sequence[str]

    @property
    def time_ps(self) -> Int64s:
        """Time of each event of the memory, in ps."""
        return ints(self.allocations, "start_ps")[self.memory.rows]

    @property
    def most_in_use_bytes(self) -> int:
        """Memory in use at the peak; 0 if unknown."""
        peak = self.memory.peak
        return 0 if peak is None else int(self.memory.in_use_bytes[peak])

    @cached_property
    def older_uncounted(self) -> bool:
        """Whether the memory in use excludes blocks older than the recording."""
        counted = self.allocations["older_counted"].gather(self.memory.rows)
        return not self.memory.replayed and counted.eq(other=False).any()

    @cached_property
    def older_known(self) -> bool:
        """Whether the rows include blocks older than the recording."""
        return bool((self.allocations["kind"].gather(self.memory.rows) == "held").any())

    def use_after(self, place: int) -> tuple[int | None, int]:
        """Return heap and stack after the event at an index; at -1, before all events.

        If the heap is unknown, it is None and the stack is 0.
        """
        memory = self.memory
        index = max(place, 0)
        if not memory.known[index]:
            return None, 0
        heap = int(memory.heap_bytes[index])
        stack = int(memory.in_use_bytes[index]) - heap
        if place >= 0:
            return heap, stack
        row = int(self.memory.rows[0])
        sizes = self.allocations["allocated_bytes"]
        source = int(self.replay.source[row])
        size: int | None = sizes[row]
        if size is None and source >= 0:
            # A deallocation without a size has the size of its allocation.
            size = sizes[source]
        if size is None:
            return None, 0
        freed = self.allocations["kind"][row] == "deallocate"
        return heap + size if freed else heap - size, stack


def timeline_rows(view: MemoryView, indexes: Int64s) -> pl.DataFrame:
    """Return the events at these indexes, columns `TIMELINE_ROWS`."""
    memory = view.memory
    rows = memory.rows[indexes]
    source = view.replay.source[rows]
    event = view.allocations[rows]
    # Deallocations have no op or shape; use those of their allocations.
    allocation = view.allocations.select(
        *_OWN, "dtype", "allocated_bytes", "requested_bytes"
    ).select(pl.all().gather(nullable_series("row", source, source >= 0)))
    freed = pl.Series(event["kind"] == "deallocate")
    known = memory.known[indexes]
    size = {
        name: event[column].fill_null(allocation[column])
        for name, column in (
            ("requested_bytes", "requested_bytes"),
            ("allocation_bytes", "allocated_bytes"),
        )
    }
    heap = pl.lit(nullable_series("heap_bytes", memory.heap_bytes[indexes], known))
    meaningless = (pl.col("free_bytes") == 0) | ~pl.col("fragmentation").is_finite()
    frame = event.select(
        (pl.col("start_ps") / PS_PER_MS).alias("time_ms"),
        "stack_bytes",
        heap.alias("heap_bytes"),
        "tensor_bytes",
        "free_bytes",
        (pl.col("stack_bytes").fill_null(0) + heap + pl.col("free_bytes")).alias(
            "reserved_bytes"
        ),
        pl.when(~meaningless.fill_null(value=False)).then("fragmentation"),
        pl.col("kind").cast(pl.String).replace(_EVENTS).alias("event"),
        *(
            pl.when(freed).then(-given).otherwise(given).alias(name)
            for name, given in size.items()
        ),
        *(allocation[column].alias(name) for column, name in _OWN.items()),
        allocation.select(
            data_type_name(pl.col("dtype")).alias("data_type")
        ).to_series(),
        view.steps.step.gather(rows).alias("step_id"),
        nullable_series("memory_in_use_bytes", memory.in_use_bytes[indexes], known),
    )
    return frame.select(TIMELINE_ROWS.cast_columns())


def drawn_indexes(view: MemoryView, points: int | None) -> Int64s:
    """Choose at most `points` events in time order: extremes, and the peak.

    Of each time span, the first minimum and the first maximum are kept. If `points` is
    None, every event is kept.
    """
    memory = view.memory
    count = len(memory.rows)
    if points is None or count <= points:
        return np.arange(count)
    time = view.time_ps
    spans = (points - 1) // 2
    begin, length = int(time[0]), int(time[-1] - time[0]) + 1
    edges = [begin + length * span // spans for span in range(spans)]
    first = np.unique(np.searchsorted(time, edges))
    first = first[first < count]
    size = np.diff(np.append(first, count))
    highest = np.iinfo(np.int64).max
    kept = []
    for sign in (1, -1):
        level = np.where(memory.known, sign * memory.in_use_bytes, highest)
        lowest = np.minimum.reduceat(level, first)
        hits = np.flatnonzero(level == np.repeat(lowest, size))
        kept.append(hits[np.searchsorted(hits, first)])
    peak = [] if memory.peak is None else [memory.peak]
    return np.unique(np.concatenate([*kept, np.array(peak, np.int64)]))


def breakdown_rows(view: MemoryView, place: int) -> pl.DataFrame:
    """Return the memory in use after the event at an index, columns `BREAKDOWN_ROWS`.

    Rows are live allocations and memory without allocation events, largest first. If
    the memory in use is known, the rows add up exactly to it.
    """
    alive = view.replay.alive_rows(view.memory, place)
    live = (
        view.allocations[alive]
        .group_by(
            *("op", "region", "dtype", "shape", "source"),
            *("allocated_bytes", "requested_bytes"),
        )
        .agg(pl.len().cast(pl.Int64).alias("rows"), _block_count().alias("occurrences"))
        .select(
            *(pl.col(column).alias(name) for column, name in _OWN.items()),
            (pl.col("allocated_bytes") * pl.col("rows")).alias("allocation_bytes"),
            pl.col("requested_bytes") * pl.col("rows"),
            "occurrences",
            data_type_name(pl.col("dtype")).alias("data_type"),
        )
        .select(BREAKDOWN_ROWS.cast_columns())
    )
    heap, stack = view.use_after(place)
    remainder = None if heap is None else heap - int(live["allocation_bytes"].sum())
    # If older blocks were not counted, a remainder of 0 means an unknown size.
    shown = None if remainder == 0 and view.older_uncounted else remainder
    special: list[dict[str, object]] = []
    # If older blocks are listed one by one, a remainder of 0 needs no row.
    if remainder != 0 or not view.older_known:
        if remainder is not None and remainder < 0:
            rest_name = LOST
        else:
            earlier = view.memory.rows[: place + 1]
            unplaced = view.replay.ended_by[earlier] == earlier
            rest_name = BEFORE
            if view.allocations["allocated_bytes"].gather(alive).null_count():
                rest_name += f", or {_UNSIZED}"
            if unplaced.any():
                rest_name += f", or {_UNPLACED}"
        rest: dict[str, object] = {"op_name": rest_name, "allocation_bytes": shown}
        special.append(rest | {"region_type": _PERSISTENT})
    if stack > 0:
        special.append({"op_name": STACK, "allocation_bytes": stack})
    others = pl.DataFrame(special, schema=BREAKDOWN_ROWS.dtypes())
    return pl.concat([live, others]).sort(
        *("allocation_bytes", "op_name", "requested_bytes", "region_type"),
        *("data_type", "tensor_shape", "occurrences", "source"),
        descending=[True, *[False] * 7],
        nulls_last=True,
    )


def line_rows(view: MemoryView, place: int) -> pl.DataFrame:
    """Return the memory that each program line holds, columns `LINE_ROWS`.

    The table is empty if no block has a known line.
    """
    alive = view.allocations[view.replay.alive_rows(view.memory, place)]
    if alive["source"].is_null().all():
        return pl.DataFrame(schema=LINE_ROWS.dtypes())
    # If several stacks end in a line, the stack with the most memory is shown.
    by_stack = alive.group_by("source", "stack").agg(
        pl.col("allocated_bytes").sum().alias("held"), _block_count().alias("blocks")
    )
    heap, stack = view.use_after(place)
    in_use = (heap or 0) + stack
    share = 100.0 * pl.col("allocation_bytes") / in_use if in_use else pl.lit(None)
    rows = (
        by_stack.sort("held", "stack", descending=[True, False], nulls_last=True)
        .group_by("source", maintain_order=True)
        .agg(
            pl.col("held").sum().alias("allocation_bytes"),
            pl.col("blocks").sum().alias("occurrences"),
            pl.len().cast(pl.Int64).alias("stacks"),
            pl.col("stack").first(),
        )
        .sort("allocation_bytes", "source", descending=[True, False], nulls_last=True)
    )
    texts = [
        None if text is None else view.strings[text] for text in rows["stack"].to_list()
    ]
    return rows.with_columns(
        share.alias("share_percent"), pl.Series("stack", texts, pl.String)
    ).select(LINE_ROWS.cast_columns())


def _block_count() -> pl.Expr:
    return pl.col("blocks").fill_null(1).sum()


def step_rows(view: MemoryView) -> pl.DataFrame:
    """Return the memory in use at start and end of every step, columns `STEP_ROWS`.

    An event exactly at a boundary belongs to the step that begins there.
    """
    intervals = view.steps.intervals
    if not len(intervals):
        return pl.DataFrame(schema=STEP_ROWS.dtypes())
    memory, time = view.memory, view.time_ps
    edges = [ints(intervals, name) for name in ("start_ps", "end_ps")]
    first, last = (np.searchsorted(time, edge) for edge in edges)
    heap, stack = view.use_after(-1)
    # The last entry is the memory in use before the first event, at index -1.
    level = np.append(memory.in_use_bytes, (heap or 0) + stack)
    known = np.append(memory.known, heap is not None)
    lowest, greatest = (
        _extreme_level(sign, level, known, first - 1, last) for sign in (1, -1)
    )
    start, end = (
        nullable_series(f"{name}_bytes", level[index - 1], known[index - 1])
        for name, index in (("start", first), ("end", last))
    )
    frame = intervals.select(
        pl.col("step").alias("step_id"),
        *("name", "start_ps", "end_ps", "open_end"),
        start,
        end,
        (end - start).alias("growth_bytes"),
        nullable_series("min_bytes", *lowest),
        nullable_series("max_bytes", *greatest),
    )
    return declared_rows(frame, STEP_ROWS)


def _extreme_level(
    sign: int, level: Int64s, known: Bools, before: Int64s, last: Int64s
) -> tuple[Int64s, Bools]:
    """Return the minimum (sign 1) or maximum (-1) of memory in use in each index range.

    A range includes `before` and excludes `last`. Index -1, before the first event, is
    the last entry of `level`.
    """
    highest = np.iinfo(np.int64).max
    signed = np.where(known, sign * level, highest)
    # Move the last entry to the front, and end the last range with a sentinel.
    turned = np.concatenate((signed[-1:], signed[:-1], [highest]))
    bounds = np.stack((before + 1, last + 1), axis=1).ravel()
    extreme = np.minimum.reduceat(turned, bounds)[::2]
    return sign * extreme, extreme != highest
