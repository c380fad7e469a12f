"""`stepscope run` on programs that start others: those are recorded, launchers not."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from stepscope.capture.launching.notes import Note, program_is_known, program_name
from stepscope.capture.launching.outcome import describe_outcome, keep_the_best
from stepscope.capture.launching.plan import RunPlan
from stepscope.capture.launching.waiting import is_launcher
from stepscope.rundir import scan_directory

#: Each runs programs of its own.
pytestmark = pytest.mark.slow(seconds=4)

#: Works for so many seconds, and never steps.
WORKER = """
import sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    sum(range(1000))
"""
BY_SUBPROCESS = """
import subprocess, sys
command = [sys.executable, "worker.py", sys.argv[1]]
for process in [subprocess.Popen(command) for _ in range(2)]:
    process.wait()
"""
BY_SHELL = """
import subprocess, sys
subprocess.run(
    f"{sys.executable} worker.py {sys.argv[1]} & {sys.executable} worker.py "
    f"{sys.argv[1]}; wait", shell=True
)
"""
BY_SPAWN = """
import multiprocessing, sys, time
def work(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    arguments = (float(sys.argv[1]),)
    workers = [context.Process(target=work, args=arguments) for _ in range(2)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
"""
PARENTS = {"subprocess": BY_SUBPROCESS, "shell": BY_SHELL, "spawn": BY_SPAWN}
#: Where time opens a window, and where all end before.
BY_TIME = ("--wait-s", "2", "--record-s", "0.5")
EARLY = ("--wait-s", "90")


class Done(NamedTuple):
    """What became of a program: its words, and how many processes were recorded."""

    err: str
    processes: int


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, where the worker is."""
    monkeypatch.chdir(tmp_path)
    Path("worker.py").write_text(WORKER, encoding="utf-8")
    return tmp_path


def run(program: str, *arguments: object, options: tuple[str, ...] = BY_TIME) -> Done:
    Path("parent.py").write_text(program, encoding="utf-8")
    command = ("run", "--no-report", *options, "--", "parent.py", *arguments)
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr
    (run,) = scan_directory(Path("stepscope-logs")).runs
    # A whole file of each process, and nothing else.
    files = list(run.directory.iterdir())
    assert len(run.hosts) == len(files)
    return Done(done.stderr, len(files))


# Long enough for workers to last a part of their parent, however slow it starts.
SECONDS = {EARLY: 3, BY_TIME: 6}


@pytest.mark.sweep(every=2)
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("how", "options"),
    [
        *((how, EARLY) for how in sorted(PARENTS)),
        ("subprocess", BY_TIME),
        *(
            pytest.param(how, BY_TIME, marks=pytest.mark.thorough)
            for how in sorted(PARENTS)
            if how != "subprocess"
        ),
    ],
)
def test_a_parent_that_only_waits_is_not_recorded(
    how: str, options: tuple[str, ...]
) -> None:
    """Neither where the workers end early, nor where time opens their windows."""
    done = run(PARENTS[how], SECONDS[options], options=options)
    assert done.processes == 2
    assert "not recorded (only started other processes): parent.py" in done.err


BUSY = """
import subprocess, sys, time
worker = subprocess.Popen([sys.executable, "worker.py", "1"])
while time.process_time() < 3:
    sum(range(1000))
worker.wait()
"""
ANNOTATES = """
import subprocess, sys
import stepscope as ss
with ss.Trace("all of it"):
    subprocess.run([sys.executable, "worker.py", "1"])
"""
NO_PYTHON = """
import subprocess
subprocess.run(["sleep", "1"])
"""


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("program", "processes"), [(BUSY, 2), (ANNOTATES, 2), (NO_PYTHON, 1)]
)
def test_a_parent_that_does_something_itself_is_recorded(
    program: str, processes: int
) -> None:
    done = run(program, options=EARLY)
    assert done.processes == processes
    assert "only started" not in done.err


def note(process: int, how: str, **more: object) -> Note:
    fields = {
        "counted": None,
        "steps": 0,
        "first": None,
        "last": None,
        "path": None,
        "warnings": (),
        **more,
    }
    return Note(process=process, program=f"{process}.py", how=how, **fields)


def test_a_launcher_whose_processes_left_nothing_is_said_to_be_one() -> None:
    notes = (note(1, "waited"),)
    plan = RunPlan("logs", "run", "")
    kept, left_out = keep_the_best(notes)
    first, *rest = describe_outcome(kept, left_out, plan, anything=False, status=0)
    assert first.startswith("1.py: the program only waited for its child processes")
    assert rest == ["nothing was recorded"]


@pytest.mark.parametrize(
    ("words", "launches"),
    [
        (["python", "-m", "torch.distributed.run", "train.py"], True),
        (["python", "-u", "/opt/bin/torchrun", "train.py"], True),
        (["python", "/opt/bin/accelerate", "launch", "train.py"], True),
        (["python", "train.py", "torchrun"], False),
        (["python", "-m", "train", "torch.distributed.run"], False),
        (["python", "-m"], False),
        (["python"], False),
    ],
)
def test_a_launcher_is_known_by_its_name_while_it_still_imports(
    words: list[str], *, launches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "orig_argv", words)
    for name in ("torch.distributed.run", "accelerate.commands.launch"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert is_launcher() is launches


def test_a_child_of_multiprocessing_has_the_name_of_its_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = [
        "python",
        "-c",
        "from multiprocessing.spawn import spawn_main; spawn_main()",
    ]
    monkeypatch.setattr(sys, "orig_argv", [*words, "--multiprocessing-fork"])
    monkeypatch.setattr(sys, "argv", ["-c", "--multiprocessing-fork"])
    assert not program_is_known()
    assert program_name() == "a child of multiprocessing"
    monkeypatch.setattr(sys, "argv", ["train.py", "--epochs", "3"])
    assert program_is_known()
    assert program_name() == f"train.py {multiprocessing.current_process().name}"
    monkeypatch.setattr(sys, "orig_argv", ["python", "train.py"])
    assert program_name() == "train.py"
