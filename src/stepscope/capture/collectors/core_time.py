"""Times when threads were on a core or ready to run, from Linux's clocks per thread.

A thread that computes needs a core. A thread that sleeps, reads from a slow source or
waits for a lock does not need a core, whatever function it is in. On a busy machine a
thread that is ready waits for a core; Linux counts this delay separately from sleep.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.capture.base.spool import OwnFile
from stepscope.xspace.samples_line import OTHER_THREADS

if TYPE_CHECKING:
    from collections.abc import Iterable

_READ_BYTES: Final = 96
#: Number of fields in `schedstat`: time on a core, time ready, time slices.
_FIELDS: Final = 3
#: Folder of the threads of this process.
_TASKS: Final = Path("/proc/self/task")
#: Offset of the name in an entry of a folder (`struct dirent` of Linux).
_NAME_OFFSET: Final = 19
#: Number of readings after which the busiest pool threads are chosen again.
_READS_PER_LIST: Final = 10
#: Maximum number of pool threads that are followed, because each reading takes time.
_MAX_POOL: Final = 16
#: Maximum gap in ns between two ranges that are merged.
_MAX_GAP_TO_MERGE_NS: Final = 500_000


class Reading(NamedTuple):
    """Values of one thread's clocks at one moment.

    Attributes:
        thread: System thread id; `OTHER_THREADS` for the sum of all other threads.
        wanted_ns: Time on a core or ready for a core, in ns since a fixed moment.
        ready_ns: Part of `wanted_ns` in which the thread was ready and had no core.
        in_system: Whether the thread waits for the system and not for another thread;
            read only for the main thread.
    """

    thread: int
    at_ns: int
    wanted_ns: int
    ready_ns: int = 0
    in_system: bool = False


class _Delay(NamedTuple):
    """Time for which a thread was ready without a core, as last read from Linux."""

    at_ns: int
    ran_ns: int
    delay_ns: int


def core_time_ns(thread: int) -> int | None:
    """Return a thread's time on a core in ns, by system id; None if it has ended."""
    try:
        # Linux's number for the CPU clock of a thread.
        return time.clock_gettime_ns(~thread << 3 | 6)
    except OSError:
        return None


