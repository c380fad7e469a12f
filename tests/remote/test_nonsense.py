"""Hosts that answer nonsense: each one's outcome is its own."""

from __future__ import annotations

import json
import time
import tracemalloc
from concurrent import futures
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from click.testing import CliRunner

import stepscope as ss
from stepscope.cli.main import main
from stepscope.errors import printable_line
from stepscope.remote import calling, client, server
from stepscope.remote.messages import (
    MAX_FIELDS,
    MonitorResponse,
    ProfileResponse,
    ProfileToolData,
    decode_message,
    encode_message,
)
from stepscope.remote.transport import SERVICE
from stepscope.xspace.wire import MalformedMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Answer = Callable[[bytes, Any], bytes]
    Hosts = Callable[[dict[str, Answer]], str]

#: The smallest profile: one plane with a name.
PROFILE = encode_message(ProfileResponse(xspace=b"\x0a\x07\x12\x05/host"))


def always(answer: bytes) -> Answer:
    return lambda _data, _context: answer


def told(text: str) -> Answer:
    return always(encode_message(MonitorResponse(data=text)))


def raises(_data: bytes, _context: Any) -> bytes:
    raise ValueError("\x1b[31ma defect of the server\n")


def aborts(_data: bytes, context: Any) -> bytes:
    context.abort(grpc.StatusCode.DATA_LOSS, "lost\nall")
    raise AssertionError


GREETINGS: dict[str, Answer] = {
    "no message": always(b"\xff\xff"),
    "a number for a text": always(b"\x08\x05"),
    "nothing": always(b""),
    "40 digits": told("1" * 40),
    "more digits than Python reads": told("1" * 5000),
    "digits of another script": told("٣" * 19),
    "a negative time": told("-5"),
    "a time without end": told("9" * 2**20),
    "no text": always(b"\x0a\x03\xff\xfe\xff"),
    "raises": raises,
    "aborts": aborts,
}
RECORDINGS: dict[str, Answer] = {
    "no message": always(b"\xff\xff"),
    "a number for the profile": always(b"\x40\x05"),
    "a number for a file": always(b"\x30\x05"),
    "a number for a file's name": always(b"\x32\x02\x08\x05"),
    "a profile that is none": always(
        encode_message(ProfileResponse(xspace=b"\x0a\xffx"))
    ),
    "files without end": always(b"\x32\x00" * (MAX_FIELDS + 1)),
    "planes without end": always(
        encode_message(ProfileResponse(xspace=b"\x0a\x00" * (10**6 + 1)))
    ),
    "no profile among the files": always(
        encode_message(
            ProfileResponse(tool_data=(ProfileToolData(name="a", data=b"b"),))
        )
    ),
    "raises": raises,
    "aborts": aborts,
}


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    """Start a server that answers each method in its own way; return its address."""
    started = []

    def start(answers: dict[str, Answer]) -> str:
        made = grpc.server(futures.ThreadPoolExecutor(2))
        methods = {
            name: grpc.unary_unary_rpc_method_handler(answer)
            for name, answer in answers.items()
        }
        handler = grpc.method_handlers_generic_handler(SERVICE, methods)
        made.add_generic_rpc_handlers((handler,))
        port = made.add_insecure_port("127.0.0.1:0")
        made.start()
        started.append(made)
        return f"127.0.0.1:{port}"

    yield start
    for made in started:
        made.stop(None).wait()


@pytest.mark.slow(seconds=0.4)
def test_a_greeting_of_nonsense_costs_no_host_its_recording(
    hosts: Hosts, ours: server.Server, tmp_path: Path
) -> None:
    """A clock of 40 digits ended the capture of all hosts with `KeyError: 0`."""
    nonsense = [
        hosts({"Monitor": answer, "Profile": always(PROFILE)})
        for answer in GREETINGS.values()
    ]
    outcome = client.trace([*nonsense, ours.address], tmp_path, 20)
    assert outcome.problems() == ""
    *unknown, own = outcome.all
    assert [one.clock_offset_ns for one in unknown] == [None] * len(GREETINGS)
    assert own.clock_offset_ns is not None


@pytest.mark.slow(seconds=0.6)
def test_a_recording_of_nonsense_is_that_hosts_own_outcome(
    hosts: Hosts, ours: server.Server, tmp_path: Path
) -> None:
    nonsense = [hosts({"Profile": answer}) for answer in RECORDINGS.values()]
    outcome = client.trace(
        [*nonsense, ours.address],
        tmp_path,
        20,
        num_tracing_attempts=1,
        allow_partial=True,
    )
    *failed, own = outcome.all
    said = dict(zip(RECORDINGS, failed, strict=True))
    assert own.state == "ok"
    assert {name: one.state for name, one in said.items()} == {
        name: "empty" if name == "no profile among the files" else "error"
        for name in RECORDINGS
    }
    assert all(one.text for one in failed)


