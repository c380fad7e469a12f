"""However a program ends under `stepscope run`, its status and files are its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from stepscope.capture.base.spool import OwnDescriptor, OwnFile

if TYPE_CHECKING:
    from pathlib import Path

#: Closes all that is open while it is recorded, as daemons do, and opens files of its
#: own, which get the numbers of those that were closed.
CLOSES_ALL = """
import os, signal, sys, time
import stepscope as ss

heard = []
signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
for step in range(60):
    if step == 15:
        os.closerange(3, 256)
        files = [open(f"file{i}", "w+b", buffering=0) for i in range(40)]
        for file in files:
            file.write(b"mine")
    with ss.StepTrace(step):
        time.sleep(0.02)
    if step > 30:
        signal.raise_signal(signal.SIGUSR1)
for file in files:
    file.seek(0)
    assert file.read() == b"mine", file.name
sys.exit(5 if heard else 1)
"""
STEPS = """
import os, signal, sys, time
import stepscope as ss

for step in range(30):
    with ss.StepTrace(step):
        time.sleep(0.01)
        if step == 25:
            {ending}
"""
#: Runs `stepscope` with a report that does something else.
INSTEAD_OF_A_REPORT = """
import os, sys
from stepscope.cli import report
def answer(asked):
    os.write(2, b"noise of a library\\n")
    {instead}
report.answer_request = answer
from stepscope.__main__ import run
run()
"""


def stepscope(
    folder: Path, program: str, *options: str, python: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a program under `stepscope run`."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    command = python or (sys.executable, "-m", "stepscope")
    return subprocess.run(
        [*command, "run", *options, "program.py"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=folder,
    )


@pytest.mark.slow
def test_a_program_that_closes_all_files_keeps_those_that_it_opens_then(
    tmp_path: Path,
) -> None:
    done = stepscope(tmp_path, CLOSES_ALL, "--no-report")
    assert done.returncode == 5, done.stderr
    said = done.stderr.splitlines()
    assert len(said) == 3, done.stderr
    assert "steps 11 to " in said[1]
    assert said[2] == "stepscope: the program ended with status 5"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "status", "said"),
    [
        ("os._exit(6)", 6, "the program ended at once (as by os._exit)"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "the program was killed"),
    ],
)
def test_a_program_that_ends_without_pythons_end_is_not_said_to_be_killed(
    tmp_path: Path, ending: str, status: int, said: str
) -> None:
    done = stepscope(
        tmp_path, STEPS.format(ending=ending), "--no-report", "--steps", "100"
    )
    assert done.returncode == status
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.sweep(every=2)
@pytest.mark.slow(seconds=1)
@pytest.mark.parametrize(
    ("instead", "said"),
    [
        ("os.abort()", "signal 6 ended the process that made the report"),
        ("raise KeyboardInterrupt", "the report was interrupted"),
        ("raise BaseException('tables')", "the report failed: BaseException: tables"),
        ("raise MemoryError", "the report failed: MemoryError"),
    ],
)
def test_the_exit_status_stays_where_no_report_can_be_made(
    tmp_path: Path, instead: str, said: str
) -> None:
    code = INSTEAD_OF_A_REPORT.format(instead=instead)
    done = stepscope(
        tmp_path,
        STEPS.format(ending="sys.exit(8)"),
        python=(sys.executable, "-c", code),
    )
    assert done.returncode == 8
    assert said in done.stderr.splitlines()[-1]
    assert "noise" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_exit_status_stays_where_nothing_can_be_said(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("raise SystemExit(8)", encoding="utf-8")
    command = f"{sys.executable} -m stepscope run program.py >&- 2>&-"
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        check=False,
        timeout=120,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "none")},
    )
    assert done.returncode == 8


@pytest.mark.slow(seconds=1)
def test_annotations_that_are_open_are_in_the_file_and_in_no_line(
    tmp_path: Path,
) -> None:
    program = """
import stepscope as ss
with ss.StepTrace(1):
    for _ in range(3):
        ss.start("logs", ss.ProfilerOptions(collectors=("host",)))
        annotation = ss.Trace("load").__enter__()
        run = ss.stop()
        print(run.warnings)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
    )
    assert done.stderr == ""
    open_still = (
        "('1 annotations were open when recording stopped and are not in the profile',)"
    )
    assert done.stdout.splitlines() == [open_still] * 3


def test_a_descriptor_whose_number_is_anothers_is_neither_used_nor_closed(
    tmp_path: Path,
) -> None:
    reading, writing = os.pipe()
    ours = OwnDescriptor(reading)
    assert ours.number() == reading
    os.close(reading)
    theirs = os.open(tmp_path / "theirs", os.O_CREAT | os.O_RDWR)
    assert theirs == reading
    with pytest.raises(OSError, match="Bad file descriptor"):
        ours.number()
    ours.close()
    assert os.fstat(theirs)
    os.close(theirs)
    os.close(writing)


def test_a_file_of_ours_is_opened_again_and_another_in_its_place_is_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ours"
    ours = OwnFile(path, os.O_CREAT | os.O_EXCL | os.O_RDWR)
    os.pwrite(ours.number(), b"first", 0)
    os.close(ours.number())
    os.pwrite(ours.number(), b"and more", 5)
    assert path.read_bytes() == b"firstand more"
    os.close(ours.number())
    path.rename(tmp_path / "kept")
    path.write_bytes(b"another")
    with pytest.raises(OSError, match="Bad file descriptor"):
        ours.number()
    assert path.read_bytes() == b"another"
