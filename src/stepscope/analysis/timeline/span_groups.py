"""The spans in a window, grouped by name, by track or by category."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.timeline.selection import chosen_spans
from stepscope.analysis.timeline.spans import host_timeline
from stepscope.derive.step_time.owners import CATEGORIES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.timeline.selection import TrackSelection
    from stepscope.analysis.timeline.spans import HostTimeline
    from stepscope.derive.profile_data import ProfileData

GroupedBy = Literal["name", "track", "category"]
#: Columns of `SpanGroups.groups`.
GROUP_COLUMNS: Final[dict[str, pl.DataType]] = {
    "group": pl.String(),
    "count": pl.Int64(),
    "time_ps": pl.Int64(),  # part inside the window
    "shortest_ps": pl.Int64(),  # whole durations
    "mean_ps": pl.Float64(),
    "longest_ps": pl.Int64(),
    "track": pl.Int32(),  # with `item`, the longest span
    "item": pl.Int64(),
}
#: Maximum number of groups in an answer.
MAX_GROUPS: Final = 1_000


class SpanGroups(msgspec.Struct, frozen=True, kw_only=True):
    """Groups of the spans in a window.

    Attributes:
        host: Host of the timeline.
        begin_ps: Start of the window.
        end_ps: End of the window.
        spans: Number of all spans in the window.
        total: Number of groups.
        groups: Columns `GROUP_COLUMNS`, longest time first; at most `MAX_GROUPS`.
    """

    host: str
    begin_ps: int
    end_ps: int
    spans: int
    total: int
    groups: pl.DataFrame


def span_groups(
    profile: ProfileData,
    host: str,
    *,
    begin_ps: int,
    end_ps: int,
    tracks: Sequence[int],
    by: GroupedBy,
    all_rows: bool,
    text: str | None = None,
) -> SpanGroups | Unavailable:
    """Group the spans in [begin_ps, end_ps). Nested spans count as their parents do.

    Args:
        tracks: Rows of the timeline's tracks; empty for all.
        all_rows: Whether to include folded and hidden events.
        text: As for `chosen_spans`.

    Raises:
        BadUsage: As for `chosen_spans`.
    """
    shown = host_timeline(profile, host)
    if isinstance(shown, Unavailable):
        return shown
    parts = [
        _group_track(shown, spans, by)
        for spans in chosen_spans(
            shown,
            begin_ps=begin_ps,
            end_ps=end_ps,
            tracks=tracks,
            all_rows=all_rows,
            text=text,
        )
    ]
    longest = pl.col("longest_ps").arg_max()
    groups = (
        pl.concat(parts)
        .group_by("group")
        .agg(
            pl.col("count", "time_ps", "dur_ps").sum(),
            pl.col("shortest_ps").min(),
            pl.col("longest_ps").max(),
            pl.col("track", "item").get(longest),
        )
        .with_columns(mean_ps=pl.col("dur_ps") / pl.col("count"))
        .sort(["time_ps", "count", "group"], descending=[True, True, False])
        .select(pl.col(name).cast(dtype) for name, dtype in GROUP_COLUMNS.items())
    )
    return SpanGroups(
        host=host,
        begin_ps=begin_ps,
        end_ps=end_ps,
        spans=int(groups["count"].sum()),
        total=groups.height,
        groups=groups.head(MAX_GROUPS),
    )


def _group_track(
    shown: HostTimeline, spans: TrackSelection, by: GroupedBy
) -> pl.DataFrame:
    """Group the spans of one track; group by code first, because texts are slow."""
    code = spans.name
    names = shown.timeline.names
    if by == "track":
        code = np.full(len(spans.items), spans.track, np.int32)
        names = shown.timeline.tracks["name"]
    elif by == "category":
        code = shown.item_categories(spans.track, spans.items).astype(np.int32)
        names = pl.Series(CATEGORIES)
    columns = {
        "code": code,
        "time_ps": spans.inside_ps,
        "dur_ps": spans.dur_ps,
        "item": spans.items,
    }
    groups = (
        pl.DataFrame(columns)
        .group_by("code")
        .agg(
            pl.len().alias("count"),
            pl.col("time_ps", "dur_ps").sum(),
            pl.col("dur_ps").min().alias("shortest_ps"),
            pl.col("dur_ps").max().alias("longest_ps"),
            pl.col("item").get(pl.col("dur_ps").arg_max()),
        )
    )
    group = names.gather(groups["code"]).fill_null("").alias("group")
    return groups.with_columns(group, track=pl.lit(spans.track)).drop("code")
