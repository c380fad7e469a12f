"""When threads were on a core, or ready for one, from the clocks that Linux keeps.

A thread that computes wants a core; one that sleeps, reads from a slow source or waits
for a lock wants none, whatever function it is in. On a busy machine a thread that is
ready has to wait for a core: that is no sleep, and Linux counts it apart.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.capture.ground.encoding import OWN_THREADS, native_id
from stepscope.capture.ground.spool import OwnFile
from stepscope.xspace.samples_line import OTHER_THREADS

if TYPE_CHECKING:
    from collections.abc import Iterable

_READ_BYTES: Final = 96
#: What the system says of a thread: time on a core, time ready, turns.
_FIELDS: Final = 3
#: Ranges that are nearer to each other are one.
_SLACK_NS: Final = 500_000


class Reading(NamedTuple):
    """What the clocks of one thread said at one moment.

    Attributes:
        thread: The system's id of the thread; `OTHER_THREADS` for all the rest of the
            process together.
        wanted_ns: For how long, since some fixed time, it was on a core or ready.
        in_system: Whether it waits for the system just then, not for another thread;
            only looked at for the main thread.
    """

    thread: int
    at_ns: int
    wanted_ns: int
    in_system: bool = False


class _Delay(NamedTuple):
    """For how long a thread was ready and had no core, as last read from the system."""

    at_ns: int
    ran_ns: int
    delay_ns: int


def core_time_ns(thread: int) -> int | None:
    """Return how long a thread (its system id) was on a core; None where it is gone."""
    try:
        # So Linux numbers the clock of a thread.
        return time.clock_gettime_ns(~thread << 3 | 6)
    except OSError:
        return None


class CoreClocks:
    """Reads the clocks of some threads of this process, and of the rest of it.

    A look reads them all without giving the interpreter's lock away: whoever has to
    get it back waits for it longer than all the readings take. How long a thread was
    on a core is quickly read. For how long it was ready, and where it waits, are texts
    that the system makes: they are read only where they can be news.
    """

    def __init__(self) -> None:
        self._wanted: frozenset[int] = frozenset()
        self._files: dict[int, OwnFile] = {}
        self._buffer = ctypes.create_string_buffer(_READ_BYTES)
        #: Tells where in the system the main thread waits: Linux gives that thread the
        #: number of the process.
        self._place: OwnFile | None = None
        self._before: dict[int, int] = {}
        self._delays: dict[int, _Delay] = {}
        self._process_ns: int | None = None
        self._rest_ns = 0
        self._at_ns = 0
        self._pread = ctypes.PyDLL(None).pread if sys.platform == "linux" else None
        if self._pread is not None:
            self._pread.argtypes = (
                *(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long),
            )
            self._pread.restype = ctypes.c_ssize_t

    def watch_threads(self, threads: Iterable[int]) -> None:
        """Read the clocks of these threads from the next reading on, by system's id."""
        self._wanted = frozenset(threads)

    def close_files(self) -> None:
        """Let go of all files; nobody may read meanwhile."""
        self._wanted = frozenset()
        self._follow_threads()

    def _follow_threads(self) -> None:
        """Open and close files as `watch` says, in the thread that reads them."""
        wanted = self._wanted if self._pread is not None else frozenset()
        for thread in self._files.keys() - wanted:
            self._files.pop(thread).close()
            self._delays.pop(thread, None)
        for thread in wanted - self._files.keys():
            file = _open_own_file(f"/proc/self/task/{thread}/schedstat")
            if file is not None:
                self._files[thread] = file
        main = os.getpid()
        if main not in self._files and self._place is not None:
            self._place.close()
            self._place = None
        elif main in self._files and self._place is None:
            self._place = _open_own_file(f"/proc/self/task/{main}/wchan")

    def read(self, at_ns: int) -> list[Reading]:
        """Read all clocks at `at_ns` (monotonic); who is gone has no reading."""
        if self._wanted != self._files.keys():
            self._follow_threads()
        if not self._files:
            return []
        process_ns = time.process_time_ns()
        # This thread's own time is nobody's work.
        ran = {OTHER_THREADS: time.thread_time_ns()}
        found, main = [], os.getpid()
        for thread, file in self._files.items():
            ran_ns = core_time_ns(thread)
            if ran_ns is None:
                continue
            known = self._delays.get(thread)
            # It was on a core nearly all the time since then: what is left is too short
            # to say of it that the thread was ready, or waited.
            computes = known is not None and (
                (at_ns - known.at_ns) - (ran_ns - known.ran_ns) < _SLACK_NS
            )
            if known is None or not (computes or self._before.get(thread) == ran_ns):
                known = self._read_delay(file, at_ns, ran_ns)
                if known is None:
                    continue
                self._delays[thread] = known
            ran[thread] = ran_ns
            in_system = thread == main and not computes and self._waits_in_system()
            found.append(Reading(thread, at_ns, ran_ns + known.delay_ns, in_system))
        if self._process_ns is not None:
            # Threads that were read before, too: others bring what they ran before.
            watched = sum(
                ns - self._before[it] for it, ns in ran.items() if it in self._before
            )
            rest = process_ns - self._process_ns - watched
            self._rest_ns += min(max(rest, 0), at_ns - self._at_ns)
        found.append(Reading(OTHER_THREADS, at_ns, self._rest_ns))
        self._process_ns, self._before, self._at_ns = process_ns, ran, at_ns
        return found

    def _read_delay(self, file: OwnFile, at_ns: int, ran_ns: int) -> _Delay | None:
        fields = self._read_text(file).split()
        if len(fields) == _FIELDS and all(map(bytes.isdigit, fields)):
            return _Delay(at_ns, ran_ns, int(fields[1]))
        # The program may have closed it: the next reading finds it again.
        with contextlib.suppress(OSError):
            file.number()
        return None

    def _waits_in_system(self) -> bool:
        """Return whether the main thread waits in the system, but for another thread.

        Locks and all that threads wait with are futexes. Where it cannot be told the
        system says 0, as it does of a thread that runs.
        """
        place = b"" if self._place is None else self._read_text(self._place)
        return place not in {b"", b"0"} and b"futex" not in place

    def _read_text(self, file: OwnFile) -> bytes:
        if self._pread is None:
            return b""
        length = self._pread(file.unchecked, self._buffer, _READ_BYTES, 0)
        return self._buffer.raw[: max(length, 0)].strip()


