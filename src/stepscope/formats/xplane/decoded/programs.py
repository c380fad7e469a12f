"""The compiled programs that a file lists, whether it holds their HLO or not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from stepscope.formats.xplane.decoded.columns import Values
    from stepscope.xspace.reading.columns import XSpace

_PLANE: Final = "/host:metadata"
_NUMBERED: Final = Pattern(r"(?P<module>.*)\((?P<program>\d{1,20})\)\Z", re.DOTALL)


class Program(NamedTuple):
    """A program: the name of its module, and the event type that describes it."""

    module: str
    type: int


def listed_programs(space: XSpace, program_id: Values) -> dict[int, Program]:
    """Return every program that is listed, by its id.

    Args:
        space: The file.
        program_id: The stat of that name, by event type.
    """
    planes = [row for row, it in enumerate(space.planes) if it.name == _PLANE]
    types = space.event_types
    listed = np.flatnonzero(np.isin(types.plane, planes) & ~types.unknown)
    numbers, has_number = program_id.integers()
    found = {}
    for row in listed.tolist():
        name = space.strings[types.name[row]]
        numbered = _NUMBERED.match(name)
        if has_number[row]:
            program = int(numbers[row])
        elif numbered is not None:
            program = _signed(int(numbered["program"]))
        else:
            program = int(types.id[row])
        found[program] = Program(numbered["module"] if numbered else name, row)
    return found


def _signed(number: int) -> int:
    """Return the signed 64 bits of an id that the name shows unsigned."""
    wrapped = number & (2**64 - 1)
    return wrapped - 2**64 if wrapped >= 2**63 else wrapped
