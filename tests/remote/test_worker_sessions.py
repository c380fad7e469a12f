"""`NewSession`: one server has several programs recorded, and only those it may."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from tests.remote.conftest import calling

from stepscope.errors import BadUsage
from stepscope.remote import addresses, server
from stepscope.remote.messages import (
    NewProfileSessionRequest,
    NewProfileSessionResponse,
    ProfileOptions,
    ProfileRequest,
    ProfileResponse,
    decode_message,
    encode_message,
)
from stepscope.remote.transport import ANALYSIS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SECRET = "a-token-of-mode-0600"  # noqa: S105 - what the attack is after


def session(logdir: Path, *hosts: str, name: str = "s", **opts: int) -> bytes:
    asked = ProfileRequest(
        duration_ms=50,
        session_id=name,
        opts=ProfileOptions(version=1, host_tracer_level=2, **opts),
    )
    return encode_message(
        NewProfileSessionRequest(
            request=asked,
            repository_root=str(logdir / "plugins" / "profile"),
            hosts=hosts,
            session_id=name,
        )
    )


def refusal(call: Callable[..., bytes], data: bytes) -> Any:
    with pytest.raises(grpc.RpcError) as error:
        call("NewSession", data, service=ANALYSIS)
    assert "\n" not in error.value.details()
    return error.value


@pytest.fixture
def heard() -> list[bytes]:
    """What a peer was asked."""
    return []


@pytest.fixture
def peer(answering: Any, heard: list[bytes]) -> str:
    """The address of a program that records; it keeps what it is asked."""

    def answer(data: bytes, _: object) -> bytes:
        heard.append(data)
        return encode_message(ProfileResponse(xspace=b"\x22\x01h"))

    address: str = answering(answer)
    return address


@pytest.fixture
def leading(logdir: Path, peer: str) -> Iterator[server.Server]:
    """A server that may call one peer."""
    started = server.start(0, logdir=logdir, peers=[peer])
    yield started
    started.stop()


@pytest.mark.slow(seconds=0.3)
def test_one_server_records_all_hosts_for_a_client(
    leading: server.Server, peer: str, logdir: Path, heard: list[bytes]
) -> None:
    # A client may name one twice.
    hosts = (leading.address, leading.address, peer)
    with calling(leading) as call:
        answer = call("NewSession", session(logdir, *hosts), service=ANALYSIS)
    assert (
        decode_message(NewProfileSessionResponse, answer) == NewProfileSessionResponse()
    )
    files = (logdir / "plugins" / "profile" / "s").iterdir()
    assert sorted(file.name for file in files) == sorted(
        f"{one.replace(':', '_')}.xplane.pb" for one in (leading.address, peer)
    )
    # The peer is to write nothing: it is asked for the recording itself.
    (asked,) = (decode_message(ProfileRequest, data) for data in heard)
    assert (asked.emit_xspace, asked.repository_root) == (True, "")


def test_what_is_no_address_that_was_allowed_is_not_even_read(
    leading: server.Server,
    peer: str,
    logdir: Path,
    heard: list[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Files, devices, pipes and names of TPUs: a person's words, no client's."""
    tmp_path = logdir.parent
    (tmp_path / "token").write_text(SECRET)
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.setattr(
        addresses, "tpu_workers", lambda _: pytest.fail("it asked gcloud")
    )
    before = threading.active_count()
    with calling(leading) as call:
        for host in (
            f"@{tmp_path}/token",
            "@/proc/self/environ",
            "@/dev/zero",
            f"@{tmp_path}/fifo",
            "tpu://my-tpu:6009",
            f"unix:{tmp_path}/socket",
            "127.0.0.1:22",
            "169.254.169.254:80",
            f"{peer},@{tmp_path}/token",
            f" {peer}",
            f"grpc://{peer}",
            f"{peer}/",
            "",
        ):
            # It stands beside one that may be called, which is not called either.
            error = refusal(call, session(logdir, peer, host))
            assert error.code() == grpc.StatusCode.PERMISSION_DENIED, host
            assert "ss.server.start(peers=[…])" in error.details()
            assert SECRET not in error.details()
            assert not host.strip() or host not in error.details()
        assert refusal(call, session(logdir)).code() is not None
    assert heard == []
    assert not (logdir / "plugins").exists()
    # Not one thread waits for a pipe.
    assert threading.active_count() <= before + 2


def test_all_is_checked_before_anybody_is_called(
    leading: server.Server, peer: str, logdir: Path, heard: list[bytes]
) -> None:
    with calling(leading) as call:
        outside = refusal(call, session(logdir.parent / "secret", peer))
        assert outside.code() == grpc.StatusCode.PERMISSION_DENIED
        assert "ss.server.start(logdir=…)" in outside.details()
        assert "secret" not in outside.details()
        absolute = refusal(call, session(logdir, peer, name=f"{logdir.parent}/abs"))
        assert absolute.code() == grpc.StatusCode.PERMISSION_DENIED
        level = refusal(call, session(logdir, peer, python_tracer_level=7))
        assert level.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert heard == []


def test_a_server_without_a_log_directory_calls_nobody(
    ours: server.Server, tmp_path: Path
) -> None:
    with calling(ours) as call:
        error = refusal(call, session(tmp_path, ours.address))
    assert error.code() == grpc.StatusCode.PERMISSION_DENIED
    assert list(tmp_path.rglob("*.xplane.pb")) == []


def test_one_such_recording_is_made_at_a_time(answering: Any, tmp_path: Path) -> None:
    begun, ended = threading.Event(), threading.Event()

    def answer(*_: object) -> bytes:
        begun.set()
        assert ended.wait(60)
        return encode_message(ProfileResponse(xspace=b"\x22\x01h"))

    slow = answering(answer)
    started = server.start(0, logdir=tmp_path, peers=[slow])
    try:
        with calling(started) as call:
            asked = session(tmp_path, slow)
            first = threading.Thread(
                target=call, args=("NewSession", asked), kwargs={"service": ANALYSIS}
            )
            first.start()
            assert begun.wait(60)
            error = refusal(call, session(tmp_path, slow, name="other"))
            assert error.code() == grpc.StatusCode.ALREADY_EXISTS
            ended.set()
            first.join()
    finally:
        ended.set()
        started.stop()


def test_a_peer_that_is_no_address_is_refused_at_the_start() -> None:
    with pytest.raises(BadUsage, match="not an address of a profiler server"):
        server.start(0, peers=["vm:0"])
