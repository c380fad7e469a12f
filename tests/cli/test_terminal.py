"""On a terminal there are colours, and a bar for what takes long; elsewhere neither."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from stepscope.cli.doctor import check_lines
from stepscope.cli.output import show_progress
from stepscope.doctor.check import problem_check

if TYPE_CHECKING:
    from pathlib import Path


def on_a_terminal(program: str, **variables: str) -> str:
    """What a program writes to a terminal of 90 columns."""
    ours, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={
            **os.environ,
            "COLUMNS": "90",
            "TERM": "xterm-256color",
            **variables,
        },
    ):
        os.close(terminal)
        written = b""
        # Linux answers with an error where the other end is closed.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 65536):
                written += part
    os.close(ours)
    return written.decode()


@pytest.mark.slow
def test_a_report_on_a_terminal_has_colours_and_the_same_words(
    repository: Path,
) -> None:
    recorded = str(repository / "tests" / "data" / "tf_keras_fit")
    drawn = on_a_terminal(
        f"from stepscope.cli.main import main; main(['report', {recorded!r}])",
        NO_COLOR="",
    )
    assert "\x1b[" in drawn
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", drawn)
    # A bar that was drawn again, as on a slow machine, begins its line anew.
    plain = re.sub(r"\r+\n?", "\n", plain)
    assert "Where the step time went" in plain
    assert (
        max(
            len(one)
            for one in plain.splitlines()
            # Code and paths are never wrapped: they must be copied whole.
            if not one.startswith("      ") and "stepscope show" not in one
        )
        <= 90
    )


SLOW = """
import time
from stepscope.cli.doctor import check_lines
from stepscope.cli.output import show_progress
from stepscope.doctor.check import problem_check
with show_progress(stages=2) as shown:
    shown.stage("Reading")
    time.sleep({seconds})
    shown.stage("Findings")
print("done")
"""


@pytest.mark.slow
def test_a_bar_appears_after_a_second_and_not_before() -> None:
    assert "Reading" in on_a_terminal(SLOW.format(seconds=1.5))
    quick = on_a_terminal(SLOW.format(seconds=0.1))
    assert quick.strip() == "done"


@pytest.mark.slow(seconds=1.2)
def test_no_bar_is_drawn_where_nobody_looks(capfd: pytest.CaptureFixture[str]) -> None:
    with show_progress(stages=1) as shown:
        shown.stage("Reading")
        time.sleep(1.2)
    assert capfd.readouterr().err == ""


RECORDING = """
import time
from stepscope.cli.capture import HostsTable
from stepscope.cli.output import recording_bar
from stepscope.remote.outcome import HostOutcome
table = HostsTable(["a:1", "b:2"])
with recording_bar(0.3):
    time.sleep(1)
    table.add_row(HostOutcome("a:1", "ok", "", 1234, 1, 0.5))
print("done")
"""


@pytest.mark.slow
def test_a_recording_shows_how_far_it_is_and_rows_as_they_come() -> None:
    drawn = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", on_a_terminal(RECORDING))
    assert "recording ━" in drawn
    assert "collecting" in drawn
    assert "  a:1   ok               1,234      1      0.5\r\n" in drawn
    assert drawn.rstrip().endswith("done")


REPORT = "from stepscope.cli.main import main; main({arguments!r})"
COLOURED = re.compile(r"\x1b\[\d")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "coloured"),
    [
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "dumb", "CLICOLOR_FORCE": "1"}, True),
    ],
    ids=str,
)
def test_variables_choose_colours_on_a_terminal(
    repository: Path, variables: dict[str, str], *, coloured: bool
) -> None:
    recorded = str(repository / "tests" / "data" / "tf_keras_fit")
    drawn = on_a_terminal(
        REPORT.format(arguments=["report", recorded]), **without_colours(variables)
    )
    assert bool(COLOURED.search(drawn)) is coloured


def without_colours(variables: dict[str, str]) -> dict[str, str]:
    """The variables, and none of colours from outside."""
    return {"NO_COLOR": "", "FORCE_COLOR": "", "CLICOLOR_FORCE": "", **variables}


def piped(*arguments: str, **variables: str) -> str:
    """What a command writes into a pipe."""
    outside = {
        name: value for name, value in os.environ.items() if name != "COLUMNS"
    } | without_colours(variables)
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=outside,
    )
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["FORCE_COLOR", "CLICOLOR_FORCE"])
def test_colours_are_forced_into_a_pipe_and_into_nothing_else(
    repository: Path, tmp_path: Path, name: str
) -> None:
    recorded = str(repository / "tests" / "data" / "tf_keras_fit")
    plain = piped("report", recorded)
    assert "\x1b" not in plain
    forced = piped("report", recorded, **{name: "1"})
    words = [line.rstrip() for line in re.sub(r"\x1b\[[\d;]*m", "", forced).split("\n")]
    assert COLOURED.search(forced)
    assert "\n".join(words) == plain
    assert piped("report", recorded, **{name: "0"}) == plain
    file = tmp_path / "report.txt"
    piped("report", recorded, "-o", str(file), **{name: "1"})
    assert file.read_text(encoding="utf-8") == plain
    markdown = piped("report", recorded, "--format", "markdown", **{name: "1"})
    assert "\x1b" not in markdown


#: What must be copied whole is never wrapped.
UNWRAPPED = re.compile(r"stepscope |^ {6,}|https?://")


def longest(text: str) -> int:
    lines = [line for line in text.splitlines() if not UNWRAPPED.search(line)]
    return max(map(len, lines))


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "{recorded}"),
        ("show", "framework_op_stats", "{recorded}"),
        ("show", "overview_page", "{recorded}", "--table", "steps"),
        ("explain", "{recorded}", "--at", "5ms"),
        ("diff", "{recorded}", "{recorded}"),
        ("report", "--help"),
        ("--help",),
    ],
    ids=" ".join,
)
def test_each_command_keeps_to_the_columns_that_are_set(
    repository: Path, arguments: tuple[str, ...]
) -> None:
    recorded = str(repository / "tests" / "data" / "tf_keras_fit")
    given = [word.format(recorded=recorded) for word in arguments]
    assert longest(piped(*given, COLUMNS="80")) <= 80
    assert 80 < longest(piped(*given, COLUMNS="100")) <= 100


@pytest.mark.parametrize(("columns", "width"), [("70", 70), ("300", 96), ("", 96)])
def test_the_doctor_keeps_to_them_too(
    monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    fact = "this is what was found " * 20
    checks = [problem_check("Python", "version", fact, fact)]
    lines = "\n".join(check_lines(checks)).splitlines()
    assert width - 10 < max(map(len, lines)) <= width


@pytest.mark.slow
def test_a_table_in_a_pipe_is_as_wide_as_a_file_may_be(repository: Path) -> None:
    recorded = str(repository / "tests" / "data" / "tf_keras_fit")
    shown = piped("show", "framework_op_stats", recorded)
    assert 100 < longest(shown) <= 160
    assert longest(piped("report", recorded)) <= 100
    # What is no number of columns is not a width.
    assert piped("show", "framework_op_stats", recorded, COLUMNS="wide") == shown


@pytest.mark.slow
def test_a_line_of_progress_is_not_wider_than_the_terminal() -> None:
    drawn = on_a_terminal(SLOW.format(seconds=1.5), COLUMNS="30")
    lines = re.findall(r"\x1b\[K([^\r]*)", drawn)
    assert any(line.startswith("Reading") for line in lines)
    assert max(map(len, lines)) == 29
