"""Slices of one track: a tile of it, or any window of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from stepscope.analysis.timeline.spans import host_timeline
from stepscope.analysis.timeline.tiles import SLICE_COLUMNS, Rows, track_tiles
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData


class TrackSlices(NamedTuple):
    """The slices of one track in a window; `slices` has the columns `SLICE_COLUMNS`."""

    track: int
    begin_ps: int
    end_ps: int
    slices: pl.DataFrame


def track_tile(
    profile: ProfileData,
    host: str,
    *,
    track: int,
    level: int,
    index: int,
    rows: Rows = Rows.DRAWN,
) -> TrackSlices | Unavailable:
    """One tile of one track, as `track_tiles` answers it for several."""
    found = track_tiles(
        profile, host, tracks=[track], level=level, index=index, rows=rows
    )
    if isinstance(found, Unavailable):
        return found
    return TrackSlices(
        track=track,
        begin_ps=found.begin_ps,
        end_ps=found.end_ps,
        slices=found.slices.select(*SLICE_COLUMNS).cast({"name": pl.String}),
    )


def track_window(
    profile: ProfileData,
    host: str,
    *,
    track: int,
    begin_ps: int,
    end_ps: int,
    bucket_ps: int = 0,
    rows: Rows = Rows.DRAWN,
) -> TrackSlices | Unavailable:
    """A track's slices in [begin_ps, end_ps); without a bucket, every span."""
    shown = host_timeline(profile, host)
    if isinstance(shown, Unavailable):
        return shown
    index = shown.lane_index(track)
    lanes = range(len(index.edges) - 1)
    if rows is Rows.DRAWN:
        lanes = lanes[: shown.timeline.tracks["drawn_rows"][track]]
    found = index.slices(lanes, begin_ps=begin_ps, end_ps=end_ps, bucket_ps=bucket_ps)
    columns = {
        "row": found.lane,
        "start_ps": found.start_ps,
        "end_ps": found.end_ps,
        "busy_ps": found.busy_ps,
        "count": found.spans,
        "item": found.item,
        "first": found.first,
        "name": shown.displayed_names(shown.name_codes(track, found.item)),
        "category": shown.item_categories(track, found.item),
    }
    return TrackSlices(
        track=track,
        begin_ps=begin_ps,
        end_ps=end_ps,
        slices=pl.DataFrame(columns, SLICE_COLUMNS),
    )
