"""Measure stepscope against XProf 2.24.2: same file, same machine, in turn.

Every measurement is a fresh process that writes the tool's JSON, from its start to its
exit, imports included. Each process gets a new run directory with a link to the
profile, so that it finds nothing that an earlier one left (XProf writes caches beside
the profile). The file is read before, and of two processes in a row the second counts,
so that none waits for the disk or for the host of a virtual machine. The order
alternates. XProf takes nearly all of the benchmark's time.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from measured_process import (
    Measurement,
    ProgramFailed,
    measure,
    median,
    one_after_another,
    read_whole,
    second_of_two,
)
from pages import machine, replace_section
from profiles import CASES, Case, NoProfile

ROOT = Path(__file__).resolve().parent.parent
FRAMEWORK_VENV = ROOT / "build_tools" / "framework_venv.py"

PAGES = (
    "overview_page",
    "framework_op_stats",
    "kernel_stats",
    "input_pipeline_analyzer",
    "memory_profile",
    "trace_viewer",
)
# The whole timeline at the width of a wide screen, which is XProf's own default.
TRACE_PIXELS = 8000
LEAST_RUNS = 5
MIB = 1 << 20
# The target of the project for both groups, shown beside what was reached.
WANTED_MEMORY_FRACTION = 0.25

# The trace page asks for what a screen can show; the other pages take no options.
XPROF_PROGRAM = f"""
import sys
from xprof.convert.raw_to_tool_data import xspace_to_tool_data
TRACE = {{
    "trace_viewer_options": {{"resolution": {TRACE_PIXELS}, "full_dma": False}},
    "hosts": ["host"],
}}
for tool in sys.argv[2:]:
    name, options = (tool, {{}}) if tool != "trace_viewer" else (tool + "@", TRACE)
    data, _ = xspace_to_tool_data([sys.argv[1]], name, options)
    sys.stdout.buffer.write(data)
"""
# What `stepscope show TOOL PATH --format json` does, for several tools in turn; of the
# timeline also what the page draws, every track of it.
STEPSCOPE_PROGRAM = f"""
import sys
import stepscope
from stepscope.cli.light_start import light_start
with light_start():
    from stepscope.analysis.tools import tool_answers
    from stepscope.analysis.timeline.catalogue import track_catalogue
    from stepscope.analysis.timeline.tiles import MAX_TRACKS, TILE_BUCKETS, track_tiles
    from stepscope.reporting.envelope import describe_profile, recording_doubts
    from stepscope.derive.step_time.host_classes import event_categories
    from stepscope.derive.trace_rows.lanes import trace_lanes
    from stepscope.reporting import to_json
    from stepscope.reporting.to_trace_json import slice_frame
    from stepscope.serve import frames
