"""What `stepscope ncu` does once its options are read."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepscope.capture.launching.harmless import say
from stepscope.capture.launching.launcher import supervise
from stepscope.capture.launching.nsight import NcuPlan, find_tool, ncu_command
from stepscope.cli.nsight.around import clear, harmless, program_of, report_on
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Sequence


class Measuring(NamedTuple):
    """The parsed command line of `ncu`."""

    beside: str | None
    op: str | None
    kernels: tuple[str, ...]
    range: str | None
    profiler_api: bool
    skip: int
    launches: int
    sections: str
    output: str
    force: bool


def measure(command: Sequence[str], asked: Measuring) -> int:
    """Measure kernels, keep their table, and return the program's status."""
    tool = find_tool("ncu")
    arguments = program_of(command, "ncu")
    report, table = (Path(f"{asked.output}{it}") for it in (".ncu-rep", ".csv"))
    clear((report, table), force=asked.force)
    plan = NcuPlan(
        output=str(report),
        sections=asked.sections,
        kernels=(*asked.kernels, *_kernels_of(asked)),
        skip=asked.skip,
        launches=asked.launches,
        range=asked.range,
        profiler_api=asked.profiler_api,
    )
    called = ncu_command(tool, plan, arguments)
    say(shlex.join(called))
    status = supervise(called, os.environ)
    if not report.exists():
        say(
            f"Nsight Compute wrote no report (exit status {status}): no kernel was "
            "chosen, it may not read counters, or there is no driver; it says above "
            "which (docs/nsight.md)"
        )
        return status
    with harmless():
        _keep_table(report, table, tool, asked.beside)
    return status


def _kernels_of(asked: Measuring) -> tuple[str, ...]:
    """Return the functions of the kernels that an op launches in a recording.

    Raises:
        BadUsage: No recording was given, or the op launches nothing in it.
        BadInput: The recording cannot be read.
    """
    if asked.op is None:
        return ()
    if asked.beside is None:
        raise BadUsage(
            "--op needs a recording in which the op's kernels are seen: add --beside "
            "PATH, or name the kernels with --kernel REGEX"
        )
    from stepscope.derive.measured import (  # noqa: PLC0415 - where it is asked for
        name_forms,
    )
    from stepscope.session import open_profile  # noqa: PLC0415 - where it is asked for
    from stepscope.unavailable import Unavailable  # noqa: PLC0415 - as above

    result = open_profile(asked.beside).tool("kernel_stats", op=asked.op)
    if isinstance(result, Unavailable):
        raise BadUsage(f"{asked.beside}: {result.reason} {result.remedy}")
    names = {name_forms(name).base for name in result.rows["kernel_name"]}
    return tuple(sorted(re.escape(name) for name in names))


def _keep_table(report: Path, table: Path, tool: str, beside: str | None) -> None:
    from stepscope.formats.registry import printed_tables  # noqa: PLC0415 - as above

    table.write_bytes(printed_tables(report, tool))
    say(f"wrote {report} and {table}")
    if beside is None:
        say(f"look at them beside a recording: stepscope report PATH --kernels {table}")
    else:
        report_on(beside, kernels=str(table))
