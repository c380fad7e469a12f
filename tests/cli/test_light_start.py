"""A command that answers and ends starts nothing for nobody."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Ends after the handlers of the end have run; objects are never freed.
END = """
import atexit, os, sys
from stepscope.cli.light_start import end_lightly, light_start
class Freed:
    def __del__(self, write=os.write):
        write(1, b"freed\\n")
sys.kept = Freed()
with light_start():
    pass
atexit.register(print, "handled")
print("answer", flush=True)
try:
    sys.exit({status!r})
except SystemExit as leaving:
    end_lightly(leaving.code)
    raise
"""
VARIABLE = "OPENBLAS_NUM_THREADS"
TABLE_VARIABLE = "POLARS_MAX_THREADS"
VARIABLES = {VARIABLE, TABLE_VARIABLE}
#: More threads than a test could take for the machine's own number by chance.
CHOSEN = f"import os; os.environ[{TABLE_VARIABLE!r}] = '3'\n"
PROGRAM = """
import gc, os, sys
at_first = gc.get_freeze_count()  # Python 3.12 begins with some
from stepscope.cli.light_start import light_start
with light_start():
    import numpy
tasks = len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 1
frozen = gc.get_freeze_count() > at_first
print(os.environ.get("OPENBLAS_NUM_THREADS"), gc.isenabled(), frozen)
print(tasks)
print(sys.getswitchinterval() < 0.005)
"""
TABLES = """
import gc, os, sys
at_first = gc.get_freeze_count()  # Python 3.12 begins with some
from stepscope.cli.light_start import light_start
with light_start(sys.argv[1:]):
    import polars
print(polars.thread_pool_size(), os.environ.get("POLARS_MAX_THREADS"))
print(gc.isenabled(), gc.get_freeze_count() > at_first)
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
CORES = """
import os, sys
from stepscope.cli.light_start import light_start
with light_start(sys.argv[1:]):
    import polars
polars.DataFrame({"a": [1]}).select("a")
print(*{len(os.sched_getaffinity(int(task))) for task in os.listdir("/proc/self/task")})
"""
SEARCHES = """
import gc
from stepscope.cli.light_start import light_start
with light_start():
    import numpy
print(gc.isenabled(), gc.get_threshold()[0] > 10_000)
"""


def started(
    prelude: str = "", program: str = PROGRAM, paths: Sequence[str] = ()
) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", prelude + program, *paths],
        capture_output=True,
        text=True,
        check=True,
        env={name: text for name, text in os.environ.items() if name not in VARIABLES},
    )
    return done.stdout.splitlines()


def test_numpy_starts_no_threads_and_the_environment_stays_as_it_was() -> None:
    assert started()[:2] == ["None True True", "1"]


def test_threads_hand_over_sooner_than_python_lets_them() -> None:
    assert started()[2] == "True"
    assert started("import numpy\n")[2] == "False"


def test_garbage_is_searched_for_seldom() -> None:
    assert started(program=SEARCHES) == ["True True"]
    assert started("import numpy\n", program=SEARCHES) == ["True False"]


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


def ended(status: object, prelude: str = "") -> tuple[int, list[str]]:
    program = prelude + END.format(status=status)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize("status", [0, 2])
def test_a_process_ends_with_its_status_and_frees_nothing(status: int) -> None:
    assert ended(status) == (status, ["answer", "handled"])


def test_a_process_that_was_not_started_lightly_ends_as_python_does() -> None:
    assert ended(2, "import numpy\n") == (2, ["answer", "handled", "freed"])


def test_a_message_in_place_of_a_status_is_left_to_python() -> None:
    assert ended("no answer") == (1, ["answer", "handled", "freed"])


def test_a_thread_that_still_works_is_waited_for() -> None:
    worker = (
        "import threading\n"
        "def work():\n"
        "    threading.main_thread().join()\n"
        "    print('worked', flush=True)\n"
        "threading.Thread(target=work).start()\n"
    )
    status, said = ended(2, worker)
    assert (status, sorted(said)) == (2, ["answer", "freed", "handled", "worked"])


@pytest.mark.slow(seconds=2)  # starts programs that import polars
def test_small_files_need_one_thread_and_no_search_for_garbage(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "profile").write_bytes(b"little")
    assert started(program=TABLES, paths=[str(tmp_path)]) == ["1 None", "False True"]
    # What the user has set stands.
    assert started(CHOSEN, TABLES, [str(tmp_path)])[0] == "3 3"


@pytest.mark.slow(seconds=2)  # starts programs that import polars
def test_large_files_have_all_threads_and_searches(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(b"little")
    large.write_bytes(bytes(2 << 20))
    unread = started(program=TABLES)
    assert unread[1] == "True True"
    assert started(program=TABLES, paths=[str(small), str(large)]) == unread
    # An address, or nothing: how large it is shows later.
    assert started(program=TABLES, paths=["gs://bucket/run"]) == unread


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
@pytest.mark.slow(seconds=3)  # starts programs that import polars
def test_small_files_keep_all_threads_on_one_core(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(b"little")
    large.write_bytes(bytes(2 << 20))
    cores = str(len(os.sched_getaffinity(0)))
    assert started(program=CORES, paths=[str(small)]) == ["1"]
    assert started(program=CORES, paths=[str(large)]) == [cores]
    # Three threads, as the user has set, would not run in parallel on one core.
    assert started(CHOSEN, CORES, [str(small)]) == [cores]
