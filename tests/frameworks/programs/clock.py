"""The size that a program is told, and when its steps began by its own clock.

PROGRAM_STEPS, PROGRAM_ROWS and PROGRAM_SEED say the size; into the file that
PROGRAM_CLOCK names goes a JSON list of the seconds at which steps began.
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


def rows_or(usual: int) -> int:
    """The rows of a batch."""
    return int(os.environ.get("PROGRAM_ROWS", usual))


def step_begins() -> None:
    _BEGUN.append(time.perf_counter())


def _write() -> None:
    if _BEGUN:
        Path(os.environ["PROGRAM_CLOCK"]).write_text(json.dumps(_BEGUN))


if "PROGRAM_CLOCK" in os.environ:
    atexit.register(_write)
