"""Plant faults in real programs, and see what the report says of them.

    python benchmarks/experiments.py [--folder DIR] [--seconds 1800] [--write PAGE]

Each program of `tests/frameworks/programs` runs with each fault in two sizes, and
without any. The truth is what was planted and the program's own clock. `--folder` keeps
the recordings: what is there already is not recorded again. The frameworks are those of
`make frameworks`.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments_recorded import (
    CONDITIONS,
    FRAMEWORKS,
    PLANTED,
    SKIPPED,
    STEPS,
    TIMED,
    Run,
    record,
    runs,
    share_recorded,
)
from experiments_scored import (
    Gain,
    Outcome,
    gained,
    inside,
    median_width,
    outcome,
    score,
)
from judged_recordings import Said, said_of
from overhead import interpreter
from pages import machine, markdown_table, replace_section
from stepscope.advice.catalogue import rule_item
from stepscope.errors import StepscopeError

#: Framework → the packages whose versions are told.
PACKAGES = {
    "tensorflow": ("tensorflow-cpu", "keras"),
    "jax": ("jax",),
    "torch": ("torch",),
    "plain": ("numpy",),
}
_VERSIONS = """
import sys
from importlib.metadata import version
print(", ".join(f"{it} {version(it)}" for it in sys.argv[1:]))
"""
FAULTS_HEAD = (
    *(
        "framework",
        "planted",
        "batch",
        "headline",
        "owner",
        "function named",
        "verdict",
    ),
    *("gain, ms", "promised, ms", "position", "high ÷ low"),
)
TWINS_HEAD = (
    "framework",
    "twin",
    "batch",
    "step, ms",
    "findings at a warning or above",
)
SILENT = "–"
#: Fewer timed steps, or steps in a turn of a twin, are no measurement.
FEWEST = 5


@dataclass(frozen=True)
class Judged:
    """A run, its steps by its own clock, and what the report says of it.

    Attributes:
        run: The run.
        steps_ms: Its steps.
        twin_ms: Those of its twin before it, and after it.
        said: What the report says.
    """

    run: Run
    steps_ms: Sequence[float]
    twin_ms: tuple[Sequence[float], Sequence[float]]
    said: Said


@dataclass(frozen=True)
class Experiment:
    """A planted fault, and whether it was found."""

    judged: Judged
    outcome: Outcome
    measured: tuple[float, float] | None
    gain: Gain | None


def main(arguments: Sequence[str] | None = None) -> int:
    """Record, judge, and print the tables; put them into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--write", type=Path, metavar="PAGE")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        record(folder, options.seconds)
        judged = [it for it in (_judged(run, folder) for run in runs()) if it]
        took = (folder / CONDITIONS).read_text()
    experiments = compared(judged)
    table = "\n".join([*_conditions(took), "", *tables(experiments, judged)])
    sys.stdout.write(f"{table}\n")
    fired = {rule for one in judged for rule in one.said.fired}
    for rule in sorted(it for it in fired if not rule_item(it).is_calibrated):
        sys.stdout.write(f"{rule} failed: name it in its text as `seen_on`\n")
    if options.write is not None:
        replace_section(options.write, "experiments", table)
    return 0


def _judged(run: Run, folder: Path) -> Judged | None:
    """Judge a run; None, and a line, where there is nothing to judge."""
    steps_ms = run.steps_ms(folder)
    if not steps_ms:
        sys.stderr.write(f"not recorded: {run}\n")
        return None
    try:
        said = said_of(run.folder(folder) / "log")
    except StepscopeError as error:
        sys.stderr.write(f"not read: {run}: {error}\n")
        return None
    return Judged(run, steps_ms, run.twin_ms(folder), said)


def compared(judged: Sequence[Judged]) -> list[Experiment]:
    """Compare every planted fault with the twin that ran before and after it."""
    found = []
    for one in judged:
        run = one.run
        if run.is_twin:
            continue
        fault, promised = PLANTED[run.framework, run.fault], one.said.saving_ms
        measured = gain = None
        if min(map(len, (one.steps_ms, *one.twin_ms))) >= FEWEST:
            hit, often = fault.hit(TIMED), share_recorded(fault)
            measured = gained(one.steps_ms, *one.twin_ms, hit, often)
        if measured is not None and promised is not None:
            gain = Gain(
                measured[0],
                *promised,
                doubt_ms=measured[1],
                open_above=one.said.open_above,
            )
        said = outcome(fault.name, one.said)
        found.append(Experiment(one, said, measured, gain))
    return found


