"""Tables of a result, as CSV and Parquet."""

from __future__ import annotations

import csv
import io

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.errors import BadUsage
from stepscope.reporting.exports import render_csv, render_parquet
from stepscope.reporting.tables import choose_table, tables


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    share: float | None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    rows: pl.DataFrame
    pie: tuple[Slice, ...]
    step_time_ms: dict[str, float | None]
    nothing: tuple[Slice, ...] = ()


RESULT = Result(
    rows=pl.DataFrame({"rank": [1, 2]}),
    pie=(Slice(name="a", share=60.0), Slice(name="b", share=None)),
    step_time_ms={"mean": 1.5, "std": None},
)


def test_every_list_of_rows_is_a_table_and_lone_values_are_one() -> None:
    found = tables(RESULT)
    assert list(found) == ["rows", "pie", "summary"]
    assert found["pie"].rows() == [("a", 60.0), ("b", None)]
    assert found["summary"].rows() == [
        ("step_time_ms.mean", "1.5"),
        ("step_time_ms.std", None),
        ("nothing", ""),
    ]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    slices: tuple[Slice, ...]


class Owners(msgspec.Struct, frozen=True, kw_only=True):
    owners: tuple[dict[str, str | list[dict[str, str]] | None], ...]


class Groups(msgspec.Struct, frozen=True, kw_only=True):
    groups: tuple[Group, ...]


def test_rows_inside_of_rows_are_a_table_that_says_where_they_stand() -> None:
    a, b, c = (Slice(name=name, share=1.0) for name in "abc")
    groups = (Group(name="x", slices=(a, b)), Group(name="y", slices=(c,)))
    found = tables(Groups(groups=groups))
    assert found["groups"].rows() == [("x",), ("y",)]
    assert found["groups.slices"].columns == ["groups", "name", "share"]
    assert found["groups.slices"].rows() == [
        (0, "a", 1.0),
        (0, "b", 1.0),
        (1, "c", 1.0),
    ]


def test_a_row_without_rows_inside_has_none_in_their_table() -> None:
    parts = {"parts": [{"name": "a"}]}
    empty = {"owner": "switch", "parts": None}
    listed = {"owners": [empty, {"owner": "sync", **parts}]}
    found = tables(msgspec.convert(listed, Owners))
    assert found["owners"].rows() == [("switch",), ("sync",)]
    assert found["owners.parts"].rows() == [(1, "a")]


def test_an_unknown_table_names_those_there_are() -> None:
    with pytest.raises(BadUsage, match="rows, pie, summary"):
        choose_table(tables(RESULT), "pies")


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=SUM(A1)", "'=SUM(A1)"),
        ("+cmd", "'+cmd"),
        ("-rf", "'-rf"),
        ("@import", "'@import"),
        ("-1.5", "-1.5"),
        ("+2e-3", "+2e-3"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_what_a_spreadsheet_would_run_is_disarmed(cell: str, written: str) -> None:
    text = render_csv(pl.DataFrame({"name": [cell]}))
    assert list(csv.reader(io.StringIO(text, newline="")))[1] == [written]


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
        min_size=1,
    )
)
def test_any_text_comes_back_from_a_standard_reader(cells: list[str]) -> None:
    text = render_csv(pl.DataFrame({"n": range(len(cells)), "name": cells}))
    read = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["name"].removeprefix("'") for row in read] == [
        cell.removeprefix("'") for cell in cells
    ]


def test_unknown_and_impossible_numbers_are_empty_cells() -> None:
    frame = pl.DataFrame({"x": [1.5, None, float("nan"), float("inf")]})
    assert render_csv(frame) == 'x\r\n1.5\r\n""\r\n""\r\n""\r\n'.replace('""', "")


def test_nested_columns_widen_in_csv_and_stay_in_parquet() -> None:
    frame = pl.DataFrame({"ms": [{"input": 1.0}], "hosts": [["a", "b"]]})
    assert render_csv(frame) == "ms.input,hosts\r\n1.0,a; b\r\n"
    assert pl.read_parquet(io.BytesIO(render_parquet(frame))).equals(frame)
