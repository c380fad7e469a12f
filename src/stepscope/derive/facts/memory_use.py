"""Peak use, fragmentation and growth of each memory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints, wanted_rows
from stepscope.derive.facts.evidence import MAX_RANGES_SHOWN, Part
from stepscope.derive.host.core_time import counter_readings
from stepscope.derive.run_derivation import first_reason, known_hosts, of_run
from stepscope.derive.verdicts.recorded_devices import HOST_MEMORY
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.xspace.vocabulary import KEPT_KINDS, KeptCounter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.array_types import Int64s
    from stepscope.derive.memory.replay import MemoryReplay, ReplayedMemory
    from stepscope.derive.run_derivation import OfHosts
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.trace.model import TraceData

_RSS: Final = "process RSS (bytes)"
#: Name of the process's own memory, which has no allocator.
PROCESS: Final = "process"
#: Names of PyTorch's events for an allocation and for a failed allocation.
_ALLOCATION: Final = "[memory]"
_FAILED: Final = "[OutOfMemory]"
#: What the machine has left, and what the limits of a container or process leave.
_AVAILABLE: Final = ("memory available (bytes)", "memory within limits (bytes)")


class MemoryUse(Frozen, frozen=True):
    """The use of one memory (of an allocator, or of the process) on one host.

    Attributes:
        name: Name of the allocator, or "process" for the memory of the process.
        capacity_bytes: Size of the memory; None if unknown.
        peak_bytes: Greatest use in the recording; None if unknown.
        peak_ps: Time of the peak; 0 without a peak.
        counted: Whether the use includes blocks allocated before the recording.
        free_bytes: Free memory at the peak; None if not recorded.
        fragmentation: 1 - largest free block / free memory at the peak, if recorded.
        alive: Ops with the largest blocks at the peak, as shares of the peak.
        least_bytes: Least use in each complete step; for a process, use in each sample.
        at_step: Step number of each value of `least_bytes`; fractional for a process.
        grown: Ops with the largest blocks that were allocated in the recording and
            existed at its end, as shares of the peak.
    """

    host: str
    name: str
    capacity_bytes: int | None
    peak_bytes: int | None
    peak_ps: int
    counted: bool
    free_bytes: int | None
    fragmentation: float | None = None
    alive: tuple[Part, ...] = ()
    least_bytes: tuple[int, ...] = ()
    at_step: tuple[float, ...] = ()
    grown: tuple[Part, ...] = ()

    @property
    def label(self) -> str:
        """Return `host:memory`."""
        return f"{self.host}:{self.name}"

    @property
    def used(self) -> float | None:
        """Return the share of the capacity in use at the peak, 0 to 1."""
        if self.peak_bytes is None or not self.capacity_bytes:
            return None
        return self.peak_bytes / self.capacity_bytes

    @property
    def of_device(self) -> bool:
        """Return whether this is the memory of a device, judging by its name."""
        return self.name != PROCESS and not re.search(HOST_MEMORY, self.name)


class Failure(Frozen, frozen=True):
    """A failed allocation.

    Attributes:
        device: Number of the device; None if not recorded.
        memory: Name of the memory; None if not recorded.
        asked_bytes: Requested size; None if not recorded.
        allocated_bytes: Memory in use; None if not recorded.
        reserved_bytes: Memory reserved by the allocator; None if not recorded.
        recovered: Whether a later allocation succeeded, so that the program went on.
        free_bytes: Free memory of the device; None if not recorded.
        alive: Ops or lines with the largest blocks in use, as shares of the use.
        capacity_bytes: Size of the device's memory; None if not recorded.
    """

    host: str
    device: int | None
    time_ps: int
    asked_bytes: int | None
    allocated_bytes: int | None
    reserved_bytes: int | None
    recovered: bool
    memory: str | None = None
    free_bytes: int | None = None
    alive: tuple[Part, ...] = ()
    capacity_bytes: int | None = None

    @property
    def others_bytes(self) -> int | None:
        """Return the minimum of memory outside the allocator; None if unknown.

        The device's free memory was smaller than the failed request.
        """
        sizes = (self.capacity_bytes, self.reserved_bytes, self.asked_bytes)
        if None in sizes or self.fits_in_pieces:
            return None
        capacity, reserved, asked = (size or 0 for size in sizes)
        return max(capacity - reserved - asked, 0)

    @property
    def label(self) -> str:
        """Return `host:device`, or the host if the device is unknown."""
        return self.host if self.device is None else f"{self.host}:{self.device}"

    @property
    def kept_bytes(self) -> int | None:
        """Return the memory that the allocator reserved without using it.

        An allocator that reserves nothing in advance, as that of the host, has none.
        """
        reserved, allocated = self.reserved_bytes, self.allocated_bytes
        if reserved is None or allocated is None or reserved < allocated:
            return None
        return reserved - allocated

    @property
    def fits_in_pieces(self) -> bool:
        """Return whether the allocator's unused memory was as large as the request.

        If it was, the allocation failed because the unused memory was not contiguous.
        """
        kept, requested = self.kept_bytes, self.asked_bytes
        return kept is not None and requested is not None and kept >= requested


class MemorySignals(Frozen, frozen=True):
    """The use of all memories of all hosts, and all failed allocations.

    Attributes:
        memories: One entry per allocator, and one per process whose size was sampled.
        absent: Reason why no allocator was recorded; None if one was.
        failures: Failed allocations, in time order on each host.
        tells_failures: Whether the profiler records failed allocations.
    """

    memories: tuple[MemoryUse, ...]
    absent: Unavailable | None
    failures: tuple[Failure, ...] = ()
    tells_failures: bool = False

    @property
    def fullest_device(self) -> float | None:
        """Return the largest used share of a device's memory; None if unknown."""
        used = (
            memory.used
            for memory in self.memories
            if memory.of_device and memory.counted and memory.used is not None
        )
        return max(used, default=None)


