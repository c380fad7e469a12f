"""What the system refuses is one line: what it is about, the reason, the way out."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from stepscope.cli.main import COMMANDS, main

if TYPE_CHECKING:
    from types import ModuleType

RECORDED = Path(__file__).parents[1] / "data" / "jax_memory" / "memory.prof"
STEPSCOPE = f"{sys.executable} -m stepscope"


def shell(line: str, *, before: tuple[str, ...] = ()) -> tuple[int, str, str]:
    """Run a line of a shell: its status, standard output and standard error."""
    environ = {k: v for k, v in os.environ.items() if k != "POLARS_MAX_THREADS"}
    done = subprocess.run(
        [*before, "bash", "-c", line],
        capture_output=True,
        text=True,
        check=False,
        env=environ,
    )
    return done.returncode, done.stdout, done.stderr


def one_line(said: str) -> str:
    assert said.startswith("stepscope: ")
    assert said.count("\n") == 1
    return said.removesuffix("\n")


@pytest.mark.slow(seconds=8)
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "report {file} >&-",
            r"standard output: cannot be used \(it is closed\)\. .*-o",
        ),
        ("--version >&-", r"standard output: cannot be used \(it is closed\)\. .*-o"),
        ("report {file} >/dev/full", r"standard output: .* \(No space left .*Free"),
        ("doctor >/dev/full", r"standard output: .* \(No space left .*Free"),
        ("report {file} -o /dev/full", r"/dev/full: .* \(No space left .*Free"),
        ("report {file} -o {folder}/x", r"{folder}/x: .*\(File too large\).*ulimit -f"),
    ],
)
def test_an_output_that_takes_nothing_is_named(
    line: str, expected: str, tmp_path: Path
) -> None:
    places = {"file": str(RECORDED), "folder": str(tmp_path)}
    # Half a kilobyte is less than the report.
    limit = "ulimit -f 0; " if "/x" in line else ""
    status, _, said = shell(f"{limit}{STEPSCOPE} {line.format(**places)}")
    assert re.search(expected.format(**places), one_line(said))
    assert status == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.slow(seconds=3)
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words", ["report {} --format json", "report --full {}", "--help"]
)
def test_an_answer_that_is_cut_off_is_no_success(
    words: str, unbuffered: str, tmp_path: Path
) -> None:
    """Without a buffer, Python takes for written whole what was cut off."""
    command = f"{STEPSCOPE} {words.format(RECORDED)}"
    status, whole, _ = shell(command)
    assert (status, len(whole) > 512) == (0, True)
    written = tmp_path / "answer"
    status, _, said = shell(
        f"ulimit -f 1; PYTHONUNBUFFERED={unbuffered} {command} > {written}"
    )
    assert re.search(r"\(File too large\)\. .*ulimit -f", one_line(said))
    assert status == 2


@pytest.mark.slow(seconds=2)
def test_a_closed_stream_that_nobody_needs_is_no_error(tmp_path: Path) -> None:
    written = tmp_path / "report.txt"
    status, _, said = shell(f"{STEPSCOPE} report {RECORDED} -o {written} >&- <&-")
    assert (status, said) == (0, "")
    status, shown, _ = shell(f"{STEPSCOPE} report {RECORDED} 2>&-")
    assert status == 0
    assert shown.splitlines()[0] == written.read_text("utf-8").splitlines()[0]


@pytest.mark.slow(seconds=1)
@pytest.mark.parametrize("command", ["report", "doctor"])
@pytest.mark.parametrize("limit_kb", [150_000, 300_000, 340_000])
def test_too_little_address_space_is_one_line(command: str, limit_kb: int) -> None:
    """The allocator of polars wrote 103,077 lines at 300,000; it aborted at 340,000."""
    status, _, said = shell(f"ulimit -v {limit_kb}; {STEPSCOPE} {command} {RECORDED}")
    assert re.search(r"address space .*ulimit -v", one_line(said))
    assert status == 2


@pytest.mark.slow(seconds=4)
@pytest.mark.parametrize("command", ["report", "show memory_profile", "doctor"])
def test_too_few_threads_are_one_line(command: str) -> None:
    """Polars and its allocator wrote 58,542 lines at `ulimit -u 5`."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip(
            "another user than root, for whom alone the limit counts, is needed"
        )
    rights = "+dac_override,+dac_read_search"
    other_user = (
        *("setpriv", "--reuid=65531", "--regid=65531", "--clear-groups"),
        *(f"--inh-caps={rights}", f"--ambient-caps={rights}"),
    )
    with tempfile.TemporaryDirectory() as folder:
        # The folders of a test are closed to other users.
        Path(folder).chmod(0o755)
        file = Path(folder, "memory.prof")
        file.write_bytes(RECORDED.read_bytes())
        line = f"ulimit -u 5; exec {STEPSCOPE} {command} {file}"
        status, _, said = shell(line, before=other_user)
    assert re.search(r"\d+ threads are needed, .* raise the limit \(ulimit -u", said)
    assert one_line(said)
    assert status == 2


