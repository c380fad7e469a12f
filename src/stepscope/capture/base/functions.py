"""Event names and source lines of Python functions, and replacement of functions."""

from __future__ import annotations

import dis
import opcode
import re
from bisect import bisect_right
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepscope.patterns import LOOP_CALL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType

#: Maximum number of cached code objects; a program may create functions as it runs.
_MAX_CACHED: Final = 65_536

#: Opcode at which a function, or a generator after a `yield`, starts to execute.
_RESUME: Final = opcode.opmap["RESUME"]

#: Paths of code of libraries; which functions its lines call is not recorded.
_LIBRARY: Final = re.compile(
    r"[\\/](?:(?:site|dist)-packages|python\d[.\d]*)[\\/]|^<frozen "
)

#: Opcodes whose second operand is the name of a local variable that is loaded.
_LOADS_TWO: Final = re.compile("_FAST(?:_BORROW)?_LOAD_FAST")

#: Folder of stepscope, whose functions are not part of the profiled program.
_STEPSCOPE_FOLDER: Final = str(Path(__file__).resolve().parents[2])


def function_name(file: str, first_line: int, name: str) -> str:
    """Return `$file.py:LINE function`, as frameworks do; "" for stepscope's functions.

    LINE is the function's first line, so that each function has one name.
    """
    if file.startswith(_STEPSCOPE_FOLDER):
        return ""
    base = file.rpartition("/")[2]
    return f"${base}:{first_line} {name}"


def replace_function(
    owner: Any, name: str, replacement: Callable[..., Any]
) -> Callable[[], None]:
    """Replace a framework's function; return a function that restores the original."""
    original = getattr(owner, name)
    setattr(owner, name, replacement)

    def restore_function() -> None:
        # Other code may have replaced the function meanwhile.
        if getattr(owner, name, None) is replacement:
            setattr(owner, name, original)

    return restore_function


def only_begins(code: CodeType, offset: int) -> bool:
    """Return whether a function has executed nothing yet at this instruction offset.

    At this instruction the interpreter hands the GIL to a waiting thread.
    """
    instructions = code.co_code
    return 0 <= offset < len(instructions) and instructions[offset] == _RESUME


class FunctionNames:
    """Cache of the event names of functions."""

    def __init__(self) -> None:
        # Keyed by `id`: hashing a code object takes longer than the whole lookup.
        self._names: dict[int, tuple[CodeType, str]] = {}

    def function_name(self, code: CodeType) -> str:
        """Return the event name of a code object."""
        known = self._names.get(id(code))
        if known is None:
            name = function_name(
                code.co_filename, code.co_firstlineno, code.co_qualname
            )
            if len(self._names) >= _MAX_CACHED:
                self._names.clear()
            # Keep the code object, so that no other object gets the same `id`.
            known = self._names[id(code)] = code, name
        return known[1]


class CodeLine(NamedTuple):
    """One source line of a function.

    Attributes:
        line: Line number in the file; None if the instruction belongs to no line.
        called: What the line calls, as `called_name` returns it, or a name of
            `stepscope.patterns`.
        is_unused: Whether the line does not use what this call returns.
    """

    code: CodeType
    line: int | None
    called: str | None = None
    is_unused: bool = False


def called_name(code: Sequence[dis.Instruction], offset: int) -> str | None:
    """Return what an instruction calls: `os.fsync`, `@` for an operator, `with lock`.

    A compiled function has no frame: only the calling code shows its name. None means
    that the instruction calls nothing, as at the end of a loop's iteration. The end of
    a `with` block calls what its beginning called.
    """
    instructions = [each for each in code if each.offset <= offset]
    call = instructions[-1] if instructions else None
    if call is None or not re.search("CALL|WITH|FOR_ITER|BINARY_OP", call.opname):
        return None
    if call.opname == "BINARY_OP":
        return call.argrepr
    if call.opname == "FOR_ITER":
        return LOOP_CALL
    block = ""
    for manager, entry in pairwise(instructions):
        if entry.opname == "BEFORE_WITH" and entry.positions == call.positions:
            call, block = manager, "with "
    names: list[str] = []
    begins = call.positions and (call.positions.lineno, call.positions.col_offset)
    for before, each in pairwise(instructions):
        place = each.positions and (each.positions.lineno, each.positions.col_offset)
        if place != begins:
            continue
        if not names and _LOADS_TWO.search(before.opname):
            # Python 3.13 loads the name together with what comes before it.
            names = [str(before.argval[-1])]
        if re.match("LOAD_(?!CONST)", each.opname):
            # The expression before the parentheses: `os`, then its attribute `fsync`.
            is_part = each.opname.startswith(("LOAD_ATTR", "LOAD_METHOD"))
            names = [*(names if is_part else ()), str(each.argval)]
    return block + ".".join(names) if names else None


class LinesOfCode:
    """Cache of the source lines of instructions, with one object per line."""

    def __init__(self) -> None:
        # Keyed by the code object's `id`; each line keeps its code object alive.
        self._tables: dict[int, _Table] = {}

    def code_line(self, code: CodeType, offset: int) -> CodeLine:
        """Return the source line of the instruction at an offset of the code."""
        table = self._tables.get(id(code))
        if table is None:
            if len(self._tables) >= _MAX_CACHED:
                self._tables.clear()
            table = self._tables[id(code)] = _Table(code)
        return table.found.get(offset) or table.find_line(offset)


class _Table:
    def __init__(self, code: CodeType) -> None:
        self._code = code
        is_library = _LIBRARY.search(code.co_filename) is not None
        self._instructions = () if is_library else tuple(dis.get_instructions(code))
        self._known: dict[CodeLine, CodeLine] = {}
        self.begins: list[int] = []
        self.lines: list[int | None] = []
        for begin, _, line in code.co_lines():
            self.begins.append(begin)
            self.lines.append(line)
        if not self.lines:
            # Code that a compiler generated may have no line table.
            self.begins, self.lines = [0], [None]
        #: Lines by instruction offset; samples find a function at few instructions.
        self.found: dict[int, CodeLine] = {}

    def find_line(self, offset: int) -> CodeLine:
        # The offset of a function that has not begun is before the first instruction.
        row = max(bisect_right(self.begins, offset) - 1, 0)
        called = called_name(self._instructions, offset)
        after = (each.opname for each in self._instructions if each.offset > offset)
        is_unused = called is not None and next(after, None) == "POP_TOP"
        line = CodeLine(self._code, self.lines[row], called, is_unused)
        line = self.found[offset] = self._known.setdefault(line, line)
        return line
