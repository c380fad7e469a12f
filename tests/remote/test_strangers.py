"""Another user of this machine: what a server refuses him, and its own user gets."""

from __future__ import annotations

import json
import logging
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from tests.remote.conftest import calling

from stepscope.cli.main import main
from stepscope.errors import BadUsage
from stepscope.remote import listening_programs, server
from stepscope.remote.messages import (
    ProfileRequest,
    ProfileResponse,
    decode_message,
    encode_message,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(
    os.getuid() != 0, reason="only root can be another user too"
)
NOBODY = pwd.getpwnam("nobody")
#: Becomes a user without rights when all is imported, which he could not read.
STRANGER = """
import json, os, pwd, sys
import grpc
from stepscope.errors import StepscopeError
from stepscope.remote import client, listening_programs
try:
    client.trace("127.0.0.1:9", ".", 10, num_tracing_attempts=1)
except client.CaptureFailed:
    pass
nobody = pwd.getpwnam("nobody")
os.setgroups([])
os.setgid(nobody.pw_gid)
os.setuid(nobody.pw_uid)
"""
ASKS = (
    STRANGER
    + """
address, process, folder = sys.argv[1:]
told = {}

def ask(name, call):
    try:
        told[name] = repr(call())
    except grpc.RpcError as error:
        told[name] = error.code().name
    except (StepscopeError, OSError) as error:
        told[name] = f"{type(error).__name__}: {error}"

with grpc.insecure_channel(address) as channel:
    for service, methods in {
        "ProfilerService": (
            "Profile", "Terminate", "Monitor", "StartContinuousProfiling",
            "GetSnapshot", "StopContinuousProfiling",
        ),
        "ProfileAnalysis": ("NewSession",),
    }.items():
        for method in methods:
            call = channel.unary_unary(f"/tensorflow.{service}/{method}")
            ask(method, lambda: call(b"", timeout=30))
    stream = channel.unary_stream("/stepscope.Recordings/Profile")
    ask("pieces", lambda: list(stream(b"", timeout=30)))
ask("attach", lambda: listening_programs.servers_of_process(int(process)))
ask("folder", lambda: os.listdir(folder))
ask("file", lambda: open(f"{folder}/{process}.json").read())
ask("capture", lambda: client.trace(address, ".", 10))
print(json.dumps(told))
"""
)
#: Makes the folders before their user does, with a file of a server in them.
SQUATS = (
    STRANGER
    + """
base, user, process, address = sys.argv[1:]
os.umask(0)
folder = f"{base}/run-{user}/stepscope"
os.makedirs(folder)
with open(f"{folder}/{process}.json", "w") as file:
    json.dump({"servers": {address: None}, "program": "evil", "started_ticks": 0}, file)
os.symlink(f"{base}/run-{user}", f"{base}/link")
"""
)
METHODS = (
    *("Profile", "Terminate", "Monitor", "StartContinuousProfiling", "GetSnapshot"),
    *("StopContinuousProfiling", "NewSession", "pieces"),
)


def as_nobody(program: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def everybodys(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary directory as `/tmp` is: each user may make folders in it."""
    base = Path(tempfile.mkdtemp())
    base.chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(base))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(base / "runtime"))
    yield base
    shutil.rmtree(base)


def asked_by_a_stranger(started: server.Server, base: Path) -> dict[str, Any]:
    folder = base / "runtime" / "stepscope"
    told: dict[str, Any] = json.loads(
        as_nobody(ASKS, started.address, os.getpid(), folder)
    )
    return told


@pytest.mark.slow(seconds=10)
def test_a_default_server_refuses_another_user_and_serves_its_own(
    everybodys: Path,
) -> None:
    started = server.start(0)
    try:
        told = asked_by_a_stranger(started, everybodys)
        # The user needs to know neither a token nor that there is one.
        for words in ([started.address], ["--attach", str(os.getpid())]):
            logs = str(everybodys / "logs")
            done = CliRunner().invoke(
                main, ["capture", *words, "--ms", "20", "--logdir", logs, "--no-report"]
            )
            assert done.exit_code == 0, done.stderr
    finally:
        started.stop()
    assert {told[method] for method in METHODS} == {"UNAUTHENTICATED"}
    assert f"process {os.getpid()} belongs to" in told["attach"]
    assert told["folder"].startswith("PermissionError")
    assert told["file"].startswith("PermissionError")
    # Whoever is refused hears the way out, in one line.
    assert "this server requires a token" in told["capture"]
    assert 'ss.server.start(open_to="machine")' in told["capture"]
    assert "\n" not in told["capture"]


@pytest.mark.slow(seconds=10)
def test_a_server_that_is_open_to_the_machine_says_so_and_serves_another_user(
    everybodys: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "stepscope"):
        started = server.start(0, open_to="machine")
    try:
        told = asked_by_a_stranger(started, everybodys)
    finally:
        started.stop()
    (warning,) = caplog.messages
    assert "any user of this machine can record this program" in warning
    assert started.address in warning
    assert told["Monitor"].startswith("b'")
    # What he is served is no right to write files, or to call others.
    assert told["NewSession"] == "PERMISSION_DENIED"


@pytest.mark.slow(seconds=10)
def test_another_user_does_not_reach_a_unix_socket(everybodys: Path) -> None:
    started = server.start(host=f"unix:{everybodys}/mine/socket")
    try:
        told = asked_by_a_stranger(started, everybodys)
        with calling(started) as call:
            asked = ProfileRequest(duration_ms=20, emit_xspace=True)
            answer = call("Profile", encode_message(asked))
    finally:
        started.stop()
    assert {told[method] for method in METHODS} == {"UNAVAILABLE"}
    assert decode_message(ProfileResponse, answer).xspace


@pytest.mark.slow(seconds=10)
@pytest.mark.parametrize("where", [None, "link"])
def test_folders_that_another_user_made_are_not_used_and_that_is_said(
    everybodys: Path,
    where: str | None,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    squatted = everybodys / f"run-{os.getuid()}"
    as_nobody(SQUATS, everybodys, os.getuid(), os.getpid(), "127.0.0.1:9")
    if where is None:
        monkeypatch.delenv("XDG_RUNTIME_DIR")
        reason = f"{squatted} is another user's (nobody)"
    else:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(everybodys / where))
        reason = f"{everybodys / where} is not a folder but a link"
    assert reason in listening_programs.refused_folders()
    # The file that lies there is not believed.
    with pytest.raises(BadUsage, match="has no profiler server") as refused:
        listening_programs.servers_of_process(os.getpid())
    assert reason in str(refused.value)
    with caplog.at_level(logging.WARNING, "stepscope"):
        started = server.start(0)
    started.stop()
    assert started.token
    (warning,) = caplog.messages
    assert reason in warning
    assert "\n" not in warning
    assert [file.name for file in squatted.iterdir()] == ["stepscope"]
    for file in squatted.rglob("*"):
        assert file.is_dir() or started.token not in file.read_text()
