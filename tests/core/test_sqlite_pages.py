"""Pages of SQLite tables: both forms against what SQLite itself reads."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    Forms = Callable[[str], dict[str, ModuleType]]
    Value = int | float | str | bytes | None
    Row = tuple[Value, Value, Value]

#: Integers of every length that SQLite stores, and values of other types.
INTEGERS = st.one_of(
    st.integers(-2, 2),
    *(st.integers(-(2**bits), 2**bits - 1) for bits in (7, 15, 23, 31, 47, 63)),
)
VALUES = st.one_of(
    INTEGERS,
    INTEGERS,
    st.none(),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.binary(max_size=8),
)
ROWS = st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=40)
PAGE_BYTES = 512


def file_of(rows: Sequence[Row]) -> tuple[bytes, int]:
    """A database with the rows in a table of small pages, and the table's root."""
    with closing(sqlite3.connect(":memory:")) as base:
        base.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        base.execute("CREATE TABLE t (a, b, c)")
        base.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        base.commit()
        root = base.execute("SELECT rootpage FROM sqlite_master").fetchone()[0]
        return base.serialize(), root


def read(
    kernels: ModuleType, content: bytes, root: int, count: int
) -> list[tuple[int | float | None, int | float | None]] | None:
    """Columns c and a of the table; None where the kernels refuse."""
    data = memoryview(content)
    pages = np.empty(len(data) // PAGE_BYTES, np.int64)
    stack = np.empty((2, 20), np.int64)
    found = kernels.sqlite_leaves(data, PAGE_BYTES, root, pages, stack)
    if found < 0:
        return None
    slots = np.array([1, -1, 0], np.int64)
    values, known = np.empty((2, count), np.int64), np.zeros((2, count), np.uint8)
    rows = kernels.sqlite_numbers(
        *(data, PAGE_BYTES, PAGE_BYTES, pages[:found], slots),
        *(values, known, np.empty(1, np.int64)),
    )
    if rows < 0:
        return None
    columns = [
        [
            int(value)
            if kind == kernels.NUMBER
            else float(value.view(np.float64))
            if kind == kernels.FRACTION
            else None
            for value, kind in zip(values[at, :rows], known[at], strict=False)
        ]
        for at in range(2)
    ]
    return list(zip(*columns, strict=True))


def expected(rows: Sequence[Row]) -> list[tuple[Value, Value]]:
    def number(value: Value) -> Value:
        return value if isinstance(value, int | float) else None

    return [(number(c), number(a)) for a, _, c in rows]


@given(rows=ROWS)
def test_numbers_are_those_of_sqlite(kernel_forms: Forms, rows: list[Row]) -> None:
    content, root = file_of(rows)
    for kernels in kernel_forms("pivot").values():
        assert read(kernels, content, root, len(rows)) == expected(rows)


def test_a_tree_of_many_pages_is_read_in_order(kernel_forms: Forms) -> None:
    rows: list[Row] = [(at, "x" * (at % 90), -at) for at in range(3_000)]
    content, root = file_of(rows)
    for kernels in kernel_forms("pivot").values():
        assert read(kernels, content, root, len(rows)) == expected(rows)


def test_a_row_that_goes_on_in_other_pages_is_refused(kernel_forms: Forms) -> None:
    content, root = file_of([(1, "x" * 2_000, 2)])
    for kernels in kernel_forms("pivot").values():
        assert read(kernels, content, root, 1) is None


def test_a_page_that_lists_itself_is_refused(kernel_forms: Forms) -> None:
    content, root = file_of([(at, "x" * 90, at) for at in range(200)])
    circle = bytearray(content)
    at = (root - 1) * PAGE_BYTES
    assert circle[at] == 5
    circle[at + 8 : at + 12] = root.to_bytes(4, "big")
    for kernels in kernel_forms("pivot").values():
        assert read(kernels, bytes(circle), root, 400) is None


@given(
    flips=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=9)
)
def test_damage_is_refused_or_read_alike_by_both_forms(
    kernel_forms: Forms, flips: list[tuple[int, int]]
) -> None:
    content, root = file_of([(at, "x" * (at % 60), -at) for at in range(60)])
    damaged = bytearray(content)
    for place, byte in flips:
        damaged[place % len(damaged)] = byte
    found = [
        read(kernels, bytes(damaged), root, 60)
        for kernels in kernel_forms("pivot").values()
    ]
    # What is no number comes as text here: NaN is not equal to itself.
    assert len({str(it) for it in found}) == 1
