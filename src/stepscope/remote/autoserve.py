"""A profiler server in every Python process of an unmodified program.

`stepscope run --serve` passes a plan to the processes in an environment variable. `arm`
runs before the program of a process begins, so this module imports very little. gRPC
and the server are imported once the program has run for 0.2 s.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from stepscope.capture.base.main_thread import MAIN_THREAD_S, at_safe_point
from stepscope.capture.base.program_log import log_line
from stepscope.capture.launching.arriving import Arrivals
from stepscope.capture.launching.harmless import harmless
from stepscope.capture.launching.notes import program_is_known, program_name
from stepscope.capture.launching.plan import FRAMEWORKS
from stepscope.capture.launching.waiting import FORKS, is_launcher, runs_nothing_itself
from stepscope.errors import BadUsage
from stepscope.remote.processes import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.remote.access.tokens import OpenTo
    from stepscope.remote.server import Server

#: Environment variable: paths of the certificate chain and of the key, one per line.
CERTIFICATE_VARIABLE: Final = "STEPSCOPE_SERVE_CERTIFICATE"

_THIS_MACHINE: Final = "127.0.0.1"
_LAST_PORT: Final = 65535
#: Seconds before a process listens; a program that ends earlier never listens.
_AFTER_S: Final = 0.2
#: Maximum number of waits until a child of `multiprocessing` knows its program name.
_MAX_WAITS: Final = 50
#: Environment variable of `torchrun`: index of a process on its machine.
_LOCAL_RANK: Final = "LOCAL_RANK"


class ServePlan(NamedTuple):
    """Addresses at which the processes of a program listen.

    Attributes:
        port: Port number; 0 for a free port.
        token: Token that clients must send; None if each process creates its own.
        open_to: Clients that may call without a token; None for no clients.
    """

    host: str
    port: int
    token: str | None = None
    open_to: OpenTo | None = None

    @classmethod
    def parse_place(cls, place: str, open_to: OpenTo | None = None) -> ServePlan:
        """Return the plan for `PORT` or `HOST:PORT`."""
        from stepscope.remote.access.tokens import choose_token  # noqa: PLC0415 - keeps process startup fast
        from stepscope.remote.addresses import is_loopback  # noqa: PLC0415 - keeps process startup fast

        host, _, port = place.rpartition(":")
        host = host or _THIS_MACHINE
        if not (port.isascii() and port.isdigit() and int(port) <= _LAST_PORT):
            raise BadUsage(
                f"--serve {place} is not a place to listen at; give PORT or HOST:PORT, "
                "and -- before the command: stepscope run --serve 6009 -- train.py."
            )
        is_local = is_loopback(host)
        token = choose_token(None, open_to, is_local=is_local, is_socket=False)
        # If only this machine can connect, each process creates its own token.
        return cls(host, int(port), None if is_local else token, open_to)

    def to_text(self) -> str:
        """Return the plan as text, one field per line."""
        return f"{self.host}\n{self.port}\n{self.token or ''}\n{self.open_to or ''}"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> ServePlan | None:
        """Return the plan in the environment of this process; None without a plan."""
        text = environment.get(VARIABLE)
        if text is None:
            return None
        host, port, token, open_to = text.split("\n")
        return cls(
            host, int(port), token or None, cast("OpenTo | None", open_to or None)
        )


def arm() -> None:
    """Start a server in this process if its environment contains a plan."""
    plan = ServePlan.from_environment(os.environ)
    forks = any(word.startswith(FORKS) for word in sys.orig_argv)
    if plan is None or (runs_nothing_itself(sys.orig_argv) and not forks):
        return
    _Listens(plan).wait_for_frameworks(listens_itself=not forks)


class _Listens:
    def __init__(self, plan: ServePlan) -> None:
        from stepscope.capture.launching.counting import StepCounter  # noqa: PLC0415 - keeps process startup fast
        from stepscope.remote.marked_steps import MarkedSteps  # noqa: PLC0415 - keeps process startup fast

        self._plan = plan
        self._undo = ExitStack()
        self._steps = MarkedSteps(self._undo.close)
        self._counter: StepCounter[MarkedSteps] = StepCounter(self._steps)
        self._server: Server | None = None

    def wait_for_frameworks(self, *, listens_itself: bool) -> None:
        """Count steps of frameworks, and start listening after 0.2 s.

        Args:
            listens_itself: False if only processes forked from this one listen.
        """
        arrived = harmless(self._steps.abandon)(self._count_steps)
        Arrivals({name: partial(arrived, name) for name in FRAMEWORKS}).watch()
        os.register_at_fork(after_in_child=self._begin_in_child)
        if listens_itself:
            self._begin_later()

    def _begin_later(self) -> None:
        threading.Thread(
            target=self._begin_soon, name="stepscope-serve", daemon=True
        ).start()

    def _count_steps(self, name: str) -> None:
        from stepscope.capture.launching.counting import (  # noqa: PLC0415 - keeps process startup fast
            install_step_source,
        )
        from stepscope.capture.launching.window import Phase  # noqa: PLC0415 - keeps process startup fast

        if self._steps.phase is not Phase.OVER:
            install_step_source(name, self._counter, self._undo)

    def _begin_soon(self) -> None:
        # `wait` on an event that is never set: programs may replace `time.sleep`.
        never_set = threading.Event()
        never_set.wait(_AFTER_S)
        for _ in range(_MAX_WAITS):
            if program_is_known():
                break
            never_set.wait(_AFTER_S)
        begin = harmless(lambda _reason: None)(self._begin_listening)
        if not at_safe_point(begin, within_s=MAIN_THREAD_S):
            begin()

    def _begin_listening(self) -> None:
        if is_launcher():
            return
        from stepscope.remote import server  # noqa: PLC0415 - keeps process startup fast
        from stepscope.remote.access.tokens import is_given  # noqa: PLC0415 - keeps process startup fast

        host, port, token, open_to = self._plan
        if port:
            port += int(os.environ.get(_LOCAL_RANK) or 0)
        certificate = None
        if files := os.environ.get(CERTIFICATE_VARIABLE):
            chain, key = (Path(name).read_bytes() for name in files.split("\n"))
            certificate = key, chain
        try:
            self._server = server.start(
                port, host=host, token=token, certificate=certificate, open_to=open_to
            )
        except BadUsage as error:
            if not port:
                log_line(f"{_this_process()} cannot be recorded from outside: {error}")
                return
            # Another process, perhaps of the same program, uses the port.
            self._server = server.start(
                0, host=host, token=token, certificate=certificate, open_to=open_to
            )
            log_line(f"{_this_process()} uses another port: {port} is in use")
        if token and not is_given(None):
            text = f"is recorded by other machines with the token {token}"
            log_line(f"{_this_process()} {text}")
        trust = " --certificate FILE" if certificate else ""
        log_line(
            f"{_this_process()} listens at {self._server.address}; record it with: "
            f"stepscope capture --attach {os.getpid()}{trust}"
        )

    def _begin_in_child(self) -> None:
        # A forked child has no server thread and does not own the parent's port.
        self._counter.forked()
        self._steps.forked()
        if "grpc" not in sys.modules:
            # gRPC is unreliable in a child if the parent used it before the fork.
            self._begin_later()


def _this_process() -> str:
    return f"process {os.getpid()} ({program_name()})"
