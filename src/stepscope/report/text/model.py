"""A view of the model on the screen: a tree, the costly nodes of it first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.report.page import Piece, line, plain_text, table, wrapped
from stepscope.report.to_table import MOST_ROWS
from stepscope.report.words.names import us
from stepscope.report.words.reasons import reasons

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from stepscope.analysis.model_views import ModelViewsResult
    from stepscope.report.page import Align, Line
    from stepscope.unavailable import Missing

_UNKNOWN: Final = "–"
_INDENT: Final = "  "
#: Column → its heading on the screen.
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
#: The view of the program's lines, and its columns.
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
    "Where a function stands beside a line, the times are of all its lines: which of "
    "them ran is not recorded. Any other line is named by its ops."
)
_SEEN: Final = (
    "Lines of functions were seen by looks at the stack: a line of Python without a "
    "call counts with the next one that has a call, or that ends a loop."
)
_BOTH: Final = (
    "Of some functions the lines are not recorded: where exact is false (--format "
    "csv), the times are of all lines of the function."
)
#: Columns whose numbers need a unit to be readable.
_TIMES: Final = frozenset({"total_us", "step_us", *_OF_LINES} - {"percent"})
#: Column of large numbers → its unit.
_LARGE: Final = {"flops": "", "parameters": "", "allocated_bytes": "B"}
#: The view of the ranges that the program named.
_RANGES: Final = "annotation"
_CLOCK: Final = (
    "total and self are times of the host's clock in a range, with and without the "
    "ranges inside it; device is the work that was launched in it."
)
_OUTSIDE: Final = "unannotated_device_us"
#: Fields that are about one view each.
_OF_VIEWS: Final = frozenset({"scope", "graph", "op", "code", _LINES, _RANGES})
_THOUSANDS: Final = (" ", " k", " M", " G", " T", " P", " E")
#: Smallest share that is written as 100.0.
_ALL_PERCENT: Final = 99.95
#: A label is shortened down to this width to make room for the numbers.
_NARROWEST: Final = 24


def render(
    result: ModelViewsResult,
    *,
    view: str,
    title: str,
    others: Sequence[str],
    width: int,
) -> str:
    """Write the tree of one view.

    Args:
        result: All views.
        view: Name of the view to show.
        title: Heading of the page.
        others: Names of the result's other tables.
        width: Number of characters in a line.
    """
    rows: pl.DataFrame = getattr(result, view)
    shown = _costliest(rows)
    known = _OF_LINES if view == _LINES else _HEADINGS
    columns = [name for name in known if _tells(rows, name, view)]
    numbers = [[_cell(name, value) for value in shown[name]] for name in columns]
    headings = [view, *(known[name] for name in columns)]
    align: list[Align] = ["<", *("<" if it == "type" else ">" for it in columns)]
    lines = [line(Piece(title, "heading")), line()]
    lines += table(
        headings,
        list(zip(_labels(shown, view), *numbers, strict=True)),
        align=align,
        width=max(width, _NARROWEST),
        stretch=0,
    )
    lines += _notes(result, rows, view=view, others=others, width=width)
    lines += reasons(_about(result, view), width)
    return plain_text(lines)


def _costliest(rows: pl.DataFrame) -> pl.DataFrame:
    """Choose the costliest rows that fit; a parent costs no less than its child."""
    if rows.height <= MOST_ROWS:
        return rows
    if "total_us" not in rows.columns:
        return rows.head(MOST_ROWS)
    chosen = rows.sort(
        "total_us", "id", descending=[True, False], maintain_order=True
    ).head(MOST_ROWS)
    return chosen.sort("id")


def _tells(rows: pl.DataFrame, name: str, view: str) -> bool:
    """Return whether a column is worth showing: not one that is null in every row."""
    if name not in rows.columns or (name == "type" and view in {"op", "code"}):
        return False
    return rows[name].null_count() < rows.height


def _labels(rows: pl.DataFrame, view: str) -> list[str]:
    """Return indented names; of a path only the part that the parent does not show."""
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


def _cell(name: str, value: float | str | None) -> str:
    if value is None:
        return _UNKNOWN
    if isinstance(value, str):
        return value
    if name in _TIMES:
        return us(value) if value else "0"
    if name == "percent":
        return f"{value:.1f}"
    if name in _LARGE:
        return f"{_scaled(value)}{_LARGE[name]}".rstrip()
    return f"{value:,}"


def _scaled(value: float) -> str:
    """Write four digits and a power of a thousand: `6.011 T`."""
    for unit in _THOUSANDS:
        if abs(value) < 1000 or unit == _THOUSANDS[-1]:
            return f"{value:.4g}{unit}"
        value /= 1000
    return f"{value:,}"


def _notes(
    result: ModelViewsResult,
    rows: pl.DataFrame,
    *,
    view: str,
    others: Sequence[str],
    width: int,
) -> list[Line]:
    notes = []
    if not rows.height:
        notes.append("No node is left by these options.")
    if rows.height > MOST_ROWS:
        costly = "total_us" in rows.columns or view == _LINES
        which = "costliest" if costly else "first"
        notes.append(
            f"The {MOST_ROWS} {which} of {rows.height:,} nodes; "
            f"{'' if view == _LINES else '--max-depth and '}--min-micros "
            f"choose{'s' * (view == _LINES)} others, --format csv has all."
        )
    known = result.flops_known_percent
    counted = "flops" in rows.columns and rows["flops"].count()
    if counted and known is not None and known < _ALL_PERCENT:
        notes.append(
            f"flops are those of ops that take {known:.1f} % of the time; for the "
            "rest they are not known."
        )
    if view == _LINES:
        notes += _about_lines(rows)
    if view == _RANGES:
        notes += _about_ranges(result)
    left = [name for name in others if name != view]
    notes.append(f"More views and tables (--table NAME): {', '.join(left)}.")
    found = [piece for note in notes for piece in wrapped(note, width, indent=2)]
    return [line(), *found]


def _about_lines(rows: pl.DataFrame) -> list[str]:
    exact = set(rows.drop_nulls("function")["exact"])
    if exact == {False}:
        return [_FUNCTIONS]
    return [_SEEN] * (True in exact) + [_BOTH] * (False in exact)


def _about_ranges(result: ModelViewsResult) -> list[str]:
    notes = [_CLOCK]
    outside = result.unannotated_device_us
    if outside:
        notes.append(
            f"{us(outside)} of device work was launched in none of these ranges: by "
            "other threads, or outside of them."
        )
    return [*notes, "One range closely: --op NAME."]


def _about(result: ModelViewsResult, view: str) -> list[Missing]:
    """Return what is missing in this view and in the result as a whole."""
    others = _OF_VIEWS - {view}
    fields = [(one, one.field.split(".")[0]) for one in result.missing]
    return [
        one
        for one, field in fields
        if field not in others and (field != _OUTSIDE or view == _RANGES)
    ]
