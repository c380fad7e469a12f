"""Recordings of several programs that a client asks one server for (`NewSession`).

What a client sends is never read as a person's words: of its hosts only addresses that
the program named at its start are called, and all is checked before anybody is.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import msgspec

from stepscope.errors import StepscopeError
from stepscope.remote import client
from stepscope.remote.addresses import is_loopback
from stepscope.remote.captures import Refusal, RefusedCapture, check_request
from stepscope.remote.destinations import client_destination
from stepscope.remote.messages import NewProfileSessionResponse

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from stepscope.remote.destinations import Allowance
    from stepscope.remote.messages import NewProfileSessionRequest


class WorkerSessions:
    """The programs that clients may have recorded through this one.

    Args:
        logdir: Below it recordings are written; None means nowhere, so that nothing
            is recorded.
        peers: Addresses that may be called, as clients write them.
    """

    def __init__(
        self, logdir: Path | None, peers: Iterable[str], allowance: Allowance
    ) -> None:
        self._logdir = logdir
        self._allowance = allowance
        self._allowed = set(peers)
        self._one = threading.Lock()

    def allow_addresses(self, *addresses: str) -> None:
        """Let more addresses be called: the server's own are known when it listens."""
        for address in addresses:
            self._allowed.add(address)
            host, _, port = address.rpartition(":")
            if is_loopback(host):
                self._allowed.add(f"localhost:{port}")

    def record_hosts(
        self, request: NewProfileSessionRequest
    ) -> NewProfileSessionResponse:
        """Record on all hosts that are named, at the same time, for a client.

        Raises:
            RefusedCapture: A host is none that may be called, the files may not be
                written where the client wants them, the request makes no sense, or
                such a recording is under way.
        """
        hosts = tuple(dict.fromkeys(request.hosts))
        if not hosts or not self._allowed.issuperset(hosts):
            raise RefusedCapture(
                Refusal.PERMISSION_DENIED,
                "a host of the request is none that this server calls: itself, and "
                "those that its program named (ss.server.start(peers=[…])). Name "
                "them there, or give all addresses to the client "
                "(stepscope capture A B …).",
            )
        place = client_destination(
            self._logdir,
            request.repository_root or request.request.repository_root,
            request.session_id or request.request.session_id,
            self._allowance,
        )
        if place is None:
            raise RefusedCapture(
                Refusal.PERMISSION_DENIED,
                "this server writes no files where the request wants them: only below "
                "the directory that its program named (ss.server.start(logdir=…)). "
                "Name a directory above, or give all addresses to the client "
                "(stepscope capture A B …).",
            )
        duration_ms, _ = check_request(request.request)
        if not duration_ms:
            return NewProfileSessionResponse(empty_trace=True)
        # Each host hands its recording over: it writes nothing itself.
        asked = msgspec.structs.replace(
            request.request,
            duration_ms=duration_ms,
            repository_root="",
            emit_xspace=True,
        )
        if not self._one.acquire(blocking=False):
            raise RefusedCapture(
                Refusal.ALREADY_EXISTS,
                "this server records several hosts already; ask when that is over.",
            )
        try:
            outcome = client.record(
                hosts, destination=place, request=asked, allow_partial=True
            )
        except StepscopeError as error:
            return NewProfileSessionResponse(error_message=str(error))
        finally:
            self._one.release()
        return NewProfileSessionResponse(
            error_message=outcome.problems(), empty_trace=not outcome.hosts
        )
