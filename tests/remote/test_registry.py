"""Which processes can be recorded: files of their user alone, and no stale ones."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from stepscope.errors import BadUsage
from stepscope.remote import registry

if TYPE_CHECKING:
    from pathlib import Path

ADDRESS = "127.0.0.1:6009"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the files of the tests lie."""
    return tmp_path / "runtime" / "stepscope"


def test_a_process_is_found_by_its_number_until_it_is_forgotten(folder: Path) -> None:
    registry.note(ADDRESS, "secret")
    found = registry.where(os.getpid())
    assert (found.process, found.address, found.token) == (
        *(os.getpid(), ADDRESS),
        "secret",
    )
    assert registry.listening() == (found,)
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    registry.forget()
    assert list(folder.iterdir()) == []
    with pytest.raises(BadUsage, match=r"has no profiler server.*run --serve"):
        registry.where(os.getpid())


def test_a_process_without_a_server_is_told_those_that_have_one() -> None:
    registry.note(ADDRESS, None)
    with pytest.raises(BadUsage, match=f"Those that have one: {os.getpid()} "):
        registry.where(os.getppid())


def test_a_process_that_is_gone(folder: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    registry.note(ADDRESS, None)
    (file,) = folder.iterdir()
    left = file.rename(folder / f"{ended.pid}.json")
    with pytest.raises(BadUsage, match=f"there is no process {ended.pid}"):
        registry.where(ended.pid)
    # What a killed process left is taken away when the next one comes.
    registry.note(ADDRESS, None)
    assert not left.exists()
    assert file.exists()


def test_a_number_that_another_process_has_got_since(folder: Path) -> None:
    registry.note(ADDRESS, None)
    (file,) = folder.iterdir()
    fields = json.loads(file.read_text())
    if fields["started_ticks"] is None:
        pytest.skip("this system has no /proc: numbers that come again are not noticed")
    file.write_text(json.dumps(fields | {"started_ticks": 1}))
    with pytest.raises(BadUsage, match="has no profiler server"):
        registry.where(os.getpid())
    assert not file.exists()


def test_a_process_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.note(ADDRESS, None)
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    with pytest.raises(BadUsage, match=f"process {os.getpid()} is another user's"):
        registry.where(os.getpid())


@pytest.mark.parametrize("where", ["stepscope", "."])
def test_a_folder_that_others_may_write_to_is_not_trusted(
    where: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    registry.note(ADDRESS, None)
    assert registry.listening()
    (folder.parent / where).chmod(0o777)
    assert registry.listening() == ()
    registry.forget()
    registry.note(ADDRESS, "secret")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"address": "h:1"}', '"text"', "\xff"],
)
def test_a_file_that_is_none_is_no_server(folder: Path, content: str) -> None:
    registry.note(ADDRESS, None)
    (file,) = folder.iterdir()
    file.write_bytes(content.encode("latin-1"))
    assert registry.listening() == ()


def test_a_folder_that_cannot_be_made_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    registry.note(ADDRESS, None)
    assert registry.listening() == ()
