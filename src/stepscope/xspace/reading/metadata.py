"""The metadata maps of the planes: names of events and of stats.

They are small beside the events, but not always: a program traced with its Python
functions has a hundred thousand names. So nothing here loops over entries; Python
makes the distinct strings and nothing else.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from stepscope.frozen import Frozen
from stepscope.xspace.fields import Entry, EventMetadata
from stepscope.xspace.reading.messages import (
    Fields,
    IdTable,
    Places,
    StatMessages,
    id_table,
    index,
    read_stats,
)
from stepscope.xspace.reading.pivot import intern_places

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


class StringTable:
    """Texts and their handles: each text has one, 0 is that of ""."""

    def __init__(self) -> None:
        self._handle_of = {"": 0}

    def handle(self, text: str) -> int:
        """Return the handle of a text, a new one where it is new."""
        return self._handle_of.setdefault(text, len(self._handle_of))

    def handles(self, texts: Iterable[str]) -> list[int]:
        """Return the handles of many texts."""
        known = self._handle_of
        return [known.setdefault(text, len(known)) for text in texts]

    def texts(self) -> list[str]:
        """Return handle → text."""
        return list(self._handle_of)


class Entries(Frozen, frozen=True, eq=True):
    """The entries of all planes' maps of one kind, by plane, in file order.

    Of the entries of one plane with equal keys only the last one is here.

    Attributes:
        plane: Row of the planes, int32.
        id: The key (the value's own id may differ: the key wins), int64.
        name: Place of the name.
        display_name: Place of the display name.
        metadata: Place of the bytes: a serialized message of the producer's.
        stats: Values shared by all events of an entry; the owner is a row here.
        broken: Places of malformed entries, which are left out.
    """

    plane: NDArray[np.int32]
    id: NDArray[np.int64]
    name: Places
    display_name: Places
    metadata: Places
    stats: StatMessages
    broken: NDArray[np.int64]

    def tables(self, planes: int, values: NDArray[np.int32]) -> list[IdTable]:
        """For each plane the table from ids to the `values` beside these entries."""
        bounds = np.searchsorted(self.plane, np.arange(planes + 1)).tolist()
        empty = id_table(self.id[:0], values[:0])
        return [
            id_table(self.id[first:last], values[first:last]) if last > first else empty
            for first, last in pairwise(bounds)
        ]


def read_entries(data: NDArray[np.uint8], planes: Fields, tag: int) -> Entries:
    """Decode the maps under `tag` in the planes.

    Stat metadata has no display name, bytes or stats; theirs are to be ignored.
    """
    rows = planes.of(tag)
    entries = index(data, rows.place, rows.place + rows.size)
    key = entries.last(Entry.KEY)
    value_rows = entries.of(Entry.VALUE)
    values = index(data, value_rows.place, value_rows.place + value_rows.size)
    broken = entries.stop >= 0
    broken[value_rows.owner[values.stop >= 0]] = True
    # Several values of one entry are one message in pieces: with the entry as their
    # owner its fields follow each other, and the last one wins.
    fields = Fields(
        value_rows.owner[values.owner],
        values.tag,
        values.place,
        values.size,
        entries.stop,
        entries.end,
    )
    kept = _last_of_each(rows.owner, key, whole=~broken)
    return Entries(
        rows.owner[kept],
        key[kept],
        fields.last_place(EventMetadata.NAME).at(kept),
        fields.last_place(EventMetadata.DISPLAY_NAME).at(kept),
        fields.last_place(EventMetadata.METADATA).at(kept),
        _of_kept(read_stats(data, fields.of(EventMetadata.STAT)), kept),
        rows.place[broken],
    )


def read_texts(
    data: NDArray[np.uint8], columns: Sequence[Places], strings: StringTable
) -> list[NDArray[np.int32]]:
    """Intern the texts of several columns, and give handles for each column.

    What is not UTF-8 is replaced.
    """
    place = np.concatenate([column.place for column in columns])
    length = np.concatenate([column.length for column in columns])
    interned = intern_places(data, place, length)
    view = data.data
    starts = place[interned.firsts]
    ends = starts + length[interned.firsts]
    # Different bytes may become one text once what is not UTF-8 is replaced.
    handles = np.array(
        strings.handles(
            str(view[start:end], "utf-8", "replace")
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ),
        np.int32,
    )
    bounds = np.cumsum([len(column.place) for column in columns])[:-1]
    return np.split(handles[interned.ids], bounds)


def _last_of_each(
    plane: NDArray[np.int32], key: NDArray[np.int64], *, whole: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Mark the last whole entry of each plane and key; `plane` is ascending."""
    kept = np.zeros(len(key), bool)
    present, first = np.unique(plane, return_index=True)
    bounds = np.append(first, len(plane)).tolist()
    for position in range(len(present)):
        rows = np.arange(bounds[position], bounds[position + 1], dtype=np.int32)
        rows = rows[whole[rows]]
        kept[id_table(key[rows], rows).entries()] = True
    return kept


def _of_kept(stats: StatMessages, kept: NDArray[np.bool_]) -> StatMessages:
    chosen = kept[stats.owner]
    row_of = (np.cumsum(kept) - 1).astype(np.int32)
    return StatMessages(
        row_of[stats.owner[chosen]],
        stats.id[chosen],
        stats.kind[chosen],
        stats.value[chosen],
        stats.length[chosen],
    )
