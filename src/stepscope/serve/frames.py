"""Column frames: a table as bytes that a browser can read without copying.

A frame is the length of its header (u32, little-endian), the header as JSON, then the
columns, little-endian, each starting at a multiple of 8 bytes. Texts are ids into one
list of names; a column with unknown values also has one byte per row that marks nulls.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from stepscope.array_types import Bools
from stepscope.errors import Malformed

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCHEMA: Final = 1
_ALIGNMENT: Final = 8
_LENGTH: Final = struct.Struct("<I")
_ASK_AGAIN: Final = "Ask the server for the frame again."

#: Type of a table column → its name in the header.
_NUMBERS: Final[dict[type[pl.DataType], str]] = {
    pl.Int8: "i1",
    pl.UInt8: "u1",
    pl.Int16: "i2",
    pl.UInt16: "u2",
    pl.Int32: "i4",
    pl.UInt32: "u4",
    pl.Int64: "i8",
    pl.Float32: "f4",
    pl.Float64: "f8",
}
_BOOLEAN: Final = "bool"
_TEXT: Final = "text"
_BYTES: Final = {_BOOLEAN: "u1", _TEXT: "u4"}
#: Name, type and values of a column, and its nulls if it has any.
_Encoded = tuple[str, str, bytes, bytes | None]
#: Units that can be the last word of a column name.
_UNITS: Final = ("ps", "us", "ms", "s", "bytes", "percent")


class _Place(msgspec.Struct, frozen=True, kw_only=True):
    """Byte range, relative to the start of the frame."""

    offset: int
    bytes: int


class _Described(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    type: str
    unit: str | None
    offset: int
    bytes: int
    nulls: _Place | None


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    schema: int
    meta: dict[str, Any]
    length: int
    names: list[str]
    columns: list[_Described]


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A decoded column; texts are ids into the names of the frame.

    `nulls` is true for rows with unknown values; it is None if all values are known.
    """

    name: str
    type: str
    unit: str | None
    values: NDArray[Any]
    nulls: Bools | None


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """A decoded frame."""

    meta: dict[str, Any]
    length: int
    names: tuple[str, ...]
    columns: tuple[Column, ...]


def encode_frame(frame: pl.DataFrame, meta: Mapping[str, object]) -> bytes:
    """Encode a flat table as a frame; `meta` becomes a part of the header.

    Raises:
        TypeError: A column has a type that frames lack (flat tables have none).
    """
    texts = [
        series.dtype.categories
        if isinstance(series.dtype, pl.Enum)
        else series.cast(pl.String).drop_nulls()
        for series in frame
        if series.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null)
    ]
    no_name = pl.Series("names", [], pl.String)
    names = pl.concat([no_name, *(series.alias("names") for series in texts)])
    names = names.unique(maintain_order=True)
    columns: list[_Encoded] = []
    for series in frame:
        nulls = None
        if series.null_count():
            nulls = series.is_null().to_numpy().astype(np.uint8).tobytes()
        columns.append((series.name, *_column_values(series, names), nulls))
    # Large placeholder offsets reserve enough header space for the digits of real ones.
    reserved = _described_columns(columns, start=2**40)
    header_bytes = len(_header_bytes(reserved, frame, names, meta))
    start = _aligned_size(_LENGTH.size + header_bytes)
    header = _header_bytes(_described_columns(columns, start=start), frame, names, meta)
    parts = [_LENGTH.pack(start - _LENGTH.size), header.ljust(start - _LENGTH.size)]
    for _, _, values, nulls in columns:
        parts.append(_padded_bytes(values))
        parts.append(b"" if nulls is None else _padded_bytes(nulls))
    return b"".join(parts)


def _column_values(series: pl.Series, names: pl.Series) -> tuple[str, bytes]:
    if series.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        if isinstance(series.dtype, pl.Enum):
            # Looking up each category is faster than looking up each row's text.
            ids = _name_ids(series.dtype.categories, names).gather(series.to_physical())
        else:
            ids = _name_ids(series.cast(pl.String), names)
        return _TEXT, _little_endian_bytes(ids, "u4", filling=0)
    if series.dtype == pl.Boolean:
        return _BOOLEAN, _little_endian_bytes(series, "u1", filling=False)
    if series.dtype == pl.UInt64:
        # The cast raises if a number is too large; numbers in results never are.
        series = series.cast(pl.Int64)
    kind = _NUMBERS.get(series.dtype.base_type())
    if kind is None:
        raise TypeError(f"{series.name}: a frame has no column of type {series.dtype}")
    filling = float("nan") if series.dtype.is_float() else 0
    return kind, _little_endian_bytes(series, kind, filling=filling)


