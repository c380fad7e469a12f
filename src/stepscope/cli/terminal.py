"""The terminal: how wide a page may be, and what roles of text look like."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Final

from stepscope.patterns import printable_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.report.page import Line

#: Tables into a pipe or a file may be this wide.
_PIPE_WIDTH: Final = 160
#: Lines of sentences are read best between these.
_NARROWEST: Final = 60
_WIDEST: Final = 100

_STYLES: Final = {
    "plain": "",
    "title": "bold",
    "heading": "bold cyan",
    "dim": "dim",
    "good": "green",
    "bad": "bold red",
    "warn": "yellow",
    "bar": "cyan",
    "code": "magenta",
    "number": "bold",
}


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def page_width() -> int:
    """Return the number of characters in a line of a table."""
    if not is_terminal():
        return _PIPE_WIDTH
    return max(shutil.get_terminal_size((_WIDEST, 24)).columns, _NARROWEST)


def text_width() -> int:
    """Return the number of characters in a line of a page of text."""
    return min(page_width(), _WIDEST)


def draw(lines: Iterable[Line]) -> None:
    """Write styled lines to the terminal."""
    from rich.console import Console  # noqa: PLC0415 - only when something is drawn
    from rich.text import Text  # noqa: PLC0415 - only when something is drawn

    console = Console(highlight=False, soft_wrap=True)
    for one in lines:
        console.print(
            Text.assemble(
                *((printable_text(piece.text), _STYLES[piece.role]) for piece in one)
            )
        )
