"""Counters of the process and the machine, read from /proc several times a second.

Files stay open and are read again from their start, which takes microseconds. A rate
needs two readings, so the first reading has no rates.

Definition: docs/capture.md#how-the-recorders-are-driven.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope._core import recorder
from stepscope.capture.base.spool import Fragment, OwnFile
from stepscope.capture.collectors.contract import Collected, ThreadCollector
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_NS
from stepscope.xspace.fields import DOUBLE
from stepscope.xspace.vocabulary import HOST_PLANE
from stepscope.xspace.writing.encode import StatColumn
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepscope.capture.base.clock import ClockPair
    from stepscope.capture.base.options import ProfilerOptions

#: Id of the trace line whose values viewers draw as curves.
_COUNTERS_LINE: Final = 2**63 - 1

_PROC: Final = Path("/proc")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_NS_PER_S: Final = 1_000_000_000
_READ_BYTES: Final = 65_536
#: Maximum number of readings between two flushes.
_RING_READINGS: Final = 4_096

Readings = dict[str, float]


class ProcessCollector(ThreadCollector):
    """Collector that reads counters on a separate thread."""

    name = "process"
    activity = "counters"

    def __init__(self, proc: Path = _PROC) -> None:
        super().__init__()
        self._proc = proc
        self._period_s = 0.0
        self._readings: deque[tuple[int, Readings]] = deque(maxlen=_RING_READINGS)

    def why_unavailable(self) -> Unavailable | None:
        """Return None on Linux, whose /proc contains the counters."""
        if (self._proc / "self" / "stat").exists():
            return None
        return Unavailable(
            code="NOT_RECORDED",
            reason="This system has no /proc with counters of the process.",
            remedy="Record on Linux.",
        )

    def start_collecting(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Start to read, unless `counters_hz` is 0."""
        self._clock = clock
        if options.counters_hz:
            self._period_s = 1 / options.counters_hz
            self._start_thread("counters")

    def take_fragment(self) -> Fragment:
        """Take the readings since the last call."""
        clock = self._clock
        readings = [self._readings.popleft() for _ in range(len(self._readings))]
        if clock is None or not readings:
            return Fragment(b"", 0)
        rows = [
            (name, ns, value)
            for ns, values in readings
            for name, value in values.items()
        ]
        return Fragment(counters_space(rows, clock), len(rows), readings[0][0])

    def hand_over(self) -> Collected:
        """Stop and return the remaining readings."""
        self.halt_collecting()
        last = self.take_fragment()
        return Collected(last.xspace, self._failures)

    def record_until_stopped(self) -> None:
        """Read the counters until the thread is stopped."""
        sources: list[_Source | _MemoryLimits | _Workers | _Children] = []
        try:
            sources += _open_sources(self._proc)
            before: dict[str, tuple[int, float]] = {}
            while True:
                now = recorder.clock_ns()
                values: Readings = {}
                for source in sources:
                    levels, totals = source()
                    values.update(levels)
                    for name, total in totals.items():
                        then, earlier = before.get(name, (now, total))
                        if now > then:
                            # Convert a growing total to a rate per second.
                            values[name] = (total - earlier) * _NS_PER_S / (now - then)
                        before[name] = now, total
                if values:
                    self._readings.append((now, values))
                if self._stop.wait(self._period_s):
                    return
        finally:
            for source in sources:
                source.close_file()


def counters_space(
    readings: Sequence[tuple[str, int, float]], clock: ClockPair
) -> bytes:
    """Return an XSpace of readings: counter name, monotonic time in ns, value."""
    space = XSpaceBuilder(platform.node(), start_ns=None)
    plane = space.plane(HOST_PLANE)
    names, at_ns, values = zip(*readings, strict=True)
    key = plane.stat_id("counter_value")
    plane.line(_COUNTERS_LINE, name="_counters_").events(
        np.array([plane.event_type(name) for name in names], np.int64),
        (np.array(at_ns, np.int64) - clock.monotonic_ns) * PS_PER_NS,
        np.zeros(len(names), np.int64),
        stats=[StatColumn(key, DOUBLE, np.array(values, np.float64))],
    )
    return space.to_bytes()


