"""Measure the report of a small profile against the imports that it cannot do without.

    python benchmarks/small.py [--runs 15] [--write docs/benchmarks.md]

A report on some thousand events is mostly start. The measure of a start is a Python
that imports numpy and polars and ends, in the same run and in turn: what a report takes
beyond that is ours. Processor time counts, because nobody waits for so short a time.
"""

import argparse
import importlib.util
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from measured_process import ProgramFailed, measure
from pages import machine, replace_section

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"
#: Profile of the repository → its number of events.
PROFILES = {
    "gpu/torch_healthy": 1_478,
    "torch_train": 3_815,
    "jax_cpu/steps": 6_328,
    "torch_cpu/schedule_dataloader": 4_638,
}
IMPORTS = (sys.executable, "-c", "import numpy, polars; print(polars.__version__)")
#: What a report may take, in units of the imports.
TARGET = 1.6


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of the profiles, and put it into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--write", type=Path, metavar="PAGE")
    options = parser.parse_args(arguments)
    if importlib.util.find_spec("stepscope") is None:
        print("small: stepscope is not installed", file=sys.stderr)
        return 1
    begun = machine()
    try:
        rows = [row(name, runs=options.runs) for name in PROFILES]
    except ProgramFailed as failure:
        print(f"small: {failure}", file=sys.stderr)
        return 1
    target = f"target: at most {TARGET} times the imports"
    text = f"{begun}\n\nMedians of {options.runs} runs; {target}."
    text += "\n\n" + "\n".join([*head(), *rows])
    print(text)
    if options.write:
        replace_section(options.write, "small", text)
    return 0


def head() -> list[str]:
    """The first lines of the table."""
    return [
        "| profile | events | imports, CPU ms | report, CPU ms | ratio |",
        "|---|--:|--:|--:|--:|",
    ]


def row(name: str, *, runs: int) -> str:
    """Measure both sides in turn."""
    report = (sys.executable, "-m", "stepscope", "report", str(DATA / name))
    for command in (IMPORTS, report):
        cpu_s(command)
    pairs = [(cpu_s(IMPORTS), cpu_s(report)) for _ in range(runs)]
    imports_s, report_s = (statistics.median(side) for side in zip(*pairs, strict=True))
    return (
        f"| `{name}` | {PROFILES[name]:,} | {1e3 * imports_s:.0f} "
        f"| {1e3 * report_s:.0f} | {report_s / imports_s:.2f} |"
    )


def cpu_s(command: Sequence[str]) -> float:
    """User and system time of a program, whose modules are compiled once and kept."""
    environment = {
        name: text
        for name, text in os.environ.items()
        if name != "PYTHONDONTWRITEBYTECODE"
    }
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output"
        return measure(command, output=output, environment=environment).cpu_s


if __name__ == "__main__":
    sys.exit(main())
