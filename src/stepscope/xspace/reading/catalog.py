"""Names of the ids in events and stats, also where the file lost the names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.frozen import Frozen
from stepscope.xspace.fields import BYTES, DOUBLE, NO_VALUE, REF, TEXT, UINT, PlaneTag
from stepscope.xspace.reading.columns import EventTypes, TypeStats
from stepscope.xspace.reading.messages import read_stats
from stepscope.xspace.reading.metadata import StringTable, read_entries, read_texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.xspace.reading.columns import PlaneStat
    from stepscope.xspace.reading.fill import Filled
    from stepscope.xspace.reading.messages import IdTable, Places, StatMessages
    from stepscope.xspace.reading.metadata import Entries
    from stepscope.xspace.reading.outline import Outline

#: So many unknown ids have a name of their own; the rest of a file share one.
_MOST_UNKNOWN: Final = 2**18


class Catalog(Frozen, frozen=True, eq=True):
    """The names of one file.

    Attributes:
        strings: All names; grows when unknown ids are met.
        plane_names: Handle of each plane's name.
        line_names: Handle of each line's name.
        line_display_names: Handle of each line's display name; 0 where there is none.
        types: From event metadata ids to rows of `event_types`, one table per plane.
        keys: From stat metadata ids to handles, one table per plane.
        event_types: Event types that the file holds.
        type_stats: Stats of the event types.
        broken: Places of malformed entries, which are left out.
    """

    strings: StringTable
    plane_names: NDArray[np.int32]
    line_names: NDArray[np.int32]
    line_display_names: NDArray[np.int32]
    types: list[IdTable]
    keys: list[IdTable]
    event_types: EventTypes
    type_stats: TypeStats
    broken: NDArray[np.int64]


def read_catalog(
    data: NDArray[np.uint8],
    outline: Outline,
    *,
    line_name: Places,
    line_display_name: Places,
) -> Catalog:
    """Read both metadata maps of every plane, and intern all names."""
    planes = len(outline.planes.stop)
    entries = read_entries(data, outline.planes, PlaneTag.EVENT_METADATA)
    stat_entries = read_entries(data, outline.planes, PlaneTag.STAT_METADATA)
    strings = StringTable()
    columns = [
        outline.planes.last_place(PlaneTag.NAME),
        line_name,
        line_display_name,
        entries.name,
        entries.display_name,
        stat_entries.name,
    ]
    plane, line, line_display, name, display, key = read_texts(data, columns, strings)
    types = entries.tables(planes, np.arange(len(entries.id), dtype=np.int32))
    keys = stat_entries.tables(planes, key)
    return Catalog(
        strings,
        plane,
        line,
        line_display,
        types,
        keys,
        _event_types(entries, name, display),
        _type_stats(entries, keys, strings),
        np.concatenate([entries.broken, stat_entries.broken]),
    )


def _event_types(
    entries: Entries, name: NDArray[np.int32], display: NDArray[np.int32]
) -> EventTypes:
    return EventTypes(
        entries.plane,
        entries.id,
        name,
        np.where(display == 0, np.int32(-1), display),
        entries.metadata.place,
        entries.metadata.length.astype(np.int32),
        np.zeros(len(entries.id), bool),
    )


def _type_stats(
    entries: Entries, keys: list[IdTable], strings: StringTable
) -> TypeStats:
    stats = entries.stats
    key, value = _resolved(stats, entries.plane[stats.owner], keys, strings)
    return TypeStats(stats.owner, key, stats.kind, value, stats.length)


def read_plane_stats(
    data: NDArray[np.uint8], outline: Outline, catalog: Catalog
) -> list[tuple[PlaneStat, ...]]:
    """Return the plane-wide values of each plane as Python values."""
    stats = read_stats(data, outline.planes.of(PlaneTag.STAT))
    keys, values = _resolved(stats, stats.owner, catalog.keys, catalog.strings)
    texts = catalog.strings.texts()
    found: list[list[PlaneStat]] = [[] for _ in outline.planes.stop]
    doubles = values.view(np.float64)
    unsigned = values.view(np.uint64)
    for row, (plane, key, kind, length) in enumerate(
        zip(
            stats.owner.tolist(),
            keys.tolist(),
            stats.kind.tolist(),
            stats.length.tolist(),
            strict=True,
        )
    ):
        number = int(values[row])
        value: float | int | str | bytes | None = number
        if kind == DOUBLE:
            value = float(doubles[row])
        elif kind == UINT:
            value = int(unsigned[row])
        elif kind in (TEXT, BYTES):
            raw = data[number : number + length].tobytes()
            value = raw if kind == BYTES else raw.decode("utf-8", "replace")
        elif kind == REF:
            value = texts[number] if number >= 0 else None
        elif kind == NO_VALUE:
            value = None
        found[plane].append((texts[key], kind, value))
    return [tuple(stats) for stats in found]


def _resolved(
    stats: StatMessages,
    planes: NDArray[np.int32],
    keys: list[IdTable],
    strings: StringTable,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return handles of the names, and values whose references are handles too."""
    key = np.empty(len(stats.id), np.int32)
    value = stats.value.copy()
    present, first = np.unique(planes, return_index=True)
    bounds = np.append(first, len(planes)).tolist()
    for position, plane in enumerate(present.tolist()):
        rows = slice(bounds[position], bounds[position + 1])
        key[rows] = keys[plane].look_up(stats.id[rows])
        refs = np.flatnonzero(stats.kind[rows] == REF) + bounds[position]
        value[refs] = keys[plane].look_up(value[refs])
    unknown = np.flatnonzero(key < 0)
    distinct, place = np.unique(stats.id[unknown], return_inverse=True)
    key[unknown] = _unknown_keys(distinct, strings)[place]
    return key, value


