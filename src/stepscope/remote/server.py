"""`ss.server.start`: let clients record this process while it works.

    server = ss.server.start(6009)
    train()

It speaks the ProfilerService of TensorFlow and JAX, so that `stepscope capture`,
TensorBoard's Capture button and `tf.profiler.experimental.client.trace` all record it.

Definition: docs/remote.md.
"""

from __future__ import annotations

import atexit
import errno
import hmac
import logging
import os
import secrets
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepscope.errors import BadUsage, StepscopeError
from stepscope.remote import registry
from stepscope.remote.access.peers import WorkerSessions
from stepscope.remote.addresses import addresses, is_loopback
from stepscope.remote.captures import Captures, RefusedCapture
from stepscope.remote.messages import (
    ContinuousProfilingResponse,
    GetSnapshotRequest,
    MalformedMessage,
    Message,
    MonitorRequest,
    NewProfileSessionRequest,
    ProfileRequest,
    StopContinuousProfilingRequest,
    StopContinuousProfilingResponse,
    TerminateRequest,
    TerminateResponse,
    decode,
    encode,
)
from stepscope.remote.threads import DaemonThreads, begin_as_ours
from stepscope.remote.transport import (
    ANALYSIS,
    METADATA_KEY,
    SERVICE,
    bearer,
    grpc_module,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Server", "start"]

_log: Final = logging.getLogger("stepscope")
#: Calls that are answered at once; the next one gets RESOURCE_EXHAUSTED.
_MOST_CALLS: Final = 16
#: A request is a few hundred bytes.
_MOST_REQUEST_BYTES: Final = 2**20
_LAST_PORT: Final = 65535
_CANNOT: Final = (
    "the server cannot listen at {} ({}); give another port, or 0 for a free one."
)
_CERTIFICATE: Final = (
    " Its certificate has to be a private key and the chain that belongs to it (PEM)."
)
#: Hosts that mean all addresses of a machine, and the one that itself reaches them by.
_REACHED_BY: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "::": "[::1]"}  # noqa: S104 - nothing is bound here


class Server:
    """A server that runs until `stop` or the end of the process.

    Attributes:
        address: `host:port` that it listens at.
        token: What clients have to know; None where only this machine can ask.
        captures: What clients had recorded.
    """

    def __init__(self, grpc_server: Any, captures: Captures) -> None:
        """Hold a server that is not started yet; `start` makes one."""
        self._server = grpc_server
        self.captures = captures
        self.address = ""
        self.token: str | None = None
        self._process = os.getpid()

    def stop(self) -> None:
        """Answer no more calls, and end what is being recorded for one."""
        if os.getpid() != self._process:
            # A forked child has none of the threads, and would wait for them in vain.
            return
        self.captures.end_all()
        self._server.stop(None)
        registry.forget()
        atexit.unregister(self.stop)


def start(
    port: int = 0,
    *,
    host: str = "127.0.0.1",
    logdir: str | os.PathLike[str] | None = None,
    token: str | None = None,
    certificate: tuple[bytes, bytes] | None = None,
    peers: Iterable[str] = (),
) -> Server:
    """Begin to answer clients, in threads of its own.

    Args:
        port: 0 takes a free one; `Server.address` says which.
        host: The address to listen at. Only this machine reaches the default.
        logdir: Clients may have files written below it. Without it they may nowhere,
            and get the recording over the wire.
        token: What clients have to send. Where other machines can ask, one is made
            unless given. Clients of TensorFlow and XProf cannot send any.
        certificate: Private key and certificate chain (PEM): calls are encrypted.
        peers: Addresses that this server calls for a client that has it record several
            programs (`worker_list` of TensorFlow's and XProf's clients), as the client
            writes them. Its own is always one; without `logdir` it calls nobody.

    Raises:
        BadUsage: gRPC is not installed, the port is taken, there is no such one, or
            the key and the chain do not belong together.
    """
    grpc = grpc_module()
    if not 0 <= port <= _LAST_PORT:
        raise BadUsage(f"port={port} does not exist; give 0 to {_LAST_PORT}.")
    if port and _is_taken(host, port):
        raise BadUsage(_CANNOT.format(f"{host}:{port}", "it is taken"))
    is_local = is_loopback(host)
    if token is None and not is_local:
        token = secrets.token_urlsafe(16)
    folder = None if logdir is None else Path(logdir).absolute()
    captures = Captures(folder)
    called = addresses(peers) if peers else ()
    made = grpc.server(
        DaemonThreads(),
        options=(
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", _MOST_REQUEST_BYTES),
            ("grpc.so_reuseport", 0),
        ),
        maximum_concurrent_rpcs=_MOST_CALLS,
    )
    server = Server(made, captures)
    workers = WorkerSessions(folder, called)
    answers = _Answers(grpc, captures, workers, token)
    for service, methods in answers.services().items():
        made.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, methods),)
        )
    where = f"{host}:{port}"
    try:
        if certificate is None:
            bound = made.add_insecure_port(where)
        else:
            credentials = grpc.ssl_server_credentials([certificate])
            bound = made.add_secure_port(where, credentials)
    except RuntimeError as error:
        remedy = "" if certificate is None else _CERTIFICATE
        raise BadUsage(_CANNOT.format(where, error) + remedy) from error
    server.address, server.token = f"{host}:{bound}", token
    workers.allow(server.address, f"{_REACHED_BY.get(host, host)}:{bound}")
    begin_as_ours(made.start)
    registry.note(f"{_REACHED_BY.get(host, host)}:{bound}", token)
    # A call that is answered must not find half an interpreter.
    atexit.register(server.stop)
    if token is not None and not is_local:
        _log.warning(
            "stepscope: clients record this program at %s with the token %s",
            server.address,
            token,
        )
    return server


