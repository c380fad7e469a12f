"""Counters of the timeline: any part of a counter at any resolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.timeline.spans import host_timeline, typed_frame
from stepscope.analysis.timeline.tiles import MAX_TRACKS, tile_window
from stepscope.derive.trace_rows.counters import counter_curves
from stepscope.errors import BadUsage
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.trace_rows.counters import CounterCurve

#: Columns of `CounterTile.samples`.
COUNTER_COLUMNS: Final[dict[str, pl.DataType]] = {
    "track": pl.Int32(),
    "start_ps": pl.Int64(),
    "min": pl.Float64(),
    "max": pl.Float64(),
    "last": pl.Float64(),
    "count": pl.Int64(),
}


class CounterTile(msgspec.Struct, frozen=True, kw_only=True):
    """One tile (a time range) of several counters.

    Attributes:
        host: Host of the timeline.
        begin_ps: Start of the tile.
        end_ps: End of the tile.
        bucket_ps: Width of a bucket.
        curves: Track, name and unit of each counter.
        samples: Columns `COUNTER_COLUMNS`, by counter and time: one row for each bucket
            in which the value was set, with the time of the first setting, the minimum,
            maximum and last value, and the number of settings. The first row of a
            counter is its last value before the tile.
    """

    host: str
    begin_ps: int
    end_ps: int
    bucket_ps: int
    curves: tuple[tuple[int, str, str | None], ...]
    samples: pl.DataFrame


#: Columns of the ranges of counters.
RANGE_COLUMNS: Final[dict[str, pl.DataType]] = {
    "track": pl.Int32(),
    "name": pl.String(),
    "unit": pl.String(),
    "least": pl.Float64(),
    "mean": pl.Float64(),
    "greatest": pl.Float64(),
}


def counter_curves_of(profile: ProfileData, host: str) -> tuple[CounterCurve, ...]:
    """Return the counters of a host; their numbers follow those of its tracks."""
    curves = profile.derived(host, counter_curves)
    return () if isinstance(curves, Unavailable) else curves


def counter_tile(
    profile: ProfileData, host: str, *, tracks: Sequence[int], level: int, index: int
) -> CounterTile | Unavailable:
    """Return one tile (a time range) of several counters.

    Args:
        tracks: 1 to `MAX_TRACKS` tracks of counters, numbered as in the catalogue.

    Raises:
        BadUsage: A counter, level or tile does not exist, or too many are requested.
    """
    shown = host_timeline(profile, host)
    if isinstance(shown, Unavailable):
        return shown
    if not 0 < len(tracks) <= MAX_TRACKS:
        raise BadUsage(f"one answer has 1 to {MAX_TRACKS} tracks, not {len(tracks)}")
    begin, end = tile_window(level, index)
    curves, first = counter_curves_of(profile, host), shown.timeline.tracks.height
    chosen, samples = [], []
    for track in tracks:
        if not first <= track < first + len(curves):
            raise BadUsage(f"track {track} is not a counter")
        curve = curves[track - first]
        chosen.append((track, curve.name, curve.unit))
        from_row, to_row = np.searchsorted(curve.time_ps, (begin, end))
        # A counter's last value before the tile gets a separate bucket.
        from_row = max(int(from_row) - 1, 0)
        time, value = curve.time_ps[from_row:to_row], curve.value[from_row:to_row]
        bucket = (time - begin) // (1 << level)
        bucket[time < begin] = -1
        starts = np.flatnonzero(np.diff(bucket, prepend=np.int64(-2)))
        ends = np.append(starts[1:], len(time))
        columns = {
            "track": np.full(len(starts), track),
            "start_ps": time[starts],
            "min": np.minimum.reduceat(value, starts) if len(starts) else value,
            "max": np.maximum.reduceat(value, starts) if len(starts) else value,
            "last": value[ends - 1] if len(starts) else value,
            "count": ends - starts if len(starts) else starts,
        }
        samples.append(typed_frame(columns, COUNTER_COLUMNS))
    return CounterTile(
        host=host,
        begin_ps=begin,
        end_ps=end,
        bucket_ps=1 << level,
        curves=tuple(chosen),
        samples=pl.concat(samples),
    )


def counter_ranges(
    profile: ProfileData, host: str, *, begin_ps: int, end_ps: int
) -> pl.DataFrame:
    """Return what the counters of a host reached in [begin_ps, end_ps).

    Columns `RANGE_COLUMNS`; a value lasts until the next one, and the mean is over the
    part of the window that has a value. A counter without a value there has no row.
    """
    shown = host_timeline(profile, host)
    rows = []
    if not isinstance(shown, Unavailable):
        for number, curve in enumerate(counter_curves_of(profile, host)):
            first, last = np.searchsorted(curve.time_ps, (begin_ps, end_ps))
            before = max(int(first) - 1, 0)
            starts = np.maximum(curve.time_ps[before:last], begin_ps)
            # The value before the window counts if it lasts into the window.
            lasted = np.diff(starts, append=end_ps)
            value, lasted = curve.value[before:last][lasted > 0], lasted[lasted > 0]
            if len(value):
                track = shown.timeline.tracks.height + number
                mean = float(np.average(value, weights=lasted))
                reached = (float(value.min()), mean, float(value.max()))
                rows.append((track, curve.name, curve.unit, *reached))
    return pl.DataFrame(rows, RANGE_COLUMNS, orient="row")