@of_run
def memory_signals(
    *,
    trace: OfHosts[TraceData],
    memory_replay: OfHosts[MemoryReplay],
    windows: OfHosts[Windows],
) -> MemorySignals:
    """Compute the use of every memory of every host."""
    hosts = known_hosts(trace)
    nothing = np.empty(0, np.int64)
    steps = dict.fromkeys(hosts, (nothing, nothing))
    for host, placed in known_hosts(windows).items():
        if placed.has_steps:
            closed = placed.rows.filter(~pl.col("open_end"))
            steps[host] = ints(closed, "start_ps"), ints(closed, "end_ps")
    allocators = [
        _allocator_use(host, allocations, replay, memory, steps[host])
        for host, replay in known_hosts(memory_replay).items()
        if not isinstance(allocations := hosts[host].table("allocations"), Unavailable)
        for memory in replay.memories
    ]
    processes = (_process_use(trace, steps[host]) for host, trace in hosts.items())
    return MemorySignals(
        (*allocators, *(use for use in processes if use is not None)),
        None if allocators else first_reason(memory_replay) or _NO_EVENTS,
        (
            *(one for trace in hosts.values() for one in _failed_allocations(trace)),
            *(
                failed
                for host, replay in known_hosts(memory_replay).items()
                for failed in _failed_rows(hosts[host], replay)
            ),
        ),
        any(len(_rows_of_events(trace, _ALLOCATION)) for trace in hosts.values()),
    )


#: Starts and ends of the steps with complete windows.
_Steps = tuple["Int64s", "Int64s"]
_NO_EVENTS: Final = Unavailable(
    code="NO_ALLOCATOR_EVENTS",
    reason="No allocation was recorded.",
    remedy="Record while the program allocates memory.",
)
#: Columns of allocations that `_allocator_use` reads.
_USE: Final = (
    "start_ps",
    "stack_bytes",
    "heap_bytes",
    "free_bytes",
    "capacity_bytes",
    "fragmentation",
    "older_counted",
)


