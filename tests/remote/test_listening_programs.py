"""Which processes can be recorded: files of their user alone, and no stale ones."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from stepscope.errors import BadUsage
from stepscope.remote import listening_programs
from stepscope.remote.processes import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HAS_PROC = pytest.mark.skipif(
    not os.path.exists("/proc/self/stat"),  # noqa: PTH110 - at import
    reason="this system has no /proc: who started a process is not known",
)
ADDRESS = "127.0.0.1:6009"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the files of the tests lie."""
    return tmp_path / "runtime" / "stepscope"


def test_a_process_is_found_by_its_number_until_it_is_forgotten(folder: Path) -> None:
    listening_programs.note_server(ADDRESS, "secret")
    (found,) = listening_programs.servers_of_process(os.getpid())
    assert (found.process, found.address, found.token) == (
        *(os.getpid(), ADDRESS),
        "secret",
    )
    assert listening_programs.listening_processes() == (found,)
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    listening_programs.forget_server(ADDRESS)
    assert list(folder.iterdir()) == []
    with pytest.raises(BadUsage, match=r"has no profiler server.*run --serve"):
        listening_programs.servers_of_process(os.getpid())


def test_a_process_without_a_server_is_told_those_that_have_one() -> None:
    listening_programs.note_server(ADDRESS, None)
    those = f"Processes with a server: {os.getpid()} "
    with waiting() as other, pytest.raises(BadUsage, match=those):
        listening_programs.servers_of_process(other)


@contextlib.contextmanager
def waiting(**environment: str) -> Iterator[int]:
    """A child of this process that does nothing."""
    process = subprocess.Popen(
        ["cat"], stdin=subprocess.PIPE, env=os.environ | environment
    )
    try:
        yield process.pid
    finally:
        process.communicate()


@HAS_PROC
def test_of_what_listens_below_only_the_first_is_meant(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening_programs, "process_owner", lambda _: os.getuid())
    monkeypatch.setattr(listening_programs, "started_ticks", lambda _: 1)
    # 10 is a launcher, 12 and 13 are its workers, which 11 lies between in one case;
    # 14 makes batches for 13, and 20 is nobody's of these.
    above = {10: (1,), 11: (10, 1), 12: (11, 10, 1), 13: (10, 1), 14: (13, 10, 1)}
    monkeypatch.setattr(
        listening_programs, "process_ancestors", lambda it: above.get(it, (1,))
    )
    monkeypatch.setattr(listening_programs, "command_line", lambda it: str(it).encode())
    listening_programs.note_server(ADDRESS, None)
    (file,) = folder.iterdir()
    for process in (12, 13, 14, 20):
        (folder / f"{process}.json").write_bytes(file.read_bytes())
    file.unlink()

    def reached_by(process: int) -> list[int]:
        return [one.process for one in listening_programs.servers_of_process(process)]

    assert reached_by(10) == [12, 13]
    assert reached_by(11) == [12]
    assert reached_by(13) == [13]
    with pytest.raises(BadUsage, match="process 30 has no profiler server"):
        listening_programs.servers_of_process(30)


@HAS_PROC
def test_a_process_that_was_started_to_listen_does_not_yet() -> None:
    with (
        waiting(**{VARIABLE: "127.0.0.1\n0\n"}) as process,
        pytest.raises(BadUsage, match="does not listen yet"),
    ):
        listening_programs.servers_of_process(process)


FORKED = """
import os, sys
from stepscope.errors import BadUsage
from stepscope.remote import listening_programs
from stepscope.remote.processes import VARIABLE
ADDRESS = "127.0.0.1:6009"
listening_programs.note_server(ADDRESS, None)
hears, says = os.pipe()
child = os.fork()
if not child:
    os.close(says)
    os.read(hears, 1)
    os._exit(0)
try:
    listening_programs.servers_of_process(child)
except BadUsage as error:
    print(str(error).replace(str(child), "CHILD").replace(str(os.getpid()), "PARENT"))
listening_programs.forget_server(ADDRESS)
os.close(says)
os.wait()
"""


@HAS_PROC
@pytest.mark.slow  # it starts an interpreter, which forks
def test_a_forked_child_is_told_its_parent() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == (
        "process CHILD was forked from process PARENT (-c), which listens; a forked "
        "child has no server. Record its parent (--attach PARENT), or have the program "
        "spawn its children instead.\n"
    ), done.stderr


def test_a_process_that_is_gone(folder: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    listening_programs.note_server(ADDRESS, None)
    (file,) = folder.iterdir()
    left = file.rename(folder / f"{ended.pid}.json")
    with pytest.raises(BadUsage, match=f"there is no process {ended.pid}"):
        listening_programs.servers_of_process(ended.pid)
    # What a killed process left is taken away when the next one comes.
    listening_programs.note_server(ADDRESS, None)
    assert not left.exists()
    assert file.exists()


def test_a_number_that_another_process_has_got_since(folder: Path) -> None:
    listening_programs.note_server(ADDRESS, None)
    (file,) = folder.iterdir()
    fields = json.loads(file.read_text())
    if fields["started_ticks"] is None:
        pytest.skip("this system has no /proc: numbers that come again are not noticed")
    file.write_text(json.dumps(fields | {"started_ticks": 1}))
    with pytest.raises(BadUsage, match="has no profiler server"):
        listening_programs.servers_of_process(os.getpid())
    assert not file.exists()


def test_a_process_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    listening_programs.note_server(ADDRESS, None)
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    with pytest.raises(BadUsage, match=f"process {os.getpid()} belongs to"):
        listening_programs.servers_of_process(os.getpid())


@pytest.mark.parametrize("where", ["stepscope", "."])
def test_a_folder_that_others_may_write_to_is_not_trusted(
    where: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    listening_programs.note_server(ADDRESS, None)
    assert listening_programs.listening_processes()
    (folder.parent / where).chmod(0o777)
    assert listening_programs.listening_processes() == ()
    problem = listening_programs.note_server(ADDRESS, "secret")
    assert problem is not None
    assert f"other users may write to {(folder.parent / where).resolve()}" in problem
    assert all("secret" not in file.read_text() for file in folder.iterdir())


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"address": "h:1"}', '"text"', "\xff"],
)
def test_a_file_that_is_none_is_no_server(folder: Path, content: str) -> None:
    listening_programs.note_server(ADDRESS, None)
    (file,) = folder.iterdir()
    file.write_bytes(content.encode("latin-1"))
    assert listening_programs.listening_processes() == ()


def test_a_folder_that_cannot_be_made_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    listening_programs.note_server(ADDRESS, None)
    assert listening_programs.listening_processes() == ()
