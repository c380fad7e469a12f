"""Memory in use, the step of each allocator event, and devices without records.

`memory_replay` and `allocation_steps`: Events at the same address of a memory happen
one after another. Each event alone determines what is allocated at the address
afterwards: the block of an allocation, or nothing. The replay therefore sorts rows by
address and compares each row with its neighbour. Allocator events occur on the host.
The step of an event is the one whose host interval contains it, even if the device runs
that step much later. `unrecorded_devices`: devices that the program used without
recorded work.

Definition: docs/tools/memory_profile.md#breakdown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import (
    ACTIVITY_CODES,
    codes,
    handles,
    ints,
    is_present,
)
from stepscope.derive.reasons import WHY
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.trace.quality import QualityNote
from stepscope.trace.reading.nullable import fill_nulls, nullable_series, present_mask
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps
    from stepscope.trace.model import TraceData

#: Columns of `AllocationSteps.intervals`.
STEP_INTERVALS: Final[dict[str, pl.DataType]] = {
    "step": pl.Int64(),  # step number to show
    "name": pl.String(),
    "start_ps": pl.Int64(),
    "end_ps": pl.Int64(),  # start of the next step; last step: its last activity
    "open_end": pl.Boolean(),  # true for the last step
}


class AllocationSteps(Frozen, frozen=True):
    """The step of each allocator event.

    Attributes:
        step: Int64 by row of allocations: number of the step of the event; null for
            events outside all steps, or without steps.
        intervals: The steps in time order, columns `STEP_INTERVALS`; empty without
            steps. Times are device times if the step boundaries are device times.
        why: Why there are no intervals; None if there are some.
    """

    step: pl.Series
    intervals: pl.DataFrame
    why: Unavailable | None


class ReplayedMemory(Frozen, frozen=True):
    """One memory (an allocator's name) of a host; arrays are by index of `rows`.

    Attributes:
        heap_bytes: int64; heap in use after each event; 0 if unknown.
        in_use_bytes: int64; heap and stack in use after each event. A stack that was
            not recorded counts as 0; the sum is 0 if the heap is unknown.
        known: bool; True where `heap_bytes` and `in_use_bytes` are known.
        replayed: True if the heap was not recorded and was summed from the events.
            Blocks older than the profile then count only if their end was recorded.
        peak: Index of the last event with the greatest use; None if no use is known.
        unmatched: Number of deallocations of blocks whose allocation is not recorded.
        reused: Number of allocations at an address with a block that was not yet freed.
    """

    name: str
    rows: Int64s
    heap_bytes: Int64s
    in_use_bytes: Int64s
    known: Bools
    replayed: bool
    peak: int | None
    unmatched: int
    reused: int


class MemoryReplay(Frozen, frozen=True):
    """The memories of a host, and which allocation each deallocation ends.

    Attributes:
        memories: All memories, in the order of their first event.
        source: int32 by row of allocations: the row with op, type and shape. For a
            deallocation, this is the allocation that it ends, -1 if that is unknown;
            for an allocation, its own row.
        ended_by: int32 by row of allocations. For an allocation, the event at its
            address that ends it (a deallocation or the next allocation), -1 if none
            does; if an allocation during the profile has no recorded address, its own
            row, because its end is unknown. For a deallocation, -1.
    """

    memories: tuple[ReplayedMemory, ...]
    source: Int32s
    ended_by: Int32s

    def alive_rows(self, memory: ReplayedMemory, index: int) -> Int64s:
        """Return rows of the allocations that exist after the event at an index.

        If the index is -1 (before the first event), there are none.
        """
        until = memory.rows[: index + 1]
        if not len(until):
            return until
        ended = self.ended_by[until]
        lasting = (self.source[until] == until) & ((ended < 0) | (ended > until[-1]))
        alive: Int64s = until[lasting]
        return alive


def memory_replay(*, allocations: pl.DataFrame) -> MemoryReplay:
    """Replay all events of all memories of a host.

    A second allocation at an address in use replaces the first one. A deallocation
    whose allocation is unknown changes nothing.
    """
    # A block from before the profile counts as allocated at the start of the profile.
    allocate = allocations["kind"].is_in(["allocate", "held"]).to_numpy()
    # A failed allocation changes no memory.
    changed = allocations["kind"] != "failed"
    names = allocations["allocator"].unique(maintain_order=True)
    code = allocations["allocator"].cast(pl.Enum(names)).to_physical()
    of_memory = [
        (name, rows)
        for i, name in enumerate(names)
        if len(rows := np.flatnonzero((code == i) & changed))
    ]
    before, after = (np.full(len(allocations), -1, np.int32) for _ in range(2))
    for _, rows in of_memory:
        _link_neighbours(rows, allocations["address"], before=before, after=after)
    row = np.arange(len(allocations), dtype=np.int32)
    # Index -1 reads the last entry, which the condition `before >= 0` excludes.
    follows = (before >= 0) & allocate[before] if len(row) else allocate
    source = np.where(allocate, row, np.where(follows, before, np.int32(-1)))
    named = is_present(allocations, "address")
    # Do not follow allocations without an address, since their end may be recorded.
    followed = named | (allocations["kind"] == "held").to_numpy()
    ended_by = np.where(allocate, np.where(followed, after, row), np.int32(-1))
    heap = is_present(allocations, "heap_bytes")
    memories = []
    for name, rows in of_memory:
        frees = ~allocate[rows]
        replayed = not heap[rows].any()
        if replayed:
            level, known = _added_up(allocations, rows, source=source, before=before)
        else:
            level, known = _known_values(allocations["heap_bytes"].gather(rows))
        stack, _ = _known_values(allocations["stack_bytes"].gather(rows))
        in_use = np.where(known, level + stack, 0)
        if not known.any():
            peak_row = None
        else:
            # At the last of equal peaks, most blocks were requested while recording.
            levels = np.where(known, in_use, np.iinfo(np.int64).min)
            peak_row = len(levels) - 1 - int(np.argmax(levels[::-1]))
        memories.append(
            ReplayedMemory(
                name=name,
                rows=rows,
                heap_bytes=level,
                in_use_bytes=in_use,
                known=known,
                replayed=replayed,
                peak=peak_row,
                unmatched=int((source[rows[frees]] < 0).sum()),
                reused=int(follows[rows[~frees]].sum()),
            )
        )
    return MemoryReplay(tuple(memories), source, ended_by)


def _link_neighbours(
    rows: Int64s, address: pl.Series, *, before: Int32s, after: Int32s
) -> None:
    own = address.gather(rows)
    rows = rows[own.is_not_null().to_numpy()]
    own = own.drop_nulls()
    # Rows with equal addresses stay in time order.
    order = (
        own.to_frame("address")
        .select(pl.arg_sort_by("address", maintain_order=True))
        .to_series()
        .to_numpy()
    )
    placed = own.to_numpy()[order]
    later = np.flatnonzero(placed[1:] == placed[:-1]) + 1
    sooner, following = rows[order[later - 1]], rows[order[later]]
    before[following] = sooner
    after[sooner] = following


def _known_values(series: pl.Series) -> tuple[Int64s, Bools]:
    return fill_nulls(series, 0), present_mask(series)


def _added_up(
    allocations: pl.DataFrame, rows: Int64s, *, source: Int32s, before: Int32s
) -> tuple[Int64s, Bools]:
    """Sum the heap of one memory from the sizes of its events.

    The use before the profile is at least the total size of blocks that were freed
    without a recorded allocation. If any size is missing, no value is known.
    """
    size, sized = _known_values(allocations["allocated_bytes"])
    own = source[rows]
    allocate = own == rows
    # A deallocation has the size of its block, so its size need not be recorded.
    block = np.where(own >= 0, own, rows)
    replaced = np.where(allocate, before[rows], np.int32(-1))
    replaced = np.where((replaced >= 0) & (source[replaced] == replaced), replaced, -1)
    if not (sized[block].all() and sized[replaced[replaced >= 0]].all()):
        return np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
    change = np.where(allocate, size[block], -size[block])
    change -= np.where(replaced >= 0, size[replaced], 0)
    level = np.cumsum(change)
    older = (own < 0) & is_present(allocations, "address")[rows]
    level += int(size[rows[older]].sum())
    # Deallocations without an address may belong to recorded blocks. Such events prove
    # older blocks only if the memory in use would otherwise be negative.
    return level - min(0, int(level.min(initial=0))), np.ones(len(rows), np.bool_)


def allocation_steps(
    *,
    allocations: pl.DataFrame,
    steps: Steps | Unavailable,
    windows: Windows | Unavailable,
) -> AllocationSteps:
    """Assign each event to the step of its stored group, else by host interval."""
    group = allocations["group"]
    if isinstance(steps, Unavailable):
        # Groups are the producer's step numbers, known even if step times are not.
        empty = pl.DataFrame(schema=STEP_INTERVALS)
        return AllocationSteps(group.alias("step"), empty, steps)
    rows = steps.rows
    start = ints(rows, "start_ps")
    ends = [int(start[-1]), steps.last_end_ps, rows["end_ps"][-1]]
    if (
        not isinstance(windows, Unavailable)
        and windows.has_steps
        # Windows that begin at device times do not match steps that begin on the host.
        and (steps.on_device or windows.anchor == "host")
    ):
        ends.append(windows.rows["end_ps"][-1])
    intervals = pl.DataFrame(
        {
            "step": rows["step"],
            "name": rows["name"],
            "start_ps": start,
            "end_ps": np.append(start[1:], max(end for end in ends if end is not None)),
            "open_end": np.arange(len(start)) == len(start) - 1,
        },
        schema=STEP_INTERVALS,
    )
    number = ints(intervals, "step")
    if steps.on_device:
        # Device times do not show when the host worked for a step.
        interval = np.full(len(allocations), -1)
    else:
        # Find the index of the interval that contains each time, -1 for none.
        time_ps = ints(allocations, "start_ps")
        index = np.searchsorted(ints(intervals, "start_ps"), time_ps, side="right") - 1
        outside = time_ps >= ints(intervals, "end_ps")[index]
        interval = np.where((index >= 0) & outside, -1, index)
    # Index -1 reads the last number, which the condition `interval >= 0` excludes.
    by_time = nullable_series("step", number[interval], interval >= 0)
    # Find the step number of each stored group; null if no step has the group.
    of_group = (
        steps.rows.select("group", "step")
        .drop_nulls()
        .unique("group", keep="first", maintain_order=True)
    )
    if not len(of_group) or group.null_count() == len(group):
        by_group = pl.repeat(None, len(group), dtype=pl.Int64, eager=True).alias("step")
    else:
        by_group = group.replace_strict(
            of_group["group"], of_group["step"], default=None, return_dtype=pl.Int64
        ).alias("step")
    return AllocationSteps(by_group.fill_null(by_time), intervals, None)


#: Pattern of the device number in the name of a device memory's allocator.
_ORDINAL: Final = r"(?i)^(?:gpu|cuda|rocm|hip|tpu)[_:](\d+)(?:_|$)"
_ORDINAL_TEXT: Final = Pattern(_ORDINAL)
#: Event of PyTorch's memory reports, with a device number but no allocator name.
_NUMBERED: Final = "[memory]"
#: Maximum number of texts to search; if there are more, reading the table is faster.
_MAX_TEXTS: Final = 100_000
#: The program uses a device if the device has at least this share of the number of
#: blocks on the busiest device. Fewer blocks are bookkeeping of a framework.
_MIN_BLOCKS_SHARE: Final = 0.25


class UnrecordedDevices(Frozen, frozen=True, kw_only=True, eq=True):
    """Devices whose records are missing, according to allocations of their memory.

    Attributes:
        used: Devices that the program uses according to their memory, ascending. Just
            the devices with kernels if no other device has named memory.
        silent: The used devices without any kernel, ascending.
    """

    used: tuple[int, ...]
    silent: tuple[int, ...]

    @property
    def most(self) -> bool:
        """Whether kernels of most of the used devices are missing."""
        return 2 * len(self.silent) > len(self.used)

    def quality_notes(self) -> Iterator[QualityNote]:
        """Yield a note if records of devices are missing."""
        if not self.silent:
            return
        listed = ", ".join(map(str, self.silent))
        share = "most" if self.most else "some"
        yield QualityNote(
            kind="device_records_missing",
            severity="error" if self.most else "warning",
            count=len(self.silent),
            scope=f"devices {listed}",
            message=f"The records of {share} of the devices are missing: the program "
            f"allocated memory on {len(self.used)} devices while it was recorded, and "
            f"{len(self.silent)} of them ({listed}) have no kernel.",
            remedy="Record again, for a shorter time: a buffer that overflows loses "
            "records.",
        )


def unrecorded_devices(
    *, trace: TraceData, event_types: pl.DataFrame, device_activity: pl.DataFrame
) -> UnrecordedDevices | Unavailable:
    """Compare the devices with allocated memory and the devices that ran kernels.

    Args:
        trace: The trace. The table of allocations is read only if a device may lack
            kernels, because most tools do not need that table.
    """
    kind = codes(device_activity, "kind")
    kernel = (kind == ACTIVITY_CODES["kernel"]) | (kind == ACTIVITY_CODES["collective"])
    ran = np.bincount(handles(device_activity, "device")[kernel])
    working = set(np.flatnonzero(ran).tolist())
    # Find the devices whose memory a text may name; -1 if texts do not show it.
    if (event_types["name"] == _NUMBERED).any() or len(trace.strings) > _MAX_TEXTS:
        named_by_texts = {-1}
    else:
        named_by_texts = {
            int(match[1]) for match in map(_ORDINAL_TEXT.match, trace.strings) if match
        }
    # If a file has these texts in events, only the table shows the devices.
    if working and named_by_texts and named_by_texts <= working:
        return UnrecordedDevices(used=tuple(sorted(working)), silent=())
    allocations = trace.table("allocations")
    if isinstance(allocations, Unavailable):
        return allocations
    named = allocations["allocator"].filter(allocations["kind"] == "allocate")
    taken = (
        named.value_counts()
        .select(
            "count",
            device=pl.col("allocator")
            .cast(pl.String)
            .str.extract(_ORDINAL)
            .cast(pl.Int64, strict=False),
        )
        .drop_nulls()
        .group_by("device")
        .agg(pl.col("count").sum())
    )
    if not len(taken):
        return WHY["memory_names_no_device"]
    min_count = _MIN_BLOCKS_SHARE * int(taken["count"].max() or 0)  # type: ignore[arg-type]
    used = set(taken.filter(pl.col("count") >= min_count)["device"].to_list())
    # If there are no kernels at all, another note reports that. A device with kernels
    # but without memory has another number in allocator names.
    if not working or not working <= used:
        return UnrecordedDevices(used=tuple(sorted(used)), silent=())
    return UnrecordedDevices(
        used=tuple(sorted(used)), silent=tuple(sorted(used - working))
    )
