"""The values of a memory snapshot, each checked before it is used."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from stepscope.formats.memory.levels import Block, Report, Segment
from stepscope.formats.memory.program_lines import Frame, Stacks

if TYPE_CHECKING:
    from collections.abc import Iterator

_ACTIONS: Final = frozenset(
    {
        *("alloc", "free_requested", "free_completed"),
        *("segment_alloc", "segment_free", "segment_map", "segment_unmap"),
    }
)
_FAILED: Final = "oom"
#: Actions that change nothing.
_MARKS: Final = frozenset({"snapshot", "workspace_snapshot", "user_defined"})
_ADDRESSES: Final = 2**64
_MOST_BYTES: Final = 2**50
#: The last time since 1970 that counts: 285 years.
_LAST_US: Final = 2**53
#: No history is as long, 97 days: its picoseconds have room in 63 bits.
_LONGEST_US: Final = 2**43 - 1
_MOST_DEVICES: Final = 1024


class SnapshotValues:
    """What a snapshot says, without what cannot be read.

    Attributes:
        events: Device → its events in order.
        segments: Device → its segments at the end.
        stacks: The call stacks that both refer to.
        timed: Whether every event has a time, and none is months away from the
            others; else its number takes the place.
        failed: Number of allocations that failed.
        refused: What was left out → how often.
    """

    def __init__(self) -> None:
        self.events: dict[int, list[Report]] = {}
        self.segments: dict[int, list[Segment]] = {}
        self.stacks = Stacks()
        self.timed = True
        self.failed = 0
        self.refused: Counter[str] = Counter()
        self._stack_of: dict[int, int | None] = {}

    def add_segment(self, given: object) -> None:
        """Check a segment and its blocks, and keep them."""
        found = _record(given)
        device = _number(found.get("device", 0), _MOST_DEVICES)
        address = _number(found.get("address"), _ADDRESSES)
        size = _number(found.get("total_size"), _MOST_BYTES)
        if device is None or address is None or size is None:
            self.refused["segments without device, address or size"] += 1
            return
        blocks = tuple(self._blocks(found.get("blocks"), address))
        self.segments.setdefault(device, []).append(Segment(address, size, blocks))

    def _blocks(self, given: object, begin: int) -> Iterator[Block]:
        """Yield the blocks of a segment; older releases leave out their addresses."""
        at = begin
        for found in map(_record, _items(given)):
            size = _number(found.get("size"), _MOST_BYTES)
            state = found.get("state")
            if size is None or not isinstance(state, str):
                self.refused["blocks without size or state"] += 1
                continue
            address = _number(found.get("address"), _ADDRESSES)
            address = at if address is None else address
            at = address + size
            requested = _number(found.get("requested_size"), size + 1)
            yield Block(
                address=address,
                size=size,
                requested=size if requested is None else requested,
                active=state.startswith("active"),
                freed=state != "active_allocated",
                stack=self._stack(found.get("frames")),
            )

    def add_events(self, device: int, given: object) -> None:
        """Check the events of one device, and keep them."""
        kept = self.events.setdefault(device, [])
        for number, found in enumerate(map(_record, _items(given))):
            action = found.get("action")
            action = action if isinstance(action, str) else ""
            if action == _FAILED:
                self.failed += 1
            if action in _MARKS or action == _FAILED:
                continue
            address = _number(found.get("addr"), _ADDRESSES)
            size = _number(found.get("size"), _MOST_BYTES)
            if action not in _ACTIONS:
                self.refused["events of an unknown kind"] += 1
                continue
            if address is None or size is None:
                self.refused["events without address or size"] += 1
                continue
            time_us = _number(found.get("time_us"), _LAST_US)
            self.timed = self.timed and time_us is not None
            stack = self._stack(found.get("frames")) if action == "alloc" else None
            kept.append(
                Report(
                    action=action,
                    address=address,
                    size=size,
                    time_us=number if time_us is None else time_us,
                    stack=stack,
                )
            )

    def _stack(self, given: object) -> int | None:
        """Return the place of a stack; events that share one hold the same list."""
        key = id(given)
        if key not in self._stack_of:
            self._stack_of[key] = self.stacks.add(
                [
                    Frame(
                        _text(found.get("filename")),
                        _number(found.get("line"), 2**31) or 0,
                        _text(found.get("name")),
                    )
                    for found in map(_record, _items(given))
                ]
            )
        return self._stack_of[key]


def values_of(found: dict[Any, Any]) -> SnapshotValues:
    """Return what the dictionary of a snapshot says.

    The dictionary has to live as long as this runs: stacks are known by identity.
    """
    values = SnapshotValues()
    for segment in _items(found.get("segments")):
        values.add_segment(segment)
    traces = _items(found.get("device_traces"))[:_MOST_DEVICES]
    for device, trace in enumerate(traces):
        values.add_events(device, trace)
    times = [it.time_us for events in values.events.values() for it in events]
    if times and max(times) - min(times) > _LONGEST_US:
        values.timed = False
    if not values.timed:
        # A time and a number are no common axis.
        values.events = {
            device: [it._replace(time_us=at) for at, it in enumerate(events)]
            for device, events in values.events.items()
        }
    return values


def _record(given: object) -> dict[Any, Any]:
    return given if isinstance(given, dict) else {}


def _items(given: object) -> list[Any] | tuple[Any, ...]:
    return given if isinstance(given, list | tuple) else ()


def _text(given: object) -> str:
    return given if isinstance(given, str) else "??"


def _number(given: object, end: int) -> int | None:
    """Return a whole number from 0 up to, and without, an end."""
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < end:
        return given
    return None
