"""Read columns of numbers directly from database pages, many times faster than SQL.

SQLite itself reads the irregular cases: damaged pages, rows that continue on other
pages, and columns that are generated, have a default or are a primary key.

Definition: docs/formats/nsight_systems.md#how-a-database-is-opened.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from stepscope._core import pivot as kernels
from stepscope.cores import core_count
from stepscope.formats.nsight_systems.database.connection import LEAST_ROW_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from stepscope.array_types import Int64s, UInt8s
    from stepscope.formats.nsight_systems.database.connection import Database

#: Offsets in the file header: the page size, and the bytes reserved in each page.
_PAGE_BYTES: Final = slice(16, 18)
_KEPT_BACK: Final = 20
_HEADER_BYTES: Final = 100
#: Maximum depth of a tree of pages; each level has at least twice as many pages.
_MAX_DEPTH: Final = 64
#: Minimum number of rows per thread; reading fewer is faster than starting a thread.
_ROWS_OF_A_THREAD: Final = 100_000
#: Number of rows that are decoded at a time; their values fit in a core's cache.
_ROWS_PER_TASK: Final = 2**13
#: Parts of declared column types for which SQLite stores integers as floats.
_FRACTIONS: Final = ("REAL", "FLOA", "DOUB")


def regular_columns(
    database: Database, table: str, columns: Mapping[str, pl.DataType]
) -> pl.DataFrame | None:
    """Return columns of a table in row order; None if SQL must read the table.

    Args:
        database: The open database.
        table: A declared table that the database has.
        columns: Column → its type.

    Raises:
        sqlite3.Error: The description of the table cannot be read.
    """
    slots = _slots_of_columns(database, table, columns)
    if slots is None:
        return None
    leaves = _leaf_pages(database, table)
    if leaves is None:
        return None
    data, page_bytes, pages = leaves
    usable = page_bytes - int(data[_KEPT_BACK])
    head = (pages - 1) * page_bytes + np.where(pages == 1, _HEADER_BYTES, 0)
    cells = (data[head + 3].astype(np.int64) << 8) | data[head + 4]
    if not (cells * 2 < page_bytes).all() or usable < page_bytes // 2:
        return None
    row_of_page = np.concatenate([[0], np.cumsum(cells)])
    count = int(row_of_page[-1])
    if count > len(data) // LEAST_ROW_BYTES:
        return None
    read_columns = _Columns(len(columns), count)

    def read(edges: list[int]) -> bool:
        """Decode the pages edges[0] to edges[-1]; return False if one is irregular."""
        max_rows = int(np.diff(row_of_page[edges]).max(initial=0))
        values = np.empty((len(columns), max_rows), np.int64)
        known = np.empty((len(columns), max_rows), np.uint8)
        for begin, end in pairwise(edges):
            first, last = row_of_page[[begin, end]].tolist()
            known.fill(0)
            rows = kernels.sqlite_numbers(
                data.data,
                page_bytes,
                usable,
                pages[begin:end],
                slots,
                values,
                known,
                np.empty(1, np.int64),
            )
            if rows != last - first:
                return False
            read_columns.put(first, values[:, :rows], known[:, :rows])
        return True

    if not all(_read_in_threads(read, len(pages), rows=count)):
        return None
    return pl.DataFrame(
        [
            _column_series(name, dtype, *read_columns.column(slot))
            for slot, (name, dtype) in enumerate(columns.items())
        ]
    )


class _Columns:
    """Columns that several threads fill; no two threads write the same rows.

    A column gets an array of value kinds only if some values are not numbers.
    """

    def __init__(self, columns: int, rows: int) -> None:
        self._values = [np.empty(rows, np.int64) for _ in range(columns)]
        self._known: dict[int, UInt8s] = {}

    def put(self, first: int, values: Int64s, known: UInt8s) -> None:
        """Store rows from `first` on; no two threads store the same rows."""
        rows = slice(first, first + values.shape[1])
        is_number = (known == kernels.NUMBER).all(axis=1)
        for slot, column in enumerate(self._values):
            column[rows] = values[slot]
            if is_number[slot]:
                continue
            if slot not in self._known:
                all_numbers = np.full(len(column), kernels.NUMBER, np.uint8)
                # Another thread may have added the array first.
                self._known.setdefault(slot, all_numbers)
            self._known[slot][rows] = known[slot]

    def column(self, slot: int) -> tuple[Int64s, UInt8s | None]:
        """Return a column's values, and their kinds if some values are not numbers."""
        return self._values[slot], self._known.get(slot)


def _read_in_threads(
    read: Callable[[list[int]], bool], pages: int, *, rows: int
) -> Iterable[bool]:
    threads = max(1, min(core_count(), rows // _ROWS_OF_A_THREAD))
    tasks = max(threads, rows // _ROWS_PER_TASK)
    edges = [pages * task // tasks for task in range(tasks + 1)]
    if threads == 1:
        return [read(edges)]
    parts = [tasks * part // threads for part in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        shares = [edges[begin : end + 1] for begin, end in pairwise(parts)]
        return [*pool.map(read, shares)]


def _slots_of_columns(
    database: Database, table: str, columns: Mapping[str, pl.DataType]
) -> Int64s | None:
    """Return position in a row → index in `columns` or -1; None if SQL must read."""
    place = {name: index for index, name in enumerate(columns)}
    # The table name is one of the declared names, never a name from the file.
    described = database.connection.execute(f'PRAGMA table_xinfo("{table}")').fetchall()
    slots = np.full(len(described), -1, np.int64)
    for position, (_, name, kind, _, default, key, hidden) in enumerate(described):
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
        slots[position] = place[name]
    return (
        slots if (np.sort(slots[slots >= 0]) == np.arange(len(place))).all() else None
    )


def _leaf_pages(database: Database, table: str) -> tuple[UInt8s, int, Int64s] | None:
    """Return the file's bytes, the page size, and the pages with the table's rows."""
    data = database.data
    if len(data) < _HEADER_BYTES:
        return None
    size = int.from_bytes(data[_PAGE_BYTES].tobytes(), "big")
    # The page size has 16 bits; 1 means 65,536, which does not fit.
    page_bytes = 2**16 if size == 1 else size
    if page_bytes < 2**9 or page_bytes & (page_bytes - 1):
        return None
    row: Any = database.connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
    ).fetchone()
    if row is None or not isinstance(row[0], int) or not 0 < row[0] < 2**31:
        return None
    pages = np.empty(len(data) // page_bytes, np.int64)
    stack = np.empty((2, _MAX_DEPTH), np.int64)
    count = kernels.sqlite_leaves(data.data, page_bytes, row[0], pages, stack)
    return None if count < 0 else (data, page_bytes, pages[:count])


def _column_series(
    name: str, dtype: pl.DataType, values: Int64s, known: UInt8s | None
) -> pl.Series:
    if known is None:
        series = pl.Series(name, values)
        return series if dtype != pl.Float64() else series.cast(pl.Float64)
    is_number = known == kernels.NUMBER
    if dtype != pl.Float64():
        return pl.Series(name, values).set(pl.Series(~is_number), None)
    fraction = known == kernels.FRACTION
    numbers = np.where(fraction, values.view(np.float64), values.astype(np.float64))
    return pl.Series(name, numbers).set(pl.Series(~(is_number | fraction)), None)
