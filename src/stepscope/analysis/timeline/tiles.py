"""The timeline of the page in tiles: any part of any track at any resolution.

A tile is identified by host, track, level and index. At level `L` a bucket is `2**L`
picoseconds wide, and a tile has `TILE_BUCKETS` buckets. Tile `k` begins at `k` times
its width, so that every client asks for the same tiles. Level 0 folds only spans within
one picosecond, which `unfold_slice` also lists.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.timeline.spans import FARTHEST_PS, host_timeline
from stepscope.derive.step_time.owners import CATEGORIES
from stepscope.derive.trace_rows.lanes import LaneSlices
from stepscope.errors import BadUsage
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.analysis.timeline.spans import HostTimeline
    from stepscope.array_types import UInt8s
    from stepscope.derive.profile_data import ProfileData

#: Number of buckets in a tile: about half a screen's width in device pixels.
TILE_BUCKETS: Final = 1024
#: Level at which one tile covers every time that a trace can have.
COARSEST_LEVEL: Final = 52
#: Level at which slices of a whole trace are few: a bucket lasts 1.1 s.
_COARSEST_STORED: Final = 40
#: Columns of a track's slices. `row` is the row in the track, 0 at the top. `count` is
#: the number of spans in the slice, and `busy_ps` the time of work in them. `item` is
#: the longest span: a row of `events` on a recorded track, a row of the timeline's
#: `slices` on a derived track. `first` is an argument of `unfold_slice`. `name` and
#: `category` (an index in `categories`) are those of the item.
SLICE_COLUMNS: Final[dict[str, pl.DataType]] = {
    "row": pl.Int32(),
    "start_ps": pl.Int64(),
    "end_ps": pl.Int64(),
    "busy_ps": pl.Int64(),
    "count": pl.Int64(),
    "item": pl.Int64(),
    "first": pl.Int64(),
    "name": pl.String(),
    "category": pl.UInt8(),
}
#: Maximum number of spans that one call unfolds.
MAX_UNFOLDED: Final = 10_000
#: Maximum number of tracks in one answer.
MAX_TRACKS: Final = 64


class Rows(Enum):
    """Which rows of a track to return: those drawn by default, or all."""

    DRAWN = "drawn"
    ALL = "all"


class Tiles(msgspec.Struct, frozen=True, kw_only=True):
    """One tile (a time range) of several tracks.

    Attributes:
        host: Host of the timeline.
        tracks: Rows of the timeline's tracks, as requested.
        begin_ps: Start of the tile.
        end_ps: End of the tile.
        bucket_ps: Width of a bucket.
        slices: `track` and `SLICE_COLUMNS`, in the order of the tracks, by row and then
            by time. The type of `name` is an enumeration. A slice that begins before
            the tile is also in an earlier tile.
        categories: Names of the categories by number.
    """

    host: str
    tracks: tuple[int, ...]
    begin_ps: int
    end_ps: int
    bucket_ps: int
    slices: pl.DataFrame
    categories: tuple[str, ...] = CATEGORIES


def tile_window(level: int, index: int) -> tuple[int, int]:
    """Return start and end of a tile.

    Raises:
        BadUsage: The level or tile does not exist.
    """
    if not 0 <= level <= COARSEST_LEVEL:
        raise BadUsage(f"level {level} is not one of 0 to {COARSEST_LEVEL}")
    width = TILE_BUCKETS << level
    begin = index * width
    if not -FARTHEST_PS <= begin <= FARTHEST_PS - width:
        raise BadUsage(f"level {level} has no tile {index}: it is out of range")
    return begin, begin + width


def track_tiles(
    profile: ProfileData,
    host: str,
    *,
    tracks: Sequence[int],
    level: int,
    index: int,
    rows: Rows = Rows.DRAWN,
) -> Tiles | Unavailable:
    """Return one tile (a time range) of several tracks.

    Args:
        tracks: 1 to `MAX_TRACKS` rows of the timeline's tracks.

    Raises:
        BadUsage: A track, the level or the tile does not exist; or no track, or too
            many tracks, are requested.
    """
    if not 0 < len(tracks) <= MAX_TRACKS:
        raise BadUsage(f"one answer has 1 to {MAX_TRACKS} tracks, not {len(tracks)}")
    begin, end = tile_window(level, index)
    shown = host_timeline(profile, host)
    if isinstance(shown, Unavailable):
        return shown
    return Tiles(
        host=host,
        tracks=tuple(tracks),
        begin_ps=begin,
        end_ps=end,
        bucket_ps=1 << level,
        slices=_slices_of_tracks(shown, tracks, (begin, end), level, rows),
    )


def slices_of_all_tracks(
    profile: ProfileData, host: str, *, most: int
) -> tuple[int, pl.DataFrame] | Unavailable:
    """Return the slices of all tracks at the finest level with at most `most` of them.

    Returns:
        The level, and the slices as in `Tiles`, of all rows.
    """
    shown = host_timeline(profile, host)
    if isinstance(shown, Unavailable):
        return shown
    lanes = [lane.start_ps for lane in shown.lanes if len(lane.start_ps)]
    begin = min((int(starts.min()) for starts in lanes), default=0)
    last = max((int(starts.max()) for starts in lanes), default=0)

    def slices_at(level: int) -> pl.DataFrame:
        window = begin >> level << level, (last >> level) + 1 << level
        tracks = range(shown.timeline.tracks.height)
        return _slices_of_tracks(shown, tracks, window, level, Rows.ALL)

    if sum(map(len, lanes)) <= most:
        return 0, slices_at(0)
    level, found = _COARSEST_STORED, slices_at(_COARSEST_STORED)
    while level and (finer := slices_at(level - 1)).height <= most:
        level, found = level - 1, finer
    return level, found


def _slices_of_tracks(
    shown: HostTimeline,
    tracks: Sequence[int],
    window: tuple[int, int],
    level: int,
    rows: Rows,
) -> pl.DataFrame:
    """Return `track` and `SLICE_COLUMNS` of some tracks in a window."""
    drawn_rows = shown.timeline.tracks["drawn_rows"].to_list()
    begin, end = window
    lane_slices = []
    for track in tracks:
        lane_index = shown.lane_index(track)
        lanes = range(len(lane_index.edges) - 1)
        if rows is Rows.DRAWN:
            lanes = lanes[: drawn_rows[track]]
        lane_slices.append(
            lane_index.slices(lanes, begin_ps=begin, end_ps=end, bucket_ps=1 << level)
        )
    lengths = [len(lane.item) for lane in lane_slices]
    slices = LaneSlices(*map(np.concatenate, zip(*lane_slices, strict=True)))
    code, category = (
        np.concatenate(
            [
                values(track, lane.item)
                for track, lane in zip(tracks, lane_slices, strict=True)
            ]
        )
        for values in (shown.name_codes, shown.item_categories)
    )
    return pl.DataFrame(
        [
            pl.Series("track", np.repeat(tracks, lengths)).cast(pl.Int32()),
            *_slice_columns(slices, shown.coded_names(code), category),
        ]
    )


def unfold_slice(
    profile: ProfileData, host: str, *, track: int, first: int, count: int
) -> pl.DataFrame | Unavailable:
    """Return the spans that one slice represents, at most `MAX_UNFOLDED` of them.

    The columns are `SLICE_COLUMNS`; each span is a slice of its own.

    Args:
        track: Row of the timeline's tracks.
        first: `first` of the slice, or a later position if the first spans are known.
        count: `count` of the slice, minus the number of known spans.

    Raises:
        BadUsage: The track has no such spans in one row.
    """
    shown = host_timeline(profile, host)
    if isinstance(shown, Unavailable):
        return shown
    index = shown.lane_index(track)
    edges = index.edges
    row = int(np.searchsorted(edges, first, side="right")) - 1
    if count < 1 or not 0 <= row < len(edges) - 1 or first + count > edges[row + 1]:
        raise BadUsage(f"track {track} has no {count} spans from {first} on in one row")
    position = np.arange(first, first + min(count, MAX_UNFOLDED))
    span_rows = index.rows[position].astype(np.int64)
    start, dur = index.start_ps[span_rows], index.dur_ps[span_rows]
    ones, item = np.ones(len(span_rows), np.int64), span_rows + index.first_item
    slices = LaneSlices(ones * row, position, ones, item, start, start + dur, dur)
    slices = slices._replace(busy_ps=index.busy_of(slices))
    names = shown.displayed_names(shown.name_codes(track, item))
    category = shown.item_categories(track, item)
    return pl.DataFrame(_slice_columns(slices, names, category))


def _slice_columns(
    slices: LaneSlices, names: pl.Series, category: UInt8s
) -> list[pl.Series]:
    """Return the columns `SLICE_COLUMNS`; the type of names is kept."""
    columns: dict[str, NDArray[np.integer]] = {
        "row": slices.lane,
        "start_ps": slices.start_ps,
        "end_ps": slices.end_ps,
        "busy_ps": slices.busy_ps,
        "count": slices.spans,
        "item": slices.item,
        "first": slices.first,
        "category": category,
    }
    return [
        names.alias(name)
        if name == "name"
        else pl.Series(name, columns[name]).cast(dtype)
        for name, dtype in SLICE_COLUMNS.items()
    ]
