"""The answers about a run that the page asks for, by the addresses that it uses.

An address is a path below `data/` and, after `?`, the options in alphabetical order.
The run and the hosts are left out: a file has one run, and answers about all its hosts.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import msgspec

from stepscope import __version__
from stepscope.analysis.timeline.search import SoughtKernel
from stepscope.analysis.tools import TOOLS, find_tool
from stepscope.errors import BadUsage
from stepscope.frozen import Frozen
from stepscope.reporting.envelope import Doubt
from stepscope.reporting.plain import plain
from stepscope.serve.built import STATIC
from stepscope.serve.runs import answers, timeline_answers
from stepscope.serve.runs.answers import SCHEMA, TableQuestion, ToolQuestion
from stepscope.serve.runs.cache import Working
from stepscope.serve.runs.opened import Opened
from stepscope.serve.runs.timeline_answers import Area
from stepscope.serve.saved.slices import HostSlices, slices_of_host
from stepscope.units import duration_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from stepscope.analysis.tools import ProfileWithTools
    from stepscope.reporting.plain import Plain

#: Maximum number of rows of a table in a file, and of slices of all timelines.
_MAX_ROWS: Final = 2000
_MAX_SLICES: Final = 250_000
#: Maximum number of events with all details, of steps with an explanation, of rows
#: that lead to their longest event, and of ops, scopes and annotations in detail.
_MAX_DETAILS: Final = 500
_MAX_STEPS: Final = 40
_MAX_PLACES: Final = 100
_MAX_IN_DETAIL: Final = 16
#: Maximum number of rows in the answer about one op, which repeats those of all ops.
_MAX_ROWS_IN_DETAIL: Final = 50
#: A file about more hosts has no answers about single ones.
_MAX_HOSTS: Final = 8
_OPS, _KERNELS, _VIEWS = "framework_op_stats", "kernel_stats", "model_views"
_NO_TABLE: Final = b'{"columns": [], "rows": []}'
#: Name of the run in addresses; the page finds a single one.
_RUN: Final = "saved"


class SavedRun(Frozen, frozen=True):
    """Everything in a file.

    Attributes:
        answers: Address → JSON.
        slices: Slices of the timeline of each host.
    """

    answers: dict[str, bytes]
    slices: tuple[HostSlices, ...]


def collect_answers(profile: ProfileWithTools) -> SavedRun:
    """Return the answers about a run, with tables and timelines up to a size."""
    opened = Opened(profile, Working())
    slices = tuple(
        slices_of_host(profile, host, most=_MAX_SLICES // len(profile.hosts))
        for host in profile.hosts
    )
    told = dict(_answers_about_run(opened))
    told |= _answers_of_tools(opened, ())
    if 1 < len(profile.hosts) <= _MAX_HOSTS:
        for host in profile.hosts:
            told |= _answers_of_tools(opened, (host,))
    profile_address = page_address("profile")
    told[profile_address] = _with_remarks(told[profile_address], slices)
    told |= _answers_in_detail(opened, told)
    told |= _answers_about_places(opened, told)
    for each in slices:
        told |= _answers_of_timeline(opened, each, _places_on(each.host, told))
    definitions = STATIC / "definitions.json"
    if definitions.is_file():
        told["definitions.json"] = definitions.read_bytes()
    return SavedRun(answers=told, slices=slices)


def page_address(path: str, options: Mapping[str, object] | None = None) -> str:
    """Return an address below `data/` as the page writes it, with sorted options."""
    written = [
        (name, str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in sorted((options or {}).items())
    ]
    return f"data/{path}" + (f"?{encode_options(written)}" if written else "")


def encode_options(options: Sequence[tuple[str, str]]) -> str:
    """Encode options of an address as browsers do (`URLSearchParams`)."""
    return urlencode(options, safe="*").replace("~", "%7E")


def _answers_about_run(opened: Opened) -> Iterator[tuple[str, bytes]]:
    profile = opened.view_of_hosts(()).described
    run: dict[str, Plain] = {
        "id": _RUN,
        "name": profile.run,
        "recorded_unix_ms": None,
        "hosts": list(profile.hosts),
        "bytes": 0,
        "format": "",
        "frameworks": plain(opened.named_frameworks(())),
        "verdict": None,
        "step_ms": None,
        "state": "ready",
        "reason": None,
        "version": _RUN,
    }
    status: Plain = {
        "schema": SCHEMA,
        "version": __version__,
        "runs": _RUN,
        "work": None,
    }
    listed: Plain = {
        "schema": SCHEMA,
        "log_directory": profile.run,
        "runs": [run],
        "refused": [],
        "empty": None,
    }
    yield page_address("status"), msgspec.json.encode(status)
    yield page_address("runs"), msgspec.json.encode(listed)


def _with_remarks(answer: bytes, slices: Iterable[HostSlices]) -> bytes:
    """Add to the doubts about a recording what a file folds."""
    told = msgspec.json.decode(answer)
    told["quality"] += [
        plain(
            Doubt(
                host=each.host,
                kind="saved_file",
                severity="info",
                scope="timeline",
                message="In this file, the timeline shows events together if they are "
                f"shorter than {duration_text(2**each.level)}.",
                count=None,
                remedy="Open the recording itself with `stepscope serve`.",
            )
        )
        for each in slices
        if each.level
    ]
    return msgspec.json.encode(told)


def _answers_of_tools(opened: Opened, hosts: tuple[str, ...]) -> dict[str, bytes]:
    """Return the findings and the answers of all tools, with the page's choices."""
    named: dict[str, Any] = {"hosts": hosts[0]} if hosts else {}
    told = {
        page_address("profile", named): answers.write_profile(opened, hosts),
        page_address("findings", named): answers.write_findings(opened, hosts),
    }
    for tool in TOOLS:
        told |= _answers_of_tool(opened, tool.name, named)
    told |= _answers_of_tool(opened, _OPS, {**named, "include_idle": True})
    return told


