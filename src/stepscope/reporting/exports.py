"""A table as a CSV file (RFC 4180, safe to open in a spreadsheet) or a Parquet file."""

from __future__ import annotations

import io
from typing import Final

import polars as pl

from stepscope.reporting.envelope import SCHEMA
from stepscope.reporting.tables import flatten_table

#: First characters for which a spreadsheet reads a cell as a formula.
_FORMULA: Final = r"^[=+\-@\t\r]"
_NUMBER: Final = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def render_csv(frame: pl.DataFrame, *, schema_line: bool = False) -> str:
    """Write a header, then one line per row; an unknown value is an empty cell.

    A text that begins like a formula and is not a number is preceded by an apostrophe.
    With `schema_line`, the first line has the version of the table.

    Definition: docs/definitions/times-and-values.md#csv.
    """
    widened = flatten_table(frame)
    cells = [_safe_cell(name, dtype) for name, dtype in widened.schema.items()]
    text = widened.select(cells).write_csv(line_terminator="\r\n")
    return f"# stepscope schema {SCHEMA}\r\n{text}" if schema_line else text


def _safe_cell(name: str, dtype: pl.DataType) -> pl.Expr:
    cell = pl.col(name)
    if dtype.is_float():
        return pl.when(cell.is_finite()).then(cell).otherwise(None).alias(name)
    if isinstance(dtype, pl.String | pl.Categorical | pl.Enum):
        text = cell.cast(pl.String)
        risky = text.str.contains(_FORMULA) & ~text.str.contains(_NUMBER)
        return pl.when(risky).then("'" + text).otherwise(text).alias(name)
    return cell


def render_parquet(frame: pl.DataFrame) -> bytes:
    """Write Parquet whose metadata have the version of the table.

    The format has no structs without fields, so these become null.
    """
    writable = frame.with_columns(
        _writable_cell(pl.col(name), dtype).alias(name)
        for name, dtype in frame.schema.items()
        if _has_empty(dtype)
    )
    file = io.BytesIO()
    writable.write_parquet(file, metadata={"stepscope.schema": str(SCHEMA)})
    return file.getvalue()


def _has_empty(dtype: object) -> bool:
    if isinstance(dtype, pl.Struct):
        return not dtype.fields or any(
            _has_empty(field.dtype) for field in dtype.fields
        )
    return isinstance(dtype, pl.List) and _has_empty(dtype.inner)


def _writable_cell(cell: pl.Expr, dtype: object) -> pl.Expr:
    if isinstance(dtype, pl.List):
        return cell.list.eval(_writable_cell(pl.element(), dtype.inner))
    if not isinstance(dtype, pl.Struct) or not dtype.fields:
        return pl.lit(None, pl.String)
    parts = [
        _writable_cell(cell.struct.field(field.name), field.dtype).alias(field.name)
        for field in dtype.fields
        if _has_empty(field.dtype)
    ]
    return cell.struct.with_fields(*parts)
