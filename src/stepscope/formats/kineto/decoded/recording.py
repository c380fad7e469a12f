"""One file that was read, and what several of its tables need."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepscope.formats.kineto.columns.gathering import gather
from stepscope.formats.kineto.decoded.ops import link_ops, number_texts
from stepscope.formats.kineto.decoded.timeline import build_timeline
from stepscope.formats.kineto.decoded.tracks import place_events
from stepscope.formats.kineto.decoded.types import number_types
from stepscope.formats.kineto.json.lenient import LENIENT_ERRORS, encoded, json_value
from stepscope.formats.kineto.json.messages import (
    DeviceProperties,
    DistributedInfo,
    read_one,
)

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from stepscope.formats.kineto.columns.declared import FileColumns
    from stepscope.formats.kineto.decoded.ops import OpLinks, OpTexts
    from stepscope.formats.kineto.decoded.timeline import Timeline
    from stepscope.formats.kineto.decoded.tracks import Placement, Track
    from stepscope.formats.kineto.decoded.types import EventTypes
    from stepscope.formats.kineto.json.document import Document

#: Files without a base count from 1970 when they count so far (1973 in nanoseconds).
_EPOCH_NS = 10**17
#: Number of a device → where impossible values begin.
_ENDS = {
    **dict.fromkeys(("id", "major", "minor", "multiprocessors", "warp_size"), 2**31),
    "total_memory": 2**63,
}


class Recording:
    """The columns of a file, its tracks and its timeline.

    Attributes:
        path: The file.
        document: Its parts.
        columns: Its events, in file order.
        types: What they are called, and which are operators.
        placement: Where they belong.
        timeline: The events in their final rows.
        texts: What operators are called, and their operands.
    """

    def __init__(self, path: Path, document: Document) -> None:
        self.path = path
        self.document = document
        self.columns: FileColumns = gather(document)
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
        """Every track, in the order of the table."""
        return self.placement.tracks

    @cached_property
    def links(self) -> OpLinks:
        """The operators of calls, activities and allocations."""
        return link_ops(self.columns, self.timeline)

    @property
    def damaged_at(self) -> int | None:
        """First byte that cannot be read; None in a whole file."""
        places = (self.columns.bad_place, self.columns.cut_at)
        return min((it for it in places if it is not None), default=None)

    @cached_property
    def names(self) -> list[str]:
        """Number of a name → the name."""
        return ["(unnamed)" if it is None else it for it in self.columns.names]

    @cached_property
    def type_names(self) -> list[str]:
        """The name of every event type."""
        return [self.names[number] for number in self.types.name.tolist()]

    @cached_property
    def device_properties(self) -> list[DeviceProperties]:
        """The devices that the file lists; impossible numbers of theirs are unknown."""
        given = self.document.fields.get("deviceProperties", b"[]")
        try:
            listed = msgspec.json.decode(given, type=list[msgspec.Raw])
        except LENIENT_ERRORS:
            value = json_value(given)
            items = value if isinstance(value, list) else []
            listed = [msgspec.Raw(encoded(it)) for it in items]
        found = [_possible(read_one(it, DeviceProperties)) for it in listed]
        return [it for it in found if it.id is not None]

    @cached_property
    def distributed(self) -> DistributedInfo:
        """What the file says about this process among the others."""
        given = self.document.fields.get("distributedInfo")
        return DistributedInfo() if given is None else read_one(given, DistributedInfo)

    @cached_property
    def start_unix_ns(self) -> int | None:
        """Nanoseconds since 1970 of time 0; None where the file does not record it."""
        if not len(self.timeline.place):
            return None
        base = self.field("baseTimeNanoseconds")
        start = self.timeline.base_ns
        if isinstance(base, int) and not isinstance(base, bool) and base > 0:
            start += base
        return start if _EPOCH_NS < start < 2**63 else None

    def field(self, name: str) -> Any:
        """Return a field of the document's top level; None where there is none."""
        raw = self.document.fields.get(name)
        if raw is None:
            return None
        try:
            return msgspec.json.decode(raw)
        except LENIENT_ERRORS:
            return json_value(raw)

    def rows_named(self, chosen: list[bool]) -> NDArray[np.int64]:
        """Return rows of the events whose types are chosen, ascending."""
        return np.flatnonzero(np.array(chosen, np.bool_)[self.timeline.type])


def _possible(said: DeviceProperties) -> DeviceProperties:
    """Return the properties without numbers that no device has."""
    impossible = {
        name: None
        for name, end in _ENDS.items()
        if not 0 <= (getattr(said, name) or 0) < end
    }
    return msgspec.structs.replace(said, **impossible)
