"""Results and findings as plain values, from which JSON and tables are made."""

from __future__ import annotations

import math
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import polars as pl

from stepscope.analysis.results.walk import struct_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Largest integer that every JSON reader reads exactly; larger integers become text
#: (docs/definitions/times-and-values.md#the-json-of-an-answer).
EXACT_INTEGER: Final = 2**53

_AS_THEY_ARE: Final = frozenset((str, bool, type(None)))
_REALS: Final = frozenset((float, type(None)))
_INTEGERS: Final = frozenset((int, type(None)))
_TEXTS: Final = (pl.String, pl.Boolean, pl.Null, pl.Categorical, pl.Enum)

#: A JSON value.
Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"


def plain(value: object) -> Plain:
    """Return a JSON value; structs become objects, frames rows, NaN and infinity null.

    Raises:
        TypeError: The value has a type without a JSON form; no result may contain one.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= EXACT_INTEGER else str(value)
    if isinstance(value, pl.DataFrame):
        return plain_rows(value)
    if isinstance(value, set | frozenset):
        return _plain_cells(tuple(value))
    if isinstance(value, list | tuple | dict | msgspec.Struct):
        return _plain_cells((value,))[0]
    raise TypeError(f"a result may not hold a {type(value).__name__}")


def plain_fields(value: msgspec.Struct | dict[str, object]) -> dict[str, Plain]:
    """Return the fields of a struct or an object, each in its plain form."""
    return {name: plain(field) for name, field in (struct_fields(value) or {}).items()}


def _plain_cells(values: tuple[Any, ...]) -> list[Plain]:
    """Return each value in its plain form.

    Values of one type are converted together, field by field: one call per number would
    be slow for a hundred thousand numbers.
    """
    kinds = set(map(type, values))
    if kinds <= _AS_THEY_ARE or _are_exact(values, kinds):
        return list(values)
    kind = kinds.pop() if len(kinds) == 1 else object
    if issubclass(kind, msgspec.Struct):
        columns = zip(*map(msgspec.structs.astuple, values), strict=True)
        objects = _row_objects(kind.__struct_fields__, map(_plain_cells, columns))
        return objects or [{} for _ in values]
    if issubclass(kind, dict):
        cells = iter(
            _plain_cells(tuple(chain.from_iterable(d.values() for d in values)))
        )
        return [dict(zip(map(str, mapping), cells, strict=False)) for mapping in values]
    if issubclass(kind, list | tuple):
        cells = iter(_plain_cells(tuple(chain.from_iterable(values))))
        return [list(islice(cells, len(sequence))) for sequence in values]
    return [plain(cell) for cell in values]


def _are_exact(values: tuple[Any, ...], kinds: set[type]) -> bool:
    """Return whether all values are null or exact in JSON: no NaN, no huge integer."""
    # The filter removes nulls, and also zeros, which are exact anyway.
    if kinds <= _REALS:
        return all(map(math.isfinite, filter(None, values)))
    if kinds <= _INTEGERS:
        return max(map(abs, filter(None, values)), default=0) <= EXACT_INTEGER
    return False


def _row_objects(names: Sequence[str], columns: Iterable[list[Plain]]) -> list[Plain]:
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain_rows(frame: pl.DataFrame) -> list[Plain]:
    """Return the rows of a frame as objects; nested columns stay nested."""
    columns = [
        column.to_list() if _is_plain(column) else _plain_cells(tuple(column.to_list()))
        for column in frame
    ]
    return _row_objects(frame.columns, columns)


def _is_plain(column: pl.Series) -> bool:
    kind = column.dtype
    if kind.is_float():
        # A sum of numbers that include NaN or infinity is never finite.
        return math.isfinite(column.sum())
    if kind.is_integer():
        ends: tuple[Any, Any] = column.min(), column.max()
        return _are_exact(ends, set(map(type, ends)))
    return kind in _TEXTS
