"""The size that a program is told, and when its steps began by its own clock.

PROGRAM_STEPS, PROGRAM_ROWS and PROGRAM_SEED say the size; into the file that
PROGRAM_CLOCK names goes a line for each step: the seconds at which it began. Into the
one that PROGRAM_WAITS names go the seconds for which the program had until then been
ready to run and had no processor, as Linux counts them.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

#: Steps whose batches differ; a program that takes more repeats these.
DIFFERENT = 16
STEPS = int(os.environ.get("PROGRAM_STEPS", "24"))
SEED = int(os.environ.get("PROGRAM_SEED", "0"))
_SCHEDULED = Path("/proc/self/schedstat")


def rows_or(usual: int) -> int:
    """Rows of a batch: those that the experiment says, or the program's own number."""
    return int(os.environ.get("PROGRAM_ROWS", usual))


def step_begins() -> None:
    # Written at once, for a program may be killed.
    if CLOCK is not None:
        os.write(CLOCK, f"{time.perf_counter()}\n".encode())
    if WAITS is not None and _SCHEDULED.exists():
        waited_ns = int(_SCHEDULED.read_text().split()[1])
        os.write(WAITS, f"{waited_ns / 1e9}\n".encode())


def _opened(name: str) -> int | None:
    """The file that a variable of the environment names, emptied."""
    if name not in os.environ:
        return None
    return os.open(os.environ[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)


CLOCK = _opened("PROGRAM_CLOCK")
WAITS = _opened("PROGRAM_WAITS")