def test_a_name_that_is_too_long_is_said_before_any_work(tmp_path: Path) -> None:
    output = tmp_path / ("n" * 300)
    done = CliRunner().invoke(main, ["report", "nowhere", "-o", str(output)])
    assert f"{output}: cannot be used (File name too long). Give a shorter" in (
        one_line(done.stderr)
    )
    assert done.exit_code == 2


def test_a_name_as_long_as_the_system_takes_is_written(tmp_path: Path) -> None:
    """The name of the temporary file was longer, and refused."""
    output = tmp_path / ("n" * 255)
    done = CliRunner().invoke(main, ["report", str(RECORDED), "-o", str(output)])
    assert (done.exit_code, done.stderr) == (0, "")
    assert [it.name for it in tmp_path.iterdir()] == [output.name]


PATHS = {
    "try": [
        ["--logdir", "@", "--", "x.py"],
        ["-o", "@", "--", "x.py"],
    ],
    "report": [["@"], [str(RECORDED), "-o", "@"], [str(RECORDED), "--kernels", "@"]],
    "show": [["overview_page", "@"]],
    "explain": [["@"]],
    "diff": [["@", str(RECORDED)], [str(RECORDED), "@"]],
    "serve": [["@"]],
    "doctor": [["@"], ["--logdir", "@"]],
    "run": [["--logdir", "@", "--", "true"]],
    "capture": [["localhost:1", "--logdir", "@"]],
    "nsys": [["-o", "@", "--", "true"]],
    "ncu": [["-o", "@", "--", "true"]],
}


def test_every_command_with_a_path_is_listed() -> None:
    assert set(PATHS) == {command.name for command in COMMANDS} - {"demo", "completion"}


@pytest.mark.parametrize(
    "arguments", [[name, *rest] for name, listed in PATHS.items() for rest in listed]
)
def test_an_empty_path_is_refused(arguments: list[str]) -> None:
    """It was the working directory, which nobody named."""
    given = ["" if word == "@" else word for word in arguments]
    done = CliRunner().invoke(main, given)
    assert "An empty path names nothing." in one_line(done.stderr)
    assert done.exit_code == 2


def test_capture_says_first_that_grpc_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The head of an empty table came before it."""
    imported = importlib.import_module

    def without_grpc(name: str) -> ModuleType:
        if name == "grpc":
            raise ModuleNotFoundError(name)
        return imported(name)

    monkeypatch.delitem(sys.modules, "grpc", raising=False)
    monkeypatch.setattr(importlib, "import_module", without_grpc)
    done = CliRunner().invoke(main, ["capture", "localhost:1"])
    assert "needs gRPC" in one_line(done.stderr)
    assert done.exit_code == 2


def test_a_certificate_is_no_pipe(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    os.mkfifo(tmp_path / "pipe")
    given = ["capture", "localhost:1", "--certificate", str(tmp_path / "pipe")]
    done = CliRunner().invoke(main, given)
    assert "is a pipe, not a file" in done.stderr.splitlines()[-1]
    assert done.exit_code == 2
