"""Judge all draws of `causes.py` in a folder together, and write one table.

    python benchmarks/causes_table.py FOLDER [--write docs/findings.md]

FOLDER is the `--folder` of `causes.py`. Recordings are judged anew, by the rules as
they are now. Each miss gets a row: what was true, and what the report said.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from causes import SILENT, score
from causes_drawn import LAWS, draw_programs, read_laws
from causes_scored import VERDICTS, Scored
from pages import machine, markdown_table, replace_section

HEAD = (
    *("programs", "recorded", "healthy", "two causes", "first sentence right"),
    *("partly", "silent", "wrong", "first advice right", "wrong"),
    "healthy programs with a false alarm",
)
MISSES_HEAD = ("program", "true", "first sentence about", "verdict")


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the draws, and print or write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", type=Path, help="the page to write it into")
    options = parser.parse_args(arguments)
    by_set = {name: judge_draws(options.folder, name) for name in LAWS}
    text = "\n".join(table_lines(by_set))
    if options.write is None:
        sys.stdout.write(f"{text}\n")
    else:
        replace_section(options.write, "causes", text)
    return 0


def judge_draws(folder: Path, laws_set: str) -> list[Scored]:
    """Judge the programs of all draws from a set of laws that were recorded."""
    laws = list(read_laws(LAWS[laws_set]).values())
    judged = []
    for draw in sorted(folder.glob(f"{laws_set}-*")):
        count = sum(path.is_dir() for path in draw.iterdir())
        seed = int(draw.name.rpartition("-")[2])
        programs = draw_programs(laws, count, seed)
        judged += [one for one in (score(it, draw) for it in programs) if one]
    return judged


def table_lines(by_set: dict[str, list[Scored]]) -> list[str]:
    """Write a row for each set of laws and each framework, and the misses."""
    everything = [one for judged in by_set.values() for one in judged]
    frameworks = sorted({one.program.framework for one in everything})
    rows = [_row(f"{name} set of laws", judged) for name, judged in by_set.items()]
    for framework in frameworks:
        chosen = [one for one in everything if one.program.framework == framework]
        rows.append(_row(f"of {framework}", chosen))
    rows.append(_row("all", everything))
    misses = [one for one in everything if one.headline != "right" and not one.is_weak]
    return [
        machine().partition(" System load")[0],
        "",
        *markdown_table(HEAD, rows),
        "",
        *markdown_table(MISSES_HEAD, map(_miss, misses)),
    ]


def _row(name: str, judged: Sequence[Scored]) -> tuple[str, ...]:
    healthy = [one for one in judged if one.is_healthy]
    faulty = [one for one in judged if not one.is_healthy and not one.is_weak]
    headlines = Counter(one.headline for one in faulty)
    advice = Counter(one.advice for one in faulty)
    first, *others = VERDICTS
    return (
        name,
        str(len(judged)),
        str(len(healthy)),
        str(sum(len(one.program.planted) > 1 for one in judged)),
        _share(faulty, lambda one: one.headline == first),
        *(str(headlines[verdict]) for verdict in others),
        _share(faulty, lambda one: one.advice == "right"),
        str(advice["wrong"]),
        _share(healthy, lambda one: one.is_false_alarm),
    )


def _share(judged: Sequence[Scored], is_counted: Callable[[Scored], bool]) -> str:
    count = sum(map(is_counted, judged))
    return f"{100 * count / len(judged):.1f} % ({count})" if judged else SILENT


def _miss(one: Scored) -> tuple[str, ...]:
    true = ", ".join(f"{it.law.name} {100 * it.share:.0f} %" for it in one.causes)
    functions = ", ".join(f"`{name}`" for name in one.said.functions[:2])
    about = one.said.finding or one.said.owner or "nothing"
    said = ", ".join(one.said.failing) if one.is_healthy else f"{about}: {functions}"
    name = one.program.name.partition("-")[2]
    return name, true or "nothing", said, one.headline


if __name__ == "__main__":
    sys.exit(main())