def tables(found: Sequence[Experiment], judged: Sequence[Judged]) -> list[str]:
    """Write the scores, the table of faults, and that of twins."""
    twins = [one for one in judged if one.run.is_twin]
    scored = score([one.outcome for one in found], [one.said for one in twins])
    named = [one.gain for one in found if one.gain and one.outcome == "named"]
    gains = [one for one in named if not one.open_above]
    within = sum(one.side == "inside" for one in gains)
    possible = sum(one.may_be_inside for one in gains)
    width = median_width(gains)
    blamed = f"{scored.wrong} wrong, {scored.false_alarms} twins with false alarms"
    missed = f"{scored.wrong} wrong, {scored.silent} silent"
    scores = (
        ("precision", _percent(scored.precision), f"{scored.named} named, {blamed}"),
        ("recall", _percent(scored.recall), f"{scored.named} named, {missed}"),
        (
            "gains inside the promised range",
            _percent(inside(gains)),
            f"{within} of {len(gains)} named faults whose promised range has two ends",
        ),
        (
            "gains inside the range, or outside it by at most the doubt",
            _percent(possible / len(gains) if gains else None),
            f"{possible} of {len(gains)}",
        ),
        (
            "high end ÷ low end, median",
            SILENT if width is None else f"{width:.2f}",
            "of the same faults",
        ),
    )
    return [
        f"{len(judged)} recorded runs: {len(found)} with a fault, {len(twins)} twins.",
        "",
        *markdown_table(("score", "value", "counts"), scores),
        "",
        *markdown_table(FAULTS_HEAD, map(_fault_row, found)),
        "",
        *markdown_table(TWINS_HEAD, map(_twin_row, twins)),
    ]


def _fault_row(one: Experiment) -> tuple[str, ...]:
    run, said, gain = one.judged.run, one.judged.said, one.gain
    width = None if gain is None else gain.width
    return (
        FRAMEWORKS[run.framework],
        f"`{run.fault}`: {PLANTED[run.framework, run.fault].what}",
        run.size,
        _code(said.finding),
        _code(said.owner),
        _code(said.function),
        one.outcome,
        SILENT if one.measured is None else "{:.1f} ± {:.1f}".format(*one.measured),
        SILENT if gain is None else _promised(gain),
        SILENT if gain is None else _lies(gain),
        SILENT if width is None else f"{width:.2f}",
    )


def _promised(gain: Gain) -> str:
    more = " or more" if gain.open_above else ""
    return f"{gain.low_ms:.1f} to {gain.high_ms:.1f}{more}"


def _lies(gain: Gain) -> str:
    chance = gain.side != "inside" and gain.may_be_inside
    return f"{gain.side}, by chance" if chance else gain.side


def _twin_row(one: Judged) -> tuple[str, ...]:
    run = one.run
    failing = ", ".join(map(_code, one.said.failing))
    return (
        FRAMEWORKS[run.framework],
        f"`{run.fault}`",
        run.size,
        f"{statistics.mean(one.steps_ms):.1f}",
        failing or "none",
    )


def _code(name: str | None) -> str:
    return SILENT if name is None else f"`{name}`"


def _percent(share: float | None) -> str:
    return SILENT if share is None else f"{100 * share:.0f} %"


def _conditions(took: str) -> list[str]:
    """Say what ran, for how many steps, and how busy the machine was."""
    told = []
    for framework, packages in PACKAGES.items():
        python = sys.executable if framework == "plain" else interpreter(framework)
        asked = [str(python), "-c", _VERSIONS, *packages]
        done = subprocess.run(asked, capture_output=True, text=True, check=True)
        told.append(done.stdout.strip())
    # What the load is while recordings are judged says nothing of them.
    where = machine().partition(" System load")[0]
    return [
        f"{where} {', '.join(told)}; one thread each.",
        f"Steps per recording: {STEPS}, after {SKIPPED}. One program ran at a time.",
        f"Recording took {took}.",
        "Command: `make experiments`.",
    ]


if __name__ == "__main__":
    sys.exit(main())
