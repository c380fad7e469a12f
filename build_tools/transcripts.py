"""Write into README and docs what commands print today, of files of this repository.

A mark names the command, the line to begin with, and how many lines to show:

    <!-- transcript: stepscope report PATH | Where the step time went | 8 -->

What stands between the mark and the end of the block below it is made by

    python build_tools/transcripts.py
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from contextlib import chdir
from pathlib import Path
from unittest.mock import patch

from click.testing import CliRunner

from stepscope.cli.main import main as stepscope

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
_BLOCK = re.compile(
    r"<!-- transcript: (?P<command>stepscope [^|\n]+) \| (?P<first>[^|\n]+) \| "
    r"(?P<count>\d+) -->\n```\n.*?```\n",
    re.DOTALL,
)


def pages() -> list[Path]:
    """Return the pages with transcripts."""
    return [
        path
        for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
        if _BLOCK.search(path.read_text(encoding="utf-8"))
    ]


def render(text: str) -> str:
    """Return a page with what its commands print now."""
    return _BLOCK.sub(_block, text)


def _block(found: re.Match[str]) -> str:
    mark = found[0].partition("\n")[0]
    shown = _lines(found["command"], found["first"], int(found["count"]))
    return "\n".join((mark, "```", f"$ {found['command']}", *shown, "```", ""))


def _lines(command: str, first: str, count: int) -> list[str]:
    """Return lines of what a command prints; `…` stands for those before and after."""
    with chdir(ROOT), patch.dict(os.environ, {"COLUMNS": "160"}):
        done = CliRunner().invoke(stepscope, shlex.split(command)[1:])
    printed = done.output.rstrip().split("\n")
    at = next((row for row, line in enumerate(printed) if first in line), None)
    if done.exit_code or at is None:
        message = f"{command}: prints no line with {first!r}: {done.output[:200]}"
        raise LookupError(message)
    shown = [line.rstrip() for line in printed[at : at + count]]
    before = ["…"] if at else []
    return [*before, *shown, *(["…"] if at + count < len(printed) else [])]


def main() -> int:
    """Write each page anew."""
    for path in pages():
        path.write_text(render(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