class CoreClocks:
    """Reader of the clocks of some threads of this process, and of all others together.

    One reading covers all threads without releasing the GIL, because acquiring it again
    would take longer than the reading. The time on a core comes from a fast system
    call. The ready time and the kernel function of a wait are read from text files,
    only if their content may have changed.
    """

    def __init__(self) -> None:
        self._wanted: frozenset[int] = frozenset()
        self._files: dict[int, OwnFile] = {}
        self._buffer = ctypes.create_string_buffer(_READ_BYTES)
        #: Kernel function in which the main thread waits (`wchan`). On Linux the main
        #: thread's id is the process id.
        self._place: OwnFile | None = None
        self._before: dict[int, int] = {}
        self._delays: dict[int, _Delay] = {}
        self._process_ns: int | None = None
        self._other_ns = 0
        #: Files of the threads of the program without frames that run most.
        self._pool: dict[int, OwnFile] = {}
        self._pool_ran_ns: dict[int, int] = {}
        self._pool_delay_ns = 0
        self._reads = 0
        self._at_ns = 0
        self._pread = ctypes.PyDLL(None).pread if sys.platform == "linux" else None
        if self._pread is not None:
            self._pread.argtypes = (
                *(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long),
            )
            self._pread.restype = ctypes.c_ssize_t

    def watch_threads(self, threads: Iterable[int]) -> None:
        """Read the clocks of the given threads (system ids) from the next read on."""
        self._wanted = frozenset(threads)

    def close_files(self) -> None:
        """Close all files; no thread may read clocks during the call."""
        self._wanted = frozenset()
        self._follow_threads()
        self._open_pool(frozenset())

    def _follow_threads(self) -> None:
        """Open and close files for the watched threads, on the thread that reads."""
        wanted = self._wanted if self._pread is not None else frozenset()
        for thread in self._files.keys() - wanted:
            self._files.pop(thread).close()
            self._delays.pop(thread, None)
        for thread in wanted - self._files.keys():
            file = _open_own_file(f"{_TASKS}/{thread}/schedstat")
            if file is not None:
                self._files[thread] = file
        main = os.getpid()
        if main not in self._files and self._place is not None:
            self._place.close()
            self._place = None
        elif main in self._files and self._place is None:
            self._place = _open_own_file(f"{_TASKS}/{main}/wchan")

    def read(self, at_ns: int) -> list[Reading]:
        """Read all clocks at monotonic time `at_ns`; leave out ended threads."""
        if self._wanted != self._files.keys():
            self._follow_threads()
        if not self._files:
            return []
        process_ns = time.process_time_ns()
        # The reading thread's own time does not count as work of other threads.
        times = {OTHER_THREADS: time.thread_time_ns()}
        readings, main = [], os.getpid()
        for thread, file in self._files.items():
            ran_ns = core_time_ns(thread)
            if ran_ns is None:
                continue
            known = self._delays.get(thread)
            # The thread was on a core nearly all the time since the last reading of its
            # delay. The remaining time is too short to show that the thread waited.
            computes = known is not None and (
                (at_ns - known.at_ns) - (ran_ns - known.ran_ns) < _MAX_GAP_TO_MERGE_NS
            )
            if known is None or not (computes or self._before.get(thread) == ran_ns):
                known = self._read_delay(file, at_ns, ran_ns)
                if known is None:
                    continue
                self._delays[thread] = known
            times[thread] = ran_ns
            in_system = thread == main and not computes and self._waits_in_system()
            delay_ns = known.delay_ns
            wanted_ns = ran_ns + delay_ns
            readings.append(Reading(thread, at_ns, wanted_ns, delay_ns, in_system))
        if self._process_ns is not None:
            # Skip a thread that is new since the last reading: its earlier time would
            # count.
            watched_ns = sum(
                ns - self._before[thread]
                for thread, ns in times.items()
                if thread in self._before
            )
            other_ns = process_ns - self._process_ns - watched_ns
            self._other_ns += min(max(other_ns, 0), at_ns - self._at_ns)
        self._pool_delay_ns += self._longest_pool_delay_ns(at_ns)
        delay_ns = self._pool_delay_ns
        other_ns = self._other_ns + delay_ns
        readings.append(Reading(OTHER_THREADS, at_ns, other_ns, delay_ns))
        self._process_ns, self._before, self._at_ns = (process_ns, times, at_ns)
        return readings

    def _longest_pool_delay_ns(self, at_ns: int) -> int:
        """Return the longest time that one other thread was ready since the last call.

        Threads that work in parallel wait for the slowest one.
        """
        if self._reads % _READS_PER_LIST == 0:
            self._follow_pool()
        self._reads += 1
        longest_ns = 0
        for thread, file in self._pool.items():
            ran_ns, known = core_time_ns(thread), self._delays.get(thread)
            if ran_ns is None or (known is not None and known.ran_ns == ran_ns):
                continue
            delay = self._read_delay(file, at_ns, ran_ns)
            if delay is not None and known is not None:
                longest_ns = max(longest_ns, delay.delay_ns - known.delay_ns)
            if delay is not None:
                self._delays[thread] = delay
        return longest_ns

    def _follow_pool(self) -> None:
        """Follow the threads that ran most of those that are not watched."""
        known, own = self._pool_ran_ns, threading.get_native_id()
        threads = _listed_threads() - self._files.keys()
        times = {thread: core_time_ns(thread) for thread in threads - {own}}
        ran_ns = {thread: ran for thread, ran in times.items() if ran is not None}
        gained = {
            thread: ran - known.get(thread, ran) for thread, ran in ran_ns.items()
        }
        busiest = sorted(filter(gained.get, gained), key=lambda thread: -gained[thread])
        self._open_pool(frozenset(busiest[:_MAX_POOL]))
        self._pool_ran_ns = ran_ns

    def _open_pool(self, threads: frozenset[int]) -> None:
        for thread in self._pool.keys() - threads:
            self._pool.pop(thread).close()
            self._delays.pop(thread, None)
        for thread in threads - self._pool.keys():
            file = _open_own_file(f"{_TASKS}/{thread}/schedstat")
            if file is not None:
                self._pool[thread] = file

    def _read_delay(self, file: OwnFile, at_ns: int, ran_ns: int) -> _Delay | None:
        fields = self._read_text(file).split()
        if len(fields) == _FIELDS and all(map(bytes.isdigit, fields)):
            return _Delay(at_ns, ran_ns, int(fields[1]))
        # The program may have closed the file: reopen it for the next reading.
        with contextlib.suppress(OSError):
            file.number()
        return None

    def _waits_in_system(self) -> bool:
        """Return whether the main thread waits for the system, not for another thread.

        A thread that waits for another thread is in a futex call. Linux returns 0 if
        the thread does not wait, or if the function is unknown.
        """
        place = b"" if self._place is None else self._read_text(self._place)
        return place not in {b"", b"0"} and b"futex" not in place

    def _read_text(self, file: OwnFile) -> bytes:
        if self._pread is None:
            return b""
        length = self._pread(file.unchecked, self._buffer, _READ_BYTES, 0)
        return self._buffer.raw[: max(length, 0)].strip()


