"""Declaration of tables in Markdown files, with one row per column.

The declarations are data: the docs pages and the definitions of the web page are
generated from them.
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

#: Value of `Column.null` for a column that is never null.
NEVER: Final = ""
#: Text in a declaration for a column that is never null.
_NEVER_NULL: Final = "never null"
#: Heading of the section that declares columns shared by several tables.
_SHARED: Final = "Shared columns"
_NOTHING_SHARED: Final[Mapping[str, Column]] = MappingProxyType({})


class Column(Frozen, frozen=True, eq=True):
    """One declared column.

    Attributes:
        name: Name in snake_case; it ends in the unit if the unit is not the default.
        dtype: Type in polars.
        unit: "ps", "bytes", "row of events", "handle", …; "" for plain values.
        null: Meaning of null; `NEVER` if the column is never null.
        about: Meaning of a value of the column, in one sentence.
    """

    name: str
    dtype: pl.DataType
    unit: str
    null: str
    about: str


class TableSchema(Frozen, frozen=True, eq=True):
    """A table's declaration: name, meaning of a row, order of the rows, and columns."""

    name: str
    row: str
    order: str
    columns: tuple[Column, ...]

    def dtypes(self) -> dict[str, pl.DataType]:
        """Return column name → polars type, in declared order."""
        return {column.name: column.dtype for column in self.columns}

    def dtypes_from(self, first: str) -> dict[str, pl.DataType]:
        """Return column name → polars type, from the column `first` on."""
        return dict(dropwhile(lambda item: item[0] != first, self.dtypes().items()))

    def cast_columns(self) -> list[pl.Expr]:
        """Return expressions that select the declared columns, in order and type."""
        return [pl.col(column.name).cast(column.dtype) for column in self.columns]

    def categories(self, column: str) -> pl.Enum:
        """Return the enum type of a column whose values are a few fixed names."""
        dtype = self.dtypes()[column]
        if not isinstance(dtype, pl.Enum):
            raise TypeError(f"{self.name}.{column} is {dtype}, not an Enum")
        return dtype


def read_tables(
    path: Path, shared: Mapping[str, Column] = _NOTHING_SHARED
) -> dict[str, TableSchema]:
    """Return the tables that a Markdown file declares, by name.

    A section declares a table: the meaning of a row, the order of rows, and one row per
    column. A row with only a name refers to a shared column of the file or of `shared`.

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
    """Return the columns that one Markdown table declares, by name."""
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
    """Return the reasons for missing data that a Markdown file declares, by key.

    Each row of the file has the key, the code, the reason, and the remedy or its id.
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
    """Return the type of a name like `Int64`, `List(String)` or `Enum(one, other)`."""
    name, _, inside = text.removesuffix(")").partition("(")
    if name == "List":
        return pl.List(_parse_dtype(inside))
    if name == "Enum":
        return pl.Enum(inside.split(", "))
    dtype: pl.DataType = getattr(pl, name)()
    return dtype
