"""The HTTP server: werkzeug's threaded one with an end to everything.

A request has so long and so many bytes until it is complete, an answer so long to be
taken, and there are so many threads. When all are taken, the connection that has been
sending its request for longest makes room for the new one: who sends slowly is not
served, and keeps nobody out.
"""

from __future__ import annotations

import io
import logging
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from stepscope.errors import BadUsage
from stepscope.serve.security import HEADERS

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

__all__ = ["MOST_THREADS", "Limits", "Server", "listen"]

_LOG: Final = logging.getLogger(__name__)

MOST_THREADS: Final = 64
#: A request with its headers and its body.
_REQUEST_S: Final = 10.0
_REQUEST_BYTES: Final = 256 * 2**10
#: The client takes the whole answer.
_ANSWER_S: Final = 120.0
#: A connection that was told to go leaves its thread within this.
_LEAVE_S: Final = 2.0
_WAITING: Final = 128

_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n"
)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long and how much.

    Attributes:
        request_s: From the connection to the end of the request.
        request_bytes: Of the request.
        answer_s: Until the answer is taken.
        threads: Connections served at the same time.
    """

    request_s: float = _REQUEST_S
    request_bytes: int = _REQUEST_BYTES
    answer_s: float = _ANSWER_S
    threads: int = MOST_THREADS


class _Request(io.RawIOBase):
    """What a client sends, up to a moment and a number of bytes."""

    def __init__(self, connection: socket.socket, limits: Limits) -> None:
        self._connection = connection
        self._until_s = time.monotonic() + limits.request_s
        self._room = limits.request_bytes

    def readable(self) -> bool:
        return True

    # The buffer's type is that of io.RawIOBase.
    def readinto(self, buffer: Any) -> int:
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connection.settimeout(left_s)
        view = memoryview(buffer)[: self._room]
        # No room left reads as the end of the request.
        count = self._connection.recv_into(view) if view else 0
        self._room -= count
        return count


class _Handler(WSGIRequestHandler):
    """One connection; it is closed after its one request."""

    protocol_version = "HTTP/1.1"
    server: Server

    def setup(self) -> None:
        """Bound what is read."""
        super().setup()
        self.rfile.close()
        limits = self.server.limits
        self.rfile = io.BufferedReader(_Request(self.connection, limits))
        self.server.awaits_request(self.connection)

    def run_wsgi(self) -> None:
        """The request's head is complete: nobody may take the thread any more."""
        self.server.has_request(self.connection)
        self.connection.settimeout(self.server.limits.answer_s)
        super().run_wsgi()

    def send_error(
        self, code: int, message: str | None = None, explain: str | None = None
    ) -> None:
        """Answer what is no proper request, without repeating any of it."""
        del message, explain
        # A broken request has no version, and its answer would have no head.
        self.request_version = self.protocol_version
        content = b"the request is broken or too large\n"
        self.log_request(code)
        self.send_response_only(code)
        for name, value in (
            *HEADERS,
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(content))),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        if self.command != "HEAD":
            self.wfile.write(content)

    def version_string(self) -> str:
        """What the answers call the server."""
        return "stepscope"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Who wants a line for each request has a proxy for it."""

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - werkzeug's name
        """Hand what went wrong to this library's logger, which nobody configured."""
        del type
        _LOG.debug(message, *args)


class Server(ThreadedWSGIServer):
    """Serves one application; see the module."""

    def __init__(
        self, listener: socket.socket, app: WSGIApplication, limits: Limits
    ) -> None:
        host, port = listener.getsockname()[:2]
        self.limits = limits
        self._slots = threading.BoundedSemaphore(limits.threads)
        #: Connections whose request is not complete, oldest first.
        self._awaiting: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        super().__init__(host, port, app, handler=_Handler, fd=listener.fileno())

    def awaits_request(self, connection: socket.socket) -> None:
        """A connection begins to send."""
        with self._lock:
            self._awaiting[connection] = None

    def has_request(self, connection: socket.socket) -> None:
        """A connection has sent its request, or is gone."""
        with self._lock:
            self._awaiting.pop(connection, None)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection a thread, where one can be had."""
        if not self._slots.acquire(blocking=False):
            self._make_room()
            if not self._slots.acquire(timeout=_LEAVE_S):
                self._turn_away(request)
                return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.has_request(request)
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection went wrong: the others go on."""
        del request, client_address
        _LOG.debug("a connection failed", exc_info=True)

    def _make_room(self) -> None:
        with self._lock:
            slowest = next(iter(self._awaiting), None)
            if slowest is None:
                return
            del self._awaiting[slowest]
        try:
            # Its thread sees the end of the request, and leaves.
            slowest.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def _turn_away(self, request: socket.socket) -> None:
        try:
            request.settimeout(_LEAVE_S)
            request.sendall(_FULL)
        except OSError:
            _LOG.debug("a connection was gone before it was turned away")
        self.shutdown_request(request)


def listen(
    host: str, port: int, app: WSGIApplication, *, limits: Limits | None = None
) -> Server:
    """A server that listens, and serves once its `serve_forever` is called.

    Raises:
        BadUsage: The address cannot be listened at.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server(
            (host, port), family=family, backlog=_WAITING
        ) as listener:
            return Server(listener, app, limits or Limits())
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        message = (
            f"cannot listen at {host}, port {port} ({why}). Choose another --port "
            "(0 takes any free one), or an address of this machine"
        )
        raise BadUsage(message) from error