def _allocator_use(
    host: str,
    allocations: pl.DataFrame,
    replay: MemoryReplay,
    memory: ReplayedMemory,
    steps: _Steps,
) -> MemoryUse:
    events = allocations.select(_USE)[memory.rows]
    parts = events["stack_bytes"] + events["heap_bytes"] + events["free_bytes"]
    total = events["capacity_bytes"].fill_null(parts).max()
    time_ps = ints(events, "start_ps")
    peak = memory.peak
    peak_event = None if peak is None else events.row(peak, named=True)
    min_bytes, numbers = _min_bytes_by_step(memory, time_ps, steps)
    # Blocks from before the recording are missing if the use is computed from recorded
    # allocations, or if the allocator began to count while recording.
    older = events["older_counted"].eq(other=False).any()
    highest = None if peak is None else int(memory.in_use_bytes[peak])
    last = len(memory.rows) - 1
    return MemoryUse(
        host=host,
        name=memory.name,
        capacity_bytes=total if isinstance(total, int) else None,
        peak_bytes=highest,
        peak_ps=0 if peak is None else int(time_ps[peak]),
        counted=not memory.replayed and not older,
        free_bytes=None if peak_event is None else peak_event["free_bytes"],
        fragmentation=None if peak_event is None else peak_event["fragmentation"],
        alive=()
        if peak is None
        else _largest_ops(allocations, replay.alive_rows(memory, peak), highest),
        least_bytes=min_bytes,
        at_step=numbers,
        grown=_largest_ops(allocations, replay.alive_rows(memory, last), highest),
    )


