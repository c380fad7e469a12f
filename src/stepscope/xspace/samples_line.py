"""Lines with stack samples of a thread, written next to the thread's own line.

A sample lasts until the next sample with another stack, so its end is not exact like
the ends of the thread's events. Samples are therefore on separate lines.

Definition: docs/formats/xplane.md#samples-of-functions.
"""

from __future__ import annotations

import re
from math import inf
from typing import Final, Literal

from stepscope.frozen import Frozen
from stepscope.patterns import Pattern

#: Number added to a thread's id to get the id of its samples line. Thread ids are
#: smaller, and the sum fits into 32 bits for viewers that cut ids.
SAMPLES_BASE: Final = 2**30
#: Also added to the id of a line with times in which a thread ran or was ready to.
CORE_TIME_BASE: Final = 2**29
#: Also added to the id of a line with the source lines of a thread's functions.
_LINES_BASE: Final = 2**28
#: Also added to the ids of lines of worker processes, whose first thread has the
#: process id. It distinguishes them from threads of the program with an equal name.
_WORKERS_BASE: Final = 2**27
#: Content of a line: functions of a thread that drives steps; functions of another
#: thread of the program; source lines in the functions of a thread; times in which a
#: thread needed a core; functions of a worker's first thread, and their source lines.
SamplesKind = Literal[
    "functions",
    "functions_beside",
    "source_lines",
    "core_time",
    "functions_of_worker",
    "source_lines_of_worker",
]
#: Kind → beginning of a line's name, and number added to the id of a thread. Beginnings
#: that contain another one are listed first. Readers that do not support worker
#: processes treat their lines as threads in parallel with the steps; lines of both
#: kinds have no share of step time.
_KINDS: Final[dict[SamplesKind, tuple[str, int]]] = {
    "functions_of_worker": (
        "samples beside the steps of worker process",
        SAMPLES_BASE + _WORKERS_BASE,
    ),
    "source_lines_of_worker": (
        "source lines of worker process",
        SAMPLES_BASE + _LINES_BASE + _WORKERS_BASE,
    ),
    "functions": ("samples of", SAMPLES_BASE),
    "functions_beside": ("samples beside the steps of", SAMPLES_BASE),
    "source_lines": ("source lines of", SAMPLES_BASE + _LINES_BASE),
    "core_time": ("core time of", SAMPLES_BASE + CORE_TIME_BASE),
}
_NAMES: Final = {
    kind: Pattern(
        rf"{beginning} (?P<thread>.*), (?P<hz>[0-9.e+]+) a second\Z", re.DOTALL
    )
    for kind, (beginning, _) in _KINDS.items()
}
#: Stat of a sampled function's event type: path of the function's source file.
FILE_PATH: Final = "file_path"
#: Stat of a source line's event: line number in the file.
LINE: Final = "source_line"
#: Stat of a source line's event: what the line calls, as in the source: `os.fsync`.
CALLED: Final = "called"
#: Stat of a source line's event: 1 if the line does not use what this call returns.
UNUSED: Final = "result_unused"
#: Names of core time events: the range of several readings, and inside this range, the
#: times on a core or ready to run while all cores were in use, of these the times
#: without a core, and the times in a system call that does not wait for another thread.
READ: Final = "core time and ready time were read"
AWAKE: Final = "on a core or ready for one"
READY: Final = "ready for a core"
SYSTEM: Final = "waits for the system"
#: Name of the range of readings in recordings without `READY`.
READ_TOGETHER: Final = "core time was read"
#: Name of an event without duration: when the stacks of all sampled threads were read.
#: It is on the line of `OTHER_THREADS`.
SAMPLED: Final = "stacks were sampled"
#: Thread id of the line with the core time of all threads that lack a line. The line
#: has only time on a core, not time ready to run.
OTHER_THREADS: Final = 0


class SamplesLine(Frozen, frozen=True, eq=True):
    """A line of samples.

    Attributes:
        thread: OS id of the sampled thread, as on its line; the process id of a worker.
        thread_name: Name of the thread; for a worker process, of the process.
        hz: Requested number of samples per second.
        kind: Content of the line.
    """

    thread: int
    thread_name: str
    hz: float
    kind: SamplesKind = "functions"

    @property
    def id(self) -> int:
        """Id of the line."""
        return _KINDS[self.kind][1] + self.thread

    @property
    def name(self) -> str:
        """Name of the line."""
        return f"{_KINDS[self.kind][0]} {self.thread_name}, {self.hz:g} a second"

    @classmethod
    def of(cls, line: int, name: str) -> SamplesLine | None:
        """Decode a line's id and name; return None if it has no samples.

        An impossible rate counts as damage, because times are divided by the rate.
        """
        if line < SAMPLES_BASE:
            return None
        for kind, pattern in _NAMES.items():
            match, base = pattern.match(name), _KINDS[kind][1]
            if match is None or line < base:
                continue
            try:
                hz = float(match["hz"])
            except ValueError:
                return None
            if not 0 < hz < inf:
                return None
            return cls(line - base, match["thread"], hz, kind)
        return None
