"""Score other profilers on the programs with planted causes.

    python benchmarks/causes_peers.py FOLDER... [--tool NAME] [--most 20]
        [--said DIR] [--seconds 1800]

Each FOLDER is one that `causes.py --folder` made, for example `second-4`: its
programs are drawn again, and are run under each tool of `causes/peers.toml` that knows
their framework; XProf reads the recordings. What a tool says is kept under `--said`:
what is there already is not asked again. `--most` is the number of programs with causes
that each tool is asked about, the first ones of all folders in turn.

The criterion. A tool says something first, second and so on: sentences, or the
functions with the most time (`peers_said.py`). Something names a cause if it is one of
the law's functions, those that the report of stepscope may name, or one that these
alone call (`called` in `causes/peers.toml`, which is about other tools). A sentence of
a tool that knows no functions names it too if it is about the place where the cause is
called (`slots` there). This is lenient: stepscope must name the function. A sentence
that leaves room for a cause, together with much else, hints at it (`hints`). As for
stepscope, the largest cause must be named, or one that is 0.8 times as large, by the
clock of the program while stepscope recorded it. For stepscope, "among the first three"
means that its sentence is right, or one of the first three functions that it is about
is one of the cause's. A healthy program is blamed if a sentence says that something is
wrong; tools that make no statements blame nothing.

Two tools say nothing of a program without a GPU and are not asked: HTA 0.5.0, whose
analyses fail or are empty without kernels, and AMD's TraceLens, which ends with "No GPU
events found in the trace".
"""

import argparse
import json
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from causes import is_recorded, score
from causes_drawn import (
    DECLARED,
    LAWS,
    Law,
    Program,
    draw_programs,
    read_laws,
)
from causes_scored import NEAR_TIE, Scored, largest_share
from pages import machine
from peers_said import SaysNothing, hear

#: Number of programs in each folder.
_DRAWN = 60
#: So many of the first things that are said count.
_FIRST = 3
HEAD = (
    *("tool", "programs", "cause named first", "among the first three"),
    *("says nothing", "healthy programs blamed"),
)
STEPSCOPE = "stepscope, the same"


@dataclass(frozen=True)
class Statement:
    """What a text of a tool is about: the keys of `causes/peers.toml`."""

    text: str
    blames: bool
    slots: frozenset[str] = frozenset()
    hints: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Tool:
    """A profiler, where it runs by framework, and what its statements are about.

    The keys are those of `causes/peers.toml`, which explains them.
    """

    name: str
    title: str
    states: bool
    environment: Mapping[str, str]
    left_out: Sequence[str] = ()
    statements: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Case:
    """A recorded program, and how stepscope's report of it was scored."""

    program: Program
    folder: Path
    scored: Scored

    @property
    def name(self) -> str:
        """Its name, with that of its folder."""
        return f"{self.folder.parent.name}-{self.program.name}"


@dataclass(frozen=True)
class Score:
    """How right a tool is about programs.

    Attributes:
        programs: Number of programs with causes.
        first: Number of those whose cause was named first.
        among: Number of those whose cause was among the first three things said.
        hinted: Number of those whose cause was not named, and hinted at first.
        silent: Number of those of which nothing was said.
        healthy: Number of healthy programs; None where no tool could blame them.
        blamed: Number of those that were blamed.
    """

    programs: int
    first: int
    among: int
    hinted: int
    silent: int
    healthy: int | None = None
    blamed: int = 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask the tools, judge what they say, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--tool", choices=sorted(read_tools()), action="append")
    parser.add_argument("--most", type=int, default=20)
    parser.add_argument("--said", type=Path)
    parser.add_argument("--seconds", type=float, default=1800)
    options = parser.parse_args(arguments)
    ends = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as made:
        cases = read_cases(options.folders)
        rows, hints = [], []
        for name in options.tool or read_tools():
            tool = read_tools()[name]
            chosen = choose_cases(cases, tool, options.most)
            said = ask(tool, chosen, (options.said or Path(made)) / name, ends)
            answered = [case for case in chosen if case.name in said]
            found = score_tool(tool, answered, said)
            rows += [
                _row(tool.title, found),
                _row(STEPSCOPE, score_stepscope(answered, states=tool.states)),
            ]
            hints += [f"{tool.title}: {found.hinted}"] if found.hinted else []
    lines = [machine(), "", *_table(rows)]
    if hints:
        lines += ["", f"Hinted at first, and not named: {', '.join(hints)}."]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


