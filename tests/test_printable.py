"""Text of others is one line, and commands no terminal."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from stepscope.errors import BadInput
from stepscope.patterns import printable_text
from stepscope.reporting.page import line, plain_text

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("aten::mm 17.0 ms → größer 中 é", "aten::mm 17.0 ms → größer 中 é"),
        ("a\u00a0b\u202fc", "a\u00a0b\u202fc"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x1b[2J\x07\x00\x7f", r"\x1b[2J\x07\x00\x7f"),
        ("\x9b31m", r"\x9b31m"),
        ("gpj\u202e.exe\u2028", r"gpj\u202e.exe\u2028"),
        ("half \ud800", r"half \ud800"),
    ],
)
def test_what_is_not_shown_is_written_as_an_escape(text: str, shown: str) -> None:
    assert printable_text(text) == shown


def test_a_page_has_the_lines_that_it_was_made_of() -> None:
    page = plain_text([line("name\x1b[31m\nverdict: fine"), line("end")])
    assert page == "name\\x1b[31m\\nverdict: fine\nend\n"


def test_an_error_names_an_odd_path_in_one_line(tmp_path: Path) -> None:
    said = str(BadInput.at(tmp_path / "a\n\x1b[2Jb", "is empty", "Copy it again."))
    assert said.endswith(r"/a\n\x1b[2Jb: is empty. Copy it again.")


@pytest.mark.slow(seconds=2)
def test_the_command_line_names_an_odd_path_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a\n\x1b]0;title\x07b.json"
    path.write_bytes(b"\x1b[2Jnothing known")
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "report", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.removesuffix("\n").isprintable(), done.stderr
