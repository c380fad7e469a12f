"""A command that answers and ends starts nothing for nobody."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

VARIABLE = "OPENBLAS_NUM_THREADS"
PROGRAM = """
import gc, os, sys
from stepscope.cli.light_start import light_start
with light_start():
    import numpy
tasks = len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 1
print(os.environ.get("OPENBLAS_NUM_THREADS"), gc.isenabled(), gc.get_freeze_count() > 0)
print(tasks)
print(sys.getswitchinterval() < 0.005)
"""
FREED = """
import os
from stepscope.cli.light_start import light_start
with light_start():
    import numpy
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
array = numpy.ones(8 << 20)
held = resident()
del array
print(held - resident() < 8 << 20)
"""


def started(prelude: str = "", program: str = PROGRAM) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", prelude + program],
        capture_output=True,
        text=True,
        check=True,
        env={name: text for name, text in os.environ.items() if name != VARIABLE},
    )
    return done.stdout.splitlines()


def test_numpy_starts_no_threads_and_the_environment_stays_as_it_was() -> None:
    assert started()[:2] == ["None True True", "1"]


def test_threads_hand_over_sooner_than_python_lets_them() -> None:
    assert started()[2] == "True"
    assert started("import numpy\n")[2] == "False"


def test_what_the_user_has_set_stands() -> None:
    chosen = f"import os; os.environ[{VARIABLE!r}] = '2'\n"
    assert started(chosen)[0] == "2 True True"


def test_where_numpy_is_loaded_already_nothing_is_done() -> None:
    assert started("import numpy\n")[0] == "None True False"


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"),
    reason="only glibc can be told to keep memory",
)
def test_memory_that_was_freed_stays_for_the_next_array() -> None:
    assert started(program=FREED) == ["True"]
    assert started("import numpy\n", program=FREED) == ["False"]