class _Source:
    """One open file of /proc, parsed into current values and growing totals."""

    def __init__(
        self, path: Path, parse: Callable[[str], tuple[Readings, Readings]]
    ) -> None:
        self._file = OwnFile(path, os.O_RDONLY)
        self._parse = parse

    def __call__(self) -> tuple[Readings, Readings]:
        return self._parse(
            os.pread(self._file.number(), _READ_BYTES, 0).decode("ascii", "replace")
        )

    def close_file(self) -> None:
        self._file.close()


class _Workers:
    """Processes that the program started with multiprocessing, such as data loaders.

    Before the program starts one of these, no counters are returned.
    """

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        #: CPU time of each process at the last reading, in ticks.
        self._ticks: dict[int, int] = {}
        self._grown = 0
        self._had_workers = False

    def __call__(self) -> tuple[Readings, Readings]:
        workers = child_processes()
        self._had_workers |= bool(workers)
        if not self._had_workers:
            return {}, {}
        used: dict[int, int] = {}
        for worker in workers:
            try:
                text = (self._proc / str(worker) / "stat").read_text("ascii")
                ticks = used[worker] = _cpu_ticks(text)
            except (OSError, ValueError, IndexError):
                continue
            # CPU time from before the first reading of a process is not counted.
            self._grown += ticks - self._ticks.get(worker, ticks)
        self._ticks = used
        return (
            {"worker processes": float(len(used))},
            {"worker processes CPU (percent)": _cpu_percent(self._grown)},
        )

    def close_file(self) -> None:
        """Do nothing: no file stays open."""


class _Children:
    """CPU time of all processes that the program started, and that these started.

    A process that a thread other than the main one started counts when it has ended.
    """

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._used = 0

    def __call__(self) -> tuple[Readings, Readings]:
        own = os.getpid()
        # Fields 11 and 12 are a process's own time, 13 and 14 its ended children's.
        used, running = self._used_ticks("self", 13), self._children_of("self", own)
        while running:
            child = running.pop()
            used += self._used_ticks(child, 11)
            running += self._children_of(child, child)
        # The time of a process that ends unawaited is lost.
        self._used = max(self._used, used)
        percent = _cpu_percent(self._used)
        return {}, {"child processes CPU (percent)": percent} if self._used else {}

    def _used_ticks(self, process: str, first: int) -> int:
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = (self._proc / process / "stat").read_text("ascii", "replace")
            return sum(map(int, _stat_fields(text)[first:15]))
        return 0

    def _children_of(self, process: str, main_thread: int | str) -> list[str]:
        with contextlib.suppress(OSError):
            path = self._proc / process / "task" / str(main_thread) / "children"
            return path.read_text("ascii").split()
        return []

    def close_file(self) -> None:
        """Do nothing: no file stays open."""


#: Files with limit and use of a memory cgroup, and names of the cached files' sizes in
#: `memory.stat`: of version 2, and of version 1.
_CGROUP_FILES: Final = (
    ("memory.max", "memory.current", "active_file", "inactive_file"),
    (
        *("memory.limit_in_bytes", "memory.usage_in_bytes"),
        *("total_active_file", "total_inactive_file"),
    ),
)
_NO_LIMIT_BYTES: Final = 2**62


class _MemoryLimits:
    """The memory that limits still leave: of the cgroups (container), or RLIMIT_AS."""

    def __init__(self, proc: Path, cgroups: Path) -> None:
        self._process = proc / "self"
        self._folders: list[tuple[Path, tuple[str, ...]]] = []
        with contextlib.suppress(OSError, ValueError):
            for line in (self._process / "cgroup").read_text().splitlines():
                _, kinds, name = line.split(":", 2)
                if kinds not in {"", "memory"}:
                    continue
                # In a container, the name may be that of the machine outside.
                path = Path(name.lstrip("/"))
                self._folders += [
                    (folder, names)
                    for folder in (cgroups / kinds / it for it in (path, *path.parents))
                    for names in _CGROUP_FILES
                    if (folder / names[0]).exists()
                ]

    def __call__(self) -> tuple[Readings, Readings]:
        left = []
        for folder, names in self._folders:
            # "max" is no limit; an old kernel writes the largest page number instead.
            with contextlib.suppress(OSError, ValueError, KeyError):
                limit, used = (int((folder / name).read_text()) for name in names[:2])
                if limit < _NO_LIMIT_BYTES:
                    # The kernel frees the cache of files before an allocation fails.
                    stat = (folder / "memory.stat").read_text().split()
                    sizes = dict(zip(stat[::2], map(int, stat[1::2]), strict=True))
                    left.append(limit - used + sum(sizes[key] for key in names[2:]))
        # Format: "Max address space  <soft limit or unlimited>  <hard limit>  bytes".
        with contextlib.suppress(OSError, ValueError, StopIteration):
            lines = (self._process / "limits").read_text().splitlines()
            line = next(one for one in lines if one.startswith("Max address space"))
            pages = int((self._process / "statm").read_text().split()[0])
            left.append(int(line.split()[3]) - pages * os.sysconf("SC_PAGE_SIZE"))
        if not left:
            return {}, {}
        return {"memory within limits (bytes)": float(max(min(left), 0))}, {}

    def close_file(self) -> None:
        """Do nothing: no file stays open."""