def _listed_threads() -> set[int]:
    """Return the ids of all threads of this process.

    One call of the system's library, which keeps the GIL, opens and closes the folder:
    the program cannot close its descriptor meanwhile, and get the same one.
    """
    library = ctypes.PyDLL(None)
    entries = ctypes.POINTER(ctypes.c_void_p)()
    count = library.scandir(os.fsencode(_TASKS), ctypes.byref(entries), None, None)
    found = [entries[number] or 0 for number in range(count)]
    names = [ctypes.string_at(entry + _NAME_OFFSET) for entry in found]
    for address in (*found, ctypes.cast(entries, ctypes.c_void_p).value or 0):
        library.free(ctypes.c_void_p(address))
    return {int(name) for name in names if name.isdigit()}


def _open_own_file(path: str) -> OwnFile | None:
    try:
        file = OwnFile(path, os.O_RDONLY)
        # The program may have closed this file, and opened its own, before it was seen.
        return file if file.is_on_device(_TASKS.stat().st_dev) else None
    except OSError:
        return None


class CoreTimes(NamedTuple):
    """When a thread's clocks were read, and when the thread needed a core.

    Attributes:
        awake_ns: Start and end of each range on a core or ready, in order.
        ready_ns: Start and end of each part of `awake_ns` without a core, in order.
        system_ns: Start and end of waits for the system, in order, not in `awake_ns`.
        read_ns: When the clocks were read.
    """

    thread: int
    begin_ns: int
    end_ns: int
    awake_ns: tuple[tuple[int, int], ...]
    ready_ns: tuple[tuple[int, int], ...]
    system_ns: tuple[tuple[int, int], ...]
    read_ns: tuple[int, ...] = ()


class _Thread:
    def __init__(self, reading: Reading, *, is_first: bool) -> None:
        self.begin_ns = reading.at_ns
        self.read_ns = [reading.at_ns] if is_first else []
        self.last = reading
        self.ranges: list[tuple[int, int]] = []
        self.ready: list[tuple[int, int]] = []
        self.system: list[tuple[int, int]] = []
        #: Whether the thread was awake at the last reading.
        self.was_awake = False
        self.was_taken = False

    def add_reading(self, reading: Reading) -> None:
        self.read_ns.append(reading.at_ns)
        length = reading.at_ns - self.last.at_ns
        wanted = reading.wanted_ns - self.last.wanted_ns
        ready = reading.ready_ns - self.last.ready_ns
        # The position of awake time between two readings is unknown. Awake time is
        # assumed to come first if the thread was awake at the first reading, otherwise
        # last.
        begin = reading.at_ns - wanted
        if self.was_awake and wanted < length:
            begin = self.last.at_ns
        # Linux counts a time in which a thread was ready only when that time ends.
        begin = max(begin, self.begin_ns, *(end for _, end in self.system[-1:]))
        end = min(begin + wanted, reading.at_ns)
        self.was_awake = wanted > 0 and end >= reading.at_ns
        if reading.in_system and 2 * wanted < length:
            # The awake time of this interval came before the wait.
            since = self.last.at_ns + max(wanted, 0)
            _add_range(self.system, since, reading.at_ns)
            begin, end = self.last.at_ns, since
            self.was_awake = False
        self.last = reading
        if end > begin:
            _add_range(self.ranges, begin, end)
            if ready > 0:
                # Where in its awake time a thread was without a core is unknown.
                _add_range(self.ready, begin, min(begin + ready, end), max_gap_ns=0)


def _add_range(
    ranges: list[tuple[int, int]],
    begin: int,
    end: int,
    *,
    max_gap_ns: int = _MAX_GAP_TO_MERGE_NS,
) -> None:
    while ranges and ranges[-1][1] + max_gap_ns >= begin:
        before = ranges.pop()
        begin, end = min(begin, before[0]), max(end, before[1])
    ranges.append((begin, end))


class CoreTime:
    """Awake ranges and system waits of each thread, combined from its readings."""

    def __init__(self) -> None:
        self._threads: dict[int, _Thread] = {}

    def add_reading(self, reading: Reading) -> None:
        """Add one reading; the readings of a thread must be in time order."""
        known = self._threads.get(reading.thread)
        if known is None:
            self._threads[reading.thread] = _Thread(reading, is_first=True)
        else:
            known.add_reading(reading)

    def take_times(self) -> list[CoreTimes]:
        """Return the ranges since the last call; the next call returns later ones."""
        ranges = [
            CoreTimes(
                thread,
                known.begin_ns,
                known.last.at_ns,
                tuple(known.ranges),
                tuple(known.ready),
                tuple(known.system),
                tuple(known.read_ns),
            )
            for thread, known in self._threads.items()
            if known.last.at_ns > known.begin_ns
        ]
        after = {}
        for thread, known in self._threads.items():
            # Drop a thread without a new reading since the last call: it has ended.
            if known.last.at_ns > known.begin_ns or not known.was_taken:
                after[thread] = _Thread(known.last, is_first=False)
                after[thread].was_awake = known.was_awake
                after[thread].was_taken = True
        self._threads = after
        return ranges
