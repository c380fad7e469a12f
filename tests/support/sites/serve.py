"""A real server on loopback for each test, and a client that asks it."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stepscope.serve.app import App
from stepscope.serve.listening import Limits, Server, listening_server
from stepscope.serve.pages import page_files
from stepscope.serve.runs.source import open_source
from stepscope.serve.runs.store import Store
from stepscope.serve.security import Policy, make_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stepscope.serve.recorder import Capturing
    from stepscope.serve.runs.program_files import ProgramFiles

#: Long ago, so that the files count as written.
OLD = 1_700_000_000


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        code: str = self.json["error"]["code"]
        return code


@dataclass(frozen=True)
class Site:
    """A running server."""

    port: int
    store: Store
    server: Server | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers)

    def ask(
        self,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        named = {name.replace("_", "-"): one for name, one in (headers or {}).items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(
                method, f"/{path}", body=body, headers={**self.headers, **named}
            )
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def raw(self, data: bytes, *, timeout_s: float = 50) -> bytes:
        """Everything that comes back for these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout_s) as sent:
            sent.sendall(data)
            return drained(sent)

    @property
    def lives(self) -> bool:
        return self.get("data/status").status == 200


def drained(connection: socket.socket) -> bytes:
    parts = []
    while True:
        try:
            part = connection.recv(65536)
        except ConnectionError:
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


def put(
    logdir: Path, run: str, host: str, content: bytes, *, unix_s: float | None = OLD
) -> Path:
    """A file of a run; written long ago, or just now where None."""
    path = logdir / "plugins" / "profile" / run / f"{host}.xplane.pb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if unix_s is not None:
        os.utime(path, (unix_s, unix_s))
    return path


@contextmanager
def running(
    logdir: Path | str,
    *,
    limits: Limits | None = None,
    policy: Callable[[int], Policy | None] | None = None,
    captures: Callable[[Store], Capturing] | None = None,
    program: ProgramFiles | None = None,
    **options: Any,
) -> Iterator[Site]:
    store = Store(open_source(str(logdir)), **options)
    server = listening_server("127.0.0.1", 0, lambda *_: [], limits=limits)
    chosen = make_policy("127.0.0.1", server.port) if policy is None else None
    server.app = App(
        store,
        page_files(),
        policy=policy(server.port) if policy else chosen,
        captures=captures(store) if captures else None,
        program=program,
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield Site(server.port, store, server)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
