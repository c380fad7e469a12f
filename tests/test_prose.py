"""What is said to people holds: commands exist, and a definition stands for itself."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from stepscope.cli.main import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_COMMAND = re.compile(r"(?:[`$(]|\$ |&& |bin/)stepscope +([a-z][a-z_]*)")
_LINE = re.compile(r"^ *(?:\$ )?stepscope +([a-z][a-z_]*)", re.MULTILINE)


def texts_of_code(path: Path) -> Iterator[str]:
    """Every literal text of a module, docstrings included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def pages(repository: Path) -> Iterator[Path]:
    yield repository / "README.md"
    yield repository / "CHANGELOG.md"
    yield from (repository / "docs").rglob("*.md")


def code_blocks(page: str) -> list[str]:
    """Paragraphs that are indented throughout: commands and what they print."""
    return [
        block
        for block in re.split(r"\n\s*\n", page)
        if all(line.startswith("    ") for line in block.splitlines())
    ]


@pytest.mark.slow
def test_every_command_that_is_named_exists(repository: Path) -> None:
    known = {command.name for command in COMMANDS}
    named: set[tuple[str, str]] = set()
    for path in (repository / "src").rglob("*.py"):
        for text in texts_of_code(path):
            named |= {(str(path), word) for word in _COMMAND.findall(text)}
    for path in pages(repository):
        page = path.read_text(encoding="utf-8")
        found = [*_COMMAND.findall(page), *_LINE.findall("\n".join(code_blocks(page)))]
        named |= {(str(path), word) for word in found}
    for path in (repository / "web" / "src").rglob("*.ts*"):
        found = _COMMAND.findall(path.read_text(encoding="utf-8"))
        named |= {(str(path), word) for word in found}
    assert len(named) > 20
    assert {(path, word) for path, word in named if word not in known} == set()


@pytest.mark.parametrize("folder", ["analysis", "trace", "advice", "report"])
def test_no_definition_leans_on_another(repository: Path, folder: str) -> None:
    """A page shows one definition at a time: "likewise" has nothing to refer to."""
    leaning = re.compile(r"^\s*\w+: (?:Likewise|The same\b|As above|Ditto|As of the)")
    found = [
        f"{path.relative_to(repository)}: {line.strip()}"
        for path in (repository / "src" / "stepscope" / folder).rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if leaning.match(line)
    ]
    assert found == []
