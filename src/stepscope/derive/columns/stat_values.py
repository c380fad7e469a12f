"""Lookup of typed values in `stats` and `type_stats`, by name or by event (owner)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.tables import DOUBLE, INT, PLACE_TEXT, REF, UINT

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl
    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s
    from stepscope.trace.model import TraceData
    from stepscope.trace.reading.stat_keys import StatKey

#: Number of rows that are compared in one block, which fits in the CPU cache.
_BLOCK_ROWS: Final = 1 << 16


class StatRows(NamedTuple):
    """Selected rows of `stats` or `type_stats`, in the table's order.

    Attributes:
        owner: Row of events (stats) or event_types (type_stats) that has this value.
        key: Index of the value's name in `trace.strings`.
        kind: Type of the value, as declared for the column `kind`.
        value: The 64 bits of the value; `kind` determines their type.
        length: Length in bytes of a text stored at an offset in the file; else 0.
    """

    owner: Int32s
    key: Int32s
    kind: UInt8s
    value: Int64s
    length: Int32s

    def only(self, chosen: Bools) -> StatRows:
        """Return the rows for which `chosen` is True; `self` if all rows are chosen."""
        if chosen.all():
            return self
        return StatRows(
            self.owner[chosen],
            self.key[chosen],
            self.kind[chosen],
            self.value[chosen],
            self.length[chosen],
        )


def find_handle(strings: Sequence[str], key: StatKey) -> int:
    """Return the index of a name in `trace.strings`; -1 if the name does not occur."""
    try:
        return strings.index(key)
    except ValueError:
        return -1


def rows_with_key(frame: pl.DataFrame, owner: str, handle: int) -> StatRows:
    """Return all values with one name.

    Args:
        frame: `stats` or `type_stats`.
        owner: Name of the owner column, `event` or `type`.
        handle: Result of `find_handle`; for -1 no rows are returned.
    """
    if handle < 0 or not len(frame):
        return stats_in_rows(frame, owner, np.empty(0, np.int64))
    key = handles(frame, "key")
    rows = [
        first + np.flatnonzero(key[first : first + _BLOCK_ROWS] == handle)
        for first in range(0, len(key), _BLOCK_ROWS)
    ]
    return stats_in_rows(frame, owner, np.concatenate(rows))


def rows_of_owners(frame: pl.DataFrame, owner: str, wanted: Int32s) -> StatRows:
    """Return all values of the wanted events or types; `wanted` is ascending."""
    owners = handles(frame, owner)
    begin = np.searchsorted(owners, wanted, side="left")
    count = np.searchsorted(owners, wanted, side="right") - begin
    ends = np.cumsum(count)
    within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(
        ends - count, count
    )
    return stats_in_rows(frame, owner, np.repeat(begin, count) + within)


def owner_numbers(rows: StatRows, owners: Int32s, handle: int) -> tuple[Int64s, Bools]:
    """Return the integer of each owner (event, type) under a name, and if it exists.

    Signed, unsigned and floating-point values are accepted; floating-point values are
    truncated. If an owner has several values, the last one is returned.

    Definition: docs/formats/xplane.md#the-message.
    """
    numeric = rows.only(
        (rows.key == handle) & ((rows.kind == INT) | (rows.kind == UINT))
        | (rows.key == handle) & (rows.kind == DOUBLE)
    )
    real = numeric.kind == DOUBLE
    values = numeric.value.copy()
    if real.any():
        values[real] = np.trunc(numeric.value[real].view(np.float64)).astype(np.int64)
    numbers = np.zeros(len(owners), np.int64)
    present = np.zeros(len(owners), np.bool_)
    index = np.searchsorted(owners, numeric.owner)
    known = index < len(owners)
    known[known] = owners[index[known]] == numeric.owner[known]
    numbers[index[known]] = values[known]
    present[index[known]] = True
    return numbers, present


def values_of_owners(
    wanted: NDArray[np.signedinteger],
    owner: NDArray[np.signedinteger],
    value: NDArray[np.signedinteger],
    *,
    default: int = 0,
) -> tuple[Int64s, Bools]:
    """Return the value of each wanted owner, and whether the owner has one.

    `owner` is in ascending order. If an owner has several values, the last is returned.
    """
    if not len(owner):
        return np.full(len(wanted), default), np.zeros(len(wanted), np.bool_)
    index = np.maximum(np.searchsorted(owner, wanted, side="right") - 1, 0)
    known = owner[index] == wanted
    return np.where(known, value[index], default).astype(np.int64), known


def owner_texts(
    trace: TraceData, rows: StatRows, owners: Int32s, handle: int
) -> list[str | None]:
    """Return each owner's text under one name; None if the owner has no such text."""
    named = rows.only(rows.key == handle)
    by_owner: dict[int, str] = {}
    for owner, kind, value, length in zip(
        named.owner.tolist(),
        named.kind.tolist(),
        named.value.tolist(),
        named.length.tolist(),
        strict=True,
    ):
        if kind == REF:
            by_owner[owner] = trace.strings[value]
        elif kind == PLACE_TEXT:
            by_owner[owner] = trace.text(value, length)
    return [by_owner.get(owner) for owner in owners.tolist()]


def stats_at_rows(frame: pl.DataFrame, rows: Int64s, owner: Int32s) -> StatRows:
    """Return the stats in `rows`, with `owner` instead of the recorded owners."""
    kind: UInt8s = frame["kind"].to_numpy()
    return StatRows(
        owner,
        values_by_row(handles(frame, "key"), rows),
        values_by_row(kind, rows),
        values_by_row(ints(frame, "value"), rows),
        values_by_row(handles(frame, "length"), rows),
    )


def stats_in_rows(frame: pl.DataFrame, owner: str, rows: Int64s) -> StatRows:
    """Return the stats in `rows`; `owner` is the name of the column of owners."""
    return stats_at_rows(frame, rows, values_by_row(handles(frame, owner), rows))
