"""The statements of source files: what imports, declares and branches."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Fields of a statement that hold statements, or what holds some itself.
_INSIDE = ("body", "orelse", "finalbody", "handlers", "cases")


def statements(path: Path) -> Iterator[ast.AST]:
    """Every statement of a file, those inside of others too.

    Their expressions are left out: with them there is ten times as much to go through.
    """
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        yield node
        for field in _INSIDE:
            waiting += getattr(node, field, ())
