"""Functions that write answers about a run, as bytes; the store keeps the answers."""

from __future__ import annotations

import math
import pickle
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import polars as pl

from stepscope.analysis.gaps.explanation import explain_gap
from stepscope.compare.comparison import compare_runs
from stepscope.compare.measured import measure_run
from stepscope.errors import BadUsage
from stepscope.reporting import to_json
from stepscope.reporting.compose import compose_report, judge_profile
from stepscope.reporting.exports import render_csv
from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.report import report_outline
from stepscope.reporting.page import plain_text
from stepscope.reporting.plain import plain
from stepscope.reporting.tables import (
    LIMITS,
    arrange_rows,
    choose_table,
    name_of_main,
    tables,
)
from stepscope.reporting.words.pages import page_sentences
from stepscope.serve import frames
from stepscope.serve.errors import Refused
from stepscope.serve.runs.cutting import Cut, count_fitting_rows, cut_tables, text_bytes
from stepscope.serve.runs.judged import findings_record
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable
from stepscope.units import bytes_text

if TYPE_CHECKING:
    from stepscope.analysis.gaps.explanation import RequestedTime
    from stepscope.analysis.results.tool import Tool
    from stepscope.compare.measured import MeasuredSteps
    from stepscope.reporting.plain import Plain
    from stepscope.serve.runs.opened import Opened, View

SCHEMA: Final = 1
REPORT_FORMATS: Final = ("text", "json")
#: Maximum size of the texts of a table as CSV, in bytes.
_MAX_CSV_BYTES: Final = 2**29
#: Tools without a result for many profiles; checking is fast after the findings.
_NOT_EVERYWHERE: Final = (
    "framework_op_stats",
    "kernel_stats",
    "roofline_model",
    "input_pipeline_analyzer",
    "memory_profile",
    "tf_data_bottleneck_analysis",
    "inference_profile",
)
#: Width of a report as text, in characters, as on a terminal.
_TEXT_WIDTH: Final = 100


class ToolQuestion(NamedTuple):
    """A tool, its options and its hosts."""

    tool: Tool
    hosts: tuple[str, ...]
    options: dict[str, object]


class TableQuestion(NamedTuple):
    """A table of a tool, its order, and the requested rows."""

    of: ToolQuestion
    table: str | None
    sort: str | None
    descending: bool
    holding: str
    offset: int = 0
    limit: int | None = None


def write_tool(opened: Opened, query: ToolQuestion, *, rows: int) -> bytes:
    """Write the envelope with tables cut at `rows`, and the list of cut tables."""
    result = opened.tool_result(query.tool.name, query.hosts, query.options)
    view = opened.view_of_hosts(query.hosts)
    shown, page_texts = result, {}
    cuts: list[Cut] = []
    if not isinstance(result, Unavailable):
        shown, cuts = cut_tables(result, rows=rows)
        page_texts = page_sentences(query.tool.name, result)
    envelope = to_json.make_envelope(
        query.tool.name, shown, profile=view.described, quality=view.doubts
    )
    about: dict[str, Plain] = {"cut": plain(cuts), "words": plain(page_texts)}
    return msgspec.json.encode({**to_json.plain_envelope(envelope), **about})


def write_table(opened: Opened, query: TableQuestion) -> bytes:
    """Write one page of one table, as rows."""
    about, chosen = _answered_table(_table_result(opened, query), query)
    wanted = chosen.slice(query.offset, query.limit)
    part = wanted.head(count_fitting_rows(wanted))
    members: dict[str, object] = {
        **about,
        "columns": [_column_record(column) for column in chosen],
        "rows": [plain(list(row)) for row in part.iter_rows()],
    }
    if part.height < wanted.height:
        name = str(about["table"])
        members["cut"] = [Cut(table=name, rows=wanted.height, given=part.height)]
    return msgspec.json.encode(members)


def write_frame(opened: Opened, query: TableQuestion) -> bytes:
    """Write one page of one table, as columns."""
    about, chosen = _answered_table(_table_result(opened, query), query)
    return frames.encode_frame(chosen.slice(query.offset, query.limit), about)


def write_csv(opened: Opened, query: TableQuestion) -> bytes:
    """Write all rows of a table as CSV.

    Raises:
        Refused: The tool has no result for this profile, or the table is too large.
    """
    known = query.of.tool.options.__struct_fields__
    options = {**dict.fromkeys(LIMITS.intersection(known)), **query.of.options}
    table = _table_result(opened, query._replace(of=query.of._replace(options=options)))
    if isinstance(table, Unavailable):
        raise Refused(
            404,
            "unknown_table",
            f"{query.of.tool.name} is not available: {table.reason} {table.remedy}",
        )
    _, chosen = _answered_table(table, query)
    size = int(text_bytes(chosen).sum())
    if size > _MAX_CSV_BYTES:
        raise Refused(
            413,
            "too_large",
            f"the texts of this table take {bytes_text(size)}. Write the table with "
            f"`stepscope show {query.of.tool.name} PATH --format csv -o FILE`, or "
            "select fewer rows with q",
        )
    return render_csv(chosen).encode()


def write_profile(opened: Opened, hosts: tuple[str, ...]) -> bytes:
    """Write the run, hosts and devices, and doubts about the recording."""
    view = opened.view_of_hosts(hosts)
    frameworks = plain(opened.named_frameworks(hosts))
    return msgspec.json.encode({**_profile_and_doubts(view), "frameworks": frameworks})


