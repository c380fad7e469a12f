"""Reader of PyTorch's memory snapshot (`torch.cuda.memory._dump_snapshot`).

Each value is checked before it is used.

Definition: docs/formats/memory_snapshot.md.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from stepscope.errors import BadInput, Malformed
from stepscope.formats.assemble import only_file
from stepscope.formats.declared_texts import quality_note
from stepscope.formats.memory.history import (
    FAILED,
    Block,
    Report,
    Segment,
    allocator_history,
)
from stepscope.formats.memory.plain_pickle import RefusedPickle, plain_pickle
from stepscope.formats.memory.tables import Frame, Stacks, memory_trace
from stepscope.units import PS_PER_US
from stepscope.xspace.reading.source import open_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.formats.memory.history import History
    from stepscope.rundir import HostFiles
    from stepscope.trace.model import TraceData
    from stepscope.trace.quality import QualityNote

_ACTIONS: Final = frozenset(
    {
        *("alloc", "free_requested", "free_completed"),
        *("segment_alloc", "segment_free", "segment_map", "segment_unmap", FAILED),
    }
)
#: Actions that do not change the memory use.
_MARKS: Final = frozenset({"snapshot", "workspace_snapshot", "user_defined"})
_ADDRESSES: Final = 2**64
_MAX_BYTES: Final = 2**50
#: Upper limit of an event's time, in µs since 1970 (285 years).
_LAST_US: Final = 2**53
#: Maximum length of a history, in µs (101 days); as picoseconds it fits 63 bits.
_MAX_HISTORY_US: Final = 2**43 - 1
_MAX_DEVICES: Final = 1024
_FORMAT_NAME: Final = "PyTorch memory snapshot"
_RECORD: Final = (
    "Record the same steps with torch.profiler, or with `stepscope run`, for times."
)
_DUMP_AGAIN: Final = (
    "Write it again with torch.cuda.memory._dump_snapshot('FILE.pickle')."
)
_REMEMBER: Final = "Call torch.cuda.memory._record_memory_history() before the steps."


class SnapshotValues:
    """The readable values of a snapshot.

    Attributes:
        events: Device → its events, in order.
        segments: Device → its segments at the time of the snapshot.
        timed: Whether every event has a time and all times are within 101 days;
            otherwise event numbers replace the times.
        refused: Kind of entry that is left out → number of such entries.
    """

    def __init__(self) -> None:
        self.events: dict[int, list[Report]] = {}
        self.segments: dict[int, list[Segment]] = {}
        self.stacks = Stacks()
        self.timed = True
        self.failed = 0
        self.refused: Counter[str] = Counter()
        self._stack_of: dict[int, int | None] = {}

    def add_segment(self, raw: object) -> None:
        """Check a segment and its blocks, and keep the readable ones."""
        segment = _dict_or_empty(raw)
        device = _number_below(segment.get("device", 0), _MAX_DEVICES)
        address = _number_below(segment.get("address"), _ADDRESSES)
        size = _number_below(segment.get("total_size"), _MAX_BYTES)
        if device is None or address is None or size is None:
            self.refused["segments without device, address or size"] += 1
            return
        blocks = tuple(self._read_blocks(segment.get("blocks"), address))
        self.segments.setdefault(device, []).append(Segment(address, size, blocks))

    def _read_blocks(self, raw: object, begin: int) -> Iterator[Block]:
        """Yield the blocks of a segment; older PyTorch omits the block addresses."""
        next_address = begin
        for block in map(_dict_or_empty, _list_or_empty(raw)):
            size = _number_below(block.get("size"), _MAX_BYTES)
            state = block.get("state")
            if size is None or not isinstance(state, str):
                self.refused["blocks without size or state"] += 1
                continue
            address = _number_below(block.get("address"), _ADDRESSES)
            address = next_address if address is None else address
            next_address = address + size
            requested = _number_below(block.get("requested_size"), size + 1)
            yield Block(
                address=address,
                size=size,
                requested=size if requested is None else requested,
                active=state.startswith("active"),
                freed=state != "active_allocated",
                stack=self._stack_index(block.get("frames")),
            )

    def add_events(self, device: int, raw: object) -> None:
        """Check the events of one device, and keep the readable ones."""
        reports = self.events.setdefault(device, [])
        for number, event in enumerate(map(_dict_or_empty, _list_or_empty(raw))):
            action = event.get("action")
            action = action if isinstance(action, str) else ""
            if action in _MARKS:
                continue
            failed = action == FAILED
            self.failed += failed
            # A failed allocation has no address.
            address = _number_below(0 if failed else event.get("addr"), _ADDRESSES)
            size = _number_below(event.get("size"), _MAX_BYTES)
            if action not in _ACTIONS:
                self.refused["events of an unknown kind"] += 1
                continue
            if address is None or size is None:
                self.refused["events without address or size"] += 1
                continue
            time_us = _number_below(event.get("time_us"), _LAST_US)
            self.timed = self.timed and time_us is not None
            requests = action == "alloc" or failed
            stack = self._stack_index(event.get("frames")) if requests else None
            reports.append(
                Report(
                    action=action,
                    address=address,
                    size=size,
                    time_us=number if time_us is None else time_us,
                    stack=stack,
                    free=_number_below(event.get("device_free"), _MAX_BYTES),
                )
            )

    def _stack_index(self, raw: object) -> int | None:
        """Return the index of a stack; events of one stack share one list object."""
        key = id(raw)
        if key not in self._stack_of:
            self._stack_of[key] = self.stacks.add(
                [
                    Frame(
                        _text_or_unknown(frame.get("filename")),
                        _number_below(frame.get("line"), 2**31) or 0,
                        _text_or_unknown(frame.get("name")),
                    )
                    for frame in map(_dict_or_empty, _list_or_empty(raw))
                ]
            )
        return self._stack_of[key]


def read_values(snapshot: dict[Any, Any]) -> SnapshotValues:
    """Return the values of a snapshot's dictionary.

    The dictionary must exist until the call returns: stacks are compared by identity.
    """
    values = SnapshotValues()
    for segment in _list_or_empty(snapshot.get("segments")):
        values.add_segment(segment)
    traces = _list_or_empty(snapshot.get("device_traces"))[:_MAX_DEVICES]
    for device, trace in enumerate(traces):
        values.add_events(device, trace)
    times = [event.time_us for events in values.events.values() for event in events]
    if times and max(times) - min(times) > _MAX_HISTORY_US:
        values.timed = False
    if not values.timed:
        # If some events have no time, use event numbers as times of all events.
        values.events = {
            device: [event._replace(time_us=row) for row, event in enumerate(events)]
            for device, events in values.events.items()
        }
    return values


def _dict_or_empty(raw: object) -> dict[Any, Any]:
    return raw if isinstance(raw, dict) else {}


def _list_or_empty(raw: object) -> list[Any] | tuple[Any, ...]:
    return raw if isinstance(raw, list | tuple) else ()


def _text_or_unknown(raw: object) -> str:
    return raw if isinstance(raw, str) else "??"


def _number_below(raw: object, end: int) -> int | None:
    """Return a value if it is an integer from 0 to below `end`; None otherwise."""
    if isinstance(raw, int) and not isinstance(raw, bool) and 0 <= raw < end:
        return raw
    return None


def read(source: HostFiles) -> TraceData:
    """Read one memory snapshot; raise `BadInput` if nothing can be read."""
    path = only_file(source)
    content, _ = open_bytes(path, limit_bytes=source.limit_bytes, mapped=source.mapped)
    try:
        saved = plain_pickle(content.tobytes())
    except RefusedPickle as refused:
        raise Malformed.broken_at_offset(
            path, refused.offset, refused.what, _DUMP_AGAIN
        ) from refused
    if isinstance(saved, list):
        # The program stored the list that torch.cuda.memory_snapshot() returns.
        saved = {"segments": saved}
    if not isinstance(saved, dict) or not isinstance(saved.get("segments"), list):
        raise BadInput.at(
            path, "is a pickle without the segments of an allocator", _DUMP_AGAIN
        )
    values = read_values(saved)
    rows, notes, begin_us = _rows_of_devices(values)
    if not rows:
        raise BadInput.at(path, "holds no event and no block that is in use", _REMEMBER)
    return memory_trace(
        source.host,
        path,
        rows,
        what=_FORMAT_NAME,
        record=_RECORD,
        notes=[*notes, *_snapshot_notes(values)],
        stacks=values.stacks.texts,
        start_unix_ns=begin_us * 1000 if values.timed and begin_us else None,
    )


def _rows_of_devices(
    values: SnapshotValues,
) -> tuple[list[dict[str, Any]], list[QualityNote], int]:
    begin = min(
        (event.time_us for events in values.events.values() for event in events),
        default=0,
    )
    rows: list[dict[str, Any]] = []
    notes: list[QualityNote] = []
    for device in sorted(values.events.keys() | values.segments.keys()):
        history = allocator_history(
            values.events.get(device, []),
            values.segments.get(device, []),
            begin_us=begin,
        )
        name = f"cuda:{device}"
        rows += _rows_of_history(name, history, values.stacks.lines, begin)
        if history.contradicted:
            notes.append(
                quality_note(
                    "memory.memory_snapshot_cut", history.contradicted, scope=name
                )
            )
        if any(change.reserved is None for change in history.changes):
            notes.append(quality_note("memory.memory_reserved_unknown", scope=name))
        used = 0 if history.peak is None else history.changes[history.peak].active
        if used and 2 * history.nameless > used:
            percent = 100 * history.nameless / used
            notes.append(
                quality_note(
                    "memory.memory_before_history", scope=name, percent=percent
                )
            )
    rows.sort(key=lambda row: row["start_ps"])
    return rows, notes, begin


def _rows_of_history(
    name: str, history: History, lines: list[str | None], begin_us: int
) -> Iterator[dict[str, Any]]:
    latest = begin_us
    for index, change in enumerate(history.changes):
        # Keep the allocator's order, because the clocks of threads differ slightly.
        latest = max(latest, change.time_us)
        reserved, stack = change.reserved, change.stack
        free = None if reserved is None else reserved - change.active
        failed = change.kind == "failed"
        yield {
            "start_ps": (latest - begin_us) * PS_PER_US,
            "kind": change.kind,
            "allocator": name,
            "address": None if failed else change.address,
            "allocated_bytes": None if failed else change.size,
            "requested_bytes": change.size,
            "heap_bytes": change.active,
            "tensor_bytes": change.tensors,
            "free_bytes": change.free if failed else free,
            "older_counted": not history.contradicted,
            "fragmentation": history.fragmentation if index == history.peak else None,
            "source": None if stack is None else lines[stack],
            "stack": stack,
        }


def _snapshot_notes(values: SnapshotValues) -> Iterator[QualityNote]:
    if not any(values.events.values()):
        yield quality_note("memory.no_history")
    elif not values.timed:
        yield quality_note("memory.no_clock")
    if values.failed:
        yield quality_note("memory.out_of_memory", values.failed)
    if values.refused:
        named = ", ".join(
            f"{count:,} {reason}" for reason, count in values.refused.most_common(3)
        )
        yield quality_note("memory.refused_events", values.refused.total(), named=named)
