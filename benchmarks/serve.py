"""Measure `stepscope serve` against XProf's own server: same run, in turn.

Each measurement starts a server over a log directory of its own (XProf stores its
results beside the profile) and sends the requests that its pages send in a browser:
until it answers at all, then the overview, a second page, and a hundred requests for
six addresses in turn. Memory is the resident memory of the process and its children.
The file is read once before each measurement, so that no server waits for the disk; the
order alternates. A server that stops answering is not measured again on a run of that
size, and the page says so.

Where Playwright and Chromium are installed, our page is also opened there.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import in_browser
from measured_process import read_whole
from pages import machine, replace_section
from peer import NoPeer, say, stepscope, versions, xprof
from profiles import GPU_EVENTS, NoProfile, gpu_shaped
from served import (
    Page,
    Served,
    ServerFailed,
    environment_of,
    fresh_logdir,
    serving,
)

#: Numbers of events in the runs, by default.
SIZES = (1_000_000, GPU_EVENTS)
RUNS = 3
REQUESTS = 100
#: Number of mixed requests after which our memory is measured again.
MANY_REQUESTS = 1000
MIB = 1 << 20
XPROF_DATA = "data/plugin/profile"
#: Pages that both have: asked in turn, between the two small ones.
MIXED = (
    "overview_page",
    "framework_op_stats",
    "kernel_stats",
    "input_pipeline_analyzer",
    "memory_profile",
)


@dataclass(frozen=True, kw_only=True)
class Side:
    """One server, and what its pages ask.

    Attributes:
        name: Name of the server in the tables.
        command: Returns the command for a log directory, a port and another free port.
        first: Requests of the browser until the overview is drawn.
        second: Requests of the browser until the table of kernels is drawn.
        mixed: Addresses that are requested in turn.
    """

    name: str
    command: Callable[[Path, int, int], Sequence[str]]
    first: Page
    second: Page
    mixed: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Visit:
    """The seconds and resident bytes of one server."""

    start_s: float
    first_s: float
    second_s: float
    mixed_s: float
    started_bytes: int
    first_bytes: int
    mixed_bytes: int


#: (Row of the table, field of a visit, digits, one of the row's unit).
ROWS = (
    ("from start to first answer, s", "start_s", 2, 1),
    ("first page, s", "first_s", 2, 1),
    ("second page, s", "second_s", 3, 1),
    ("mixed requests, s", "mixed_s", 2, 1),
    ("memory after the start, MiB", "started_bytes", 0, MIB),
    ("memory after the first page, MiB", "first_bytes", 0, MIB),
    ("memory after the mixed requests, MiB", "mixed_bytes", 0, MIB),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; print the tables, and put them into the page."""
    options = parse(arguments)
    try:
        contenders = [stepscope(), xprof()]
        sides = [ours(contenders[0].python), theirs(contenders[1].python)]
        if options.only:
            sides = [side for side in sides if side.name == options.only]
        told = [machine(), versions(contenders)]
        for events in options.events:
            told += section(sides, events, options)
    except (NoPeer, NoProfile, ServerFailed) as failure:
        print(f"serve: {failure}", file=sys.stderr)
        return 1
    text = "\n\n".join(told)
    print(text)
    if options.write:
        replace_section(options.write, "serve", text)
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=RUNS, metavar="N")
    parser.add_argument(
        "--events", type=int, action="append", metavar="N", help="may be repeated"
    )
    parser.add_argument("--requests", type=int, default=REQUESTS, metavar="N")
    parser.add_argument("--only", choices=["XProf", "stepscope"])
    parser.add_argument(
        "--write", type=Path, metavar="PAGE", help="replace the section of this page"
    )
    options = parser.parse_args(arguments)
    options.events = tuple(options.events or SIZES)
    whole = options.events == SIZES and options.requests >= REQUESTS
    if options.write and (options.only or not whole):
        parser.error(f"a page gets all sizes, both sides, {REQUESTS} requests")
    return options


def ours(python: Path) -> Side:
    """`stepscope serve`, and what the page asks for (read off in Chromium)."""
    return Side(
        name="stepscope",
        command=lambda logdir, port, _: (
            *(str(python), "-m", "stepscope", "serve"),
            *(str(logdir), "--port", str(port)),
        ),
        first=(
            ("data/status",),
            ("data/runs",),
            ("data/tool/overview_page", "data/profile"),
            (
                "data/findings",
                "data/table/overview_page?table=top_ops&limit=100",
            ),
        ),
        second=(
            ("data/tool/kernel_stats",),
            ("data/table/kernel_stats?table=rows&limit=100",),
        ),
        mixed=("data/runs", "data/profile", *(f"data/tool/{tool}" for tool in MIXED)),
    )


def theirs(python: Path) -> Side:
    """XProf's server, and what its page asks for (read off in Chromium)."""
    data = f"{XPROF_DATA}/data?run=run&host=host"
    hosts = f"{XPROF_DATA}/hosts?run=run"
    return Side(
        name="XProf",
        command=lambda logdir, port, other: (
            *(str(python.with_name("xprof")), "--logdir", str(logdir)),
            *("--port", str(port), "--grpc_port", str(other)),
        ),
        first=(
            (f"{XPROF_DATA}/runs",),
            (f"{XPROF_DATA}/run_tools?run=run",),
            (f"{hosts}&tag=overview_page",),
            (f"{data}&tag=overview_page",),
        ),
        second=((f"{hosts}&tag=kernel_stats",), (f"{data}&tag=kernel_stats",)),
        mixed=(
            f"{XPROF_DATA}/runs",
            f"{hosts}&tag=overview_page",
            *(f"{data}&tag={tool}" for tool in MIXED),
        ),
    )


