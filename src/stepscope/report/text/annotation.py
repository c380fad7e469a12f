"""Named ranges of the program: the costly ones in a report, and one closely."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.report.page import Piece, line, plain_text, table, wrapped
from stepscope.report.words.names import us
from stepscope.report.words.reasons import reasons

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from stepscope.analysis.model_views import AnnotationDetailResult
    from stepscope.report.document import Document
    from stepscope.report.page import Line

_UNKNOWN: Final = "–"
_INDENT: Final = "  "
#: Rows that the page shows of each table.
_SHOWN: Final = 10
_NARROWEST: Final = 24
_CLOSELY: Final = "One of them closely: stepscope show model_views PATH --op NAME"
_ABOUT: Final = frozenset({"annotation", "detail", "hosts", "unannotated_device_us"})


def top_annotations(document: Document, width: int) -> list[Line]:
    """Write the ranges of the program with most host time; none where it named none."""
    found = document.annotations
    if not found:
        return []
    body = [
        (
            one.name,
            f"{one.occurrences:,}",
            _time(one.total_us),
            _time(one.step_us),
            _time(one.total_device_us),
        )
        for one in found
    ]
    header = ("annotation", "calls", "host time", "per step", "device")
    lines = table(header, body, align=("<", *">>>>"), width=width, stretch=0)
    return [*lines, *wrapped(_CLOSELY, width, indent=2, role="dim")]


def render(
    result: AnnotationDetailResult, *, title: str, others: Sequence[str], width: int
) -> str:
    """Write the time of one annotation, its calls, its steps and what it holds.

    Args:
        result: The views, with the annotation.
        title: Tool, run and hosts.
        others: Names of the tables that can be shown or exported whole.
        width: Number of characters in a line.
    """
    width = max(width, _NARROWEST)
    lines = [
        line(Piece(title, "title")),
        line(Piece(f"annotation {result.detail.name}", "heading")),
        *_head(result, width),
        line(),
    ]
    for heading, body in (
        ("In the tree of annotations", _tree(result.annotation, width)),
        ("Calls", _calls(result, width)),
        ("By step", _by_step(result, width)),
        ("Ops inside, on its thread", _ops(result, width)),
        ("What it launched", _kernels(result, width)),
    ):
        if body:
            lines += [line(Piece(heading, "heading")), *body, line()]
    names = [name for name in others if name.startswith("detail.")]
    whole = f"Whole tables (--table NAME): {', '.join(['annotation', *names])}."
    lines += wrapped(whole, width, indent=2)
    own = [one for one in result.missing if one.field.split(".")[0] in _ABOUT]
    return plain_text([*lines, *reasons(own, width)])


def _head(result: AnnotationDetailResult, width: int) -> list[Line]:
    detail = result.detail
    if not detail.call_count:
        return wrapped("No call in these steps.", width, indent=2)
    longest = detail.calls.row(0, named=True)
    where = "" if longest["step"] is None else f", in step {longest['step']}"
    plural = "s" if detail.call_count != 1 else ""
    lines = wrapped(
        f"{detail.call_count:,} call{plural}, {us(detail.host_us)} on the host; the "
        f"longest took {us(longest['host_us'])} (at {longest['start_ms']:,.3f} ms"
        f"{where})",
        width,
        indent=2,
    )
    if detail.device_us is None or detail.launches is None:
        return lines
    count = f"{detail.launches:,} launch{'es' if detail.launches != 1 else ''}"
    text = (
        f"{count} inside put {us(detail.device_us)} of work on devices; work that "
        "another thread launched is not in it"
    )
    return [*lines, *wrapped(text, width, indent=2)]


def _tree(rows: pl.DataFrame, width: int) -> list[Line]:
    body = [
        (
            _INDENT * (row["depth"] - 1) + row["name"],
            f"{row['occurrences']:,}",
            _time(row["total_us"]),
            _time(row["self_us"]),
            _time(row["total_device_us"]),
        )
        for row in rows.head(_SHOWN).iter_rows(named=True)
        if {"occurrences", "total_us", "total_device_us"} <= row.keys()
    ]
    if not body:
        return []
    header = ("annotation", "calls", "host", "self", "device")
    return table(header, body, align=("<", *">>>>"), width=width, stretch=0)


def _calls(result: AnnotationDetailResult, width: int) -> list[Line]:
    body = [
        (
            row["thread"],
            _UNKNOWN if row["step"] is None else f"{row['step']}",
            f"{row['start_ms']:,.3f} ms",
            _time(row["host_us"]),
            _time(row["device_us"]),
        )
        for row in result.detail.calls.head(_SHOWN).iter_rows(named=True)
    ]
    if not body:
        return []
    header = ("thread", "step", "began", "host", "device")
    return table(header, body, align=("<", *">>>>"), width=width, stretch=0)


def _by_step(result: AnnotationDetailResult, width: int) -> list[Line]:
    if result.detail.by_step is None:
        return []
    body = [
        (
            f"{row['step']}",
            f"{row['occurrences']:,}",
            _time(row["host_us"]),
            _time(row["device_us"]),
        )
        for row in result.detail.by_step.head(_SHOWN).iter_rows(named=True)
    ]
    header = ("step", "calls", "host", "device")
    return table(header, body, align=("<", *">>>"), width=width, stretch=0)


def _ops(result: AnnotationDetailResult, width: int) -> list[Line]:
    return _costs(result.detail.ops, "op", "host_self_us", "self time", width=width)


def _kernels(result: AnnotationDetailResult, width: int) -> list[Line]:
    rows = result.detail.kernels
    return _costs(rows, "kernel or copy", "total_us", "total", width=width)


def _costs(
    rows: pl.DataFrame | None, what: str, column: str, heading: str, *, width: int
) -> list[Line]:
    if rows is None or not rows.height:
        return []
    body = [
        (row["name"], f"{row['occurrences']:,}", _time(row[column]))
        for row in rows.head(_SHOWN).iter_rows(named=True)
    ]
    header = (what, "runs", heading)
    return table(header, body, align=("<", ">", ">"), width=width, stretch=0)


def _time(value: float | None) -> str:
    if value is None:
        return _UNKNOWN
    return us(value) if value else "0"