def test_a_defect_of_ours_at_one_host_is_that_hosts_own_outcome(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = calling._check_profile

    def check(content: bytes) -> None:
        if bytes(content).endswith(b"bad"):
            raise ZeroDivisionError("of the test")
        checked(content)

    monkeypatch.setattr(calling, "_check_profile", check)
    bad = hosts({"Profile": always(encode_message(ProfileResponse(xspace=b"bad")))})
    good = hosts({"Profile": always(PROFILE)})
    outcome = client.trace([bad, good], tmp_path, 20, allow_partial=True)
    assert [one.state for one in outcome.all] == ["error", "ok"]
    said = "recording it failed (ZeroDivisionError: of the test)."
    assert outcome.all[0].text == said


@pytest.mark.slow(seconds=0.5)
def test_a_host_that_answers_greetings_late_does_not_hold_up_the_others_for_long(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty greetings of almost five seconds each were waited for."""
    monkeypatch.setattr(calling, "_GREETING_S", 0.5)
    greeted: list[int] = []

    def late(data: bytes, context: Any) -> bytes:
        greeted.append(1)
        time.sleep(0.3)
        return told(str(time.time_ns()))(data, context)

    slow = hosts({"Monitor": late, "Profile": always(PROFILE)})
    good = hosts({"Profile": always(PROFILE)})
    assert client.trace([slow, good], tmp_path, 20).problems() == ""
    assert len(greeted) <= 2


def test_clocks_that_are_far_off_are_read_back(hosts: Hosts, tmp_path: Path) -> None:
    for clock_ns in (0, 7_258_118_400 * 10**9):
        host = hosts({"Monitor": told(str(clock_ns)), "Profile": always(PROFILE)})
        outcome = client.trace(host, tmp_path, 20)
        assert outcome.all[0].clock_offset_ns is not None
        assert ss.open(outcome.directory).hosts == (host.replace(":", "_"),)


def test_a_request_with_fields_without_end_is_refused() -> None:
    """The time that half a million of them took grew with their square."""
    with pytest.raises(MalformedMessage):
        decode_message(ProfileResponse, b"\x32\x00" * (MAX_FIELDS + 1))


#: Clears the screen, sets the title, rings, reverses the text, ends the line.
SEQUENCES = "\x1b[2J\x1b]0;title\x07 \u202etxet \x9b31m\r\ndone"


def test_what_a_host_says_moves_no_cursor(hosts: Hosts, tmp_path: Path) -> None:
    def says(_data: bytes, context: Any) -> bytes:
        context.abort(grpc.StatusCode.INTERNAL, SEQUENCES)
        raise AssertionError

    host = hosts({"Profile": says})
    words = ["capture", host, "--attempts", "1", "--ms", "20", "--logdir"]
    done = CliRunner().invoke(main, [*words, str(tmp_path)])
    (row,) = [line for line in done.stderr.splitlines() if host in line]
    assert row.endswith(r"\x1b[2J\x1b]0;title\x07 \u202etxet \x9b31m done")
    assert all(line.isprintable() for line in done.stderr.splitlines())
    with pytest.raises(client.CaptureFailed) as failed:
        client.trace(host, tmp_path, 20, num_tracing_attempts=1)
    assert str(failed.value).isprintable()
    # A program reads what was sent.
    told = CliRunner().invoke(main, [*words, str(tmp_path), "--format", "json"])
    assert "\x1b[2J" in json.loads(told.stdout)["hosts"][0]["text"]


def test_letters_of_every_script_stay_as_they_are() -> None:
    assert printable_line(" größer\n\u00a0als 漢字 – 5 µs ") == "größer als 漢字 – 5 µs"
    assert printable_line("a\x00b\x7f\ud800") == r"a\x00b\x7f\ud800"


def test_a_recording_larger_than_is_taken_is_that_hosts_own_outcome(
    hosts: Hosts, tmp_path: Path
) -> None:
    large = encode_message(ProfileResponse(xspace=b"\x12\x80\x80\x40" + bytes(2**20)))
    addresses = [hosts({"Profile": always(it)}) for it in (large, PROFILE)]
    words = ["--max-bytes", "1000000", "--ms", "20", "--logdir", str(tmp_path)]
    done = CliRunner().invoke(main, ["capture", *addresses, *words, "--format", "json"])
    assert done.exit_code == 1, done.output
    refused, taken = json.loads(done.stdout)["hosts"]
    assert (refused["state"], refused["attempts"]) == ("error", 1)
    assert refused["text"].startswith("the recording has more than 1,000,000 bytes; ")
    assert taken["state"] == "ok"
    assert client.trace(addresses[0], tmp_path, 20).problems() == ""


def test_a_recording_that_came_is_stored_without_another_copy_of_it(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was copied out of its message, and once more to add the clock."""
    size = 2**26
    answer = encode_message(
        ProfileResponse(xspace=b"\x12\x80\x80\x80\x20" + bytes(size))
    )
    peaks: list[int] = []

    def call(self: Any, method: str, request: Any, limit_s: float) -> bytes:
        del self, request, limit_s
        if method == "Monitor":
            return encode_message(MonitorResponse(data=str(time.time_ns())))
        tracemalloc.start()
        return answer

    monkeypatch.setattr(calling.Caller, "_call_method", call)
    try:
        outcome = client.trace(hosts({}), tmp_path, 20)
        peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    assert outcome.all[0].bytes == size + 5
    assert peaks[0] < size / 100