def section(
    sides: Sequence[Side], events: int, options: argparse.Namespace
) -> list[str]:
    """Write the measurements on a run of one size, in paragraphs."""
    profile = gpu_shaped(events)
    taken, failed = visits(sides, profile, options)
    told = [about(events, options), table(taken)]
    told += [
        f"{name} failed to answer a request and was not measured further: {why}."
        for name, why in failed.items()
    ]
    # The budgets of the page are stated for the large run.
    if "stepscope" in taken and events == GPU_EVENTS:
        told += [growth(sides[0], profile, options.requests)]
        told += [
            "Times of stepscope's pages in Chromium:",
            browser_part(profile, options),
        ]
    return told


def visits(
    sides: Sequence[Side], profile: Path, options: argparse.Namespace
) -> tuple[dict[str, list[Visit]], dict[str, str]]:
    """Measure the visits of each side in turn; return them, and why a side has none."""
    taken: dict[str, list[Visit]] = {side.name: [] for side in sides}
    failed: dict[str, str] = {}
    for run in range(options.runs):
        # The order changes, so that neither always follows the other.
        for side in sides if run % 2 == 0 else sides[::-1]:
            if side.name in failed:
                continue
            say(f"run {run + 1}: {side.name}")
            try:
                taken[side.name].append(visit(side, profile, requests=options.requests))
            except ServerFailed as failure:
                failed[side.name] = str(failure)
    say("")
    return taken, failed


def visit(side: Side, profile: Path, *, requests: int) -> Visit:
    """One server from its start to the last of the mixed requests."""
    with started(side, profile) as server:
        started_bytes = server.resident_bytes()
        first_s = server.show(side.first)
        first_bytes = server.resident_bytes()
        second_s = server.show(side.second)
        mixed_s = server.show(mixed(side, requests))
        return Visit(
            start_s=server.started_s,
            first_s=first_s,
            second_s=second_s,
            mixed_s=mixed_s,
            started_bytes=started_bytes,
            first_bytes=first_bytes,
            mixed_bytes=server.resident_bytes(),
        )


def mixed(side: Side, requests: int) -> Page:
    """Return this many requests, for all addresses of a side in turn."""
    return [(side.mixed[number % len(side.mixed)],) for number in range(requests)]


def growth(side: Side, profile: Path, requests: int) -> str:
    """Measure the memory of a server after some mixed requests, and after many."""
    with started(side, profile) as server:
        server.show(side.first)
        server.show(mixed(side, requests))
        before = server.resident_bytes()
        server.show(mixed(side, MANY_REQUESTS - requests))
        after = server.resident_bytes()
    return (
        f"{side.name} uses {before / MIB:,.0f} MiB of memory after {requests} mixed "
        f"requests and {after / MIB:,.0f} MiB after {MANY_REQUESTS:,}."
    )


@contextmanager
def started(side: Side, profile: Path) -> Iterator[Served]:
    """A fresh server over a log directory of its own."""
    with fresh_logdir(profile) as logdir, tempfile.TemporaryDirectory() as home:
        read_whole(profile)
        command = partial(side.command, logdir)
        with serving(command, environment_of(Path(home))) as server:
            yield server


def about(events: int, options: argparse.Namespace) -> str:
    """What was measured, in a sentence."""
    return (
        f"Medians of {options.runs} measurements on one run of {events:,} events "
        f"(`benchmarks/gpu_shaped.py`), with {options.requests} mixed requests."
    )


def table(taken: dict[str, list[Visit]]) -> str:
    """The figures as a Markdown table; ratios where both sides were measured."""
    names = list(taken)
    measured = {name: visits_of for name, visits_of in taken.items() if visits_of}
    lines = [
        "| | " + " | ".join([*names, "XProf ÷ stepscope"]) + " |",
        "|---|" + "--:|" * (len(names) + 1),
    ]
    for text, field, digits, unit in ROWS:
        values = {
            name: statistics.median(getattr(each, field) for each in visits_of) / unit
            for name, visits_of in measured.items()
        }
        cells = [
            f"{values[name]:,.{digits}f}" if name in values else "–" for name in names
        ]
        both = len(values) > 1
        cells.append(f"{values['XProf'] / values['stepscope']:.1f}" if both else "")
        lines.append(f"| {text} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def browser_part(profile: Path, options: argparse.Namespace) -> str:
    """The times of our page in a browser, or why there are none."""
    why = in_browser.why_not()
    if why is not None:
        return f"Not measured: {why}."
    side = ours(Path(sys.executable))
    fresh: Callable[[], AbstractContextManager[Served]] = partial(
        started, side, profile
    )
    return in_browser.table(in_browser.measure(fresh, runs=options.runs))


if __name__ == "__main__":
    sys.exit(main())