@cache
def read_tools() -> dict[str, Tool]:
    """Read the tools by name."""
    return {
        name: _tool(name, table)
        for name, table in _read_declared().items()
        if name != "called"
    }


@cache
def _read_declared() -> dict[str, Any]:
    return tomllib.loads((DECLARED / "peers.toml").read_text())


def names_of(law: Law) -> frozenset[str]:
    """Return the functions that are a law's cause, or that are called by it alone."""
    called: Mapping[str, Sequence[str]] = _read_declared()["called"]
    return law.functions | frozenset(called.get(law.name, ()))


def _tool(name: str, table: Mapping[str, Any]) -> Tool:
    statements = tuple(
        Statement(
            one["text"],
            one["blames"],
            frozenset(one.get("slots", ())),
            frozenset(one.get("hints", ())),
        )
        for one in table.get("statements", ())
    )
    return Tool(**{**table, "name": name, "statements": statements})


def read_cases(folders: Iterable[Path]) -> list[Case]:
    """Draw the programs of folders again, and score stepscope's reports of them.

    Programs of which there is no recording, or whose causes were too weak, are left
    out. Programs of the folders take turns.
    """
    by_folder = [_read_folder(folder) for folder in folders]
    return [case for case in chain(*zip_longest(*by_folder)) if case is not None]


def _read_folder(folder: Path) -> list[Case]:
    laws, _, seed = folder.name.rpartition("-")
    drawn = draw_programs(list(read_laws(LAWS[laws]).values()), _DRAWN, int(seed))
    cases = []
    for program in drawn:
        place = folder / program.name
        scored = score(program, folder) if is_recorded(program, place) else None
        if scored is not None and not scored.is_weak:
            cases.append(Case(program, place.resolve(), scored))
    return cases


def choose_cases(cases: Sequence[Case], tool: Tool, most: int) -> list[Case]:
    """Return the first programs with causes, and, of a tool that blames, healthy ones.

    Args:
        cases: All programs.
        tool: The tool.
        most: How many programs with causes.
    """
    known = [one for one in cases if one.program.framework in tool.environment]
    faulty = [one for one in known if not one.scored.is_healthy]
    healthy = [one for one in known if one.scored.is_healthy and tool.states]
    return [*faulty[:most], *healthy]


