"""A table as Parquet, types and nesting kept."""

from __future__ import annotations

import io

import polars as pl


def render(frame: pl.DataFrame) -> bytes:
    """Write the file; an object without fields, which Parquet lacks, becomes null."""
    writable = frame.with_columns(
        _writable(pl.col(name), dtype).alias(name)
        for name, dtype in frame.schema.items()
        if _has_empty(dtype)
    )
    file = io.BytesIO()
    writable.write_parquet(file)
    return file.getvalue()


def _has_empty(dtype: object) -> bool:
    """Return whether a type holds an object without fields, at any depth."""
    if isinstance(dtype, pl.Struct):
        return not dtype.fields or any(_has_empty(one.dtype) for one in dtype.fields)
    return isinstance(dtype, pl.List) and _has_empty(dtype.inner)


def _writable(cell: pl.Expr, dtype: object) -> pl.Expr:
    if isinstance(dtype, pl.List):
        return cell.list.eval(_writable(pl.element(), dtype.inner))
    if not isinstance(dtype, pl.Struct) or not dtype.fields:
        return pl.lit(None, pl.String)
    parts = [
        _writable(cell.struct.field(one.name), one.dtype).alias(one.name)
        for one in dtype.fields
        if _has_empty(one.dtype)
    ]
    return cell.struct.with_fields(*parts)
