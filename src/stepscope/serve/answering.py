"""Turn the bytes of one complete request into the bytes of its answer, by werkzeug.

No socket is read or written here, so that a slow client occupies no thread.
"""

from __future__ import annotations

import io
import logging
from typing import TYPE_CHECKING, Any, Final

from werkzeug.serving import WSGIRequestHandler

from stepscope.serve.security import HEADERS

if TYPE_CHECKING:
    import socket

    from werkzeug.serving import BaseWSGIServer

__all__ = ["answered"]

_LOG: Final = logging.getLogger(__name__)


def answered(
    received: bytes, connection: socket.socket, address: Any, server: BaseWSGIServer
) -> list[bytes]:
    """Answer a request in pieces that are not copied; in none where answering failed.

    Args:
        received: The head of the request, and the part of its body that has arrived.
        connection: The request's connection; werkzeug asks whether it has more data.
        address: Address of the client.
        server: The server whose application answers.
    """
    pieces = _Pieces()
    try:
        _Handler(received, pieces, connection, address, server)
    # The application answers its own defects; any other error ends one connection.
    except Exception:  # noqa: BLE001 - the edge
        _LOG.debug("a connection failed", exc_info=True)
    return pieces.written


class _Pieces(io.RawIOBase):
    """A file in memory that keeps each piece as it was written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def writable(self) -> bool:
        return True

    # The buffer's type is that of io.RawIOBase.
    def write(self, data: Any) -> int:
        if data:
            self.written.append(data)
        return len(data)


class _Handler(WSGIRequestHandler):
    """One request; its connection is closed afterwards."""

    protocol_version = "HTTP/1.1"

    def __init__(
        self,
        received: bytes,
        pieces: _Pieces,
        connection: socket.socket,
        address: Any,
        server: BaseWSGIServer,
    ) -> None:
        self._received = received
        self._pieces = pieces
        super().__init__(connection, address, server)

    def setup(self) -> None:
        """Read and write memory instead of the connection."""
        self.connection = self.request
        self.rfile = io.BufferedReader(io.BytesIO(self._received))
        self.wfile = self._pieces  # type: ignore[assignment]  # nothing is buffered

    def send_error(
        self, code: int, message: str | None = None, explain: str | None = None
    ) -> None:
        """Answer a malformed request without repeating any of it."""
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
        """Return the name of the server in its answers."""
        return "stepscope"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log no requests: a proxy can do that."""

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - werkzeug's name
        """Log an error to this library's logger, which is silent unless configured."""
        del type
        _LOG.debug(message, *args)
