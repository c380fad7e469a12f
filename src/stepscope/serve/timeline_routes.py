"""Routes of the timeline, answered in parallel with the store's computation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

from stepscope.analysis.timeline.search import Direction, SoughtKernel
from stepscope.analysis.timeline.span_groups import GroupedBy
from stepscope.serve.parameters import (
    COLUMNS,
    JSON,
    MAX_PS,
    Parameters,
    Query,
    Route,
    bad_parameter,
)
from stepscope.serve.runs import timeline_answers as answers
from stepscope.serve.runs.store import Lane
from stepscope.serve.runs.timeline_answers import (
    Area,
    Page,
    Sought,
    TileQuestion,
    Wanted,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from werkzeug.wrappers import Response

#: Number of spans of one page of a list: default and maximum.
_PAGE: Final = 200
_MAX_PAGE: Final = 10_000


class _Part(NamedTuple):
    """A kind of data of one host's timeline, with its route.

    `read` returns the arguments of `write` that follow the name of the host. `file` is
    the name under which a browser saves the answer; None to show the answer.
    """

    name: str
    read: Callable[[Parameters], tuple[Any, ...]]
    write: Callable[..., bytes]
    lane: Lane = Lane.SEARCHING
    media_type: str = JSON
    file: str | None = None

    @property
    def route(self) -> Route:
        return Route(f"/data/trace/{self.name}", self._answer_part)

    def _answer_part(self, query: Query) -> Response:
        host, question = query.given.read_text("host"), self.read(query.given)
        response = query.answer_in_lane(
            (self.name, *question, host),
            lambda opened: self.write(*answers.find_host(opened, host), *question),
            lane=self.lane,
            media_type=self.media_type,
        )
        if self.file is not None:
            attachment = f'attachment; filename="{self.file}"'
            response.headers["Content-Disposition"] = attachment
        return response


def _answer_catalogue(query: Query) -> Response:
    host = query.given.read_text("host")
    entry = query.store.find_entry(query.given.read_text("run"))
    version = query.answer_version(entry)
    return query.answer_in_lane(
        ("catalogue", host),
        lambda opened: answers.write_catalogue(opened, host, version=version),
        run=entry.id,
        lane=Lane.DRAWING,
    )


def _answer_longest(query: Query) -> Response:
    params = query.given
    hosts, op = params.read_texts("hosts"), params.read_text("op")
    name, side = params.read_text("kernel"), params.read_text("side")
    match side:
        case None | "Host" | "Device":
            pass
        case _:
            raise bad_parameter("side: must be Host or Device")
    if params.read_flag("unnamed"):
        op = ""
    shape = params.read_text("grid"), params.read_text("block")
    kernel = None if name is None else SoughtKernel(name, op, *shape)
    if op is None and kernel is None:
        raise bad_parameter("op, kernel: give at least one of them")
    return query.answer_in_lane(
        ("longest", hosts, op, kernel, side),
        lambda opened: answers.write_longest(
            opened, hosts, op=op, kernel=kernel, side=side
        ),
        lane=Lane.SEARCHING,
    )


def _read_tile(params: Parameters) -> tuple[TileQuestion]:
    question = TileQuestion(
        tracks=params.read_integers("track"),
        level=params.read_integer("level"),
        place=params.read_integer("index"),
        all=params.read_flag("all"),
    )
    return (question,)


def _read_area(params: Parameters, tracks: tuple[int, ...] = ()) -> tuple[Area]:
    begin_ps = params.read_integer("begin_ps", -MAX_PS)
    return (Area(begin_ps, params.read_integer("end_ps", MAX_PS), tracks),)


def _read_area_of_tracks(params: Parameters) -> tuple[Area]:
    return _read_area(params, params.read_integers("track"))


def _read_wanted(params: Parameters) -> tuple[Area, Wanted]:
    text = params.read_text("text") or None
    return (*_read_area_of_tracks(params), Wanted(text, params.read_flag("all")))


def _read_page(params: Parameters) -> tuple[Area, Wanted, Page]:
    page = Page(
        offset=params.read_limited("offset", default=0, highest=MAX_PS),
        limit=params.read_limited("limit", default=_PAGE, highest=_MAX_PAGE),
    )
    return (*_read_wanted(params), page)


def _read_grouped(params: Parameters) -> tuple[Area, Wanted, GroupedBy]:
    match params.read_text("by"):
        case "name" | "track" | "category" as by:
            return (*_read_wanted(params), by)
        case _:
            raise bad_parameter(f"by: must be one of {', '.join(get_args(GroupedBy))}")


def _read_span(params: Parameters) -> tuple[int, int] | None:
    """Read a span; None if neither track nor item is given."""
    track, item = params.read_integers("track"), params.read_integers("item")
    if not track and not item:
        return None
    if len(track) != 1 or len(item) != 1:
        raise bad_parameter("track, item: give one track and one item")
    return track[0], item[0]


def _read_sought(params: Parameters) -> tuple[Sought]:
    begin = params.read_integers("from_ps")
    if len(begin) > 1:
        raise bad_parameter("from_ps: is given more than once")
    text, after = params.read_text("text") or "", _read_span(params)
    named = params.read_text("direction")
    known = [direction.value for direction in Direction]
    if named is not None and named not in known:
        raise bad_parameter(f"direction: must be one of {', '.join(known)}")
    direction = Direction(known[0] if named is None else named)
    return (Sought(text, begin[0] if begin else None, after, direction),)


def _read_integers(*names: str) -> Callable[[Parameters], tuple[int, ...]]:
    return lambda params: tuple(params.read_integer(name) for name in names)


_PARTS: Final = (
    _Part("tiles", _read_tile, answers.write_tiles, Lane.DRAWING, COLUMNS),
    _Part("counters", _read_tile, answers.write_counters, Lane.DRAWING, COLUMNS),
    _Part(
        "unfold",
        _read_integers("track", "first", "count"),
        answers.write_unfolded,
        Lane.DRAWING,
    ),
    _Part("details", _read_integers("track", "item"), answers.write_details),
    _Part(
        "search", lambda given: (given.read_text("text") or "",), answers.write_matches
    ),
    _Part("find", _read_sought, answers.write_next_match),
    _Part("totals", _read_area_of_tracks, answers.write_totals),
    _Part("calls", _read_area_of_tracks, answers.write_calls),
    _Part("events", _read_page, answers.write_events),
    _Part("groups", _read_grouped, answers.write_groups),
    _Part("window", _read_area, answers.write_window, file="trace.json"),
)
ROUTES: Final = (
    Route("/data/trace/catalogue", _answer_catalogue),
    Route("/data/trace/longest", _answer_longest),
    *(part.route for part in _PARTS),
)
