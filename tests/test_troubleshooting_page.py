"""The page about troubles quotes what stepscope really prints."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

#: Consecutive words of a message that must be in one literal text of the source.
WORDS = 3


def literal_texts(source: Path) -> str:
    """Return all literal texts of the modules; parts of an f-string are separate."""
    texts = [path.read_text("utf-8") for path in source.rglob("*.json")]
    for path in source.rglob("*.py"):
        texts += [
            node.value
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
    return "\n".join(texts)


def quoted_messages(page: str) -> list[str]:
    """Return what the first cells of the tables quote."""
    cells = [line.split(" | ")[0] for line in page.splitlines() if line[:2] == "| "]
    return [quote for cell in cells for quote in re.findall(r"`([^`]+)`", cell)]


@pytest.mark.slow
def test_every_quoted_message_is_one_of_stepscope(repository: Path) -> None:
    page = (repository / "docs" / "troubleshooting.md").read_text("utf-8")
    said = literal_texts(repository / "src" / "stepscope")
    unknown = []
    messages = quoted_messages(page)
    for message in messages:
        words = message.rstrip("…. ").split()
        size = min(WORDS, len(words))
        runs = [
            " ".join(words[begin : begin + size])
            for begin in range(len(words) - size + 1)
        ]
        if not any(run in said for run in runs):
            unknown.append(message)
    assert len(messages) > 15
    assert unknown == []
