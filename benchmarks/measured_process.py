"""Run one program in a process of its own, and measure time and memory.

Only the standard library is imported here: Linux counts the memory of the process that
starts a program towards the program's peak, so the starter must be small.
"""

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# ru_maxrss is in KiB on Linux.
KIB = 1024
READ_AT_ONCE = 1 << 22


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


def second_of_two(measured: Callable[[], Measurement]) -> Measurement:
    """Measure twice in a row; the first time makes memory ready, and does not count.

    A virtual machine hands free memory back to its host within seconds, and whoever
    touches it next waits for the host: a report on five million events took 2.3 s
    right after another one, and 3.0 s after a pause.
    """
    measured()
    return measured()


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


def read_whole(path: Path) -> None:
    """Read a file to its end, so that no program is charged for the disk."""
    with path.open("rb") as file:
        while file.read(READ_AT_ONCE):
            pass
