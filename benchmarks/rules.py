"""Measure what the rules and the replay of a step add to a report.

    python benchmarks/rules.py [--runs 5] [--write docs/benchmarks.md]

Two programs take turns, each a fresh process from its start to its exit. The first does
what `stepscope report` does: it imports the command, reads a GPU-shaped profile, asks
the tools, judges every rule, and writes the text. The second is the same report without
rules: it reads the file and writes all tables of the text, but no rule is imported, and
nothing is worked out for one. What the first takes beyond the second is what the rules
add: their modules, derivations that only they ask for, signals, verdicts, the replay of
the steps, and the text of the findings.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from measured_process import (
    Measurement,
    ProgramFailed,
    measure,
    read_whole,
    second_of_two,
)
from pages import machine, replace_section
from profiles import GPU_EVENTS, NoProfile, gpu_shaped

#: What the rules may add to a report.
TARGET_PERCENT = 15
REPORT = """
import sys
import stepscope
from stepscope.cli.light_start import light_start
with light_start():
    from stepscope.cli.output import show_progress
    from stepscope.reporting.compose import STAGES, compose_report
    from stepscope.reporting.outline import as_text
    from stepscope.reporting.outline.report import report_outline
with show_progress(STAGES) as shown:
    document = compose_report(stepscope.open(sys.argv[1]), shown)
print(len(as_text.render(report_outline(document), width=100)))
"""
WITHOUT = """
import sys
from types import ModuleType
import stepscope
from stepscope.cli.light_start import light_start
registry = ModuleType("stepscope.advice.registry")
registry.RULES = ()
sys.modules[registry.__name__] = registry
with light_start():
    from stepscope.advice.predicted_gains import Together
    from stepscope.cli.output import show_progress
    from stepscope.reporting import compose
    from stepscope.reporting.outline import as_text
    from stepscope.reporting.outline.report import report_outline
    from stepscope.reporting.document import Headline
nothing = compose.Judgement(
    headline=Headline(text="", owner=None, percent=None, finding=None),
    findings=(),
    together=Together(),
    silent_device=None,
    device_in_doubt=False,
)
without_rules = {
    "OF_RULES": (),
    "_judged": lambda profile, signals: nothing,
}
for name, instead in without_rules.items():
    # What is not there any more must not be left in by mistake.
    getattr(compose, name)
    setattr(compose, name, instead)
with show_progress(compose.STAGES) as shown:
    document = compose.compose(stepscope.open(sys.argv[1]), shown)
print(len(as_text.render(report_outline(document), width=100)))
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
            (
                second_of_two(partial(measured, REPORT, profile)),
                second_of_two(partial(measured, WITHOUT, profile)),
            )
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
    read_whole(profile)
    with tempfile.TemporaryDirectory() as folder:
        return measure(
            [sys.executable, "-c", program, str(profile)],
            output=Path(folder) / "output",
            environment=os.environ,
        )


def table(events: int, pairs: Sequence[tuple[Measurement, Measurement]]) -> str:
    """Medians of both sides, and of what rules add pair by pair."""
    runs = f"Medians of {len(pairs)} pairs of reports on {events:,} events"
    lines = [
        f"{runs}; target: at most {TARGET_PERCENT} %.",
        "",
        "| | report, s | without rules, s | rules add, % |",
        "|---|--:|--:|--:|",
    ]
    for what, name in (("wall time", "wall_s"), ("processor time", "cpu_s")):
        times = [tuple(getattr(side, name) for side in pair) for pair in pairs]
        whole, rest = (statistics.median(side) for side in zip(*times, strict=True))
        added = statistics.median(100 * (one / other - 1) for one, other in times)
        lines.append(f"| {what} | {whole:.2f} | {rest:.2f} | {added:.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
