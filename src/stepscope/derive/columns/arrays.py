"""Conversions of data frame columns to NumPy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope._core import numbering
from stepscope.trace.reading.nullable import absent_mask, fill_nulls, present_mask
from stepscope.trace.tables import ACTIVITY_KINDS, DERIVED_LINES, TRACK_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s

#: Category name → its code in an Enum column, as `codes` returns it.
ACTIVITY_CODES: Final = {kind: at for at, kind in enumerate(ACTIVITY_KINDS.categories)}
TRACK_CODES: Final = {kind: at for at, kind in enumerate(TRACK_KINDS.categories)}
LINE_CODES: Final = {line: at for at, line in enumerate(DERIVED_LINES.categories)}


def accepted_answer(answer: int) -> int:
    """Return a compiled function's result; raise if it is negative (an error)."""
    if answer < 0:
        raise ValueError(f"the kernel refused its arrays ({answer})")
    return answer


def ints(frame: pl.DataFrame, column: str) -> Int64s:
    """Return a column without nulls as int64; an int64 column is not copied."""
    array: Int64s = frame[column].to_numpy()
    return array if array.dtype == np.int64 else array.astype(np.int64)


def handles(frame: pl.DataFrame, column: str) -> Int32s:
    """Return a column of row numbers or string indices as int32; null becomes -1."""
    array: Int32s = fill_nulls(frame[column], -1)
    return array if array.dtype == np.int32 else array.astype(np.int32)


def codes(frame: pl.DataFrame, column: str) -> UInt8s:
    """Return the category codes of an Enum column; null becomes 255."""
    array: UInt8s = fill_nulls(frame[column].to_physical(), 255)
    return array.astype(np.uint8, copy=False)


def is_present(frame: pl.DataFrame, column: str) -> Bools:
    """Return for each row whether the column has a value."""
    return present_mask(frame[column])


def are_host_threads(tracks: pl.DataFrame) -> Bools:
    """Return by row of `tracks` whether it is a thread of the host."""
    is_thread: Bools = codes(tracks, "kind") == TRACK_CODES["thread"]
    return is_thread & absent_mask(tracks["device"])


#: Prefix of the names of threads of an input pipeline. Definition:
#: docs/definitions/host-time.md#step-threads.
_INPUT_THREADS: Final = "tf_data_"


def are_input_threads(tracks: pl.DataFrame) -> Bools:
    """Return by row of `tracks` whether it is a thread of an input pipeline."""
    by_name: Bools = tracks["name"].str.starts_with(_INPUT_THREADS).to_numpy()
    return by_name


def rows_of_kinds(activity: pl.DataFrame, kinds: Iterable[int]) -> Int64s:
    """Return the rows of device_activity whose kind is one of the given codes."""
    wanted = np.zeros(256, np.bool_)
    wanted[list(kinds)] = True
    return np.flatnonzero(wanted[codes(activity, "kind")])


def wanted_rows(
    key: Int32s, wanted: UInt8s | Bools, begin: int = 0, end: int | None = None
) -> Int64s:
    """Return the rows with a wanted key, in ascending order.

    Args:
        key: Index into `wanted`, by row.
        wanted: By key: whether rows with this key are returned.
        begin: First row to search.
        end: One past the last row to search; None for all rows.
    """
    last = len(key) if end is None else end
    if not wanted.any():
        return np.empty(0, np.int64)
    # Unused pages at the end of the array take no physical memory.
    out = np.empty(max(last - begin, 0), np.int64)
    count = numbering.pick_rows(key, wanted.view(np.uint8), begin, last, out)
    return out[: accepted_answer(count)]
