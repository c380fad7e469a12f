"""Results and findings as plain values, from which JSON and tables are made."""

from __future__ import annotations

import math
from typing import Final, TypeAlias

import msgspec
import polars as pl
import polars.selectors as cs

__all__ = ["EXACT_INTEGER", "Plain", "plain", "rows"]

#: Readers of JSON keep integers exactly up to here; larger ones are written as text
#: (docs/definitions/times-and-values.md#the-json-of-an-answer).
EXACT_INTEGER: Final = 2**53

_AS_THEY_ARE: Final = frozenset((str, bool, type(None)))

#: The values JSON is made of.
Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"


def plain(value: object) -> Plain:
    """Turn structs into objects, frames into lists of rows, NaN and infinity into null.

    Raises:
        TypeError: A value has no form in JSON; no result may hold one.
    """
    # Nearly all values of a large result are of exactly one of these types.
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    kind = type(value)
    if kind in _AS_THEY_ARE or isinstance(value, str):
        return value  # type: ignore[return-value] # mypy cannot narrow by a set
    if isinstance(value, int):
        return value if abs(value) <= EXACT_INTEGER else str(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if isinstance(value, msgspec.Struct | dict):
        return _object(value)
    if isinstance(value, pl.DataFrame):
        return rows(value)
    message = f"a result may not hold a {kind.__name__}"
    raise TypeError(message)


def _object(value: msgspec.Struct | dict[object, object]) -> Plain:
    members = value if isinstance(value, dict) else msgspec.structs.asdict(value)
    return {
        # A call for each of a hundred thousand unchanged numbers would be slow.
        str(name): one if type(one) is float and math.isfinite(one) else plain(one)
        for name, one in members.items()
    }


def rows(frame: pl.DataFrame) -> list[Plain]:
    """Return the rows of a frame as objects; nested columns stay nested."""
    found = _finite(frame)
    unlike = _unlike_json(found)
    columns = [
        [plain(cell) for cell in column.to_list()]
        if column.name in unlike
        else column.to_list()
        for column in found
    ]
    names = found.columns
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _finite(frame: pl.DataFrame) -> pl.DataFrame:
    if not frame.select(cs.float()).width:
        return frame
    cell = cs.float().as_expr()
    return frame.with_columns(pl.when(cell.is_finite()).then(cell).otherwise(None))


def _unlike_json(frame: pl.DataFrame) -> frozenset[str]:
    """Return the columns whose cells JSON cannot hold as they are."""
    made_of_more = frame.select(cs.nested() | cs.temporal() | cs.decimal()).columns
    if not frame.height:
        return frozenset(made_of_more)
    cell = cs.integer()
    large = frame.select(((cell > EXACT_INTEGER) | (cell < -EXACT_INTEGER)).any())
    return frozenset(made_of_more).union(
        column.name for column in large if column.item()
    )
