"""Add handles for texts that tables refer to, but that the file does not intern.

The handles are assigned before tables are built, so that they do not depend on the
order in which tables are read. Only the table `device_activity` refers to such texts,
for example the names of compiled programs, so only a file with devices has them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.formats.xplane.decoded.columns import Values, distinct_handles
from stepscope.patterns import Pattern
from stepscope.trace.tables import PLACE_TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepscope.formats.xplane.decoded.columns import Texts
    from stepscope.formats.xplane.decoded.tracks import Track
    from stepscope.xspace.reading.columns import Stats, TypeStats, XSpace

_PLANE: Final = "/host:metadata"
_NUMBERED: Final = Pattern(r"(?P<module>.*)\((?P<program>\d{1,20})\)\Z", re.DOTALL)
ANNOTATION: Final = "annotation"
#: Stats whose texts are shown as recorded.
_SHOWN: Final = ("tf_op", "level 0", "hlo_op", "hlo_module", "shape", "equation")


class Program(NamedTuple):
    """A program: the name of its module, and the event type that describes it."""

    module: str
    type: int


def listed_programs(space: XSpace, program_id: Values) -> dict[int, Program]:
    """Return every listed program by its id.

    Args:
        program_id: Values of the stat `program_id`, by event type.
    """
    planes = [row for row, plane in enumerate(space.planes) if plane.name == _PLANE]
    types = space.event_types
    listed = np.flatnonzero(np.isin(types.plane, planes) & ~types.unknown)
    numbers, has_number = program_id.integer_values()
    programs = {}
    for row in listed.tolist():
        name = space.strings[types.name[row]]
        numbered = _NUMBERED.match(name)
        if has_number[row]:
            program = int(numbers[row])
        elif numbered is not None:
            wrapped = int(numbered["program"]) & (2**64 - 1)
            program = wrapped - 2**64 if wrapped >= 2**63 else wrapped
        else:
            program = int(types.id[row])
        programs[program] = Program(numbered["module"] if numbered else name, row)
    return programs


def add_shown_texts(
    texts: Texts, space: XSpace, tracks: Sequence[Track], programs: Iterable[Program]
) -> None:
    """Number every text that `device_activity` may refer to.

    Args:
        texts: Numbers of the file's own texts; new texts are added.
        tracks: Tracks with device activity.
        programs: Programs that the file lists.
    """
    shown = [handle for key in _SHOWN if (handle := texts.find(key)) >= 0]
    annotation = texts.find(ANNOTATION)
    for stats, span in _stat_slices(space, tracks):
        # Search the kinds first: they have one byte each, and few kinds match.
        placed = span.start + np.flatnonzero(stats.kind[span] == PLACE_TEXT)
        texts.numbers(Values.of_rows(stats, placed[np.isin(stats.key[placed], shown)]))
        if annotation >= 0:
            rows = span.start + np.flatnonzero(stats.key[span] == annotation)
            numbers = texts.numbers(Values.of_rows(stats, rows))
            for handle in distinct_handles(numbers, len(texts.strings)).tolist():
                texts.number(outermost_annotation(texts.strings[handle]))
    for program in programs:
        texts.number(program.module)


def outermost_annotation(annotation: str) -> str:
    """Return the first level of a stack of annotations, without its arguments."""
    return annotation.split("::", 1)[0].split("#", 1)[0]


def _stat_slices(
    space: XSpace, tracks: Sequence[Track]
) -> Iterator[tuple[Stats | TypeStats, slice]]:
    yield space.type_stats, slice(0, len(space.type_stats))
    lines = [line for track in tracks for line in track.lines]
    begin, end = space.lines.event_begin[lines], space.lines.event_end[lines]
    # Both bounds have the column's type; otherwise NumPy would copy the column.
    low = np.searchsorted(space.stats.event, begin.astype(np.int32))
    high = np.searchsorted(space.stats.event, end.astype(np.int32))
    for first, last in zip(low.tolist(), high.tolist(), strict=True):
        yield space.stats, slice(first, last)
