"""The page of measurements: a section for each script, and a line on the machine."""

import os
import platform
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path


def machine() -> str:
    """Describe the machine, its load, and the command that measures."""
    command = " ".join(["python", *_script(), *sys.argv[1:]])
    return (
        f"{_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}. "
        f"System load average before the start: {os.getloadavg()[0]:.2f}.\n"
        f"Command: `{command}`"
    )


def replace_section(page: Path, name: str, text: str) -> None:
    """Replace the text between the marks of a section.

    Raises:
        SystemExit: The page has no such marks.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, found_begin, rest = page.read_text().partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise SystemExit(f"{name}: {page} lacks the marks {begin} and {end}")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return [lines[0], "|---" * len(head) + "|", *lines[1:]]


def _script() -> tuple[str]:
    path = Path(sys.argv[0]).resolve()
    return (f"{path.parent.name}/{path.name}",)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
