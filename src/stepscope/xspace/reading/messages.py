"""Decoding of all messages except events: a profile has few of these messages.

`read_outline` reads two levels of a profile: planes, and byte ranges of their lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope._core import wire
from stepscope.errors import BadInput
from stepscope.frozen import Frozen
from stepscope.xspace.fields import NO_VALUE, PlaneTag, SpaceTag, StatTag
from stepscope.xspace.reading.columns import Damage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s

#: Maximum counts in one file; a recording of one program on one host has fewer.
_MAX_PLANES: Final = 2**16
_MAX_LINES: Final = 2**18
_MAX_PLANE_STATS: Final = 2**20
_MAX_TEXTS: Final = 2**16
_MAX_NAMES: Final = 2**22
#: Maximum number of damaged byte ranges that are listed one by one.
_MAX_LISTED_DAMAGE: Final = 32


class Outline(Frozen, frozen=True, eq=True):
    """Byte ranges of planes and lines; a truncated range ends at the end of the file.

    Attributes:
        space: Fields of the message itself.
        planes: Fields of the planes; the owner is the plane.
        line_plane: Plane of each line, int32.
        line_begin: First byte of the line's message, int64.
        line_end: One past the last byte of the line in the file, int64.
        line_claim: End of the line according to its length field, int64; if that is
            beyond the plane, `plane_claim`.
        plane_claim: End of each plane according to its length field, int64.
        line_leaves: Whether a line's length field exceeds its plane, bool.
    """

    space: Fields
    planes: Fields
    line_plane: Int32s
    line_begin: Int64s
    line_end: Int64s
    line_claim: Int64s
    plane_claim: Int64s
    line_leaves: Bools


def read_outline(data: UInt8s, name: object) -> Outline:
    """Index the message, its planes and their lines.

    Raises:
        BadInput: A count exceeds its maximum for a recording.
    """
    size = len(data)
    space = index_message(data, 0, size)
    planes = space.of(SpaceTag.PLANE, cut=True)
    _check_count(name, "planes", len(planes.owner), _MAX_PLANES)
    _check_count(name, "texts", len(space.tag) - len(planes.owner), _MAX_TEXTS)
    claim = planes.place + planes.size
    fields = index_messages(data, planes.place, np.minimum(claim, size))
    lines = fields.of(PlaneTag.LINE, cut=True)
    _check_count(name, "lines", len(lines.owner), _MAX_LINES)
    for tag, unit, limit in (
        (PlaneTag.STAT, "values of planes", _MAX_PLANE_STATS),
        (PlaneTag.EVENT_METADATA, "names of events", _MAX_NAMES),
        (PlaneTag.STAT_METADATA, "names of values", _MAX_NAMES),
    ):
        _check_count(name, unit, int(np.count_nonzero(fields.tag == tag)), limit)
    line_claim = lines.place + lines.size
    plane_end = fields.end[lines.owner]
    leaves = line_claim > plane_end
    return Outline(
        space,
        fields,
        lines.owner,
        lines.place,
        np.minimum(line_claim, plane_end),
        np.where(leaves, claim[lines.owner], line_claim),
        claim,
        leaves,
    )


def list_damage(
    outline: Outline,
    stop: Int64s,
    *,
    plane_names: Sequence[str],
    line_names: Sequence[str],
) -> tuple[Damage, ...]:
    """Return the unreadable byte ranges, given each line's first malformed byte or -1.

    If a line exceeds its plane, only the line is listed: it is closer to the damage.
    """
    size = int(outline.space.end[0])
    damage = []
    offset = int(outline.space.stop[0])
    if offset >= 0 and not (outline.plane_claim > size).any():
        damage.append(Damage(offset, "the list of planes is malformed", size - offset))
    broken = (outline.planes.stop >= 0) | (outline.plane_claim > size)
    broken[outline.line_plane[outline.line_leaves]] = False
    for plane in np.flatnonzero(broken).tolist():
        offset = int(outline.planes.stop[plane])
        name = f"plane {plane_names[plane]!r}"
        damage.append(
            _describe_damage(name, offset, size, claim=int(outline.plane_claim[plane]))
        )
    broken = (stop >= 0) | outline.line_leaves
    for line in np.flatnonzero(broken).tolist():
        name = f"line {line_names[line]!r}"
        name += f" of plane {plane_names[outline.line_plane[line]]!r}"
        end = int(outline.line_end[line])
        claim = int(outline.line_claim[line])
        offset = int(stop[line]) if stop[line] >= 0 else end
        damage.append(_describe_damage(name, offset, size, claim=claim))
    return tuple(damage)


def _describe_damage(name: str, stop: int, size: int, *, claim: int) -> Damage:
    """Describe damage of a line or plane whose length field puts its end at `claim`."""
    offset = stop if stop >= 0 else size
    text = f"the file ends within {name}" if claim > size else f"{name} is malformed"
    return Damage(offset, text, claim - offset)


def summarise_damage(damage: tuple[Damage, ...]) -> tuple[Damage, ...]:
    """Return damage in file order; the last entry sums up all beyond the maximum."""
    ordered = sorted(damage, key=lambda entry: entry.offset)
    unlisted = ordered[_MAX_LISTED_DAMAGE:]
    if not unlisted:
        return tuple(ordered)
    summary = f"{len(unlisted):,} more places are malformed or cut off"
    lost = sum(entry.lost_bytes for entry in unlisted)
    return (*ordered[:_MAX_LISTED_DAMAGE], Damage(unlisted[0].offset, summary, lost))


def _check_count(name: object, unit: str, count: int, limit: int) -> None:
    if count > limit:
        raise BadInput.at(
            name,
            f"contains {count:,} {unit}, and at most {limit:,} are read",
            "This is not a recording of one host; check where the file comes from.",
        )


class Slices(NamedTuple):
    """Offsets and lengths of byte strings in the data; both are 0 for no string."""

    place: Int64s
    length: Int64s

    def at(self, rows: Bools) -> Slices:
        """Return the chosen rows."""
        return Slices(self.place[rows], self.length[rows])


class Fields(Frozen, frozen=True, eq=True):
    """Fields of several messages, in file order.

    Attributes:
        owner: Message of each field, int32.
        tag: Field number and wire type, uint32.
        place: Offset of the value, int64.
        size: Length of a sized value; for any other value, its 64 bits; int64.
        stop: Offset of the first malformed field of each message, -1 for none, int64.
        end: End of each message, int64.
    """

    owner: Int32s
    tag: NDArray[np.uint32]
    place: Int64s
    size: Int64s
    stop: Int64s
    end: Int64s

    def of(self, tag: int, *, cut: bool = False) -> Fields:
        """Return the fields of one tag; truncated fields only if `cut` is set."""
        chosen = self.tag == tag
        if not cut:
            # Only sized values can be too long; for numbers, `size` is the value.
            chosen &= ((self.tag & 7) != 2) | (
                self.size <= self.end[self.owner] - self.place
            )
        rows = np.flatnonzero(chosen)
        return Fields(
            self.owner[rows],
            self.tag[rows],
            self.place[rows],
            self.size[rows],
            self.stop,
            self.end,
        )

    def bodies(self, data: UInt8s) -> list[bytes]:
        """Return the bytes of sized values."""
        return [
            data[place : place + size].tobytes()
            for place, size in zip(self.place.tolist(), self.size.tolist(), strict=True)
        ]

    def last(self, tag: int) -> Int64s:
        """Return the last number with this tag in each message, 0 for none."""
        rows = self.of(tag)
        values = np.zeros(len(self.stop), np.int64)
        values[rows.owner] = rows.size
        return values

    def last_place(self, tag: int) -> Slices:
        """Return the place of the last sized value with this tag in each message."""
        rows = self.of(tag)
        place = np.zeros(len(self.stop), np.int64)
        length = np.zeros(len(self.stop), np.int64)
        place[rows.owner] = rows.place
        length[rows.owner] = rows.size
        return Slices(place, length)


def index_message(data: UInt8s, begin: int, end: int) -> Fields:
    """List the fields of the message at the bytes [begin, end)."""
    return index_messages(data, np.array([begin], np.int64), np.array([end], np.int64))


def index_messages(data: UInt8s, begin: Int64s, end: Int64s) -> Fields:
    """List the fields of the messages at the bytes [begin, end)."""
    stop = np.empty(len(begin), np.int64)
    begin, end = np.ascontiguousarray(begin), np.ascontiguousarray(end)
    # The first call gets empty arrays and only counts the fields.
    count = 0
    for _ in range(2):
        owner = np.empty(count, np.int32)
        tag = np.empty(count, np.uint32)
        place = np.empty(count, np.int64)
        size = np.empty(count, np.int64)
        count = wire.index_fields(data, begin, end, owner, tag, place, size, stop)
        if count < 0:
            raise ValueError("a message is outside the data")
    return Fields(owner, tag, place, size, stop, end)


class IdTable(Frozen, frozen=True, eq=True):
    """Table from the ids of one plane's map to rows or handles.

    Attributes:
        direct: Values of small ids, indexed by id, int32; -1 for a missing id.
        ids: All larger ids, ascending, uint64.
        values: Value of each of `ids`, int32.
    """

    direct: Int32s
    ids: NDArray[np.uint64]
    values: Int32s

    def entries(self) -> Int32s:
        """Return all values, in no particular order."""
        return np.concatenate([self.direct[self.direct >= 0], self.values])

    def look_up(self, ids: Int64s) -> Int32s:
        """Return the value of each id, given as 64 bits; -1 for missing ids."""
        wanted = ids.view(np.uint64)
        values = np.full(len(wanted), -1, np.int32)
        small = wanted < len(self.direct)
        values[small] = self.direct[ids[small]]
        if len(self.ids):
            index = np.searchsorted(self.ids, wanted)
            index[index == len(self.ids)] = 0
            hit = ~small & (self.ids[index] == wanted)
            values[hit] = self.values[index[hit]]
        return values


def id_table(ids: Int64s, values: Int32s) -> IdTable:
    """Build a table; if ids are equal, the last one is used.

    The size of `direct` depends on the number of ids, not on their values.
    """
    unsigned = ids.view(np.uint64)
    bound = 4 * len(ids) + 1024
    small = unsigned < bound
    highest = int(unsigned[small].max(initial=0)) if small.any() else -1
    direct = np.full(highest + 1, -1, np.int32)
    direct[ids[small]] = values[small]
    large, large_values = unsigned[~small], values[~small]
    order = np.argsort(large, kind="stable")
    large, large_values = large[order], large_values[order]
    last = np.append(large[1:] != large[:-1], np.ones(min(len(large), 1), bool))
    return IdTable(direct, large[last], large_values[last])


class StatMessages(Frozen, frozen=True, eq=True):
    """Several XStat messages, in the columns of `xspace.Stats`, with their owners.

    `id` is the id of the stat's name, and a reference has the referenced id as its
    value; neither id is looked up yet.
    """

    owner: Int32s
    id: Int64s
    kind: UInt8s
    value: Int64s
    length: Int32s


def read_stats(data: UInt8s, rows: Fields) -> StatMessages:
    """Decode the XStat messages in `rows`, and leave out malformed ones."""
    fields = index_messages(data, rows.place, rows.place + rows.size)
    well_formed = fields.stop < 0
    count = len(rows.owner)
    kind = np.full(count, NO_VALUE, np.uint8)
    value = np.zeros(count, np.int64)
    length = np.zeros(count, np.int32)
    sized = np.isin(fields.tag, (StatTag.TEXT, StatTag.BYTES))
    number = np.isin(
        fields.tag, (StatTag.DOUBLE, StatTag.UINT, StatTag.INT, StatTag.REF)
    )
    # If a message has several values, the last one in the file overwrites the others.
    chosen = np.flatnonzero((sized | number) & well_formed[fields.owner])
    owner = fields.owner[chosen]
    kind[owner] = fields.tag[chosen] >> 3
    value[owner] = np.where(sized, fields.place, fields.size)[chosen]
    length[owner] = np.where(sized, fields.size, 0)[chosen]
    return StatMessages(
        rows.owner[well_formed],
        fields.last(StatTag.METADATA_ID)[well_formed],
        kind[well_formed],
        value[well_formed],
        length[well_formed],
    )