def _open_own_file(path: str) -> OwnFile | None:
    try:
        return OwnFile(path, os.O_RDONLY)
    except OSError:
        return None


class Seen(NamedTuple):
    """When a thread's clocks were read, and when it wanted a core meanwhile.

    Attributes:
        awake_ns: Begin and end of each range, in order; apart from each other.
        system_ns: Where it waited for the system, in the same way; within `awake_ns`
            nowhere.
    """

    thread: int
    begin_ns: int
    end_ns: int
    awake_ns: tuple[tuple[int, int], ...]
    system_ns: tuple[tuple[int, int], ...]


class _Thread:
    def __init__(self, reading: Reading) -> None:
        self.begin_ns = reading.at_ns
        self.last = reading
        self.ranges: list[tuple[int, int]] = []
        self.system: list[tuple[int, int]] = []
        #: Whether it was taken to be awake at the last reading.
        self.was_awake = False
        self.was_taken = False

    def add_reading(self, reading: Reading) -> None:
        length = reading.at_ns - self.last.at_ns
        wanted = reading.wanted_ns - self.last.wanted_ns
        # Where within the time between two readings is not known: what was awake at
        # the first of them seems to have gone on, anything else to have begun later.
        begin = reading.at_ns - wanted
        if self.was_awake and wanted < length:
            begin = self.last.at_ns
        # Being ready is counted when it ends, all at once.
        begin = max(begin, self.begin_ns, *(end for _, end in self.system[-1:]))
        end = min(begin + wanted, reading.at_ns)
        self.was_awake = wanted > 0 and end >= reading.at_ns
        if reading.in_system and 2 * wanted < length:
            # What was awake meanwhile was so before.
            since = self.last.at_ns + max(wanted, 0)
            _add_range(self.system, since, reading.at_ns)
            begin, end = self.last.at_ns, since
            self.was_awake = False
        self.last = reading
        if end > begin:
            _add_range(self.ranges, begin, end)


