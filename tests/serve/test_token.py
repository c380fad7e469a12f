"""Bound elsewhere than to this machine alone, the server asks for its token."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from tests.support.sites.serve import Site

from stepscope.cli.main import main
from stepscope.serve.security import is_loopback, make_policy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Started:
    def __init__(self, site: Site, greeting: str) -> None:
        self.site = site
        self.greeting = greeting
        found = re.search(r"\?token=(\S+)", greeting)
        self.token = found[1] if found else None


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "stepscope", "serve", *arguments, "--port", "0"]


@pytest.fixture(scope="module")
def started(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Started]:
    folder = tmp_path_factory.mktemp("logs")
    program = command(str(folder), "--host", "0.0.0.0")  # noqa: S104 - what is tested
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        greeting = process.stdout.readline() + process.stdout.readline()
        port = re.search(r":(\d+)/", greeting)
        assert port is not None
        try:
            yield Started(Site(int(port[1]), store=None), greeting)  # type: ignore[arg-type]
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0


@pytest.mark.slow(seconds=0.7)
def test_the_printed_address_holds_the_key(started: Started) -> None:
    assert started.token is not None
    assert len(started.token) >= 32


@pytest.mark.parametrize(
    "path", ["", "index.html", "data/runs", "plugin.js", "nothing"]
)
def test_without_a_session_everything_is_refused(started: Started, path: str) -> None:
    answer = started.site.get(path)
    assert (answer.status, answer.error) == (403, "refused")


@pytest.mark.parametrize("told", ["", "x", "{token}x", "{cut}"])
def test_a_wrong_token_is_refused(started: Started, told: str) -> None:
    assert started.token is not None
    token = told.replace("{token}", started.token).replace("{cut}", started.token[:-1])
    answer = started.site.get(f"?token={token}")
    assert answer.status == 403
    assert "Set-Cookie" not in answer.headers


def test_the_token_is_taken_for_a_session_and_out_of_the_address(
    started: Started,
) -> None:
    answer = started.site.get(f"data/runs?a=1&token={started.token}&b=2")
    assert (answer.status, answer.body) == (303, b"")
    assert answer.headers["Location"] == "./runs?a=1&b=2"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert started.token is not None
    assert started.token not in cookie
    session = cookie.partition(";")[0]
    assert started.site.get("data/runs", Cookie=session).status == 200
    assert started.site.get("", Cookie=session).status == 200
    assert started.site.get("data/runs", Cookie=session + "x").status == 403
    name = session.partition("=")[0]
    assert started.site.get("data/runs", Cookie=f"{name}={started.token}").status == 403


@pytest.mark.parametrize(
    ("path", "location"),
    [("", "./"), ("index.html", "./index.html"), ("/evil.example/a:b", "./a%3Ab")],
)
def test_the_redirect_stays_here(started: Started, path: str, location: str) -> None:
    answer = started.site.get(f"{path}?token={started.token}")
    assert answer.headers["Location"] == location


def test_a_session_does_not_open_a_foreign_name(started: Started) -> None:
    answer = started.site.get(f"?token={started.token}", Host="evil.example")
    assert (answer.status, "Set-Cookie" in answer.headers) == (403, False)
    by_address = started.site.get(f"?token={started.token}", Host="192.0.2.1:1")
    assert by_address.status == 303
    by_name = started.site.get(f"?token={started.token}", Host=socket.gethostname())
    assert by_name.status == 303


def test_answers_are_packed_for_who_can_unpack(started: Started) -> None:
    cookie = started.site.get(f"?token={started.token}").headers["Set-Cookie"]
    answer = started.site.get(
        "data/tools", Cookie=cookie.partition(";")[0], Accept_Encoding="gzip"
    )
    assert answer.headers["Content-Encoding"] == "gzip"
    plain = started.site.get("data/tools", Cookie=cookie.partition(";")[0])
    assert "Content-Encoding" not in plain.headers
    assert len(answer.body) < len(plain.body)


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),  # noqa: S104 - what is tested
        ("::", False),
        ("192.168.1.7", False),
        ("box.example", False),
        ("localhost.example", False),
    ],
)
def test_only_this_machine_needs_no_token(host: str, alone: bool) -> None:  # noqa: FBT001 - a parameter of the test
    assert is_loopback(host) == alone
    assert (make_policy(host, 1).token is None) == alone


@pytest.mark.slow(seconds=0.7)
def test_a_server_for_this_machine_is_not_reached_from_elsewhere(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(
        command(str(tmp_path)), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        greeting = process.stdout.readline()
        port = int(re.search(r"127\.0\.0\.1:(\d+)/", greeting)[1])  # type: ignore[index]
        assert "token" not in greeting
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            # No packet is sent: the system tells which address it would use.
            asked.connect(("192.0.2.1", 9))
            own = asked.getsockname()[0]
        try:
            if own != "127.0.0.1":
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection((own, port), 5)
        finally:
            process.terminate()


def test_what_cannot_be_served_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for arguments, expected in (
            ((str(tmp_path), "--port", str(port)), "cannot listen"),
            ((str(tmp_path / "none"),), "does not exist"),
            ((str(tmp_path), "--host", "no.such.host.invalid"), "cannot listen"),
            (("nowhere://x",), "nowhere"),
        ):
            done = CliRunner().invoke(main, ["serve", *arguments])
            assert (done.exit_code, done.stdout) == (2, "")
            assert done.stderr.count("\n") == 1
            assert expected in done.stderr
