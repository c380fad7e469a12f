"""Frames: what is encoded is what is decoded, and damage is an error, never a hang."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.errors import Malformed
from stepscope.serve import frames

TYPES = {
    pl.Int8: ("i1", st.integers(-(2**7), 2**7 - 1)),
    pl.UInt8: ("u1", st.integers(0, 2**8 - 1)),
    pl.Int16: ("i2", st.integers(-(2**15), 2**15 - 1)),
    pl.UInt16: ("u2", st.integers(0, 2**16 - 1)),
    pl.Int32: ("i4", st.integers(-(2**31), 2**31 - 1)),
    pl.UInt32: ("u4", st.integers(0, 2**32 - 1)),
    pl.Int64: ("i8", st.integers(-(2**63), 2**63 - 1)),
    pl.Float32: ("f4", st.floats(width=32, allow_nan=False)),
    pl.Float64: ("f8", st.floats(allow_nan=False)),
    pl.Boolean: ("bool", st.booleans()),
    pl.String: ("text", st.text(st.characters(codec="utf-8"), max_size=8)),
}


@st.composite
def tables(draw: st.DrawFn) -> pl.DataFrame:
    height = draw(st.integers(0, 12))
    columns = []
    for at in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(list(TYPES)))
        value = st.none() | TYPES[kind][1] if draw(st.booleans()) else TYPES[kind][1]
        values = draw(st.lists(value, min_size=height, max_size=height))
        columns.append(pl.Series(f"c{at}", values, kind))
    return pl.DataFrame(columns)


def values_of(frame: frames.Frame, column: frames.Column) -> list[Any]:
    values: list[Any] = column.values.tolist()
    if column.type == "text":
        values = [frame.names[one] if frame.names else None for one in values]
    if column.type == "bool":
        values = [bool(one) for one in values]
    if column.nulls is not None:
        values = [
            None if unknown else one
            for one, unknown in zip(values, column.nulls, strict=True)
        ]
    return values


@settings(deadline=None)
@given(tables())
def test_what_is_encoded_is_what_is_decoded(table: pl.DataFrame) -> None:
    frame = frames.decode_frame(frames.encode_frame(table, {"tool": "x"}))
    assert frame.meta == {"tool": "x"}
    assert frame.length == table.height
    assert [column.name for column in frame.columns] == table.columns
    for column, series in zip(frame.columns, table, strict=True):
        assert column.type == TYPES[series.dtype.base_type()][0]
        assert values_of(frame, column) == series.to_list()


@given(tables())
def test_columns_begin_where_a_browser_can_view_them(table: pl.DataFrame) -> None:
    data = frames.encode_frame(table, {})
    (room,) = struct.unpack_from("<I", data)
    header = json.loads(data[4 : 4 + room])
    places = [(one["offset"], one["bytes"]) for one in header["columns"]]
    places += [
        (one["nulls"]["offset"], one["nulls"]["bytes"])
        for one in header["columns"]
        if one["nulls"]
    ]
    assert all(offset % 8 == 0 for offset, _ in places)
    assert (4 + room) % 8 == 0
    # None lies in another, and the last ends the frame.
    end = 4 + room
    for offset, size in sorted(places):
        assert offset == end
        end = -(-(offset + size) // 8) * 8
    assert end == len(data)


def test_a_literal_frame_is_read() -> None:
    """Written by hand from the description, not by the encoder."""
    header = {
        "schema": 1,
        "meta": {},
        "length": 3,
        "names": ["b", "a"],
        "columns": [
            {
                "name": "n_us",
                "type": "i2",
                "unit": "us",
                "offset": 512,
                "bytes": 6,
                "nulls": {"offset": 520, "bytes": 3},
            },
            {
                "name": "t",
                "type": "text",
                "unit": None,
                "offset": 528,
                "bytes": 12,
                "nulls": None,
            },
        ],
    }
    data = struct.pack("<I", 508) + json.dumps(header).encode().ljust(508)
    data += struct.pack("<3h", 1, 0, -3).ljust(8, b"\0") + b"\0\1\0".ljust(8, b"\0")
    data += struct.pack("<3I", 1, 0, 1).ljust(16, b"\0")
    frame = frames.decode_frame(data)
    assert values_of(frame, frame.columns[0]) == [1, None, -3]
    assert values_of(frame, frame.columns[1]) == ["a", "b", "a"]
    assert [column.unit for column in frame.columns] == ["us", None]


def test_unknown_numbers_are_marked_and_never_only_zero() -> None:
    table = pl.DataFrame({"total_us": [1.5, None], "n": [None, 4]})
    frame = frames.decode_frame(frames.encode_frame(table, {}))
    assert math.isnan(frame.columns[0].values[1])
    assert frame.columns[0].nulls is not None
    assert frame.columns[0].nulls.tolist() == [False, True]
    assert frame.columns[1].nulls is not None
    assert frame.columns[1].nulls.tolist() == [True, False]


def test_a_column_that_no_browser_can_view_is_an_error() -> None:
    with pytest.raises(TypeError, match="when"):
        frames.encode_frame(pl.DataFrame({"when": [1]}, {"when": pl.Datetime}), {})


@given(tables(), st.data())
def test_damage_is_an_error(table: pl.DataFrame, data: st.DataObject) -> None:
    whole = bytearray(frames.encode_frame(table, {}))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(
            st.integers(0, 255)
        )
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        frame = frames.decode_frame(cut)
    except Malformed:
        return
    # What is still readable is as long as it says.
    assert all(len(column.values) == frame.length for column in frame.columns)


@pytest.mark.parametrize("room", [0, 3, 2**31, 2**32 - 1])
def test_a_bad_length_is_an_error(room: int) -> None:
    with pytest.raises(Malformed):
        frames.decode_frame(struct.pack("<I", room) + bytes(64))


def test_a_name_that_is_no_text_is_an_error() -> None:
    whole = frames.encode_frame(pl.DataFrame({"name": ["abc"]}), {})
    with pytest.raises(Malformed):
        frames.decode_frame(whole.replace(b"abc", b"a\xffc"))


def test_large_tables_are_encoded_by_columns() -> None:
    count = 200_000
    table = pl.DataFrame(
        {
            "name": [f"op{one % 100}" for one in range(count)],
            "n": np.arange(count, dtype=np.int64),
        }
    )
    frame = frames.decode_frame(frames.encode_frame(table, {}))
    assert len(frame.names) == 100
    assert frame.columns[1].values[-1] == count - 1
