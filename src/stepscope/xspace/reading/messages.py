"""Messages that are few next to the events: indexed by a kernel, sorted out in numpy.

`read_outline` reads the upper two levels of a profile message: its planes, and where
their lines are.
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

#: A file that holds more than this is no recording of a program on one host.
_MOST_PLANES: Final = 2**16
_MOST_LINES: Final = 2**18
_MOST_PLANE_STATS: Final = 2**20
_MOST_TEXTS: Final = 2**16
_MOST_NAMES: Final = 2**22
#: This many damaged places are named one by one.
_MOST_DAMAGE: Final = 32


class Outline(Frozen, frozen=True, eq=True):
    """Where planes and lines are; what is cut off ends where the file ends.

    Attributes:
        space: Fields of the message itself.
        planes: Fields of the planes; the owner is the plane.
        line_plane: Plane of each line, int32.
        line_begin: First byte of its message, int64.
        line_end: One past its last byte that the file holds, int64.
        line_claim: Where it, or the plane that it leaves, claims to end, int64.
        plane_claim: Where a plane claims to end, int64.
        line_leaves: Which lines claim more than their plane, bool.
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
    """Index the message down to its lines.

    Raises:
        BadInput: There is more of something than a recording can have.
    """
    size = len(data)
    space = index_messages(data, np.zeros(1, np.int64), np.array([size], np.int64))
    planes = space.of(SpaceTag.PLANE, cut=True)
    _check_count(name, "planes", len(planes.owner), _MOST_PLANES)
    _check_count(name, "texts", len(space.tag) - len(planes.owner), _MOST_TEXTS)
    claim = planes.place + planes.size
    fields = index_messages(data, planes.place, np.minimum(claim, size))
    lines = fields.of(PlaneTag.LINE, cut=True)
    _check_count(name, "lines", len(lines.owner), _MOST_LINES)
    for tag, what, most in (
        (PlaneTag.STAT, "values of planes", _MOST_PLANE_STATS),
        (PlaneTag.EVENT_METADATA, "names of events", _MOST_NAMES),
        (PlaneTag.STAT_METADATA, "names of values", _MOST_NAMES),
    ):
        _check_count(name, what, int(np.count_nonzero(fields.tag == tag)), most)
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


def found_damage(
    outline: Outline,
    stop: Int64s,
    *,
    plane_names: Sequence[str],
    line_names: Sequence[str],
) -> tuple[Damage, ...]:
    """Return what could not be read, given where each line broke off (-1: nowhere).

    Where a line leaves its plane only the line is listed: it is nearer the place.
    """
    size = int(outline.space.end[0])
    found = []
    at = int(outline.space.stop[0])
    if at >= 0 and not (outline.plane_claim > size).any():
        found.append(Damage(at, "the list of planes is malformed", size - at))
    broken = (outline.planes.stop >= 0) | (outline.plane_claim > size)
    broken[outline.line_plane[outline.line_leaves]] = False
    for plane in np.flatnonzero(broken).tolist():
        at = int(outline.planes.stop[plane])
        name = f"plane {plane_names[plane]!r}"
        found.append(
            _describe_damage(name, at, size, claim=int(outline.plane_claim[plane]))
        )
    broken = (stop >= 0) | outline.line_leaves
    for line in np.flatnonzero(broken).tolist():
        name = f"line {line_names[line]!r}"
        name += f" of plane {plane_names[outline.line_plane[line]]!r}"
        end = int(outline.line_end[line])
        claim = int(outline.line_claim[line])
        at = int(stop[line]) if stop[line] >= 0 else end
        found.append(_describe_damage(name, at, size, claim=claim))
    return tuple(found)


def _describe_damage(name: str, stop: int, size: int, *, claim: int) -> Damage:
    """Damage of what claims to end at `claim`, in a file of that size."""
    at = stop if stop >= 0 else size
    what = f"the file ends within {name}" if claim > size else f"{name} is malformed"
    return Damage(at, what, claim - at)


def summarise_damage(damage: tuple[Damage, ...]) -> tuple[Damage, ...]:
    """Return damage in file order; what exceeds a readable number is one last entry."""
    ordered = sorted(damage, key=lambda one: one.offset)
    rest = ordered[_MOST_DAMAGE:]
    if not rest:
        return tuple(ordered)
    what = f"{len(rest):,} further places break or end"
    lost = sum(one.lost_bytes for one in rest)
    return (*ordered[:_MOST_DAMAGE], Damage(rest[0].offset, what, lost))


def _check_count(name: object, what: str, count: int, most: int) -> None:
    if count > most:
        raise BadInput.at(
            name,
            f"holds {count:,} {what}, and at most {most:,} are read",
            "This is no recording of one host; check where the file comes from.",
        )


class Places(NamedTuple):
    """Where byte strings lie in the data; 0 and 0 where there is none.

    Attributes:
        place: Offset, int64.
        length: In bytes, int64.
    """

    place: Int64s
    length: Int64s

    def at(self, rows: Bools) -> Places:
        """Return the chosen rows."""
        return Places(self.place[rows], self.length[rows])


