"""Measure what the rules and the replay of a step add to a report.

    python benchmarks/rules.py [--runs 5] [--write docs/benchmarks.md]

Two programs take turns, each a fresh process from its start to its exit: one reports on
a GPU-shaped profile, the other only asks the report's tools. What the first takes
beyond the second is what the rules add, with all that is worked out for them alone.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from measured_process import Measurement, ProgramFailed, measure, warm_page_cache
from pages import machine, replace_section
from profiles import GPU_EVENTS, NoProfile, gpu_shaped

#: What the rules may add to a report.
TARGET_PERCENT = 15
REPORT = """
import sys
import stepscope
from stepscope.cli.light_start import light_start
with light_start():
    from stepscope.cli.progress import progress
    from stepscope.report import to_text
    from stepscope.report.compose import STAGES, compose
with progress(STAGES) as shown:
    document = compose(stepscope.open(sys.argv[1]), shown)
print(len(to_text.render(document, width=100)))
"""
TOOLS = """
import sys
import stepscope
from stepscope.cli.light_start import light_start
with light_start():
    from stepscope.analysis.tools import answers
    from stepscope.report import compose
profile = stepscope.open(sys.argv[1])
found = answers(profile, compose.REPORTED)
print(len(found), len(compose.doubts(profile)))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table, and put it into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--events", type=int, default=GPU_EVENTS)
    parser.add_argument("--write", type=Path, metavar="PAGE")
    options = parser.parse_args(arguments)
    begun = machine()
    try:
        profile = gpu_shaped(options.events)
        pairs = [
            (measured(REPORT, profile), measured(TOOLS, profile))
            for _ in range(options.runs)
        ]
    except (NoProfile, ProgramFailed) as reason:
        print(f"rules: {reason}", file=sys.stderr)
        return 1
    text = f"{begun}\n\n{table(options.events, pairs)}"
    print(text)
    if options.write:
        replace_section(options.write, "rules", text)
    return 0


def measured(program: str, profile: Path) -> Measurement:
    """Run one of the programs in a process of its own."""
    warm_page_cache(profile)
    with tempfile.TemporaryDirectory() as folder:
        return measure(
            [sys.executable, "-c", program, str(profile)],
            output=Path(folder) / "output",
            environment=os.environ,
        )


def table(events: int, pairs: Sequence[tuple[Measurement, Measurement]]) -> str:
    """Medians of both sides, and of what rules add pair by pair."""
    runs = f"{events:,} events, medians of {len(pairs)} pairs"
    lines = [
        f"{runs}; target: at most {TARGET_PERCENT} %.",
        "",
        "| | report, s | its tools alone, s | rules add, % |",
        "|---|--:|--:|--:|",
    ]
    for what, name in (("wall time", "wall_s"), ("processor time", "cpu_s")):
        times = [tuple(getattr(side, name) for side in pair) for pair in pairs]
        whole, tools = (statistics.median(side) for side in zip(*times, strict=True))
        added = statistics.median(100 * (one / other - 1) for one, other in times)
        lines.append(f"| {what} | {whole:.2f} | {tools:.2f} | {added:.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
