"""The lines that hold what looks at a thread found: next to the thread's own line.

Samples end where the next look at the thread found something else, so their ends do
not fit into the exact events of the thread, and they have a line of their own.

Definition: docs/formats/xplane.md#samples-of-functions.
"""

from __future__ import annotations

import re
from math import inf
from typing import Final, Literal

from stepscope.frozen import Frozen
from stepscope.patterns import Pattern

#: Added to the id of a thread: systems number threads below it, and viewers that keep
#: 32 bits of an id keep the line apart from all threads.
SAMPLES_BASE: Final = 2**30
#: Added once more for the time that a thread wanted a core.
CORE_TIME_BASE: Final = 2**29
#: Added to `SAMPLES_BASE` for the lines of the program in the functions of a thread.
_LINES_BASE: Final = 2**28
#: Added once more for worker processes: their first thread has the process's number,
#: which no thread of the program has, and this tells them from threads so called.
_WORKERS_BASE: Final = 2**27
#: What a line holds: functions of a thread that drives steps; functions of another
#: thread of the program; which line of each function of a thread ran; when a thread
#: wanted a core; functions of the first thread of a worker process, and their lines.
SamplesKind = Literal[
    "functions",
    "functions_beside",
    "source_lines",
    "core_time",
    "functions_of_worker",
    "source_lines_of_worker",
]
#: Those that begin with another one's beginning come first. Who knows no workers takes
#: theirs for threads next to the steps, which are no step's time either.
_BEGINNINGS: Final[dict[SamplesKind, str]] = {
    "functions_of_worker": "samples beside the steps of worker process",
    "source_lines_of_worker": "source lines of worker process",
    "functions": "samples of",
    "functions_beside": "samples beside the steps of",
    "source_lines": "source lines of",
    "core_time": "core time of",
}
#: Added to the id of a thread for each kind.
_BASES: Final[dict[SamplesKind, int]] = {
    "functions": SAMPLES_BASE,
    "functions_beside": SAMPLES_BASE,
    "source_lines": SAMPLES_BASE + _LINES_BASE,
    "core_time": SAMPLES_BASE + CORE_TIME_BASE,
    "functions_of_worker": SAMPLES_BASE + _WORKERS_BASE,
    "source_lines_of_worker": SAMPLES_BASE + _LINES_BASE + _WORKERS_BASE,
}
_NAMES: Final = {
    kind: Pattern(
        rf"{beginning} (?P<thread>.*), (?P<hz>[0-9.e+]+) a second\Z", re.DOTALL
    )
    for kind, beginning in _BEGINNINGS.items()
}
#: Kinds of events that are samples carry the file of their function under this name.
FILE_PATH: Final = "file_path"
#: Runs of a line of a function carry its number in the file under this name.
LINE: Final = "source_line"
#: Events of core time: from the first to the last of some readings, and within that
#: where the thread was on a core, or ready to run while others had all cores, and where
#: it was found in a call of the system that waits for no thread.
READ: Final = "core time was read"
AWAKE: Final = "on a core or ready for one"
SYSTEM: Final = "waits for the system"
#: The line of core time of all threads that have no such line; it knows no readiness.
OTHER_THREADS: Final = 0


class SamplesLine(Frozen, frozen=True, eq=True):
    """A line of samples.

    Attributes:
        thread: The system's id of the thread that was looked at, as on its own line;
            of a worker process, the process's.
        thread_name: Its name; of a worker process, the process's.
        hz: How often it was to be looked at in a second.
        kind: What the line holds.
    """

    thread: int
    thread_name: str
    hz: float
    kind: SamplesKind = "functions"

    @property
    def id(self) -> int:
        """Id of the line."""
        return _BASES[self.kind] + self.thread

    @property
    def name(self) -> str:
        """Name of the line."""
        beginning = _BEGINNINGS[self.kind]
        return f"{beginning} {self.thread_name}, {self.hz:g} a second"

    @classmethod
    def of(cls, line: int, name: str) -> SamplesLine | None:
        """Return what a line's id and name say; None where it holds no samples.

        A rate that cannot be is damage: time is divided by it.
        """
        if line < SAMPLES_BASE:
            return None
        for kind, pattern in _NAMES.items():
            found = pattern.match(name)
            if found is None or line < _BASES[kind]:
                continue
            try:
                hz = float(found["hz"])
            except ValueError:
                return None
            if not 0 < hz < inf:
                return None
            return cls(line - _BASES[kind], found["thread"], hz, kind)
        return None
