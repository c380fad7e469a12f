"""A table as CSV: RFC 4180, safe to open in a spreadsheet."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.report.tables import flat

#: First characters of a cell that a spreadsheet takes for a formula.
_FORMULA: Final = r"^[=+\-@\t\r]"
_NUMBER: Final = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def render(frame: pl.DataFrame) -> str:
    """Write a header, then one line per row; an unknown value is an empty cell.

    A text that begins like a formula and is no number is preceded by an apostrophe.

    Definition: docs/definitions/times-and-values.md#csv.
    """
    widened = flat(frame)
    cells = [_cell(name, dtype) for name, dtype in widened.schema.items()]
    return widened.select(cells).write_csv(line_terminator="\r\n")


def _cell(name: str, dtype: pl.DataType) -> pl.Expr:
    cell = pl.col(name)
    if dtype.is_float():
        return pl.when(cell.is_finite()).then(cell).otherwise(None).alias(name)
    if isinstance(dtype, pl.String | pl.Categorical | pl.Enum):
        text = cell.cast(pl.String)
        risky = text.str.contains(_FORMULA) & ~text.str.contains(_NUMBER)
        return pl.when(risky).then("'" + text).otherwise(text).alias(name)
    return cell
