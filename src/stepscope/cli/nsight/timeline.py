"""What `stepscope nsys` does once its options are read."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepscope.capture.launching.harmless import say
from stepscope.capture.launching.launcher import supervise
from stepscope.capture.launching.nsight import (
    NsysPlan,
    find_tool,
    nsys_command,
    nsys_environment,
)
from stepscope.cli.nsight.around import clear, harmless, program_of, report_on

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Recording", "record"]


class Recording(NamedTuple):
    """The parsed command line of `nsys`."""

    range: str | None
    delay_s: int
    duration_s: int | None
    output: str
    force: bool
    reports: bool


def record(command: Sequence[str], asked: Recording) -> int:
    """Record a timeline, report on it, and return the program's status."""
    tool = find_tool("nsys")
    arguments = program_of(command, "nsys")
    outputs = tuple(Path(f"{asked.output}{it}") for it in (".nsys-rep", ".sqlite"))
    clear(outputs, force=asked.force)
    plan = NsysPlan(asked.output, asked.range, asked.delay_s, asked.duration_s)
    called = nsys_command(tool, plan, arguments)
    say(shlex.join(called))
    status = supervise(called, nsys_environment(dict(os.environ)))
    report, database = outputs
    if not database.exists():
        convert = f"nsys export --type sqlite {shlex.quote(str(report))}"
        say(
            f"convert the report yourself: {convert}"
            if report.exists()
            else f"Nsight Systems wrote no report (exit status {status})"
        )
        return status
    say(f"wrote {database}")
    if asked.reports:
        with harmless():
            report_on(str(database))
    return status
