"""Measure how the cost of all tools together grows with the number of events.

    python benchmarks/linear.py [--runs 3] [--write docs/benchmarks.md]

The profiles are GPU-shaped, with 1 to 20 million events. Every measurement is a fresh
process that writes the JSON of every tool, from its start to its exit. The cost of a
million events, without start and imports, should stay the same as the profile grows.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from measured_process import Measurement, median
from pages import machine, replace_section
from peer import MIB, ask, stepscope, the_groups
from profiles import NoProfile, gpu_shaped

MILLION = 1_000_000
SIZES = tuple(size * MILLION for size in (1, 2, 5, 10, 20))
# So few events that nearly all the time is starting, importing and writing.
SMALLEST = 10_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of the sizes, and put it into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--write", type=Path, metavar="PAGE")
    options = parser.parse_args(arguments)
    try:
        base = all_tools(SMALLEST, runs=options.runs)
        measured = {size: all_tools(size, runs=options.runs) for size in SIZES}
    except NoProfile as reason:
        print(f"linear: {reason}", file=sys.stderr)
        return 1
    text = "\n\n".join((machine(), table(base, measured)))
    print(text)
    if options.write:
        replace_section(options.write, "linear", text)
    return 0


def all_tools(events: int, *, runs: int) -> Measurement:
    """Every tool on a profile of a size, in one fresh process; medians of the runs."""
    side = stepscope()
    *_, everything = the_groups(side)
    profile = gpu_shaped(events)
    return median([ask(side, profile, everything.tools) for _ in range(runs)])


def table(base: Measurement, measured: dict[int, Measurement]) -> str:
    """One line for each size, its cost for a million events beside it."""
    lines = [
        (
            "| million events | wall s | CPU s | peak MiB "
            "| wall s per million | CPU s per million | MiB per million |"
        ),
        "|--:|--:|--:|--:|--:|--:|--:|",
        row(SMALLEST, base, None),
    ]
    lines += [row(size, figures, base) for size, figures in measured.items()]
    return "\n".join(lines)


def row(events: int, figures: Measurement, base: Measurement | None) -> str:
    """A size's figures, and what lies above the base for each million events."""
    cells = [
        f"{events / MILLION:g}",
        f"{figures.wall_s:.2f}",
        f"{figures.cpu_s:.2f}",
        f"{figures.peak_bytes / MIB:.0f}",
    ]
    if base is None:
        cells += ["", "", ""]
    else:
        millions = events / MILLION
        cells += [
            f"{(figures.wall_s - base.wall_s) / millions:.3f}",
            f"{(figures.cpu_s - base.cpu_s) / millions:.3f}",
            f"{(figures.peak_bytes - base.peak_bytes) / MIB / millions:.0f}",
        ]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
