"""What stepscope says inside a program: through `logging`, or on standard error."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import stepscope
from stepscope.capture.base.program_log import log_line, silence_log

SOURCE = Path(stepscope.__file__).parent
LINE = 'log_line("the disk is\\nfull")'
PROGRAM = """
import logging, sys
def broken(handler, record):
    raise RuntimeError("broken")
log = logging.getLogger("stepscope")
{setup}
from stepscope.capture.base.program_log import log_line
{line}
print("trained")
"""


def run(setup: str, line: str = LINE) -> tuple[str, str]:
    """Standard output and error of a program that is told something."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(setup=setup, line=line)],
        capture_output=True,
        text=True,
        check=True,
    )
    *said, last = done.stdout.splitlines()
    assert last == "trained"
    return "\n".join(said), done.stderr


#: What a program sets up → what it prints then, on standard output and error.
SETUPS = {
    "": ("", "stepscope: the disk is full\n"),
    "logging.basicConfig(format='%(name)s %(levelname)s %(message)s')": (
        "",
        "stepscope WARNING the disk is full\n",
    ),
    "log.addHandler(logging.StreamHandler(sys.stdout))": ("the disk is full", ""),
    "log.addHandler(logging.NullHandler())": ("", ""),
    "log.setLevel(logging.ERROR)": ("", ""),
    "log.disabled = True": ("", ""),
    "log.addFilter(lambda _: False)": ("", ""),
    "logging.disable()": ("", ""),
    "logging.Handler.emit = broken; log.addHandler(logging.Handler())": ("", ""),
    "sys.stderr = None": ("", ""),
}


@pytest.mark.slow(seconds=0.1)
@pytest.mark.parametrize(("setup", "said"), SETUPS.items(), ids=SETUPS)
def test_the_program_decides_where_a_line_goes(
    setup: str, said: tuple[str, str]
) -> None:
    assert run(setup) == said


@pytest.mark.slow(seconds=0.2)
def test_what_is_no_warning_is_seen_by_who_asks() -> None:
    line = 'log_line("the steps that follow", is_warning=False)'
    assert run("", line) == ("", "")
    assert run("log.setLevel(logging.INFO)", line) == (
        "",
        "stepscope: the steps that follow\n",
    )


@pytest.mark.slow(seconds=0.1)
def test_a_program_without_logging_does_not_import_it() -> None:
    """Ctrl-C ended it with status 1 where `logging` was imported afterwards."""
    program = f"from stepscope.capture.base.program_log import log_line\n{LINE}\n"
    interrupted = f"import atexit\n{program}\natexit.register(log_line, 'end')\n"
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"{interrupted}\nraise KeyboardInterrupt"],
        capture_output=True,
        text=True,
        check=False,
        # Without `site`, Python does not find what is installed.
        env={**os.environ, "PYTHONPATH": str(SOURCE.parent)},
    )
    first, *_, last = done.stderr.splitlines()
    assert (first, last) == ("stepscope: the disk is full", "stepscope: end")
    assert done.returncode == -signal.SIGINT


def test_lines_are_silenced_in_a_block(caplog: pytest.LogCaptureFixture) -> None:
    with silence_log():
        with silence_log():
            log_line("first")
        log_line("second")
    log_line("third")
    assert caplog.messages == ["third"]


RECORDS = """
import logging, sys
import stepscope as ss
{setup}
with ss.Profile({logdir!r}):
    pass
"""


@pytest.mark.slow(seconds=1)
def test_a_recording_that_cannot_be_stored_says_so_where_the_program_wants(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    logdir = str(tmp_path / "file" / "logs")

    def said(setup: str) -> str:
        program = RECORDS.format(setup=setup, logdir=logdir)
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        return done.stderr

    lines = said("").splitlines()
    assert all(line.startswith("stepscope: ") for line in lines)
    assert "could not be written" in lines[-1]
    into_file = f"logging.basicConfig(filename={str(tmp_path / 'log')!r})"
    assert said(into_file) == ""
    logged = (tmp_path / "log").read_text().splitlines()
    assert len(logged) == len(lines)
    assert all(line.startswith("WARNING:stepscope:") for line in logged)
    assert "could not be written" in logged[-1]


ITSELF = """
import logging
logging.basicConfig(filename="log")
import stepscope as ss
with ss.Profile("own"):
    sum(range(1000))
"""


@pytest.mark.slow(seconds=2)
def test_the_lines_of_stepscope_run_in_the_program_are_logged_too(
    tmp_path: Path,
) -> None:
    (tmp_path / "program.py").write_text(ITSELF)
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "run", "--no-report", "--", "program.py"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    sentence = "the program records itself, so stepscope run recorded nothing"
    assert f"WARNING:stepscope:{sentence}" in (tmp_path / "log").read_text()
    # The launcher's own lines are not logged.
    assert done.stderr.startswith("stepscope: recording into ")


#: Modules that write to standard error themselves: the log, and one that runs where the
#: package may be missing.
SPEAKERS = {
    "capture/base/program_log.py",
    "capture/launching/injected/sitecustomize.py",
}


def speaks(path: Path) -> bool:
    """Whether a module prints, or uses standard error or a logger of its own."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            is_log = called == "logging.getLogger" and "'stepscope'" in ast.unparse(
                node
            )
            if called == "print" or (is_log and path.stem != "harmless"):
                return True
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.stderr":
            return True
    return False


def test_one_module_speaks_for_all_that_record() -> None:
    found = {
        str(path.relative_to(SOURCE))
        for folder in ("capture", "remote", "profiler")
        for path in (SOURCE / folder).rglob("*.py")
        if speaks(path)
    }
    assert found == SPEAKERS
