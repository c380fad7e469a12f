"""Data that a page loads before its first tile: sections, tracks, extent and steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import polars as pl

from stepscope.analysis.timeline.counters import counter_curves_of
from stepscope.analysis.timeline.spans import host_timeline
from stepscope.analysis.timeline.tiles import TILE_BUCKETS
from stepscope.derive.step_time.owners import CATEGORIES
from stepscope.derive.step_windows.windows import windows
from stepscope.derive.steps.chosen import steps
from stepscope.unavailable import Missing, Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.trace_rows.drawn_rows import TraceTimeline

#: Columns of `TrackCatalogue.steps`.
RULER_STEPS: Final[dict[str, pl.DataType]] = {
    "number": pl.Int64(),
    "name": pl.String(),
    "kind": pl.String(),  # main, other_kind or warm_up
    "start_ps": pl.Int64(),
    "end_ps": pl.Int64(),
    "outlier": pl.Boolean(),
    "flags": pl.List(pl.String()),
}
#: Number of threads above which a section is initially collapsed.
_MAX_EXPANDED_THREADS: Final = 20


class CounterTrack(msgspec.Struct, frozen=True, kw_only=True):
    """A counter on the timeline.

    Attributes:
        track: Number of the counter's track, after those of the timeline's tracks.
        name: What the counter counts.
        unit: Unit of the values; null if not recorded.
        source: memory, queue or recorded.
        samples: Number of times that the value was set.
        least: Smallest value.
        greatest: Largest value.
    """

    track: int
    name: str
    unit: str | None
    source: str
    samples: int
    least: float
    greatest: float


class TrackCatalogue(msgspec.Struct, frozen=True, kw_only=True):
    """Data that a page loads before its first tile.

    Attributes:
        host: Host of the timeline.
        begin_ps: Start of the first span, drawn or not; null without spans.
        end_ps: End of the last span; null without spans.
        coarsest_level: Lowest level at which one tile covers the whole timeline.
        tile_buckets: Number of buckets in a tile.
        sections: Sections of the timeline; `collapsed`: whether the page shows the
            section collapsed until the user expands it.
        tracks: Tracks of the timeline; `spans`: number of spans on the track; `drawn`:
            number of spans that are drawn by default; `recorded`: whether the track was
            recorded, not derived; `place`: position in the section's list of tracks,
            in which the lines of the main thread are the first of all threads.
        counters: Counters; their track numbers follow those of the timeline.
        steps: Windows of the steps, columns `RULER_STEPS`; empty without steps.
        categories: Names of the categories by number.
        missing: Values that could not be determined, with their reasons.
    """

    host: str
    begin_ps: int | None
    end_ps: int | None
    coarsest_level: int
    tile_buckets: int
    sections: pl.DataFrame
    tracks: pl.DataFrame
    counters: tuple[CounterTrack, ...]
    steps: pl.DataFrame
    missing: tuple[Missing, ...]
    categories: tuple[str, ...] = CATEGORIES


def track_catalogue(profile: ProfileData, host: str) -> TrackCatalogue | Unavailable:
    """Return sections, tracks, extent and steps of a host's timeline."""
    shown = host_timeline(profile, host)
    if isinstance(shown, Unavailable):
        return shown
    spans = [span for index in shown.lanes if (span := index.extent()) is not None]
    begin = min((span[0] for span in spans), default=None)
    end = max((span[1] for span in spans), default=None)
    duration = 0 if begin is None or end is None else end - begin
    recorded = shown.timeline.tracks
    drawn = [
        int(index.edges[rows])
        for index, rows in zip(shown.lanes, recorded["drawn_rows"], strict=True)
    ]
    tracks = recorded.with_columns(
        pl.Series("drawn", drawn, pl.Int64),
        (pl.col("end") - pl.col("begin")).alias("spans"),
        pl.col("source").is_not_null().alias("recorded"),
    )
    on_main = pl.col("id").is_in(_main_threads(profile, host, shown.timeline))
    is_later = pl.col("id").is_not_null() & ~on_main
    order = tracks.select(later=is_later, row=pl.int_range(pl.len()))
    tracks = tracks.with_columns(place=order.sort("later", "row")["row"].arg_sort())
    ruler = _step_ruler(profile, host)
    missing: tuple[Missing, ...] = ()
    if isinstance(ruler, Unavailable):
        missing = (ruler.missing_field("steps"),)
        ruler = pl.DataFrame(schema=RULER_STEPS)
    threads = (
        tracks.filter(pl.col("kind") == "thread")
        .group_by("section")
        .agg(pl.len().alias("threads"))
    )
    collapsed = threads.filter(pl.col("threads") > _MAX_EXPANDED_THREADS)[
        "section"
    ].to_list()
    return TrackCatalogue(
        host=host,
        begin_ps=begin,
        end_ps=end,
        # Lowest zoom level at which a tile is at least as wide as the timeline.
        coarsest_level=max(0, -(-duration // TILE_BUCKETS) - 1).bit_length(),
        tile_buckets=TILE_BUCKETS,
        sections=shown.timeline.sections.with_row_index("section")
        .with_columns(collapsed=pl.col("section").is_in(collapsed))
        .drop("section"),
        tracks=tracks,
        counters=tuple(
            CounterTrack(
                track=tracks.height + number,
                name=curve.name,
                unit=curve.unit,
                source=curve.source,
                samples=len(curve.time_ps),
                least=float(curve.value.min()),
                greatest=float(curve.value.max()),
            )
            for number, curve in enumerate(counter_curves_of(profile, host))
        ),
        steps=ruler,
        missing=missing,
    )


def _main_threads(
    profile: ProfileData, host: str, timeline: TraceTimeline
) -> list[int]:
    """Return the ids of the threads with the steps' markers, else of the main threads.

    On Linux, the main thread of a process has the id of the process.
    """
    threads = timeline.tracks.filter(pl.col("kind") == "thread")
    numbered = profile.derived(host, steps)
    if not isinstance(numbered, Unavailable):
        marked = threads.filter(
            pl.col("source").is_in(numbered.rows["track"].implode())
        )
        if len(marked):
            return marked["id"].drop_nulls().to_list()
    processes = timeline.sections["process"].gather(threads["section"])
    return threads.filter(threads["id"] == processes)["id"].to_list()


def _step_ruler(profile: ProfileData, host: str) -> pl.DataFrame | Unavailable:
    step_windows = profile.derived(host, windows)
    numbered = profile.derived(host, steps)
    if isinstance(step_windows, Unavailable):
        return step_windows
    if isinstance(numbered, Unavailable):
        return numbered
    known = numbered.rows.with_row_index("step_row").select(
        pl.col("step_row").cast(pl.Int32), number="step", name="name"
    )
    flagged = pl.col("flags").list
    kind = (
        pl.when(flagged.contains("warm_up"))
        .then(pl.lit("warm_up"))
        .when(flagged.contains("other_kind"))
        .then(pl.lit("other_kind"))
        .otherwise(pl.lit("main"))
    )
    return (
        step_windows.rows.join(known, on="step_row", how="inner", maintain_order="left")
        .with_columns(kind=kind, outlier=flagged.contains("outlier"))
        .select(pl.col(name).cast(dtype) for name, dtype in RULER_STEPS.items())
    )
