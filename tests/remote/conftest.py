"""Servers for the tests of recording from outside, all on loopback."""

from __future__ import annotations

from concurrent import futures
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from stepscope.remote import server
from stepscope.remote.transport import SERVICE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _own_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))


@pytest.fixture
def ours() -> Iterator[server.Server]:
    """A server in this process."""
    started = server.start(0)
    yield started
    started.stop()


@pytest.fixture
def calls(ours: server.Server) -> Iterator[Callable[..., bytes]]:
    """Call a method of the server in this process with any bytes."""
    with grpc.insecure_channel(ours.address) as channel:

        def call(
            method: str, data: bytes, *, service: str = SERVICE, limit_s: float = 30
        ) -> bytes:
            answer: bytes = channel.unary_unary(f"/{service}/{method}")(
                data, timeout=limit_s
            )
            return answer

        yield call


@pytest.fixture
def answering() -> Iterator[Callable[[Callable[[bytes, Any], bytes]], str]]:
    """Start a server that answers `Profile` in its own way; return its address."""
    started = []

    def start(answer: Callable[[bytes, Any], bytes]) -> str:
        made = grpc.server(futures.ThreadPoolExecutor(2))
        handler = grpc.unary_unary_rpc_method_handler(answer)
        methods = {"Profile": handler}
        made.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, methods),)
        )
        port = made.add_insecure_port("127.0.0.1:0")
        made.start()
        started.append(made)
        return f"127.0.0.1:{port}"

    yield start
    for made in started:
        made.stop(None).wait()
