"""Implementation of `stepscope nsys` and `stepscope ncu`, after option parsing."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.capture.base.program_log import say_line
from stepscope.capture.launching.launcher import resolve_command, supervise_program
from stepscope.capture.launching.nsight import (
    NcuPlan,
    NsysPlan,
    find_tool,
    ncu_command,
    nsys_command,
    nsys_environment,
    refuse_tracers,
)
from stepscope.cli.requests import ReportRequest
from stepscope.errors import BadUsage, StepscopeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.cli.requests import NcuRequest, NsysRequest

#: Suffixes of the files that Nsight Systems writes, in order: the raw recording, the
#: report and the database.
_WRITTEN: Final = (".qdstrm", ".nsys-rep", ".sqlite")


def record_timeline(request: NsysRequest) -> int:
    """Record a timeline, report on it, and return the program's exit status.

    Raises:
        BadUsage: The tool or the program is missing, two ranges are given, or an output
            file exists.
    """
    if request.range is not None and request.profiler_api:
        raise BadUsage(
            "Nsight Systems records one range: give --range or --profiler-api"
        )
    tool = find_tool("nsys")
    arguments = _resolve_program(request.command, "nsys")
    outputs = tuple(Path(f"{request.output}{suffix}") for suffix in _WRITTEN)
    _remove_old_files(outputs, force=request.force)
    plan = NsysPlan(
        request.output,
        request.range,
        request.delay_s,
        request.duration_s,
        request.profiler_api,
    )
    called = nsys_command(tool, plan, arguments)
    say_line(shlex.join(called))
    status = supervise_program(called, nsys_environment(dict(os.environ)))
    raw, report, database = outputs
    if not database.exists():
        say_line(_missing_report_text(raw, report, status))
        return status
    say_line(f"wrote {database}")
    if not request.no_report:
        with _say_problems():
            _report_on(str(database))
    return status


def _missing_report_text(raw: Path, report: Path, status: int) -> str:
    export = f"nsys export --type sqlite {shlex.quote(str(report))}"
    if report.exists():
        return f"convert the report yourself: {export}"
    if raw.exists():
        return (
            f"Nsight Systems recorded {raw} but could not convert it to a report: its "
            "importer, or a library of the importer, is missing. On a machine with a "
            "complete Nsight Systems: QdstrmImporter -i "
            f"{shlex.quote(str(raw))}, then {export}"
        )
    return f"Nsight Systems wrote no report (exit status {status})"


def measure_kernels(request: NcuRequest) -> int:
    """Measure kernels, write their table, and return the program's exit status."""
    tool = find_tool("ncu")
    arguments = _resolve_program(request.command, "ncu")
    report, table = (
        Path(f"{request.output}{suffix}") for suffix in (".ncu-rep", ".csv")
    )
    _remove_old_files((report, table), force=request.force)
    plan = NcuPlan(
        output=str(report),
        sections=request.sections,
        kernels=(*request.kernels, *_kernel_patterns(request)),
        skip=request.skip,
        launches=request.launches,
        range=request.range,
        profiler_api=request.profiler_api,
    )
    called = ncu_command(tool, plan, arguments)
    say_line(shlex.join(called))
    status = supervise_program(called, os.environ)
    if not report.exists():
        say_line(
            f"Nsight Compute wrote no report (exit status {status}): no kernel "
            "matches, ncu may not read counters, or there is no driver. Its own "
            "message is above (docs/nsight.md)"
        )
        return status
    with _say_problems():
        from stepscope.formats.registry import printed_tables  # noqa: PLC0415 - needed only on request

        table.write_bytes(printed_tables(report, tool))
        say_line(f"wrote {report} and {table}")
        if request.beside is None:
            say_line(f"report with them: stepscope report PATH --kernels {table}")
        else:
            _report_on(request.beside, kernels=str(table))
    return status


def _kernel_patterns(request: NcuRequest) -> tuple[str, ...]:
    """Return regular expressions for the kernels that an op launches."""
    if request.op is None:
        return ()
    if request.beside is None:
        raise BadUsage(
            "--op needs a recording that shows the op's kernels: add --beside PATH, or "
            "name the kernels with --kernel REGEX"
        )
    from stepscope.derive.device.measured_kernels import (  # noqa: PLC0415 - needed only on request
        name_forms,
    )
    from stepscope.session import open_profile  # noqa: PLC0415 - needed only on request
    from stepscope.unavailable import Unavailable  # noqa: PLC0415 - needed only on request

    result = open_profile(request.beside).tool("kernel_stats", op=request.op)
    if isinstance(result, Unavailable):
        raise BadUsage(f"{request.beside}: {result.reason} {result.remedy}")
    names = {name_forms(name).base for name in result.rows["kernel_name"]}
    return tuple(sorted(re.escape(name) for name in names))


def _resolve_program(command: Sequence[str], name: str) -> list[str]:
    arguments = resolve_command(command)
    refuse_tracers(arguments, name)
    return arguments


def _remove_old_files(outputs: Sequence[Path], *, force: bool) -> None:
    """Remove old output files; raise BadUsage for existing ones without `force`."""
    for path in outputs:
        if path.exists() and not force:
            raise BadUsage(f"{path}: exists already. Add --force to overwrite it")
        # An old file must not be mistaken for a new one.
        path.unlink(missing_ok=True)


def _report_on(path: str, kernels: str | None = None) -> None:
    from stepscope.cli import (  # noqa: PLC0415 - needed only for a report
        report as reporting,
    )

    with contextlib.redirect_stdout(sys.stderr):
        reporting.answer_request(ReportRequest(paths=(path,), kernels=kernels))


@contextlib.contextmanager
def _say_problems() -> Iterator[None]:
    """Print errors of the block, so that the program's exit status is returned."""
    try:
        yield
    except (StepscopeError, OSError) as error:
        say_line(str(error))
