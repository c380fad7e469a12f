"""Stats as dense columns, and byte strings of the file as small numbers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from stepscope._core import pivot as kernels
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Int32s, Int64s, UInt8s
    from stepscope.xspace.reading.columns import Stats


class Pivot(Frozen, frozen=True, eq=True):
    """One row per wanted key, one column per event of the range.

    Attributes:
        value: As in `xspace.Stats`, int64; 0 if the event has no stat of this key.
        kind: As in `xspace.Stats`, uint8; 0 if the event has no stat of this key.
        length: As in `xspace.Stats`, int32.
    """

    value: Int64s
    kind: UInt8s
    length: Int32s


def pivot_range(
    stats: Stats,
    keys: Sequence[int | Sequence[int]],
    *,
    event_begin: int,
    event_end: int,
) -> Pivot:
    """Arrange the wanted keys of the events [event_begin, event_end) in columns.

    Args:
        stats: Stats, sorted by event.
        keys: One handle, or several handles with the same meaning, per row of the
            result. A negative handle is a name that the file lacks.
        event_begin: First event row.
        event_end: One past the last event row.

    If an event has several values of one key, the last one is used.
    """
    # With another type, `searchsorted` would convert the whole column.
    needles = np.array([event_begin, event_end], stats.event.dtype)
    first, last = np.searchsorted(stats.event, needles)
    slots = _slots_by_handle(keys)
    pivot = _empty_pivot(len(keys), max(event_end - event_begin, 0))
    if pivot.value.size and len(slots) and last > first:
        rows = slice(first, last)
        written = kernels.pivot_stats(
            stats.event[rows],
            stats.key[rows],
            stats.kind[rows],
            stats.value[rows],
            stats.length[rows],
            slots,
            event_begin,
            pivot.value,
            pivot.kind,
            pivot.length,
        )
        if written < 0:
            raise ValueError("the stats are not sorted by event")
    return pivot


def pivot_rows(
    stats: Stats, keys: Sequence[int | Sequence[int]], rows: Int32s
) -> Pivot:
    """Arrange the wanted keys of chosen events, with one column for each of `rows`."""
    slots = _slots_by_handle(keys)
    pivot = _empty_pivot(len(keys), len(rows))
    if pivot.value.size and len(slots):
        # Find the first stat of each row; a search in ascending order is far cheaper.
        order = np.argsort(rows, kind="stable")
        firsts = np.empty(len(rows), np.int64)
        firsts[order] = np.searchsorted(stats.event, rows[order])
        written = kernels.pivot_rows(
            stats.event,
            stats.key,
            stats.kind,
            stats.value,
            stats.length,
            slots,
            rows,
            firsts,
            pivot.value,
            pivot.kind,
            pivot.length,
        )
        if written < 0:
            raise ValueError("the stats' columns differ in length")
    return pivot


def _slots_by_handle(keys: Sequence[int | Sequence[int]]) -> Int32s:
    groups = [(key,) if isinstance(key, int) else tuple(key) for key in keys]
    highest = max((handle for group in groups for handle in group), default=-1)
    slots = np.full(highest + 1, -1, np.int32)
    for slot, group in enumerate(groups):
        slots[[handle for handle in group if handle >= 0]] = slot
    return slots


def _empty_pivot(keys: int, events: int) -> Pivot:
    shape = (keys, events)
    return Pivot(
        np.zeros(shape, np.int64), np.zeros(shape, np.uint8), np.zeros(shape, np.int32)
    )


class Interned(Frozen, frozen=True, eq=True):
    """Byte strings numbered by content.

    Attributes:
        ids: Number of each string, int32: 0, 1, … by first appearance.
        firsts: First row of each number, int64.
    """

    ids: Int32s
    firsts: Int64s


def intern_texts(data: UInt8s, place: Int64s, length: NDArray[np.integer]) -> Interned:
    """Number byte strings, given by place and length; equal strings get one number.

    Raises:
        ValueError: A string is outside the data.
    """
    place = np.ascontiguousarray(place, np.int64)
    length = np.ascontiguousarray(length, np.int64)
    ids = np.empty(len(place), np.int32)
    seed = int.from_bytes(os.urandom(8), "little")
    capacity = 2048
    while True:
        firsts = np.empty(min(capacity, len(place)), np.int64)
        slots = np.full(2 * capacity, -1, np.int32)
        count = kernels.intern_strings(data, place, length, seed, slots, ids, firsts)
        if count != kernels.NO_ROOM:
            break
        capacity *= 8
    if count < 0:
        raise ValueError("a string is outside the data")
    return Interned(ids, firsts[:count].copy())
