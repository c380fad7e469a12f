"""Names for the ids in events and stats, including ids whose names the file lost.

The metadata maps of the planes are usually small compared with the events, but a
recording of Python functions has a hundred thousand names. So this module never loops
over map entries in Python; only the distinct strings become Python objects.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.frozen import Frozen
from stepscope.xspace.fields import (
    BYTES,
    DOUBLE,
    NO_VALUE,
    REF,
    TEXT,
    UINT,
    Entry,
    EventMetadata,
    PlaneTag,
)
from stepscope.xspace.reading.columns import EventTypes, TypeStats, intern_texts
from stepscope.xspace.reading.messages import (
    Fields,
    IdTable,
    Slices,
    StatMessages,
    id_table,
    index_messages,
    read_stats,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s
    from stepscope.xspace.reading.columns import PlaneStat
    from stepscope.xspace.reading.fill import Filled
    from stepscope.xspace.reading.messages import IdTable, Outline, Slices

#: Maximum number of unknown ids that get separate names; further unknown ids share one.
_MAX_UNKNOWN_IDS: Final = 2**18


class StringTable:
    """Texts numbered by handles; handle 0 is the empty text."""

    def __init__(self) -> None:
        self._handle_of = {"": 0}

    def handle(self, text: str) -> int:
        """Return the handle of a text, which is added if it is new."""
        return self._handle_of.setdefault(text, len(self._handle_of))

    def handles(self, texts: Iterable[str]) -> list[int]:
        """Return the handles of many texts."""
        known = self._handle_of
        return [known.setdefault(text, len(known)) for text in texts]

    def texts(self) -> list[str]:
        """Return the texts in the order of their handles."""
        return list(self._handle_of)


class Entries(Frozen, frozen=True, eq=True):
    """Entries of one kind of metadata map in all planes, by plane, in file order.

    If several entries of one plane have equal keys, only the last one is kept.

    Attributes:
        plane: Row of the plane, int32.
        id: Key of the entry (used even if the id inside the value differs), int64.
        name: Offset and length of the name.
        display_name: Offset and length of the display name.
        metadata: Offset and length of the metadata, a serialized message.
        stats: Values shared by all events of an entry; the owner is the entry's row.
        broken: Places of malformed entries, which are left out.
    """

    plane: Int32s
    id: Int64s
    name: Slices
    display_name: Slices
    metadata: Slices
    stats: StatMessages
    broken: Int64s

    def tables(self, planes: int, values: Int32s) -> list[IdTable]:
        """Return for each plane the table from ids to the `values` of the entries."""
        bounds = np.searchsorted(self.plane, np.arange(planes + 1)).tolist()
        empty = id_table(self.id[:0], values[:0])
        return [
            id_table(self.id[first:last], values[first:last]) if last > first else empty
            for first, last in pairwise(bounds)
        ]


def read_entries(data: UInt8s, planes: Fields, tag: int) -> Entries:
    """Decode the metadata maps with this tag in the planes.

    Stat metadata has no display name, bytes or stats; ignore these columns.
    """
    rows = planes.of(tag)
    entries = index_messages(data, rows.place, rows.place + rows.size)
    key = entries.last(Entry.KEY)
    value_rows = entries.of(Entry.VALUE)
    values = index_messages(data, value_rows.place, value_rows.place + value_rows.size)
    broken = entries.stop >= 0
    broken[value_rows.owner[values.stop >= 0]] = True
    # Several values of one entry are pieces of one message. Make the entry the owner of
    # all pieces; of equal fields, the last one is used.
    fields = Fields(
        value_rows.owner[values.owner],
        values.tag,
        values.place,
        values.size,
        entries.stop,
        entries.end,
    )
    is_kept = _mark_last_of_each(rows.owner, key, well_formed=~broken)
    stats = read_stats(data, fields.of(EventMetadata.STAT))
    chosen = is_kept[stats.owner]
    row_of = (np.cumsum(is_kept) - 1).astype(np.int32)
    return Entries(
        rows.owner[is_kept],
        key[is_kept],
        fields.last_place(EventMetadata.NAME).at(is_kept),
        fields.last_place(EventMetadata.DISPLAY_NAME).at(is_kept),
        fields.last_place(EventMetadata.METADATA).at(is_kept),
        StatMessages(
            row_of[stats.owner[chosen]],
            stats.id[chosen],
            stats.kind[chosen],
            stats.value[chosen],
            stats.length[chosen],
        ),
        rows.place[broken],
    )


def read_texts(
    data: UInt8s, columns: Sequence[Slices], strings: StringTable
) -> list[Int32s]:
    """Intern the texts of several columns, and return the handles of each column.

    Invalid UTF-8 is replaced.
    """
    place = np.concatenate([column.place for column in columns])
    length = np.concatenate([column.length for column in columns])
    interned = intern_texts(data, place, length)
    view = data.data
    starts = place[interned.firsts]
    ends = starts + length[interned.firsts]
    # Different byte strings may become the same text when invalid UTF-8 is replaced.
    handles = np.array(
        strings.handles(
            str(view[start:end], "utf-8", "replace")
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ),
        np.int32,
    )
    bounds = np.cumsum([len(column.place) for column in columns])[:-1]
    return np.split(handles[interned.ids], bounds)


def _mark_last_of_each(plane: Int32s, key: Int64s, *, well_formed: Bools) -> Bools:
    """Mark the last well-formed entry of each plane and key; `plane` is ascending."""
    is_last = np.zeros(len(key), bool)
    present, first = np.unique(plane, return_index=True)
    bounds = np.append(first, len(plane)).tolist()
    for position in range(len(present)):
        rows = np.arange(bounds[position], bounds[position + 1], dtype=np.int32)
        rows = rows[well_formed[rows]]
        is_last[id_table(key[rows], rows).entries()] = True
    return is_last


class Catalog(Frozen, frozen=True, eq=True):
    """Names of one file.

    Attributes:
        strings: All names; unknown ids add further names.
        plane_names: Handle of each plane's name.
        line_names: Handle of each line's name.
        line_display_names: Handle of each line's display name; 0 for none.
        types: Tables from event metadata ids to rows of `event_types`, one per plane.
        keys: Tables from stat metadata ids to handles, one per plane.
        event_types: Event types in the file.
        type_stats: Stats of the event types.
        broken: Places of malformed entries, which are left out.
    """

    strings: StringTable
    plane_names: Int32s
    line_names: Int32s
    line_display_names: Int32s
    types: list[IdTable]
    keys: list[IdTable]
    event_types: EventTypes
    type_stats: TypeStats
    broken: Int64s


def read_catalog(
    data: UInt8s, outline: Outline, *, line_name: Slices, line_display_name: Slices
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
    stats = entries.stats
    stat_key, value = _resolve_ids(stats, entries.plane[stats.owner], keys, strings)
    return Catalog(
        strings,
        plane,
        line,
        line_display,
        types,
        keys,
        EventTypes(
            entries.plane,
            entries.id,
            name,
            np.where(display == 0, np.int32(-1), display),
            entries.metadata.place,
            entries.metadata.length.astype(np.int32),
            np.zeros(len(entries.id), bool),
        ),
        TypeStats(stats.owner, stat_key, stats.kind, value, stats.length),
        np.concatenate([entries.broken, stat_entries.broken]),
    )


def read_plane_stats(
    data: UInt8s, outline: Outline, catalog: Catalog
) -> list[tuple[PlaneStat, ...]]:
    """Return the plane-wide values of each plane, as Python values."""
    stats = read_stats(data, outline.planes.of(PlaneTag.STAT))
    keys, values = _resolve_ids(stats, stats.owner, catalog.keys, catalog.strings)
    texts = catalog.strings.texts()
    stats_of_planes: list[list[PlaneStat]] = [[] for _ in outline.planes.stop]
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
        stats_of_planes[plane].append((texts[key], kind, value))
    return [tuple(stats) for stats in stats_of_planes]


def _resolve_ids(
    stats: StatMessages, planes: Int32s, keys: list[IdTable], strings: StringTable
) -> tuple[Int32s, Int64s]:
    """Return the handles of the stats' names, and values with references resolved."""
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