def _is_taken(host: str, port: int) -> bool:
    """Return whether another program listens there; gRPC would log its own error."""
    try:
        socket.create_server((host.strip("[]"), port), family=_family(host)).close()
    except OSError as error:
        return error.errno == errno.EADDRINUSE
    return False


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


class _Answers:
    """What each method of the services answers."""

    def __init__(
        self,
        grpc: Any,
        captures: Captures,
        workers: WorkerSessions,
        token: str | None,
    ) -> None:
        self._grpc = grpc
        self._captures = captures
        self._workers = workers
        self._token = token

    def services(self) -> dict[str, dict[str, Any]]:
        """Return the handlers of each service's methods."""
        recorded = self._captures
        return {
            SERVICE: {
                "Profile": self._method(ProfileRequest, recorded.profile, waits=True),
                "Terminate": self._method(TerminateRequest, self._terminate),
                "Monitor": self._method(MonitorRequest, recorded.monitor),
                "StartContinuousProfiling": self._method(
                    ProfileRequest, self._start_continuous
                ),
                "GetSnapshot": self._method(
                    GetSnapshotRequest, lambda _: recorded.snapshot()
                ),
                "StopContinuousProfiling": self._method(
                    StopContinuousProfilingRequest, self._stop_continuous
                ),
            },
            ANALYSIS: {
                "NewSession": self._method(
                    NewProfileSessionRequest, self._workers.record
                ),
            },
        }

    def _method(
        self,
        kind: type[Message],
        answer: Callable[..., Message],
        *,
        waits: bool = False,
    ) -> Any:
        """Return a handler: bytes to message, answer, and message to bytes."""
        codes = self._grpc.StatusCode

        def handle(data: bytes, context: Any) -> bytes:
            self._admit(context)
            gone = threading.Event()
            if not context.add_callback(gone.set):
                gone.set()
            try:
                request = decode(kind, data)
                return encode(answer(request, gone) if waits else answer(request))
            except MalformedMessage:
                text = f"the bytes are no {kind.__name__}"
                context.abort(codes.INVALID_ARGUMENT, text)
            except RefusedCapture as refused:
                context.abort(getattr(codes, refused.why.value), str(refused))
            except StepscopeError as error:
                context.abort(codes.INTERNAL, str(error))
            raise AssertionError("abort raises")

        return self._grpc.unary_unary_rpc_method_handler(handle)

    def _admit(self, context: Any) -> None:
        if self._token is None:
            return
        sent = dict(context.invocation_metadata()).get(METADATA_KEY, "")
        if not hmac.compare_digest(str(sent).encode(), bearer(self._token).encode()):
            context.abort(
                self._grpc.StatusCode.UNAUTHENTICATED,
                "this server wants a token, which its program printed when it started",
            )

    def _terminate(self, request: TerminateRequest) -> TerminateResponse:
        self._captures.terminate(request.session_id)
        return TerminateResponse()

    def _start_continuous(self, request: ProfileRequest) -> ContinuousProfilingResponse:
        self._captures.start_continuous(request)
        return ContinuousProfilingResponse()

    def _stop_continuous(
        self, _request: StopContinuousProfilingRequest
    ) -> StopContinuousProfilingResponse:
        self._captures.stop_continuous()
        return StopContinuousProfilingResponse()
