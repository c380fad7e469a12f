"""`ss.server.start`: let clients record this process while it runs.

    server = ss.server.start(6009)
    train()

The server implements the ProfilerService of TensorFlow and JAX. `stepscope capture`,
TensorBoard's Capture button and `tf.profiler.experimental.client.trace` can use this
server.

Definition: docs/remote.md.
"""

from __future__ import annotations

import atexit
import os
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.base.program_log import log_line
from stepscope.errors import BadUsage, StepscopeError
from stepscope.remote import listening_programs
from stepscope.remote.access.listen_address import Place
from stepscope.remote.access.tokens import (
    TokenCheck,
    choose_token,
    describe_callers,
    is_given,
)
from stepscope.remote.access.worker_sessions import WorkerSessions
from stepscope.remote.addresses import from_this_machine, parse_addresses
from stepscope.remote.captures import Captures
from stepscope.remote.messages import (
    GetSnapshotRequest,
    Message,
    MonitorRequest,
    NewProfileSessionRequest,
    ProfileRequest,
    StopContinuousProfilingRequest,
    TerminateRequest,
    decode_message,
    encode_message,
)
from stepscope.remote.transport import (
    ANALYSIS,
    CHUNK_BYTES,
    CHUNK_SERVICE,
    SERVICE,
    DaemonThreads,
    RefusedCapture,
    grpc_module,
    start_named_threads,
)
from stepscope.xspace.wire import MalformedMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from stepscope.remote.access.tokens import OpenTo

__all__ = ["Server", "start"]

#: Maximum number of concurrent calls; the next one gets RESOURCE_EXHAUSTED.
_MAX_CALLS: Final = 16
#: Maximum bytes of a request, which usually has a few hundred.
_MAX_REQUEST_BYTES: Final = 2**20
_CERTIFICATE: Final = (
    " Its certificate has to be a private key and the chain that belongs to it (PEM)."
)


class Server:
    """A server that runs until `stop` or the end of the process.

    Attributes:
        address: Address of the server: `host:port`, or `unix:/PATH`.
        token: Token that clients must send; None if no token is needed.
    """

    def __init__(
        self, grpc_server: Any, captures: Captures, address: str, token: str | None
    ) -> None:
        self._server = grpc_server
        self.captures = captures
        self.address = address
        self.token = token
        self._process = os.getpid()

    def stop(self) -> None:
        """Stop the server, and end the recordings of its clients."""
        if os.getpid() != self._process:
            # A forked child has no server threads and would wait for them forever.
            return
        self.captures.end_everything()
        self._server.stop(None)
        listening_programs.forget_server(from_this_machine(self.address))
        atexit.unregister(self._at_exit)

    def _at_exit(self) -> None:
        self.captures.report_program_end()
        self.stop()


def start(
    port: int = 0,
    *,
    host: str = "127.0.0.1",
    logdir: str | os.PathLike[str] | None = None,
    token: str | None = None,
    certificate: tuple[bytes, bytes] | None = None,
    open_to: OpenTo | None = None,
    peers: Iterable[str] = (),
) -> Server:
    """Start a server that answers clients in background threads.

    Args:
        port: Port number; 0 for a free port, which is in `Server.address`.
        host: Address to listen at. Only this machine can connect to the default
            address. Only this user can connect to `unix:/PATH`, a socket in a private
            folder.
        logdir: Directory in which files may be written for clients. If None, clients
            only receive recordings over the network.
        token: Token that clients must send; otherwise `STEPSCOPE_TOKEN`, or a new
            token. Stepscope clients of the same user find the token. A Unix socket
            needs no token.
        certificate: Private key and certificate chain (PEM), to encrypt calls.
        open_to: Clients that may call without a token (those of TensorFlow and XProf
            cannot send one), with a warning: "machine" for any user of this machine,
            "network" for every client that can connect.
        peers: Addresses that this server calls, next to its own, for a client that
            records several programs through it (`worker_list`); unused without
            `logdir`.

    Raises:
        BadUsage: gRPC is missing, the port is invalid or in use, other users can access
            the folder of a socket, `open_to` contradicts another argument, the token
            cannot be sent, or the key does not match the certificate chain.
    """
    grpc = grpc_module()
    place = Place(host, port)
    was_given = is_given(token)
    token = choose_token(
        token, open_to, is_local=place.is_local, is_socket=place.is_socket
    )
    place.check_place()
    folder = None if logdir is None else Path(logdir).absolute()
    captures = Captures(folder)
    workers = WorkerSessions(
        folder, parse_addresses(peers) if peers else (), captures.allowance
    )
    grpc_server = grpc.server(
        DaemonThreads(),
        options=(
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", _MAX_REQUEST_BYTES),
            ("grpc.so_reuseport", 0),
        ),
        interceptors=() if token is None else (TokenCheck(grpc, token),),
        maximum_concurrent_rpcs=_MAX_CALLS,
    )
    for service, methods in (
        _Answers(grpc, captures, workers).service_handlers().items()
    ):
        grpc_server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, methods),)
        )
    try:
        if certificate is None:
            bound = grpc_server.add_insecure_port(place.target)
        else:
            credentials = grpc.ssl_server_credentials([certificate])
            bound = grpc_server.add_secure_port(place.target, credentials)
    except RuntimeError as error:
        remedy = "" if certificate is None else _CERTIFICATE
        raise BadUsage(f"{place.refused_place(error)}{remedy}") from error
    place = place.bound_place(bound)
    server = Server(grpc_server, captures, place.target, token)
    workers.allow_addresses(server.address, from_this_machine(server.address))
    start_named_threads(grpc_server.start)
    # The exit handler ends all calls before the interpreter shuts down.
    atexit.register(server._at_exit)  # noqa: SLF001 - a class of this module
    _announce_server(place, token, open_to, was_given=was_given)
    return server


