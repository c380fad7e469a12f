"""The server in a program: it answers as TensorFlow's does, and harms nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest

import stepscope as ss
from stepscope.capture.collectors.host import HostCollector
from stepscope.capture.collectors.tensorflow import _why_no_server
from stepscope.capture.recording.session import current_session
from stepscope.errors import BadUsage
from stepscope.remote import captures, server
from stepscope.remote.messages import (
    GetSnapshotRequest,
    MonitorRequest,
    MonitorResponse,
    ProfileOptions,
    ProfileRequest,
    ProfileResponse,
    TerminateRequest,
    decode_message,
    encode_message,
)
from stepscope.remote.transport import (
    METADATA_KEY,
    SERVICE,
    Refusal,
    RefusedCapture,
    bearer_value,
)
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHORT = ProfileRequest(duration_ms=50, emit_xspace=True, session_id="s")


def until(holds: Callable[[], object]) -> None:
    """Wait for what will come."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def begun(call: Callable[..., bytes], request: ProfileRequest) -> list[Any]:
    """Begin a call in a thread; its answer, or its error, is appended when it comes."""
    came: list[Any] = []

    def ask() -> None:
        try:
            came.append(
                decode_message(
                    ProfileResponse, call("Profile", encode_message(request))
                )
            )
        except grpc.RpcError as error:
            came.append(error)

    threading.Thread(target=ask, daemon=True).start()
    until(lambda: current_session() is not None or came)
    return came


def refused(call: Callable[..., bytes], method: str, data: bytes) -> Any:
    with pytest.raises(grpc.RpcError) as error:
        call(method, data)
    return error.value


def test_a_profile_comes_over_the_wire(calls: Callable[..., bytes]) -> None:
    answer = decode_message(ProfileResponse, calls("Profile", encode_message(SHORT)))
    assert b"/host:CPU" in answer.xspace or b"Task Environment" in answer.xspace
    assert not answer.empty_trace
    assert current_session() is None


def steps_until(ended: threading.Event, *, annotated: bool = True) -> threading.Thread:
    """A loop of steps in a thread of its own."""

    def train() -> None:
        number = 0
        while not ended.wait(0.002):
            if annotated:
                with ss.StepTrace(number):
                    number += 1

    thread = threading.Thread(target=train)
    thread.start()
    return thread


@pytest.mark.slow(seconds=0.4)
def test_so_many_whole_steps_are_recorded(ours: server.Server, tmp_path: Path) -> None:
    ended = threading.Event()
    thread = steps_until(ended)
    try:
        # A minute would be the limit; the steps end it.
        outcome = ss.client.trace(ours.address, tmp_path, 60_000, steps=4)
    finally:
        ended.set()
        thread.join()
    steps = ss.open(outcome.directory).tool("overview_page").steps
    numbers = [step.step for step in steps]
    assert len(numbers) >= 4
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert outcome.all[0].seconds < 60


@pytest.mark.slow(seconds=0.6)
def test_a_thread_of_the_server_is_none_of_the_program(
    ours: server.Server, tmp_path: Path
) -> None:
    """gRPC's thread waits for calls all the time: no step waits for it."""
    outcome = ss.client.trace(ours.address, tmp_path, 300)
    profile = ss.open(outcome.directory)
    types = profile.table(profile.hosts[0], "event_types")
    assert not isinstance(types, Unavailable)
    functions = [name for name in types["name"].to_list() if name.startswith("$")]
    assert functions
    assert [name for name in functions if " _serve" in name] == []


@pytest.mark.slow(seconds=0.5)
def test_without_steps_the_time_ends_it(ours: server.Server, tmp_path: Path) -> None:
    ended = threading.Event()
    thread = steps_until(ended, annotated=False)
    try:
        outcome = ss.client.trace(ours.address, tmp_path, 200, steps=4)
    finally:
        ended.set()
        thread.join()
    assert outcome.all[0].state == "ok"


@pytest.mark.parametrize("steps", [0, -1, 10**7])
def test_a_number_of_steps_that_cannot_be_is_refused(
    tmp_path: Path, steps: int
) -> None:
    with pytest.raises(BadUsage, match=f"steps={steps} is invalid; give 1 to"):
        ss.client.trace("localhost:1", tmp_path, 100, steps=steps)


def test_no_time_is_an_empty_trace(calls: Callable[..., bytes]) -> None:
    answer = decode_message(
        ProfileResponse, calls("Profile", encode_message(ProfileRequest()))
    )
    assert answer == ProfileResponse(empty_trace=True)


