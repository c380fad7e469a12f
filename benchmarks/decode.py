"""Measure the decoder against its two passes written by hand in C.

    python benchmarks/decode.py [--runs 9] [--case NAME]

The C decoder (`reference_decoder.c`, compiled here with `cc -O3`) fills the same
columns but decodes no names and does not survive damage. Both run in turn in one
process on mapped files. Times are medians of the runs: of processor time for one
thread, which other programs disturb little, and of elapsed time for all cores. Compare
ratios, not seconds. Memory is that of one decoding in a fresh process.
"""

import argparse
import ctypes
import mmap
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from pages import machine, replace_section
from profiles import CASES, NoProfile
from stepscope._core import wire
from stepscope.xspace.reading.columns import XSpace
from stepscope.xspace.reading.decode import decode_file

SOURCE = Path(__file__).with_name("reference_decoder.c")
#: Column → its type, in the order of the C struct.
COLUMNS = {
    "type": np.int32,
    "offset": np.int64,
    "dur": np.int64,
    "stat_event": np.int32,
    "key": np.int32,
    "kind": np.uint8,
    "value": np.int64,
    "length": np.int32,
}
EVENT_COLUMNS = 3
#: The peak that the kernel counts since this program began; the one of `getrusage` may
#: be the parent's.
MEMORY = """
import sys
from pathlib import Path
from stepscope.xspace.reading.decode import decode
def peak():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
before = peak()
space = decode(Path(sys.argv[1]))
print(peak() - before)
"""


class CDecoder:
    """The hand-written decoder, behind ctypes."""

    def __init__(self, folder: Path) -> None:
        library = folder / "reference_decoder.so"
        compiler = os.environ.get("CC", "cc")
        subprocess.run(
            [compiler, "-O3", "-shared", "-fPIC", "-o", str(library), str(SOURCE)],
            check=True,
        )
        self.library = ctypes.CDLL(str(library))
        self.library.walk.restype = ctypes.c_uint64

    def decode(self, path: Path) -> dict[str, np.ndarray]:
        """Map the file, count, allocate, fill."""
        data = _mapped(path)
        place = ctypes.c_void_p(data.ctypes.data)
        size = ctypes.c_int64(len(data))
        counts = (ctypes.c_int64 * 3)()
        if self.library.count(place, size, counts):
            raise ValueError("the C decoder does not accept the file")
        _, events, stats = counts
        columns = {
            name: np.empty(events if k < EVENT_COLUMNS else stats, dtype)
            for k, (name, dtype) in enumerate(COLUMNS.items())
        }
        places = (ctypes.c_void_p * len(columns))(
            *(column.ctypes.data for column in columns.values())
        )
        if self.library.fill(place, size, places):
            raise ValueError("the C decoder does not accept the file")
        return columns

    def walk(self, path: Path) -> int:
        """Read every varint of the file."""
        data = _mapped(path)
        place = ctypes.c_void_p(data.ctypes.data)
        return int(self.library.walk(place, ctypes.c_int64(len(data))))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of the profiles, and put it into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--case", choices=[case.name for case in CASES])
    parser.add_argument("--write", type=Path, metavar="PAGE")
    options = parser.parse_args(arguments)
    compiler = os.environ.get("CC", "cc")
    if shutil.which(compiler) is None:
        print(f"no C compiler ({compiler}) on this machine: nothing to compare with")
        return 1
    lines = [
        machine(),
        "",
        f"Medians, with {'compiled' if wire.COMPILED else 'uncompiled'} kernels.",
        "",
        (
            "| profile | MB | varint walk, CPU ms | C, CPU ms | 1 thread, CPU ms "
            "| to C | C, elapsed ms | all cores, elapsed ms | to C "
            "| memory to columns |"
        ),
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        reference = CDecoder(Path(folder))
        for case in CASES:
            if options.case in {None, case.name}:
                try:
                    path = case.profile()
                except NoProfile as reason:
                    lines.append(f"| {case.name} | skipped: {reason} |")
                else:
                    lines.append(row(case.name, path, reference, runs=options.runs))
    print("\n".join(lines))
    if options.write:
        replace_section(options.write, "decode", "\n".join(lines))
    return 0


def row(name: str, path: Path, reference: CDecoder, *, runs: int) -> str:
    """Measure one profile; the columns of both decoders must agree."""
    space = decode_file(path)
    check(space, reference.decode(path))
    events, stats = space.events, space.stats
    held = events.type.nbytes + events.offset_ps.nbytes + events.dur_ps.nbytes
    held += stats.event.nbytes + stats.key.nbytes + stats.kind.nbytes
    held += stats.value.nbytes + stats.length.nbytes
    del space, events, stats
    (walk, _), (plain, plain_elapsed), (alone, _), (_, together) = medians(
        [
            lambda: reference.walk(path),
            lambda: reference.decode(path),
            lambda: decode_file(path, threads=1),
            lambda: decode_file(path),
        ],
        runs=runs,
    )
    return (
        f"| {name} | {path.stat().st_size / 1e6:.0f} | {walk:.1f} | {plain:.1f} "
        f"| {alone:.1f} | {alone / plain:.2f} | {plain_elapsed:.1f} | {together:.1f} "
        f"| {together / plain_elapsed:.2f} | {peak_growth(path) / held:.2f} |"
    )


def medians(
    contestants: Sequence[Callable[[], object]], *, runs: int
) -> list[tuple[float, float]]:
    """Median milliseconds of each, of processor time and elapsed, measured in turn."""
    taken: list[list[tuple[float, float]]] = [[] for _ in contestants]
    for _ in range(runs):
        for times, contestant in zip(taken, contestants, strict=True):
            begin, begin_cpu = time.perf_counter(), time.process_time()
            answer = contestant()
            times.append((time.process_time() - begin_cpu, time.perf_counter() - begin))
            del answer
    return [
        (
            1000 * statistics.median(cpu for cpu, _ in times),
            1000 * statistics.median(elapsed for _, elapsed in times),
        )
        for times in taken
    ]


def check(space: XSpace, columns: dict[str, np.ndarray]) -> None:
    """Compare what does not depend on how names are numbered."""
    same: dict[str, np.ndarray] = {
        "offset": space.events.offset_ps,
        "dur": space.events.dur_ps,
        "stat_event": space.stats.event,
        "kind": space.stats.kind,
        "length": space.stats.length,
    }
    for name, column in same.items():
        if not np.array_equal(column, columns[name]):
            raise AssertionError(f"column {name} differs from the C decoder's")
    numbers = ~np.isin(space.stats.kind, (7,))
    if not np.array_equal(space.stats.value[numbers], columns["value"][numbers]):
        raise AssertionError("column value differs from the C decoder's")


def peak_growth(path: Path) -> int:
    """Bytes by which decoding raised the peak memory of a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(path)],
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout)


def _mapped(path: Path) -> np.ndarray:
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(mapped, np.uint8)


if __name__ == "__main__":
    sys.exit(main())
