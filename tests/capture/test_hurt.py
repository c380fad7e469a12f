"""What may hurt a recording changes neither the program's loss nor its exit status.

Every program is compared with itself without stepscope. The long version of the kills
is `kill_loop.py`.
"""

from __future__ import annotations

import itertools
import json
import os
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.programs.frameworks import ROOT, interpreter

import stepscope as ss

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.derive.profile_data import ProfileData

HERE = Path(__file__).parent
PROGRAM = HERE / "hurt_program.py"
STEPS = 120
#: Sets of calls that are made to fail in one process each.
PARTS = 4
#: Room for the beginning of the recording, not for all of it.
SMALL_BYTES = 24 * 1024
#: No file may grow beyond that: each write fails, as on a full disk.
SMALL_FILES = (
    *("sh", "-c"),
    f'trap "" XFSZ; ulimit -f {SMALL_BYTES // 512}; exec "$@"',
    "sh",
)
#: Options with which it writes twice as much, in small parts.
BULKY = ("--pad", "150", "--step-ms", "10")


def run(
    logdir: Path | str, *options: str, under: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """The program, to its end, started by another one where that is given."""
    command = (sys.executable, PROGRAM, logdir, "--steps", str(STEPS), *options)
    return subprocess.run(
        (*under, *command), capture_output=True, text=True, check=False, timeout=120
    )


@cache
def run_without(*options: str) -> subprocess.CompletedProcess[str]:
    """The program as it is without us."""
    return run("-", *options)


def own_lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What the program itself has to say."""
    ours = ("starting", "began", "stopping", "stopped", "warning", "step ")
    return [line for line in done.stdout.splitlines() if not line.startswith(ours)]


def warnings_of(done: subprocess.CompletedProcess[str]) -> str:
    lines = done.stdout.splitlines()
    return "\n".join(line for line in lines if line.startswith("warning "))


def unharmed(
    logdir: Path | str, *options: str, under: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """The recorded program, after it was found to do what it does without us."""
    without = run_without(*options)
    recorded = run(logdir, *options, under=under)
    assert own_lines(without)[-1].startswith("loss ")
    assert own_lines(recorded) == own_lines(without)
    assert recorded.returncode == without.returncode, recorded.stderr
    return recorded


def steps_of(logdir: Path) -> list[int]:
    return [step.step for step in ss.open(logdir).tool("overview_page").steps]


def run_directory(logdir: Path) -> Path:
    (directory,) = (logdir / "plugins" / "profile").iterdir()
    return directory


def annotations(profile: ProfileData, host: str) -> list[str]:
    """Names of all annotations of a process, sorted."""
    trace = profile.trace(host)
    names = trace.table("event_types")["name"].to_list()
    found = sorted(names[it] for it in trace.table("events")["type"])
    return [name for name in found if name in {"part", "train", "worker"}]


@pytest.mark.slow(seconds=12)
def test_some_kills_leave_files_that_are_whole_and_readable() -> None:
    command = (sys.executable, HERE / "kill_loop.py")
    done = subprocess.run(
        (*command, "--kills", "6", "--seed", "5", "--every-ms", "350"),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("6 kills (")


def tried_calls(python: str, framework: str, part: int) -> int:
    """How many calls of the collectors were made to fail, nothing being wrong.

    Each `PARTS`-th call fails, from number `part` on.
    """
    done = subprocess.run(
        (python, HERE / "fault_rounds.py", framework, str(part), str(PARTS)),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["problems"] == []
    tried: int = seen["tried"]
    return tried


@pytest.mark.slow(seconds=4)
@pytest.mark.sweep(every=PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_call_of_every_collector_may_fail(part: int) -> None:
    assert tried_calls(sys.executable, "numpy", part) > 30 // PARTS


@pytest.mark.framework
@pytest.mark.slow(seconds=12)
@pytest.mark.sweep(every=PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_call_of_a_frameworks_collector_may_fail(part: int) -> None:
    """One framework here; the calls of the others fail in their own tests."""
    assert tried_calls(interpreter("jax"), "jax", part) > 50 // PARTS


@pytest.mark.slow
@pytest.mark.parametrize("how", ["", "exit", "exception", "SIGTERM"])
@pytest.mark.sweep(every=4)
def test_however_the_program_ends(tmp_path: Path, how: str) -> None:
    done = unharmed(tmp_path, "--end", how)
    assert done.returncode == {"exit": 7, "exception": 1, "SIGTERM": -15}.get(how, 0)
    assert ("the program's own" in done.stderr) == (how == "exception")
    assert steps_of(tmp_path) == list(range(STEPS))
    assert list(tmp_path.rglob("*.part")) == []


@pytest.mark.slow
@pytest.mark.parametrize("what", ["fork", "workers"])
@pytest.mark.sweep(every=2)
def test_a_fork_in_the_middle(tmp_path: Path, what: str) -> None:
    done = unharmed(tmp_path, "--do", what)
    assert warnings_of(done) == ""
    profile = ss.open(tmp_path)
    (parent,) = run_directory(tmp_path).glob(f"{profile.hosts[0]}.xplane.pb")
    assert steps_of(parent) == list(range(STEPS))
    children = [annotations(profile, host) for host in profile.hosts[1:]]
    if what == "fork":
        assert children == [["part"] * 5 + ["train"] * 5]
    else:
        # One of the two workers may have done it all.
        assert sorted(itertools.chain(*children)) == ["worker"] * 4


@pytest.mark.slow
def test_a_log_directory_that_is_removed_meanwhile(tmp_path: Path) -> None:
    done = unharmed(tmp_path / "logs", "--do", "remove")
    assert "stopped None" not in done.stdout
    assert steps_of(tmp_path / "logs") == list(range(STEPS))


@pytest.mark.slow(seconds=0.9)
@pytest.mark.parametrize("where", ["/proc/logs", "below a file"])
@pytest.mark.sweep(every=2)
def test_a_log_directory_that_cannot_be_written(tmp_path: Path, where: str) -> None:
    file = tmp_path / "file"
    file.write_text("no directory")
    done = unharmed(where if where.startswith("/") else file / "logs")
    assert "kept in memory" in warnings_of(done)
    assert "could not be written" in warnings_of(done)
    assert "stopped None" in done.stdout
    assert list(tmp_path.iterdir()) == [file]


def check_the_spool_of_a_full_disk(
    done: subprocess.CompletedProcess[str], logdir: Path
) -> None:
    """What was written before is whole, and what was lost is reported."""
    told = warnings_of(done)
    assert "the disk refused events while recording" in told
    assert "could not be written" in told
    assert "Run.xspace()" in told
    (left,) = (path for path in logdir.rglob("*") if path.is_file())
    assert left.name.endswith(".xplane.pb.part")
    steps = steps_of(logdir)
    assert steps[0] == 0
    assert steps == sorted(set(steps))
    assert len(steps) < STEPS


@pytest.mark.slow
def test_a_disk_that_gets_full_while_recording(tmp_path: Path) -> None:
    done = unharmed(tmp_path, *BULKY, under=SMALL_FILES)
    check_the_spool_of_a_full_disk(done, tmp_path)


@pytest.mark.slow
def test_a_real_disk_that_gets_full_while_recording(tmp_path: Path) -> None:
    """A file system in memory of a few kilobytes, in a mount namespace of its own."""
    small, copied = tmp_path / "small", tmp_path / "copied"
    small.mkdir()
    mount = f"mount -t tmpfs -o size={SMALL_BYTES} none {shlex.quote(str(small))}"
    probe = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount], capture_output=True, check=False
    )
    if probe.returncode:
        pytest.skip(f"no file system can be mounted here: {probe.stderr.decode()}")
    program = shlex.join(
        [sys.executable, str(PROGRAM), str(small), "--steps", str(STEPS), *BULKY]
    )
    copy = f"cp -r {shlex.quote(str(small))} {shlex.quote(str(copied))}"
    done = subprocess.run(
        [
            "unshare",
            "--mount",
            "sh",
            "-c",
            f"{mount} && {program}; s=$?; {copy}; exit $s",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    without = run_without(*BULKY)
    assert (own_lines(done), done.returncode) == (own_lines(without), 0), done.stderr
    assert "are free in" in warnings_of(done)
    check_the_spool_of_a_full_disk(done, copied)
