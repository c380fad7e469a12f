"""Implementation of `stepscope show`, after its options are parsed."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Final

import click
import msgspec

from stepscope.analysis.framework_op_stats.detail import OpDetailResult
from stepscope.analysis.framework_op_stats.result import FrameworkOpStatsResult
from stepscope.analysis.model_views import AnnotationDetailResult, ModelViewsResult
from stepscope.analysis.pod_viewer import PodViewerResult
from stepscope.analysis.tools import COMPAT, TOOLS, find_tool
from stepscope.analysis.trace_viewer import TraceViewerResult
from stepscope.analysis.trace_viewer.events import trace_spans
from stepscope.analysis.trace_viewer.viewer import host_traces
from stepscope.cli.output import (
    check_free,
    deliver_answer,
    opened_output,
    page_width,
    show_progress,
)
from stepscope.cli.requests import SHOW_FORMS
from stepscope.derive.model.view_names import SHOWN
from stepscope.errors import BadUsage
from stepscope.reporting import to_json, to_pprof, to_table, to_trace_json
from stepscope.reporting.envelope import describe_profile, recording_doubts
from stepscope.reporting.exports import render_csv, render_parquet
from stepscope.reporting.outline import as_text
from stepscope.reporting.tables import (
    LIMITS,
    SUMMARY,
    choose_table,
    name_of_main,
    tables,
)
from stepscope.reporting.text.model import annotation_outline, view_outline
from stepscope.reporting.text.op import op_outline
from stepscope.reporting.text.pod import pod_outline
from stepscope.session import open_profile
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import polars as pl

    from stepscope.analysis.results.tool import Tool
    from stepscope.cli.requests import ShowRequest
    from stepscope.derive.profile_data import ProfileData
    from stepscope.reporting.envelope import Envelope
    from stepscope.reporting.outline.parts import Outline

#: Exit status if the tool is unavailable for this profile.
_UNAVAILABLE_STATUS: Final = 1
#: Formats for other programs, which contain all rows and points.
_EXPORTS: Final = frozenset({"csv", "parquet"})
_CLOSELY: Final = (
    "For the calls, kernels, copies and dominant cost of one op: --op NAME; for all "
    "ops below a path: --scope PREFIX."
)
_BYTES: Final = frozenset({"parquet", "pprof"})
#: Level of gzip; a low level is enough, because traces are very repetitive.
_COMPRESSION: Final = 5
#: Host option of tools that read all hosts even for a result about some hosts.
_HOSTS: Final = "hosts"
#: Profilers (producers of a recording) whose own numbers a tool can return.
PRODUCERS: Final = tuple(dict.fromkeys(one for tool in TOOLS for one in tool.compat))


def answer_request(request: ShowRequest) -> int:
    """Run the tool, write its result, and return the exit status."""
    if request.compat is not None:
        options = request.options | {COMPAT: request.compat}
        request = msgspec.structs.replace(request, options=options)
    tool = _check_request(request)
    with show_progress(stages=2) as shown:
        shown.stage("Reading")
        profile = open_profile(*request.paths, kernels=request.kernels)
        # A tool that lacks the producer's numbers returns stepscope's numbers.
        known = tool.options.__struct_fields__
        chosen = dict(request.options)
        if not tool.compat:
            chosen.pop(COMPAT, None)
        if request.form in _EXPORTS:
            chosen = {**dict.fromkeys(LIMITS.intersection(known)), **chosen}
        source, options = profile, chosen
        if request.hosts:
            profile = profile.select(request.hosts)
            if _HOSTS in known:
                options[_HOSTS] = request.hosts
            else:
                source = profile
        shown.stage(tool.title)
        result = source.tool(tool.name, **options)
        if request.form == "json" and isinstance(result, TraceViewerResult):
            _write_trace(result, source, request.output)
            return 0
        written = _written_answer(request, tool, profile, result)
    if isinstance(written, Unavailable):
        reason = written.reason
        click.echo(f"stepscope: {tool.name} is not available: {reason}", err=True)
        return _UNAVAILABLE_STATUS
    deliver_answer(written, request.output)
    return 0


def _write_trace(
    result: TraceViewerResult, profile: ProfileData, output: str | None
) -> None:
    answer = _enveloped_result("trace_viewer", result, profile)
    hosts, _ = host_traces(profile)
    spans = trace_spans(profile)
    with opened_output(output) as file:
        if output is None or not output.endswith(".gz"):
            to_trace_json.write_trace(answer, hosts, spans, file.write)
            return
        # The gzip header has no name and time, so equal profiles yield equal files.
        with gzip.GzipFile("", "wb", _COMPRESSION, file, mtime=0) as packed:
            to_trace_json.write_trace(answer, hosts, spans, packed.write)


def _enveloped_result(
    name: str, result: msgspec.Struct | Unavailable, profile: ProfileData
) -> Envelope:
    described, doubts = describe_profile(profile), recording_doubts(profile)
    return to_json.make_envelope(name, result, profile=described, quality=doubts)


def _check_request(request: ShowRequest) -> Tool:
    tool = find_tool(request.tool)
    if request.form not in SHOW_FORMS:
        raise BadUsage.unknown_name("format", request.form, SHOW_FORMS)
    if request.form in _BYTES and request.output is None:
        raise BadUsage(f"{request.form} is not text for a terminal; add -o FILE")
    if request.form == "pprof" and "view" not in tool.options.__struct_fields__:
        raise BadUsage(
            f"only model_views has the format pprof; {tool.name} does not have it"
        )
    if request.schema_line and request.form != "csv":
        raise BadUsage("--schema-line is a line of CSV: add --format csv")
    producer = request.options.get(COMPAT, PRODUCERS[0])
    if producer not in PRODUCERS:
        raise BadUsage.unknown_name("producer", str(producer), PRODUCERS)
    for option in request.options:
        if option not in tool.options.__struct_fields__ and option != COMPAT:
            raise BadUsage(f"{tool.name} has no option --{option.replace('_', '-')}")
    if {"op", "scope"} <= request.options.keys():
        raise BadUsage("--op and --scope exclude each other; ask for one of them")
    check_free(request.output, force=request.force)
    return tool


def _written_answer(
    request: ShowRequest,
    tool: Tool,
    profile: ProfileData,
    result: msgspec.Struct | Unavailable,
) -> str | bytes | Unavailable:
    if request.form == "json":
        return to_json.render_envelope(_enveloped_result(tool.name, result, profile))
    title = f"{tool.title} · {profile.run} · {', '.join(profile.hosts)}"
    if isinstance(result, Unavailable):
        if request.form != "table":
            return result
        return to_table.render_unavailable(title, result, width=page_width())
    frames = tables(result)
    name = request.table or getattr(result, "view", None)
    chosen = choose_table(frames, name)
    if request.form == "pprof":
        return to_pprof.render(chosen, view=str(name), comments=(title,))
    if request.form in _EXPORTS:
        return (
            render_csv(chosen, schema_line=request.schema_line)
            if request.form == "csv"
            else render_parquet(chosen)
        )
    return _on_screen(request, profile, result, title, frames)


def _on_screen(
    request: ShowRequest,
    profile: ProfileData,
    result: msgspec.Struct,
    title: str,
    frames: dict[str, pl.DataFrame],
) -> str:
    """Return one table as text, or a whole page for results with related tables."""
    width, names, is_page = page_width(), list(frames), request.table is None
    outline: Outline = ()
    if isinstance(result, OpDetailResult) and is_page:
        outline = op_outline(result, title=title, others=names)
    elif isinstance(result, PodViewerResult) and is_page:
        doubts = dict.fromkeys(
            doubt.message
            for doubt in recording_doubts(profile)
            if doubt.scope == "run" and doubt.severity != "info"
        )
        outline = pod_outline(result, title=title, doubts=list(doubts), others=names)
    elif isinstance(result, AnnotationDetailResult) and is_page:
        outline = annotation_outline(result, title=title, others=names)
    elif isinstance(result, ModelViewsResult) and request.table in (None, *SHOWN):
        view = request.table or result.view
        outline = view_outline(result, view=view, title=title, others=names)
    if outline:
        return as_text.render_page(outline, width=width)
    name = request.table or name_of_main(frames)
    return to_table.render(
        choose_table(frames, name),
        title=f"{title} · {name}",
        missing=getattr(result, "missing", ()) if name != SUMMARY else (),
        others=[table for table in frames if table != name],
        width=width,
        hint=_CLOSELY if isinstance(result, FrameworkOpStatsResult) else "",
    )