def child_processes() -> dict[int, str]:
    """Return the unjoined processes that multiprocessing started.

    Returns:
        Process id → name, in the order of the ids.
    """
    # The public function would also join ended processes, which the program should do.
    started = getattr(sys.modules.get("multiprocessing.process"), "_children", ())
    names = {child.pid: child.name for child in list(started) if child.pid is not None}
    return dict(sorted(names.items()))


def _open_sources(proc: Path) -> list[_Source | _MemoryLimits | _Workers | _Children]:
    """Open the sources of this machine; a container may hide some files."""
    sources: list[_Source | _MemoryLimits | _Workers | _Children] = []
    for name, parse in _PARSERS.items():
        try:
            source = _Source(proc / name, parse)
        except OSError:
            continue
        try:
            source()
        except (OSError, ValueError, IndexError):
            source.close_file()
        else:
            sources.append(source)
    return [*sources, _MemoryLimits(proc, _CGROUPS), _Workers(proc), _Children(proc)]


def _stat_fields(text: str) -> list[str]:
    # The process name in brackets may contain any character. Fields are counted after
    # the name; the first one is field 3 of proc(5).
    return text.rpartition(")")[2].split()


def _cpu_ticks(text: str) -> int:
    fields = _stat_fields(text)
    return int(fields[11]) + int(fields[12])


def _cpu_percent(ticks: int) -> float:
    return ticks * 100 / os.sysconf("SC_CLK_TCK")


def _parse_io(text: str) -> tuple[Readings, Readings]:
    values = dict(line.split(": ") for line in text.splitlines() if ": " in line)
    return {}, {
        "process reads (bytes/s)": float(values["read_bytes"]),
        "process writes (bytes/s)": float(values["write_bytes"]),
    }


def _parse_cores(text: str) -> tuple[Readings, Readings]:
    totals = {}
    for line in text.splitlines():
        if not line.startswith("cpu"):
            break
        core, user, nice, system, _, _, irq, softirq, *_ = line.split()
        busy_ticks = sum(map(int, (user, nice, system, irq, softirq)))
        name = "machine" if core == "cpu" else f"core {core[3:]}"
        totals[f"{name} CPU (percent)"] = _cpu_percent(busy_ticks)
    return {}, totals


def _parse_memory(text: str) -> tuple[Readings, Readings]:
    for line in text.splitlines():
        if line.startswith("MemAvailable:"):
            return {"memory available (bytes)": float(line.split()[1]) * 1024}, {}
    return {}, {}


#: File of /proc → function that returns its current values and growing totals.
_PARSERS: Final[dict[str, Callable[[str], tuple[Readings, Readings]]]] = {
    "self/stat": lambda text: (
        {"threads": float(_stat_fields(text)[17])},
        {"process CPU (percent)": _cpu_percent(_cpu_ticks(text))},
    ),
    "self/statm": lambda text: (
        {
            "process RSS (bytes)": float(
                int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")
            )
        },
        {},
    ),
    "self/io": _parse_io,
    "stat": _parse_cores,
    "meminfo": _parse_memory,
    # Format: "some avg10=… avg60=… avg300=… total=<microseconds>".
    "pressure/cpu": lambda text: (
        {},
        {
            "CPU pressure (percent)": int(text.split("\n")[0].rpartition("total=")[2])
            / 10_000
        },
    ),
}
