"""Implementation of `stepscope capture`, after its options are parsed."""

from __future__ import annotations

import contextlib
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from stepscope.capture.base.options import ProfilerOptions
from stepscope.capture.base.program_log import say_line
from stepscope.cli.light_start import check_threads
from stepscope.cli.output import erase_line, recording_bar
from stepscope.cli.requests import ReportRequest
from stepscope.errors import printable_line
from stepscope.remote import client
from stepscope.remote.addresses import parse_addresses as parsed
from stepscope.remote.listening_programs import servers_of_process
from stepscope.remote.transport import checked_token, grpc_module
from stepscope.xspace.reading.input_file import open_input

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.cli.requests import CaptureRequest
    from stepscope.remote.outcome import HostOutcome, Outcome

#: Exit status if some hosts were not recorded.
_INCOMPLETE: Final = 1
#: Exit status if no host was recorded.
_NONE_RECORDED: Final = 2
_NO_HOST: Final = "no host was recorded"
_HOST: Final = "host"
_NS_PER_MS: Final = 1_000_000
#: Default duration of a recording in ms; with `--steps`, its default maximum.
_DEFAULT_MS: Final = 2_000
_MAX_MS: Final = 60_000


def answer_request(request: CaptureRequest) -> int:
    """Record, print the outcome of each host, and report.

    Returns:
        0; 1 if a host was not recorded and `allow_partial` is false; 2 if no host was
        recorded.
    """
    attached = [server for pid in request.attach for server in servers_of_process(pid)]
    wanted = parsed([*request.addresses, *(server.address for server in attached)])
    if request.token is not None:
        checked_token(request.token, "--token, STEPSCOPE_TOKEN")
    # Recording needs gRPC, so check that it is installed before any call.
    grpc_module()
    certificate = None
    if request.certificate is not None:
        with open_input(Path(request.certificate), way_out="Give a PEM file.") as file:
            certificate = file.read()
    options = ProfilerOptions(
        delay_ms=request.delay_ms or None,
        host_tracer_level=request.host_tracer_level,
        python_tracer_level=request.python_tracer_level,
        device_tracer_level=request.device_tracer_level,
    )
    steps, duration_ms = request.steps, request.duration_ms
    if duration_ms is None:
        duration_ms = _DEFAULT_MS if steps is None else _MAX_MS
    for_steps = "" if steps is None else f"{steps} steps, at most "
    hosts = "1 host" if len(wanted) == 1 else f"{len(wanted)} hosts"
    say_line(f"recording {hosts} for {for_steps}{duration_ms / 1000:g} s")
    tells = request.form != "json"
    table = HostsTable(wanted) if tells else None
    expected_s = None if steps else (duration_ms + request.delay_ms) / 1000
    try:
        with recording_bar(expected_s) if tells else contextlib.nullcontext():
            outcome = client.trace(
                wanted,
                request.logdir,
                duration_ms,
                num_tracing_attempts=request.attempts,
                options=options,
                # A failed host must not hide the recordings of the other hosts.
                allow_partial=True,
                token=request.token,
                root_certificate=certificate,
                on_progress=None if table is None else table.add_row,
                steps=steps,
                max_bytes=request.max_bytes,
            )
    except client.CaptureFailed as failed:
        say_line(_NO_HOST)
        if table is None:
            click.echo(_outcome_json(failed.outcome))
        return _NONE_RECORDED
    complete = not outcome.problems()
    if request.form == "json":
        click.echo(_outcome_json(outcome))
    else:
        say_line(f"recorded into {outcome.directory}")
        if not complete:
            say_line(
                f"{len(outcome.hosts)} of {len(outcome.all)} hosts were recorded: the "
                "report covers only these hosts"
            )
        if not request.no_report:
            check_threads()
            from stepscope.cli import (  # noqa: PLC0415 - needed only for a report
                report as reporting,
            )

            reporting.answer_request(ReportRequest(paths=(str(outcome.directory),)))
    return 0 if complete or request.allow_partial else _INCOMPLETE


class HostsTable:
    """Prints a row on standard error for each host, when its outcome is known."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._width = max(len(address) for address in (_HOST, *addresses))
        self._lock = threading.Lock()
        self._write_row(_HOST, "outcome", "bytes", "asked", "seconds", "")

    def add_row(self, host: HostOutcome) -> None:
        """Print the row of a host; callable from any thread."""
        self._write_row(
            printable_line(host.address),
            host.state,
            f"{host.bytes:,}" if host.state == "ok" else "–",
            f"{host.attempts}",
            f"{host.seconds:.1f}",
            _clock_remark(host) if host.state == "ok" else host.text,
        )

    def _write_row(  # noqa: PLR0917 - one parameter per column
        self, host: str, state: str, size: str, attempts: str, seconds: str, remark: str
    ) -> None:
        line = f"  {host:<{self._width}}  {state:<7}  {size:>13}  {attempts:>5}  "
        line += f"{seconds:>7}  {printable_line(remark)}"
        with self._lock, contextlib.suppress(OSError, ValueError, AttributeError):
            erase_line()
            sys.stderr.write(f"{line.rstrip()}\n")


def _clock_remark(host: HostOutcome) -> str:
    """Return a sentence on a host's clock offset, if larger than its maximum error."""
    doubt = host.clock_doubt_ns
    offset = host.clock_offset_ns
    if offset is None or doubt is None or abs(offset) <= doubt:
        return ""
    return (
        f"its clock differs by {offset / _NS_PER_MS:+.3f} ms "
        f"(± {doubt / _NS_PER_MS:.3f} ms)"
    )


def _outcome_json(outcome: Outcome) -> str:
    fields = {
        "schema": 1,
        "run": outcome.run,
        "path": str(outcome.directory) if outcome.hosts else None,
        "hosts": [host._asdict() for host in outcome.all],
    }
    return msgspec.json.encode(fields).decode()
