"""The timeline of a host in a file: the finest slices of all tracks, as columns.

The page's script folds them further where they are narrower than a pixel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.analysis.timeline.counters import COUNTER_COLUMNS, counter_curves_of
from stepscope.analysis.timeline.spans import host_timeline, typed_frame
from stepscope.analysis.timeline.tiles import SLICE_COLUMNS, slices_of_all_tracks
from stepscope.frozen import Frozen
from stepscope.serve import frames
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.timeline.spans import HostTimeline
    from stepscope.analysis.tools import ProfileWithTools
    from stepscope.derive.trace_rows.counters import CounterCurve

#: Maximum number of samples of a counter in a file.
_MAX_SAMPLES: Final = 5000
_LARGEST_INT32: Final = 2**31 - 1


class HostSlices(Frozen, frozen=True):
    """The slices of a host's tracks.

    Attributes:
        host: Name of the host.
        level: Events that are shorter than 2**level ps may be folded; 0 for none.
        slices: `track`, `SLICE_COLUMNS` and `full_name`, the recorded name of the item.
        counters: `COUNTER_COLUMNS` of all counters.
    """

    host: str
    level: int
    slices: pl.DataFrame
    counters: pl.DataFrame

    def longest_spans(self, most: int) -> list[tuple[int, int]]:
        """Return track and item of spans, the longest of each name first."""
        longest = pl.col("end_ps") - pl.col("start_ps")
        spans = self.slices.sort(longest, descending=True, maintain_order=True)
        of_name = pl.int_range(pl.len()).over("track", "name")
        first = spans.sort(of_name > 0, maintain_order=True).head(most)
        return list(first.select("track", "item").iter_rows())

    def encode_columns(self) -> tuple[bytes, bytes]:
        """Return the slices and the counters as frames that compress well.

        Times and items are differences to the row before. `first` is left out: it is
        the number of spans of the track before.
        """
        rows = self.slices.select(
            "track",
            "row",
            _row_difference("start_ps"),
            (pl.col("end_ps") - pl.col("start_ps")).alias("dur_ps"),
            (pl.col("end_ps") - pl.col("start_ps") - pl.col("busy_ps")).alias(
                "idle_ps"
            ),
            "count",
            _row_difference("item"),
            "name",
            "full_name",
            "category",
        )
        about = {"level": self.level}
        return (
            frames.encode_frame(_small_numbers(rows), about),
            frames.encode_frame(_small_numbers(self.counters), {}),
        )


def slices_of_host(profile: ProfileWithTools, host: str, *, most: int) -> HostSlices:
    """Return the finest slices of a host's timeline, at most `most` of them."""
    found = slices_of_all_tracks(profile, host, most=most)
    if isinstance(found, Unavailable):
        columns = {"track": pl.Int32(), **SLICE_COLUMNS, "full_name": pl.String()}
        slices = pl.DataFrame(schema=columns)
        return HostSlices(host, 0, slices, _counter_rows((), 0))
    level, slices = found
    timeline = host_timeline(profile, host)
    if isinstance(timeline, Unavailable):
        raise TypeError("a timeline with slices is available")
    counters = _counter_rows(counter_curves_of(profile, host), len(timeline.lanes))
    full_name = _full_names(timeline, slices)
    slices = slices.with_columns(full_name.fill_null(slices["name"].cast(pl.String)))
    return HostSlices(host, level, slices, counters)


def _full_names(shown: HostTimeline, slices: pl.DataFrame) -> pl.Series:
    """Return the recorded name of each slice's item."""
    codes = [
        shown.name_codes(track, part["item"].to_numpy())
        for (track,), part in slices.group_by("track", maintain_order=True)
        if isinstance(track, int)
    ]
    if not codes:
        return pl.Series("full_name", [], pl.String)
    return shown.timeline.full_names.gather(np.concatenate(codes)).alias("full_name")


def _counter_rows(curves: Sequence[CounterCurve], tracks: int) -> pl.DataFrame:
    """Return `COUNTER_COLUMNS` of counters; each row is a sample or some of them."""
    rows = []
    for number, curve in enumerate(curves):
        size = -(-len(curve.time_ps) // _MAX_SAMPLES)
        begins = np.arange(0, len(curve.time_ps), size)
        ends = np.minimum(begins + size, len(curve.time_ps))
        columns = {
            "track": np.full(len(begins), tracks + number),
            "start_ps": curve.time_ps[begins],
            "min": np.minimum.reduceat(curve.value, begins),
            "max": np.maximum.reduceat(curve.value, begins),
            "last": curve.value[ends - 1],
            "count": ends - begins,
        }
        rows.append(typed_frame(columns, COUNTER_COLUMNS))
    return pl.concat(rows) if rows else pl.DataFrame(schema=COUNTER_COLUMNS)


def _row_difference(name: str) -> pl.Expr:
    return pl.col(name).diff().fill_null(pl.col(name).first())


def _small_numbers(rows: pl.DataFrame) -> pl.DataFrame:
    """Return integers as 32 bits where these suffice, else as 64-bit floats."""
    casts = []
    for column in rows:
        if column.dtype != pl.Int64:
            continue
        largest = max(
            (abs(end) for end in (column.min(), column.max()) if isinstance(end, int)),
            default=0,
        )
        kind = pl.Int32 if largest <= _LARGEST_INT32 else pl.Float64
        casts.append(pl.col(column.name).cast(kind))
    return rows.with_columns(casts)
