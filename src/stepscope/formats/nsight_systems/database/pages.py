"""Columns of numbers straight from the pages of a database, many times as fast as SQL.

What is not quite regular is left to SQLite: damaged pages, rows that go on in other
pages, columns that are computed, have a default or are the key of their table.

Definition: docs/formats/nsight_systems.md#how-a-database-is-opened.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from stepscope._core import pivot as kernels
from stepscope.cores import core_count
from stepscope.formats.nsight_systems.database.connection import LEAST_ROW_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from stepscope.formats.nsight_systems.database.connection import Database

__all__ = ["regular_columns"]

#: Places in the header of the file: the size of a page, and what each keeps back.
_PAGE_BYTES: Final = slice(16, 18)
_KEPT_BACK: Final = 20
_HEADER_BYTES: Final = 100
#: No tree of pages is deeper: each level has twice the pages, at the least.
_DEEPEST: Final = 64
#: Fewer rows are read sooner than another thread begins.
_ROWS_OF_A_THREAD: Final = 100_000
#: Parts of a declared type by which SQLite makes fractions of integers.
_FRACTIONS: Final = ("REAL", "FLOA", "DOUB")


def regular_columns(
    database: Database, table: str, columns: Mapping[str, pl.DataType]
) -> pl.DataFrame | None:
    """Return columns of a table in the order of its rows; None where SQL must read it.

    Args:
        database: The open database.
        table: A declared table that the database has.
        columns: Column → its type.

    Raises:
        sqlite3.Error: The table's own description cannot be read.
    """
    slots = _slots(database, table, columns)
    if slots is None:
        return None
    leaves = _leaves(database, table)
    if leaves is None:
        return None
    data, page_bytes, pages = leaves
    usable = page_bytes - int(data[_KEPT_BACK])
    cells = _rows_of_pages(data, page_bytes, pages)
    if cells is None or usable < page_bytes // 2:
        return None
    row_of_page = np.concatenate([[0], np.cumsum(cells)])
    count = int(row_of_page[-1])
    if count > len(data) // LEAST_ROW_BYTES:
        return None
    values = np.empty((len(columns), count), np.int64)
    known = np.zeros((len(columns), count), np.uint8)

    def read(begin: int, end: int) -> bool:
        found: int = kernels.sqlite_numbers(
            data.data,
            page_bytes,
            usable,
            pages[begin:end],
            slots,
            row_of_page[begin],
            values,
            known,
            np.empty(1, np.int64),
        )
        return found == int(row_of_page[end])

    if not all(_side_by_side(read, len(pages), worth=count // _ROWS_OF_A_THREAD)):
        return None
    return pl.DataFrame(
        [
            _series(name, dtype, values[slot], known[slot])
            for slot, (name, dtype) in enumerate(columns.items())
        ]
    )


def _side_by_side(
    read: Callable[[int, int], bool], count: int, *, worth: int
) -> Iterable[bool]:
    """Read pages from the first to the last, in as many threads as are worth it."""
    parts = min(core_count(), worth)
    if parts <= 1:
        return [read(0, count)]
    edges = [count * part // parts for part in range(parts + 1)]
    with ThreadPoolExecutor(parts) as threads:
        return [*threads.map(read, edges[:-1], edges[1:])]


def _slots(
    database: Database, table: str, columns: Mapping[str, pl.DataType]
) -> NDArray[np.int64] | None:
    """Return place in a row → place in `columns`, -1 for others; None if unclear."""
    place = {name: at for at, name in enumerate(columns)}
    # A name is one of the declared ones, never one of the file.
    described = database.connection.execute(f'PRAGMA table_xinfo("{table}")').fetchall()
    found = np.full(len(described), -1, np.int64)
    for at, (_, name, kind, _, default, key, hidden) in enumerate(described):
        if hidden:
            return None
        if name not in place:
            continue
        fraction = any(part in str(kind).upper() for part in _FRACTIONS)
        wanted = columns[name]
        if default is not None or key or wanted == pl.String():
            return None
        if fraction and wanted != pl.Float64():
            return None
        found[at] = place[name]
    return (
        found if (np.sort(found[found >= 0]) == np.arange(len(place))).all() else None
    )


def _leaves(
    database: Database, table: str
) -> tuple[NDArray[np.uint8], int, NDArray[np.int64]] | None:
    """Return the file, the size of its pages, and those that hold the table's rows."""
    data = database.data
    if len(data) < _HEADER_BYTES:
        return None
    size = int.from_bytes(data[_PAGE_BYTES].tobytes(), "big")
    # 1 stands for the one size that has no room there.
    page_bytes = 2**16 if size == 1 else size
    if page_bytes < 2**9 or page_bytes & (page_bytes - 1):
        return None
    row: Any = database.connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
    ).fetchone()
    if row is None or not isinstance(row[0], int) or not 0 < row[0] < 2**31:
        return None
    pages = np.empty(len(data) // page_bytes, np.int64)
    stack = np.empty((2, _DEEPEST), np.int64)
    count = kernels.sqlite_leaves(data.data, page_bytes, row[0], pages, stack)
    return None if count < 0 else (data, page_bytes, pages[:count])


def _rows_of_pages(
    data: NDArray[np.uint8], page_bytes: int, pages: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Return the number of rows on each leaf page; None where one cannot hold them."""
    head = (pages - 1) * page_bytes + np.where(pages == 1, _HEADER_BYTES, 0)
    cells = (data[head + 3].astype(np.int64) << 8) | data[head + 4]
    return cells if (cells * 2 < page_bytes).all() else None


def _series(
    name: str,
    dtype: pl.DataType,
    values: NDArray[np.int64],
    known: NDArray[np.uint8],
) -> pl.Series:
    whole = known == kernels.NUMBER
    if dtype != pl.Float64():
        found = pl.Series(name, values)
        return found if whole.all() else found.set(pl.Series(~whole), None)
    fraction = known == kernels.FRACTION
    numbers = np.where(fraction, values.view(np.float64), values.astype(np.float64))
    return pl.Series(name, numbers).set(pl.Series(~(whole | fraction)), None)
