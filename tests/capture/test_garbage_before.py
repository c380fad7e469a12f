"""What Python is about to collect is collected before a recording's window opens."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

#: Makes so many objects that Python collects all of them at its next collection, and
#: writes when collections of all objects began, by the thread that made them.
DUE = """
import gc, sys, threading, time
import stepscope as ss

OWN = ss.ProfilerOptions(collectors=("host", "python_samples", "process"))
WHEN = []

def note(phase, info):
    if phase == "start" and info["generation"] == 2:
        WHEN.append((time.perf_counter(), threading.current_thread().name))

# What is imported by the first recording makes objects as well.
with ss.Profile(sys.argv[1], OWN):
    pass
gc.collect()
kept = []
while gc.get_count()[2] <= gc.get_threshold()[2]:
    kept.append([])
gc.callbacks.append(note)
"""


def run(folder: Path, program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", DUE + textwrap.dedent(program), str(folder)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.split()


@pytest.mark.slow(seconds=0.4)
def test_no_collection_of_all_objects_is_left_for_the_steps(tmp_path: Path) -> None:
    """One of 254 ms, on a thread of ours, was 64 % of ten steps."""
    before, threads = run(
        tmp_path,
        """
        with ss.Profile(sys.argv[1], OWN):
            opened = time.perf_counter()
            time.sleep(0.1)
            print(len([at for at, _ in WHEN if at < opened]))
            print(",".join({thread for _, thread in WHEN}))
            # By far not due any more.
            assert gc.get_count()[2] < 2, gc.get_count()
        """,
    )
    assert (before, threads) == ("1", "MainThread")


@pytest.mark.parametrize(
    "program", ["gc.disable()", "gc.set_threshold(0)", "gc.set_threshold(700, 10, 0)"]
)
def test_who_collects_by_hand_is_left_alone(tmp_path: Path, program: str) -> None:
    found = run(
        tmp_path,
        f"""
        {program}
        with ss.Profile(sys.argv[1], OWN):
            print(len(WHEN), len(kept))
        """,
    )
    assert found[0] == "0"


@pytest.mark.slow(seconds=0.3)
def test_what_python_would_leave_is_left(tmp_path: Path) -> None:
    """Of few new objects among many it collects the younger ones alone."""
    found = run(
        tmp_path,
        """
        gc.collect()
        WHEN.clear()
        while gc.get_count()[2] <= gc.get_threshold()[2] + 2:
            # Nothing of it stays.
            [[] for _ in range(1_000)]
        with ss.Profile(sys.argv[1], OWN):
            print(len(WHEN))
        """,
    )
    assert found == ["0"]