def write_findings(opened: Opened, hosts: tuple[str, ...]) -> bytes:
    """Write the headline, and every finding as a record and as sentences."""
    view = opened.view_of_hosts(hosts)
    opened.working.stage("Findings")
    judged = judge_profile(view.profile)
    body = findings_record(view.profile, judged)
    steps_ms = (finding.mean_step_ms for finding in judged.findings)
    step_ms = next((ms for ms in steps_ms if ms is not None), None)
    opened.keep_verdict(hosts, judged.headline.text, step_ms)
    absent = {
        name: plain(result)
        for name in _NOT_EVERYWHERE
        if isinstance(result := opened.tool_result(name, hosts, {}), Unavailable)
    }
    return msgspec.json.encode({**_profile_and_doubts(view), **body, "absent": absent})


def write_program_files(opened: Opened, hosts: tuple[str, ...]) -> bytes:
    """Write a JSON list of the source files that have lines with measured time."""
    result = opened.tool_result("model_views", hosts, {})
    if isinstance(result, Unavailable):
        return msgspec.json.encode([])
    names = tables(result)["source"]["file"].unique().drop_nulls()
    return msgspec.json.encode(names.sort().to_list())


def write_report(opened: Opened, hosts: tuple[str, ...], *, form: str) -> bytes:
    """Write the report as `stepscope report` does."""
    document = compose_report(opened.view_of_hosts(hosts).profile, opened.working)
    if form == "json":
        return to_json.render_document(document)
    lines = as_text.render(report_outline(document), width=_TEXT_WIDTH)
    return plain_text(lines).encode()


def _profile_and_doubts(view: View) -> dict[str, Plain]:
    return {
        "schema": SCHEMA,
        "profile": plain(view.described),
        "quality": plain(view.doubts),
    }


def _table_result(opened: Opened, query: TableQuestion) -> msgspec.Struct | Unavailable:
    return opened.tool_result(query.of.tool.name, query.of.hosts, query.of.options)


def _answered_table(
    result: msgspec.Struct | Unavailable, query: TableQuestion
) -> tuple[dict[str, Plain], pl.DataFrame]:
    """Return what an answer says about a table, and the table's matching rows."""
    about: dict[str, Plain] = {
        "schema": SCHEMA,
        "tool": query.of.tool.name,
        "table": "",
        "tables": [],
        "total": 0,
        "matching": 0,
        "offset": query.offset,
        "unavailable": plain(result) if isinstance(result, Unavailable) else None,
        "missing": plain(getattr(result, "missing", ())),
    }
    if isinstance(result, Unavailable):
        return about, pl.DataFrame()
    named = tables(result)
    try:
        table = choose_table(named, query.table)
    except BadUsage as error:
        raise Refused(404, "unknown_table", str(error)) from error
    chosen = arrange_rows(
        table, holding=query.holding, sort=query.sort, descending=query.descending
    )
    about |= {"table": query.table or name_of_main(named), "tables": list(named)}
    about |= {"total": table.height, "matching": chosen.height}
    return about, chosen


def _column_record(column: pl.Series) -> dict[str, Plain]:
    kind = "boolean" if column.dtype == pl.Boolean else "text"
    if column.dtype.is_integer():
        kind = "integer"
    elif column.dtype.is_numeric() or column.dtype == pl.Null:
        # A column of nulls is usually one of numbers that were not measured.
        kind = "number"
    largest = None
    if kind in ("integer", "number"):
        low, high = column.min(), column.max()
        known = [abs(end) for end in (low, high) if isinstance(end, int | float)]
        largest = max((end for end in known if math.isfinite(end)), default=None)
    return {
        "name": column.name,
        "type": kind,
        "largest": largest,
        "same": column.n_unique() <= 1,
    }


def write_measured_run(opened: Opened) -> bytes:
    """Write the data of a whole run that a comparison needs, for this process only."""
    opened.working.stage("Comparing")
    return pickle.dumps(_measured_profile(opened))


def write_comparison(base: Opened, new: bytes, *, same_work: bool) -> bytes:
    """Write the comparison of two runs, as `stepscope diff` does.

    Args:
        base: The run to compare with.
        new: The other run, as `write_measured_run` wrote it.
        same_work: Whether the user states that both runs do the same work.
    """
    base.working.stage("Comparing")
    after: MeasuredSteps = pickle.loads(new)  # noqa: S301 - kept by the store, and by it alone
    comparison = compare_runs(
        _measured_profile(base), after, thresholds=THRESHOLDS, same_work=same_work
    )
    return to_json.render_comparison(comparison)


def _measured_profile(opened: Opened) -> MeasuredSteps:
    profile = opened.view_of_hosts(()).profile
    return measure_run(profile, judge_profile(profile).findings)


def write_explanation(
    opened: Opened, host: str | None, wanted: RequestedTime, *, device: int | None
) -> bytes:
    """Write what an interval's time is attributed to, as `stepscope explain` does."""
    profile = opened.view_of_hosts(() if host is None else (host,)).profile
    explanation = explain_gap(profile, profile.hosts[0], wanted, device=device)
    return to_json.render_gap(explanation)
