"""Servers for the tests of recording from outside, all on loopback."""

from __future__ import annotations

from concurrent import futures
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from stepscope.remote import server
from stepscope.remote.transport import METADATA_KEY, SERVICE, bearer_value

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


@contextmanager
def calling(asked: server.Server) -> Iterator[Callable[..., bytes]]:
    """Call any method of a server with any bytes."""
    token = asked.token
    metadata = () if token is None else ((METADATA_KEY, bearer_value(token)),)
    with grpc.insecure_channel(asked.address) as channel:

        def call(
            method: str, data: bytes, *, service: str = SERVICE, limit_s: float = 30
        ) -> bytes:
            answer: bytes = channel.unary_unary(f"/{service}/{method}")(
                data, timeout=limit_s, metadata=metadata
            )
            return answer

        yield call


@pytest.fixture
def calls(ours: server.Server) -> Iterator[Callable[..., bytes]]:
    """Call a method of the server in this process with any bytes."""
    with calling(ours) as call:
        yield call


@pytest.fixture
def logdir(tmp_path: Path) -> Path:
    """The log directory of `writing`."""
    return tmp_path / "logs"


@pytest.fixture
def writing(logdir: Path) -> Iterator[Callable[..., bytes]]:
    """Call a method of a server that writes files into a log directory."""
    started = server.start(0, logdir=logdir)
    with calling(started) as call:
        yield call
    started.stop()


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
