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
from stepscope.formats.file_systems import is_url
from stepscope.remote import client, registry
from stepscope.remote.addresses import is_loopback
from stepscope.remote.captures import Captures, Refusal, RefusedCapture
from stepscope.remote.destinations import Destination
from stepscope.remote.messages import (
    ContinuousProfilingResponse,
    GetSnapshotRequest,
    MalformedMessage,
    Message,
    MonitorRequest,
    NewProfileSessionRequest,
    NewProfileSessionResponse,
    ProfileRequest,
    StopContinuousProfilingRequest,
    StopContinuousProfilingResponse,
    TerminateRequest,
    TerminateResponse,
    decode,
    encode,
)
from stepscope.remote.transport import (
    ANALYSIS,
    METADATA_KEY,
    SERVICE,
    DaemonThreads,
    bearer,
    begin_as_ours,
    checked_token,
    grpc_module,
)

if TYPE_CHECKING:
    from collections.abc import Callable

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
        atexit.unregister(self._at_exit)

    def _at_exit(self) -> None:
        self.captures.tell_end()
        self.stop()


def start(
    port: int = 0,
    *,
    host: str = "127.0.0.1",
    logdir: str | os.PathLike[str] | None = None,
    token: str | None = None,
    certificate: tuple[bytes, bytes] | None = None,
) -> Server:
    """Begin to answer clients, in threads of its own.

    Args:
        port: 0 takes a free one; `Server.address` says which.
        host: The address to listen at. Only this machine reaches the default.
        logdir: Clients may have files written below it. Without it they may below any
            log directory that exists, where only this machine can ask, and nowhere
            else; they get the recording over the wire then.
        token: What clients have to send. Where other machines can ask, one is made
            unless given. Clients of TensorFlow and XProf cannot send any.
        certificate: Private key and certificate chain (PEM): calls are encrypted.

    Raises:
        BadUsage: gRPC is not installed, the port is taken, there is no such one, the
            token cannot be sent, or the key and the chain do not belong together.
    """
    grpc = grpc_module()
    if not 0 <= port <= _LAST_PORT:
        raise BadUsage(f"port={port} does not exist; give 0 to {_LAST_PORT}.")
    if port and _is_taken(host, port):
        raise BadUsage(_CANNOT.format(f"{host}:{port}", "it is taken"))
    if token is not None:
        checked_token(token, "token=, STEPSCOPE_TOKEN")
    is_local = is_loopback(host)
    if token is None and not is_local:
        token = secrets.token_urlsafe(16)
    captures = Captures(None if logdir is None else Path(logdir), is_local=is_local)
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
    answers = _Answers(grpc, captures, token, is_local=is_local)
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
    begin_as_ours(made.start)
    registry.note(f"{_REACHED_BY.get(host, host)}:{bound}", token)
    # A call that is answered must not find half an interpreter.
    atexit.register(server._at_exit)  # noqa: SLF001 - its own module
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
        self, grpc: Any, captures: Captures, token: str | None, *, is_local: bool
    ) -> None:
        self._grpc = grpc
        self._captures = captures
        self._token = token
        self._is_local = is_local

    def services(self) -> dict[str, dict[str, Any]]:
        """Return the handlers of each service's methods."""
        recorded = self._captures
        return {
            SERVICE: {
                "Profile": self._method(ProfileRequest, recorded.profile, waits=True),
                "Terminate": self._method(TerminateRequest, self._terminate),
                "Monitor": self._method(MonitorRequest, recorded.monitor, owns=True),
                "StartContinuousProfiling": self._method(
                    ProfileRequest, self._start_continuous, owns=True
                ),
                "GetSnapshot": self._method(
                    GetSnapshotRequest, recorded.snapshot, owns=True
                ),
                "StopContinuousProfiling": self._method(
                    StopContinuousProfilingRequest, self._stop_continuous, owns=True
                ),
            },
            ANALYSIS: {
                "NewSession": self._method(NewProfileSessionRequest, self._new_session),
            },
        }

    def _method(
        self,
        kind: type[Message],
        answer: Callable[..., Message],
        *,
        waits: bool = False,
        owns: bool = False,
    ) -> Any:
        """Return a handler: bytes to message, answer, and message to bytes.

        Args:
            kind: The request.
            answer: Takes the request, and returns the answer.
            waits: The answer also takes an event, which is set when the client is gone.
            owns: The answer also takes the peer, to whom what it begins belongs.
        """
        codes = self._grpc.StatusCode

        def handle(data: bytes, context: Any) -> bytes:
            self._admit(context)
            gone = threading.Event()
            if not context.add_callback(gone.set):
                gone.set()
            try:
                request = decode(kind, data)
                told = (gone,) if waits else (context.peer(),) if owns else ()
                return encode(answer(request, *told))
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

    def _start_continuous(
        self, request: ProfileRequest, peer: str
    ) -> ContinuousProfilingResponse:
        self._captures.start_continuous(request, peer)
        return ContinuousProfilingResponse()

    def _stop_continuous(
        self, request: StopContinuousProfilingRequest, peer: str
    ) -> StopContinuousProfilingResponse:
        self._captures.stop_continuous(request, peer)
        return StopContinuousProfilingResponse()

    def _new_session(
        self, request: NewProfileSessionRequest
    ) -> NewProfileSessionResponse:
        """Record on all hosts that are named, this one among them, for a client."""
        if not self._is_local:
            raise RefusedCapture(
                Refusal.FAILED_PRECONDITION,
                "this server calls no other host for a client of another machine; "
                "give all addresses to the client (stepscope capture A B …).",
            )
        given = request.repository_root or request.request.repository_root
        if is_url(given):
            # This program's credentials are not its clients'.
            raise RefusedCapture(
                Refusal.FAILED_PRECONDITION,
                f"{given} is no directory of this machine, and this server writes no "
                "object store for a client; use stepscope capture A B --logdir URL.",
            )
        root = Path(given)
        session = request.session_id or request.request.session_id
        try:
            outcome = client.record(
                request.hosts,
                destination=Destination.folder(root / session),
                request=request.request,
                allow_partial=True,
            )
        except StepscopeError as error:
            return NewProfileSessionResponse(error_message=str(error))
        return NewProfileSessionResponse(
            error_message=outcome.problems(), empty_trace=not outcome.hosts
        )