def _unknown_keys(ids: Int64s, strings: StringTable) -> Int32s:
    named = ids[:_MAX_UNKNOWN_IDS].tolist()
    handles = [strings.handle(f"(unknown stat {number})") for number in named]
    unnamed = len(ids) - len(named)
    if unnamed:
        handles += [strings.handle("(further unknown stats)")] * unnamed
    return np.array(handles, np.int32)


def name_lost(filled: Filled, catalog: Catalog) -> EventTypes:
    """Add names for ids without an entry, and enter them into the events and stats.

    Each event id that its plane's map lacks becomes a row of the returned event types.
    """
    strings, known = catalog.strings, catalog.event_types
    keys = np.empty(0, np.int64)
    distinct: dict[int, Int64s] = {}
    # Process one task at a time: in a truncated file all events may lack an entry.
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
    base, free_rows = len(known), _MAX_UNKNOWN_IDS
    added: list[tuple[int, Int64s]] = []
    first: dict[int, int] = {}
    for plane, ids in sorted(distinct.items()):
        # Ids of a plane beyond the maximum number share the plane's last row.
        added.append((plane, ids[: max(free_rows, 1)]))
        first[plane] = base
        base += len(added[-1][1])
        free_rows -= len(added[-1][1])
    last = {plane: first[plane] + len(ids) - 1 for plane, ids in added}
    for lost in filled.lost:
        if len(lost.types):
            place = np.searchsorted(distinct[lost.plane], lost.types[:, 1])
            rows = np.minimum(first[lost.plane] + place, last[lost.plane])
            filled.events.type[lost.types[:, 0]] = rows
    return _add_unknown_types(known, added, strings)


def _add_unknown_types(
    known: EventTypes, added: list[tuple[int, Int64s]], strings: StringTable
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
