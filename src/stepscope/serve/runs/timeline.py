"""The answer of each route of the timeline, as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import polars as pl

from stepscope.advice.catalogue import OWNER_WORDS
from stepscope.analysis.timeline import catalogue as catalogues
from stepscope.analysis.timeline import counters as counting
from stepscope.analysis.timeline import details as span_details
from stepscope.analysis.timeline import flows as arrows
from stepscope.analysis.timeline import search as searching
from stepscope.analysis.timeline import selection as choosing
from stepscope.analysis.timeline import tiles as drawing
from stepscope.analysis.trace_viewer.events import all_spans
from stepscope.analysis.trace_viewer.viewer import host_traces
from stepscope.report.plain import plain, plain_fields
from stepscope.report.to_trace_json import (
    counter_frame,
    flow_frame,
    slice_frame,
    write_spans,
)
from stepscope.serve import frames
from stepscope.serve.errors import Refused
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.analysis.timeline.catalogue import TrackCatalogue
    from stepscope.analysis.timeline.search import Direction, Side, SoughtKernel
    from stepscope.analysis.tools import ProfileWithTools
    from stepscope.report.plain import Plain
    from stepscope.report.to_trace_json import TraceFrame
    from stepscope.serve.runs.opened import Opened

SCHEMA: Final = 1
#: Spans that are written for other viewers in one answer: about 200 MB.
_MOST_EXPORTED: Final = 1_000_000
#: Columns of the timeline's tracks that the page needs.
_TRACKS: Final = (
    *("section", "name", "kind", "view", "id", "recorded", "folded"),
    *("spans", "drawn", "rows", "drawn_rows"),
)


class TileQuestion(NamedTuple):
    """A tile of some tracks.

    Attributes:
        tracks: Rows of the timeline's tracks.
        level: Level of the tile.
        place: Index of the tile in its level.
        all: Whether folded and hidden events are wanted as well.
    """

    tracks: tuple[int, ...]
    level: int
    place: int
    all: bool


class Area(NamedTuple):
    """A window of some tracks; of all where none is named."""

    begin_ps: int
    end_ps: int
    tracks: tuple[int, ...]


class Page(NamedTuple):
    """A part of a long list; with `all`, folded and hidden events are in the list."""

    offset: int
    limit: int
    all: bool


class Sought(NamedTuple):
    """A text, and the span from which to look for the next one that has it."""

    text: str
    from_ps: int | None
    after: tuple[int, int] | None
    direction: Direction


def catalogue(opened: Opened, host: str | None, *, version: str) -> bytes:
    """Write hosts, sections and tracks, extent and steps."""
    profile, name = _host(opened, host)
    found = catalogues.catalogue(profile, name)
    about: dict[str, Plain] = {
        "schema": SCHEMA,
        "version": version,
        "host": name,
        "hosts": list(profile.hosts),
        "light": opened.is_light,
        "owners": [{"name": one, "words": text} for one, text in OWNER_WORDS.items()],
    }
    if isinstance(found, Unavailable):
        return _json({**about, "unavailable": plain(found), "missing": []})
    return _json(
        {
            **about,
            "begin_ps": plain(found.begin_ps),
            "end_ps": plain(found.end_ps),
            "coarsest_level": found.coarsest_level,
            "tile_buckets": found.tile_buckets,
            "categories": list(found.categories),
            **_arranged(found),
            "steps": plain(found.steps),
            "unavailable": None,
            "missing": plain(found.missing),
        }
    )


def _arranged(found: TrackCatalogue) -> dict[str, Plain]:
    """Return sections with their tracks, and all tracks; counters come last."""
    numbered = found.tracks.with_row_index("track")
    tracks = dict(numbered.group_by("section").agg("track").iter_rows())
    sections = [
        {**row, "tracks": sorted(tracks.get(place, []))}
        for place, row in enumerate(found.sections.iter_rows(named=True))
    ]
    rows = [
        {
            **row,
            # Its samples are shown as curves.
            "folded": row["folded"] or row["kind"] == "counters",
            "counter": False,
            "unit": None,
        }
        for row in numbered.select("track", *_TRACKS).iter_rows(named=True)
    ]
    if found.counters:
        sections.append(
            {
                **dict.fromkeys(found.sections.columns),
                "name": "Counters",
                "kind": "counters",
                "collapsed": False,
                "tracks": [one.track for one in found.counters],
            }
        )
    rows += [
        {
            **dict.fromkeys(_TRACKS),
            **msgspec.structs.asdict(one),
            "section": len(sections) - 1,
            "kind": "counter",
            "recorded": one.source == "recorded",
            "folded": False,
            "spans": one.samples,
            "drawn": one.samples,
            "rows": 1,
            "drawn_rows": 1,
            "counter": True,
        }
        for one in found.counters
    ]
    return {"sections": plain(sections), "tracks": plain(rows)}


def tiles(opened: Opened, host: str | None, asked: TileQuestion) -> bytes:
    """Write one tile of some tracks in columns."""
    profile, name = _host(opened, host)
    rows = drawing.Rows.ALL if asked.all else drawing.Rows.DRAWN
    found = drawing.tiles(
        profile,
        name,
        tracks=asked.tracks,
        level=asked.level,
        index=asked.place,
        rows=rows,
    )
    return _frame(found if isinstance(found, Unavailable) else slice_frame(found))


def counters(opened: Opened, host: str | None, asked: TileQuestion) -> bytes:
    """Write one tile of some counters in columns."""
    profile, name = _host(opened, host)
    found = counting.counter_tile(
        profile, name, tracks=asked.tracks, level=asked.level, index=asked.place
    )
    return _frame(found if isinstance(found, Unavailable) else counter_frame(found))


def unfold(
    opened: Opened, host: str | None, *, track: int, first: int, count: int
) -> bytes:
    """Write the spans that a slice represents."""
    profile, name = _host(opened, host)
    found = drawing.unfold(profile, name, track=track, first=first, count=count)
    if isinstance(found, Unavailable):
        return _absent(found)
    return _json(
        {
            "schema": SCHEMA,
            "host": name,
            "track": track,
            "categories": list(found.categories),
            "spans": plain(found.slices.drop("busy_ps", "count")),
            "left_out": count - found.slices.height,
            "unavailable": None,
        }
    )


def details(opened: Opened, host: str | None, *, track: int, item: int) -> bytes:
    """Write all that is known of one span."""
    profile, name = _host(opened, host)
    return _struct(span_details.details(profile, name, track=track, item=item))


def search(opened: Opened, host: str | None, text: str) -> bytes:
    """Write how often a text occurs, by track and by name."""
    profile, name = _host(opened, host)
    return _struct(searching.search(profile, name, text))


def find(opened: Opened, host: str | None, asked: Sought) -> bytes:
    """Write the next or previous span whose name has a text."""
    profile, name = _host(opened, host)
    found = searching.find(
        profile,
        name,
        asked.text,
        from_ps=asked.from_ps,
        after=asked.after,
        direction=asked.direction,
    )
    if isinstance(found, Unavailable):
        return _absent(found)
    return _json({"schema": SCHEMA, "place": plain(found), "unavailable": None})


def longest(
    opened: Opened,
    hosts: tuple[str, ...],
    *,
    op: str | None,
    kernel: SoughtKernel | None,
    side: Side | None,
) -> bytes:
    """Write the longest execution of a kernel or of an op, on any of some hosts.

    Raises:
        Refused: There is no such host.
    """
    profile = opened.view(()).profile
    for host in hosts:
        _host(opened, host)
    some = hosts or profile.hosts
    if kernel is not None:
        found = searching.longest_of_kernel(profile, some, kernel)
    else:
        found = searching.longest_of_op(profile, some, op or "", side=side)
    return _json({"schema": SCHEMA, "found": plain(found)})


def flows(
    opened: Opened, host: str | None, area: Area, *, of: tuple[int, int] | None
) -> bytes:
    """Write the arrows of a window, or of one of its spans, in columns."""
    profile, name = _host(opened, host)
    found = arrows.flows(
        profile, name, begin_ps=area.begin_ps, end_ps=area.end_ps, of=of
    )
    return _frame(found if isinstance(found, Unavailable) else flow_frame(found))


def totals(opened: Opened, host: str | None, area: Area) -> bytes:
    """Write what an area adds up to."""
    profile, name = _host(opened, host)
    return _struct(choosing.window_totals(profile, name, **area._asdict()))


def events(opened: Opened, host: str | None, area: Area, page: Page) -> bytes:
    """Write a page of the spans of an area."""
    profile, name = _host(opened, host)
    found = choosing.spans_in_view(
        profile,
        name,
        **area._asdict(),
        offset=page.offset,
        limit=page.limit,
        all_rows=page.all,
    )
    return _struct(found)


def window(opened: Opened, host: str | None, area: Area) -> bytes:
    """Write the spans of a window as a trace that other viewers read.

    Raises:
        Refused: There is no timeline, or the window has too many spans.
    """
    profile, name = _host(opened, host)
    alone = profile.select((name,))
    found = choosing.spans_in_view(
        alone, name, **area._asdict(), offset=0, limit=0, all_rows=True
    )
    if isinstance(found, Unavailable):
        raise Refused(404, "no_timeline", f"{found.reason} {found.remedy}")
    if found.total > _MOST_EXPORTED:
        raise Refused(
            413,
            "too_large",
            f"the window has {found.total:,} spans, and one answer {_MOST_EXPORTED:,}. "
            "Zoom in, or write the whole trace with `stepscope show trace_viewer PATH "
            "--format json -o FILE`",
        )
    about: dict[str, Plain] = {
        "schema": SCHEMA,
        "host": name,
        "begin_ps": plain(area.begin_ps),
        "end_ps": plain(area.end_ps),
    }
    pieces: list[bytes] = []
    chosen = all_spans(alone, window=(area.begin_ps, area.end_ps))
    write_spans(about, host_traces(alone)[0], chosen, pieces.append)
    return b"".join(pieces)


def _host(opened: Opened, host: str | None) -> tuple[ProfileWithTools, str]:
    """Return the profile and the host that is meant, by default its first.

    Raises:
        Refused: There is no such host.
    """
    profile = opened.view(()).profile
    chosen = profile.hosts[0] if host is None else host
    if chosen not in profile.hosts:
        listed = ", ".join(profile.hosts)
        raise Refused(
            404, "unknown_host", f"there is no host {chosen!r}; known: {listed}"
        )
    return profile, chosen


def _struct(found: msgspec.Struct | Unavailable) -> bytes:
    if isinstance(found, Unavailable):
        return _absent(found)
    return _json({"schema": SCHEMA, **plain_fields(found), "unavailable": None})


def _frame(found: TraceFrame | Unavailable) -> bytes:
    if isinstance(found, Unavailable):
        return frames.encode(pl.DataFrame(), {"unavailable": plain(found)})
    return frames.encode(found.columns, {**found.meta, "unavailable": None})


def _absent(why: Unavailable) -> bytes:
    return _json({"schema": SCHEMA, "unavailable": plain(why)})


def _json(value: Plain) -> bytes:
    return msgspec.json.encode(value)
