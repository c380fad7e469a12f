"""What `stepscope serve` does once its options are read."""

from __future__ import annotations

import os
import sys
from threading import Thread
from typing import TYPE_CHECKING, Final, NoReturn

import click

from stepscope.cli.missing_page import notice
from stepscope.cli.terminal import text_width
from stepscope.serve.app import App
from stepscope.serve.listening import listen
from stepscope.serve.pages import page_files
from stepscope.serve.runs.source import source_of
from stepscope.serve.runs.store import Store
from stepscope.serve.security import policy_for
from stepscope.session import read_kernels

if TYPE_CHECKING:
    from stepscope.serve.listening import Server
    from stepscope.serve.security import Policy

__all__ = ["answer"]

#: The tool that the first page shows.
_FIRST: Final = "overview_page"
#: Addresses that mean every address of the machine → one to open in a browser.
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - it is looked for, not bound


def answer(logdir: str, *, host: str, port: int, kernels: str | None = None) -> int:
    """Serve until interrupted, and return the exit status."""
    if kernels is not None:
        # A table that cannot be read is said here, not run by run in a browser.
        read_kernels(kernels)
    store = Store(source_of(logdir), kernels=kernels)
    server = listen(host, port, _not_yet)
    with server:
        policy = policy_for(host, server.port)
        server.app = App(
            store, page_files(), policy=policy, packed=policy.token is not None
        )
        try:
            click.echo(_greeting(logdir, host, server, policy))
            # The newest run is most likely wanted: it is read while a browser opens.
            Thread(target=store.read_newest, args=(_FIRST,), daemon=True).start()
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("", err=True)
            _end_now()
    return 0


def _end_now() -> NoReturn:
    """End the process without waiting for computations, as the interpreter would.

    The server needs no cleaning up: it keeps everything in memory.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


# The port decides the policy, and is known only once the server listens.
def _not_yet(environ: object, start_response: object) -> list[bytes]:
    del environ, start_response
    return []


def _greeting(logdir: str, host: str, server: Server, policy: Policy) -> str:
    shown = _EVERYWHERE.get(host, host)
    name = f"[{shown}]" if ":" in shown else shown
    token = "" if policy.token is None else f"?token={policy.token}"
    lines = [
        f"Showing {logdir} at http://{name}:{server.port}/{token}",
        "Ctrl-C ends it.",
    ]
    if policy.token is not None:
        lines.insert(
            1,
            "Other machines reach this server. Keep the address secret: it holds the "
            "key. From another machine, replace the host by this machine's name or "
            "address.",
        )
    missing = notice(text_width())
    if missing is not None:
        lines += ["", missing]
    return "\n".join(lines)
