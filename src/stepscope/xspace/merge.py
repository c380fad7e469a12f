"""Several profile messages made into one that has one plane of each name.

Messages written one after the other are one message to protobuf, but then several
planes share a name, and viewers show the first of them. `merge` brings the lines of
such planes together in the first one: entries of the two metadata maps that say the
same become one, the others get ids that are free, and events are written anew with
these ids (`_core.rebase`), undecoded otherwise. Lines of equal id are the same thread
or stream: they take the name of the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.xspace.encode import number_field, sized_field
from stepscope.xspace.fields import Entry, LineTag, PlaneTag, SpaceTag
from stepscope.xspace.merged_lines import (
    LineRows,
    absolute_lines,
    merged_lines,
    read_lines,
)
from stepscope.xspace.merged_names import IdMap, Names, read_entries, rewritten_stats
from stepscope.xspace.messages import index

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from stepscope.xspace.messages import Fields

__all__ = ["Part", "merge", "whole_length"]

_UTF8: Final = "utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One message that is to be merged.

    Attributes:
        data: Its bytes.
        shift_ns: What is added to the times of its lines.
    """

    data: bytes | memoryview | NDArray[np.uint8]
    shift_ns: int = 0


@dataclass(frozen=True, slots=True)
class _Plane:
    """One plane of one part."""

    data: NDArray[np.uint8]
    begin: int
    end: int
    shift_ns: int
    fields: Fields = field(repr=False)

    def rows(self, tag: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Begin and end of the sized fields of a tag."""
        found = self.fields.of(tag)
        return found.place, found.place + found.size


def merge(
    parts: Sequence[Part],
    *,
    start_ns: int = 0,
    without: Collection[str] = (),
    join_lines: bool = False,
) -> bytes:
    """Merge messages into one.

    Args:
        parts: In the order in which names of lines count.
        start_ns: Begin of the merged recording since 1970: lines that count from 1970
            are made to count from there.
        without: Names of planes that are left out.
        join_lines: Lines of equal id and time become one line with sorted events, also
            those of the first part; otherwise the first plane of each name keeps its
            bytes.

    Raises:
        ValueError: A part breaks the wire format.
    """
    groups: dict[str, list[_Plane]] = {}
    texts: dict[tuple[int, bytes], None] = {}
    for part in parts:
        data = np.frombuffer(part.data, np.uint8)
        space = _whole_fields(data, np.zeros(1, np.int64), np.array([len(data)]))
        for plane in _planes(data, space, part.shift_ns):
            groups.setdefault(_name(plane), []).append(plane)
        for tag in (SpaceTag.ERROR, SpaceTag.WARNING, SpaceTag.HOSTNAME):
            rows = space.of(tag)
            for place, size in zip(rows.place.tolist(), rows.size.tolist(), strict=True):
                texts[tag, data[place : place + size].tobytes()] = None
    chunks = [
        _merged(planes, start_ns=start_ns, join_lines=join_lines)
        for name, planes in groups.items()
        if name not in without
    ]
    chunks += [sized_field(tag, text) for tag, text in sorted(texts, key=lambda it: it[0])]
    return b"".join(chunks)


def whole_length(data: bytes | memoryview | NDArray[np.uint8]) -> int:
    """How many bytes of a message hold whole fields: a writer may have been killed."""
    array = np.frombuffer(data, np.uint8)
    fields = index(array, np.zeros(1, np.int64), np.array([len(array)], np.int64))
    stop = int(fields.stop[0])
    return len(array) if stop < 0 else stop


def _whole_fields(
    data: NDArray[np.uint8], begin: NDArray[np.int64], end: NDArray[np.int64]
) -> Fields:
    fields = index(data, begin, end)
    if (fields.stop >= 0).any():
        at = int(fields.stop[fields.stop >= 0][0])
        raise ValueError(f"the message is malformed at byte {at:,}")
    return fields


def _planes(
    data: NDArray[np.uint8], space: Fields, shift_ns: int
) -> list[_Plane]:
    rows = space.of(SpaceTag.PLANE)
    return [
        _Plane(
            data,
            place,
            place + size,
            shift_ns,
            _whole_fields(
                data, np.array([place], np.int64), np.array([place + size], np.int64)
            ),
        )
        for place, size in zip(rows.place.tolist(), rows.size.tolist(), strict=True)
    ]


def _name(plane: _Plane) -> str:
    place, length = (
        int(it[0]) for it in plane.fields.last_place(PlaneTag.NAME)
    )
    return plane.data[place : place + length].tobytes().decode(_UTF8, "replace")


def _merged(planes: Sequence[_Plane], *, start_ns: int, join_lines: bool) -> bytes:
    first = planes[0]
    moved = first.shift_ns != 0 or absolute_lines(
        first.data, *first.rows(PlaneTag.LINE)
    )
    if not join_lines and not moved and len(planes) == 1:
        return sized_field(
            SpaceTag.PLANE, first.data[first.begin : first.end].tobytes()
        )
    types, names = Names(), Names()
    maps = [_named(plane, types, names) for plane in planes]
    out = [
        number_field(PlaneTag.ID, int(first.fields.last(PlaneTag.ID)[0])),
        sized_field(PlaneTag.NAME, _name(first).encode(_UTF8)),
    ]
    out += [_entry(PlaneTag.EVENT_METADATA, key, body) for key, body in types.entries()]
    out += [_entry(PlaneTag.STAT_METADATA, key, body) for key, body in names.entries()]
    for plane, (_, stat_ids) in zip(planes, maps, strict=True):
        for begin, end in zip(*map(np.ndarray.tolist, plane.rows(PlaneTag.STAT)), strict=True):
            stat = rewritten_stats(plane.data[begin:end].tobytes(), stat_ids)
            out.append(sized_field(PlaneTag.STAT, stat))
    out += _lines_of(
        planes, maps, start_ns=start_ns, keep_first=not (join_lines or moved)
    )
    return sized_field(SpaceTag.PLANE, b"".join(out))


def _named(plane: _Plane, types: Names, names: Names) -> tuple[IdMap, IdMap]:
    """Enter a plane's names; from its ids of events and of stats to the merged ones."""
    stat_ids = names.enter(
        read_entries(plane.data, *plane.rows(PlaneTag.STAT_METADATA)), IdMap.empty()
    )
    type_ids = types.enter(
        read_entries(plane.data, *plane.rows(PlaneTag.EVENT_METADATA)), stat_ids
    )
    return type_ids, stat_ids


def _lines_of(
    planes: Sequence[_Plane],
    maps: Sequence[tuple[IdMap, IdMap]],
    *,
    start_ns: int,
    keep_first: bool,
) -> list[bytes]:
    out = []
    rows: list[LineRows] = []
    for number, (plane, (type_ids, stat_ids)) in enumerate(
        zip(planes, maps, strict=True)
    ):
        begin, end = plane.rows(PlaneTag.LINE)
        lines = read_lines(
            plane.data, begin, end, shift_ns=plane.shift_ns, start_ns=start_ns
        )
        kept = keep_first and number == 0
        if kept:
            out += [
                sized_field(PlaneTag.LINE, plane.data[at:stop].tobytes())
                for at, stop in zip(begin.tolist(), end.tolist(), strict=True)
            ]
        rows += [LineRows(line, type_ids, stat_ids, kept=kept) for line in lines]
    out += [sized_field(PlaneTag.LINE, line) for line in merged_lines(rows)]
    return out


def _entry(tag: int, key: int, body: bytes) -> bytes:
    return sized_field(
        tag, number_field(Entry.KEY, key) + sized_field(Entry.VALUE, body)
    )


_ = LineTag
