"""The tables of a result beside their declarations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import msgspec
import polars as pl

from stepscope.trace.schema import TableSchema

if TYPE_CHECKING:
    from collections.abc import Iterator


def declared_tables(value: Any) -> Iterator[tuple[TableSchema, pl.DataFrame]]:
    """Every table inside a result, with the declaration in its field's type."""
    if isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            inner = getattr(value, field.name)
            if isinstance(inner, pl.DataFrame):
                yield _schema_in(field.type), inner
            else:
                yield from declared_tables(inner)
    elif isinstance(value, dict):
        for inner in value.values():
            yield from declared_tables(inner)
    elif isinstance(value, tuple):
        for inner in value:
            yield from declared_tables(inner)


def _schema_in(annotation: Any) -> TableSchema:
    for part in get_args(annotation):
        if isinstance(part, TableSchema):
            return part
        if get_args(part):
            return _schema_in(part)
    raise AssertionError(f"no declaration in {annotation}")
