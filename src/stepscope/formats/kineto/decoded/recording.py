"""The decoded content of one Kineto file, shared by the builders of several tables.

The correlation id of a kernel identifies its launch call. The `External id` of a kernel
or a call identifies an operator, except in files of some years, where it repeats the
correlation id. If no id is usable, the operator of an activity is the innermost
operator that encloses its launch call.

Definition: docs/formats/kineto.md#device-activity.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from stepscope.formats.kineto.columns.categories import EventClass
from stepscope.formats.kineto.columns.declared import Interned
from stepscope.formats.kineto.columns.gathering import gather_columns
from stepscope.formats.kineto.decoded.event_order import build_timeline, number_types
from stepscope.formats.kineto.decoded.tracks import place_events
from stepscope.formats.kineto.json.messages import (
    LENIENT_ERRORS,
    DeviceProperties,
    DistributedInfo,
    encode_lenient_value,
    json_value,
    read_one_message,
)
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import fill_nulls, present_mask
from stepscope.xspace.op_links import innermost_around, last_with_id, operands_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import polars as pl

    from stepscope.array_types import Int32s, Int64s
    from stepscope.formats.assemble import Track
    from stepscope.formats.kineto.columns.declared import FileColumns, OpColumns
    from stepscope.formats.kineto.decoded.event_order import EventTypes, Timeline
    from stepscope.formats.kineto.decoded.tracks import Placement
    from stepscope.formats.kineto.json.document import Document

_CONCERNED: Final = (EventClass.OP, EventClass.API, EventClass.MEMORY)
#: Smallest start, in ns, that counts from 1970; smaller starts have no known origin.
_EPOCH_NS = 10**17
#: Field of a device → smallest value that is impossible.
_ENDS = {
    **dict.fromkeys(("id", "major", "minor", "multiprocessors", "warp_size"), 2**31),
    "total_memory": 2**63,
}


class OpLinks(Frozen, frozen=True, kw_only=True, eq=True):
    """Links from activities and allocations to operators.

    Attributes:
        of_activity: int32 per activity; position of its operator in `OpColumns`, or -1.
        of_memory: int32 per allocation; position of its operator in `OpColumns`, or -1.
        call_of_activity: int64 per activity; position, in the calls' columns, of the
            call that has the activity's correlation id, or -1.
        repeated: Number of rows whose `External id` repeats the correlation id.
    """

    of_activity: Int32s
    of_memory: Int32s
    call_of_activity: Int64s
    repeated: int


class OpTexts(Frozen, frozen=True, kw_only=True, eq=True):
    """Handles of operators' names and shapes; only for files with device activity.

    Attributes:
        strings: Handle → text; each text occurs once.
        name: int32 by name number; handle of an operator's name, -1 for other names.
        shape: int32 by shape number; handle of the shape's text, -1 if it has none.
    """

    strings: tuple[str, ...]
    name: Int32s
    shape: Int32s


def link_ops(columns: FileColumns, timeline: Timeline) -> OpLinks:
    """Find the operator of every device activity and of every allocation."""
    ops = columns.ops
    op_of_event = np.full(len(columns.events.kind), -1, np.int32)
    op_of_event[ops.place] = np.arange(len(ops.place), dtype=np.int32)
    # Index of an event → the innermost operator that encloses the event, or -1.
    around = np.full(len(op_of_event), -1, np.int32)
    rows = np.flatnonzero(np.isin(timeline.kind, _CONCERNED))
    if len(rows):
        innermost = innermost_around(
            timeline.start_ps[rows],
            timeline.dur_ps[rows],
            track=timeline.track[rows],
            is_op=timeline.kind[rows] == EventClass.OP,
        )
        place, inside = timeline.place[rows], innermost >= 0
        around[place[inside]] = op_of_event[place[innermost[inside]]]
    calls, activities = columns.calls, columns.activity
    by_id, called_again = _ops_by_external_id(ops, calls.frame)
    of_call = np.where(by_id >= 0, by_id, around[calls.place])
    # Activity → the last call with its correlation id, or -1.
    present = np.flatnonzero(present_mask(calls.frame["correlation"]))
    call = np.full(activities.frame.height, -1, np.int64)
    correlated = np.flatnonzero(present_mask(activities.frame["correlation"]))
    index = last_with_id(
        fill_nulls(calls.frame["correlation"], 0)[present],
        fill_nulls(activities.frame["correlation"], 0)[correlated],
    )
    call[correlated] = np.where(index >= 0, np.append(present, -1)[index], -1)
    launched_by = np.where(call >= 0, np.append(of_call, -1)[call], -1)
    own, ran_again = _ops_by_external_id(ops, activities.frame)
    return OpLinks(
        of_activity=np.where(own >= 0, own, launched_by).astype(np.int32),
        of_memory=around[columns.memory.place],
        call_of_activity=call,
        repeated=called_again + ran_again,
    )


def number_texts(columns: FileColumns, names: Sequence[str]) -> OpTexts:
    """Assign handles to the texts that activities refer to, before tables are built.

    Args:
        columns: Columns of the file.
        names: Number of a name → the name.
    """
    handles: Interned[str] = Interned()
    name = np.full(len(names), -1, np.int32)
    shape = np.full(len(columns.shapes), -1, np.int32)
    if len(columns.activity.place):
        used = np.unique(columns.events.name[columns.ops.place])
        name[used] = handles.numbers([names[number] for number in used.tolist()])
        for number, written in enumerate(columns.shapes):
            # For each operand, its sizes (nested for a list of tensors) and its type.
            sizes, types = (json_value(part) for part in written)
            lists = isinstance(sizes, list) and isinstance(types, list)
            text = operands_text(sizes, types) if lists else None
            if text is not None:
                shape[number] = handles[columns.shortening.text(text)]
    return OpTexts(strings=tuple(handles), name=name, shape=shape)


def _ops_by_external_id(ops: OpColumns, frame: pl.DataFrame) -> tuple[Int32s, int]:
    if frame.is_empty():
        return np.zeros(0, np.int32), 0
    wanted = fill_nulls(frame["external"], -1)
    same = (frame["external"] == frame["correlation"]).fill_null(value=False).to_numpy()
    op_rows = np.full(len(wanted), -1, np.int32)
    known = np.flatnonzero(ops.external >= 0)
    identified = np.flatnonzero((wanted >= 0) & ~same)
    index = last_with_id(ops.external[known], wanted[identified])
    op_rows[identified] = np.where(index >= 0, np.append(known, -1)[index], -1)
    return op_rows, int(np.count_nonzero(same & (wanted >= 0)))


class Recording:
    """The columns of a file, its tracks and its timeline."""

    def __init__(self, path: Path, document: Document) -> None:
        self.path = path
        self.document = document
        self.columns: FileColumns = gather_columns(document)
        self.types: EventTypes = number_types(self.columns)
        self.placement: Placement = place_events(self.columns)
        self.timeline: Timeline = build_timeline(
            self.columns.events,
            self.types.of_event,
            self.placement.track,
            tracks=len(self.tracks),
        )
        self.texts: OpTexts = number_texts(self.columns, self.names)

    @property
    def tracks(self) -> list[Track]:
        """Every track, in the order of the table `tracks`."""
        return self.placement.tracks

    @cached_property
    def links(self) -> OpLinks:
        """Links to the operators of calls, activities and allocations."""
        return link_ops(self.columns, self.timeline)

    @property
    def damaged_at(self) -> int | None:
        """Offset of the first unreadable byte; None in a whole file."""
        offsets = (self.columns.bad_place, self.columns.cut_at)
        return min((offset for offset in offsets if offset is not None), default=None)

    @cached_property
    def names(self) -> list[str]:
        """Number of a name → the name."""
        return ["(unnamed)" if name is None else name for name in self.columns.names]

    @cached_property
    def type_names(self) -> list[str]:
        """The name of every event type."""
        return [self.names[number] for number in self.types.name.tolist()]

    @cached_property
    def device_properties(self) -> list[DeviceProperties]:
        """The devices that the file lists; fields with impossible values are None."""
        raw = self.document.fields.get("deviceProperties", b"[]")
        try:
            listed = msgspec.json.decode(raw, type=list[msgspec.Raw])
        except LENIENT_ERRORS:
            value = json_value(raw)
            items = value if isinstance(value, list) else []
            listed = [msgspec.Raw(encode_lenient_value(item)) for item in items]
        devices = []
        for item in listed:
            properties = read_one_message(item, DeviceProperties)
            impossible = {
                name: None
                for name, end in _ENDS.items()
                if not 0 <= (getattr(properties, name) or 0) < end
            }
            properties = msgspec.structs.replace(properties, **impossible)
            if properties.id is not None:
                devices.append(properties)
        return devices

    @cached_property
    def distributed(self) -> DistributedInfo:
        """The rank and number of processes that the file records."""
        raw = self.document.fields.get("distributedInfo")
        return (
            DistributedInfo() if raw is None else read_one_message(raw, DistributedInfo)
        )

    @cached_property
    def start_unix_ns(self) -> int | None:
        """Time 0 in nanoseconds since 1970; None if the file does not record it."""
        if not len(self.timeline.place):
            return None
        base = self.field("baseTimeNanoseconds")
        start = self.timeline.base_ns
        if isinstance(base, int) and not isinstance(base, bool) and base > 0:
            start += base
        return start if _EPOCH_NS < start < 2**63 else None

    def field(self, name: str) -> Any:
        """Return the value of a top-level field of the document; None if absent."""
        raw = self.document.fields.get(name)
        if raw is None:
            return None
        try:
            return msgspec.json.decode(raw)
        except LENIENT_ERRORS:
            return json_value(raw)

    def rows_named(self, chosen: list[bool]) -> Int64s:
        """Return the rows of events of the chosen types, ascending."""
        return np.flatnonzero(np.array(chosen, np.bool_)[self.timeline.type])
