"""Measure the processor time that the flight recorder's own threads use.

    python benchmarks/flight_threads.py [--seconds 15] [--write docs/overhead.md]

Loops scatter by more than the flight recorder costs; what the kernel counts for each of
its threads does not, even beside other programs. Linux only.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import stepscope as ss
from overhead_program import numpy_step, python_step
from pages import machine, replace_section

#: Words, which step, and how many times the rows of a short one.
LOOPS = (
    ("NumPy", "numpy", 8),
    ("Python alone", "python", 8),
    ("Python alone", "python", 1),
)
STEPS = {"numpy": numpy_step, "python": python_step}
#: Name of a thread → what it does.
THREADS = {
    "stepscope-flight": "storing, once a second",
    "stepscope-samples": "samples of functions, 20 a second",
    "stepscope-counters": "counters, 2 a second",
}
NS = 1_000_000_000


def main() -> int:
    """Measure each loop in a process of its own, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--write", type=Path, metavar="PAGE")
    parser.add_argument("--loop", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.loop is not None:
        print(json.dumps(measured(options.loop, options.seconds)))
        return 0
    before = os.getloadavg()[0]
    found = [in_a_process(number, options.seconds) for number in range(len(LOOPS))]
    heads = [
        f"{words}, {one['step_ms']:.1f} ms"
        for (words, *_), one in zip(LOOPS, found, strict=True)
    ]
    lines = [
        machine(),
        "",
        f"| thread | {' | '.join(heads)} |",
        f"|---|{'--:|' * len(heads)}",
    ]
    for name, words in THREADS.items():
        shares = " | ".join(f"{one[name]:.2f}" for one in found)
        lines.append(f"| {words} | {shares} |")
    sums = (sum(one[name] for name in THREADS) for one in found)
    lines.append(f"| together | {' | '.join(f'{it:.2f}' for it in sums)} |")
    loops = " | ".join(f"{one['MainThread']:.1f}" for one in found)
    lines.append(f"| the loop itself | {loops} |")
    loads = f"{before:.2f}, {os.getloadavg()[0]:.2f}"
    lines += ["", f"System load average before and after: {loads}."]
    text = "\n".join(lines)
    print(text)
    if options.write:
        replace_section(options.write, "flight threads", text)
    return 0


def in_a_process(number: int, seconds: float) -> dict[str, float]:
    """Run one of the loops in a fresh process."""
    command = [sys.executable, __file__, "--loop", str(number)]
    done = subprocess.run(
        [*command, "--seconds", str(seconds)],
        check=True,
        stdout=subprocess.PIPE,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measured(number: int, seconds: float) -> dict[str, float]:
    """Percent of a core that each thread uses beside a loop, and the step's time."""
    _, kind, batches = LOOPS[number]
    step: Any = STEPS[kind](batches)
    steps = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        ss.flight_recorder(folder, slower_than=1000),
    ):
        # The first flush imports what it needs.
        until = time.monotonic() + 3
        while time.monotonic() < until:
            step()
        used, began = core_ns(), time.monotonic()
        while time.monotonic() < began + seconds:
            with ss.StepTrace(steps):
                step()
            steps += 1
        took = time.monotonic() - began
        after = core_ns()
    names = (*THREADS, "MainThread")
    found = {it: 100 * (after[it] - used[it]) / NS / took for it in names}
    return {**found, "step_ms": 1000 * took / steps}


def core_ns() -> dict[str, int]:
    """Nanoseconds that each thread of Python had a core, by its name."""
    return {
        thread.name: int(
            Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()[0]
        )
        for thread in threading.enumerate()
    }


if __name__ == "__main__":
    sys.exit(main())
