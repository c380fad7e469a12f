"""`TrackRows`: the rows of events of each track, and which of them meet a set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope._core import rows as kernels
from stepscope.derive.columns.arrays import ints
from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl
    from numpy.typing import NDArray


class TrackRows(Frozen, frozen=True):
    """When the events of each track were.

    Attributes:
        start_ps: By row of events.
        dur_ps: By row of events.
        begins: By row of tracks, the first row of events.
        ends: By row of tracks, the row after the last one.
    """

    start_ps: NDArray[np.int64]
    dur_ps: NDArray[np.int64]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, tracks: pl.DataFrame, events: pl.DataFrame) -> TrackRows:
        """Take the columns of both tables."""
        return cls(
            ints(events, "start_ps"),
            ints(events, "dur_ps"),
            ints(tracks, "event_begin"),
            ints(tracks, "event_end"),
        )

    def rows(self, track: int) -> slice:
        """Return the rows of a track."""
        return slice(int(self.begins[track]), int(self.ends[track]))

    def spans(self, rows: slice, chosen: NDArray[np.bool_] | None = None) -> Spans:
        """Return what some rows of a track cover, all of them or the chosen ones."""
        starts, durs = self.start_ps[rows], self.dur_ps[rows]
        if chosen is not None:
            starts, durs = starts[chosen], durs[chosen]
        return Spans.from_events(starts, durs)

    def having(
        self, types: NDArray[np.int32], wanted: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return by row of tracks whether it holds an event of a wanted type."""
        found = np.zeros(len(self.begins), np.bool_)
        if wanted.any():
            for track in range(len(found)):
                found[track] = wanted[types[self.rows(track)]].any()
        return found

    def meeting(
        self,
        track: int,
        spans: Spans,
        *,
        code: NDArray[np.uint8],
        wanted: Iterable[int],
        outermost: bool = False,
    ) -> NDArray[np.int64]:
        """Return the rows of events of a track that last a while and meet a set.

        Args:
            track: Row of tracks.
            spans: The set.
            code: A code of each event.
            wanted: Codes of the rows to return.
            outermost: Leave out what begins while an earlier row with such a code runs.
        """
        begin, end = int(self.begins[track]), int(self.ends[track])
        if len(spans):
            # What begins later meets nothing.
            end = begin + int(self.start_ps[begin:end].searchsorted(spans.end_ps[-1]))
        rows = slice(begin, end)
        marked = np.zeros(256, np.uint8)
        marked[list(wanted)] = 1
        found = np.empty(rows.stop - rows.start, np.int64)
        count = kernels.meeting(
            self.start_ps[rows],
            self.dur_ps[rows],
            code[rows],
            marked,
            spans.start_ps,
            spans.end_ps,
            int(outermost),
            found,
        )
        if count < 0:
            raise ValueError(f"the kernel refused the rows of track {track} ({count})")
        # A copy, so that the room for all rows is not kept.
        met: NDArray[np.int64] = found[:count] + rows.start
        return met