def _answers_of_tool(
    opened: Opened,
    name: str,
    options: dict[str, Any],
    *,
    rows: int = _MAX_ROWS,
    known: Collection[str] = (),
) -> dict[str, bytes]:
    """Return a tool's answer and its tables; the main one also has no name.

    Args:
        options: Options of the tool; `hosts` is one of the hosts.
        rows: Maximum number of rows of tables in the tool's answer.
        known: Tables to leave out.
    """
    chosen = {key: value for key, value in options.items() if key != "hosts"}
    hosts = (str(options["hosts"]),) if "hosts" in options else ()
    question = ToolQuestion(find_tool(name), hosts, chosen)
    asked = TableQuestion(
        of=question,
        table=None,
        sort=None,
        descending=False,
        holding="",
        limit=_MAX_ROWS,
    )
    main = answers.write_table(opened, asked)
    told = {
        page_address(f"tool/{name}", options): answers.write_tool(
            opened, question, rows=rows
        ),
        page_address(f"table/{name}", options): main,
    }
    for table in msgspec.json.decode(main)["tables"]:
        if table not in known:
            written = answers.write_table(opened, asked._replace(table=table))
            told[page_address(f"table/{name}", {**options, "table": table})] = written
    return told


def _answers_in_detail(
    opened: Opened, told: Mapping[str, bytes]
) -> Iterator[tuple[str, bytes]]:
    """Yield what the page shows of single ops, scopes and annotations."""
    view = {"view": "annotation"}
    chosen = [
        *((_OPS, {"op": name}) for name in _first_names(told, _OPS, {})),
        *(
            (_OPS, {"scope": name})
            for name in _first_names(told, _VIEWS, {"table": "scope"})
        ),
        *(
            (_VIEWS, {**view, "op": name})
            for name in _first_names(told, _VIEWS, {"table": "annotation"})
        ),
        *((_OPS, options) for options in _ops_of_evidence(opened, told)),
    ]
    for tool, options in chosen:
        known = msgspec.json.decode(told[page_address(f"table/{tool}")])["tables"]
        # Some scopes and annotations have no op.
        with suppress(BadUsage):
            yield from _answers_of_tool(
                opened, tool, options, rows=_MAX_ROWS_IN_DETAIL, known=known
            ).items()


def _ops_of_evidence(
    opened: Opened, told: Mapping[str, bytes]
) -> Iterator[dict[str, Any]]:
    """Yield the options with which findings lead to ops."""
    is_one = len(opened.view_of_hosts(()).profile.hosts) == 1
    for member in _inner_objects(msgspec.json.decode(told[page_address("findings")])):
        op, host = member.get("op"), member.get("host")
        if isinstance(op, str) and isinstance(host, str):
            yield {"op": op} if is_one else {"hosts": host, "op": op}


