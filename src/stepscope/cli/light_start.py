"""Faster start and end of short-lived commands, by skipping work without a benefit.

Skipped are: threads for matrix products and for small tables, moves between cores,
garbage collection, returning memory to the system, and long waits for another thread.
The module also checks, before polars starts its threads, that they can be started.
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

#: Number of threads that OpenBLAS starts on the import of numpy; each first spins while
#: it waits for work. No command multiplies matrices.
_BLAS_THREADS: Final = "OPENBLAS_NUM_THREADS"
#: Number of threads that polars starts. Waking threads takes longer than the work in
#: tables of some thousand rows.
_TABLE_THREADS: Final = "POLARS_MAX_THREADS"
#: Total bytes of input files up to which tables are small (compressed files too).
_SMALL_INPUT_BYTES: Final = 1 << 20
#: Parameters of glibc's `mallopt` (numbers from `malloc.h`) with values that keep freed
#: memory in the process: no separate mappings for large blocks, no trimming, and one
#: arena for all threads.
_KEPT: Final = {
    "M_MMAP_MAX": (-4, 0),
    "M_TRIM_THRESHOLD": (-1, -1),
    "M_ARENA_MAX": (-8, 1),
}

#: Seconds after which a thread releases the GIL, for example so that another thread can
#: call its next compiled function. Python's default of 5 ms is as long as many of these
#: functions take, so one core was idle; shorter times gain nothing.
_TURN_S: Final = 0.0005

#: Number of new objects after which Python searches for garbage. At Python's default of
#: 700, an analysis of five million events searches 200 times and finds 230 objects.
_SEARCHED_AFTER: Final = 100_000

#: Bytes of address space to require: libraries (polars 2.1) map 317 MiB at least.
_TABLE_BYTES: Final = 340 << 20
#: Remedy if no thread can be started.
MORE_THREADS: Final = (
    "End other programs, or raise the limit (ulimit -u; --pids-limit of a container)"
)
#: If the system allows this number of threads, no threads are started as a test.
_UNTESTED_THREADS: Final = 1024
#: Threads of polars that do not compute: its allocator has one per core, at most
#: `_ALLOCATOR_THREADS`, and `_OTHER_THREADS` clean up.
_ALLOCATOR_THREADS: Final = 4
_OTHER_THREADS: Final = 3
#: File with the container's limit of threads, if there is one.
_CONTAINER_LIMIT: Final = Path("/sys/fs/cgroup/pids.max")
_THREADS: Final = Path("/proc/self/task")
#: Maximum seconds for which the system still counts a thread that has ended.
_MAX_END_S: Final = 0.5

#: Set if `light_start` changed the settings of this process.
_started: Final = threading.Event()


@contextmanager
def light_start(paths: Iterable[str] = ()) -> Iterator[None]:
    """Set the process up for a short-lived command; import its modules in the block.

    Nothing is changed in a process that has already imported numpy.

    Args:
        paths: All files and folders that the command reads; empty if unknown.
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
            # The one thread of polars spins while it waits for the next small table. On
            # the core of this thread it cannot: a report takes 5 % less time.
            if sys.platform == "linux" and _TABLE_THREADS not in os.environ:
                with suppress(AttributeError, OSError):
                    os.sched_setaffinity(0, {ctypes.CDLL(None).sched_getcpu()})
            # Polars starts its threads when their number is first requested.
            _start_single_threaded(
                _TABLE_THREADS, lambda: import_module("polars").thread_pool_size()
            )
        yield


def check_threads(computing: int | None = None) -> None:
    """Raise BadUsage if polars has too little address space or too few threads.

    Polars would print thousands of lines and end with a traceback.

    Args:
        computing: Number of computing threads if the user sets none; None: one per
            core.

    Raises:
        BadUsage: A limit of the system is too low; the message has a remedy.
    """
    if "polars" in sys.modules:
        return
    try:
        mmap.mmap(-1, _TABLE_BYTES).close()
    except OSError:
        raise BadUsage(
            f"{_TABLE_BYTES >> 20} MiB of address space are needed, which exceeds the "
            "limit of this process. Raise the limit (ulimit -v)."
        ) from None
    limits = []
    with suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - missing on Windows

        limits.append(resource.getrlimit(resource.RLIMIT_NPROC)[0])
    with suppress(OSError, ValueError):
        limits.append(int(_CONTAINER_LIMIT.read_text("ascii")))
    # A negative limit means unlimited.
    if (
        min((limit for limit in limits if limit >= 0), default=float("inf"))
        >= _UNTESTED_THREADS
    ):
        return
    setting = os.environ.get(_TABLE_THREADS, "")
    wanted = int(setting) if setting.isdecimal() else computing or core_count()
    wanted += min(core_count(), _ALLOCATOR_THREADS) + _OTHER_THREADS
    if not _can_start(wanted):
        raise BadUsage(
            f"{wanted} threads are needed, which exceeds the limit of this user or "
            f"container. {MORE_THREADS}"
        )


def _can_start(count: int) -> bool:
    """Return whether `count` more threads can be started: start and end them."""
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
        # The system counts a thread for a moment after its end.
        until = time.monotonic() + _MAX_END_S
        with suppress(OSError):
            while len([*_THREADS.iterdir()]) > threading.active_count():
                if time.monotonic() > until:
                    break
                time.sleep(0.001)
    return True


def end_lightly(status: object, *, waits: bool = True) -> None:
    """End a process that `light_start` has set up, without freeing its objects.

    Freeing all objects takes 20 ms, and the system takes the memory back anyway. Exit
    handlers are called and the output streams are flushed, as in `multiprocessing`.

    Args:
        status: Exit status. Python itself handles a status that is not an integer.
        waits: Whether to leave the end to Python while other threads run.
    """
    is_light = _started.is_set() and threading.active_count() == 1
    if not isinstance(status, int) or (waits and not is_light):
        return
    atexit._run_exitfuncs()  # noqa: SLF001 - `multiprocessing` calls it too
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        # Python fails again on this stream, and sets its own exit status.
        return
    os._exit(status)


def _keep_freed_memory() -> None:
    """Keep freed memory in the process, so that the next large array reuses it.

    Without this, the system clears new pages, which takes a tenth of the time of an
    analysis of five million events. The peak memory is not higher, because all threads
    share freed memory. Nothing happens without glibc.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in _KEPT.values():
            mallopt(parameter, value)


def _start_single_threaded(variable: str, start: Callable[[], object]) -> None:
    """Start a library with one thread, unless the user set the variable.

    The variable is removed again, so child processes do not inherit it.
    """
    if variable in os.environ:
        return
    os.environ[variable] = "1"
    try:
        start()
    finally:
        del os.environ[variable]


def _are_small(paths: Iterable[str]) -> bool:
    left = _SMALL_INPUT_BYTES
    try:
        for path in map(Path, paths):
            for file in chain((path,), path.rglob("*")):
                left -= file.stat().st_size
                if left < 0:
                    return False
    except OSError:
        return False
    return left < _SMALL_INPUT_BYTES


@contextmanager
def _no_search_for_cycles(*, for_good: bool) -> Iterator[None]:
    """Disable garbage collection during imports: modules live until the process ends.

    Garbage collection at the end of the process is skipped as well. `for_good` keeps
    collection disabled afterwards, for commands that are too short to gain from it.
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
