"""Measures stepscope against XProf 2.24.2: same file, same machine, in turn.

Every measurement is a fresh process that writes the tool's JSON; from its start to its
exit, imports included. Each gets a new run directory with a link to the profile, so
that neither finds what an earlier one left there (XProf writes caches beside the
profile). The file is read once before each, so nobody waits for the disk. The order
alternates. It takes about a quarter of an hour on two cores, nearly all of it XProf's.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from measured_process import (
    Measurement,
    ProgramFailed,
    measure,
    median,
    one_after_another,
    warm_page_cache,
)
from profiles import CASES, Case, NoProfile

ROOT = Path(__file__).resolve().parent.parent
FRAMEWORK_VENV = ROOT / "build_tools" / "framework_venv.py"

TOOLS = ("overview_page", "framework_op_stats", "kernel_stats")
ALL_TOOLS = "all three"
# Rows of the tables. stepscope's three tools run in one process in both.
IN_TURN = "three (XProf: one after another)"
IN_ONE = "three in one process"
LEAST_RUNS = 5
MIB = 1 << 20
# The targets of the project, shown beside what was reached.
WANTED_SPEED_UP = 40
WANTED_MEMORY_FRACTION = 0.25

XPROF_PROGRAM = """
import sys
from xprof.convert.raw_to_tool_data import xspace_to_tool_data
for tool in sys.argv[2:]:
    data, _ = xspace_to_tool_data([sys.argv[1]], tool, {})
    sys.stdout.buffer.write(data)
"""
# What `stepscope show TOOL PATH --format json` does, for several tools in turn.
STEPSCOPE_PROGRAM = """
import sys
import stepscope
from stepscope.cli.compose import describe, doubts
from stepscope.report import to_json
profile = stepscope.open(sys.argv[1])
for tool in sys.argv[2:]:
    answer = to_json.envelope(
        tool,
        profile.tool(tool),
        profile=describe(profile),
        quality=doubts(profile),
    )
    sys.stdout.buffer.write(to_json.render_envelope(answer))
"""


class NoPeer(Exception):
    """There is nothing to compare with; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One side: the interpreter that has it, and the program that renders tools."""

    name: str
    package: str
    python: Path
    program: str


@dataclass
class Samples:
    """All measurements of one contender by what was asked of it."""

    by_request: dict[str, list[Measurement]] = field(default_factory=dict)

    def add(self, request: str, measurement: Measurement) -> None:
        """Keep one more measurement."""
        self.by_request.setdefault(request, []).append(measurement)

    def median_of(self, request: str) -> Measurement:
        """The median over the runs of one request."""
        return median(self.by_request[request])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the chosen cases; print their tables, and put them into the page."""
    options = parse(arguments)
    try:
        contenders = [stepscope(), xprof()]
        if options.only:
            contenders = [c for c in contenders if c.name == options.only]
    except NoPeer as failure:
        print(f"peer: {failure}", file=sys.stderr)
        return 1
    parts = [machine(contenders)]
    for case in CASES:
        if options.case and case.name not in options.case:
            continue
        try:
            samples = run_case(case, contenders, runs=options.runs)
        except NoProfile as reason:
            parts.append(f"**{case.name}**: skipped, {reason}")
        except ProgramFailed as failure:
            print(f"peer: {case.name}: {failure}", file=sys.stderr)
            return 1
        else:
            parts.append(table(case, samples))
    text = "\n\n".join(parts)
    print(text)
    if options.write:
        options.write.write_text(with_section(options.write.read_text(), text))
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=LEAST_RUNS, metavar="N")
    parser.add_argument(
        "--case", action="append", choices=[case.name for case in CASES]
    )
    parser.add_argument("--only", choices=["XProf", "stepscope"])
    parser.add_argument(
        "--write", type=Path, metavar="PAGE", help="replace the section of this page"
    )
    options = parser.parse_args(arguments)
    if options.write and (options.runs < LEAST_RUNS or options.only or options.case):
        parser.error(
            f"a page gets all cases, both sides, and {LEAST_RUNS} runs or more"
        )
    return options


def stepscope() -> Contender:
    """This checkout, in the interpreter that runs the benchmark."""
    return Contender(
        name="stepscope",
        package="stepscope",
        python=Path(sys.executable),
        program=STEPSCOPE_PROGRAM,
    )