def _name_ids(texts: pl.Series, names: pl.Series) -> pl.Series:
    ids = pl.DataFrame({"name": names, "id": np.arange(len(names), dtype=np.uint32)})
    named = pl.DataFrame({"name": texts})
    return named.join(ids, on="name", how="left", maintain_order="left")["id"]


def _little_endian_bytes(series: pl.Series, kind: str, *, filling: float) -> bytes:
    known = series.fill_null(filling) if series.null_count() else series
    return known.to_numpy().astype(f"<{kind}").tobytes()


def _described_columns(columns: list[_Encoded], *, start: int) -> list[_Described]:
    described = []
    offset = start
    for name, kind, values, nulls in columns:
        begin = offset
        offset += _aligned_size(len(values))
        place = None
        if nulls is not None:
            place = _Place(offset=offset, bytes=len(nulls))
            offset += _aligned_size(len(nulls))
        ending = name.rsplit("_", 1)[-1].rsplit(".", 1)[-1]
        described.append(
            _Described(
                name=name,
                type=kind,
                unit=ending if "_" in name and ending in _UNITS else None,
                offset=begin,
                bytes=len(values),
                nulls=place,
            )
        )
    return described


def _header_bytes(
    columns: list[_Described],
    frame: pl.DataFrame,
    names: pl.Series,
    meta: Mapping[str, object],
) -> bytes:
    return msgspec.json.encode(
        _Header(
            schema=_SCHEMA,
            meta=dict(meta),
            length=frame.height,
            names=names.to_list(),
            columns=columns,
        )
    )


def _padded_bytes(content: bytes) -> bytes:
    return content.ljust(_aligned_size(len(content)), b"\0")


def _aligned_size(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def decode_frame(data: bytes) -> Frame:
    """Decode a frame; every length is checked before use.

    Raises:
        Malformed: A length or a type is impossible; the message names the offset.
    """
    if len(data) < _LENGTH.size:
        raise _broken_frame(0, "the frame is shorter than the length of its header")
    (header_bytes,) = _LENGTH.unpack_from(data)
    if header_bytes > len(data) - _LENGTH.size:
        raise _broken_frame(0, "the header is longer than the frame")
    try:
        header = msgspec.json.decode(
            data[_LENGTH.size : _LENGTH.size + header_bytes], type=_Header
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _broken_frame(
            _LENGTH.size, f"the header is unreadable ({error})"
        ) from error
    if header.schema != _SCHEMA:
        raise _broken_frame(_LENGTH.size, f"schema {header.schema} is unknown")
    return Frame(
        meta=header.meta,
        length=header.length,
        names=tuple(header.names),
        columns=tuple(_read_column(data, header, column) for column in header.columns),
    )


def _read_column(data: bytes, header: _Header, column: _Described) -> Column:
    kind = _BYTES.get(column.type, column.type)
    if kind not in {*_NUMBERS.values()}:
        raise _broken_frame(_LENGTH.size, f"type {column.type!r} is unknown")
    place = _Place(offset=column.offset, bytes=column.bytes)
    values = _read_array(data, place, kind, header.length)
    nulls = None
    if column.nulls is not None:
        nulls = _read_array(data, column.nulls, "u1", header.length).astype(np.bool_)
    if column.type == _TEXT:
        ids = values if nulls is None else values[~nulls]
        if len(ids) and ids.max() >= len(header.names):
            raise _broken_frame(column.offset, "an id has no name")
    return Column(
        name=column.name, type=column.type, unit=column.unit, values=values, nulls=nulls
    )


def _read_array(data: bytes, place: _Place, kind: str, length: int) -> NDArray[Any]:
    dtype = np.dtype(f"<{kind}")
    if length < 0 or place.bytes != length * dtype.itemsize:
        raise _broken_frame(place.offset, "a column is not as long as the frame")
    if place.offset < 0 or place.offset + place.bytes > len(data):
        raise _broken_frame(place.offset, "a column runs beyond the frame")
    return np.frombuffer(data, dtype, length, place.offset)


def _broken_frame(offset: int, problem: str) -> Malformed:
    return Malformed.broken_at_offset("frame", offset, problem, _ASK_AGAIN)
