"""Recordings of several programs that a client requests from one server (`NewSession`).

A client's input is not trusted. The server calls only addresses that its program named
at the start, and checks the whole request before it calls any of them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import msgspec

from stepscope.errors import StepscopeError
from stepscope.remote import client
from stepscope.remote.addresses import is_loopback
from stepscope.remote.captures import check_request
from stepscope.remote.destinations import client_destination
from stepscope.remote.messages import NewProfileSessionResponse
from stepscope.remote.transport import Refusal, RefusedCapture

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from stepscope.remote.destinations import Allowance
    from stepscope.remote.messages import NewProfileSessionRequest


class WorkerSessions:
    """The programs that a client may record through this server.

    Args:
        logdir: Directory for recordings; None disables recording through this server.
        peers: Addresses that may be called, as clients write them.
        allowance: Limit of what clients may write to disk.
    """

    def __init__(
        self, logdir: Path | None, peers: Iterable[str], allowance: Allowance
    ) -> None:
        self._logdir = logdir
        self._allowance = allowance
        self._allowed = set(peers)
        self._recording_lock = threading.Lock()

    def allow_addresses(self, *addresses: str) -> None:
        """Allow more addresses; the server's own address is known once it listens."""
        for address in addresses:
            self._allowed.add(address)
            host, _, port = address.rpartition(":")
            if is_loopback(host):
                self._allowed.add(f"localhost:{port}")

    def record_hosts(
        self, request: NewProfileSessionRequest
    ) -> NewProfileSessionResponse:
        """Record all hosts of a client's request at the same time.

        Raises:
            RefusedCapture: A host may not be called, the client may not write to the
                requested directory, the request is invalid, or another recording of
                several hosts is in progress.
        """
        hosts = tuple(dict.fromkeys(request.hosts))
        if not hosts or not self._allowed.issuperset(hosts):
            raise RefusedCapture(
                Refusal.PERMISSION_DENIED,
                "the request names a host that this server may not call. It calls "
                "itself and the hosts that its program named "
                "(ss.server.start(peers=[…])). Add the host there, or give all "
                "addresses to the client (stepscope capture A B …).",
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
                "this server may not write files to the requested directory, only "
                "below the directory that its program named "
                "(ss.server.start(logdir=…)). Name a parent directory there, or give "
                "all addresses to the client (stepscope capture A B …).",
            )
        duration_ms, _ = check_request(request.request)
        if not duration_ms:
            return NewProfileSessionResponse(empty_trace=True)
        # The hosts return their recordings and write no files.
        host_request = msgspec.structs.replace(
            request.request,
            duration_ms=duration_ms,
            repository_root="",
            emit_xspace=True,
        )
        if not self._recording_lock.acquire(blocking=False):
            raise RefusedCapture(
                Refusal.ALREADY_EXISTS,
                "this server is already recording several hosts; try again later.",
            )
        try:
            outcome = client.record(
                hosts, destination=place, request=host_request, allow_partial=True
            )
        except StepscopeError as error:
            return NewProfileSessionResponse(error_message=str(error))
        finally:
            self._recording_lock.release()
        return NewProfileSessionResponse(
            error_message=outcome.problems(), empty_trace=not outcome.hosts
        )
