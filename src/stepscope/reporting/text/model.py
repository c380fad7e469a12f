"""Pages of text for views of the model, and for one named range in detail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.reporting.outline.cells import (
    UNKNOWN,
    count_cell,
    known,
    reason_parts,
    table_of_rows,
    text_cell,
    us_cell,
)
from stepscope.reporting.outline.parts import Break, Heading, Paragraph, Table, outlined
from stepscope.reporting.to_table import MAX_ROWS
from stepscope.reporting.words.names import us

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.analysis.model_views import AnnotationDetailResult, ModelViewsResult
    from stepscope.reporting.outline.cells import TableColumn
    from stepscope.reporting.outline.parts import Part

_INDENT: Final = "  "
#: Column → its heading on the page.
_HEADINGS: Final = {
    "total_us": "total",
    "percent": "%",
    "self_us": "self",
    "total_device_us": "device",
    "occurrences": "count",
    "launches": "launches",
    "step_us": "per step",
    "flops": "flops",
    "parameters": "parameters",
    "allocated_bytes": "allocated",
    "type": "type",
}
#: The view of source lines, and its columns.
_LINES: Final = "source"
_OF_LINES: Final = {
    "self_us": "self",
    "percent": "%",
    "host_us": "host self",
    "total_host_us": "host total",
    "device_us": "device self",
    "total_device_us": "device total",
}
_FUNCTIONS: Final = (
    "A line with a function has the times of the whole function: the recording does "
    "not show which of its lines ran. Lines without a function come from ops."
)
_SAMPLED_LINES_NOTE: Final = (
    "Times of lines in functions come from stack samples: the time of a line without "
    "a call is added to the next line that has a call or ends a loop."
)
_MIXED_LINES_NOTE: Final = (
    "The lines of some functions were not recorded: if exact is false (--format csv), "
    "the times are those of the whole function."
)
#: Columns of times in µs, which are written with a unit.
_TIMES: Final = frozenset({"total_us", "step_us", *_OF_LINES} - {"percent"})
#: Column of large numbers → its unit.
_LARGE: Final = {"flops": "", "parameters": "", "allocated_bytes": "B"}
#: The view of ranges that the program named.
_RANGES: Final = "annotation"
_CLOCK: Final = (
    "total and self are host times of a range, with and without the ranges inside it; "
    "device is the time of the device work that the range launched."
)
_UNANNOTATED: Final = "unannotated_device_us"
#: Fields of the result that belong to one view each.
_OF_VIEWS: Final = frozenset({"scope", "graph", "op", "code", _LINES, _RANGES})
_THOUSANDS: Final = (" ", " k", " M", " G", " T", " P", " E")
#: Minimum percentage that is written as 100.0.
_ALL_PERCENT: Final = 99.95


@outlined
def view_outline(
    result: ModelViewsResult, *, view: str, title: str, others: Sequence[str]
) -> Iterator[Part]:
    """Write the tree of one view, then the names of the other tables of the result."""
    rows: pl.DataFrame = getattr(result, view)
    shown = rows
    if rows.height > MAX_ROWS and "total_us" in rows.columns:
        # A parent has at least its child's time, so it is shown if the child is.
        by_time = rows.sort(
            "total_us", "id", descending=[True, False], maintain_order=True
        )
        shown = by_time.head(MAX_ROWS).sort("id")
    headings = _OF_LINES if view == _LINES else _HEADINGS
    columns = [
        name
        for name in headings
        if name in rows.columns
        and not (name == "type" and view in {"op", "code"})
        and rows[name].null_count() < rows.height
    ]
    numbers = [[_number_cell(name, value) for value in shown[name]] for name in columns]
    types = (place for place, name in enumerate(columns, 1) if name == "type")
    yield Paragraph(title, role="heading", indent=0)
    yield Break()
    yield Table(
        (view, *(headings[name] for name in columns)),
        tuple(zip(_node_labels(shown, view), *numbers, strict=True)),
        left=frozenset({0, *types}),
    )
    yield Break()
    yield from map(Paragraph, _view_notes(result, rows, view=view, others=others))
    hidden = _OF_VIEWS - {view} | ({_UNANNOTATED} if view != _RANGES else set())
    yield from reason_parts(
        [entry for entry in result.missing if entry.field.split(".")[0] not in hidden]
    )


def _node_labels(rows: pl.DataFrame, view: str) -> list[str]:
    """Return indented names of nodes; a path is shown without its parent's path."""
    if view == _LINES:
        return rows["name"].to_list()
    names = dict(zip(rows["id"], rows["name"], strict=True))
    labels = []
    for name, parent, depth in zip(
        rows["name"], rows["parent"], rows["depth"], strict=True
    ):
        own = name
        if view == "scope" and parent in names:
            own = name.removeprefix(f"{names[parent]}/")
        labels.append(_INDENT * (depth - 1) + own)
    return labels


def _number_cell(name: str, value: float | str | None) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, str):
        return value
    if name in _TIMES:
        return us_cell(value)
    if name == "percent":
        return f"{value:.1f}"
    if name in _LARGE:
        return f"{_scaled_number(value)}{_LARGE[name]}".rstrip()
    return f"{value:,}"


def _scaled_number(value: float) -> str:
    """Write a number with four digits and a prefix of its unit: `6.011 T`."""
    for unit in _THOUSANDS:
        if abs(value) < 1000 or unit == _THOUSANDS[-1]:
            return f"{value:.4g}{unit}"
        value /= 1000
    return f"{value:,}"


