"""What the allocator of one device held over time, from its events and its end state.

The events are a ring: as a rule they begin long after the program did. What was there
before them follows from the end state, walked back: a block that is active at the end
and that no event allocated is older than the events, and so is one that an event frees
and none allocated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_GROWS: Final = {"segment_alloc": 1, "segment_map": 1}
_SHRINKS: Final = {"segment_free": -1, "segment_unmap": -1}
_RESERVES: Final = {**_GROWS, **_SHRINKS}
#: The allocator gives blocks in multiples of so many bytes.
_ROUNDED: Final = 512


class Block(NamedTuple):
    """A block of a segment at the end.

    Attributes:
        requested: The bytes that the program asked for.
        active: Whether it is in use, or waits for a stream that used it.
        freed: Whether the program has given it back.
        stack: Number of its call stack; None where unknown.
    """

    address: int
    size: int
    requested: int
    active: bool
    freed: bool
    stack: int | None


class Segment(NamedTuple):
    """Memory that the allocator took from the driver in one piece."""

    address: int
    size: int
    blocks: tuple[Block, ...]


class Report(NamedTuple):
    """One event of the allocator; `stack` is the number of its call stack."""

    action: str
    address: int
    size: int
    time_us: int
    stack: int | None


class Change(NamedTuple):
    """A row of `allocations` in the making.

    Attributes:
        kind: `held`, `allocate` or `deallocate`.
        number: Number of the event; -1 for a block that was there before.
        size: Bytes of the block that the program asked for.
        stack: Number of the call stack that asked for it.
        active: Bytes in use or waiting for a stream after it.
        tensors: Bytes that the program has not given back after it.
        reserved: Bytes taken from the driver after it; None where unknown.
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


class History(NamedTuple):
    """What one device's allocator did.

    Attributes:
        changes: In order of time, blocks that were there before first.
        contradicted: Number of blocks of which events and end state differ.
        fragmentation: 1 - largest free piece / free bytes where the use is greatest;
            None where unknown.
        peak: Place in `changes` of the greatest use; None without any.
        nameless: Bytes in use there of blocks that are older than the events and of
            which no call stack was kept.
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
    """Return what was in use and reserved after each event.

    Args:
        events: Of one device, in order.
        segments: Those at the end, which is the instant of the snapshot.
        begin_us: Time given to blocks that are older than the events.
    """
    older, contradicted = _older_blocks(events, segments)
    # What was reserved before the first event: the end less all changes.
    end = sum(segment.size for segment in segments)
    reserved = end - sum(_RESERVES.get(it.action, 0) * it.size for it in events)
    changes = list(_replay_changes(events, older, reserved, begin_us=begin_us))
    if any(it.reserved is not None and it.reserved < it.active for it in changes):
        changes = [it._replace(reserved=None) for it in changes]
    peak = max(
        range(len(changes)), key=lambda at: (changes[at].active, -at), default=None
    )
    divided = None
    if peak is not None and changes[peak].reserved is not None:
        divided = _fragmentation_at_peak(changes[: peak + 1], events, segments)
    until = changes[: 0 if peak is None else peak + 1]
    # The bytes of older blocks without a stack after the last of changes.
    left: dict[int, int] = {}
    for change in until:
        if change.kind == "held" and change.stack is None:
            left[change.address] = change.size
        elif change.kind != "held":
            left.pop(change.address, None)
    return History(tuple(changes), contradicted, divided, peak, sum(left.values()))


def _older_blocks(
    events: Sequence[Report], segments: Sequence[Segment]
) -> tuple[dict[int, _Older], int]:
    """Return blocks older than the events, and how many of the end contradict them."""
    young: set[int] = set()
    gone: set[int] = set()
    older: dict[int, _Older] = {}
    for event in events:
        at = event.address
        if event.action == "alloc":
            young.add(at)
            gone.discard(at)
        elif event.action in ("free_requested", "free_completed"):
            if at not in young and at not in gone:
                older.setdefault(at, _Older(event.size, None))
            if event.action == "free_completed":
                young.discard(at)
                gone.add(at)
    active = {
        block.address: block
        for segment in segments
        for block in segment.blocks
        if block.active
    }
    contradicted = len(young - active.keys()) + len(gone & active.keys())
    if not contradicted:
        size = "requested" if events else "size"
        for at, block in active.items():
            if at not in young:
                older[at] = _Older(getattr(block, size), block.stack)
    return older, contradicted


def _replay_changes(
    events: Sequence[Report], older: dict[int, _Older], reserved: int, *, begin_us: int
) -> Iterator[Change]:
    known = reserved >= 0
    active = tensors = 0
    alive: dict[int, tuple[int, bool]] = {}
    for at, (size, stack) in sorted(older.items()):
        active += size
        tensors += size
        alive[at] = size, False
        yield Change(
            "held", -1, begin_us, at, size, stack, active, tensors,
            reserved if known else None,
        )  # fmt: skip
    for number, event in enumerate(events):
        at = event.address
        reserved += _RESERVES.get(event.action, 0) * event.size
        known = known and reserved >= 0
        if event.action == "alloc":
            lost, freed = alive.get(at, (0, True))
            active += event.size - lost
            tensors += event.size - (0 if freed else lost)
            alive[at] = event.size, False
            kind, stack, size = "allocate", event.stack, event.size
        elif at not in alive:
            continue
        elif event.action == "free_requested":
            size, freed = alive[at]
            tensors -= 0 if freed else size
            alive[at] = size, True
            continue
        elif event.action == "free_completed":
            size, freed = alive.pop(at)
            active -= size
            tensors -= 0 if freed else size
            kind, stack = "deallocate", None
        else:
            continue
        yield Change(
            kind, number, event.time_us, at, size, stack, active, tensors,
            reserved if known else None,
        )  # fmt: skip


def _fragmentation_at_peak(
    until: Sequence[Change], events: Sequence[Report], segments: Sequence[Segment]
) -> float | None:
    alive: dict[int, int] = {}
    for change in until:
        if change.kind == "deallocate":
            alive.pop(change.address, None)
        else:
            alive[change.address] = change.size
    later = events[until[-1].number + 1 :]
    if any(it.action in ("segment_map", "segment_unmap") for it in later):
        # Segments that grow in place have no piece of their own to add or to remove.
        return None
    # Address → size of the segments before these events, which lead to the end.
    regions = {it.address: it.size for it in segments}
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
        at = begin
        while place < len(blocks) and blocks[place][0] < begin + size:
            address, requested = blocks[place]
            place += 1
            if address > at:
                yield address - at
            at = max(at, address + -(-requested // _ROUNDED) * _ROUNDED)
        if begin + size > at:
            yield begin + size - at
