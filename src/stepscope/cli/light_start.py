"""What a command that answers and ends leaves out, since nobody gains by it.

Threads for matrices and for small tables, searches for garbage, giving memory back
before the end and at the end, and long waits of one thread for another. Threads that
could not be had are found before polars misses them.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import mmap
import os
import sys
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.cores import core_count
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: How many threads OpenBLAS starts when numpy is imported; each first waits busily for
#: work. No command multiplies matrices.
_BLAS_THREADS: Final = "OPENBLAS_NUM_THREADS"
#: How many threads polars starts. Waking them takes longer than what they would do in
#: tables of some thousand rows.
_TABLE_THREADS: Final = "POLARS_MAX_THREADS"
#: Bytes of files up to which tables are that small, also where files are compressed.
_SMALL: Final = 1 << 20
#: Parameters of glibc's `mallopt`, from its `malloc.h`, and what keeps freed memory in
#: the process: no memory is mapped for one block alone, none is trimmed, and threads
#: share one arena.
_KEPT: Final = {
    "M_MMAP_MAX": (-4, 0),
    "M_TRIM_THRESHOLD": (-1, -1),
    "M_ARENA_MAX": (-8, 1),
}

#: How long a thread that computes in Python may keep another one waiting that only
#: wants to begin its next kernel. Python's own 5 ms are as long as many kernels run, so
#: that one core stood idle; below this much nothing more is gained.
_TURN_S: Final = 0.0005

#: New objects after which garbage is searched for. Python's own 700 mean two hundred
#: searches in an analysis of five million events, which find 230 objects in all.
_SEARCHED_AFTER: Final = 100_000

#: What libraries map until a small profile is reported: 317 MiB with polars 2.1.
_TABLE_BYTES: Final = 340 << 20
#: The way out where no thread can be started.
MORE_THREADS: Final = (
    "End other programs, or raise the limit (ulimit -u; --pids-limit of a container)"
)
#: A limit of threads from which on it is not tried whether there is room.
_MANY_THREADS: Final = 1024
#: Threads of polars next to those that compute: its allocator has one for each core, up
#: to this many, and others clean up.
_ALLOCATOR_THREADS: Final = 4
_OTHER_THREADS: Final = 3
#: The limit of the container, where it has one.
_CONTAINER_LIMIT: Final = Path("/sys/fs/cgroup/pids.max")
_THREADS: Final = Path("/proc/self/task")
#: Threads that have ended are gone within this many seconds.
_GONE_S: Final = 0.5

#: Whether this process was started lightly.
_started: Final = threading.Event()


@contextmanager
def light_start(paths: Iterable[str] = ()) -> Iterator[None]:
    """Import the modules of a command inside of this, in a separate process.

    In a process that has numpy already there is nothing left to save.

    Args:
        paths: All files and folders that the command reads; none where not known.
    """
    if "numpy" in sys.modules:
        yield
        return
    _started.set()
    _keep_freed_memory()
    sys.setswitchinterval(_TURN_S)
    small = _are_small(paths)
    check_threads(1 if small else None)
    with _no_search_for_cycles(for_good=small):
        _start_single_threaded(_BLAS_THREADS, partial(import_module, "numpy"))
        if small:
            # Threads of polars start when they are first asked for.
            _start_single_threaded(
                _TABLE_THREADS, lambda: import_module("polars").thread_pool_size()
            )
        yield


def check_threads(computing: int | None = None) -> None:
    """Refuse to begin where polars has no address space, or cannot start its threads.

    It would print some ten thousand lines, and end with a traceback.

    Args:
        computing: How many threads compute, unless the user says it; one for each
            core where None.

    Raises:
        BadUsage: One of these limits is too low; the message has the way out.
    """
    if "polars" in sys.modules:
        return
    try:
        mmap.mmap(-1, _TABLE_BYTES).close()
    except OSError:
        raise BadUsage(
            f"{_TABLE_BYTES >> 20} MiB of address space are needed, and this process "
            "may not have so much more. Raise the limit (ulimit -v)."
        ) from None
    limits = []
    with suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - Windows has none

        limits.append(resource.getrlimit(resource.RLIMIT_NPROC)[0])
    with suppress(OSError, ValueError):
        limits.append(int(_CONTAINER_LIMIT.read_text("ascii")))
    # What is below 0 is no limit.
    if (
        min((limit for limit in limits if limit >= 0), default=float("inf"))
        >= _MANY_THREADS
    ):
        return
    told = os.environ.get(_TABLE_THREADS, "")
    wanted = int(told) if told.isdecimal() else computing or core_count()
    wanted += min(core_count(), _ALLOCATOR_THREADS) + _OTHER_THREADS
    if not _can_start(wanted):
        raise BadUsage(
            f"{wanted} threads are needed, and this user or container may not have so "
            f"many more. {MORE_THREADS}"
        )


def _can_start(count: int) -> bool:
    """Return whether this many threads more can be started; none of them is left."""
    over = threading.Event()
    started: list[threading.Thread] = []
    try:
        for _ in range(count):
            thread = threading.Thread(target=over.wait, daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError:
        return False
    finally:
        over.set()
        for thread in started:
            thread.join()
        # The system counts threads for a moment after they have ended.
        until = time.monotonic() + _GONE_S
        with suppress(OSError):
            while len([*_THREADS.iterdir()]) > threading.active_count():
                if time.monotonic() > until:
                    break
                time.sleep(0.001)
    return True


def end_lightly(status: object, *, waits: bool = True) -> None:
    """End a process that was started lightly at once; do nothing in any other.

    Freeing all objects one by one takes 20 ms, and the system takes the memory back
    anyway. As in a process of `multiprocessing`, what was to be done at the end is
    done, and what was written is handed on.

    Args:
        status: Exit status. What is no number is left to Python, which prints it.
        waits: Whether other threads finish what they compute.
    """
    others = threading.active_count() > 1
    is_light = _started.is_set() and not others
    if not isinstance(status, int) or (waits and not is_light):
        return
    atexit._run_exitfuncs()  # noqa: SLF001 - what `multiprocessing` calls for this, too
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        # Python meets this again, and has a status of its own for it.
        return
    os._exit(status)


def _keep_freed_memory() -> None:
    """Let the next large array take the pages of one that was freed.

    Otherwise the system takes them back and clears others: a tenth of the time that an
    analysis of five million events takes. The peak of memory is no higher, since
    threads use what others have freed. Nothing is done where glibc is not.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in _KEPT.values():
            mallopt(parameter, value)


def _start_single_threaded(variable: str, start: Callable[[], object]) -> None:
    """Start a library that reads the number of its threads; what the user set stands.

    Programs that this one starts are not concerned.
    """
    if variable in os.environ:
        return
    os.environ[variable] = "1"
    try:
        start()
    finally:
        del os.environ[variable]


def _are_small(paths: Iterable[str]) -> bool:
    left = _SMALL
    try:
        for path in map(Path, paths):
            for file in chain((path,), path.rglob("*")):
                left -= file.stat().st_size
                if left < 0:
                    return False
    except OSError:
        # An address, or a file that is not there.
        return False
    return left < _SMALL


@contextmanager
def _no_search_for_cycles(*, for_good: bool) -> Iterator[None]:
    """Never look for garbage among modules: they live until the process ends.

    Neither is it looked for at the end, when all memory is given back anyway, and
    `for_good` never again, where searches take longer than what they find is worth.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if not for_good:
            gc.set_threshold(_SEARCHED_AFTER)
            gc.enable()
        atexit.register(gc.freeze)
