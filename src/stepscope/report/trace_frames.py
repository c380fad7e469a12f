"""Tiles and arrows of the timeline as the columns that a browser draws from.

Meaning and bytes of each column: docs/formats/trace-tiles.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from stepscope.report.plain import plain

if TYPE_CHECKING:
    from stepscope.analysis.timeline.counters import CounterTile
    from stepscope.analysis.timeline.flows import TrackFlows
    from stepscope.analysis.timeline.tiles import Tiles
    from stepscope.report.plain import Plain

#: Numbers that name a span and where it is drawn.
_PLACES: Final[dict[str, pl.DataType]] = {
    "track": pl.Int32(),
    "row": pl.Int32(),
    "item": pl.Float64(),
}
#: Columns of slices that are sent as reals. These hold whole numbers, exactly up to
#: 2^53: a browser has no other numbers of that size.
_REALS: Final = pl.col("start_ps", "end_ps", "busy_ps", "count", "item", "first").cast(
    pl.Float64
)


class TraceFrame(NamedTuple):
    """A frame to be encoded.

    Attributes:
        columns: Numbers, in the integer and float types that are sent, and texts.
        meta: Entries of the frame's header, made of JSON's values.
    """

    columns: pl.DataFrame
    meta: dict[str, Plain]


def slice_frame(tile: Tiles) -> TraceFrame:
    """Make the frame of one tile of some tracks."""
    return TraceFrame(
        tile.slices.with_columns(_REALS),
        {
            "kind": "slices",
            "host": tile.host,
            "tracks": list(tile.tracks),
            **_window(tile.begin_ps, tile.end_ps),
            "bucket_ps": plain(tile.bucket_ps),
            "categories": plain(tile.categories),
        },
    )


def flow_frame(arrows: TrackFlows) -> TraceFrame:
    """Make the frame of a window's arrows."""
    columns = arrows.flows.select(
        *(pl.col(f"launch_{name}").cast(dtype) for name, dtype in _PLACES.items()),
        pl.col("launch_end_ps").cast(pl.Float64),
        *(pl.col(f"device_{name}").cast(dtype) for name, dtype in _PLACES.items()),
        pl.col("device_start_ps").cast(pl.Float64),
        pl.col("correlation"),
    )
    return TraceFrame(
        columns,
        {
            "kind": "flows",
            "host": arrows.host,
            **_window(arrows.begin_ps, arrows.end_ps),
            "count": arrows.count,
            "left_out": arrows.left_out,
        },
    )


def counter_frame(tile: CounterTile) -> TraceFrame:
    """Make the frame of one window of some counters."""
    return TraceFrame(
        tile.samples.with_columns(pl.col("start_ps", "count").cast(pl.Float64)),
        {
            "kind": "counters",
            "host": tile.host,
            "tracks": [
                {"track": track, "name": name, "unit": unit}
                for track, name, unit in tile.curves
            ],
            **_window(tile.begin_ps, tile.end_ps),
            "bucket_ps": plain(tile.bucket_ps),
        },
    )


def _window(begin_ps: int, end_ps: int) -> dict[str, Plain]:
    return {"begin_ps": plain(begin_ps), "end_ps": plain(end_ps)}
