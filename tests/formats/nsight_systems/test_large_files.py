"""What is done for the sake of millions of rows gives what the plain way gives."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.formats.nsight_systems.database import pages
from stepscope.formats.nsight_systems.database.connection import open_database
from stepscope.formats.nsight_systems.decoded.device_work import distinct_rows
from stepscope.formats.nsight_systems.decoded.events import row_changes, select_rows
from stepscope.formats.nsight_systems.decoded.gpus import join_calls

if TYPE_CHECKING:
    from pathlib import Path

#: Values close together, with gaps, and as far apart as 64 bits allow.
VALUES = st.one_of(
    st.none(),
    st.integers(0, 3),
    st.sampled_from([-(2**63), -1, 2**31, 2**63 - 1]),
)
ROWS = st.lists(st.tuples(VALUES, VALUES, VALUES, VALUES), max_size=12)
COLUMNS = ["a", "b", "c", "d"]


def frame_of(rows: list[tuple[int | None, ...]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict.fromkeys(COLUMNS, pl.Int64), orient="row")


@pytest.mark.parametrize("cores", [1, 3])
def test_every_thread_reads_its_part_of_a_table(
    cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_ROWS_OF_A_THREAD", 100)
    monkeypatch.setattr(pages, "_ROWS_PER_TASK", 150)
    monkeypatch.setattr(pages, "core_count", lambda: cores)
    # Only rows of some parts have no number.
    rows = [(at, None if 400 < at < 420 else at * at) for at in range(1000)]
    path = tmp_path / "many.sqlite"
    with closing(sqlite3.connect(path)) as base:
        base.execute("CREATE TABLE many (start INTEGER, end INTEGER)")
        base.executemany("INSERT INTO many VALUES (?, ?)", rows)
        base.commit()
    columns = {"start": pl.Int64(), "end": pl.Int64()}
    with open_database(path, 2**20) as database:
        found = pages.regular_columns(database, "many", columns)
    assert found is not None
    assert found.rows() == rows


@given(rows=ROWS)
def test_distinct_rows_are_numbered(rows: list[tuple[int | None, ...]]) -> None:
    frame = frame_of(rows)
    distinct, number = distinct_rows(frame)
    assert distinct[number].rows() == rows
    assert sorted(set(rows), key=str) == sorted(distinct.rows(), key=str)


@given(rows=ROWS)
def test_rows_that_differ_from_the_one_before_hold_all(
    rows: list[tuple[int | None, ...]],
) -> None:
    frame = frame_of(rows)
    found = frame.filter(row_changes(COLUMNS)).rows()
    assert found == [
        row for at, row in enumerate(rows) if not at or row != rows[at - 1]
    ]


def test_where_all_rows_are_chosen_none_is_copied() -> None:
    frame = frame_of([(1, 2, 3, 4), (None, 6, 7, 8)])
    assert select_rows(frame, pl.col("b") > 1) is frame
    assert select_rows(frame, pl.col("a") > 0).rows() == [(1, 2, 3, 4)]


@given(
    work=st.lists(st.tuples(st.sampled_from([1, 1, 1, 2, None]), VALUES), max_size=8),
    calls=st.lists(st.tuples(st.sampled_from([1, 1, 1, 2, None]), VALUES), max_size=8),
)
def test_work_meets_every_call_of_its_number(
    work: list[tuple[int | None, int | None]],
    calls: list[tuple[int | None, int | None]],
) -> None:
    columns = {"process": pl.Int64, "correlation": pl.Int64}
    ours, theirs = (
        pl.DataFrame(rows, schema=columns, orient="row").with_row_index(name)
        for rows, name in ((work, "work"), (calls, "call"))
    )
    expected = [
        (mine, theirs)
        for mine, one in enumerate(work)
        for theirs, other in enumerate(calls)
        if one == other and None not in one
    ]
    found = join_calls(ours, theirs).select("work", "call").rows()
    assert sorted(found) == expected
