"""Frames that looks found, written into the lines of a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.xspace.fields import INT
from stepscope.xspace.samples_line import FILE_PATH, LINE
from stepscope.xspace.writing.encode import StatColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from stepscope.capture.collectors.sampled_frames import Code, Frame
    from stepscope.capture.ground.clock import ClockPair
    from stepscope.xspace.samples_line import SamplesLine
    from stepscope.xspace.writing.builders import PlaneBuilder

#: Frames are stored so often: what they are written into costs more than they do.
STORE_NS: Final = 1_000_000_000

_PS_PER_NS: Final = 1000


class FunctionTypes:
    """Kinds of events of one recording: of one name in several files, several."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}

    def declare(self, plane: PlaneBuilder, name: str, path: str) -> int:
        """Declare a function on a plane and return its number."""
        known = self.number(name, path)
        return plane.event_type(name, type_id=known, stats={FILE_PATH: path})

    def number(self, name: str, path: str = "") -> int:
        """Return the number of a name, the same in the whole recording."""
        return self._numbers.setdefault((name, path), len(self._numbers) + 1)


def add_frames(
    plane: PlaneBuilder,
    line: SamplesLine,
    frames: Sequence[Frame[Any]],
    *,
    types: Sequence[int],
    clock: ClockPair,
    stats: Sequence[StatColumn] = (),
) -> None:
    """Write what was found of one thread.

    Args:
        plane: The plane to write to.
        line: The line.
        frames: What was found.
        types: The kind of event of each.
        clock: When the recording began.
        stats: Values of each.
    """
    begin = np.array([frame.begin_ns for frame in frames], np.int64)
    end = np.array([frame.end_ns for frame in frames], np.int64)
    plane.line(line.id, name=line.name).events(
        np.array(types, np.int64),
        (begin - clock.monotonic_ns) * _PS_PER_NS,
        (end - begin) * _PS_PER_NS,
        stats=stats,
    )


def line_numbers(plane: PlaneBuilder, lines: Iterable[int | None]) -> StatColumn:
    """Return a column of lines of files, as far as they are known."""
    numbers = np.array([line or 0 for line in lines], np.int64)
    return StatColumn(plane.stat_id(LINE), INT, numbers, present=numbers > 0)


def by_thread(frames: Iterable[Frame[Code]]) -> dict[int, list[Frame[Code]]]:
    """Return frames by the system's id of their thread, in their order."""
    frames = list(frames)
    found: dict[int, list[Frame[Code]]] = {
        thread: [] for thread in sorted({frame.thread for frame in frames})
    }
    for frame in frames:
        found[frame.thread].append(frame)
    return found
