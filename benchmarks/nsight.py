"""Measure what a report on an Nsight Systems database costs, as the database grows.

    python benchmarks/nsight.py [--runs 3] [--write docs/benchmarks.md]

The databases are made here: kernels of forty names, each with its launch call, in steps
of a thousand that end with a wait for the stream. Every measurement is a fresh process
that prints the report, from its start to its exit. What lies above the smallest should
grow with the number of kernels, and the peak of memory stay below five times what the
tables take as 64-bit numbers.
"""

import argparse
import os
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from measured_process import Measurement, measure, median
from pages import machine, replace_section
from peer import MIB

MILLION = 1_000_000
SIZES = (MILLION // 2, MILLION, 2 * MILLION)
# So few kernels that nearly all the time is starting, importing and printing.
SMALLEST = 20_000
OF_A_STEP = 1_000
NAMES = 40
KERNEL_NS = 10_000
BETWEEN_NS = 100_000
PROCESS = 1 << 48 | 4242 << 24
INTEGERS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start end deviceId contextId streamId correlationId globalPid demangledName"
        " shortName gridX gridY gridZ blockX blockY blockZ registersPerThread"
        " staticSharedMemory dynamicSharedMemory"
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start end eventClass globalTid correlationId nameId returnValue"
    ),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
        "start end deviceId contextId streamId correlationId globalPid syncType eventId"
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of the sizes, and put it into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--write", type=Path, metavar="PAGE")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base, *measured = [
            report(folder, kernels, runs=options.runs) for kernels in (SMALLEST, *SIZES)
        ]
    text = "\n\n".join((machine(), table(base, measured)))
    print(text)
    if options.write:
        replace_section(options.write, "nsight", text)
    return 0


def report(folder: Path, kernels: int, *, runs: int) -> tuple[int, Measurement]:
    """Size of a database of so many kernels, and the medians of the reports on it."""
    path = folder / f"{kernels}.sqlite"
    write(path, kernels)
    command = [sys.executable, "-m", "stepscope", "report", str(path)]
    found = [
        measure(command, output=folder / "report", environment=os.environ)
        for _ in range(runs)
    ]
    return path.stat().st_size, median(found)


def write(path: Path, kernels: int) -> None:
    """Write a database of so many kernels and launch calls."""
    names = [
        f"void elementwise_kernel<{at}, float>(int, float*)" for at in range(NAMES)
    ]
    names += ["cudaLaunchKernel_v7000", "cudaStreamSynchronize_v3020"]
    with closing(sqlite3.connect(path)) as base:
        base.execute("PRAGMA synchronous = OFF")
        base.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        base.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(names, 1))
        base.execute(
            "CREATE TABLE NVTX_EVENTS (start, end, eventType, text, globalTid)"
        )
        base.executemany(
            "INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?)",
            (
                (begin(at), begin(at + OF_A_STEP) - 1, f"step {at}", PROCESS | 1)
                for at in range(0, kernels, OF_A_STEP)
            ),
        )
        for (name, columns), rows in zip(
            INTEGERS.items(),
            (kernel_rows(kernels), call_rows(kernels), wait_rows(kernels)),
            strict=True,
        ):
            listed = columns.split()
            declared = ", ".join(f"{column} INTEGER" for column in listed)
            base.execute(f"CREATE TABLE {name} ({declared})")
            marks = ", ".join("?" * len(listed))
            base.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)  # noqa: S608
        base.commit()


def begin(kernel: int) -> int:
    """When the launch call of a kernel begins."""
    return kernel * KERNEL_NS + kernel // OF_A_STEP * BETWEEN_NS


def kernel_rows(kernels: int) -> Iterator[tuple[int, ...]]:
    """A row for each kernel, which begins half a call after its launch."""
    for at in range(kernels):
        start, name = begin(at) + KERNEL_NS // 2, at % NAMES + 1
        shape = (2 + at % 16, 1, 1, 128, 1, 1, 32, 0, 1024)
        end = start + KERNEL_NS * 6 // 10 + at % 7 * 400
        yield (start, end, 0, 1, 7, 2 * at + 1, PROCESS, name, name, *shape)


def call_rows(kernels: int) -> Iterator[tuple[int, ...]]:
    """The launch calls, and a wait for the stream at the end of each step."""
    for at in range(kernels):
        start = begin(at)
        yield (start, start + 4_000, 0, PROCESS | 1, 2 * at + 1, NAMES + 1, 0)
        if at % OF_A_STEP == OF_A_STEP - 1:
            start += 5_000
            end = start + 3 * KERNEL_NS
            yield (start, end, 0, PROCESS | 1, 2 * at + 2, NAMES + 2, 0)


def wait_rows(kernels: int) -> Iterator[tuple[int, ...]]:
    """What CUPTI records of each wait."""
    for at in range(OF_A_STEP - 1, kernels, OF_A_STEP):
        start = begin(at) + 5_000
        yield (start, start + 3 * KERNEL_NS, 0, 1, 7, 2 * at + 2, PROCESS, 3, 0)


def table(
    base: tuple[int, Measurement], measured: Sequence[tuple[int, Measurement]]
) -> str:
    """One line for each size, its cost for a million kernels beside it."""
    lines = [
        (
            "| million kernels | file MiB | wall s | CPU s | peak MiB "
            "| CPU s per million | MiB per million |"
        ),
        "|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for kernels, (size, figures) in zip(
        (SMALLEST, *SIZES), (base, *measured), strict=True
    ):
        cells = [
            f"{kernels / MILLION:g}",
            f"{size / MIB:.0f}",
            f"{figures.wall_s:.2f}",
            f"{figures.cpu_s:.2f}",
            f"{figures.peak_bytes / MIB:.0f}",
        ]
        if kernels == SMALLEST:
            cells += ["", ""]
        else:
            more = (kernels - SMALLEST) / MILLION
            cells += [
                f"{(figures.cpu_s - base[1].cpu_s) / more:.2f}",
                f"{(figures.peak_bytes - base[1].peak_bytes) / MIB / more:.0f}",
            ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
