"""Memory in use and reserved on one device over time, from its allocator's events.

Events are stored in a ring buffer, so the first event is usually later than the start
of the program. The blocks that are older than the first event follow from the end
state. A block is older if no event allocates it, although an event frees it or it is
active at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_GROWS: Final = {"segment_alloc": 1, "segment_map": 1}
_SHRINKS: Final = {"segment_free": -1, "segment_unmap": -1}
_RESERVES: Final = {**_GROWS, **_SHRINKS}
#: Action of a failed allocation.
FAILED: Final = "oom"
#: Granularity of the allocator, in bytes: block sizes are multiples of it.
_ROUNDED: Final = 512


class Block(NamedTuple):
    """A block of a segment at the time of the snapshot.

    Attributes:
        requested: Bytes that the program requested.
        active: Whether the block is in use, or waits for a stream that used it.
        freed: Whether the program has freed the block.
        stack: Number of the block's call stack; None if unknown.
    """

    address: int
    size: int
    requested: int
    active: bool
    freed: bool
    stack: int | None


class Segment(NamedTuple):
    """One contiguous region of memory that the allocator got from the driver."""

    address: int
    size: int
    blocks: tuple[Block, ...]


class Report(NamedTuple):
    """One event of the allocator.

    Attributes:
        stack: Number of its call stack.
        free: For a failed allocation: free bytes of the device; None if unknown.
    """

    action: str
    address: int
    size: int
    time_us: int
    stack: int | None
    free: int | None = None


class Change(NamedTuple):
    """One change of memory use, which becomes a row of `allocations`.

    Attributes:
        kind: `held`, `allocate`, `deallocate` or `failed`.
        number: Number of the event; -1 for a block that is older than the events.
        size: Bytes that the program requested for the block.
        stack: Number of the call stack that requested the block.
        active: Bytes, after the change, that are in use or wait for a stream.
        tensors: Bytes, after the change, that the program has not yet freed.
        reserved: Bytes reserved from the driver after the change; None if unknown.
        free: As in `Report`.
    """

    kind: str
    number: int
    time_us: int
    address: int
    size: int
    stack: int | None
    active: int
    tensors: int
    reserved: int | None
    free: int | None = None


class History(NamedTuple):
    """History of the memory use of one device's allocator.

    Attributes:
        changes: Changes in time order, starting with the blocks older than the events.
        contradicted: Number of blocks on which the events and the end state disagree.
        fragmentation: 1 - largest free piece / free bytes at the peak; None if unknown.
        peak: Index in `changes` of the last highest memory use; None without changes.
        nameless: Peak bytes in blocks that have no stack and precede the events.
    """

    changes: tuple[Change, ...]
    contradicted: int
    fragmentation: float | None
    peak: int | None
    nameless: int


class _Older(NamedTuple):
    size: int
    stack: int | None


def allocator_history(
    events: Sequence[Report], segments: Sequence[Segment], *, begin_us: int
) -> History:
    """Return how the bytes in use and reserved change with each event.

    Args:
        events: Events of one device, in order.
        segments: Segments at the time of the snapshot, which is after the last event.
        begin_us: Time, in µs, to give to blocks that are older than the events.
    """
    older, contradicted = _older_blocks(events, segments)
    # Bytes reserved before the first event: the bytes at the end minus all changes.
    end = sum(segment.size for segment in segments)
    reserved = end - sum(
        _RESERVES.get(event.action, 0) * event.size for event in events
    )
    changes = list(_replay_changes(events, older, reserved, begin_us=begin_us))
    if any(
        change.reserved is not None and change.reserved < change.active
        for change in changes
    ):
        changes = [change._replace(reserved=None) for change in changes]
    in_use = (row for row, change in enumerate(changes) if change.kind != "failed")
    peak = max(in_use, key=lambda row: (changes[row].active, row), default=None)
    divided = None
    if peak is not None and changes[peak].reserved is not None:
        divided = _fragmentation_at_peak(changes[: peak + 1], events, segments)
    until = changes[: 0 if peak is None else peak + 1]
    # Address → bytes of an older block without a stack that is in use at the peak.
    nameless: dict[int, int] = {}
    for change in until:
        if change.kind == "held" and change.stack is None:
            nameless[change.address] = change.size
        elif change.kind in ("allocate", "deallocate"):
            nameless.pop(change.address, None)
    return History(tuple(changes), contradicted, divided, peak, sum(nameless.values()))


def _older_blocks(
    events: Sequence[Report], segments: Sequence[Segment]
) -> tuple[dict[int, _Older], int]:
    """Return blocks older than the events, and the number of contradicted blocks."""
    young: set[int] = set()
    freed_addresses: set[int] = set()
    older: dict[int, _Older] = {}
    for event in events:
        address = event.address
        if event.action == "alloc":
            young.add(address)
            freed_addresses.discard(address)
        elif event.action in ("free_requested", "free_completed"):
            if address not in young and address not in freed_addresses:
                older.setdefault(address, _Older(event.size, None))
            if event.action == "free_completed":
                young.discard(address)
                freed_addresses.add(address)
    active = {
        block.address: block
        for segment in segments
        for block in segment.blocks
        if block.active
    }
    contradicted = len(young - active.keys()) + len(freed_addresses & active.keys())
    if not contradicted:
        size = "requested" if events else "size"
        for address, block in active.items():
            if address not in young:
                older[address] = _Older(getattr(block, size), block.stack)
    return older, contradicted


def _replay_changes(
    events: Sequence[Report], older: dict[int, _Older], reserved: int, *, begin_us: int
) -> Iterator[Change]:
    known = reserved >= 0
    active = tensors = 0
    alive: dict[int, tuple[int, bool]] = {}
    for address, (size, stack) in sorted(older.items()):
        active += size
        tensors += size
        alive[address] = size, False
        yield Change(
            "held", -1, begin_us, address, size, stack, active, tensors,
            reserved if known else None,
        )  # fmt: skip
    for number, event in enumerate(events):
        address = event.address
        reserved += _RESERVES.get(event.action, 0) * event.size
        known = known and reserved >= 0
        if event.action == FAILED:
            kind, stack, size = "failed", event.stack, event.size
        elif event.action == "alloc":
            lost, freed = alive.get(address, (0, True))
            active += event.size - lost
            tensors += event.size - (0 if freed else lost)
            alive[address] = event.size, False
            kind, stack, size = "allocate", event.stack, event.size
        elif address not in alive:
            continue
        elif event.action == "free_requested":
            size, freed = alive[address]
            tensors -= 0 if freed else size
            alive[address] = size, True
            continue
        elif event.action == "free_completed":
            size, freed = alive.pop(address)
            active -= size
            tensors -= 0 if freed else size
            kind, stack = "deallocate", None
        else:
            continue
        yield Change(
            kind, number, event.time_us, address, size, stack, active, tensors,
            reserved if known else None, event.free,
        )  # fmt: skip


def _fragmentation_at_peak(
    until: Sequence[Change], events: Sequence[Report], segments: Sequence[Segment]
) -> float | None:
    alive: dict[int, int] = {}
    for change in until:
        if change.kind == "deallocate":
            alive.pop(change.address, None)
        elif change.kind != "failed":
            alive[change.address] = change.size
    later = events[until[-1].number + 1 :]
    if any(event.action in ("segment_map", "segment_unmap") for event in later):
        # The earlier size of a segment that grew in place cannot be restored.
        return None
    # Address → size of the segments at the peak, found by undoing the later events.
    regions = {segment.address: segment.size for segment in segments}
    for event in reversed(later):
        if event.action == "segment_free":
            regions[event.address] = event.size
        elif event.action == "segment_alloc" and (
            regions.pop(event.address, None) is None
        ):
            return None
    gaps = list(_free_gaps(regions, alive))
    free = sum(gaps)
    return 1 - max(gaps) / free if free else None


def _free_gaps(regions: dict[int, int], alive: dict[int, int]) -> Iterator[int]:
    blocks = sorted(alive.items())
    place = 0
    for begin, size in sorted(regions.items()):
        gap_begin = begin
        while place < len(blocks) and blocks[place][0] < begin + size:
            address, requested = blocks[place]
            place += 1
            if address > gap_begin:
                yield address - gap_begin
            gap_begin = max(gap_begin, address + -(-requested // _ROUNDED) * _ROUNDED)
        if begin + size > gap_begin:
            yield begin + size - gap_begin
