"""The lines that hold samples of a thread's functions: beside the thread's own line.

Samples end where the next look at the thread found something else, so their ends do
not fit into the exact events of the thread, and they have a line of their own.

Definition: docs/formats/xplane.md#samples-of-functions.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from stepscope.patterns import Pattern

__all__ = ["FILE_PATH", "SAMPLES_BASE", "SamplesLine"]

#: Added to the id of a thread: systems number threads below it, and viewers that keep
#: 32 bits of an id keep the line apart from all threads.
SAMPLES_BASE: Final = 2**30
_NAME: Final = Pattern(
    r"samples of (?P<thread>.*), (?P<hz>[0-9.e+]+) a second\Z", re.DOTALL
)
#: Kinds of events that are samples carry the file of their function under this name.
FILE_PATH: Final = "file_path"


class SamplesLine(NamedTuple):
    """A line of samples.

    Attributes:
        thread: The system's id of the thread that was looked at, as on its own line.
        thread_name: Its name.
        hz: How often it was to be looked at in a second.
    """

    thread: int
    thread_name: str
    hz: float

    @property
    def id(self) -> int:
        """Id of the line."""
        return SAMPLES_BASE + self.thread

    @property
    def name(self) -> str:
        """Name of the line."""
        return f"samples of {self.thread_name}, {self.hz:g} a second"

    @classmethod
    def of(cls, line: int, name: str) -> SamplesLine | None:
        """Return what a line's id and name say; None where it holds no samples."""
        found = _NAME.match(name) if line >= SAMPLES_BASE else None
        if found is None:
            return None
        try:
            hz = float(found["hz"])
        except ValueError:
            return None
        return cls(line - SAMPLES_BASE, found["thread"], hz)
