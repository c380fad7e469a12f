"""Where a server listens: ports, and sockets in folders of their user alone."""

from __future__ import annotations

import logging
import shutil
import socket
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stepscope.errors import BadUsage
from stepscope.remote import client, server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder of this user with a path that is short enough for sockets."""
    folder = Path(tempfile.mkdtemp())
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow(seconds=0.5)
def test_a_program_is_recorded_over_a_unix_socket(short: Path, tmp_path: Path) -> None:
    path = short / "new" / "socket"
    started = server.start(host=f"unix:{path}")
    try:
        assert (started.address, started.token) == (f"unix:{path}", None)
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        outcome = client.trace(started.address, tmp_path / "logs", 20)
        with pytest.raises(BadUsage, match="a server uses this path"):
            server.start(host=f"unix:{path}")
    finally:
        started.stop()
    assert outcome.hosts == (f"unix:{path}",)
    (file,) = (tmp_path / "logs").rglob("*.xplane.pb")
    assert "/" not in file.name
    # What a killed program left is no server.
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    again = server.start(host=f"unix:{path}")
    try:
        assert client.trace(again.address, tmp_path / "again", 20).hosts
    finally:
        again.stop()


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o701, 0o777])
def test_a_folder_that_others_reach_holds_no_socket(short: Path, mode: int) -> None:
    short.chmod(mode)
    with pytest.raises(BadUsage, match=r"other users can access .*chmod 700"):
        server.start(host=f"unix:{short}/socket")
    assert list(short.iterdir()) == []


def test_what_is_no_place_for_a_socket_is_said_in_one_line(short: Path) -> None:
    (short / "link").symlink_to(short)
    (short / "file").touch()
    for place, why in {
        "relative/socket": "does not begin with /",
        f"{short}/{'long' * 30}": "more than 107 bytes",
        f"{short}/none/none/socket": "No such file",
        f"{short}/link/socket": "not a folder but a link",
        f"{short}/file": "a file with this name exists",
    }.items():
        with pytest.raises(BadUsage, match=why) as refused:
            server.start(host=f"unix:{place}")
        assert "\n" not in str(refused.value)
    with pytest.raises(BadUsage, match="it has no port"):
        server.start(6009, host=f"unix:{short}/socket")


def test_a_token_is_logged_only_where_the_server_made_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever gave one knows it; logs are read by others."""
    everywhere = "0.0.0.0"  # noqa: S104 - what is tested
    monkeypatch.delenv("STEPSCOPE_TOKEN", raising=False)
    with caplog.at_level(logging.WARNING, "stepscope"):
        made = server.start(0, host=everywhere)
        made.stop()
        assert str(made.token) in caplog.messages[-1]
        server.start(0, host=everywhere, token="given").stop()  # noqa: S106 - of this test alone
        monkeypatch.setenv("STEPSCOPE_TOKEN", "of-the-variable")
        server.start(0, host=everywhere).stop()
    assert caplog.messages[-1].endswith("with the token that it was given")
    assert "of-the-variable" not in caplog.text
    assert "with the token given" not in caplog.text


def test_who_may_ask_without_a_token_is_said_with_words_that_fit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`open_to` and the place must not contradict each other."""
    everywhere = "0.0.0.0"  # noqa: S104 - what is tested
    with caplog.at_level(logging.WARNING, "stepscope"):
        started = server.start(0, host=everywhere, open_to="network")
        started.stop()
    assert "any client that can connect can record this program" in caplog.messages[-1]
    assert started.token is None
    with pytest.raises(BadUsage, match='give open_to="network"'):
        server.start(0, host=everywhere, open_to="machine")
    with pytest.raises(BadUsage, match=r"a token .* only some"):
        server.start(0, token="secret", open_to="machine")  # noqa: S106 - none
    with pytest.raises(BadUsage, match="open_to='all' is unknown"):
        server.start(0, open_to="all")  # type: ignore[arg-type]  # what is tested


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"port": "6009"}, "port='6009' does not exist"),
        ({"port": 65_536}, "port=65536 does not exist"),
        ({"port": 0, "token": 5}, "cannot be sent"),
    ],
)
def test_a_value_that_no_server_can_have_is_refused(
    given: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadUsage, match=said):
        server.start(**given)
