"""Tiles and arrows of the timeline as the columns that a browser draws from.

Meaning and bytes of each column: docs/formats/trace-tiles.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from stepscope.report.plain import plain

if TYPE_CHECKING:
    from stepscope.analysis.trace_viewer.flows import TrackFlows
    from stepscope.analysis.trace_viewer.tiles import TrackSlices
    from stepscope.report.plain import Plain

__all__ = ["TraceFrame", "flow_frame", "slice_frame"]


class TraceFrame(NamedTuple):
    """A frame to be encoded.

    Attributes:
        columns: Numbers, in the integer and float types that are sent, and texts.
        meta: Entries of the frame's header, made of JSON's values.
    """

    columns: pl.DataFrame
    meta: dict[str, Plain]


def slice_frame(tile: TrackSlices) -> TraceFrame:
    """Make the frame of a track's slices; starts count from the window's begin."""
    origin = tile.begin_ps
    columns = tile.slices.select(
        _real(pl.col("start_ps") - origin, "start_ps"),
        _real(pl.col("end_ps") - pl.col("start_ps"), "dur_ps"),
        _real(pl.col("busy_ps"), "busy_ps"),
        *(pl.col(name).cast(pl.UInt32) for name in ("row", "count", "item", "first")),
        pl.col("name"),
        pl.col("category"),
    )
    return TraceFrame(
        columns,
        {
            "kind": "slices",
            "host": tile.host,
            "track": tile.track,
            **_window(origin, tile.end_ps),
            "bucket_ps": plain(tile.bucket_ps),
            "categories": plain(tile.categories),
        },
    )


def flow_frame(arrows: TrackFlows) -> TraceFrame:
    """Make the frame of a window's arrows; times count from the window's begin."""
    origin = arrows.begin_ps
    numbers = ("track", "row", "item")
    columns = arrows.flows.select(
        *(pl.col(f"launch_{name}").cast(pl.UInt32) for name in numbers),
        _real(pl.col("launch_end_ps") - origin, "launch_end_ps"),
        *(pl.col(f"device_{name}").cast(pl.UInt32) for name in numbers),
        _real(pl.col("device_start_ps") - origin, "device_start_ps"),
        pl.col("correlation"),
    )
    return TraceFrame(
        columns,
        {
            "kind": "flows",
            "host": arrows.host,
            **_window(origin, arrows.end_ps),
            "count": arrows.count,
            "left_out": arrows.left_out,
        },
    )


def _window(begin_ps: int, end_ps: int) -> dict[str, Plain]:
    return {"origin_ps": plain(begin_ps), "end_ps": plain(end_ps)}


def _real(value: pl.Expr, name: str) -> pl.Expr:
    """Convert whole picoseconds to floats for the browser; exact below 2^53."""
    return value.cast(pl.Float64).alias(name)
