"""Conversion of the bytes of a complete request into the bytes of its answer.

Werkzeug parses the request. This module uses no network socket, so a slow client
occupies no thread.
"""

from __future__ import annotations

import io
import logging
import socket
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from werkzeug.serving import WSGIRequestHandler

from stepscope.serve.security import HEADERS

if TYPE_CHECKING:
    from werkzeug.serving import BaseWSGIServer

_LOG: Final = logging.getLogger(__name__)


class Answer(NamedTuple):
    """The answer to one request.

    Attributes:
        pieces: Bytes to send, in uncopied pieces; empty if answering failed.
        stays: Whether the connection stays open for further requests: if the client
            asked for it and the request has no body.
    """

    pieces: list[bytes]
    stays: bool


def answer_request(received: bytes, address: Any, server: BaseWSGIServer) -> Answer:
    """Answer a request.

    Args:
        received: The head of the request, and the part of its body that has arrived.
        address: Address of the client.
        server: The server whose application answers.
    """
    pieces = _ChunkFile()
    try:
        handler = _Handler(received, pieces, address, server)
    # The application handles its own errors; any other error ends one connection.
    except Exception:  # noqa: BLE001 - the edge
        _LOG.debug("a connection failed", exc_info=True)
        return Answer(pieces.written, stays=False)
    return Answer(pieces.written, handler.stays)


@cache
def _ended_connection() -> socket.socket:
    """Return a socket with a closed peer, for werkzeug to check.

    Werkzeug waits a while for unread bytes on each request's socket. A closed peer
    avoids this wait; the server itself reads from the connection.
    """
    server_end, client_end = socket.socketpair()
    client_end.close()
    return server_end


class _ChunkFile(io.RawIOBase):
    """A file in memory that keeps each written piece as it is."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def writable(self) -> bool:
        return True

    # io.RawIOBase declares the type of the buffer as Any.
    def write(self, data: Any) -> int:
        if data:
            self.written.append(data)
        return len(data)


class _Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(
        self, received: bytes, pieces: _ChunkFile, address: Any, server: BaseWSGIServer
    ) -> None:
        self._received = received
        self._pieces = pieces
        self.stays = False
        super().__init__(_ended_connection(), address, server)

    def setup(self) -> None:
        self.connection = self.request
        self.rfile = io.BufferedReader(io.BytesIO(self._received))
        self.wfile = self._pieces  # type: ignore[assignment]  # nothing is buffered

    def run_wsgi(self) -> None:
        options = self.headers.get("Connection", "").lower().split(",")
        self.stays = (
            self.request_version == self.protocol_version
            and self.command in ("GET", "HEAD")
            and "keep-alive" in (option.strip() for option in options)
            and "Transfer-Encoding" not in self.headers
            and self.headers.get("Content-Length", "0") == "0"
        )
        super().run_wsgi()

    def send_header(self, keyword: str, value: str) -> None:
        """Send a header; replace the header by which werkzeug closes the connection."""
        if self.stays and keyword == "Connection":
            value = "keep-alive"
        super().send_header(keyword, value)
        # A handler has one request; the next request gets another handler.
        self.close_connection = True

    def send_error(
        self, code: int, message: str | None = None, explain: str | None = None
    ) -> None:
        """Answer a malformed request without repeating any part of it."""
        del message, explain
        self.stays = False
        # If no version is set, werkzeug would send the answer without a head.
        self.request_version = self.protocol_version
        content = b"the request is malformed or too large\n"
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
        return "stepscope"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log no requests; a proxy in front of the server can log them."""

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - werkzeug's name
        """Log an error to this module's logger, which is silent unless configured."""
        del type
        _LOG.debug(message, *args)
