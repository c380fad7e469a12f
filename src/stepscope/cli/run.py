"""Implementation of `stepscope run`, after its options are parsed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from stepscope.capture.base.options import MAX_EVENTS, MIN_WINDOW_S
from stepscope.capture.base.program_log import say_line
from stepscope.capture.launching.launcher import (
    armed_environment,
    launch_program,
    resolve_command,
    supervise_program,
)
from stepscope.capture.launching.notes import read_notes
from stepscope.capture.launching.outcome import (
    add_end_reasons,
    describe_outcome,
    keep_the_best,
)
from stepscope.capture.launching.plan import RunPlan
from stepscope.capture.temporary import make_folder
from stepscope.cli.light_start import check_threads
from stepscope.cli.requests import DEFAULT_STEPS, ReportRequest
from stepscope.errors import BadUsage, StepscopeError
from stepscope.rundir import new_run_name, run_directory, traces_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.cli.requests import RunRequest


def plan_run(logdir: str, **choices: Any) -> RunPlan:
    """Return a plan for a run that begins now.

    Raises:
        BadUsage: An option is out of its range.
    """
    return RunPlan(
        logdir=str(Path(logdir).absolute()),
        run=new_run_name(time.time()),
        notes="",
        **choices,
    ).checked()


def answer_request(request: RunRequest) -> int:
    """Run the program, report on its recording, and return its exit status.

    Raises:
        BadUsage: Options contradict each other, or are invalid.
    """
    context = click.get_current_context()
    by_default = click.core.ParameterSource.DEFAULT
    written = [
        option.opts[0]
        for option in context.command.params
        if isinstance(option, click.Option)
        and option.name is not None
        and context.get_parameter_source(option.name) is not by_default
    ]
    if request.serve is not None:
        return _answer_served(request, request.serve, written)
    if request.open_to is not None:
        raise BadUsage("--open admits clients to a server in the program: add --serve.")
    if request.certificate is not None or request.key is not None:
        raise BadUsage("--certificate and --key encrypt a server: add --serve.")
    # If no window length is given, enough steps are recorded, within an event limit.
    fields = msgspec.structs.asdict(request)
    choices = {name: fields[name] for name in RunPlan._fields if name in fields}
    del choices["logdir"]
    if request.steps is None:
        choices |= {"steps": DEFAULT_STEPS, "least_s": MIN_WINDOW_S}
        choices["max_events"] = MAX_EVENTS
    plan = plan_run(request.logdir, **choices)
    arguments = resolve_command(request.command)
    say_line(f"recording into {plan.logdir}, run {plan.run}")
    status = record_program(arguments, plan)
    directory = run_directory(Path(plan.logdir), plan.run)
    with _status_kept("the report"):
        if not request.no_report and _holds_traces(directory):
            _report_in_subprocess(directory)
    return status


def _answer_served(request: RunRequest, place: str, written: Sequence[str]) -> int:
    from stepscope.remote.autoserve import (  # noqa: PLC0415 - needed only with --serve
        CERTIFICATE_VARIABLE,
        ServePlan,
    )
    from stepscope.remote.processes import VARIABLE  # noqa: PLC0415

    of_server = ("--serve", "--open", "--certificate", "--key")
    extra = [option for option in written if option not in of_server]
    if extra:
        raise BadUsage(
            f"{extra[0]} cannot be given with --serve, which does not record; give it "
            "to stepscope capture if that has this option."
        )
    plan = ServePlan.parse_place(place, request.open_to)
    files = _certificate_files(request.certificate, request.key)
    environment = armed_environment(
        {**os.environ, CERTIFICATE_VARIABLE: files}, VARIABLE, plan.to_text()
    )
    return supervise_program(resolve_command(request.command), environment)


def _certificate_files(certificate: str | None, key: str | None) -> str:
    """Return the paths of the certificate chain and its key, in two lines, or ""."""
    if certificate is None and key is None:
        return ""
    if certificate is None or key is None:
        raise BadUsage("--certificate and --key belong together: give both files.")
    import ssl  # noqa: PLC0415 - needed only on request

    from stepscope.xspace.reading.input_file import open_input  # noqa: PLC0415 - needed only on request

    try:
        for name in (certificate, key):
            open_input(Path(name), way_out="Give a PEM file.").close()
        # The empty password prevents a prompt for an encrypted key.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            certificate, key, password=lambda: ""
        )
    except (OSError, ValueError) as error:
        raise BadUsage(
            f"--certificate {certificate} and --key {key} cannot encrypt ({error}); "
            "give a chain and the private key that belongs to it, both PEM, the key "
            "without a password."
        ) from error
    return "\n".join(str(Path(name).absolute()) for name in (certificate, key))


def record_program(arguments: Sequence[str], plan: RunPlan) -> int:
    """Run a program, finish its processes' recordings, and return its status."""
    try:
        Path(plan.logdir).mkdir(parents=True, exist_ok=True)
        is_writable = os.access(plan.logdir, os.W_OK | os.X_OK)
        reason = None if is_writable else "permission denied"
    except OSError as error:
        reason = str(error.strerror)
    if reason is not None:
        say_line(
            f"{plan.logdir}: cannot be written to ({reason}): nothing is recorded. "
            "Give another --logdir"
        )
        return supervise_program(arguments, os.environ)
    notes = _folder_for_notes(plan.logdir)
    try:
        status = launch_program(arguments, plan._replace(notes=notes), os.environ)
        with _status_kept("finishing the recording"):
            kept, left_out = keep_the_best(read_notes(notes))
            add_end_reasons(kept, status)
            directory = run_directory(Path(plan.logdir), plan.run)
            for sentence in describe_outcome(
                kept, left_out, plan, anything=_holds_traces(directory), status=status
            ):
                say_line(sentence)
    finally:
        with _status_kept("tidying up"):
            shutil.rmtree(notes, ignore_errors=True)
    return status


