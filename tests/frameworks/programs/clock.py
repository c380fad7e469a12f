"""The size that a program is told, and when its steps began by its own clock.

PROGRAM_STEPS, PROGRAM_ROWS and PROGRAM_SEED say the size; into the file that
PROGRAM_CLOCK names goes a line for each step: the seconds at which it began.
"""

from __future__ import annotations

import os
import time

#: Steps whose batches differ; a program that takes more repeats these.
DIFFERENT = 16
STEPS = int(os.environ.get("PROGRAM_STEPS", "24"))
SEED = int(os.environ.get("PROGRAM_SEED", "0"))


def rows_or(usual: int) -> int:
    """The rows of a batch."""
    return int(os.environ.get("PROGRAM_ROWS", usual))


def step_begins() -> None:
    # Written at once, for a program may be killed.
    if CLOCK is not None:
        os.write(CLOCK, f"{time.perf_counter()}\n".encode())


CLOCK = (
    os.open(os.environ["PROGRAM_CLOCK"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    if "PROGRAM_CLOCK" in os.environ
    else None
)
