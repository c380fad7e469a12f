"""Recordings that go on: whose they are, when they end, and what they may take."""

from __future__ import annotations

import sys
import time
from types import ModuleType
from typing import TYPE_CHECKING, Any

import grpc
import pytest

import stepscope as ss
from stepscope.capture.base.options import ProfilerOptions
from stepscope.capture.recording.session import current_session
from stepscope.remote import captures, continuous, server
from stepscope.remote.continuous import Client, Continuous
from stepscope.remote.destinations import Allowance
from stepscope.remote.messages import (
    GetSnapshotRequest,
    ProfileOptions,
    ProfileRequest,
    ProfileResponse,
    StopContinuousProfilingRequest,
    decode_message,
    encode_message,
)
from stepscope.remote.transport import RefusedCapture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LEASE_S = 60.0
MB = 2**20
OWNER = Client("ipv4:127.0.0.1:5000")
#: The same program over another connection, and another machine.
AGAIN = Client("ipv4:127.0.0.1:5001")
STRANGER = Client("ipv4:10.0.0.2:5000")


def until(holds: Callable[[], object]) -> None:
    """Wait for what will come."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


class Endless:
    """A recording that holds its number, and what became of it."""

    options = ProfilerOptions()

    def __init__(self, number: int) -> None:
        self.number = number
        self.full = False
        self.ends = 0
        self.drops = 0

    def end_recording(self) -> bytes:
        self.ends += 1
        return str(self.number).encode()

    def drop_recording(self) -> None:
        self.drops += 1

    def is_full(self, max_growth_bytes: int) -> bool:
        del max_growth_bytes
        return self.full


class Program:
    """A program whose clock and recordings are the test's."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.begun: list[Endless] = []
        self.continuous = Continuous(
            self._begin, lease_s=LEASE_S, clock=lambda: self.now_s
        )

    def _begin(self, options: ProfilerOptions) -> Endless:
        del options
        self.begun.append(Endless(len(self.begun)))
        return self.begun[-1]

    def goes_on(self, seconds: float) -> None:
        self.now_s += seconds
        self.continuous.check_lease()


@pytest.fixture
def program() -> Program:
    made = Program()
    made.continuous.start_recording(ProfilerOptions(), OWNER)
    return made


def test_a_client_that_vanishes_ends_its_recording(program: Program) -> None:
    """Without a lease the process grew by 45 MB a second until it was killed."""
    program.goes_on(LEASE_S - 1)
    assert program.continuous._held is not None
    program.goes_on(1)
    until(lambda: program.begun[0].drops == 1)
    assert program.continuous.take_snapshot(OWNER) is None
    said = "its client did not come back within 60 s"
    assert program.continuous.why_ended.endswith(said)


def test_each_call_of_the_owner_renews_its_lease(program: Program) -> None:
    for _ in range(3):
        program.goes_on(LEASE_S - 1)
        program.continuous.renew_lease(OWNER.peer)
    program.goes_on(LEASE_S - 1)
    # A snapshot over another connection: from then on that one is the owner's.
    assert program.continuous.take_snapshot(AGAIN) == b"0"
    program.goes_on(LEASE_S - 1)
    program.continuous.renew_lease(OWNER.peer)
    program.goes_on(1)
    assert program.continuous._held is None
    assert program.begun[0].drops == 0
    until(lambda: program.begun[1].drops == 1)


@pytest.mark.parametrize("imported", [False, True])
def test_two_recordings_of_pytorch_do_not_share_an_op(
    program: Program, monkeypatch: pytest.MonkeyPatch, *, imported: bool
) -> None:
    """PyTorch writes the end of an op into memory of the recording where it began."""
    waits: list[float] = []
    monkeypatch.setattr(continuous.time, "sleep", waits.append)
    if imported:
        monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    program.continuous.take_snapshot(OWNER)
    assert waits == [0.5] * imported


def test_another_machine_neither_takes_nor_ends_a_recording(program: Program) -> None:
    for call in (program.continuous.take_snapshot, program.continuous.stop_recording):
        with pytest.raises(RefusedCapture, match=r"a client at ipv4:127\.0\.0\.1 "):
            call(STRANGER)
    with pytest.raises(RefusedCapture, match="its lease ends in 60 s unless"):
        program.continuous.start_recording(ProfilerOptions(), STRANGER)
    program.continuous.renew_lease(STRANGER.peer)
    assert program.continuous.take_snapshot(AGAIN) == b"0"
    program.continuous.stop_recording(AGAIN)
    assert [one.drops for one in program.begun] == [0, 1]


def test_what_is_full_ends_and_is_kept_for_its_client(program: Program) -> None:
    program.begun[0].full = True
    program.goes_on(1)
    program.goes_on(1)
    assert program.begun[0].ends == 1
    assert program.continuous._held is not None
    assert program.continuous.take_snapshot(OWNER) == b"0"
    assert program.continuous.take_snapshot(OWNER) == b"1"
    program.begun[2].full = True
    program.goes_on(LEASE_S)
    assert program.continuous.take_snapshot(OWNER) is None