def xprof() -> Contender:
    """The peer, in an environment of its own, which is made when it is not there.

    Raises:
        NoPeer: It could not be made; the reason was printed.
    """
    made = subprocess.run(
        [sys.executable, str(FRAMEWORK_VENV), "xprof"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        raise NoPeer("XProf could not be installed")
    return Contender(
        name="XProf",
        package="xprof",
        python=Path(made.stdout.strip()),
        program=XPROF_PROGRAM,
    )


def run_case(
    case: Case, contenders: Sequence[Contender], *, runs: int
) -> dict[str, Samples]:
    """Measure every tool alone and all in one process, the contenders taking turns."""
    profile = case.profile()
    samples = {contender.name: Samples() for contender in contenders}
    requests = [*((tool, (tool,)) for tool in TOOLS), (ALL_TOOLS, TOOLS)]
    for run in range(runs):
        # Who goes first changes, so that neither always follows the other.
        turn = contenders if run % 2 == 0 else contenders[::-1]
        for name, tools in requests:
            for contender in turn:
                say(f"{case.name} run {run + 1}: {contender.name} {name}")
                samples[contender.name].add(name, ask(contender, profile, tools))
    say("")
    return samples


def say(text: str) -> None:
    """Show what is being measured, on a line of its own that the next one replaces."""
    if sys.stderr.isatty():
        print(f"{text:<78}", end="\r", file=sys.stderr)


def ask(contender: Contender, profile: Path, tools: Sequence[str]) -> Measurement:
    """One fresh process of a contender over a run directory of its own."""
    with fresh_run(profile) as linked:
        warm_page_cache(profile)
        return measure(
            [str(contender.python), "-c", contender.program, str(linked), *tools],
            output=linked.with_name("answer.json"),
            environment={"PATH": os.environ["PATH"], "HOME": str(linked.parent)},
        )


@contextmanager
def fresh_run(profile: Path) -> Iterator[Path]:
    """A new log directory that holds nothing but a link to the profile."""
    with tempfile.TemporaryDirectory() as logdir:
        run = Path(logdir) / "plugins" / "profile" / "run"
        run.mkdir(parents=True)
        linked = run / "host.xplane.pb"
        linked.symlink_to(profile)
        yield linked


def machine(contenders: Sequence[Contender]) -> str:
    """One line on where and on what the figures were made, and how busy it was."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    command = " ".join(["python benchmarks/peer.py", *sys.argv[1:]])
    versions = ", ".join(
        f"{contender.name} {version_of(contender)}" for contender in contenders
    )
    return (
        f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"{versions}. Load before the start: {os.getloadavg()[0]:.2f}.\n"
        f"Command: `{command}`"
    )


def version_of(contender: Contender) -> str:
    """The version that is installed for its interpreter."""
    program = f"import importlib.metadata as m; print(m.version({contender.package!r}))"
    asked = subprocess.run(
        [str(contender.python), "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return asked.stdout.strip()


def table(case: Case, samples: dict[str, Samples]) -> str:
    """The case's figures as a Markdown table, and in one sentence what they say."""
    lines = [
        f"**{case.name}**: {case.text}",
        "",
        "| what | side | wall s | CPU s | peak MiB | wall ratio | CPU ratio | memory |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for what, sides in rows(samples).items():
        base = sides.get("XProf")
        for name, measured in sides.items():
            lines.append(row(what, name, measured, base if name != "XProf" else None))
    if len(samples) > 1:
        lines += ["", conclusion(rows(samples))]
    return "\n".join(lines)


def rows(samples: dict[str, Samples]) -> dict[str, dict[str, Measurement]]:
    """What is compared with what.

    XProf answers each page's request by itself, so its three tools are three fresh
    processes in turn. In one process it reuses what its first tool left on disk,
    which is faster: that row stands beside the other.
    """
    result = {
        tool: {name: side.median_of(tool) for name, side in samples.items()}
        for tool in TOOLS
    }
    in_one = {name: side.median_of(ALL_TOOLS) for name, side in samples.items()}
    result[IN_TURN] = dict(in_one)
    if "XProf" in samples:
        turns = [samples["XProf"].median_of(tool) for tool in TOOLS]
        result[IN_TURN]["XProf"] = one_after_another(turns)
    result[IN_ONE] = in_one
    return result


def conclusion(compared: dict[str, dict[str, Measurement]]) -> str:
    """How the three tools together stand to the targets."""
    ours = compared[IN_ONE]["stepscope"]
    in_turn, in_one = compared[IN_TURN]["XProf"], compared[IN_ONE]["XProf"]
    return (
        f"All three tools in one process: **{in_turn.wall_s / ours.wall_s:.1f} times** "
        f"as fast as XProf's three one after another (target: {WANTED_SPEED_UP}), "
        f"{in_one.wall_s / ours.wall_s:.1f} times as fast as its three in one process; "
        f"{ours.peak_bytes / in_turn.peak_bytes:.1%} of its peak memory "
        f"(target: {WANTED_MEMORY_FRACTION:.0%})."
    )


def row(what: str, name: str, measured: Measurement, base: Measurement | None) -> str:
    """One line of the table."""
    cells = [
        what,
        name,
        f"{measured.wall_s:.3f}",
        f"{measured.cpu_s:.3f}",
        f"{measured.peak_bytes / MIB:.0f}",
    ]
    if base is None:
        cells += ["", "", ""]
    else:
        cells += [
            f"{base.wall_s / measured.wall_s:.1f} x",
            f"{base.cpu_s / measured.cpu_s:.1f} x",
            f"1/{base.peak_bytes / measured.peak_bytes:.1f}",
        ]
    return "| " + " | ".join(cells) + " |"


BEGIN, END = "<!-- peer:begin -->", "<!-- peer:end -->"


def with_section(page: str, text: str) -> str:
    """The page with what stands between its two marks replaced."""
    before, found_begin, rest = page.partition(BEGIN)
    _, found_end, after = rest.partition(END)
    if not (found_begin and found_end):
        raise SystemExit(f"peer: the page lacks the marks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main())
