"""Command lines that files show: they have to be ones that stepscope understands."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from stepscope.cli.main import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A command in backticks, at the begin of a line or after a shell's keyword; it ends
#: with the line, or where the shell goes on.
_COMMAND = re.compile(
    r"(?:`|^[ \t#]*(?:exec |- run: )?)(stepscope(?: [^`\n;|&]*)?)", re.MULTILINE
)


def shown_commands(text: str) -> list[list[str]]:
    """Return the arguments of each `stepscope …` that a text shows."""
    return [shlex.split(line)[1:] for line in _COMMAND.findall(text)]


def check_command_line(arguments: Sequence[str]) -> None:
    """Raise what the command line raises at arguments that it does not understand."""
    if arguments[0] == "--version":
        return
    (command,) = (it for it in COMMANDS if it.name == arguments[0])
    command.parsed_command().make_context(command.name, list(arguments[1:]))