def _answers_about_places(
    opened: Opened, told: Mapping[str, bytes]
) -> Iterator[tuple[str, bytes]]:
    """Yield the longest events of the first ops and kernels."""
    for row in _table_rows(told, _OPS, {})[:_MAX_PLACES]:
        op, side = str(row["name"]), row["host_or_device"]
        yield (
            page_address("trace/longest", {"op": op}),
            timeline_answers.write_longest(opened, (), op=op, kernel=None, side=None),
        )
        yield (
            page_address("trace/longest", {"op": op, "side": side}),
            timeline_answers.write_longest(
                opened,
                (),
                op=op,
                kernel=None,
                side="Host" if side == "Host" else "Device",
            ),
        )
    for row in _table_rows(told, _KERNELS, {})[:_MAX_PLACES]:
        op = row["op_name"]
        shape = {"grid": row["grid_dim"], "block": row["block_dim"]}
        known = {key: value for key, value in shape.items() if value is not None}
        of_op = {"unnamed": True} if op == "" else {"op": op} if op else {}
        name = row["kernel_name"]
        any_kernel = SoughtKernel(name, None, None, None)
        yield (
            page_address("trace/longest", {"kernel": name}),
            timeline_answers.write_longest(
                opened, (), op=None, kernel=any_kernel, side=None
            ),
        )
        kernel = SoughtKernel(name, op, *shape.values())
        yield (
            page_address(
                "trace/longest", {"kernel": row["kernel_name"], **of_op, **known}
            ),
            timeline_answers.write_longest(opened, (), op=op, kernel=kernel, side=None),
        )


def _table_rows(
    told: Mapping[str, bytes], tool: str, options: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    table = msgspec.json.decode(
        told.get(page_address(f"table/{tool}", options), _NO_TABLE)
    )
    names = [column["name"] for column in table["columns"]]
    return [dict(zip(names, row, strict=True)) for row in table["rows"]]


def _first_names(
    told: Mapping[str, bytes], tool: str, options: dict[str, Any]
) -> list[str]:
    """Return the first names of a table."""
    named = [row["name"] for row in _table_rows(told, tool, options) if row.get("name")]
    return list(dict.fromkeys(named))[:_MAX_IN_DETAIL]


def _places_on(host: str, told: Mapping[str, bytes]) -> Iterator[tuple[int, int]]:
    """Yield track and item of all spans of a host to which answers lead."""
    leading = ("data/findings", "data/trace/longest")
    for answer in [told[each] for each in told if each.startswith(leading)]:
        for member in _inner_objects(msgspec.json.decode(answer)):
            place = member.get("place")
            if member.get("host") == host and isinstance(place, dict):
                track, item = place.get("track"), place.get("item")
                if track is not None and item is not None:
                    yield track, item


def _inner_objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects in a JSON value."""
    if isinstance(value, dict):
        yield value
    inside = value.values() if isinstance(value, dict) else value
    if isinstance(inside, str | int | float | None):
        return
    for each in inside:
        yield from _inner_objects(each)


def _answers_of_timeline(
    opened: Opened, of: HostSlices, places: Iterable[tuple[int, int]]
) -> dict[str, bytes]:
    """Return what the page shows of steps, of the longest spans and of some places."""
    profile, host = opened.view_of_hosts(()).profile, of.host
    catalogue = timeline_answers.write_catalogue(opened, host, version=_RUN)
    told = {page_address("trace/catalogue", {"host": host}): catalogue}
    steps = msgspec.json.decode(catalogue).get("steps", [])
    for step in steps[:_MAX_STEPS]:
        begin, end = step["start_ps"], step["end_ps"]
        area = {"begin_ps": begin, "end_ps": end, "host": host}
        told[page_address("trace/totals", area)] = timeline_answers.write_totals(
            profile, host, Area(begin, end, ())
        )
        asked = {"from_ps": begin, "to_ps": end, "host": host}
        told[page_address("explain", asked)] = answers.write_explanation(
            opened, host, (begin, end), device=None
        )
    longest = of.longest_spans(_MAX_DETAILS // len(profile.hosts))
    for track, item in dict.fromkeys((*places, *longest)):
        told[
            page_address("trace/details", {"host": host, "track": track, "item": item})
        ] = timeline_answers.write_details(profile, host, track, item)
    return told
