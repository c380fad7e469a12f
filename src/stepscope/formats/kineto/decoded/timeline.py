"""Events in their final rows: one time base, track by track, in nesting order.

Kineto writes what it collected from each source in turn, so nothing is sorted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.frozen import Frozen
from stepscope.units import PS_PER_NS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.formats.kineto.columns.declared import EventColumns

#: No recording lasts so long (26 days); sums of three such times fit 64 bits.
_LONGEST_NS: Final = 2**61 // PS_PER_NS


class Timeline(Frozen, frozen=True, kw_only=True, eq=True):
    """The events of all tracks in their final rows.

    Attributes:
        track, type, start_ps, dur_ps: Columns of `events`.
        kind: uint8; `EventClass` of each row.
        place: int64; row → place in `EventColumns`.
        row: int32; place → row, -1 where the event was refused.
        event_begin, event_end: By track, its rows.
        base_ns: Time 0, as the file counts.
        far: Places of events refused because they lie weeks away from the others.
    """

    track: NDArray[np.int32]
    type: NDArray[np.int32]
    start_ps: NDArray[np.int64]
    dur_ps: NDArray[np.int64]
    kind: NDArray[np.uint8]
    place: NDArray[np.int64]
    row: NDArray[np.int32]
    event_begin: NDArray[np.int64]
    event_end: NDArray[np.int64]
    base_ns: int
    far: NDArray[np.int64]

    def frame(self) -> pl.DataFrame:
        """Return the table `events`."""
        return pl.DataFrame(
            {
                "track": self.track,
                "type": self.type,
                "start_ps": self.start_ps,
                "dur_ps": self.dur_ps,
            }
        )

    def hull(self, tracks: Sequence[int]) -> tuple[int, int] | None:
        """First start and last end of the events of some tracks; None without any."""
        ranges = [
            slice(int(self.event_begin[track]), int(self.event_end[track]))
            for track in tracks
            if self.event_end[track] > self.event_begin[track]
        ]
        if not ranges:
            return None
        # Rows of a track are in order of their starts.
        first = min(int(self.start_ps[rows.start]) for rows in ranges)
        last = max(
            int((self.start_ps[rows] + self.dur_ps[rows]).max()) for rows in ranges
        )
        return first, last


def build_timeline(
    events: EventColumns,
    types: NDArray[np.int32],
    track: NDArray[np.int32],
    *,
    tracks: int,
) -> Timeline:
    """Order all events; those without a track or far off are left out.

    Args:
        events: In file order.
        types: Type of each.
        track: Track of each, -1 for none.
        tracks: How many there are.
    """
    far = _far(events)
    kept = track >= 0
    kept[far] = False
    start_ns, dur_ns = events.start_ns, events.dur_ns
    base = int(start_ns[kept].min()) if kept.any() else 0
    place = np.flatnonzero(kept)
    # Start ascending, duration descending, then as in the file.
    order = np.lexsort((-dur_ns[place], start_ns[place], track[place]))
    place = place[order]
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
        far=far,
    )


def _far(events: EventColumns) -> NDArray[np.int64]:
    """Events that start weeks away from most others, or last as long."""
    start = events.start_ns
    if not len(start):
        return np.zeros(0, np.int64)
    middle = np.partition(start, len(start) // 2)[len(start) // 2]
    # Compared with bounds that were computed without overflow.
    first = max(int(middle) - _LONGEST_NS, np.iinfo(np.int64).min)
    last = min(int(middle) + _LONGEST_NS, np.iinfo(np.int64).max)
    far = (start < first) | (start > last) | (events.dur_ns > _LONGEST_NS)
    return np.flatnonzero(far)
