"""Where clients have files written: below the server's log directory, or nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import stepscope as ss
from stepscope.remote.destinations import Allowance, NotStored, client_destination
from stepscope.remote.messages import (
    ProfileOptions,
    ProfileRequest,
    ProfileResponse,
    decode_message,
    encode_message,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PLENTY = Allowance(9, 10**9)
#: Root and session that clients may not have files written at. In a root, LOGS is the
#: server's log directory and OUT another one.
ELSEWHERE = [
    ("OUT/plugins/profile", "s"),
    ("OUT", "s"),
    ("relative/plugins/profile", "s"),
    ("", "s"),
    ("/", "s"),
    ("gs://bucket/plugins/profile", "s"),
    ("LOGS/../out/plugins/profile", "s"),
    ("LOGS-besides", "s"),
    ("LOGS/link", "s"),
    ("LOGS/zero\0byte", "s"),
    ("LOGS/plugins/profile", "linked"),
    ("LOGS/plugins/profile", "OUT/s"),
    ("LOGS/plugins/profile", "../../../out"),
    ("LOGS/plugins/profile", ".."),
    ("LOGS/plugins/profile", ".hidden"),
    ("LOGS/plugins/profile", "a/b"),
    ("LOGS/plugins/profile", "line\nend"),
    ("LOGS/plugins/profile", ""),
]


@pytest.fixture
def out(tmp_path: Path, logdir: Path) -> Path:
    """A directory that is none of the server's, with links to it from its own."""
    elsewhere = tmp_path / "out"
    elsewhere.mkdir()
    runs = logdir / "plugins" / "profile"
    runs.mkdir(parents=True)
    (logdir / "link").symlink_to(elsewhere)
    (logdir / "loop").symlink_to("loop")
    (runs / "linked").symlink_to(elsewhere)
    return elsewhere


def asking(root: str, session: str) -> ProfileRequest:
    return ProfileRequest(
        duration_ms=20, repository_root=root, session_id=session, host_name="vm:1"
    )


def test_a_file_is_written_where_the_client_asked(
    writing: Callable[..., bytes], logdir: Path
) -> None:
    root = logdir / "plugins" / "profile"
    asked = encode_message(asking(str(root), "one"))
    assert (
        decode_message(ProfileResponse, writing("Profile", asked)) == ProfileResponse()
    )
    (file,) = (root / "one").iterdir()
    assert file.name == "vm_1.xplane.pb"
    assert ss.open(file).hosts == ("vm_1",)


@pytest.mark.parametrize("host", ["../../out/x", "/etc/x", "a\0b", ".", ""])
def test_the_name_of_a_file_is_none_of_another_folder(
    writing: Callable[..., bytes], logdir: Path, host: str
) -> None:
    root = logdir / "plugins" / "profile"
    asked = ProfileRequest(
        duration_ms=20,
        repository_root=str(root),
        session_id="one",
        opts=ProfileOptions(override_hostname=host),
    )
    assert decode_message(
        ProfileResponse, writing("Profile", encode_message(asked))
    ) == (ProfileResponse())
    (file,) = logdir.parent.rglob("*.xplane.pb")
    assert file.parent == root / "one"


@pytest.mark.slow(seconds=1.0)
def test_nothing_lands_elsewhere(
    writing: Callable[..., bytes], logdir: Path, out: Path
) -> None:
    """The client gets the file instead."""
    for root, session in ELSEWHERE:
        place = root.replace("LOGS", str(logdir)).replace("OUT", str(out))
        name = session.replace("OUT", str(out))
        assert client_destination(logdir, place, name, PLENTY) is None, (root, session)
    # Two of them over the wire, and two that lead nowhere.
    for root, session in (
        (logdir / "link", "s"),
        (logdir / "plugins" / "profile", f"{out}/s"),
        (logdir / "loop", "s"),
        (logdir / ("long" * 2000), "s"),
    ):
        asked = encode_message(asking(str(root), session))
        answer = decode_message(ProfileResponse, writing("Profile", asked))
        assert [one.name for one in answer.tool_data] == ["xplane.pb"]
        assert answer.tool_data[0].data
    assert list(out.iterdir()) == []
    assert list(logdir.parent.rglob("*.xplane.pb")) == []


def test_without_a_log_directory_nothing_is_written(
    calls: Callable[..., bytes], tmp_path: Path
) -> None:
    """A log directory that exists is no permission to write into it."""
    root = tmp_path / "plugins" / "profile"
    root.mkdir(parents=True)
    answer = decode_message(
        ProfileResponse, calls("Profile", encode_message(asking(str(root), "s")))
    )
    assert [one.name for one in answer.tool_data] == ["xplane.pb"]
    assert list(root.iterdir()) == []


def test_a_folder_that_was_replaced_by_a_link_gets_nothing(
    logdir: Path, out: Path
) -> None:
    """What is decided before a recording holds when it is written."""
    root = logdir / "plugins" / "profile"
    place = client_destination(logdir, str(root), "s", PLENTY)
    assert place is not None
    (root / "s").symlink_to(out)
    with pytest.raises(Exception, match="replaced by a link"):
        place.store_file("vm.xplane.pb", [b"content"])
    assert list(out.iterdir()) == []


@pytest.mark.parametrize(("files", "size"), [(1, 100), (9, 10)])
def test_all_methods_share_what_clients_may_have_written(
    files: int, size: int, logdir: Path
) -> None:
    root = str(logdir / "plugins" / "profile")
    allowance = Allowance(files, size)
    first, second = (
        client_destination(logdir, root, it, allowance) for it in ("a", "b")
    )
    assert first is not None
    assert second is not None
    first.store_file("vm.xplane.pb", [b"8 bytes."])
    with pytest.raises(
        NotStored, match=r"reached their limit.*the profile is not kept"
    ):
        second.store_file("vm.xplane.pb", [b"8 bytes."])
    assert [it.parent.name for it in logdir.rglob("*.pb")] == ["a"]
