"""Run one program in a process of its own, and measure time and memory.

Only the standard library is imported here: Linux counts the memory of the process that
starts a program towards the program's peak, so the starter must be small.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# ru_maxrss is in KiB on Linux.
KIB = 1024
READ_AT_ONCE = 1 << 22
#: More than stepscope takes for any profile that is measured.
READY_BYTES = 2 << 30
#: Half of what is available at most: no other program is to lose its memory.
TOUCH = """
import mmap, os, sys
half = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
page = os.sysconf("SC_PAGE_SIZE")
pages = min(int(sys.argv[1]), half) // page
memory = mmap.mmap(-1, pages * page)
if hasattr(mmap, "MADV_HUGEPAGE"):
    memory.madvise(mmap.MADV_HUGEPAGE)
memory[::page] = bytes(pages)
"""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Start to exit of one process: wall and CPU time, and the peak of its memory."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


class ProgramFailed(Exception):
    """A measured program did not do its work; the message has its last line."""


def measure(
    command: Sequence[str], *, output: Path, environment: Mapping[str, str]
) -> Measurement:
    """Run a program to its end, with its standard output in a file.

    CPU is user plus system time of all its threads; memory is its peak resident set,
    pages of mapped files included.

    Raises:
        ProgramFailed: The program ended with an error, or wrote nothing.
    """
    with output.open("wb") as sink, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=sink, stderr=errors, env=dict(environment)
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
        # wait4 has reaped the process; Popen must not wait for it again.
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0 or output.stat().st_size == 0:
            errors.seek(0)
            lines = errors.read().decode("utf-8", "replace").splitlines()
            last = lines[-1] if lines else "no message"
            raise ProgramFailed(
                f"{command[0]} ended with {process.returncode} after writing "
                f"{output.stat().st_size} bytes: {last}"
            )
    return Measurement(
        wall_s=wall_s,
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_bytes=usage.ru_maxrss * KIB,
    )


def median(measurements: Sequence[Measurement]) -> Measurement:
    """The median of each quantity by itself."""
    return Measurement(
        wall_s=statistics.median(m.wall_s for m in measurements),
        cpu_s=statistics.median(m.cpu_s for m in measurements),
        peak_bytes=int(statistics.median(m.peak_bytes for m in measurements)),
    )


def one_after_another(measurements: Sequence[Measurement]) -> Measurement:
    """What running several programs in turn takes: times add, memory does not."""
    return Measurement(
        wall_s=sum(m.wall_s for m in measurements),
        cpu_s=sum(m.cpu_s for m in measurements),
        peak_bytes=max(m.peak_bytes for m in measurements),
    )


def make_ready(path: Path, memory: int = READY_BYTES) -> None:
    """Read a file to its end and touch memory: no program is charged for either.

    A virtual machine hands free memory back to its host, some seconds after a program
    has ended. Whoever touches it next waits for the host, for 0.1 s to 2.3 s for each
    GB as measured on one such machine.

    Args:
        path: The file.
        memory: Bytes of memory, more than the program takes.
    """
    with path.open("rb") as file:
        while file.read(READ_AT_ONCE):
            pass
    subprocess.run([sys.executable, "-c", TOUCH, str(memory)], check=True)
