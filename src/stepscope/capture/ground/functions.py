"""Python functions: their names and lines as events, and ours put in place of one."""

from __future__ import annotations

import opcode
from bisect import bisect_right
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

#: A program that makes functions as it runs would fill the memory with them.
_MOST_KEPT: Final = 65_536

#: Where a function, or a generator after a `yield`, begins to run.
_RESUME: Final = opcode.opmap["RESUME"]

#: Our own functions are no part of the program.
_OURS: Final = str(Path(__file__).resolve().parents[2])


def function_name(file: str, first_line: int, name: str) -> str:
    """Return `$file.py:LINE function`, as frameworks name them; empty for our own.

    The line is the function's first, so that a function has one name.
    """
    if file.startswith(_OURS):
        return ""
    base = file.rpartition("/")[2]
    return f"${base}:{first_line} {name}"


def replace_function(
    owner: Any, name: str, replacement: Callable[..., Any]
) -> Callable[[], None]:
    """Put a function in place of a framework's; return what puts that back."""
    original = getattr(owner, name)
    setattr(owner, name, replacement)

    def restore_function() -> None:
        # Somebody may have put something else there.
        if getattr(owner, name, None) is replacement:
            setattr(owner, name, original)

    return restore_function


def only_begins(code: CodeType, offset: int) -> bool:
    """Say whether a function has run nothing yet, by the place of its instruction.

    There the interpreter hands its lock on to who waits for it.
    """
    instructions = code.co_code
    return 0 <= offset < len(instructions) and instructions[offset] == _RESUME


class FunctionNames:
    """Names of functions, each made once."""

    def __init__(self) -> None:
        # By identity: to hash a code object takes longer than all else here.
        self._names: dict[int, tuple[CodeType, str]] = {}

    def function_name(self, code: CodeType) -> str:
        """Return what `function_name` calls it."""
        known = self._names.get(id(code))
        if known is None:
            name = function_name(
                code.co_filename, code.co_firstlineno, code.co_qualname
            )
            if len(self._names) >= _MOST_KEPT:
                self._names.clear()
            # The object is kept, so that no other one gets its identity.
            known = self._names[id(code)] = code, name
        return known[1]


class CodeLine(NamedTuple):
    """A line of a function.

    Attributes:
        line: Number of the line in its file; None where no line made the instruction.
    """

    code: CodeType
    line: int | None


class LinesOfCode:
    """Lines of instructions: one object for each line, and tables read once."""

    def __init__(self) -> None:
        # By identity, as above; the code is in each of its lines.
        self._tables: dict[int, _Table] = {}

    def code_line(self, code: CodeType, offset: int) -> CodeLine:
        """Return the line of an instruction, by its place in the code."""
        table = self._tables.get(id(code))
        if table is None:
            if len(self._tables) >= _MOST_KEPT:
                self._tables.clear()
            table = self._tables[id(code)] = _Table(code)
        return table.found.get(offset) or table.find_line(offset)


class _Table:
    def __init__(self, code: CodeType) -> None:
        lines: dict[int | None, CodeLine] = {}
        self.begins = []
        self.lines = []
        for begin, _, line in code.co_lines():
            self.begins.append(begin)
            self.lines.append(lines.setdefault(line, CodeLine(code, line)))
        if not self.lines:
            # Code that a compiler made may have no table.
            self.begins, self.lines = [0], [CodeLine(code, None)]
        #: Offsets that were asked for: a function has few that call or take long.
        self.found: dict[int, CodeLine] = {}

    def find_line(self, offset: int) -> CodeLine:
        # A function that has not begun is before its first instruction.
        row = max(bisect_right(self.begins, offset) - 1, 0)
        line = self.found[offset] = self.lines[row]
        return line
