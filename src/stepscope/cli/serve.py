"""Implementation of `stepscope serve`, after its options are parsed."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final, NoReturn

import click

from stepscope.capture.base.options import ProfilerOptions
from stepscope.cli.output import text_width
from stepscope.errors import BadUsage
from stepscope.formats.added_files import read_kernels
from stepscope.remote import client
from stepscope.remote.addresses import parse_addresses
from stepscope.remote.transport import checked_token, grpc_module
from stepscope.serve.app import App
from stepscope.serve.built import missing_page_notice
from stepscope.serve.listening import listening_server
from stepscope.serve.pages import page_files
from stepscope.serve.recorder import Capturing
from stepscope.serve.runs.program_files import ProgramFiles
from stepscope.serve.runs.source import open_source
from stepscope.serve.runs.store import Store
from stepscope.serve.security import make_policy

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from stepscope.cli.requests import ServeRequest
    from stepscope.remote.outcome import HostOutcome, Outcome
    from stepscope.serve.listening import Server
    from stepscope.serve.recorder import Settings
    from stepscope.serve.security import Policy

#: The tool that the page shows first.
_FIRST: Final = "overview_page"
#: Address that means all addresses of a machine → address to open in a browser.
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - only compared, never bound


def answer_request(request: ServeRequest) -> int:
    """Run the server until it is interrupted, and return the exit status."""
    if request.kernels is not None:
        # Report an unreadable table of metrics now, not in the browser for each run.
        read_kernels(request.kernels)
    program = ProgramFiles(request.source) if request.source else None
    store = Store(open_source(request.logdir), kernels=request.kernels)
    captures = _make_capturing(store, request) if request.capture else None
    # The access policy needs the port, which is known once the server listens.
    server = listening_server(request.host, request.port, lambda *_: [])
    with server:
        policy = make_policy(request.host, server.port)
        server.app = App(
            store,
            page_files(),
            policy=policy,
            captures=captures,
            program=program,
            packed=policy.token is not None,
        )
        # The printed greeting mentions Ctrl-C, so handle Ctrl-C from now on.
        signal.signal(signal.SIGINT, _end_now)
        click.echo(_greeting_lines(request.logdir, request.host, server, policy))
        # Read the newest run while the browser opens, because most users open that run.
        Thread(target=store.read_newest, args=(_FIRST,), daemon=True).start()
        server.serve_forever()
    return 0


def _make_capturing(store: Store, request: ServeRequest) -> Capturing:
    grpc_module()
    logdir, token = request.logdir, request.capture_token
    if token is not None:
        checked_token(token, "--capture-token, STEPSCOPE_TOKEN")
    if not Path(logdir).is_dir():
        raise BadUsage(
            f"{logdir} is not a directory on this machine, so recordings cannot be "
            "written to it; give a log directory, or leave out --capture."
        )

    def record(wanted: Settings, on_progress: Callable[[HostOutcome], None]) -> Outcome:
        try:
            return client.trace(
                wanted.addresses,
                logdir,
                wanted.duration_ms,
                num_tracing_attempts=wanted.attempts,
                options=ProfilerOptions(
                    delay_ms=wanted.delay_ms or None,
                    host_tracer_level=wanted.host_tracer_level,
                    device_tracer_level=wanted.device_tracer_level,
                    python_tracer_level=wanted.python_tracer_level,
                ),
                # The page shows the outcome of each program.
                allow_partial=True,
                token=token,
                on_progress=on_progress,
            )
        except client.CaptureFailed as failed:
            return failed.outcome

    return Capturing(
        parse_addresses(request.capture),
        record,
        lambda: store.current_listing(now=True),
    )


def _end_now(number: int, frame: FrameType | None) -> NoReturn:
    """End the process without waiting for computations.

    The server keeps all data in memory and needs no clean-up. A signal calls this
    function, possibly while Python writes to a stream, so no Python stream is used.
    """
    del number, frame
    with contextlib.suppress(OSError):
        # Ends the line on which the terminal has printed ^C.
        os.write(2, b"\n")
    os._exit(0)


def _greeting_lines(logdir: str, host: str, server: Server, policy: Policy) -> str:
    shown = _EVERYWHERE.get(host, host)
    name = f"[{shown}]" if ":" in shown else shown
    token = "" if policy.token is None else f"?token={policy.token}"
    lines = [
        f"Showing {logdir} at http://{name}:{server.port}/{token}",
        "Press Ctrl-C to stop the server.",
    ]
    if policy.token is not None:
        lines.insert(
            1,
            "Other machines can connect to this server. Keep the address secret: it "
            "contains the token. On another machine, replace the host by this "
            "machine's name or address.",
        )
    missing = missing_page_notice(text_width())
    if missing is not None:
        lines += ["", missing]
    return "\n".join(lines)
