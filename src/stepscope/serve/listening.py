"""The HTTP server: one thread reads and writes all connections, other threads compute.

A thread gets a request when its head is complete, and is free again when the answer is
computed. A client that sends or reads slowly, or not at all, therefore occupies only a
connection. Connections are kept open if the client asks for it. The server limits the
time and bytes until a request is complete, the time until an answer is read, and the
number of connections. If there are too many connections, the server closes the
connection whose client has delayed the server the longest, and accepts a new one.
"""

from __future__ import annotations

import logging
import re
import selectors
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import msgspec

from stepscope.errors import BadUsage
from stepscope.serve.answering import Answer, answer_request

if TYPE_CHECKING:
    from types import TracebackType

    from _typeshed.wsgi import WSGIApplication

_LOG: Final = logging.getLogger(__name__)

#: Maximum time, in seconds, in which a client closes the connection after the answer.
#: The server reads until then, since closing first would discard the answer.
_LEAVE_S: Final = 2.0
#: Maximum number of bytes of one read or write.
_CHUNK_BYTES: Final = 256 * 2**10
#: Maximum number of new connections accepted before existing ones are served again.
_MAX_ACCEPTED: Final = 64
#: Seconds to wait after a connection could not be accepted.
_PAUSE_S: Final = 0.05

