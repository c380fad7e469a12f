"""What `stepscope nsys` does once its options are read."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.capture.launching.harmless import say
from stepscope.capture.launching.launcher import supervise
from stepscope.capture.launching.nsight import (
    NsysPlan,
    find_tool,
    nsys_command,
    nsys_environment,
)
from stepscope.cli.nsight.around import clear, harmless, program_of, report_on
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What Nsight Systems writes one after the other: what it recorded, the report and the
#: database.
_WRITTEN: Final = (".qdstrm", ".nsys-rep", ".sqlite")


class Recording(NamedTuple):
    """The parsed command line of `nsys`."""

    range: str | None
    profiler_api: bool
    delay_s: int
    duration_s: int | None
    output: str
    force: bool
    reports: bool


def record(command: Sequence[str], asked: Recording) -> int:
    """Record a timeline, report on it, and return the program's status.

    Raises:
        BadUsage: There is no tool or no program, two ranges are asked for, or a file
            is in the way.
    """
    if asked.range is not None and asked.profiler_api:
        raise BadUsage(
            "Nsight Systems records one range: give --range or --profiler-api"
        )
    tool = find_tool("nsys")
    arguments = program_of(command, "nsys")
    outputs = tuple(Path(f"{asked.output}{suffix}") for suffix in _WRITTEN)
    clear(outputs, force=asked.force)
    plan = NsysPlan(
        asked.output, asked.range, asked.delay_s, asked.duration_s, asked.profiler_api
    )
    called = nsys_command(tool, plan, arguments)
    say(shlex.join(called))
    status = supervise(called, nsys_environment(dict(os.environ)))
    raw, report, database = outputs
    if not database.exists():
        say(_instead(raw, report, status))
        return status
    say(f"wrote {database}")
    if asked.reports:
        with harmless():
            report_on(str(database))
    return status


def _instead(raw: Path, report: Path, status: int) -> str:
    """Say what there is without a database, and what makes one of it."""
    export = f"nsys export --type sqlite {shlex.quote(str(report))}"
    if report.exists():
        return f"convert the report yourself: {export}"
    if raw.exists():
        return (
            f"Nsight Systems recorded {raw}, and could not make a report of it: its "
            "importer, or a library that this needs, is not on this machine. Where "
            f"Nsight Systems is whole: QdstrmImporter -i {shlex.quote(str(raw))}, then "
            f"{export}"
        )
    return f"Nsight Systems wrote no report (exit status {status})"