def test_who_records_already_is_named(
    calls: Callable[..., bytes], tmp_path: Path
) -> None:
    with ss.Profile(tmp_path):
        error = refused(calls, "Profile", encode_message(SHORT))
    assert error.code() == grpc.StatusCode.ALREADY_EXISTS
    assert "test_server.py" in error.details()


def test_a_recording_is_ended_by_its_name(calls: Callable[..., bytes]) -> None:
    came = begun(calls, ProfileRequest(duration_ms=600_000, session_id="long"))
    calls("Terminate", encode_message(TerminateRequest(session_id="another")))
    assert not came
    calls("Terminate", encode_message(TerminateRequest(session_id="long")))
    until(lambda: came)
    assert came[0].tool_data


@pytest.mark.parametrize("uses_torch", [False, True])
def test_the_main_thread_does_only_what_pytorch_needs_it_for(
    calls: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, *, uses_torch: bool
) -> None:
    """PyTorch's profiler is ended by the thread that began it; the program goes on."""
    threads: dict[str, threading.Thread] = {}
    for name in ("halt_collecting", "hand_over"):
        original = getattr(HostCollector, name)

        def call(
            self: HostCollector, name: str = name, original: Any = original
        ) -> Any:
            threads.setdefault(name, threading.current_thread())
            return original(self)

        monkeypatch.setattr(HostCollector, name, call)
    if uses_torch:
        monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    came = begun(calls, SHORT)
    until(lambda: came)
    assert came[0].xspace
    main = threading.main_thread()
    assert (threads["halt_collecting"] is main) == uses_torch
    assert threads["hand_over"] is not main