class Fields(Frozen, frozen=True, eq=True):
    """The fields of some messages, in file order.

    Attributes:
        owner: Which message a field belongs to, int32.
        tag: Field number and wire type, uint32.
        place: Where the value begins, int64.
        size: Length of a sized value, the 64 bits of any other, int64.
        stop: For each message the place at which it breaks, -1 for a whole one, int64.
        end: For each message its end, int64.
    """

    owner: Int32s
    tag: NDArray[np.uint32]
    place: Int64s
    size: Int64s
    stop: Int64s
    end: Int64s

    def of(self, tag: int, *, cut: bool = False) -> Fields:
        """Return the rows of one tag; those beyond their message only with `cut`."""
        chosen = self.tag == tag
        if not cut:
            # Sized values alone can be too long; numbers are stored in `size` itself.
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
        """Return the last value of a number in each message, 0 where there is none."""
        rows = self.of(tag)
        values = np.zeros(len(self.stop), np.int64)
        values[rows.owner] = rows.size
        return values

    def last_place(self, tag: int) -> Places:
        """Return where the last sized value of each message is."""
        rows = self.of(tag)
        place = np.zeros(len(self.stop), np.int64)
        length = np.zeros(len(self.stop), np.int64)
        place[rows.owner] = rows.place
        length[rows.owner] = rows.size
        return Places(place, length)


def index_messages(data: UInt8s, begin: Int64s, end: Int64s) -> Fields:
    """List the fields of the messages [begin, end)."""
    stop = np.empty(len(begin), np.int64)
    begin, end = np.ascontiguousarray(begin), np.ascontiguousarray(end)
    # The first call has no room and counts.
    count = 0
    for _ in range(2):
        owner = np.empty(count, np.int32)
        tag = np.empty(count, np.uint32)
        place = np.empty(count, np.int64)
        size = np.empty(count, np.int64)
        count = wire.index_fields(data, begin, end, owner, tag, place, size, stop)
        if count < 0:
            raise ValueError("a message does not lie in the data")
    return Fields(owner, tag, place, size, stop, end)


class IdTable(Frozen, frozen=True, eq=True):
    """From the ids of one plane's map to rows or handles.

    Attributes:
        direct: Value of a small id at its place, int32; -1: no such id.
        ids: The other ids, ascending, uint64.
        values: Value of each of `ids`, int32.
    """

    direct: Int32s
    ids: NDArray[np.uint64]
    values: Int32s

    def entries(self) -> Int32s:
        """Return all values, in no particular order."""
        return np.concatenate([self.direct[self.direct >= 0], self.values])

    def look_up(self, ids: Int64s) -> Int32s:
        """Return the values of ids given as 64 bits; -1 where the map lacks one."""
        wanted = ids.view(np.uint64)
        found = np.full(len(wanted), -1, np.int32)
        small = wanted < len(self.direct)
        found[small] = self.direct[ids[small]]
        if len(self.ids):
            at = np.searchsorted(self.ids, wanted)
            at[at == len(self.ids)] = 0
            hit = ~small & (self.ids[at] == wanted)
            found[hit] = self.values[at[hit]]
        return found


def id_table(ids: Int64s, values: Int32s) -> IdTable:
    """Build a table; of equal ids the last one wins.

    The direct part is bounded by the number of ids, not by their size.
    """
    unsigned = ids.view(np.uint64)
    bound = 4 * len(ids) + 1024
    small = unsigned < bound
    highest = int(unsigned[small].max(initial=0)) if small.any() else -1
    direct = np.full(highest + 1, -1, np.int32)
    direct[ids[small]] = values[small]
    rest, rest_values = unsigned[~small], values[~small]
    order = np.argsort(rest, kind="stable")
    rest, rest_values = rest[order], rest_values[order]
    last = np.append(rest[1:] != rest[:-1], np.ones(min(len(rest), 1), bool))
    return IdTable(direct, rest[last], rest_values[last])


class StatMessages(Frozen, frozen=True, eq=True):
    """Some XStat messages; `owner` says whose, the rest is as in `xspace.Stats`.

    A reference's value is the id it refers to, `id` that of the stat's name: both are
    not yet looked up.
    """

    owner: Int32s
    id: Int64s
    kind: UInt8s
    value: Int64s
    length: Int32s


def read_stats(data: UInt8s, rows: Fields) -> StatMessages:
    """Decode the XStat messages that `rows` list; what is malformed is left out."""
    fields = index_messages(data, rows.place, rows.place + rows.size)
    whole = fields.stop < 0
    count = len(rows.owner)
    kind = np.full(count, NO_VALUE, np.uint8)
    value = np.zeros(count, np.int64)
    length = np.zeros(count, np.int32)
    sized = np.isin(fields.tag, (StatTag.TEXT, StatTag.BYTES))
    number = np.isin(
        fields.tag, (StatTag.DOUBLE, StatTag.UINT, StatTag.INT, StatTag.REF)
    )
    # Rows are in file order, so the last member of the oneof is assigned last.
    chosen = np.flatnonzero((sized | number) & whole[fields.owner])
    owner = fields.owner[chosen]
    kind[owner] = fields.tag[chosen] >> 3
    value[owner] = np.where(sized, fields.place, fields.size)[chosen]
    length[owner] = np.where(sized, fields.size, 0)[chosen]
    return StatMessages(
        rows.owner[whole],
        fields.last(StatTag.METADATA_ID)[whole],
        kind[whole],
        value[whole],
        length[whole],
    )
