"""How a table is declared: each column's type, unit, null meaning and one sentence.

The declarations are data. The docs page of the tables is generated from them, and
`check` proves that a reader filled a table as declared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    import polars as pl

#: The null meaning of a column that never holds null.
NEVER: Final = ""


class Column(Frozen, frozen=True, eq=True):
    """One declared column.

    Attributes:
        name: snake_case; the name ends in the unit where the unit is not the default.
        dtype: The polars type.
        unit: "ps", "bytes", "row of events", "handle", …; "" for plain values.
        null: What null means; `NEVER` where it cannot occur.
        about: What a value of the column is, in one sentence.
    """

    name: str
    dtype: pl.DataType
    unit: str
    null: str
    about: str


class TableSchema(Frozen, frozen=True, eq=True):
    """A table: its name, what a row is, its order, and its columns."""

    name: str
    row: str
    order: str
    columns: tuple[Column, ...]

    def dtypes(self) -> dict[str, pl.DataType]:
        """Return column name → polars type, in declared order."""
        return {column.name: column.dtype for column in self.columns}


def check(schema: TableSchema, frame: pl.DataFrame) -> list[str]:
    """List every way in which a frame differs from its declaration (empty: none)."""
    problems = [
        f"{schema.name}.{name}: missing"
        for name in schema.dtypes()
        if name not in frame.columns
    ]
    problems += [
        f"{schema.name}.{name}: not declared"
        for name in frame.columns
        if name not in schema.dtypes()
    ]
    for column in schema.columns:
        if column.name not in frame.columns:
            continue
        series = frame[column.name]
        if series.dtype != column.dtype:
            problems.append(
                f"{schema.name}.{column.name}: {series.dtype}, not {column.dtype}"
            )
        if column.null == NEVER and series.null_count():
            problems.append(f"{schema.name}.{column.name}: holds null")
    return problems