def _view_notes(
    result: ModelViewsResult, rows: pl.DataFrame, *, view: str, others: Sequence[str]
) -> list[str]:
    notes = []
    if not rows.height:
        notes.append("These options select no node.")
    if rows.height > MAX_ROWS:
        costly = "total_us" in rows.columns or view == _LINES
        which = "costliest" if costly else "first"
        notes.append(
            f"These are the {MAX_ROWS} {which} of {rows.height:,} nodes. For others: "
            f"{'' if view == _LINES else '--max-depth and '}--min-micros; for all: "
            "--format csv."
        )
    known = result.flops_known_percent
    counted = "flops" in rows.columns and rows["flops"].count()
    if counted and known is not None and known < _ALL_PERCENT:
        notes.append(
            f"flops are known for ops with {known:.1f} % of the time; the flops of "
            "other ops are unknown."
        )
    if view == _LINES:
        exact = set(rows.drop_nulls("function")["exact"])
        notes += [_FUNCTIONS] if exact == {False} else []
        notes += [_SAMPLED_LINES_NOTE] if True in exact else []
        notes += [_MIXED_LINES_NOTE] if exact == {True, False} else []
    if view == _RANGES:
        notes.append(_CLOCK)
        if outside := result.unannotated_device_us:
            notes.append(
                f"{us(outside)} of device work was launched outside of these ranges or "
                "by other threads."
            )
        notes.append("Details of one range: --op NAME.")
    left = [name for name in others if name != view]
    return [*notes, f"More views and tables (--table NAME): {', '.join(left)}."]


#: Maximum number of rows of each table on the page.
_MAX_ROWS: Final = 10
_OF_ANNOTATION: Final = frozenset(
    {"annotation", "detail", "hosts", "unannotated_device_us"}
)
_OF_TREE: Final[tuple[TableColumn, ...]] = (
    ("annotation", "name", text_cell),
    ("calls", "occurrences", count_cell),
    ("host", "total_us", us_cell),
    ("self", "self_us", us_cell),
    ("device", "total_device_us", us_cell),
)
_CALLS: Final[tuple[TableColumn, ...]] = (
    ("thread", "thread", text_cell),
    ("step", "step", known(str)),
    ("began", "start_ms", "{:,.3f} ms".format),
    ("host", "host_us", us_cell),
    ("device", "device_us", us_cell),
)
_BY_STEP: Final[tuple[TableColumn, ...]] = (
    ("step", "step", str),
    ("calls", "occurrences", count_cell),
    ("host", "host_us", us_cell),
    ("device", "device_us", us_cell),
)
_OPS_INSIDE: Final[tuple[TableColumn, ...]] = (
    ("op", "name", text_cell),
    ("runs", "occurrences", count_cell),
    ("self time", "host_self_us", us_cell),
)
_KERNELS: Final[tuple[TableColumn, ...]] = (
    ("kernel or copy", "name", text_cell),
    ("runs", "occurrences", count_cell),
    ("total", "total_us", us_cell),
)


@outlined
def annotation_outline(
    result: AnnotationDetailResult, *, title: str, others: Sequence[str]
) -> Iterator[Part]:
    """Write the time of one annotation, its calls, its steps, and its ops and kernels.

    Args:
        others: Names of tables that can be shown or exported in full.
    """
    detail = result.detail
    yield Paragraph(title, strong=True)
    yield Paragraph(f"annotation {detail.name}", role="heading", indent=0)
    yield from _calls_of_annotation(result)
    tree = result.annotation
    if not {"occurrences", "total_us", "total_device_us"} <= set(tree.columns):
        tree = tree.clear()
    tree = tree.with_columns(pl.Series("name", _node_labels(tree, _RANGES), pl.String))
    for heading, rows, columns in (
        ("In the tree of annotations", tree, _OF_TREE),
        ("Calls", detail.calls, _CALLS),
        ("By step", detail.by_step, _BY_STEP),
        ("Ops in the range, on its thread", detail.ops, _OPS_INSIDE),
        ("Work launched by the range", detail.kernels, _KERNELS),
    ):
        if rows is not None and not rows.is_empty():
            yield Heading(heading)
            yield table_of_rows(rows.head(_MAX_ROWS), columns)
    yield Break()
    names = [name for name in others if name.startswith("detail.")]
    yield Paragraph(f"Full tables (--table NAME): {', '.join(['annotation', *names])}.")
    own = [
        entry for entry in result.missing if entry.field.split(".")[0] in _OF_ANNOTATION
    ]
    yield from reason_parts(own)


def _calls_of_annotation(result: AnnotationDetailResult) -> Iterator[Part]:
    detail = result.detail
    if not detail.call_count:
        yield Paragraph("The range has no call in these steps.")
        return
    longest = detail.calls.row(0, named=True)
    where = "" if longest["step"] is None else f", in step {longest['step']}"
    plural = "s" if detail.call_count != 1 else ""
    yield Paragraph(
        f"{detail.call_count:,} call{plural}, {us(detail.host_us)} on the host; the "
        f"longest took {us(longest['host_us'])} (at {longest['start_ms']:,.3f} ms"
        f"{where})"
    )
    if detail.device_us is None or detail.launches is None:
        return
    count = f"{detail.launches:,} launch{'es' if detail.launches != 1 else ''}"
    yield Paragraph(
        f"{count} in the range started {us(detail.device_us)} of device work; work "
        "launched by other threads is excluded"
    )
