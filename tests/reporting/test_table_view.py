"""Tables as a reader arranges them, held against Python's own sorting."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.errors import BadUsage
from stepscope.reporting.tables import arrange_rows

ROWS = st.lists(
    st.tuples(st.none() | st.integers(-3, 3), st.none() | st.sampled_from("aAbB.")),
    max_size=12,
)


def table(rows: list[tuple[int | None, str | None]]) -> pl.DataFrame:
    return pl.DataFrame(
        [(at, *row) for at, row in enumerate(rows)],
        schema={"place": pl.Int64, "n": pl.Int64, "name": pl.String},
        orient="row",
    )


@given(ROWS, st.booleans())
def test_unknown_values_come_last_and_equal_ones_keep_their_order(
    rows: list[tuple[int | None, str | None]],
    descending: bool,  # noqa: FBT001 - drawn by hypothesis
) -> None:
    sign = -1 if descending else 1
    expected = sorted(
        range(len(rows)),
        key=lambda at: (rows[at][0] is None, sign * (rows[at][0] or 0), at),
    )
    found = arrange_rows(table(rows), sort="n", descending=descending)
    assert found["place"].to_list() == expected


@given(ROWS, st.sampled_from(["", "a", "B", ".", "ab"]))
def test_rows_that_hold_a_text_upper_and_lower_case_alike(
    rows: list[tuple[int | None, str | None]], held: str
) -> None:
    expected = [
        at
        for at, (_, name) in enumerate(rows)
        if not held or (name is not None and held.lower() in name.lower())
    ]
    found = arrange_rows(table(rows), holding=held)
    assert found["place"].to_list() == expected


def test_nested_columns_are_sorted_by_their_flat_names() -> None:
    frame = pl.DataFrame({"ms": [{"input": 2.0}, {"input": 1.0}], "step": [1, 2]})
    assert arrange_rows(frame, sort="ms.input")["step"].to_list() == [2, 1]


def test_a_table_without_texts_holds_none() -> None:
    assert arrange_rows(pl.DataFrame({"n": [1, 2]}), holding="1").height == 0


def test_an_unknown_column_is_named_with_those_there_are() -> None:
    with pytest.raises(BadUsage, match="'m'; known: n"):
        arrange_rows(pl.DataFrame({"n": [1]}), sort="m")
