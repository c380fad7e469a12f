"""Recording programs from outside: hosts that answer, and all that can go wrong."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from click.testing import CliRunner

import stepscope as ss
from stepscope.cli.main import main
from stepscope.errors import BadUsage
from stepscope.remote import calling, client, server
from stepscope.remote.messages import (
    ProfileRequest,
    ProfileResponse,
    ProfileToolData,
    decode_message,
    encode_message,
)
from stepscope.xspace.writing.encode import sized_field

if TYPE_CHECKING:
    from collections.abc import Callable

    Answer = Callable[[bytes, Any], bytes]
    Answering = Callable[[Answer], str]

#: Nothing listens there: port 9 is that of a service nobody runs.
NOBODY = "127.0.0.1:9"
#: The smallest profile: one plane with a name.
PROFILE = b"\x0a\x07\x12\x05/host"


def whole(_: bytes, __: Any) -> bytes:
    return encode_message(ProfileResponse(xspace=PROFILE))


@pytest.mark.slow(seconds=0.4)
def test_our_own_server_is_recorded(ours: server.Server, tmp_path: Path) -> None:
    outcome = client.trace(ours.address, tmp_path, 100)
    (host,) = outcome.all
    assert (host.state, host.attempts, outcome.problems()) == ("ok", 1, "")
    (file,) = Path(outcome.directory).iterdir()
    # What the client measured of the host's clock is stored after it.
    assert 0 < host.bytes < file.stat().st_size
    assert ss.open(outcome.directory).hosts == (ours.address.replace(":", "_"),)


def test_hosts_are_recorded_at_the_same_time(
    answering: Answering, tmp_path: Path
) -> None:
    """Each waits until all were asked: in turn none would ever answer."""
    together = threading.Barrier(8, timeout=30)

    def meet(data: bytes, context: Any) -> bytes:
        together.wait()
        return whole(data, context)

    hosts = [answering(meet) for _ in range(8)]
    outcome = client.trace(hosts[0], tmp_path, 100, worker_list=",".join(hosts[1:]))
    assert outcome.hosts == tuple(hosts)
    assert len(list(Path(outcome.directory).glob("*.xplane.pb"))) == 8


def test_all_hosts_are_asked_for_one_session_and_one_start(
    answering: Answering, tmp_path: Path
) -> None:
    asked: list[ProfileRequest] = []

    def note(data: bytes, context: Any) -> bytes:
        asked.append(decode_message(ProfileRequest, data))
        return whole(data, context)

    before = time.time_ns()
    options = ss.ProfilerOptions(delay_ms=200, host_tracer_level=1)
    client.trace([answering(note), answering(note)], tmp_path, 100, options=options)
    assert len({one.session_id for one in asked}) == 1
    (start,) = {one.opts.start_timestamp_ns for one in asked}
    assert start >= before + 200_000_000
    assert {one.opts.host_tracer_level for one in asked} == {1}
    assert all(one.emit_xspace for one in asked)


def test_two_recordings_at_once_are_two_runs(
    ours: server.Server, answering: Answering, tmp_path: Path
) -> None:
    del ours
    host = answering(whole)
    runs = {client.trace(host, tmp_path, 10).run for _ in range(3)}
    assert len(runs) == 3
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 3


def test_partial_success_is_said_as_such(answering: Answering, tmp_path: Path) -> None:
    host = answering(whole)
    with pytest.raises(client.CaptureFailed, match="no profiler server answers there"):
        client.trace([host, NOBODY], tmp_path, 10, num_tracing_attempts=1)
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 1
    outcome = client.trace(
        [host, NOBODY], tmp_path, 10, num_tracing_attempts=1, allow_partial=True
    )
    assert outcome.hosts == (host,)
    assert NOBODY in outcome.problems()


def test_where_no_host_was_recorded_that_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(client.CaptureFailed):
        client.trace(NOBODY, tmp_path, 10, num_tracing_attempts=1, allow_partial=True)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.slow
def test_a_busy_host_and_an_empty_one_are_asked_again(
    answering: Answering, tmp_path: Path
) -> None:
    turns: list[int] = []

    def third_time(data: bytes, context: Any) -> bytes:
        turns.append(1)
        if len(turns) == 1:
            context.abort(grpc.StatusCode.INTERNAL, "Another profiling session active.")
        if len(turns) == 2:
            return encode_message(ProfileResponse(empty_trace=True))
        return whole(data, context)

    (host,) = client.trace(answering(third_time), tmp_path, 10).all
    assert (host.state, host.attempts) == ("ok", 3)


@pytest.mark.parametrize(
    ("answer", "state", "text"),
    [
        (
            lambda _, __: encode_message(ProfileResponse(empty_trace=True)),
            "empty",
            "nothing",
        ),
        (lambda _, __: b"", "empty", "nothing"),
        (lambda _, __: b"\xff\xff", "error", "not a ProfileResponse"),
        (
            lambda _, __: encode_message(ProfileResponse(xspace=b"\x0a\xffx")),
            "error",
            "cannot be read",
        ),
    ],
    ids=["empty", "no field", "no message", "no profile"],
)
def test_what_is_no_profile_is_not_stored(
    answering: Answering, tmp_path: Path, answer: Any, state: str, text: str
) -> None:
    hosts = [answering(whole), answering(answer)]
    outcome = client.trace(
        hosts, tmp_path, 10, num_tracing_attempts=1, allow_partial=True
    )
    assert outcome.all[1].state == state
    assert text in outcome.all[1].text
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 1


@pytest.mark.slow
def test_a_worker_that_hangs_or_is_late_does_not_cost_the_others(
    answering: Answering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one answers well after the time of the recording, and in time still."""
    monkeypatch.setattr(calling, "_BEYOND_S", 2.0)
    over = threading.Event()

    def hangs(data: bytes, context: Any) -> bytes:
        over.wait(30)
        return whole(data, context)

    def late(data: bytes, context: Any) -> bytes:
        time.sleep(1)
        return whole(data, context)

    hosts = [answering(whole), answering(hangs), answering(late)]
    try:
        outcome = client.trace(
            hosts, tmp_path, 10, num_tracing_attempts=1, allow_partial=True
        )
    finally:
        over.set()
    assert [one.state for one in outcome.all] == ["ok", "error", "ok"]
    assert outcome.all[1].text.startswith("the program did not answer in time")
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 2


