"""Generate programs from declared laws, record them, and score what is said of them.

    python benchmarks/causes.py [--count 40] [--seed 1] [--laws first]
        [--only TEXT] [--folder DIR] [--seconds 720]

A law (`causes/first_laws.toml`) is a cause, how it is planted, and what must be said of
it. A draw plants none, one or two causes into a healthy program of a framework
(`causes/frameworks.toml`), with steps of 2 ms to 3 s. The truth is what the program's
own clock says; it is in the file `truth` next to each recording. `--folder` keeps the
recordings of each seed: what is there already is not recorded again. The table and, for
people, `said.json` go there too. The frameworks are those of `make frameworks`.
"""

import argparse
import dataclasses
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from causes_drawn import (
    DECLARED,
    LAWS,
    Program,
    draw_programs,
    read_frameworks,
    read_laws,
    write_program,
)
from causes_scored import Scored, count_scores, score_program
from causes_truth import read_truth
from judged_recordings import said_of
from pages import machine, markdown_table
from recorded_programs import HERE, record_programs, request
from stepscope.capture.base.options import MAX_EVENTS, MIN_WINDOW_S
from stepscope.errors import StepscopeError

#: A program that lasts longer is killed: seconds, its preparation included.
LIMIT_S = 60.0
HEAD = (
    *("program", "step, ms", "true", "headline", "owner", "%", "functions", "verdict"),
    *("advice", "verdict"),
)
SILENT = "–"
_PATHS = os.pathsep.join([str(HERE.parent / "src"), str(DECLARED)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw, record, judge, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--laws", choices=LAWS, default="first")
    parser.add_argument("--only", default="", help="text in the programs' names")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seconds", type=float, default=720)
    options = parser.parse_args(arguments)
    laws = read_laws(LAWS[options.laws])
    programs = draw_programs(
        list(laws.values()), options.count, options.seed, options.only
    )
    drawn = f"{options.laws}-{options.seed}"
    with tempfile.TemporaryDirectory() as made:
        folder = (options.folder or Path(made)) / drawn
        took_s = record_missing(programs, folder, options.seconds)
        scored = [one for one in (score(it, folder) for it in programs) if one]
        table = "\n".join(table_lines(scored, len(programs), took_s))
        write_results(folder, table, scored)
    sys.stdout.write(f"{table}\n")
    return 0


def record_missing(programs: Sequence[Program], folder: Path, seconds: float) -> float:
    """Record programs without a recording; return how many seconds that took."""
    begun = time.monotonic()
    by_environment: dict[str, list[dict[str, Any]]] = {}
    for program in programs:
        if not is_recorded(program, folder / program.name):
            environment = read_frameworks()[program.framework]["environment"]
            wanted = by_environment.setdefault(environment, [])
            wanted.append(program_request(program, folder / program.name))
    for environment, wanted in by_environment.items():
        left = max(0.0, seconds - (time.monotonic() - begun))
        written = folder / f"{environment}.json"
        surroundings = {"PYTHONPATH": _PATHS}
        record_programs(environment, wanted, written, left, surroundings)
    return time.monotonic() - begun


def is_recorded(program: Program, folder: Path) -> bool:
    """Whether a folder holds a recording of a program, with the law as it is now."""
    file = folder / "program.py"
    is_same = file.exists() and file.read_text() == write_program(program)
    return is_same and (folder / "truth").exists()


def program_request(program: Program, folder: Path) -> dict[str, Any]:
    """Write a program, and return how it is to be recorded."""
    # What is left of an older recording would be judged with the new one.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    file = folder / "program.py"
    file.write_text(write_program(program))
    return request(
        file,
        folder,
        environment={
            "PROGRAM_TRUTH": str(folder / "truth"),
            "PROGRAM_NOTES": str(folder / "notes"),
        },
        plan={
            "skip_steps": program.skip,
            "steps": program.recorded,
            "least_s": MIN_WINDOW_S,
            "max_events": MAX_EVENTS,
        },
        limit_s=LIMIT_S,
    )


def score(program: Program, folder: Path) -> Scored | None:
    """Judge and score a recording; None, and a line, if there is none."""
    truth = read_truth(folder / program.name)
    if truth is None:
        sys.stderr.write(f"not recorded: {program.name}\n")
        return None
    try:
        said = said_of(folder / program.name / "log")
    except StepscopeError as error:
        sys.stderr.write(f"not read: {program.name}: {error}\n")
        return None
    return score_program(program, truth, said)


def table_lines(scored: Sequence[Scored], drawn: int, took_s: float) -> list[str]:
    """Write the scores and a row for each program."""
    weak = sum(one.is_weak for one in scored)
    recorded = f"{len(scored)} of {drawn} drawn programs were recorded ({took_s:.0f} s)"
    return [
        machine(),
        "",
        f"{recorded}; {weak} had too weak a cause to be counted.",
        "",
        *markdown_table(("score", "value", "counts"), count_scores(scored)),
        "",
        *markdown_table(HEAD, map(_row, scored)),
    ]


def write_results(folder: Path, table: str, scored: Sequence[Scored]) -> None:
    """Write the table, and what was said of each program, for people."""
    told = {
        one.program.name: {
            "true": {it.law.name: round(it.share, 3) for it in one.causes},
            "truth": dataclasses.asdict(one.truth),
            "sentence": one.said.text,
            "headline": one.headline,
            "failing": one.said.failing,
            "advice": one.said.advice and one.said.advice.text,
            "advice_verdict": one.advice,
        }
        for one in scored
    }
    (folder / "table.md").write_text(f"{table}\n")
    (folder / "said.json").write_text(json.dumps(told, indent=1, ensure_ascii=False))


def _row(one: Scored) -> tuple[str, ...]:
    said, advice = one.said, one.said.advice
    true = ", ".join(f"{it.law.name} {100 * it.share:.0f} %" for it in one.causes)
    failing = ", ".join(said.failing) if one.is_healthy else said.finding
    return (
        one.program.name,
        f"{one.truth.step_ms:.1f}",
        true or "nothing",
        failing or SILENT,
        said.owner or SILENT,
        SILENT if said.percent is None else f"{said.percent:.0f}",
        ", ".join(said.functions[:3]) or SILENT,
        "weak" if one.is_weak else one.headline,
        advice.rule if advice else SILENT,
        SILENT if one.is_weak or one.advice is None else one.advice,
    )


if __name__ == "__main__":
    sys.exit(main())
