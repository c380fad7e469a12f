"""One table of a tool on the terminal: columns that fit, and notes on the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.reporting.page import (
    Piece,
    cut,
    line,
    plain_text,
    table_lines,
    wrap_text,
)
from stepscope.reporting.tables import flatten_table
from stepscope.reporting.words.names import CODE_TEXTS
from stepscope.reporting.words.pages import reason_sentences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.reporting.page import Align, Line
    from stepscope.unavailable import Missing, Unavailable

#: Maximum number of rows on a screen; other formats have all rows.
MAX_ROWS: Final = 50
_MIN_TEXT_WIDTH: Final = 24
_MAX_TEXT_WIDTH: Final = 48
#: Columns to keep if not all columns fit the width; other columns are dropped first.
_IMPORTANT_COLUMNS: Final = (
    *("rank", "step", "host_or_device", "name", "kernel_name", "op_name", "type"),
    *("occurrences", "total_us", "total_self_time_us", "avg_us", "duration_ms"),
    *("bound", "achieved_occupancy_percent", "match_confidence"),
    *("device_time_percent", "device_self_percent", "host_self_percent"),
    *("flags", "total_time_us", "tensor_core_eligible", "uses_tensor_core"),
    *("memory_id", "peak_bytes", "capacity_bytes", "peak_fragmentation"),
)
_UNKNOWN: Final = "–"
#: Column with lists of codes, shown with blanks instead of underscores.
_FLAGS: Final = "flags"
#: Columns that are empty unless measurements of Nsight Compute were given.
_MEASURED_COLUMNS: Final = frozenset(
    {"bound", "achieved_occupancy_percent", "match_confidence"}
)


def render(
    frame: pl.DataFrame,
    *,
    title: str,
    missing: Sequence[Missing],
    others: Sequence[str],
    width: int,
    hint: str = "",
) -> str:
    """Write the table, then say which rows, columns and tables were left out.

    Args:
        missing: Reasons why columns are null.
        others: Names of the other tables of the result.
        hint: Sentence on how to see more of a row.
    """
    flattened = flatten_table(frame)
    # On the terminal words replace the codes; other formats keep the codes.
    widened = flattened.with_columns(
        pl.col(name).str.replace_all("_", " ", literal=True)
        if name == _FLAGS
        else pl.col(name).replace(CODE_TEXTS[name])
        for name, dtype in flattened.schema.items()
        if dtype == pl.String and (name == _FLAGS or name in CODE_TEXTS)
    )
    shown = widened.head(MAX_ROWS)
    names = _fitting_columns(shown, width)
    lines = [line(Piece(title, "heading")), line()]
    lines += _table_body(shown.select(names), width)
    left = [name for name in widened.columns if name not in names]
    lines += _left_out(widened.height, left, others, width, hint=hint)
    if missing:
        lines.append(line())
    for reason in reason_sentences(missing):
        lines += wrap_text(reason, width, indent=2)
    return plain_text(lines)


def render_unavailable(title: str, why: Unavailable, *, width: int) -> str:
    """Write why a tool has no table, and what to do about it."""
    return plain_text(
        [
            line(Piece(title, "heading")),
            line(),
            *wrap_text(f"Not available: {why.reason}", width, indent=2),
            *wrap_text(f"To get it: {why.remedy}", width, indent=2),
            line(Piece(f"  ({why.code})", "dim")),
        ]
    )


def _fitting_columns(frame: pl.DataFrame, width: int) -> list[str]:
    """Choose the columns that fit, important columns first; keep the table's order."""
    texts = [name for name in frame.columns if frame.schema[name] == pl.String]
    # Names are searched for and copied, so their column gets the most width.
    named = [name for name in ("name", "kernel_name") if name in texts]
    widest = next(iter([*named, *texts]), None)
    used = 2
    chosen: set[str] = set()
    empty = {name for name in frame.columns if frame[name].null_count() == frame.height}
    ranked = sorted(
        frame.columns,
        key=lambda name: (
            _IMPORTANT_COLUMNS.index(name)
            if name in _IMPORTANT_COLUMNS and name not in _MEASURED_COLUMNS & empty
            else len(_IMPORTANT_COLUMNS) + (name in _MEASURED_COLUMNS & empty)
        ),
    )
    for name in ranked:
        needed = max(len(name), *(len(_cell_text(cell)) for cell in frame[name]), 1)
        if name in texts:
            width_limit = _MAX_TEXT_WIDTH if name == widest else _MIN_TEXT_WIDTH
            needed = min(needed, max(len(name), width_limit))
        if used + needed > width and chosen:
            continue
        used += needed + 2
        chosen.add(name)
    return [name for name in frame.columns if name in chosen]


def _table_body(frame: pl.DataFrame, width: int) -> list[Line]:
    align: list[Align] = [">" if dtype.is_numeric() else "<" for dtype in frame.dtypes]
    columns = [[_cell_text(value) for value in frame[name]] for name in frame.columns]
    texts = [column for column, dtype in enumerate(frame.dtypes) if dtype == pl.String]
    # Only the longest text column is shortened to make the table fit.
    longest = max(
        texts or range(len(columns)),
        key=lambda column: max((len(cell) for cell in columns[column]), default=0),
    )
    for column in texts:
        if column != longest:
            limit = max(len(frame.columns[column]), _MIN_TEXT_WIDTH)
            columns[column] = [cut(cell, limit) for cell in columns[column]]
    return table_lines(
        frame.columns,
        list(zip(*columns, strict=True)),
        align=align,
        width=width,
        cut_column=longest,
    )


def _left_out(
    height: int, columns: list[str], others: Sequence[str], width: int, *, hint: str
) -> list[Line]:
    notes = []
    if height == 0:
        notes.append("No rows.")
    if height > MAX_ROWS:
        notes.append(
            f"{height - MAX_ROWS:,} of {height:,} rows are not shown; "
            "--format csv has all."
        )
    if columns:
        notes.append(f"More columns: {', '.join(columns)}.")
    if others:
        notes.append(f"More tables (--table NAME): {', '.join(others)}.")
    if hint and height:
        notes.append(hint)
    lines = [piece for note in notes for piece in wrap_text(note, width, indent=2)]
    return [line(), *lines] if lines else []


def _cell_text(value: object) -> str:
    if value is None:
        return _UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.3f}"
    if isinstance(value, int):
        return f"{value:,}"
    return " ".join(str(value).split())
