"""Results and findings as plain values: what JSON and tables have in common."""

from __future__ import annotations

import math
from typing import Final, TypeAlias

import msgspec
import polars as pl
import polars.selectors as cs

__all__ = ["EXACT_INTEGER", "Plain", "plain", "rows"]

#: Readers of JSON keep integers exactly up to here; above they travel as text
#: (spec: tools, section 0.4).
EXACT_INTEGER: Final = 2**53

#: The values JSON is made of.
Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"


def plain(value: object) -> Plain:
    """Structs become objects, frames lists of rows, NaN and infinity null.

    Raises:
        TypeError: A value has no form in JSON; results are made of those that have.
    """
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value if abs(value) <= EXACT_INTEGER else str(value)
    if isinstance(value, pl.DataFrame):
        return rows(value)
    if isinstance(value, msgspec.Struct | dict):
        return _object(value)
    if not isinstance(value, list | tuple | set | frozenset):
        message = f"a result may not hold a {type(value).__name__}"
        raise TypeError(message)
    return [plain(one) for one in value]


def _object(value: msgspec.Struct | dict[object, object]) -> Plain:
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return {name: plain(getattr(value, name)) for name in value.__struct_fields__}


def rows(frame: pl.DataFrame) -> list[Plain]:
    """The rows of a frame as objects; nested columns stay nested."""
    found = _finite(frame)
    if _is_flat(found) and not _large_integers(found):
        return list(found.iter_rows(named=True))
    return [plain(row) for row in found.iter_rows(named=True)]


def _finite(frame: pl.DataFrame) -> pl.DataFrame:
    if not frame.select(cs.float()).width:
        return frame
    cell = cs.float().as_expr()
    return frame.with_columns(pl.when(cell.is_finite()).then(cell).otherwise(None))


def _is_flat(frame: pl.DataFrame) -> bool:
    return not frame.select(cs.nested() | cs.temporal() | cs.decimal()).width


def _large_integers(frame: pl.DataFrame) -> bool:
    integers = frame.select(cs.integer())
    if not integers.width or not integers.height:
        return False
    return bool(
        integers.select(
            pl.any_horizontal(
                ((pl.all() > EXACT_INTEGER) | (pl.all() < -EXACT_INTEGER)).any()
            )
        ).item()
    )