def _folder_for_notes(logdir: str) -> str:
    """Create a folder for notes of processes; if that fails, return an unused path."""
    for place in (None, logdir):
        with contextlib.suppress(OSError):
            return make_folder("run", within=place)
    return str(Path(logdir) / "no-notes")


@contextlib.contextmanager
def _status_kept(activity: str) -> Iterator[None]:
    """Print errors of the block, so that the program's exit status is returned."""
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        say_line(f"{activity} was interrupted")
    except (StepscopeError, OSError) as error:
        say_line(str(error))
    except BaseException as error:  # noqa: BLE001 - a panic of polars is not an `Exception`
        say_line(f"{activity} failed: {type(error).__name__}: {error}")


def _holds_traces(directory: Path) -> bool:
    try:
        return bool(traces_in(directory))
    except OSError:
        return False


def _report_in_subprocess(directory: Path) -> None:
    """Report in a separate process, because the report may run out of memory."""
    if not hasattr(os, "fork"):
        _print_report(directory)
        return
    process = os.fork()
    if not process:
        # An interrupted report prints nothing.
        with contextlib.suppress(BaseException):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            # Libraries that run out of memory print thousands of lines.
            sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            with _status_kept("the report"):
                _print_report(directory)
            sys.stderr.flush()
        os._exit(0)
    try:
        _, ended = os.waitpid(process, 0)
    except BaseException:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        raise
    if os.WIFSIGNALED(ended):
        say_line(
            f"signal {os.WTERMSIG(ended)} ended the process that made the report. On a "
            f"machine with more memory, run: stepscope report {directory}"
        )


def _print_report(directory: Path) -> None:
    check_threads()
    from stepscope.analysis.results.tool import host_tables  # noqa: PLC0415 - as below
    from stepscope.cli import (  # noqa: PLC0415 - needed only for a report
        report as reporting,
    )
    from stepscope.session import open_profile  # noqa: PLC0415 - needed only for a report

    profile = open_profile(directory)
    environments = host_tables(profile, "environment")
    if not any(table["begin_ps"].is_not_null().any() for table in environments):
        say_line("the recording has no events, so there is nothing to report")
        return
    with contextlib.redirect_stdout(sys.stderr):
        reporting.answer_request(ReportRequest(paths=(str(directory),)))