#: End of a request's head, where the request ends, because no route reads a body.
_HEAD_END: Final = re.compile(rb"\n\r?\n")
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n"
)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of time, number and size.

    Attributes:
        request_s: Seconds from the connection to the end of the request's head.
        request_bytes: Size of a request in bytes.
        answer_s: Seconds until the client has read the answer.
        rest_s: Seconds between an answer and the next request of the connection.
        threads: Number of requests that are answered at the same time.
        waiting: Number of complete requests that wait for a thread; others are refused.
        connections: Number of connections; to make space, only connections without a
            complete request are closed. Below the limit of `select` on Windows.
        held_bytes: Size of all computed answers that are not read yet, in bytes.
    """

    request_s: float = 10.0
    request_bytes: int = 256 * 2**10
    answer_s: float = 120.0
    rest_s: float = 30.0
    threads: int = 64
    waiting: int = 256
    connections: int = 400
    held_bytes: int = 512 * 2**20


class _Connection:
    """The connection of one client.

    `until_s` is the time at which the current state must end; it is not used while an
    answer is computed.
    """

    def __init__(self, sock: socket.socket, address: Any, until_s: float) -> None:
        self.socket = sock
        self.address = address
        self.state: Literal["asks", "waits", "takes", "rests", "leaves"] = "asks"
        self.until_s = until_s
        self.received = bytearray()
        self.head_bytes = 0
        self.stays = False
        self.pieces: deque[memoryview] = deque()

    @property
    def held_bytes(self) -> int:
        return sum(map(len, self.pieces))


class Server:
    """Server of one application, within limits.

    Werkzeug's handler needs the attributes that this class itself does not read.
    """

    ssl_context = None
    multithread = True
    multiprocess = False
    passthrough_errors = False

    def __init__(
        self, listener: socket.socket, app: WSGIApplication, limits: Limits
    ) -> None:
        self.server_address = listener.getsockname()
        self.host, self.port = self.server_address[:2]
        self.app = app
        self.limits = limits
        self._listener = listener
        self._listener.settimeout(0)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        # A byte sent to `_waker` wakes the thread that waits for `_woken`.
        self._woken, self._waker = socket.socketpair()
        self._woken.settimeout(0)
        self._waker.settimeout(0)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._connections: set[_Connection] = set()
        self._requests: SimpleQueue[_Connection | None] = SimpleQueue()
        self._answers: deque[tuple[_Connection, Answer]] = deque()
        self._threads: list[threading.Thread] = []
        self._unanswered = 0
        self._stopping = False
        self._stopped = threading.Event()
        self._stopped.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.server_close()

    def serve_forever(self, poll_interval: float = 0.25) -> None:
        """Serve in this thread until `shutdown`; check limits every `poll_interval`."""
        self._stopping = False
        self._stopped.clear()
        try:
            while not self._stopping:
                ready = self._selector.select(poll_interval)
                accepting = False
                # Existing connections are served before new connections are accepted.
                for key, _ in ready:
                    if key.fileobj is self._listener:
                        accepting = True
                    elif key.fileobj is self._woken:
                        self._woken.recv(_CHUNK_BYTES)
                    elif isinstance(key.data, _Connection):
                        self._advance_connection(key.data)
                while self._answers:
                    connection, answer = self._answers.popleft()
                    self._unanswered -= 1
                    self._send_answer(connection, answer)
                if accepting:
                    self._accept_connections()
                now_s = time.monotonic()
                for waiting in list(self._connections):
                    if waiting.state != "waits" and now_s > waiting.until_s:
                        self._close_connection(waiting)
        finally:
            self._stopped.set()

    def shutdown(self) -> None:
        """Stop `serve_forever`, which runs in another thread."""
        self._stopping = True
        self._wake_server()
        self._stopped.wait()

    def server_close(self) -> None:
        """Close all connections, without waiting for threads that still compute."""
        for _ in self._threads:
            self._requests.put(None)
        self._threads.clear()
        for connection in list(self._connections):
            self._close_connection(connection)
        self._selector.close()
        for sock in (self._listener, self._woken, self._waker):
            sock.close()

    def _advance_connection(self, connection: _Connection) -> None:
        try:
            if connection.state == "takes":
                self._write_chunks(connection)
                return
            data = connection.socket.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self._close_connection(connection)
            return
        connection.received += data
        is_too_long = len(connection.received) > self.limits.request_bytes
        if not data or (connection.state == "leaves" and is_too_long):
            self._close_connection(connection)
        elif connection.state != "leaves":
            self._read_on(connection, len(data))

    def _read_on(self, connection: _Connection, new: int) -> None:
        """Start answering the request if the new bytes complete it."""
        if connection.state == "rests":
            connection.state = "asks"
            connection.until_s = time.monotonic() + self.limits.request_s
        received = connection.received
        # The line break that ends the head may have started before the new bytes.
        end = _HEAD_END.search(received, max(0, len(received) - new - 2))
        if end is not None or len(received) > self.limits.request_bytes:
            connection.head_bytes = len(received) if end is None else end.end()
            self._dispatch_request(connection)

    def _dispatch_request(self, connection: _Connection) -> None:
        """Give a complete request to a thread; refuse the request if too many wait."""
        self._selector.unregister(connection.socket)
        if self._unanswered >= self.limits.threads + self.limits.waiting:
            self._send_answer(connection, Answer([_FULL], stays=False))
            return
        connection.state = "waits"
        self._unanswered += 1
        if len(self._threads) < min(self._unanswered, self.limits.threads):
            thread = threading.Thread(
                target=self._answer_requests, name="stepscope-answer", daemon=True
            )
            thread.start()
            self._threads.append(thread)
        self._requests.put(connection)

    def _answer_requests(self) -> None:
        while (connection := self._requests.get()) is not None:
            received = bytes(connection.received)
            # This class has every attribute that werkzeug's handler reads.
            server: Any = self
            answer = answer_request(received, connection.address, server)
            self._answers.append((connection, answer))
            # The request is not kept in memory while the thread waits for the next one.
            del connection, received, answer
            self._wake_server()

    def _wake_server(self) -> None:
        try:
            self._waker.send(b".")
        except BlockingIOError:
            # If the socket is full of unread bytes, the server thread wakes up anyway.
            return
        except OSError:
            _LOG.debug("an answer came after the end of the server")

    def _send_answer(self, connection: _Connection, answer: Answer) -> None:
        connection.state = "takes"
        connection.until_s = time.monotonic() + self.limits.answer_s
        connection.stays = answer.stays
        # Bytes after the head belong to the next request.
        used_bytes = connection.head_bytes if answer.stays else len(connection.received)
        del connection.received[:used_bytes]
        connection.pieces.extend(map(memoryview, answer.pieces))
        self._selector.register(connection.socket, selectors.EVENT_WRITE, connection)
        self._advance_connection(connection)
        while (
            connection.pieces
            and sum(connection.held_bytes for connection in self._connections)
            > self.limits.held_bytes
        ):
            self._close_connection(self._longest_waiting("takes") or connection)

    def _write_chunks(self, connection: _Connection) -> None:
        pieces = connection.pieces
        while pieces:
            sent = connection.socket.send(pieces[0][:_CHUNK_BYTES])
            unsent = pieces.popleft()[sent:]
            if unsent:
                pieces.appendleft(unsent)
        if connection.stays:
            connection.state = "rests"
            connection.until_s = time.monotonic() + self.limits.rest_s
            self._selector.modify(connection.socket, selectors.EVENT_READ, connection)
            if connection.received:
                self._read_on(connection, len(connection.received))
            return
        # The client now sees the end of the answer, but may still send bytes.
        connection.socket.shutdown(socket.SHUT_WR)
        connection.state = "leaves"
        connection.until_s = time.monotonic() + _LEAVE_S
        self._selector.modify(connection.socket, selectors.EVENT_READ, connection)

    def _accept_connections(self) -> None:
        for _ in range(_MAX_ACCEPTED):
            if len(self._connections) >= self.limits.connections:
                self._close_slowest()
            try:
                sock, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:
                # Accepting failed: too many files are open, or the client is gone.
                self._close_slowest()
                time.sleep(_PAUSE_S)
                return
            sock.settimeout(0)
            # Without TCP_NODELAY the body would wait for the head's acknowledgement.
            with suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            until_s = time.monotonic() + self.limits.request_s
            connection = _Connection(sock, address, until_s)
            self._connections.add(connection)
            self._selector.register(sock, selectors.EVENT_READ, connection)
            # Most requests arrive together with their connection.
            self._advance_connection(connection)

    def _close_slowest(self) -> None:
        """Close the connection whose client has delayed the server for longest."""
        orders = ("leaves", "rests", "asks", "takes")
        late = next(filter(None, map(self._longest_waiting, orders)), None)
        if late is not None:
            self._close_connection(late)

    def _longest_waiting(self, state: str) -> _Connection | None:
        waited = [peer for peer in self._connections if peer.state == state]
        return min(waited, key=lambda peer: peer.until_s, default=None)

    def _close_connection(self, connection: _Connection) -> None:
        if connection not in self._connections:
            return
        self._connections.remove(connection)
        if connection.state != "waits":
            self._selector.unregister(connection.socket)
        connection.pieces.clear()
        connection.socket.close()


def listening_server(
    host: str, port: int, app: WSGIApplication, *, limits: Limits | None = None
) -> Server:
    """Return a server whose socket listens; `serve_forever` then answers requests.

    Raises:
        BadUsage: The server cannot listen at the address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    chosen = limits or Limits()
    try:
        listener = socket.create_server(
            (host, port), family=family, backlog=chosen.connections
        )
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        message = (
            f"cannot listen at {host}, port {port} ({reason}). Choose another --port "
            "(0 selects a free port), or an address of this machine"
        )
        raise BadUsage(message) from error
    return Server(listener, app, chosen)
