"""Cuts of long tables in results; a page requests the rest of each table separately.

The number of rows is limited, and the size of texts because of extremely long names.
Ordinary answers have less than a megabyte of text.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final

import msgspec
import polars as pl

from stepscope.analysis.results.walk import is_rows, struct_fields, with_changed_leaves

#: Maximum size of the texts in all tables of an answer together, in bytes.
MAX_TEXT_BYTES: Final = 2**26


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """A table that was cut.

    Attributes:
        table: Name of the table: the dotted path of its field in the result.
        rows: Number of rows of the whole table.
        given: Number of rows in the answer.
    """

    table: str
    rows: int
    given: int


def cut_tables(
    result: msgspec.Struct, *, rows: int, max_bytes: int = MAX_TEXT_BYTES
) -> tuple[msgspec.Struct, list[Cut]]:
    """Return the result with tables cut at `rows`, and the cuts.

    A table is also cut where its texts and those before it together exceed `max_bytes`.
    """
    cutting = _Cutting(rows, max_bytes)
    changed = with_changed_leaves(result, cutting.cut_leaf)
    assert isinstance(changed, msgspec.Struct)  # noqa: S101 - for the type checker only
    return changed, cutting.cuts


def text_bytes(frame: pl.DataFrame) -> pl.Series:
    """Return the size of the texts in each row, in bytes, including texts in lists."""
    sizes = [
        pl.col(name).str.len_bytes()
        if dtype == pl.String
        else pl.col(name).list.eval(pl.element().str.len_bytes()).list.sum()
        for name, dtype in frame.schema.items()
        if dtype in (pl.String, pl.List(pl.String))
    ]
    row_bytes = pl.sum_horizontal(sizes) if sizes else pl.lit(0)
    return frame.select(
        pl.repeat(0, pl.len(), dtype=pl.Int64).alias("bytes") + row_bytes.cast(pl.Int64)
    )["bytes"]


def count_fitting_rows(frame: pl.DataFrame, max_bytes: int = MAX_TEXT_BYTES) -> int:
    """Return the number of first rows whose texts have at most `max_bytes`."""
    return int((text_bytes(frame).cum_sum() <= max_bytes).sum())


class _Cutting:
    """The tables cut so far, and the number of bytes left for further texts."""

    def __init__(self, rows: int, max_bytes: int) -> None:
        self._rows = rows
        self._left_bytes = max_bytes
        self.cuts: list[Cut] = []

    def cut_leaf(self, path: str, value: object) -> object:
        if isinstance(value, pl.DataFrame):
            sizes = text_bytes(value.head(self._rows)).cum_sum().to_list()
        elif is_rows(value):
            sizes = list(accumulate(map(_text_weight, value[: self._rows])))
        else:
            return value
        fitting = sum(size <= self._left_bytes for size in sizes)
        self._left_bytes -= sizes[fitting - 1] if fitting else 0
        if fitting == len(value):
            return value
        self.cuts.append(Cut(table=path, rows=len(value), given=fitting))
        return value[:fitting]


def _text_weight(value: object) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, pl.DataFrame):
        return int(text_bytes(value).sum())
    if isinstance(value, tuple | list):
        return sum(map(_text_weight, value))
    return sum(map(_text_weight, (struct_fields(value) or {}).values()))
