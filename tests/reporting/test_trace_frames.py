"""Tiles as frames, read back by a second reader of the written format."""

from __future__ import annotations

import json
import struct
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analysis.timeline.tiles import SLICE_COLUMNS, Tiles
from stepscope.derive.step_time.owners import CATEGORIES
from stepscope.reporting.to_trace_json import TraceFrame, slice_frame
from stepscope.serve import frames

#: As docs/formats/trace-tiles.md has them: type → struct's letter and its bytes.
LETTERS = {
    "i1": "b",
    "u1": "B",
    "i4": "i",
    "u4": "I",
    "i8": "q",
    "f4": "f",
    "f8": "d",
    "text": "I",
}
INT32 = st.integers(0, 2**31 - 1)


def read(data: bytes) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """The header's `meta` and the columns, by the page on the format alone."""
    (length,) = struct.unpack_from("<I", data)
    assert (4 + length) % 8 == 0
    header = json.loads(data[4 : 4 + length])
    assert header["schema"] == 1
    rows = header["length"]
    columns: dict[str, list[Any]] = {}
    for column in header["columns"]:
        letter = LETTERS[column["type"]]
        assert column["offset"] % 8 == 0
        assert column["bytes"] == rows * struct.calcsize(letter)
        assert column["nulls"] is None
        values = list(struct.unpack_from(f"<{rows}{letter}", data, column["offset"]))
        if column["type"] == "text":
            values = [header["names"][at] for at in values]
        columns[column["name"]] = values
    return header["meta"], columns


def sent(frame: TraceFrame) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    return read(frames.encode_frame(*frame))


def tile(rows: list[tuple[Any, ...]], *, begin_ps: int = 0) -> Tiles:
    slices = pl.DataFrame(rows, {"track": pl.Int32(), **SLICE_COLUMNS}, orient="row")
    names = slices["name"].unique(maintain_order=True)
    return Tiles(
        host="vm",
        tracks=(3, 5, 4),
        begin_ps=begin_ps,
        end_ps=begin_ps + 1024,
        bucket_ps=1,
        slices=slices.with_columns(pl.col("name").cast(pl.Enum(names))),
    )


def test_tiles_of_some_tracks_are_read_back_from_their_bytes() -> None:
    meta, columns = sent(
        slice_frame(
            tile(
                [
                    (3, 0, 90, 400, 310, 1, 7, 0, "matmul", 8),
                    (3, 1, 120, 130, 6, 3, 9, 4, "µ-kernel", 7),
                    (4, 2, 150, 151, 1, 1, 3, 5, "matmul", 9),
                ],
                begin_ps=100,
            )
        )
    )
    assert meta == {
        "kind": "slices",
        "host": "vm",
        "tracks": [3, 5, 4],
        "begin_ps": 100,
        "end_ps": 1124,
        "bucket_ps": 1,
        "categories": list(CATEGORIES),
    }
    assert columns == {
        "track": [3, 3, 4],
        "row": [0, 1, 2],
        "start_ps": [90, 120, 150],
        "end_ps": [400, 130, 151],
        "busy_ps": [310, 6, 1],
        "count": [1, 3, 1],
        "item": [7, 9, 3],
        "first": [0, 4, 5],
        "name": ["matmul", "µ-kernel", "matmul"],
        "category": [8, 7, 9],
    }


def test_an_empty_tile_has_every_column() -> None:
    _, columns = sent(slice_frame(tile([])))
    assert set(columns) == {"track", *SLICE_COLUMNS}
    assert all(values == [] for values in columns.values())


@pytest.mark.parametrize("far", [2**53 + 1, -(2**60)])
def test_a_begin_that_json_would_round_travels_as_text(far: int) -> None:
    meta, _ = sent(slice_frame(tile([], begin_ps=far)))
    assert meta["begin_ps"] == str(far)


SLICE = st.tuples(
    st.integers(0, 2000),
    st.integers(0, 2000),
    st.integers(-(2**52), 2**52),
    st.integers(-(2**52), 2**52),
    st.integers(0, 2**53),
    st.integers(1, 2**53),
    INT32,
    INT32,
    st.text(max_size=5),
    st.integers(0, 9),
)


@given(rows=st.lists(SLICE, max_size=9))
def test_numbers_and_names_arrive_as_they_are(rows: list[tuple[Any, ...]]) -> None:
    _, columns = sent(slice_frame(tile(rows)))
    assert [list(row) for row in rows] == [
        list(row)
        for row in zip(
            *(columns[name] for name in ("track", *SLICE_COLUMNS)), strict=True
        )
    ]
