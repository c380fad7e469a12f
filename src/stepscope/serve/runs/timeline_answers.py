"""The answers of the timeline's routes, as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec
import polars as pl

from stepscope.advice.catalogue import OWNER_TEXTS
from stepscope.analysis.timeline import call_tree as calling
from stepscope.analysis.timeline import catalogue as catalogues
from stepscope.analysis.timeline import counters as counting
from stepscope.analysis.timeline import details as span_details
from stepscope.analysis.timeline import search as searching
from stepscope.analysis.timeline import selection as choosing
from stepscope.analysis.timeline import span_groups as grouping
from stepscope.analysis.timeline import tiles as drawing
from stepscope.analysis.trace_viewer.events import trace_spans
from stepscope.analysis.trace_viewer.viewer import host_traces
from stepscope.derive.step_time.owners import CATEGORIES
from stepscope.reporting.plain import plain, plain_fields
from stepscope.reporting.to_trace_json import (
    counter_frame,
    slice_frame,
    write_spans,
)
from stepscope.serve import frames
from stepscope.serve.errors import Refused
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.analysis.timeline.catalogue import TrackCatalogue
    from stepscope.analysis.timeline.search import Direction, Side, SoughtKernel
    from stepscope.analysis.timeline.span_groups import GroupedBy
    from stepscope.analysis.tools import ProfileWithTools
    from stepscope.reporting.plain import Plain
    from stepscope.reporting.to_trace_json import TraceFrame
    from stepscope.serve.runs.opened import Opened

SCHEMA: Final = 1
Tile = TypeVar("Tile")
#: Maximum number of spans in one exported trace, about 200 MB.
_MAX_EXPORTED_SPANS: Final = 1_000_000
#: Columns of the table of tracks that are sent to the page.
_TRACKS: Final = (
    *("section", "name", "kind", "view", "id", "recorded", "folded"),
    *("spans", "drawn", "rows", "drawn_rows"),
)


class TileQuestion(NamedTuple):
    """A tile of some tracks, by level and index; `all` includes hidden events."""

    tracks: tuple[int, ...]
    level: int
    place: int
    all: bool


class Area(NamedTuple):
    """A time range of some tracks; of all tracks if none are named."""

    begin_ps: int
    end_ps: int
    tracks: tuple[int, ...]


class Wanted(NamedTuple):
    """A text in the names of spans, and whether folded and hidden spans count."""

    text: str | None
    all_rows: bool


class Page(NamedTuple):
    """One page of a long list."""

    offset: int
    limit: int


class Sought(NamedTuple):
    """A text to search, and the span after which the search starts."""

    text: str
    from_ps: int | None
    after: tuple[int, int] | None
    direction: Direction


def write_catalogue(opened: Opened, host: str | None, *, version: str) -> bytes:
    """Write hosts, sections, tracks, time range and steps of the timeline."""
    profile, name = find_host(opened, host)
    catalogue = catalogues.track_catalogue(profile, name)
    about: dict[str, Plain] = {
        "schema": SCHEMA,
        "version": version,
        "host": name,
        "hosts": list(profile.hosts),
        "light": opened.is_light,
        "owners": [{"name": key, "words": text} for key, text in OWNER_TEXTS.items()],
    }
    if isinstance(catalogue, Unavailable):
        members: dict[str, Plain] = {"unavailable": plain(catalogue), "missing": []}
    else:
        members = {
            "begin_ps": plain(catalogue.begin_ps),
            "end_ps": plain(catalogue.end_ps),
            "coarsest_level": catalogue.coarsest_level,
            "tile_buckets": catalogue.tile_buckets,
            "categories": list(catalogue.categories),
            **_sections_and_tracks(catalogue),
            "steps": plain(catalogue.steps),
            "unavailable": None,
            "missing": plain(catalogue.missing),
        }
    return msgspec.json.encode({**about, **members})


def _sections_and_tracks(catalogue: TrackCatalogue) -> dict[str, Plain]:
    """Return the sections with their tracks, and all tracks, counter tracks last."""
    numbered = catalogue.tracks.with_row_index("track")
    listed = numbered.sort("place").group_by("section", maintain_order=True)
    tracks = dict(listed.agg("track").iter_rows())
    sections = [
        {**row, "tracks": tracks.get(place, [])}
        for place, row in enumerate(catalogue.sections.iter_rows(named=True))
    ]
    rows = [
        {
            **row,
            # Samples of counters are drawn as curves, not as spans on a track.
            "folded": row["folded"] or row["kind"] == "counters",
            "counter": False,
            "unit": None,
        }
        for row in numbered.select("track", *_TRACKS).iter_rows(named=True)
    ]
    if catalogue.counters:
        sections.append(
            {
                **dict.fromkeys(catalogue.sections.columns),
                "name": "Counters",
                "kind": "counters",
                "collapsed": False,
                "tracks": [counter.track for counter in catalogue.counters],
            }
        )
    rows += [
        {
            **dict.fromkeys(_TRACKS),
            **msgspec.structs.asdict(counter),
            "section": len(sections) - 1,
            "kind": "counter",
            "recorded": counter.source == "recorded",
            "folded": False,
            "spans": counter.samples,
            "drawn": counter.samples,
            "rows": 1,
            "drawn_rows": 1,
            "counter": True,
        }
        for counter in catalogue.counters
    ]
    return {"sections": plain(sections), "tracks": plain(rows)}


def write_tiles(profile: ProfileWithTools, host: str, query: TileQuestion) -> bytes:
    """Write one tile of some tracks, as columns."""
    tile = drawing.track_tiles(
        profile,
        host,
        tracks=query.tracks,
        level=query.level,
        index=query.place,
        rows=drawing.Rows.ALL if query.all else drawing.Rows.DRAWN,
    )
    return _encode_frame(tile, slice_frame)


def write_counters(profile: ProfileWithTools, host: str, query: TileQuestion) -> bytes:
    """Write one tile of some counters, as columns."""
    tile = counting.counter_tile(
        profile, host, tracks=query.tracks, level=query.level, index=query.place
    )
    return _encode_frame(tile, counter_frame)


def write_unfolded(
    profile: ProfileWithTools, host: str, track: int, first: int, count: int
) -> bytes:
    """Write the spans that a slice represents."""
    spans = drawing.unfold_slice(profile, host, track=track, first=first, count=count)
    if isinstance(spans, Unavailable):
        return _encode_members(spans)
    return _encode_members(
        {
            "host": host,
            "track": track,
            "categories": list(CATEGORIES),
            "spans": spans.drop("busy_ps", "count"),
            "left_out": count - spans.height,
        }
    )


def write_details(profile: ProfileWithTools, host: str, track: int, item: int) -> bytes:
    """Write all recorded details of one span."""
    details = span_details.details_of_span(profile, host, track=track, item=item)
    return _encode_members(details)


def write_matches(profile: ProfileWithTools, host: str, text: str) -> bytes:
    """Write the number of spans whose name contains a text, by track and by name."""
    return _encode_members(searching.count_spans(profile, host, text))


def write_next_match(profile: ProfileWithTools, host: str, sought: Sought) -> bytes:
    """Write the next or previous span whose name contains a text."""
    match = searching.find_span(profile, host, **sought._asdict())
    if isinstance(match, Unavailable):
        return _encode_members(match)
    return _encode_members({"place": match})


def write_longest(
    opened: Opened,
    hosts: tuple[str, ...],
    *,
    op: str | None,
    kernel: SoughtKernel | None,
    side: Side | None,
) -> bytes:
    """Write the longest execution of a kernel or of an op on the given hosts.

    Raises:
        Refused: The profile has no host of this name.
    """
    profile = opened.view_of_hosts(()).profile
    for host in hosts:
        find_host(opened, host)
    some = hosts or profile.hosts
    if kernel is not None:
        longest = searching.longest_of_kernel(profile, some, kernel)
    else:
        longest = searching.longest_of_op(profile, some, op or "", side=side)
    return msgspec.json.encode({"schema": SCHEMA, "found": plain(longest)})


def write_totals(profile: ProfileWithTools, host: str, area: Area) -> bytes:
    """Write the totals of a time range, and what its counters reached."""
    totals = choosing.window_totals(profile, host, **area._asdict())
    if isinstance(totals, Unavailable):
        return _encode_members(totals)
    reached = counting.counter_ranges(
        profile, host, begin_ps=area.begin_ps, end_ps=area.end_ps
    )
    return _encode_members({**plain_fields(totals), "counters": plain(reached)})


def write_calls(profile: ProfileWithTools, host: str, area: Area) -> bytes:
    """Write the calls of threads in a time range as one tree."""
    return _encode_members(calling.call_tree(profile, host, **area._asdict()))


def write_events(
    profile: ProfileWithTools, host: str, area: Area, wanted: Wanted, page: Page
) -> bytes:
    """Write one page of the spans in a time range."""
    spans = choosing.spans_in_view(
        profile, host, **area._asdict(), **wanted._asdict(), **page._asdict()
    )
    return _encode_members(spans)


def write_groups(
    profile: ProfileWithTools, host: str, area: Area, wanted: Wanted, by: GroupedBy
) -> bytes:
    """Write the spans in a time range in groups."""
    groups = grouping.span_groups(
        profile, host, **area._asdict(), **wanted._asdict(), by=by
    )
    return _encode_members(groups)


def write_window(profile: ProfileWithTools, host: str, area: Area) -> bytes:
    """Write the spans in a time range as a trace for other viewers.

    Raises:
        Refused: The host has no timeline, or the range has too many spans.
    """
    host_profile = profile.select((host,))
    spans = choosing.spans_in_view(
        host_profile, host, **area._asdict(), offset=0, limit=0, all_rows=True
    )
    if isinstance(spans, Unavailable):
        raise Refused(404, "no_timeline", f"{spans.reason} {spans.remedy}")
    if spans.total > _MAX_EXPORTED_SPANS:
        raise Refused(
            413,
            "too_large",
            f"the range has {spans.total:,} spans; at most {_MAX_EXPORTED_SPANS:,} are "
            "exported. Zoom in, or write the whole trace with `stepscope show "
            "trace_viewer PATH --format json -o FILE`",
        )
    about: dict[str, Plain] = {
        "schema": SCHEMA,
        "host": host,
        "begin_ps": plain(area.begin_ps),
        "end_ps": plain(area.end_ps),
    }
    pieces: list[bytes] = []
    chosen = trace_spans(host_profile, window=(area.begin_ps, area.end_ps))
    write_spans(about, host_traces(host_profile)[0], chosen, pieces.append)
    return b"".join(pieces)


def find_host(opened: Opened, host: str | None) -> tuple[ProfileWithTools, str]:
    """Return the profile and the host with a name; default: the first host.

    Raises:
        Refused: The profile has no host of this name.
    """
    profile = opened.view_of_hosts(()).profile
    name = profile.hosts[0] if host is None else host
    if name not in profile.hosts:
        known = ", ".join(profile.hosts)
        raise Refused(404, "unknown_host", f"there is no host {name!r}; known: {known}")
    return profile, name


def _encode_members(answer: msgspec.Struct | dict[str, object] | Unavailable) -> bytes:
    absent = isinstance(answer, Unavailable)
    fields = {} if absent else plain_fields(answer)
    unavailable = plain(answer) if absent else None
    return msgspec.json.encode({"schema": SCHEMA, **fields, "unavailable": unavailable})


def _encode_frame(
    tile: Tile | Unavailable, make: Callable[[Tile], TraceFrame]
) -> bytes:
    if isinstance(tile, Unavailable):
        return frames.encode_frame(pl.DataFrame(), {"unavailable": plain(tile)})
    frame = make(tile)
    return frames.encode_frame(frame.columns, {**frame.meta, "unavailable": None})