def begin(options: ProfilerOptions) -> captures._Recording:
    return captures._Recording.begin_recording(options, lambda: None)


def test_the_lease_of_a_real_recording_ends() -> None:
    continuous = Continuous(begin, lease_s=0.2)
    continuous.start_recording(ProfilerOptions(), OWNER)
    assert current_session() is not None
    until(lambda: current_session() is None)
    assert continuous.take_snapshot(OWNER) is None


@pytest.mark.slow(seconds=0.3)
def test_a_recording_ends_when_the_process_has_grown() -> None:
    continuous = Continuous(begin, max_growth_bytes=32 * MB)
    continuous.start_recording(ProfilerOptions(), OWNER)
    with ss.Trace("piece"):
        pass
    grown = bytearray(b"1" * 80 * MB)
    until(lambda: current_session() is None)
    content = continuous.take_snapshot(OWNER)
    assert content is not None
    assert b"piece" in content
    assert b"limit for a client's recording is 33,554,432 bytes" in content
    del grown
    # It goes on: with what the process has grown to, as its beginning.
    assert current_session() is not None
    continuous.stop_recording(OWNER)
    assert current_session() is None


def test_a_profile_ends_too_when_the_process_has_grown(
    ours: server.Server, calls: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours.captures, "_max_growth_bytes", -(2**40))
    began = time.monotonic()
    asked = ProfileRequest(duration_ms=600_000, emit_xspace=True, session_id="s")
    answer = decode_message(
        ProfileResponse, calls("Profile", encode_message(asked), limit_s=100)
    )
    assert time.monotonic() - began < 100
    assert b"the recording ended early: the process had grown by" in answer.xspace


def refused(call: Callable[..., bytes], method: str, message: Any = None) -> Any:
    with pytest.raises(grpc.RpcError) as error:
        call(method, b"" if message is None else encode_message(message))
    return error.value


@pytest.mark.slow(seconds=0.5)
def test_who_began_a_recording_by_a_session_id_has_to_name_it(
    calls: Callable[..., bytes],
) -> None:
    asked = ProfileRequest(opts=ProfileOptions(session_id="mine"))
    calls("StartContinuousProfiling", encode_message(asked))
    denied = grpc.StatusCode.PERMISSION_DENIED
    assert refused(calls, "GetSnapshot").code() == denied
    other = GetSnapshotRequest(snapshot_session_id="other")
    assert refused(calls, "GetSnapshot", other).code() == denied
    assert refused(calls, "StopContinuousProfiling").code() == denied
    mine = encode_message(GetSnapshotRequest(snapshot_session_id="mine"))
    assert decode_message(ProfileResponse, calls("GetSnapshot", mine)).xspace
    stop = encode_message(StopContinuousProfilingRequest(session_id="mine"))
    calls("StopContinuousProfiling", stop)
    assert current_session() is None


@pytest.mark.slow(seconds=0.4)
def test_a_snapshot_beyond_one_message_is_refused_as_a_profile_is(
    ours: server.Server, calls: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours.captures, "most_bytes", 10)
    calls("StartContinuousProfiling", b"")
    error = refused(calls, "GetSnapshot")
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "one message holds at most 10" in error.details()
    calls("StopContinuousProfiling", b"")


def test_profiles_and_snapshots_share_a_limit_of_files(
    ours: server.Server,
    calls: Callable[..., bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each snapshot of a flight recorder is a file more, whatever its own limit."""
    monkeypatch.setattr(ours.captures, "allowance", Allowance(2, 100 * MB))
    with ss.flight_recorder(tmp_path / "flight", slower_than=1000):
        with ss.StepTrace(0):
            pass
        for _ in range(2):
            assert decode_message(ProfileResponse, calls("GetSnapshot", b"")).xspace
        error = refused(calls, "GetSnapshot")
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "reached the limit of files" in error.details()
    assert len(list((tmp_path / "flight").rglob("*.xplane.pb"))) == 2


@pytest.mark.parametrize("allowed", [(0, 100 * MB), (100, 10)])
def test_a_profile_beyond_that_limit_comes_over_the_wire(
    allowed: tuple[int, int],
    ours: server.Server,
    calls: Callable[..., bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ours.captures, "logdir", tmp_path)
    monkeypatch.setattr(ours.captures, "allowance", Allowance(*allowed))
    asked = ProfileRequest(
        duration_ms=20,
        repository_root=str(tmp_path / "plugins" / "profile"),
        session_id="one",
    )
    answer = decode_message(ProfileResponse, calls("Profile", encode_message(asked)))
    assert [one.name for one in answer.tool_data] == ["xplane.pb"]
    assert list(tmp_path.rglob("*.xplane.pb")) == []
