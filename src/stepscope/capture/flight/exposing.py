"""An HTTP server in the training process, where Prometheus looks for `/metrics`."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final

from stepscope.capture.flight.gauges import CONTENT_TYPE
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Callable

_PATH: Final = "/metrics"
#: A client that sends nothing is let go of.
_PATIENCE_S: Final = 5.0
_LAST_PORT: Final = 65535
_LOOPBACK: Final = "127.0.0.1"


class MetricsServer:
    """Answers `/metrics` until it is stopped.

    Attributes:
        address: `host:port` that it listens at.
    """

    def __init__(self, where: int | str, text: Callable[[], str]) -> None:
        """Listen.

        Args:
            where: A port of this machine alone, 0 for a free one; or `host:port`.
            text: Gives what is answered.

        Raises:
            BadUsage: It cannot listen there.
        """
        host, _, port = str(where).rpartition(":")
        if not port.isdecimal() or int(port) > _LAST_PORT:
            raise BadUsage(
                f"metrics={where!r} is no port and no host:port; give for instance "
                '9464, or "0.0.0.0:9464" for other machines too.'
            )
        try:
            self._server = _Server(
                (host.strip("[]") or _LOOPBACK, int(port)), _handler(text)
            )
        except OSError as error:
            raise BadUsage(
                f"metrics={where!r}: cannot listen there ({error.strerror or error}); "
                "give another port, or 0 for a free one."
            ) from error
        found, bound = self._server.server_address[:2]
        self.address = f"{found!s}:{bound}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="stepscope-metrics", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()

    def forked(self) -> None:
        """In a child: the port is its parent's."""
        self._server.socket.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that go: the program's output is its own."""


def _handler(text: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE_S

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != _PATH:
                self.send_error(404)
                return
            body = text().encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as declared there
            """Log nothing of requests."""

    return Handler
