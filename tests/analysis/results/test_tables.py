"""What results have in common: nulls with reasons, slices, shares, and merged rows."""

from __future__ import annotations

from typing import Any

import msgspec
import polars as pl
import pytest

from stepscope.analysis.results.tables import (
    largest_slices,
    missing_columns,
    null_paths,
    share_percent,
    shared_value,
    sum_of_known,
    with_every_null,
)
from stepscope.analysis.results.walk import is_rows, walk_fields, with_changed_leaves
from stepscope.unavailable import Unavailable

WHY = Unavailable(code="CORRUPT", reason="It is damaged.", remedy="Copy it again.")
OTHER = Unavailable(code="NO_STEPS", reason="There are none.", remedy="Mark them.")


class Inner(msgspec.Struct, frozen=True):
    value: int | None
    times: dict[str, float | None]


class Outer(msgspec.Struct, frozen=True):
    name: str | None
    parts: tuple[Inner | None, ...]
    one: Inner | None


def outer() -> Outer:
    first, second = Inner(1, {"a": None, "b": 1.0}), Inner(None, {"c": 2.0})
    return Outer("x", (first, second, None), Inner(3, {}))


def test_members_of_a_list_share_the_names_of_their_nulls() -> None:
    assert sorted(set(null_paths(outer(), "top"))) == [
        *("top.parts", "top.parts.times.a", "top.parts.value"),
    ]
    assert list(null_paths(None, "top")) == ["top"]
    assert list(null_paths((), "top")) == list(null_paths("text", "top")) == []
    assert list(null_paths({"a": {"b": None}, "c": [None, 1]})) == ["a.b", "c"]


def test_each_null_has_one_entry_and_known_ones_explain_their_members() -> None:
    known = (WHY.missing_field("parts.times"), WHY.missing_field("parts.times"))
    parts = [("parts", outer().parts), ("one", None), ("name", "x")]
    found = with_every_null(parts, known)
    assert [(one.field, one.code) for one in found] == [
        ("parts.times", "CORRUPT"),
        ("parts", "NOT_RECORDED"),
        ("one", "NOT_RECORDED"),
    ]


def test_a_repeated_field_has_the_reason_of_the_field_that_it_repeats() -> None:
    known = (OTHER.missing_field("value"),)
    parts = [("by_host", ({"summary": {"value": None, "rest": None}},))]
    found = with_every_null(parts, known, repeats=("by_host.summary",))
    assert [(one.field, one.code) for one in found] == [
        ("value", "NO_STEPS"),
        ("by_host.summary.value", "NO_STEPS"),
        ("by_host.summary.rest", "NOT_RECORDED"),
    ]


def test_a_column_without_any_value_is_missing() -> None:
    frame = pl.DataFrame({"a": [None, None], "b": [None, 1], "c": [None, 2]})
    reasons = {"a": WHY, "b": OTHER, "c": OTHER}
    found = missing_columns(frame, reasons, prefix="rows.")
    assert [(one.field, one.code) for one in found] == [("rows.a", "CORRUPT")]
    where = pl.int_range(pl.len()) == 0
    some = missing_columns(frame, reasons, prefix="", where=where)
    assert [one.field for one in some] == ["a", "b", "c"]
    assert missing_columns(frame.clear(), reasons, prefix="") == []


@pytest.mark.parametrize("slices", [1, 2, 3, 4, 9])
def test_the_largest_slices_and_the_rest_are_the_whole(slices: int) -> None:
    frame = pl.DataFrame(
        {"op": ["b", None, "a", "b", "c"], "ps": [3, 7, 5, 2, None]},
        schema_overrides={"ps": pl.Int64},
    )
    sums = [("(unknown)", 7), ("a", 5), ("b", 5), ("c", 0)]
    expected = sums[:slices]
    if slices < len(sums):
        expected.append(("other", sum(part for _, part in sums[slices:])))
    found = largest_slices(frame, label="op", value="ps", slices=slices)
    assert found.select("name", "ps").rows() == expected
    assert found["percent"].to_list() == pytest.approx(
        [100 * part / 17 for _, part in expected]
    )


def test_parts_of_nothing_have_no_share() -> None:
    frame = pl.DataFrame({"op": ["a"], "ps": [0]})
    found = largest_slices(frame, label="op", value="ps", slices=3)
    assert found["percent"].to_list() == [None]
    shares = frame.select(share_percent(pl.col("ps"), 0), b=share_percent(pl.lit(1), 4))
    assert shares.rows() == [(None, 25.0)]


def test_merged_rows_have_the_value_that_all_share_and_the_sum_of_what_is_known() -> (
    None
):
    frame = pl.DataFrame(
        {
            "key": ["same", "same", "mixed", "mixed", "none", "none"],
            "text": ["x", None, "x", "y", None, None],
            "time": [1, None, 2, 3, None, None],
        }
    )
    merged = frame.group_by("key", maintain_order=True).agg(
        shared_value("text"), sum_of_known("time")
    )
    assert merged.rows() == [
        ("same", "x", 1),
        ("mixed", "mixed", 5),
        ("none", None, None),
    ]


def test_a_walk_meets_every_leaf_with_its_path() -> None:
    leaves = dict(walk_fields(outer()))
    assert leaves["name"] == "x"
    assert leaves["one.value"] == 3
    assert leaves["parts"] == outer().parts
    assert list(walk_fields(5, "here")) == [("here", 5)]


def test_changed_leaves_are_replaced_and_the_rest_is_the_same_object() -> None:
    whole = {"a": outer(), "b": {"c": 1}}

    def change(path: str, leaf: Any) -> Any:
        return "new" if path == "a.name" else leaf

    found: Any = with_changed_leaves(whole, change)
    assert found["a"].name == "new"
    assert found["a"].one is whole["a"].one  # type: ignore[attr-defined]
    assert found["b"] is whole["b"]
    assert with_changed_leaves(whole, lambda _, leaf: leaf) is whole


@pytest.mark.parametrize(
    ("value", "rows"),
    [
        ([{"a": 1}, Inner(1, {})], True),
        (({"a": 1},), True),
        ([], False),
        ([1], False),
        ([{"a": 1}, 2], False),
        ({"a": 1}, False),
        ("text", False),
    ],
)
def test_rows_are_lists_of_structs_or_dicts(value: object, *, rows: bool) -> None:
    assert is_rows(value) is rows
