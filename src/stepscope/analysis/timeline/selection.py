"""The spans that a window of some tracks shows, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.timeline.spans import host_timeline
from stepscope.derive.columns.arrays import handles
from stepscope.derive.step_time.owners import CATEGORIES
from stepscope.errors import BadUsage
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepscope.analysis.timeline.spans import HostTimeline
    from stepscope.derive.profile_data import ProfileData

#: Columns of `SpansInView.events`.
EVENT_COLUMNS: Final[dict[str, pl.DataType]] = {
    "track": pl.Int32(),
    "item": pl.Int64(),
    "row": pl.Int32(),
    "name": pl.String(),
    "start_ps": pl.Int64(),
    "dur_ps": pl.Int64(),
    "category": pl.UInt8(),
}


class Chosen(NamedTuple):
    """Spans of one track that a window touches, by item; arrays of equal length.

    Attributes:
        track: Row of the timeline's tracks.
        items: int64.
        start_ps: int64.
        dur_ps: int64.
        inside_ps: int64; the part of the duration that lies in the window.
        name: int32; codes of names.
    """

    track: int
    items: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    dur_ps: NDArray[np.int64]
    inside_ps: NDArray[np.int64]
    name: NDArray[np.int32]


class SpansInView(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the spans in a window.

    Attributes:
        host: Host of the timeline.
        begin_ps: Begin of the window.
        end_ps: End of the window.
        total: Number of all spans in the window, on the tracks that were asked for.
        offset: Number of spans before this page.
        events: Columns `EVENT_COLUMNS`, by start, then by track, then by item.
        categories: Names of the categories by number.
    """

    host: str
    begin_ps: int
    end_ps: int
    total: int
    offset: int
    events: pl.DataFrame
    categories: tuple[str, ...] = CATEGORIES


def chosen_spans(
    shown: HostTimeline,
    *,
    begin_ps: int,
    end_ps: int,
    tracks: Sequence[int] = (),
    all_rows: bool = True,
) -> Iterator[Chosen]:
    """Yield, track by track, the spans that begin in a window or run into it.

    Args:
        begin_ps: Begin of the window.
        end_ps: End of the window.
        tracks: Rows of the timeline's tracks; all where none is named.
        all_rows: Whether folded and hidden events are wanted as well.

    Raises:
        BadUsage: There is no such track.
    """
    type_ = handles(shown.events, "type")
    drawn = shown.timeline.tracks["drawn_rows"].to_list()
    for track in sorted(set(tracks) or range(shown.timeline.tracks.height)):
        index, line = shown.index(track), shown.timeline.line(track)
        end = index.start_ps + index.dur_ps
        touched = (index.start_ps < end_ps) & (
            (end > begin_ps) | (index.start_ps >= begin_ps)
        )
        at = np.flatnonzero(touched)
        items = at + index.first_item
        if not all_rows:
            seen = shown.rows_of(track, items) < drawn[track]
            at, items = at[seen], items[seen]
        start, dur = index.start_ps[at], index.dur_ps[at]
        inside = np.minimum(start + dur, end_ps) - np.maximum(start, begin_ps)
        code = type_[items] if line is None else line.spans.name[at]
        yield Chosen(track, items, start, dur, np.maximum(inside, 0), code)


def spans_in_view(
    profile: ProfileData,
    host: str,
    *,
    begin_ps: int,
    end_ps: int,
    tracks: Sequence[int],
    offset: int,
    limit: int,
    all_rows: bool,
) -> SpansInView | Unavailable:
    """List the spans of a window, a page at a time.

    Args:
        begin_ps: Begin of the window.
        end_ps: End of the window.
        tracks: Rows of the timeline's tracks; all where none is named.
        offset: Number of spans to pass over, at least 0.
        limit: Number of spans to list, at least 0.
        all_rows: Whether folded and hidden events are wanted as well.

    Raises:
        BadUsage: There is no such track, or a number is negative.
    """
    if offset < 0 or limit < 0:
        raise BadUsage("offset and limit are not negative")
    shown = host_timeline(profile, host)
    if isinstance(shown, Unavailable):
        return shown
    found = [
        (one.track, one.items, one.start_ps)
        for one in chosen_spans(
            shown, begin_ps=begin_ps, end_ps=end_ps, tracks=tracks, all_rows=all_rows
        )
    ]
    lengths = [len(items) for _, items, _ in found]
    start = np.concatenate([np.empty(0, np.int64), *(one for _, _, one in found)])
    # Track by track, and by item in each: a stable order by start keeps that.
    place = _page(start, offset, limit)
    first = np.cumsum([0, *lengths])
    part = np.searchsorted(first, place, side="right") - 1
    items = np.empty(len(place), np.int64)
    for number in np.unique(part).tolist():
        mine = part == number
        items[mine] = found[number][1][place[mine] - first[number]]
    numbers = np.array([track for track, _, _ in found], np.int64)
    return SpansInView(
        host=host,
        begin_ps=begin_ps,
        end_ps=end_ps,
        total=len(start),
        offset=offset,
        events=_listed(shown, numbers[part], items),
    )


def _page(start_ps: NDArray[np.int64], offset: int, limit: int) -> NDArray[np.int64]:
    """Return the places of a page of the spans by start, equal ones as they come."""
    if not limit or offset >= len(start_ps):
        return np.empty(0, np.int64)
    last = min(offset + limit, len(start_ps)) - 1
    early = np.flatnonzero(start_ps <= np.partition(start_ps, last)[last])
    return early[np.argsort(start_ps[early], kind="stable")][offset : last + 1]


def _listed(
    shown: HostTimeline, track: NDArray[np.int64], items: NDArray[np.int64]
) -> pl.DataFrame:
    """Return the columns of some spans, in their order."""
    row, code = np.empty((2, len(items)), np.int32)
    start, dur = np.empty((2, len(items)), np.int64)
    category = np.empty(len(items), np.uint8)
    for one in np.unique(track).tolist():
        mine, index = track == one, shown.index(one)
        wanted = items[mine]
        at = wanted - index.first_item
        row[mine] = shown.rows_of(one, wanted)
        start[mine], dur[mine] = index.start_ps[at], index.dur_ps[at]
        code[mine] = shown.name_codes(one, wanted)
        category[mine] = shown.categories(one, wanted)
    columns: dict[str, NDArray[np.integer] | pl.Series] = {
        "track": track,
        "item": items,
        "row": row,
        "name": shown.names(code),
        "start_ps": start,
        "dur_ps": dur,
        "category": category,
    }
    return pl.DataFrame(
        [
            pl.Series(name, columns[name]).cast(dtype)
            for name, dtype in EVENT_COLUMNS.items()
        ]
    )