def test_a_client_hears_that_a_signal_interrupted_the_start(
    calls: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a handler of the program raises is the program's, and no fault of ours."""
    asks = threading.Event()

    def ask() -> bytes:
        asks.wait()
        return calls("Profile", encode_message(SHORT))

    def interrupted(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGALRM)

    def handler(*_: object) -> None:
        raise TimeoutError("of the program")

    def folders_of_captures() -> set[Path]:
        # Their names hold the process: other tests make some meanwhile.
        names = f"stepscope-capture-*-{os.getpid()}-*"
        return set(Path(tempfile.gettempdir()).glob(names))

    before = signal.signal(signal.SIGALRM, handler)
    monkeypatch.setattr(captures.Session, "start", interrupted)
    before_it = folders_of_captures()
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(ask)
        with pytest.raises(TimeoutError, match="of the program"):
            until(lambda: asks.set() or answer.done())
        signal.signal(signal.SIGALRM, before)
        with pytest.raises(grpc.RpcError) as refused:
            answer.result()
    assert refused.value.code() == grpc.StatusCode.ABORTED
    assert "a signal interrupted the start" in refused.value.details()
    until(lambda: folders_of_captures() <= before_it)


@pytest.mark.slow(seconds=0.3)
def test_who_records_later_locks_nobody_out(
    ours: server.Server, calls: Callable[..., bytes]
) -> None:
    """Not by their number, and not by the names of their sessions."""
    later = ProfileRequest(
        duration_ms=600_000,
        session_id=str(SHORT.session_id),
        opts=ProfileOptions(start_timestamp_ns=time.time_ns() + 50 * 10**9),
    )
    with grpc.insecure_channel(ours.address) as channel:
        call = channel.unary_unary(f"/{SERVICE}/Profile")
        metadata = ((METADATA_KEY, bearer_value(str(ours.token))),)
        pending = [
            call.future(encode_message(later), metadata=metadata) for _ in range(20)
        ]
        until(lambda: sum(one.done() for one in pending) == 16)
        refusals = {one.code() for one in pending if one.done()}
        assert refusals == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        asked = encode_message(MonitorRequest())
        assert (
            "not recording"
            in decode_message(MonitorResponse, calls("Monitor", asked)).data
        )
        assert decode_message(
            ProfileResponse, calls("Profile", encode_message(SHORT))
        ).xspace
        calls(
            "Terminate", encode_message(TerminateRequest(session_id=SHORT.session_id))
        )
        # Those that wait are ended too, and record nothing.
        until(lambda: all(one.done() for one in pending))
    assert current_session() is None


@pytest.mark.slow
def test_a_client_that_goes_frees_the_program(calls: Callable[..., bytes]) -> None:
    error = refused(
        lambda method, data: calls(method, data, limit_s=0.5),
        "Profile",
        encode_message(ProfileRequest(duration_ms=600_000, session_id="gone")),
    )
    assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    until(lambda: current_session() is None)
    assert decode_message(
        ProfileResponse, calls("Profile", encode_message(SHORT))
    ).xspace


@pytest.mark.parametrize("version", [0, 1])
def test_no_level_of_a_client_starts_tensorflows_server(version: int) -> None:
    """The framework tests show it of TensorFlow; this is what it rests upon."""
    opts = ProfileOptions(version=version, host_tracer_level=3, python_tracer_level=1)
    _, options = captures.check_request(ProfileRequest(duration_ms=5, opts=opts))
    assert "is not started for a client" in (_why_no_server(options) or "")


@pytest.mark.parametrize(
    ("method", "data"),
    [
        ("Profile", b"\x0a\xff"),
        ("Profile", encode_message(ProfileRequest(duration_ms=2**63))),
        (
            "Profile",
            encode_message(
                ProfileRequest(
                    duration_ms=5, opts=ProfileOptions(version=1, host_tracer_level=9)
                )
            ),
        ),
        (
            "Profile",
            encode_message(
                ProfileRequest(
                    duration_ms=5, opts=ProfileOptions(start_timestamp_ns=2**63)
                )
            ),
        ),
        ("Terminate", b"\xff\xff\xff"),
        ("Monitor", b"\x12\x01"),
    ],
)
def test_a_malformed_request_is_refused_and_records_nothing(
    calls: Callable[..., bytes], method: str, data: bytes
) -> None:
    error = refused(calls, method, data)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "\n" not in error.details()
    assert current_session() is None


def test_a_request_of_megabytes_is_not_read(calls: Callable[..., bytes]) -> None:
    error = refused(calls, "Profile", b"\x2a" + b"\x80" * (2 * 2**20))
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.slow
def test_a_hundred_clients_get_an_answer_each(ours: server.Server) -> None:
    """One records at a time; the others hear why not, and nothing is left over."""
    with grpc.insecure_channel(ours.address) as channel:
        call = channel.unary_unary(f"/{SERVICE}/Profile")
        metadata = ((METADATA_KEY, bearer_value(str(ours.token))),)
        pending = [
            call.future(encode_message(SHORT), timeout=60, metadata=metadata)
            for _ in range(100)
        ]
        codes = {one.code() for one in pending}
    assert codes <= {
        grpc.StatusCode.OK,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
    assert grpc.StatusCode.OK in codes
    until(lambda: current_session() is None)


def test_the_server_tells_its_clock_and_its_process(
    calls: Callable[..., bytes],
) -> None:
    before = time.time_ns()
    asked = encode_message(MonitorRequest(timestamp=True))
    text = decode_message(MonitorResponse, calls("Monitor", asked)).data
    clock, told, *_ = text.split("\n")
    assert before <= int(clock) <= time.time_ns()
    assert f"process {os.getpid()}" in told
    assert "not recording" in told


@pytest.mark.slow(seconds=1.0)
def test_the_server_tells_of_steps_where_a_flight_recorder_hears_them(
    calls: Callable[..., bytes], tmp_path: Path
) -> None:
    with ss.flight_recorder(tmp_path, slower_than=1000):
        for number in range(9):
            with ss.StepTrace(number):
                time.sleep(0.002)
        asked = encode_message(MonitorRequest())

        def told() -> str:
            return decode_message(MonitorResponse, calls("Monitor", asked)).data

        until(lambda: "loop train: 9 steps, median " in told())
        assert " a second\n" in told()
    assert "loop train" not in told()


def test_a_snapshot_is_what_the_flight_recorder_keeps(
    calls: Callable[..., bytes], tmp_path: Path
) -> None:
    with ss.flight_recorder(tmp_path / "logs", slower_than=1000) as recorder:
        for number in range(5):
            with ss.StepTrace(number):
                time.sleep(0.001)
        asked = encode_message(GetSnapshotRequest())
        content = decode_message(ProfileResponse, calls("GetSnapshot", asked)).xspace
        (written,) = recorder.written
    assert written.why == "asked for"
    file = tmp_path / "host.xplane.pb"
    file.write_bytes(content)
    numbers = [step.step for step in ss.open(file).tool("overview_page").steps]
    assert numbers == [0, 1, 2, 3, 4]
    assert refused(calls, "GetSnapshot", asked).code() == grpc.StatusCode.NOT_FOUND


@pytest.mark.slow(seconds=0.7)
def test_snapshots_follow_each_other(calls: Callable[..., bytes]) -> None:
    asked = encode_message(GetSnapshotRequest())
    assert refused(calls, "GetSnapshot", asked).code() == grpc.StatusCode.NOT_FOUND
    calls("StartContinuousProfiling", encode_message(ProfileRequest()))
    again = refused(calls, "StartContinuousProfiling", encode_message(ProfileRequest()))
    assert again.code() == grpc.StatusCode.ALREADY_EXISTS
    for number in range(2):
        with ss.Trace(f"piece {number}"):
            pass
        answer = decode_message(ProfileResponse, calls("GetSnapshot", asked))
        assert f"piece {number}".encode() in answer.xspace
        assert f"piece {1 - number}".encode() not in answer.xspace
    calls("StopContinuousProfiling", b"")
    assert current_session() is None
    assert refused(calls, "GetSnapshot", asked).code() == grpc.StatusCode.NOT_FOUND


def test_a_snapshot_after_which_nothing_can_record_is_handed_over(
    ours: server.Server, calls: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls("StartContinuousProfiling", b"")
    with ss.Trace("piece"):
        pass

    def refusing(_: object) -> None:
        raise RefusedCapture(Refusal.UNAVAILABLE, "busy")

    monkeypatch.setattr(ours.captures.continuous, "_begin", refusing)
    assert b"piece" in decode_message(ProfileResponse, calls("GetSnapshot", b"")).xspace
    assert refused(calls, "GetSnapshot", b"").code() == grpc.StatusCode.NOT_FOUND


def test_a_recording_beyond_one_message_is_refused_in_words(
    ours: server.Server, calls: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours.captures, "most_bytes", 10)
    error = refused(calls, "Profile", encode_message(SHORT))
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "record for a shorter time" in error.details()


def test_other_machines_need_a_token() -> None:
    started = server.start(0, host="0.0.0.0")  # noqa: S104 - what is tested
    try:
        port = started.address.rpartition(":")[2]
        assert started.token is not None
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary(f"/{SERVICE}/Monitor")
            for sent in (None, "", "Bearer", "Bearer wrong", started.token):
                metadata = () if sent is None else (("authorization", sent),)
                with pytest.raises(grpc.RpcError) as error:
                    call(b"", timeout=30, metadata=metadata)
                assert error.value.code() == grpc.StatusCode.UNAUTHENTICATED
            right = (("authorization", f"Bearer {started.token}"),)
            assert call(b"", timeout=30, metadata=right)
    finally:
        started.stop()


def test_calls_without_a_token_keep_nobody_out(
    ours: server.Server, calls: Callable[..., bytes]
) -> None:
    """Not even where their requests never come."""
    never = threading.Event()

    def requests() -> Iterator[bytes]:
        never.wait(60)
        yield b""

    with grpc.insecure_channel(ours.address) as channel:
        call = channel.stream_unary(f"/{SERVICE}/Monitor")
        pending = [call.future(requests(), timeout=60) for _ in range(40)]
        until(lambda: all(one.done() for one in pending))
        assert calls("Monitor", b"")
        codes = {one.code() for one in pending}
        # On a busy machine more calls wait for their refusal than the server takes.
        assert codes - {grpc.StatusCode.RESOURCE_EXHAUSTED} == {
            grpc.StatusCode.UNAUTHENTICATED
        }
        never.set()


def test_a_taken_port_is_an_error(
    ours: server.Server, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadUsage, match="give another port"):
        server.start(int(ours.address.rpartition(":")[2]))
    with pytest.raises(BadUsage, match="does not exist"):
        server.start(70_000)
    # gRPC itself would write down its own error, with addresses of its own.
    assert capfd.readouterr().err == ""


_PROGRAM = """
import sys, threading
import grpc
import stepscope as ss
from stepscope.capture.recording.session import current_session
from stepscope.remote.messages import ProfileRequest, encode_message
started = ss.server.start(0)
channel = grpc.insecure_channel(started.address)
call = channel.unary_unary("/tensorflow.ProfilerService/Profile")
pending = call.future(
    encode_message(ProfileRequest(duration_ms=600_000, session_id="s")),
    metadata=(("authorization", f"Bearer {started.token}"),),
)
while current_session() is None:
    sum(range(1000))
print("the loss is 0.5")
sys.exit(3)
"""


@pytest.mark.slow
def test_a_program_ends_as_it_would_in_the_middle_of_a_recording() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "the loss is 0.5\n"), done.stderr
    assert "Traceback" not in done.stderr
