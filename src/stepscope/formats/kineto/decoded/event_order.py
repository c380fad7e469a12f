"""Events in their final order: one time base, grouped by track, in nesting order.

Kineto writes all events of one source, then those of the next one, so events are not
sorted. The type of an event is the pair of its name and its category's meaning. One
name may have several types, because a program can give a range the name of an operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.formats.assemble import (
    PlacedEvents,
    is_far_off,
    range_of_tracks,
    row_order,
)
from stepscope.formats.kineto.columns.categories import EventClass
from stepscope.frozen import Frozen
from stepscope.units import PS_PER_NS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.array_types import Int32s, Int64s, UInt8s
    from stepscope.formats.kineto.columns.declared import EventColumns, FileColumns

#: Code of a category's meaning → (is an operator, is a named range); None if unknown.
_ANSWERS: Final = ((False, False), (True, False), (False, True), (None, None))
_NEITHER, _OP, _ANNOTATION, _UNSAID = range(len(_ANSWERS))


class EventTypes(Frozen, frozen=True, kw_only=True, eq=True):
    """The types of a file's events, in order of their names' first appearance.

    Attributes:
        of_event: int32 by index in `EventColumns`; the type of each event.
        name: int32 per type; number of the type's name.
        op: Whether events of the type are operators; None if not recorded.
        annotation: Whether events of the type are named ranges; None if unknown.
    """

    of_event: Int32s
    name: Int32s
    op: list[bool | None]
    annotation: list[bool | None]


def number_types(columns: FileColumns) -> EventTypes:
    """Number the distinct pairs of an event's name and its category's meaning."""
    codes = np.full(max(EventClass) + 1, _NEITHER, np.int32)
    codes[EventClass.ANNOTATION] = _ANNOTATION
    # An undocumented category has no known meaning. In the oldest files, ranges of the
    # program have the category of operators.
    codes[EventClass.OTHER] = _UNSAID
    codes[EventClass.OP] = _UNSAID if columns.ranges_among_ops else _OP
    width = len(_ANSWERS)
    pair = columns.events.name * np.int32(width) + codes[columns.events.kind]
    counts = np.bincount(pair, minlength=len(columns.names) * width)
    used = np.flatnonzero(counts)
    number = np.full(len(counts), -1, np.int32)
    number[used] = np.arange(len(used), dtype=np.int32)
    meanings = [_ANSWERS[code] for code in (used % width).tolist()]
    return EventTypes(
        of_event=number[pair],
        name=(used // width).astype(np.int32),
        op=[is_op for is_op, _ in meanings],
        annotation=[is_range for _, is_range in meanings],
    )


class Timeline(PlacedEvents, frozen=True, kw_only=True, eq=True):
    """The events of all tracks, in the final order of rows.

    Attributes:
        row: int32; index in `EventColumns` → row in `events`, -1 if refused.
        base_ns: Time 0 on the clock of the file, in ns.
        far: Indices of events refused because they are weeks away from other events.
    """

    kind: UInt8s
    place: Int64s
    row: Int32s
    base_ns: int
    far: Int64s

    def time_range(self, tracks: Sequence[int]) -> tuple[int, int] | None:
        """Return first start and last end of events on tracks; None if none exist."""
        begin, end = self.event_begin.tolist(), self.event_end.tolist()
        rows = ((begin[track], end[track]) for track in tracks)
        return range_of_tracks(self.start_ps, self.dur_ps, rows)


def build_timeline(
    events: EventColumns, types: Int32s, track: Int32s, *, tracks: int
) -> Timeline:
    """Order all events; leave out events without a track or with impossible times.

    Args:
        types: Type of each event.
        track: Track of each event, -1 for none.
    """
    start_ns, dur_ns = events.start_ns, events.dur_ns
    is_far = is_far_off(start_ns, dur_ns)
    is_kept = (track >= 0) & ~is_far
    base = int(start_ns[is_kept].min()) if is_kept.any() else 0
    place = np.flatnonzero(is_kept)
    place = place[row_order(track[place], start_ns[place], dur_ns[place])]
    row = np.full(len(track), -1, np.int32)
    row[place] = np.arange(len(place), dtype=np.int32)
    on_track = track[place]
    event_end = np.searchsorted(on_track, np.arange(tracks), side="right")
    return Timeline(
        track=on_track,
        type=types[place],
        start_ps=(start_ns[place] - base) * PS_PER_NS,
        dur_ps=dur_ns[place] * PS_PER_NS,
        kind=events.kind[place],
        place=place,
        row=row,
        event_begin=np.concatenate(([0], event_end[:-1])).astype(np.int64)[:tracks],
        event_end=event_end.astype(np.int64),
        base_ns=base,
        far=np.flatnonzero(is_far),
    )
