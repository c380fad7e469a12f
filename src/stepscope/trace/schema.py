"""How tables are declared: in Markdown, one row a column, beside what fills them.

The declarations are data: the docs pages and the page's definitions are generated from
them, and `check` proves that a frame is as declared.
"""

from __future__ import annotations

from functools import cache
from itertools import dropwhile
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

#: The null meaning of a column that never holds null.
NEVER: Final = ""
#: What a file says of such a column.
_NEVER_NULL: Final = "never null"
#: The section of a file whose columns several of its tables have.
_SHARED: Final = "Shared columns"
_NOTHING_SHARED: Final[Mapping[str, Column]] = MappingProxyType({})


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

    def dtypes_from(self, first: str) -> dict[str, pl.DataType]:
        """Return column name → polars type of a column and of all after it."""
        return dict(dropwhile(lambda item: item[0] != first, self.dtypes().items()))

    def cast_columns(self) -> list[pl.Expr]:
        """Return expressions that select the columns of a frame, in order and type."""
        return [pl.col(column.name).cast(column.dtype) for column in self.columns]

    def categories(self, column: str) -> pl.Enum:
        """Return the type of a column that holds one of a few names."""
        dtype = self.dtypes()[column]
        if not isinstance(dtype, pl.Enum):
            raise TypeError(f"{self.name}.{column} is {dtype}, not an Enum")
        return dtype


def read_tables(
    path: Path, shared: Mapping[str, Column] = _NOTHING_SHARED
) -> dict[str, TableSchema]:
    """Return the tables that a file declares, by name.

    A section is a table: what a row is, the order of rows, and a row for each column. A
    row that holds a name only is the column of this name among those that the file's
    tables share, else in `shared`.

    Raises:
        ValueError: The file declares a table or a column twice, or a row is incomplete.
    """
    known = dict(shared)
    tables: dict[str, TableSchema] = {}
    for section in path.read_text(encoding="utf-8").split("\n## ")[1:]:
        name, _, text = section.partition("\n")
        if name in tables:
            raise ValueError(f"{path}: {name} is declared twice")
        columns = read_columns(text, known)
        if name == _SHARED:
            known |= columns
            continue
        head = text.strip().partition("\n")[0].removeprefix("A row is ")
        row, _, order = head.removesuffix(".").partition(". Order: ")
        tables[name] = TableSchema(name, row, order, tuple(columns.values()))
    return tables


def read_columns(text: str, known: Mapping[str, Column]) -> dict[str, Column]:
    """Return the columns that the rows of one Markdown table declare, by name."""
    columns: dict[str, Column] = {}
    for name, *cells in read_rows(text):
        if name in columns:
            raise ValueError(f"the column {name} is declared twice")
        if not cells:
            columns[name] = known[name]
            continue
        dtype, unit, null, about = cells
        meaning = NEVER if null == _NEVER_NULL else null
        columns[name] = Column(name, _parse_dtype(dtype), unit, meaning, about)
    return columns


def read_rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of each row of a Markdown table."""
    _, _, body = text.partition("\n|---")
    for line in body.splitlines()[1:]:
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def read_reasons(path: Path) -> dict[str, Unavailable]:
    """Return why something is missing, by key.

    A row of the file is key, code, reason, and remedy or its id.
    """
    return {
        key: Unavailable(
            code=code,
            reason=reason,
            remedy=Remedy[remedy] if remedy.isupper() else remedy,
        )
        for key, code, reason, remedy in read_rows(path.read_text(encoding="utf-8"))
    }


@cache
def _parse_dtype(text: str) -> pl.DataType:
    """Return the type of a name as in `Int64`, `List(String)` or `Enum(one, other)`."""
    name, _, inside = text.removesuffix(")").partition("(")
    if name == "List":
        return pl.List(_parse_dtype(inside))
    if name == "Enum":
        return pl.Enum(inside.split(", "))
    dtype: pl.DataType = getattr(pl, name)()
    return dtype


def check_frame(schema: TableSchema, frame: pl.DataFrame) -> list[str]:
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
