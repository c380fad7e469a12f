"""A host's timeline and its spans, which all answers of the trace viewer use.

A span is identified by its track and an item. The item is a row of `events` on a
recorded track, and a row of the timeline's `slices` on a derived track.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.step_time.host_classes import OTHER, event_categories
from stepscope.derive.step_time.owners import CATEGORIES
from stepscope.derive.trace_rows.drawn_rows import trace_timeline
from stepscope.derive.trace_rows.lanes import trace_lanes
from stepscope.errors import BadUsage
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable, require_available

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepscope.array_types import Int32s, Int64s, UInt8s
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.trace_rows.drawn_rows import TraceTimeline
    from stepscope.derive.trace_rows.lanes import LaneIndex

#: Category of spans of launch statistics, whose first event may be a copy.
_LAUNCHES: Final = CATEGORIES.index("kernel_launch")
#: Maximum distance, in ps, of a time of a trace from its start.
FARTHEST_PS: Final = 1 << 62


def typed_frame(
    columns: Mapping[str, NDArray[Any] | pl.Series], types: Mapping[str, pl.DataType]
) -> pl.DataFrame:
    """Return columns in the given order and with the given types."""
    return pl.DataFrame(
        [pl.Series(name, columns[name]).cast(dtype) for name, dtype in types.items()]
    )


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One span and its position on the timeline.

    Attributes:
        track: Row of the timeline's tracks.
        item: Row of `events` on a recorded track, of `slices` on a derived track.
        row: Row inside the track, 0 at the top.
        name: Name of the span.
        start_ps: Start of the span.
        dur_ps: Duration of the span.
    """

    track: int
    item: int
    row: int
    name: str
    start_ps: int
    dur_ps: int


class HostTimeline(Frozen, frozen=True):
    """A host's timeline, its lanes, and the categories of its events.

    Attributes:
        lanes: Spans of each track, by row of the track.
        category: uint8 by row of events.
    """

    events: pl.DataFrame
    timeline: TraceTimeline
    lanes: tuple[LaneIndex, ...]
    category: UInt8s

    def lane_index(self, track: int) -> LaneIndex:
        """Return the spans of a track by row, top row first.

        Raises:
            BadUsage: The track does not exist.
        """
        count = self.timeline.tracks.height
        if not 0 <= track < count:
            raise BadUsage(f"there is no track {track}; the timeline has {count}")
        return self.lanes[track]

    def item_rows(self, track: int, items: Int64s) -> Int32s:
        """Return each item's row inside the track; -1 if it is not on the track."""
        begin, end = self.timeline.tracks.select("begin", "end").row(track)
        inside = (items >= begin) & (items < end)
        line = self.timeline.line(track)
        row = self.timeline.row[begin:end] if line is None else line.row
        rows = np.full(len(items), -1, np.int32)
        rows[inside] = row[items[inside] - begin]
        return rows

    def first_events(self, track: int, items: Int64s) -> Int64s:
        """Return the row of events with which each item begins; -1 if there is none."""
        line = self.timeline.line(track)
        if line is None:
            return items
        return line.spans.event[items - self.lanes[track].first_item].astype(np.int64)

    def name_codes(self, track: int, items: Int64s) -> Int32s:
        """Return each item's name, as an index in `timeline.names`."""
        line = self.timeline.line(track)
        if line is None:
            return handles(self.events, "type")[items]
        return line.spans.name[items - self.lanes[track].first_item]

    def displayed_names(self, code: Int32s) -> pl.Series:
        """Return the displayed name of each code."""
        # Looking up only the few used names is cheaper than looking up all names.
        used, inverse = np.unique(code, return_inverse=True)
        return self.timeline.names.gather(used).gather(inverse)

    def coded_names(self, code: Int32s) -> pl.Series:
        """Return the displayed name of each code, as an enumeration of the used names.

        For many spans, an enumeration is built and sent much faster than texts.
        """
        # Marking the used codes is faster than sorting all codes.
        place = np.zeros(len(self.timeline.names), np.int64)
        place[code] = 1
        used = np.flatnonzero(place)
        place[used] = np.arange(len(used))
        texts = self.timeline.names.gather(used).fill_null("")
        # Several codes may have the same displayed name.
        names = texts.unique(maintain_order=True)
        return texts.cast(pl.Enum(names)).gather(place[code])

    def place_of_item(self, track: int, item: int) -> Place:
        """Return an item of a track with its name and its time.

        Raises:
            BadUsage: The track does not exist, or does not have the item.
        """
        items = np.array([item], np.int64)
        index = self.lane_index(track)
        row = int(self.item_rows(track, items)[0])
        if row < 0:
            raise BadUsage(f"track {track} has no item {item}")
        position = item - index.first_item
        return Place(
            track=track,
            item=item,
            row=row,
            name=self.displayed_names(self.name_codes(track, items))[0],
            start_ps=int(index.start_ps[position]),
            dur_ps=int(index.dur_ps[position]),
        )

    def item_categories(self, track: int, items: Int64s) -> UInt8s:
        """Return each item's index in `CATEGORIES`."""
        if self.timeline.tracks["view"][track] == "launch_stats":
            return np.full(len(items), _LAUNCHES, np.uint8)
        event = self.first_events(track, items)
        categories = np.full(len(items), OTHER, np.uint8)
        known = event >= 0
        categories[known] = self.category[event[known]]
        return categories

    def track_of_events(self, event: Int64s) -> Int64s:
        """Return the track that shows each row of events; -1 for none."""
        tracks = np.flatnonzero(self.timeline.tracks["source"].is_not_null().to_numpy())
        begins = ints(self.timeline.tracks, "begin")[tracks]
        ends = ints(self.timeline.tracks, "end")[tracks]
        with_events = np.flatnonzero(begins < ends)
        order = with_events[np.argsort(begins[with_events], kind="stable")]
        if not len(order):
            return np.full(len(event), -1, np.int64)
        index = np.searchsorted(begins[order], event, side="right") - 1
        track = tracks[order[np.maximum(index, 0)]]
        return np.where((index >= 0) & (event < ends[order[index]]), track, -1)


def host_timeline(profile: ProfileData, host: str) -> HostTimeline | Unavailable:
    """Return the timeline of one host, or why it has none."""
    profile.prepare((trace_lanes, event_categories), hosts=(host,))
    lanes = profile.derived(host, trace_lanes)
    if isinstance(lanes, Unavailable):
        return lanes
    events = profile.table(host, "events")
    category = profile.derived(host, event_categories)
    timeline = require_available(profile.derived(host, trace_timeline))
    if isinstance(events, Unavailable):
        return events
    if isinstance(category, Unavailable):
        return category
    return HostTimeline(events, timeline, lanes, category)
