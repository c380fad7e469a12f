"""What `stepscope show` does once its options are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import click

from stepscope.analysis import find_tool
from stepscope.cli.compose import describe, doubts, opened
from stepscope.cli.output import check_free, deliver
from stepscope.cli.progress import progress
from stepscope.cli.show import FORMATS
from stepscope.cli.terminal import page_width
from stepscope.errors import BadUsage
from stepscope.report import to_csv, to_json, to_parquet, to_table
from stepscope.report.tables import SUMMARY, choose, name_of_main, tables
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import msgspec

    from stepscope.analysis.tool import Tool
    from stepscope.derive.profile_data import ProfileData

__all__ = ["PRODUCERS", "Request", "answer"]

#: A table was asked for and there is none: the answer is "no".
_NO: Final = 1
#: Forms that leave the screen: nothing is thinned out for it.
_EXPORTS: Final = frozenset({"csv", "parquet"})
#: Whose own numbers a tool can give.
PRODUCERS: Final = ("tensorflow",)


class Request(NamedTuple):
    """The command line of `show`, read."""

    tool: str
    paths: tuple[str, ...]
    hosts: tuple[str, ...]
    options: dict[str, object]
    form: str
    table: str | None
    output: str | None
    force: bool


def answer(request: Request) -> int:
    """Run the tool and deliver what it found; the exit status."""
    tool = _checked(request)
    with progress(stages=2) as shown:
        profile = opened(request.paths, shown)
        if request.hosts:
            profile = profile.select(request.hosts)
        shown.stage(tool.title)
        result = profile.tool(tool.name, **_options(request, tool))
        written = _written(request, tool, profile, result)
    if written is None:
        why = result.reason
        click.echo(f"stepscope: {tool.name} is not available: {why}", err=True)
        return _NO
    deliver(written, request.output)
    return 0


def _checked(request: Request) -> Tool:
    """Refuse what cannot be done before anything is read."""
    tool = find_tool(request.tool)
    if request.form not in FORMATS:
        raise BadUsage.unknown_name("format", request.form, FORMATS)
    if request.form == "parquet" and request.output is None:
        message = "parquet is no text for a terminal; add -o FILE"
        raise BadUsage(message)
    producer = request.options.get("compat", PRODUCERS[0])
    if producer not in PRODUCERS:
        raise BadUsage.unknown_name("producer", str(producer), PRODUCERS)
    for option in request.options:
        if option not in tool.options.__struct_fields__ and option != "compat":
            message = f"{tool.name} has no option --{option.replace('_', '-')}"
            raise BadUsage(message)
    check_free(request.output, force=request.force)
    return tool


def _options(request: Request, tool: Tool) -> dict[str, object]:
    """The options that the tool has, and all points where a table is exported.

    A tool that a producer answers no differently has no option for it.
    """
    known = tool.options.__struct_fields__
    chosen = {name: one for name, one in request.options.items() if name in known}
    if "points" in known and request.form in _EXPORTS:
        chosen["points"] = None
    return chosen


def _written(
    request: Request,
    tool: Tool,
    profile: ProfileData,
    result: msgspec.Struct | Unavailable,
) -> str | bytes | None:
    if request.form == "json":
        return to_json.render_envelope(
            to_json.envelope(
                tool.name, result, profile=describe(profile), quality=doubts(profile)
            )
        )
    title = f"{tool.title} · {profile.run} · {', '.join(profile.hosts)}"
    if isinstance(result, Unavailable):
        if request.form != "table":
            return None
        return to_table.render_unavailable(title, result, width=page_width())
    found = tables(result)
    chosen = choose(found, request.table)
    if request.form == "csv":
        return to_csv.render(chosen)
    if request.form == "parquet":
        return to_parquet.render(chosen)
    name = request.table or name_of_main(found)
    return to_table.render(
        chosen,
        title=f"{title} · {name}",
        missing=getattr(result, "missing", ()) if name != SUMMARY else (),
        others=[other for other in found if other != name],
        width=page_width(),
    )
