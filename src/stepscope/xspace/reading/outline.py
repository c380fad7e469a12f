"""The upper two levels of a profile message: its planes and where their lines are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.errors import BadInput
from stepscope.frozen import Frozen
from stepscope.xspace.fields import PlaneTag, SpaceTag
from stepscope.xspace.reading.columns import Damage
from stepscope.xspace.reading.messages import Fields, index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: A file that holds more than this is no recording of a program on one host.
_MOST_PLANES: Final = 2**16
_MOST_LINES: Final = 2**18
_MOST_PLANE_STATS: Final = 2**20
_MOST_TEXTS: Final = 2**16
_MOST_NAMES: Final = 2**22
#: So many damaged places are named one by one.
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
    line_plane: NDArray[np.int32]
    line_begin: NDArray[np.int64]
    line_end: NDArray[np.int64]
    line_claim: NDArray[np.int64]
    plane_claim: NDArray[np.int64]
    line_leaves: NDArray[np.bool_]


def read_outline(data: NDArray[np.uint8], name: object) -> Outline:
    """Index the message down to its lines.

    Raises:
        BadInput: There is more of something than a recording can have.
    """
    size = len(data)
    space = index(data, np.zeros(1, np.int64), np.array([size], np.int64))
    planes = space.of(SpaceTag.PLANE, cut=True)
    _check_count(name, "planes", len(planes.owner), _MOST_PLANES)
    _check_count(name, "texts", len(space.tag) - len(planes.owner), _MOST_TEXTS)
    claim = planes.place + planes.size
    fields = index(data, planes.place, np.minimum(claim, size))
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
    stop: NDArray[np.int64],
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
        found.append(_damage(name, at, size, claim=int(outline.plane_claim[plane])))
    broken = (stop >= 0) | outline.line_leaves
    for line in np.flatnonzero(broken).tolist():
        name = f"line {line_names[line]!r}"
        name += f" of plane {plane_names[outline.line_plane[line]]!r}"
        end = int(outline.line_end[line])
        claim = int(outline.line_claim[line])
        at = int(stop[line]) if stop[line] >= 0 else end
        found.append(_damage(name, at, size, claim=claim))
    return tuple(found)


def _damage(name: str, stop: int, size: int, *, claim: int) -> Damage:
    """Damage of what claims to end at `claim`, in a file of that size."""
    at = stop if stop >= 0 else size
    what = f"the file ends within {name}" if claim > size else f"{name} is malformed"
    return Damage(at, what, claim - at)


def summarised(damage: tuple[Damage, ...]) -> tuple[Damage, ...]:
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
