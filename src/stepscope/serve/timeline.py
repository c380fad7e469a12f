"""The routes of the timeline: its parts are answered beside every computation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.analysis.timeline.search import Direction, SoughtKernel
from stepscope.serve.errors import Refused
from stepscope.serve.parameters import FARTHEST, JSON, Asked, Route
from stepscope.serve.runs import timeline as answers
from stepscope.serve.runs.store import Lane
from stepscope.serve.runs.timeline import Area, Page, Sought, TileQuestion

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from werkzeug.wrappers import Response

    from stepscope.analysis.timeline.search import Side
    from stepscope.serve.runs.opened import Opened

_COLUMNS: Final = "application/octet-stream"
#: Spans of one page of a list: by default, and at most.
_PAGE: Final = 200
_LONGEST_PAGE: Final = 10_000


def catalogue(asked: Asked) -> Response:
    """Answer with sections, tracks, extent and steps of one host."""
    run, host = asked.given.text("run"), asked.given.text("host")
    entry = asked.store.entry(run)
    version = asked.version_of(entry)
    return asked.beside(
        ("catalogue", host),
        lambda opened: answers.catalogue(opened, host, version=version),
        run=entry.id,
        lane=Lane.DRAWING,
    )


def tiles(asked: Asked) -> Response:
    """Answer with the same tile of some tracks."""
    question = _tile_question(asked)
    return _drawn(
        asked,
        ("tiles", question),
        lambda opened, host: answers.tiles(opened, host, question),
        media_type=_COLUMNS,
    )


def counters(asked: Asked) -> Response:
    """Answer with the same tile of some counters."""
    question = _tile_question(asked)
    return _drawn(
        asked,
        ("counters", question),
        lambda opened, host: answers.counters(opened, host, question),
        media_type=_COLUMNS,
    )


def unfold(asked: Asked) -> Response:
    """Answer with the spans that one slice represents."""
    track, first, count = (
        asked.given.integer(name) for name in ("track", "first", "count")
    )
    return _drawn(
        asked,
        ("unfold", track, first, count),
        lambda opened, host: answers.unfold(
            opened, host, track=track, first=first, count=count
        ),
    )


def details(asked: Asked) -> Response:
    """Answer with all that is known of one span."""
    track, item = asked.given.integer("track"), asked.given.integer("item")
    return _searched(
        asked,
        ("details", track, item),
        lambda opened, host: answers.details(opened, host, track=track, item=item),
    )


def search(asked: Asked) -> Response:
    """Answer with how often a text occurs."""
    text = asked.given.text("text") or ""
    return _searched(
        asked,
        ("search", text),
        lambda opened, host: answers.search(opened, host, text),
    )


def find(asked: Asked) -> Response:
    """Answer with the next or previous span whose name has a text."""
    given = asked.given
    begin = given.integers("from_ps")
    if len(begin) > 1:
        raise Refused(400, "bad_parameter", "from_ps: is given more than once")
    sought = Sought(
        text=given.text("text") or "",
        from_ps=begin[0] if begin else None,
        after=_span(asked),
        direction=_direction(given.text("direction")),
    )
    return _searched(
        asked,
        ("find", sought),
        lambda opened, host: answers.find(opened, host, sought),
    )


def longest(asked: Asked) -> Response:
    """Answer with the longest execution of an op or of a kernel."""
    given = asked.given
    run, hosts = given.text("run"), given.texts("hosts")
    op, name, side = given.text("op"), given.text("kernel"), _side(given.text("side"))
    if given.flag("unnamed"):
        op = ""
    shape = given.text("grid"), given.text("block")
    kernel = None if name is None else SoughtKernel(name, op, *shape)
    if op is None and kernel is None:
        raise Refused(400, "bad_parameter", "op, kernel: give one of the two, or both")
    return asked.beside(
        ("longest", hosts, op, kernel, side),
        lambda opened: answers.longest(opened, hosts, op=op, kernel=kernel, side=side),
        run=run,
        lane=Lane.SEARCHING,
    )


def flows(asked: Asked) -> Response:
    """Answer with the arrows of a window, or of one span."""
    area, of = _area(asked, ()), _span(asked)
    return _drawn(
        asked,
        ("flows", area, of),
        lambda opened, host: answers.flows(opened, host, area, of=of),
        media_type=_COLUMNS,
    )


def totals(asked: Asked) -> Response:
    """Answer with what an area adds up to."""
    area = _area(asked, asked.given.integers("track"))
    return _searched(
        asked,
        ("totals", area),
        lambda opened, host: answers.totals(opened, host, area),
    )


def events(asked: Asked) -> Response:
    """Answer with a page of the spans of an area."""
    area = _area(asked, asked.given.integers("track"))
    page = Page(
        offset=asked.given.number("offset", default=0, most=FARTHEST),
        limit=asked.given.number("limit", default=_PAGE, most=_LONGEST_PAGE),
        all=asked.given.flag("all"),
    )
    return _searched(
        asked,
        ("events", area, page),
        lambda opened, host: answers.events(opened, host, area, page),
    )


def window(asked: Asked) -> Response:
    """Answer with a window as a trace that other viewers read, to be saved."""
    area = _area(asked, ())
    response = _searched(
        asked,
        ("window", area),
        lambda opened, host: answers.window(opened, host, area),
    )
    response.headers["Content-Disposition"] = 'attachment; filename="trace.json"'
    return response


#: Below the address of the timeline, in the order in which a page asks.
ROUTES: Final = (
    Route("/data/trace/catalogue", catalogue),
    Route("/data/trace/tiles", tiles),
    Route("/data/trace/counters", counters),
    Route("/data/trace/unfold", unfold),
    Route("/data/trace/details", details),
    Route("/data/trace/search", search),
    Route("/data/trace/find", find),
    Route("/data/trace/longest", longest),
    Route("/data/trace/flows", flows),
    Route("/data/trace/totals", totals),
    Route("/data/trace/events", events),
    Route("/data/trace/window", window),
)


def _drawn(
    asked: Asked,
    question: tuple[Hashable, ...],
    compute: Callable[[Opened, str | None], bytes],
    *,
    media_type: str = JSON,
) -> Response:
    return _beside(asked, question, compute, Lane.DRAWING, media_type)


def _searched(
    asked: Asked,
    question: tuple[Hashable, ...],
    compute: Callable[[Opened, str | None], bytes],
) -> Response:
    return _beside(asked, question, compute, Lane.SEARCHING, JSON)


def _beside(
    asked: Asked,
    question: tuple[Hashable, ...],
    compute: Callable[[Opened, str | None], bytes],
    lane: Lane,
    media_type: str,
) -> Response:
    run, host = asked.given.text("run"), asked.given.text("host")
    return asked.beside(
        (*question, host),
        lambda opened: compute(opened, host),
        run=run,
        lane=lane,
        media_type=media_type,
    )


def _tile_question(asked: Asked) -> TileQuestion:
    return TileQuestion(
        tracks=asked.given.integers("track"),
        level=asked.given.integer("level"),
        place=asked.given.integer("index"),
        all=asked.given.flag("all"),
    )


def _area(asked: Asked, tracks: tuple[int, ...]) -> Area:
    return Area(
        begin_ps=asked.given.integer("begin_ps", -FARTHEST),
        end_ps=asked.given.integer("end_ps", FARTHEST),
        tracks=tracks,
    )


def _span(asked: Asked) -> tuple[int, int] | None:
    """Read a span; None where neither its track nor its item is given."""
    track, item = asked.given.integers("track"), asked.given.integers("item")
    if not track and not item:
        return None
    if len(track) != 1 or len(item) != 1:
        raise Refused(400, "bad_parameter", "track, item: a span needs one of each")
    return track[0], item[0]


def _side(text: str | None) -> Side | None:
    match text:
        case None | "Host" | "Device":
            return text
    raise Refused(400, "bad_parameter", "side: is neither Host nor Device")


def _direction(text: str | None) -> Direction:
    for one in Direction:
        if text in (one.value, None):
            return one
    known = ", ".join(one.value for one in Direction)
    raise Refused(400, "bad_parameter", f"direction: is none of {known}")