#: Steps without end, in a program that is killed.
ENDLESS = """
import stepscope as ss

print(ss.server.start(0).address, flush=True)
while True:
    with ss.StepTrace(0):
        sum(range(1000))
"""


@pytest.mark.slow
def test_a_worker_that_dies_while_it_is_recorded_is_said_to(
    answering: Answering, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        address = program.stdout.readline().strip()
        killer = threading.Timer(3.0, program.kill)
        killer.start()
        outcome = client.trace(
            [address, answering(whole)],
            tmp_path,
            60_000,
            num_tracing_attempts=1,
            allow_partial=True,
        )
    dead, other = outcome.all
    assert (dead.state, other.state) == ("error", "ok")
    assert dead.text.startswith("the program ended while it was recorded, or the")
    # It is known at once, and not when the time of the recording is over.
    assert dead.seconds < 30


def test_a_file_among_other_results_is_the_profile(
    answering: Answering, tmp_path: Path
) -> None:
    def older(_: bytes, __: Any) -> bytes:
        tools = ("overview_page.json", b"{}"), ("xplane.pb", PROFILE)
        data = tuple(ProfileToolData(name=name, data=it) for name, it in tools)
        return encode_message(ProfileResponse(tool_data=data))

    (host,) = client.trace(answering(older), tmp_path, 10).all
    assert (host.state, host.bytes) == ("ok", len(PROFILE))


def test_a_profile_beyond_grpcs_own_limit_comes_whole(
    answering: Answering, tmp_path: Path
) -> None:
    large = PROFILE + b"\x12\x80\x80\x80\x08" + bytes(16 * 2**20)

    def much(_: bytes, __: Any) -> bytes:
        return encode_message(ProfileResponse(xspace=large))

    host = answering(much)
    (outcome,) = client.trace(host, tmp_path, 10).all
    assert outcome.bytes == len(large)


def exhausted(_: bytes, context: Any) -> bytes:
    context.abort(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "Sent message larger than max (2147484000 vs. 2147483647)",
    )
    raise AssertionError


@pytest.mark.slow(seconds=0.3)
def test_a_worker_whose_recording_is_beyond_one_message_is_said_in_one_line(
    ours: server.Server,
    answering: Answering,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ours sends its own in pieces, and the third one's fits."""
    monkeypatch.setattr(ours.captures, "most_bytes", 10)
    done = invoke(
        *("capture", ours.address, answering(exhausted), answering(whole)),
        *("--ms", 20, "--logdir", tmp_path, "--format", "json"),
    )
    assert done.exit_code == 1
    hosts = json.loads(done.stdout)["hosts"]
    # Asking again would take as long, and fail again.
    assert [(host["state"], host["attempts"]) for host in hosts] == [
        *(("ok", 1), ("error", 1), ("ok", 1)),
    ]
    text = hosts[1]["text"]
    assert "(2147484000 vs. 2147483647)); record for a shorter time (--ms" in text
    assert "\n" not in text


#: Records a host whose recording has so many MiB; says what that took.
LARGE = """
import resource, sys
from stepscope.remote import client
client.trace(sys.argv[1], sys.argv[2] + "/warm", 10)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
(host,) = client.trace(sys.argv[1], sys.argv[2] + "/large", 10).all
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(host.bytes, (after - before) * 1024)
"""


@pytest.mark.slow
def test_a_large_recording_comes_in_pieces_and_goes_to_the_disk(
    ours: server.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 MiB of warnings; one message would be held three times: 900 MiB."""
    mib = 2**20
    warning = sized_field(3 << 3 | 2, b"x" * mib)
    contents = iter([PROFILE, PROFILE + warning * 300])
    monkeypatch.setattr(ours.captures, "record", lambda *_: next(contents))
    done = subprocess.run(
        [sys.executable, "-c", LARGE, ours.address, tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )
    stored_bytes, grown_bytes = map(int, done.stdout.split())
    assert stored_bytes == len(PROFILE) + 300 * len(warning)
    assert grown_bytes < 60 * mib
    (file,) = (tmp_path / "large").rglob("*.xplane.pb")
    assert file.read_bytes().startswith(PROFILE + warning)
    assert file.stat().st_size > stored_bytes


def test_a_recording_in_pieces_beyond_the_limit_is_not_stored(
    ours: server.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = PROFILE + sized_field(3 << 3 | 2, b"x" * 5_000_000)
    monkeypatch.setattr(ours.captures, "record", lambda *_: content)
    with pytest.raises(client.CaptureFailed, match="more than 4,000,000 bytes"):
        client.trace(ours.address, tmp_path / "logs", 10, max_bytes=4_000_000)
    assert [path for path in (tmp_path / "logs").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("content", [PROFILE[:-1], b"\xff" * 3_000_000])
def test_pieces_that_are_no_profile_are_not_stored(
    ours: server.Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
) -> None:
    monkeypatch.setattr(ours.captures, "record", lambda *_: content)
    with pytest.raises(client.CaptureFailed, match="cannot be read"):
        client.trace(ours.address, tmp_path / "logs", 10)
    assert [path for path in (tmp_path / "logs").rglob("*") if path.is_file()] == []


@pytest.mark.slow(seconds=0.4)
def test_clocks_are_compared_where_the_server_tells_its_time(
    ours: server.Server, answering: Answering, tmp_path: Path
) -> None:
    outcome = client.trace([ours.address, answering(whole)], tmp_path, 50)
    own, other = outcome.all
    assert own.clock_doubt_ns is not None
    assert own.clock_offset_ns is not None
    assert abs(own.clock_offset_ns) <= own.clock_doubt_ns + 1_000_000
    assert other.clock_offset_ns is None


def test_a_token_is_sent_or_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = server.start(0, token="secret")  # noqa: S106 - of this test alone
    # A client of another machine or user, which does not find the token by itself.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "elsewhere"))
    try:
        with pytest.raises(client.CaptureFailed, match="--token"):
            client.trace(started.address, tmp_path, 10)
        outcome = client.trace(
            started.address,
            tmp_path,
            10,
            token="secret",  # noqa: S106 - as above
        )
        assert outcome.hosts == (started.address,)
    finally:
        started.stop()


@pytest.mark.slow(seconds=0.6)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])  # noqa: S104 - only this machine asks
def test_a_server_of_ones_own_is_recorded_by_either_name(
    tmp_path: Path, host: str
) -> None:
    started = server.start(0, host=host)
    port = started.address.rpartition(":")[2]
    hosts = {f"127.0.0.1:{port}", f"localhost:{port}", started.address}
    try:
        for asked in hosts:
            assert client.trace(asked, tmp_path, 20).hosts == (asked,)
    finally:
        started.stop()


def test_no_proxy_is_asked_for_a_server_of_ones_own(
    ours: server.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be sent the token, and reaches another machine's loopback."""
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", f"http://{NOBODY}")
    outcome = client.trace(ours.address, tmp_path, 20, num_tracing_attempts=1)
    assert outcome.hosts == (ours.address,)


@pytest.mark.slow(seconds=0.5)
def test_the_token_goes_to_the_server_that_noted_it(
    ours: server.Server, tmp_path: Path
) -> None:
    """`localhost` has another address, where somebody else may listen."""
    port = int(ours.address.rpartition(":")[2])
    try:
        listener = socket.create_server(("::1", port), family=socket.AF_INET6)
    except OSError as error:
        pytest.skip(f"this machine has no IPv6 ({error})")
    with listener:
        outcome = client.trace(f"localhost:{port}", tmp_path, 20)
        listener.settimeout(0.2)
        with pytest.raises(TimeoutError):
            listener.accept()
    assert outcome.hosts == (f"localhost:{port}",)


@pytest.mark.parametrize("duration_ms", [0, -5, 2**40])
def test_a_time_that_is_none_is_refused(tmp_path: Path, duration_ms: int) -> None:
    with pytest.raises(BadUsage, match="duration_ms"):
        client.trace(NOBODY, tmp_path, duration_ms)


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.mark.slow(seconds=0.5)
def test_the_command_records_and_reports(ours: server.Server, tmp_path: Path) -> None:
    done = invoke("capture", ours.address, "--ms", 100, "--logdir", tmp_path)
    assert done.exit_code == 0, done.output
    (row,) = rows_of(done.stderr, ours.address)
    assert row[1] == "ok"
    assert int(row[2].replace(",", "")) > 0
    assert done.stdout.startswith("stepscope · ")


def rows_of(said: str, host: str) -> list[list[str]]:
    """The cells of a host's rows in the table, up to the remark."""
    lines = [one for one in said.splitlines() if one.startswith(f"  {host} ")]
    return [one.split(maxsplit=5) for one in lines]


@pytest.mark.slow
def test_the_command_finds_a_process_by_its_number(
    ours: server.Server, tmp_path: Path
) -> None:
    done = invoke(
        *("capture", "--attach", os.getpid(), "--ms", 50),
        *("--logdir", tmp_path, "--format", "json"),
    )
    told = json.loads(done.stdout)
    assert [(one["address"], one["state"]) for one in told["hosts"]] == [
        (ours.address, "ok")
    ]
    assert Path(told["path"]).is_dir()


@pytest.mark.slow(seconds=0.7)
def test_the_command_says_what_is_missing(ours: server.Server, tmp_path: Path) -> None:
    wanted = ("capture", ours.address, NOBODY, "--ms", 50, "--attempts", 1)
    choices = ("--logdir", tmp_path, "--no-report")
    done = invoke(*wanted, *choices)
    assert done.exit_code == 1
    assert "1 of 2 hosts were recorded" in done.stderr
    (row,) = rows_of(done.stderr, NOBODY)
    assert row[1:4] == ["error", "–", "1"]
    assert row[5].startswith("no profiler server answers there (connection refused). ")
    assert invoke(*wanted, *choices, "--allow-partial").exit_code == 0


def test_where_nobody_was_recorded_each_host_is_said_once(tmp_path: Path) -> None:
    """The reason stood in the host's own line, and again in the last one."""
    wanted = ("capture", NOBODY, "127.0.0.1:10", "--ms", 50, "--attempts", 1)
    done = invoke(*wanted, "--logdir", tmp_path)
    assert done.exit_code == 2
    assert done.stderr.count("no profiler server answers there") == 2
    assert done.stderr.endswith("stepscope: no host was recorded\n")
    told = invoke(*wanted, "--logdir", tmp_path, "--format", "json")
    assert told.exit_code == 2
    found = json.loads(told.stdout)
    assert found["path"] is None
    assert [one["state"] for one in found["hosts"]] == ["error", "error"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((NOBODY, "--ms", 0), "--ms"),
        ((NOBODY, "--steps", 0), "--steps"),
        ((NOBODY, "--host-tracer-level", 9), "--host-tracer-level"),
        ((), "no address was given"),
        (("vm",), "is not an address"),
        (("--attach", 2**22 + 1), "there is no process"),
    ],
)
def test_bad_usage_is_one_line(arguments: tuple[object, ...], said: str) -> None:
    done = invoke("capture", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