def ask(
    tool: Tool, cases: Sequence[Case], folder: Path, ends: float
) -> dict[str, list[str]]:
    """Return by program what a tool says; nothing, and a line, where it fails.

    Args:
        tool: The tool.
        cases: The programs.
        folder: Keeps what was said.
        ends: When to ask no further, by the monotonic clock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    said = {}
    for case in cases:
        kept = folder / f"{case.name}.json"
        if not kept.exists():
            if time.monotonic() > ends:
                continue
            kept.write_text(json.dumps(_ask_once(tool, case)))
        told: list[str] = json.loads(kept.read_text())
        said[case.name] = [text for text in told if text not in tool.left_out]
    return said


def _ask_once(tool: Tool, case: Case) -> list[str]:
    environment = tool.environment[case.program.framework]
    with tempfile.TemporaryDirectory() as folder:
        try:
            return hear(tool.name, environment, case.folder, Path(folder))
        except SaysNothing as reason:
            sys.stderr.write(f"{tool.title} says nothing: {case.name}: {reason}\n")
            return []


def score_tool(
    tool: Tool, cases: Iterable[Case], said: Mapping[str, Sequence[str]]
) -> Score:
    """Count how right a tool is."""
    told = [(case, said[case.name]) for case in cases]
    faulty = [(case, texts) for case, texts in told if not case.scored.is_healthy]
    healthy = [texts for case, texts in told if case.scored.is_healthy]
    named = [is_named(tool, case, texts[:1]) for case, texts in faulty]
    hinted = [is_hinted(tool, case, texts[:1]) for case, texts in faulty]
    return Score(
        programs=len(faulty),
        first=sum(named),
        among=sum(is_named(tool, case, texts[:_FIRST]) for case, texts in faulty),
        hinted=sum(hint and not name for hint, name in zip(hinted, named, strict=True)),
        silent=sum(not says_something(tool, texts) for _, texts in faulty),
        healthy=len(healthy) if tool.states else None,
        blamed=sum(is_blamed(tool, texts) for texts in healthy),
    )


def is_named(tool: Tool, case: Case, texts: Sequence[str]) -> bool:
    """Whether texts name a cause that may come first."""
    return any(
        text in names_of(law) or any(slot in one.slots for one in about(tool, text))
        for law, slot in leading_causes(case)
        for text in texts
    )


def is_hinted(tool: Tool, case: Case, texts: Sequence[str]) -> bool:
    """Whether texts leave room for a cause that may come first."""
    return any(
        slot in one.hints
        for _, slot in leading_causes(case)
        for text in texts
        for one in about(tool, text)
    )


def leading_causes(case: Case) -> list[tuple[Law, str]]:
    """Return the largest cause, and any that is nearly as large, with its slot."""
    slots = {one.law.name: one.slot for one in case.program.planted}
    least = NEAR_TIE * largest_share(case.scored.causes)
    return [
        (one.law, slots[one.law.name])
        for one in case.scored.causes
        if one.law.name in slots and one.share >= least
    ]


def about(tool: Tool, text: str) -> list[Statement]:
    """Return what a text of a tool is about."""
    return [one for one in tool.statements if one.text in text]


def says_something(tool: Tool, texts: Sequence[str]) -> bool:
    """Whether a tool says what may be wrong: any function, or a known sentence."""
    return is_blamed(tool, texts) if tool.states else bool(texts)


def is_blamed(tool: Tool, texts: Iterable[str]) -> bool:
    """Whether texts say that something is wrong."""
    return any(one.blames for text in texts for one in about(tool, text))


def score_stepscope(cases: Iterable[Case], *, states: bool) -> Score:
    """Count how right stepscope is about the same programs."""
    faulty = [case for case in cases if not case.scored.is_healthy]
    healthy = [case for case in cases if case.scored.is_healthy]
    verdicts = [case.scored.headline for case in faulty]
    return Score(
        programs=len(faulty),
        first=verdicts.count("right"),
        among=sum(
            _is_among_first(case.scored, leading_causes(case)) for case in faulty
        ),
        hinted=verdicts.count("partly"),
        silent=verdicts.count("silent"),
        healthy=len(healthy) if states else None,
        blamed=sum(case.scored.is_false_alarm for case in healthy),
    )


def _is_among_first(scored: Scored, causes: Iterable[tuple[Law, str]]) -> bool:
    """Whether a report of stepscope is about a cause in its first functions."""
    told = scored.said.functions[:_FIRST]
    named = any(not law.functions.isdisjoint(told) for law, _ in causes)
    return scored.headline == "right" or named


def _row(title: str, found: Score) -> tuple[str, ...]:
    blamed = "–" if found.healthy is None else f"{found.blamed} of {found.healthy}"
    return (
        title,
        f"{found.programs}",
        _share(found.first, found.programs),
        _share(found.among, found.programs),
        _share(found.silent, found.programs),
        blamed,
    )


def _share(count: int, total: int) -> str:
    return f"{count} ({100 * count / total:.0f} %)" if total else "–"


def _table(rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(cells)} |" for cells in (HEAD, *rows)]
    return [lines[0], "|---" * len(HEAD) + "|", *lines[1:]]


if __name__ == "__main__":
    sys.exit(main())