profile = stepscope.open(sys.argv[1])
def draw(host):
    shown = track_catalogue(profile, host)
    level = max((shown.end_ps - shown.begin_ps) // {TRACE_PIXELS}, 1).bit_length()
    width = TILE_BUCKETS << level
    for first in range(0, len(shown.tracks), MAX_TRACKS):
        for index in range(shown.begin_ps // width, shown.end_ps // width + 1):
            tracks = range(len(shown.tracks))[first : first + MAX_TRACKS]
            found = track_tiles(profile, host, tracks=tracks, level=level, index=index)
            sys.stdout.buffer.write(frames.encode_frame(*slice_frame(found)))
drawn = (trace_lanes, event_categories) if "trace_viewer" in sys.argv else ()
for tool, result in tool_answers(profile, sys.argv[2:], also=drawn).items():
    answer = to_json.make_envelope(
        tool,
        result,
        profile=describe_profile(profile),
        quality=recording_doubts(profile),
    )
    sys.stdout.buffer.write(to_json.render_envelope(answer))
    if tool == "trace_viewer":
        for host in profile.hosts:
            draw(host)
"""


class NoPeer(Exception):
    """There is nothing to compare with; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Several of the peer's pages, and our tools that they are compared with.

    Attributes:
        name: Name of the group in the tables.
        pages: Pages of the peer, measured one after another, and all in one process.
        tools: Our tools, all in one process.
        wanted_speed_up: The target of the project.
        is_apart: Whether the peer's pages are not measured in one process.
    """

    name: str
    pages: tuple[str, ...]
    tools: tuple[str, ...]
    wanted_speed_up: int
    is_apart: bool = False

    def asked_of(self, contender: "Contender") -> tuple[str, ...]:
        """Return what one process of a contender answers."""
        return self.tools if contender.name == "stepscope" else self.pages


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
        """Return the median over the runs of one request."""
        return median(self.by_request[request])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the chosen cases; print their tables, and put them into the page."""
    options = parse(arguments)
    try:
        contenders = [stepscope(), xprof()]
        groups = the_groups(contenders[0])
        if options.group:
            chosen = [group for group in groups if group.name == options.group]
            groups = tuple(replace(group, is_apart=True) for group in chosen)
        if options.only:
            contenders = [c for c in contenders if c.name == options.only]
    except NoPeer as failure:
        print(f"peer: {failure}", file=sys.stderr)
        return 1
    parts = [machine(), versions(contenders)]
    for case in CASES:
        if options.case and case.name not in options.case:
            continue
        try:
            samples = run_case(case, contenders, groups, runs=options.runs)
        except NoProfile as reason:
            parts.append(f"**{case.name}**: skipped, {reason}")
        except ProgramFailed as failure:
            print(f"peer: {case.name}: {failure}", file=sys.stderr)
            return 1
        else:
            parts.append(table(case, samples, groups))
    text = "\n\n".join(parts)
    print(text)
    if options.write:
        replace_section(options.write, "peer", text)
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
        "--group",
        choices=["three", "all"],
        help="leave out the other group, and XProf's pages in one process",
    )
    parser.add_argument(
        "--write", type=Path, metavar="PAGE", help="replace the section of this page"
    )
    options = parser.parse_args(arguments)
    partial = options.only or options.case or options.group
    if options.write and (options.runs < LEAST_RUNS or partial):
        parser.error(
            f"a page gets all cases, both sides, and {LEAST_RUNS} runs or more"
        )
    return options


def stepscope() -> Contender:
    """Return this checkout, in the interpreter that runs the benchmark."""
    return Contender(
        name="stepscope",
        package="stepscope",
        python=Path(sys.executable),
        program=STEPSCOPE_PROGRAM,
    )


def xprof() -> Contender:
    """Return the peer, in an environment of its own, which is made where it is missing.

    Raises:
        NoPeer: The environment could not be made; the reason was printed.
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


def the_groups(ours: Contender) -> tuple[Group, ...]:
    """Return two groups: three pages against our three, all six against all of ours."""
    program = (
        "from stepscope.analysis.tools import TOOLS; print(*(t.name for t in TOOLS))"
    )
    tools = tuple(printed_by(ours, program).split())
    first = PAGES[:3]
    return (
        Group(name="three", pages=first, tools=first, wanted_speed_up=40),
        Group(name="all", pages=PAGES, tools=tools, wanted_speed_up=60),
    )


def run_case(
    case: Case,
    contenders: Sequence[Contender],
    groups: Sequence[Group],
    *,
    runs: int,
) -> dict[str, Samples]:
    """Measure every page alone and in one process, the contenders taking turns."""
    profile = case.profile()
    samples = {contender.name: Samples() for contender in contenders}
    for run in range(runs):
        # The order changes, so that neither always follows the other.
        turn = contenders if run % 2 == 0 else contenders[::-1]
        for contender in turn:
            requests = {page: (page,) for page in groups[-1].pages} | {
                group.name: group.asked_of(contender)
                for group in groups
                if contender.name == "stepscope" or not group.is_apart
            }
            for name, tools in requests.items():
                say(f"{case.name} run {run + 1}: {contender.name} {name}")
                found = second_of_two(partial(ask, contender, profile, tools))
                samples[contender.name].add(name, found)
    say("")
    return samples


def say(text: str) -> None:
    """Show what is being measured, on a line of its own that the next one replaces."""
    if sys.stderr.isatty():
        print(f"{text:<78}", end="\r", file=sys.stderr)


def ask(contender: Contender, profile: Path, tools: Sequence[str]) -> Measurement:
    """Measure one fresh process of a contender over a run directory of its own."""
    with fresh_run(profile) as linked:
        read_whole(profile)
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


def versions(contenders: Sequence[Contender]) -> str:
    """One line on what was measured."""
    return ", ".join(f"{side.name} {version_of(side)}" for side in contenders) + "."


def version_of(contender: Contender) -> str:
    """The version that is installed for its interpreter."""
    program = f"import importlib.metadata as m; print(m.version({contender.package!r}))"
    return printed_by(contender, program)


def printed_by(contender: Contender, program: str) -> str:
    """What a small program prints in the contender's interpreter."""
    asked = subprocess.run(
        [str(contender.python), "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return asked.stdout.strip()


def table(case: Case, samples: dict[str, Samples], groups: Sequence[Group]) -> str:
    """The case's figures as a Markdown table, and in sentences what they say."""
    lines = [
        f"**{case.name}**: {case.text}",
        "",
        "| what | side | wall s | CPU s | peak MiB | wall ratio | CPU ratio | memory |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    compared = rows(samples, groups)
    for what, sides in compared.items():
        base = sides.get("XProf")
        for name, measured in sides.items():
            lines.append(row(what, name, measured, base if name != "XProf" else None))
    if len(samples) > 1:
        for group in groups:
            lines += ["", conclusion(group, compared)]
    return "\n".join(lines)


def in_turn(group: Group) -> str:
    """The row in which each page of the peer is a fresh process."""
    pages = len(group.pages)
    return f"{group.name} (XProf: {pages} pages one after another)"


def in_one(group: Group) -> str:
    """The row in which the peer, too, has one process."""
    return f"{group.name} (XProf: {len(group.pages)} pages in one process)"


def rows(
    samples: dict[str, Samples], groups: Sequence[Group]
) -> dict[str, dict[str, Measurement]]:
    """Return the rows of the table: what is compared with what.

    XProf answers the request for each page by itself, so its pages are fresh processes
    in turn. In one process it reuses what its first page left on disk, which is faster:
    the table has both rows.
    """
    result = {
        page: {name: side.median_of(page) for name, side in samples.items()}
        for page in groups[-1].pages
    }
    for group in groups:
        together = {
            name: side.median_of(group.name)
            for name, side in samples.items()
            if group.name in side.by_request
        }
        result[in_turn(group)] = dict(together)
        if "XProf" in samples:
            turns = [samples["XProf"].median_of(page) for page in group.pages]
            result[in_turn(group)]["XProf"] = one_after_another(turns)
        if not group.is_apart:
            result[in_one(group)] = together
    return result


def conclusion(group: Group, compared: dict[str, dict[str, Measurement]]) -> str:
    """Compare a group with its targets, in a sentence."""
    turns, ours = (compared[in_turn(group)][name] for name in ("XProf", "stepscope"))
    together = ""
    if not group.is_apart:
        one = compared[in_one(group)]["XProf"].wall_s / ours.wall_s
        together = f", and {one:.1f} times as fast as these pages in one shared process"
    return (
        f"{len(group.tools)} stepscope tools in one process are "
        f"**{turns.wall_s / ours.wall_s:.1f} times** as fast as {len(group.pages)} "
        "XProf pages one after another, with a new process for each page "
        f"(target: {group.wanted_speed_up}){together}. "
        f"The tools use {ours.peak_bytes / turns.peak_bytes:.1%} of XProf's peak "
        f"memory (target: {WANTED_MEMORY_FRACTION:.0%})."
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


if __name__ == "__main__":
    sys.exit(main())
