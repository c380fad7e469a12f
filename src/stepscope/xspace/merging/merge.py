"""Merging of several profile messages into one in which no two planes share a name.

To protobuf, concatenated messages are one message, but then several planes share a
name, and viewers show only the first of them. `merge_messages` moves the lines of these
planes into the first one. Equal entries of the two metadata maps become one entry, and
the other entries get free ids. The ids in the events are rewritten (`_core.rebase`);
nothing else of the events is decoded. Lines of equal id are one thread or stream, which
keeps the name of its first line.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.xspace.fields import PlaneTag, SpaceTag
from stepscope.xspace.merging.lines import (
    Head,
    IdMap,
    Move,
    Names,
    join_line_bodies,
    read_entries,
    read_heads,
    read_lines,
    rewrite_events,
    rewritten_stat,
)
from stepscope.xspace.reading.messages import index_message
from stepscope.xspace.writing.encode import (
    encode_varint,
    map_entry,
    number_field,
    sized_field,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from stepscope.array_types import Int64s, UInt8s
    from stepscope.xspace.reading.messages import Fields

#: First id given to merged names. Producers number names from 1 or use 64-bit hashes.
_BEYOND_IDS: Final = 2**34


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One message to be merged.

    Attributes:
        shift_ns: Added to the times of its lines, in ns.
    """

    data: bytes | memoryview | UInt8s
    shift_ns: int = 0


@dataclass(frozen=True, slots=True)
class _Plane:
    data: UInt8s
    begin: int
    end: int
    shift_ns: int
    fields: Fields = field(repr=False)

    def rows(self, tag: int) -> tuple[Int64s, Int64s]:
        """Return the begin and end of each sized field with a tag."""
        fields = self.fields.of(tag)
        return fields.place, fields.place + fields.size

    def entries(self, tag: int) -> dict[int, bytes]:
        """Return the entries of the metadata map under a tag: id → message."""
        return read_entries(self.data, *self.rows(tag))


def merge_messages(
    parts: Sequence[Part],
    *,
    start_ns: int = 0,
    without: Collection[str] = (),
    renamed: Mapping[str, str] = MappingProxyType({}),
    join_lines: bool = False,
    keep_first: bool = True,
) -> bytes:
    """Merge messages into one.

    Args:
        parts: Messages; lines of equal id get the name that the first part gives them.
        start_ns: Begin of the merged recording since 1970. Line times since 1970 are
            changed to times since `start_ns`.
        without: Names of planes that are left out.
        renamed: Name of a plane → name of the plane into which it is merged.
        join_lines: Whether lines of equal id and time become one line with sorted
            events, also in the first part.
        keep_first: Whether the first plane of each name keeps its ids, and the bytes of
            its lines that are not joined; otherwise its names get new ids, too.

    Raises:
        ValueError: A part violates the wire format.
    """
    groups: dict[str, list[_Plane]] = {}
    texts: list[bytes] = []
    hosts: dict[bytes, None] = {}
    for part in parts:
        data = np.frombuffer(part.data, np.uint8)
        space = _checked_fields(data, 0, len(data))
        rows = space.of(SpaceTag.PLANE)
        for place, size in zip(rows.place.tolist(), rows.size.tolist(), strict=True):
            fields = _checked_fields(data, place, place + size)
            plane = _Plane(data, place, place + size, part.shift_ns, fields)
            name = _name_of_plane(plane)
            if name not in without:
                groups.setdefault(renamed.get(name, name), []).append(plane)
        for tag in (SpaceTag.ERROR, SpaceTag.WARNING):
            texts += [sized_field(tag, text) for text in space.of(tag).bodies(data)]
        hosts |= dict.fromkeys(space.of(SpaceTag.HOSTNAME).bodies(data))
    chunks: list[bytes] = []
    for name, planes in groups.items():
        body = _merge_planes(
            name,
            planes,
            start_ns=start_ns,
            join_lines=join_lines,
            keep_first=keep_first,
        )
        chunks.append(
            encode_varint(SpaceTag.PLANE) + encode_varint(sum(map(len, body)))
        )
        chunks += body
    chunks += texts
    chunks += [sized_field(SpaceTag.HOSTNAME, host) for host in hosts]
    return b"".join(chunks)


def complete_length(data: bytes | memoryview | UInt8s) -> int:
    """Return the length without the partial last field that a killed writer leaves."""
    raw = np.frombuffer(data, np.uint8)
    if not len(raw):
        return 0
    stop = int(index_message(raw, 0, len(raw)).stop[0])
    return len(raw) if stop < 0 else stop


def _checked_fields(data: UInt8s, begin: int, end: int) -> Fields:
    fields = index_message(data, begin, end)
    offset = int(fields.stop[0])
    if offset >= 0:
        raise ValueError(f"the message is malformed at byte {offset:,}")
    return fields