def _min_bytes_by_step(
    memory: ReplayedMemory, time_ps: Int64s, steps: _Steps
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the least memory use in each step, and the step numbers."""
    if not memory.known.all() or not len(time_ps):
        return (), ()
    starts, ends = steps
    first = np.searchsorted(time_ps, starts, side="left")
    last = np.searchsorted(time_ps, ends, side="left")
    # The use at the start of a step is that of the last event before the step.
    begin = np.maximum(first - 1, 0)
    numbers = np.flatnonzero(last > begin)
    bounds = np.stack((begin[numbers], last[numbers]), axis=1).ravel()
    # The appended value allows a range to end at the last event. Every second range is
    # the time between two steps.
    use = np.append(memory.in_use_bytes, 0)
    min_bytes = np.minimum.reduceat(use, bounds)[::2] if len(bounds) else bounds
    return tuple(min_bytes.tolist()), tuple(numbers.astype(float).tolist())


def _largest_ops(
    allocations: pl.DataFrame, rows: Int64s, total_bytes: int | None
) -> tuple[Part, ...]:
    if not len(rows) or not total_bytes:
        return ()
    named = (
        allocations[rows.tolist()]
        .select("allocated_bytes", op=pl.coalesce("op", "source"))
        .filter(pl.col("op").is_not_null())
        .group_by("op")
        .agg(pl.col("allocated_bytes").sum())
        .sort("allocated_bytes", "op", descending=[True, False])
    )
    return tuple(
        Part(name=op, share_percent=100 * size / total_bytes)
        for op, size in named.head(MAX_RANGES_SHOWN).iter_rows()
        if size
    )


def _process_use(trace: TraceData, steps: _Steps) -> MemoryUse | None:
    """Return the memory use of the process; None if it was not sampled."""
    size = counter_readings(trace, _RSS)
    left = [counter_readings(trace, name) for name in _AVAILABLE]
    if size is None:
        return None
    time_ps, use = size.time_ps, size.value.astype(np.int64)
    starts, _ = steps
    numbers: tuple[float, ...] = ()
    if len(starts) > 1:
        period = float(np.median(np.diff(starts)))
        numbers = tuple(((time_ps - int(starts[0])) / period).tolist())
    lowest = (int(it.value.min()) for it in left if it is not None)
    free = min(lowest, default=None)
    return MemoryUse(
        host=trace.host,
        name=PROCESS,
        capacity_bytes=None if free is None else int(use.max()) + free,
        peak_bytes=int(use.max()),
        peak_ps=int(time_ps[int(use.argmax())]),
        counted=True,
        free_bytes=free,
        least_bytes=tuple(use.tolist()) if numbers else (),
        at_step=numbers,
    )


def _rows_of_events(trace: TraceData, name: str) -> NDArray[np.intp]:
    types = trace.table("event_types")
    events = trace.table("events")
    if isinstance(types, Unavailable) or isinstance(events, Unavailable):
        return np.empty(0, np.intp)
    return wanted_rows(handles(events, "type"), (types["name"] == name).to_numpy())


def _failed_allocations(trace: TraceData) -> list[Failure]:
    events = trace.table("events")
    stats = trace.table("stats")
    rows = _rows_of_events(trace, _FAILED)
    if isinstance(events, Unavailable) or isinstance(stats, Unavailable):
        return []
    texts = trace.strings
    allocations = trace.table("allocations")
    start_ps = ints(events, "start_ps")
    taken = start_ps[_rows_of_events(trace, _ALLOCATION)]
    failures = []
    for row in rows.tolist():
        values = stats.filter(pl.col("event") == row)
        stat_of_key = {
            texts[key]: value
            for key, value in values.select("key", "value").iter_rows()
        }
        device = stat_of_key.get("Device Id")
        of_device = pl.col("allocator").str.ends_with(f":{device}")
        capacity = (
            None
            if isinstance(allocations, Unavailable)
            else allocations.filter(of_device)["capacity_bytes"].max()
        )
        failures.append(
            Failure(
                host=trace.host,
                device=device,
                capacity_bytes=capacity if isinstance(capacity, int) else None,
                time_ps=int(start_ps[row]),
                asked_bytes=stat_of_key.get("Bytes"),
                allocated_bytes=stat_of_key.get("Total Allocated"),
                reserved_bytes=stat_of_key.get("Total Reserved"),
                recovered=bool((taken > start_ps[row]).any()),
            )
        )
    return sorted(failures, key=lambda failure: failure.time_ps)


def _failed_rows(trace: TraceData, replay: MemoryReplay) -> list[Failure]:
    """Return the failed allocations in the table `allocations`."""
    allocations = trace.table("allocations")
    if isinstance(allocations, Unavailable):
        return []
    failures = []
    for memory in replay.memories:
        chosen = (allocations["kind"] == "failed") & (
            allocations["allocator"] == memory.name
        )
        for row in np.flatnonzero(chosen).tolist():
            event = allocations.row(row, named=True)
            index = int(np.searchsorted(memory.rows, row))
            later = allocations["kind"].gather(memory.rows[index:])
            used = event["heap_bytes"]
            kept = allocations["free_bytes"][int(memory.rows[max(index - 1, 0)])]
            failures.append(
                Failure(
                    host=trace.host,
                    device=int(memory.name.rpartition(":")[2]),
                    time_ps=event["start_ps"],
                    asked_bytes=event["requested_bytes"],
                    allocated_bytes=used,
                    reserved_bytes=None if kept is None else used + kept,
                    recovered=bool((later == "allocate").any()),
                    memory=memory.name,
                    free_bytes=event["free_bytes"],
                    alive=_largest_ops(
                        allocations, replay.alive_rows(memory, index - 1), used
                    ),
                )
            )
    return sorted(failures, key=lambda failure: failure.time_ps)


_MARK: Final = r"^items added to "


class KeptGrowth(Frozen, frozen=True, eq=True):
    """Growth of one container over the steps of a recording.

    Attributes:
        counted: The container, identified by the counter of its items.
        steps: Number of steps that began during the growth.
        items: Number of added items, or of nodes of an autograd graph.
        array_bytes: Bytes of the added arrays.
        graph_bytes: Bytes that autograd graphs keep for the added items.
    """

    host: str
    counted: KeptCounter
    steps: int
    items: float
    array_bytes: float
    graph_bytes: float


def host_growth(
    *, trace: TraceData, event_types: pl.DataFrame, windows: Windows
) -> tuple[KeptGrowth, ...]:
    """Return the containers of one host that grew, in the order of their recording."""
    if not windows.has_steps:
        return ()
    begins = ints(windows.rows, "start_ps")
    noted = event_types.filter(pl.col("name").str.contains(_MARK))["name"]
    counted = map(KeptCounter.of, noted.unique(maintain_order=True).to_list())
    grown = (
        _container_growth(trace, container, begins)
        for container in counted
        if container is not None
    )
    return tuple(container for container in grown if container is not None)


@of_run
def kept_growth(
    *, host_growth: OfHosts[tuple[KeptGrowth, ...]]
) -> tuple[KeptGrowth, ...]:
    """Return the containers of all hosts that grew."""
    return tuple(
        growth for growths in known_hosts(host_growth).values() for growth in growths
    )


def _container_growth(
    trace: TraceData, counted: KeptCounter, begins: Int64s
) -> KeptGrowth | None:
    readings = [counter_readings(trace, counted.of_kind(kind)) for kind in KEPT_KINDS]
    items, array_bytes, graphs = readings
    if items is None or array_bytes is None or graphs is None:
        return None
    first, last = int(items.time_ps[0]), int(items.time_ps[-1])
    steps = int(((begins >= first) & (begins < last)).sum())
    return KeptGrowth(
        *(trace.host, counted, steps),
        *(float(reading.value[-1]) for reading in (items, array_bytes, graphs)),
    )