def _unknown_keys(ids: NDArray[np.int64], strings: StringTable) -> NDArray[np.int32]:
    """Return handles for the names of stats, given ascending ids without an entry."""
    named = ids[:_MOST_UNKNOWN].tolist()
    handles = [strings.handle(f"(unknown stat {number})") for number in named]
    rest = len(ids) - len(named)
    if rest:
        handles += [strings.handle("(further unknown stats)")] * rest
    return np.array(handles, np.int32)


def name_lost(filled: Filled, catalog: Catalog) -> EventTypes:
    """Give events and stats without an entry a type and a key after all.

    Each id that a plane's events use and its map lacks becomes a further row of the
    event types, which are returned.
    """
    strings, known = catalog.strings, catalog.event_types
    keys = np.empty(0, np.int64)
    distinct: dict[int, NDArray[np.int64]] = {}
    # Task by task, because in a file that was cut this may be every event.
    for lost in filled.lost:
        keys = np.union1d(keys, lost.keys[:, 1])
        if len(lost.types):
            ids = np.unique(lost.types[:, 1])
            distinct[lost.plane] = np.union1d(distinct.get(lost.plane, ids), ids)
    handles = _unknown_keys(keys, strings)
    for lost in filled.lost:
        place = np.searchsorted(keys, lost.keys[:, 1])
        filled.stats.key[lost.keys[:, 0]] = handles[place]
    if not distinct:
        return known
    base, room = len(known), _MOST_UNKNOWN
    added: list[tuple[int, NDArray[np.int64]]] = []
    first: dict[int, int] = {}
    for plane, ids in sorted(distinct.items()):
        # The last row of a plane is shared by whatever exceeds the room.
        added.append((plane, ids[: max(room, 1)]))
        first[plane] = base
        base += len(added[-1][1])
        room -= len(added[-1][1])
    last = {plane: first[plane] + len(ids) - 1 for plane, ids in added}
    for lost in filled.lost:
        if len(lost.types):
            place = np.searchsorted(distinct[lost.plane], lost.types[:, 1])
            rows = np.minimum(first[lost.plane] + place, last[lost.plane])
            filled.events.type[lost.types[:, 0]] = rows
    return _with_unknown(known, added, strings)


def _with_unknown(
    known: EventTypes,
    added: list[tuple[int, NDArray[np.int64]]],
    strings: StringTable,
) -> EventTypes:
    ids = np.concatenate([part for _, part in added])
    planes = [np.full(len(part), plane, np.int32) for plane, part in added]
    names = [strings.handle(f"(unknown event {number})") for number in ids.tolist()]
    count = len(ids)
    return EventTypes(
        np.concatenate([known.plane, *planes]),
        np.append(known.id, ids),
        np.append(known.name, np.array(names, np.int32)),
        np.append(known.display_name, np.full(count, -1, np.int32)),
        np.append(known.metadata_place, np.zeros(count, np.int64)),
        np.append(known.metadata_length, np.zeros(count, np.int32)),
        np.append(known.unknown, np.ones(count, bool)),
    )