def _add_range(ranges: list[tuple[int, int]], begin: int, end: int) -> None:
    while ranges and ranges[-1][1] + _SLACK_NS >= begin:
        before = ranges.pop()
        begin, end = min(begin, before[0]), max(end, before[1])
    ranges.append((begin, end))


class CoreTime:
    """Puts readings together, thread by thread."""

    def __init__(self) -> None:
        self._threads: dict[int, _Thread] = {}

    def add_reading(self, reading: Reading) -> None:
        """Note one reading; those of a thread come in order."""
        known = self._threads.get(reading.thread)
        if known is None:
            self._threads[reading.thread] = _Thread(reading)
        else:
            known.add_reading(reading)

    def take_times(self) -> list[Seen]:
        """Return what was found since the last time; what follows begins there."""
        found = [
            Seen(
                thread,
                known.begin_ns,
                known.last.at_ns,
                tuple(known.ranges),
                tuple(known.system),
            )
            for thread, known in self._threads.items()
            if known.last.at_ns > known.begin_ns
        ]
        after = {}
        for thread, known in self._threads.items():
            # Of a thread that was not read again there is nothing more to find.
            if known.last.at_ns > known.begin_ns or not known.was_taken:
                after[thread] = _Thread(known.last)
                after[thread].was_awake = known.was_awake
                after[thread].was_taken = True
        self._threads = after
        return found


#: A loop that calls NumPy lets go of the lock by itself every few tenths of a
#: millisecond. The system's timers add some 50 µs, so that less would gain little.
_PROMPT_S: Final = 0.00002
#: A thread that is on a core for less than this part of the time only waits.
_WAITS: Final = 0.05


class _Switching:
    def __init__(self) -> None:
        self._usual_s: float | None = None
        #: When the clocks of other threads were read, and what they said, by the
        #: system's id; both in ns.
        self._read_ns = 0
        self._ran_ns: dict[int, int] = {}

    def update_interval(self) -> None:
        if not self._main_runs_alone():
            self.restore_interval()
        elif self._usual_s is None and sys.getswitchinterval() > _PROMPT_S:
            self._usual_s = sys.getswitchinterval()
            sys.setswitchinterval(_PROMPT_S)

    def restore_interval(self) -> None:
        """Put it back, unless the program has set it meanwhile."""
        usual_s, self._usual_s = self._usual_s, None
        # It is kept in whole microseconds.
        ours = abs(sys.getswitchinterval() - _PROMPT_S) < 1e-6
        if usual_s is not None and ours:
            sys.setswitchinterval(usual_s)

    def _main_runs_alone(self) -> bool:
        """Return whether all other threads have only waited since the last time.

        One that is new is held against what the main thread has computed in its life.
        """
        threads = threading.enumerate()
        ours = {
            thread.ident
            for thread in threads
            if thread is threading.main_thread() or thread.name.startswith(OWN_THREADS)
        }
        # Threads that are not Python's own have frames too, and no clock that is known.
        others = sys._current_frames().keys() - ours  # noqa: SLF001 - the way there is
        known = {thread.ident: native_id(thread) for thread in threads}
        before, self._ran_ns = self._ran_ns, {}
        begin_ns, self._read_ns = self._read_ns, time.monotonic_ns()
        wait = True
        for thread in {known.get(ident) for ident in others}:
            if thread is None or sys.platform != "linux":
                wait = False
                continue
            room_ns = self._read_ns - begin_ns
            if thread not in before:
                room_ns = core_time_ns(os.getpid()) or 0
            ran_ns = self._ran_ns[thread] = core_time_ns(thread) or 0
            wait &= ran_ns - before.get(thread, 0) <= _WAITS * room_ns
        return wait


#: The interpreter has one interval, so there is one of these.
switching: Final = _Switching()
# A forked child has none of its parent's recordings.
os.register_at_fork(after_in_child=switching.restore_interval)
