"""What killed programs leave in the temporary folder goes, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.capture import temporary

#: Makes a folder, says its name, and waits to be killed.
KILLED = """
import sys, time
from stepscope.capture.temporary import make_folder
folder = make_folder("test")
open(folder + "/recorded", "w").close()
print(folder, flush=True)
time.sleep(600)
"""
NOBODY = 65534


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder of all users: each may remove only what is its own."""
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setenv("TMPDIR", str(shared))
    monkeypatch.setattr("tempfile.tempdir", None)
    temporary._remove_left_behind.cache_clear()
    return shared


def program() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def make_another() -> None:
    temporary._remove_left_behind.cache_clear()
    os.rmdir(temporary.make_folder("test"))  # noqa: PTH106 - a text


@pytest.mark.slow(seconds=1)
def test_what_a_killed_program_left_goes_and_what_a_living_one_has_stays(
    folder: Path,
) -> None:
    killed, left = program()
    living, kept = program()
    try:
        end(killed)
        make_another()
        assert not left.exists()
        assert (kept / "recorded").exists()
    finally:
        end(living)
    # The id of the process is another's by now: what tells is when it started.
    kept.rename(str(kept).replace(f"-{living.pid}-", f"-{os.getpid()}-"))
    make_another()
    assert list(folder.iterdir()) == []


def test_nothing_is_removed_that_is_not_certainly_ours(
    folder: Path, tmp_path: Path
) -> None:
    ours = temporary.folder_prefix("test")
    gone = ours.replace(f"-{os.getpid()}-", "-0-")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    (folder / f"{gone}link").symlink_to(elsewhere, target_is_directory=True)
    (folder / f"{gone}file").touch()
    (folder / f"{gone}open").mkdir()
    (folder / f"{gone}open").chmod(0o755)
    (folder / f"{ours}mine").mkdir(mode=0o700)
    (folder / "stepscope-test-00000000-0-1-container").mkdir(mode=0o700)
    (folder / "stepscope-demo-abc").mkdir(mode=0o700)
    (folder / f"{gone}inside").mkdir(mode=0o700)
    (folder / f"{gone}inside" / "link").symlink_to(elsewhere)
    before = set(folder.iterdir())
    make_another()
    assert before - set(folder.iterdir()) == {folder / f"{gone}inside"}
    assert (elsewhere / "kept").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_what_another_user_left_stays(folder: Path) -> None:
    gone = temporary.folder_prefix("test").replace(f"-{os.getpid()}-", "-0-")
    theirs = folder / f"{gone}theirs"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, NOBODY, NOBODY)
    make_another()
    assert theirs.exists()


def test_where_others_may_rename_folders_nothing_is_removed(folder: Path) -> None:
    folder.chmod(0o777)
    gone = temporary.folder_prefix("test").replace(f"-{os.getpid()}-", "-0-")
    (folder / f"{gone}inside").mkdir(mode=0o700)
    make_another()
    assert [it.name for it in folder.iterdir()] == [f"{gone}inside"]


@pytest.mark.slow
def test_stepscope_run_removes_what_a_run_left_that_was_killed(
    folder: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "stepscope", "run", "--no-report"]
    waits = "print('runs', flush=True); import time; time.sleep(600)"
    with subprocess.Popen(
        [*command, "-c", waits],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        assert len(list(folder.iterdir())) == 1
        os.killpg(process.pid, signal.SIGKILL)
    subprocess.run([*command, "-c", "pass"], check=True, timeout=60, cwd=tmp_path)
    assert list(folder.iterdir()) == []
