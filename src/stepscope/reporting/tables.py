"""The tables in a result, and functions that search and sort a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec
import polars as pl

from stepscope.analysis.results.walk import is_rows, struct_fields, walk_fields
from stepscope.errors import BadUsage
from stepscope.reporting.plain import plain, plain_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.results.walk import Row
    from stepscope.reporting.plain import Plain

#: Options that limit the length of tables on a screen; exported files have all rows.
LIMITS: Final = frozenset({"points", "most_calls"})
#: Name of the table of all single values of a result.
SUMMARY: Final = "summary"
#: Names that the main table of a result may have; the first existing one is used.
_MAIN: Final = ("rows", "workers", "steps")


def tables(result: msgspec.Struct) -> dict[str, pl.DataFrame]:
    """Return the lists of rows in a result by field name, and its single values.

    The field names of nested fields are joined by dots. Rows inside rows become a
    separate table, whose first column is the number of the outer row, from 0. The table
    of single values has the text columns `field` and `value`; an unknown value is null.
    """
    frames: dict[str, pl.DataFrame] = {}
    lone: list[tuple[str, str | None]] = []
    for name, value in walk_fields(result):
        if isinstance(value, pl.DataFrame):
            frames[name] = value
        elif is_rows(value):
            frames |= _with_rows_inside(name, value)
        else:
            lone.append((name, _cell_text(plain(value))))
    frames[SUMMARY] = pl.DataFrame(
        lone, schema={"field": pl.String, "value": pl.String}, orient="row"
    )
    return frames


def choose_table(frames: dict[str, pl.DataFrame], name: str | None) -> pl.DataFrame:
    """Return the table with a name, or the main table if no name is given."""
    name = name or name_of_main(frames)
    if name not in frames:
        raise BadUsage.unknown_name("table", name, frames)
    return frames[name]


def name_of_main(frames: dict[str, pl.DataFrame]) -> str:
    """Return the name of the table that is shown by default."""
    return next((main for main in _MAIN if main in frames), next(iter(frames)))


def flatten_table(frame: pl.DataFrame) -> pl.DataFrame:
    """Replace nested columns: a struct becomes several columns, a list becomes text."""
    while any(isinstance(dtype, pl.Struct) for dtype in frame.dtypes):
        frame = pl.DataFrame(
            [part for column in frame for part in _widen_struct(column)]
        )
    return frame.with_columns(
        pl.Series(
            column.name,
            [
                _cell_text(
                    plain(cell.to_list() if isinstance(cell, pl.Series) else cell)
                )
                for cell in column
            ],
            pl.String,
        )
        for column in frame
        if isinstance(column.dtype, pl.List | pl.Array)
    )


def _widen_struct(series: pl.Series) -> list[pl.Series]:
    if not isinstance(series.dtype, pl.Struct):
        return [series]
    return [part.alias(f"{series.name}.{part.name}") for part in series.struct.unnest()]


def _with_rows_inside(name: str, rows: Sequence[Row]) -> dict[str, pl.DataFrame]:
    """Return a list of rows as a table, and each list in its fields as a table."""
    outer: list[dict[str, Plain]] = []
    inner: dict[str, list[dict[str, Plain]]] = {}
    for number, row in enumerate(rows):
        outer.append({})
        for field, value in (struct_fields(row) or {}).items():
            if is_rows(value):
                of_field = inner.setdefault(f"{name}.{field}", [])
                of_field += [
                    {name: number, **plain_fields(inner_row)} for inner_row in value
                ]
            else:
                outer[-1][field] = plain(value)
    # If a field of any outer row contains rows, it becomes a table instead of a column.
    outer = [
        {field: cell for field, cell in row.items() if f"{name}.{field}" not in inner}
        for row in outer
    ]
    return {
        key: pl.DataFrame(table, infer_schema_length=None)
        for key, table in {name: outer, **inner}.items()
    }


def _cell_text(value: Plain) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else None
    if isinstance(value, list) and all(isinstance(part, str | int) for part in value):
        return "; ".join(str(part) for part in value)
    return msgspec.json.encode(value).decode()


def arrange_rows(
    frame: pl.DataFrame,
    *,
    holding: str = "",
    sort: str | None = None,
    descending: bool = False,
) -> pl.DataFrame:
    """Return the flattened table, filtered by a text and sorted by a column.

    Unknown values come last in both orders; equal values keep the order of the table.

    Args:
        frame: A table of a result.
        holding: Text that a cell of each row must contain (any case); empty for all.
        sort: Name of a column of the flattened table; None for the order of the table.
        descending: Whether the largest value comes first.

    Raises:
        BadUsage: The flattened table has no column `sort`.
    """
    shown = flatten_table(frame)
    if holding:
        texts = [name for name in shown.columns if shown.schema[name] == pl.String]
        wanted = holding.lower()
        matches = [
            pl.col(name).str.to_lowercase().str.contains(wanted, literal=True)
            for name in texts
        ]
        shown = shown.filter(pl.any_horizontal(matches)) if matches else shown.clear()
    if sort is None:
        return shown
    if sort not in shown.columns:
        raise BadUsage.unknown_name("column", sort, shown.columns)
    return shown.sort(sort, descending=descending, nulls_last=True, maintain_order=True)
