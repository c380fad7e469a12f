"""The size that a program is told, and when its steps began by its own clock.

PROGRAM_STEPS, PROGRAM_ROWS and PROGRAM_SEED say the size; into the file that
PROGRAM_CLOCK names goes a JSON list of the seconds at which steps began. Into the one
that PROGRAM_WAITS names go the seconds for which the program had until then been ready
to run and had no processor, as Linux counts them.
"""

from __future__ import annotations

import atexit
import json
import os
import time
from pathlib import Path

STEPS = int(os.environ.get("PROGRAM_STEPS", "24"))
SEED = int(os.environ.get("PROGRAM_SEED", "0"))
_BEGUN: list[float] = []
_WAITED: list[float] = []
_SCHEDULED = Path("/proc/self/schedstat")


def rows_or(usual: int) -> int:
    """The rows of a batch."""
    return int(os.environ.get("PROGRAM_ROWS", usual))


def step_begins() -> None:
    _BEGUN.append(time.perf_counter())
    if "PROGRAM_WAITS" in os.environ and _SCHEDULED.exists():
        _WAITED.append(int(_SCHEDULED.read_text().split()[1]) / 1e9)


def _write() -> None:
    for name, seconds in (("PROGRAM_CLOCK", _BEGUN), ("PROGRAM_WAITS", _WAITED)):
        if name in os.environ and seconds:
            Path(os.environ[name]).write_text(json.dumps(seconds))


atexit.register(_write)