def _announce_server(
    place: Place, token: str | None, open_to: str | None, *, was_given: bool
) -> None:
    """Register the server for clients of this user, and log who else may call."""
    problem = listening_programs.note_server(from_this_machine(place.target), token)
    if problem is not None:
        log_line(problem)
    if open_to is not None:
        sentence = describe_callers(open_to, is_local=place.is_local)
        log_line(f"at {place.target} {sentence}")
    elif token is not None and not place.is_local:
        shown = "that it was given" if was_given else token
        log_line(
            f"clients record this program at {place.target} with the token {shown}"
        )


class _Answers:
    def __init__(self, grpc: Any, captures: Captures, workers: WorkerSessions) -> None:
        self._grpc = grpc
        self._captures = captures
        self._workers = workers

    def service_handlers(self) -> dict[str, dict[str, Any]]:
        captures, method = self._captures, self._method_handler
        return {
            SERVICE: {
                "Profile": method(ProfileRequest, captures.profile, waits=True),
                "Terminate": method(TerminateRequest, captures.terminate_session),
                "Monitor": method(MonitorRequest, captures.describe_program, owns=True),
                "StartContinuousProfiling": method(
                    ProfileRequest, captures.start_continuous, owns=True
                ),
                "GetSnapshot": method(
                    GetSnapshotRequest, captures.take_snapshot, owns=True
                ),
                "StopContinuousProfiling": method(
                    StopContinuousProfilingRequest, captures.stop_continuous, owns=True
                ),
            },
            ANALYSIS: {
                "NewSession": method(
                    NewProfileSessionRequest, self._workers.record_hosts
                )
            },
            CHUNK_SERVICE: {
                "Profile": self._grpc.unary_stream_rpc_method_handler(self._send_pieces)
            },
        }

    def _method_handler(
        self,
        kind: type[Message],
        answer: Callable[..., Message | None],
        *,
        waits: bool = False,
        owns: bool = False,
    ) -> Any:
        """Return a gRPC handler that decodes a request and encodes the answer.

        An answer without fields has no bytes, whatever its type.

        Args:
            waits: Whether `answer` takes an event that is set when the client is gone.
            owns: Whether `answer` also takes the client's address, as the owner.
        """

        def handle(data: bytes, context: Any) -> bytes:
            with self._refusals_sent(kind, context):
                request = decode_message(kind, data)
                arguments = [_disconnection_event(context)] if waits else []
                arguments += [context.peer()] if owns else []
                return encode_message(answer(request, *arguments) or Message())
            raise AssertionError("a refusal is raised")

        return self._grpc.unary_unary_rpc_method_handler(handle)

    def _send_pieces(self, data: bytes, context: Any) -> Iterator[bytes]:
        """Record, and yield the recording in pieces, with one copy in memory."""
        with self._refusals_sent(ProfileRequest, context):
            request = decode_message(ProfileRequest, data)
            content = self._captures.record(request, _disconnection_event(context))
        for start in range(0, len(content), CHUNK_BYTES):
            yield content[start : start + CHUNK_BYTES]

    @contextmanager
    def _refusals_sent(self, kind: type[Message], context: Any) -> Iterator[None]:
        codes = self._grpc.StatusCode
        try:
            yield
        except MalformedMessage:
            text = f"the request is not a valid {kind.__name__}"
            context.abort(codes.INVALID_ARGUMENT, text)
        except RefusedCapture as refused:
            context.abort(getattr(codes, refused.why.value), str(refused))
        except StepscopeError as error:
            context.abort(codes.INTERNAL, str(error))


def _disconnection_event(context: Any) -> threading.Event:
    gone = threading.Event()
    if not context.add_callback(gone.set):
        gone.set()
    return gone