def _name_of_plane(plane: _Plane) -> str:
    place, length = (int(col[0]) for col in plane.fields.last_place(PlaneTag.NAME))
    return plane.data[place : place + length].tobytes().decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class _Names:
    """Names of the planes that are merged into one plane.

    Attributes:
        maps: For each plane, the maps of its type and stat ids to merged ids.
        missing: Id for types without a name, and id for stats without a name.
    """

    types: Names
    stats: Names
    maps: list[tuple[IdMap, IdMap]]
    missing: tuple[int, int]

    @classmethod
    def of(cls, planes: Sequence[_Plane], *, keep_first: bool) -> _Names:
        """Add the names of all planes; the first plane may keep its ids."""
        # A plane that keeps its bytes may use ids that have no name. Names of other
        # planes must not get these ids.
        first_free = _BEYOND_IDS if keep_first else 1
        types, stats = Names(first_free=first_free), Names(first_free=first_free)
        keeps_ids = [keep_first and plane is planes[0] for plane in planes]
        stat_ids = [
            stats.enter(plane.entries(PlaneTag.STAT_METADATA), keep_ids=keep)
            for plane, keep in zip(planes, keeps_ids, strict=True)
        ]
        missing = stats.free_id()
        type_ids = [
            types.enter(
                plane.entries(PlaneTag.EVENT_METADATA),
                stat_ids=(ids, missing),
                keep_ids=keep,
            )
            for plane, ids, keep in zip(planes, stat_ids, keeps_ids, strict=True)
        ]
        maps = list(zip(type_ids, stat_ids, strict=True))
        return cls(types, stats, maps, (types.free_id(), missing))


def _merge_planes(
    name: str,
    planes: Sequence[_Plane],
    *,
    start_ns: int,
    join_lines: bool,
    keep_first: bool,
) -> list[bytes]:
    """Return the body of the plane merged from planes of one name, in chunks."""
    first = planes[0]
    heads = read_heads(first.data, *first.rows(PlaneTag.LINE))
    is_unshifted = all(
        Move(first.shift_ns, start_ns).moved(head.timestamp_ns) == head.timestamp_ns
        for head in heads
    )
    keep = keep_first and is_unshifted
    joined: set[int] = set()
    if join_lines:
        counts = Counter(
            head.id
            for plane in planes
            for head in read_heads(plane.data, *plane.rows(PlaneTag.LINE))
        )
        joined = {line for line, times in counts.items() if times > 1}
    if keep and not joined and len(planes) == 1 and name == _name_of_plane(first):
        return [first.data[first.begin : first.end].tobytes()]
    names = _Names.of(planes, keep_first=keep)
    out = [
        number_field(PlaneTag.ID, int(first.fields.last(PlaneTag.ID)[0])),
        sized_field(PlaneTag.NAME, name.encode()),
    ]
    out += [map_entry(PlaneTag.EVENT_METADATA, *item) for item in names.types.entries()]
    out += [map_entry(PlaneTag.STAT_METADATA, *item) for item in names.stats.entries()]
    for plane, (_, stat_ids) in zip(planes, names.maps, strict=True):
        out += [
            sized_field(
                PlaneTag.STAT, rewritten_stat(stat, stat_ids, missing=names.missing[1])
            )
            for stat in plane.fields.of(PlaneTag.STAT).bodies(plane.data)
        ]
    rewritten = [plane.rows(PlaneTag.LINE) for plane in planes]
    if keep:
        is_separate = np.array([head.id not in joined for head in heads], bool)
        begin, end = rewritten[0]
        out += [
            sized_field(PlaneTag.LINE, first.data[start:stop].tobytes())
            for start, stop in zip(begin[is_separate], end[is_separate], strict=True)
        ]
        rewritten[0] = begin[~is_separate], end[~is_separate]
    first_heads = {head.id: head for head in reversed(heads)}
    return out + _join_lines_of_planes(
        planes, rewritten, start_ns=start_ns, names=names, first=first_heads
    )


def _join_lines_of_planes(
    planes: Sequence[_Plane],
    bounds: Sequence[tuple[Int64s, Int64s]],
    *,
    start_ns: int,
    names: _Names,
    first: dict[int, Head],
) -> list[bytes]:
    """Return the lines as fields; merge lines of equal id and time into one line."""
    groups: dict[tuple[int, int], tuple[Head, list[bytes]]] = {}
    for plane, ids, rows in zip(planes, names.maps, bounds, strict=True):
        move = Move(plane.shift_ns, start_ns)
        for head, *places in read_lines(plane.data, *rows, move=move):
            # A line has the name of the first line of the same id.
            name = first.setdefault(head.id, head).name
            named = head if name is None else head._replace(name=name)
            _, events = groups.setdefault((head.id, head.timestamp_ns), (named, []))
            events.append(
                rewrite_events(plane.data, *places, ids=ids, missing=names.missing)
            )
    merged = names.types.identity(), names.stats.identity()
    return [
        sized_field(
            PlaneTag.LINE,
            join_line_bodies(head, events, ids=merged, missing=names.missing),
        )
        for head, events in groups.values()
    ]
