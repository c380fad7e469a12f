"""The calls of threads in a window as one tree, which a flame graph draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.timeline.selection import chosen_spans
from stepscope.analysis.timeline.spans import host_timeline, typed_frame
from stepscope.derive.intervals.nesting import nest_subset
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.analysis.timeline.selection import TrackSelection
    from stepscope.analysis.timeline.spans import HostTimeline
    from stepscope.array_types import Int32s, Int64s
    from stepscope.derive.profile_data import ProfileData

#: Columns of `CallTree.calls`.
CALL_COLUMNS: Final[dict[str, pl.DataType]] = {
    "parent": pl.Int32(),  # row of the same frame; null for a thread
    "name": pl.String(),
    "count": pl.Int64(),
    "time_ps": pl.Int64(),
}
#: Kinds of tracks that are host threads.
_KINDS: Final = ("thread", "samples")
#: Minimum share of the window that a call takes: shorter ones are narrower than pixels.
_MIN_SHARE: Final = 1 / 2000


class CallTree(msgspec.Struct, frozen=True, kw_only=True):
    """The spans of some threads in a window; spans of one name and one parent are one.

    Attributes:
        host: Host of the timeline.
        begin_ps: Start of the window.
        end_ps: End of the window.
        calls: Columns `CALL_COLUMNS`, parents before children: a row for each thread,
            whose time is that of its outermost spans, and below it the calls. Of a span
            that extends beyond the window, only the part inside counts.
        left_out: Number of calls, with all that they call, that take less than 1/2000
            of the window.
    """

    host: str
    begin_ps: int
    end_ps: int
    calls: pl.DataFrame
    left_out: int


def call_tree(
    profile: ProfileData,
    host: str,
    *,
    begin_ps: int,
    end_ps: int,
    tracks: Sequence[int] = (),
) -> CallTree | Unavailable:
    """Return the calls of threads in [begin_ps, end_ps) as one tree.

    Args:
        tracks: Rows of the timeline's tracks; empty for the host threads, as recorded
            and as sampled.

    Raises:
        BadUsage: A track does not exist.
    """
    shown = host_timeline(profile, host)
    if isinstance(shown, Unavailable):
        return shown
    if not tracks:
        known = shown.timeline.tracks.with_row_index("track")
        is_thread = pl.col("kind").is_in(_KINDS) & pl.col("source").is_not_null()
        tracks = known.filter(is_thread)["track"].to_list()
    parts: list[pl.DataFrame] = []
    row_count = left_out = 0
    end_ps = max(begin_ps, end_ps)
    within = chosen_spans(shown, begin_ps=begin_ps, end_ps=end_ps, tracks=tracks)
    # Without tracks, all would be chosen.
    for spans in within if tracks else ():
        if len(spans.items):
            levels = list(_levels_of_track(spans, (end_ps - begin_ps) * _MIN_SHARE))
            left_out += sum(dropped for _, dropped in levels)
            calls = pl.concat([frame for frame, _ in levels])
            if len(calls):
                parts.append(_named_calls(shown, spans.track, calls, row_count))
                row_count += len(parts[-1])
    calls = pl.concat(parts) if parts else pl.DataFrame(schema=CALL_COLUMNS)
    return CallTree(
        host=host, begin_ps=begin_ps, end_ps=end_ps, calls=calls, left_out=left_out
    )


def _levels_of_track(
    spans: TrackSelection, least_ps: float
) -> Iterator[tuple[pl.DataFrame, int]]:
    """Yield the calls of each depth, outermost first, and the number of short ones.

    `parent` is a row of all levels together, -1 without one; `code` is that of a name.
    """
    order = np.lexsort((-spans.dur_ps, spans.start_ps))
    name, inside_ps = spans.name[order].astype(np.int64), spans.inside_ps[order]
    one_track = np.zeros(len(order), np.int32)
    nested = nest_subset(spans.start_ps[order], spans.dur_ps[order], track=one_track)
    caller = _containing_rows(
        nested.parent, spans.start_ps[order] + spans.dur_ps[order]
    )
    depth = _count_callers(caller)
    by_depth = np.argsort(depth, kind="stable")
    edges = np.cumsum(np.bincount(depth))
    call = np.full(len(order), -1, np.int64)
    name_count, row_count = int(name.max()) + 1, 0
    for at_depth in np.split(by_depth, edges[:-1]):
        above = caller[at_depth]
        in_call = np.where(above < 0, -1, call[above])
        # What lies in a call that was left out is left out with it.
        is_kept = (above < 0) | (in_call >= 0)
        rows, parent = at_depth[is_kept], in_call[is_kept]
        key = (parent + 1) * name_count + name[rows]
        found, place = np.unique(key, return_inverse=True)
        time_ps = np.zeros(len(found), np.int64)
        np.add.at(time_ps, place, inside_ps[rows])
        count = np.bincount(place, minlength=len(found))
        is_long = time_ps >= least_ps
        number = np.where(is_long, np.cumsum(is_long) - 1 + row_count, -1)
        call[rows] = number[place]
        row_count += int(is_long.sum())
        columns = {
            "parent": found[is_long] // name_count - 1,
            "code": (found[is_long] % name_count).astype(np.int32),
            "count": count[is_long],
            "time_ps": time_ps[is_long],
        }
        yield pl.DataFrame(columns), int(np.count_nonzero(~is_long))
        if not is_long.any():
            return


def _containing_rows(parent: Int32s, end_ps: Int64s) -> Int64s:
    """Return the nearest row above each row that does not end before it; -1 for none.

    A range that a call begins and another one ends lasts longer than its parent.
    """
    caller = parent.astype(np.int64)
    rows = np.flatnonzero(caller >= 0)
    while len(rows):
        rows = rows[end_ps[rows] > end_ps[caller[rows]]]
        caller[rows] = caller[caller[rows]]
        rows = rows[caller[rows] >= 0]
    return caller


def _count_callers(parent: Int64s) -> Int64s:
    """Return how many rows are above each row."""
    depth = np.zeros(len(parent), np.int64)
    rows = np.flatnonzero(parent >= 0)
    above = parent[rows]
    while len(rows):
        depth[rows] += 1
        above = parent[above]
        rows, above = rows[above >= 0], above[above >= 0]
    return depth


def _named_calls(
    shown: HostTimeline, track: int, calls: pl.DataFrame, first: int
) -> pl.DataFrame:
    """Put a row for the thread above its calls; `first` is that row's number."""
    outermost = calls.filter(pl.col("parent") < 0)
    thread = {
        "parent": pl.Series([None], dtype=pl.Int32),
        "name": pl.Series([shown.timeline.tracks["name"][track]]),
        "count": outermost.select(pl.col("count").sum())["count"],
        "time_ps": outermost.select(pl.col("time_ps").sum())["time_ps"],
    }
    below = {
        "parent": calls["parent"] + 1 + first,
        "name": shown.displayed_names(calls["code"].to_numpy()),
        "count": calls["count"],
        "time_ps": calls["time_ps"],
    }
    return pl.concat(
        [typed_frame(thread, CALL_COLUMNS), typed_frame(below, CALL_COLUMNS)]
    )
