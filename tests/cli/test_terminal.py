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

from stepscope.cli.output import show_progress

if TYPE_CHECKING:
    from pathlib import Path


def on_a_terminal(program: str) -> str:
    """What a program writes to a terminal of 90 columns."""
    ours, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "COLUMNS": "90", "TERM": "xterm-256color"},
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
        f"from stepscope.cli.main import main; main(['report', {recorded!r}])"
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
from stepscope.cli.output import show_progress
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
