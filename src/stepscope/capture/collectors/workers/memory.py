"""The memory of a Python process as a file: what its objects say.

Nothing is written, and nothing is believed: the process goes on, and what stands at an
address may have become something else since. Whatever does not look like what it should
be is None.

Definition: the table of lines of a function is that of CPython since 3.11, described in
its `Objects/locations.md` (InternalDocs/code_objects.md).
"""

from __future__ import annotations

import codecs
import os
import struct
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.capture.collectors.workers.layout import TYPE, runtime_address
from stepscope.capture.ground.spool import OwnFile

if TYPE_CHECKING:
    from stepscope.capture.collectors.workers.layout import Layout

_UNIT_BYTES: Final = 2
#: Kinds of entries: what they say besides the number of their instructions.
_NO_LINE: Final = 15
_LONG: Final = 14
_NO_COLUMN: Final = 13
_ONE_LINE: Final = 10


def read_line_table(
    table: bytes, first_line: int
) -> tuple[list[int], list[int | None]]:
    """Return where runs of instructions begin, and which line each is of.

    Args:
        table: The table; one that is cut off or damaged tells as much as it does.

    Returns:
        Offsets in bytes from the first instruction, ascending, and lines; None for
        instructions that no line made.
    """
    begins: list[int] = []
    lines: list[int | None] = []
    line, offset, at = first_line, 0, 0
    while at < len(table):
        head = table[at]
        kind, units = head >> 3 & 15, (head & 7) + 1
        at += 1
        if kind in {_LONG, _NO_COLUMN}:
            change, at = _read_signed(table, at)
            line += change
        elif _ONE_LINE <= kind < _NO_COLUMN:
            line += kind - _ONE_LINE
        begins.append(offset)
        lines.append(None if kind == _NO_LINE else line)
        offset += units * _UNIT_BYTES
        # Columns are not looked at: each entry begins with the only bit of its kind.
        while at < len(table) and not table[at] & 128:
            at += 1
    return begins, lines


def _read_signed(table: bytes, at: int) -> tuple[int, int]:
    """Return a number of six bits a byte, the lowest bit its sign; and what follows."""
    value = shift = 0
    while at < len(table):
        byte = table[at]
        value |= (byte & 63) << shift
        at, shift = at + 1, shift + 6
        if not byte & 64:
            break
    return (-(value >> 1) if value & 1 else value >> 1), at


#: No path and no name is longer.
_MOST_CHARACTERS: Final = 4_096
#: The table of lines of a function of some ten thousand lines.
_MOST_TABLE: Final = 2**18
_MOST_LINES: Final = 10_000_000
_MOST_THREADS: Final = 64
_LOWEST: Final = 4_096
_HIGHEST: Final = 2**47
_ENCODINGS: Final = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}
for _name in _ENCODINGS.values():
    # Python imports what decodes, and not while steps run.
    codecs.lookup(_name)


class Code(NamedTuple):
    """A function, as its code in another process says it.

    Attributes:
        head: What stood at its address: as long as that stays, it is this function.
    """

    name: str
    file: str
    first_line: int
    table: bytes
    head: bytes


class Place(NamedTuple):
    """Where a process has the interpreter: its file, and where it begins in memory."""

    file: str
    begin: int


def place_of_runtime(process: int | str, file: str | None = None) -> Place | None:
    """Return where a process has the interpreter; None where it has none, or not yet.

    Args:
        file: The file to look for; None for that of this process's own interpreter.

    Raises:
        OSError: The process is gone, or is not ours to look at.
    """
    runtime = None if file is not None else runtime_address()
    begins: dict[str, int] = {}
    # address perms offset device inode path
    with Path(f"/proc/{process}/maps").open(encoding="utf-8", errors="replace") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(maxsplit=5)
            path = fields[5] if len(fields) > 5 else ""
            begin, _, end = fields[0].partition("-")
            first = begins.setdefault(path, int(begin, 16))
            if path and path == file:
                return Place(path, first)
            if path and runtime is not None and first <= runtime < int(end, 16):
                return Place(path, first)
    return None


class Memory:
    """Reads objects of one process."""

    def __init__(self, process: int | str, layout: Layout, *, shift: int = 0) -> None:
        """Open the memory of a process.

        Args:
            shift: How much later in its memory the interpreter lies than in ours.

        Raises:
            OSError: The system does not let us, or the process is gone.
        """
        self._layout = layout
        self._shift = shift
        self._own = OwnFile(f"/proc/{process}/mem", os.O_RDONLY)
        self.file = self._own.number()

    def close_file(self) -> None:
        """Let go of it."""
        self._own.close()

    def read(self, address: int, size: int) -> bytes | None:
        """Return this many bytes from an address; None where they cannot be read."""
        if not _LOWEST <= address < _HIGHEST:
            return None
        try:
            found = os.pread(self.file, size, address)
        except OSError:
            return None
        return found if len(found) == size else None

    def read_address(self, at: int) -> int | None:
        """Return the address that stands at an address."""
        found = self.read(at, 8)
        return None if found is None else int.from_bytes(found, "little")

    def thread_state(self, thread: int) -> int | None:
        """Return the address of the state of a thread; None where it has none."""
        layout = self._layout
        runtime = runtime_address() + self._shift
        interpreter = self.read_address(runtime + layout.interpreter)
        state = interpreter and self.read_address(interpreter + layout.thread)
        for _ in range(_MOST_THREADS):
            if not state:
                return None
            found = self.read_address(state + layout.stacks["native_id"])
            if found == thread:
                return state
            state = self.read_address(state + layout.next_thread)
        return None

    def read_code(self, address: int) -> Code | None:
        """Return what the code of a function at an address says."""
        layout = self._layout
        head = self.read_head(address)
        if head is None:
            return None
        (first_line,) = struct.unpack_from("<i", head, layout.first_line)
        file = self.read_text(_pointer_at(head, layout.file))
        name = self.read_text(_pointer_at(head, layout.name))
        if not file or not name or not 0 <= first_line <= _MOST_LINES:
            return None
        table = self._read_bytes(_pointer_at(head, layout.table))
        return Code(name, file, first_line, table or b"", self._identity_bytes(head))

    def is_still(self, address: int, code: Code) -> bool:
        """Return whether a code that was read is still what stands there."""
        head = self.read_head(address)
        return head is not None and self._identity_bytes(head) == code.head

    def read_head(self, address: int) -> bytes | None:
        """Return a code up to its first instruction; None where there is no code."""
        head = self.read(address, self._layout.code_bytes)
        kind = id(CodeType) + self._shift
        return head if head is not None and _pointer_at(head, TYPE) == kind else None

    def read_text(self, address: int) -> str | None:
        """Return a text; None where there is none, or a very long one."""
        layout = self._layout
        head = self.read(address, layout.wide)
        if head is None or _pointer_at(head, TYPE) != id(str) + self._shift:
            return None
        length = _pointer_at(head, layout.text_length)
        state = head[layout.text_state]
        width, is_compact, is_ascii = state >> 2 & 7, state >> 5 & 1, state >> 6 & 1
        if not is_compact or width not in _ENCODINGS or length > _MOST_CHARACTERS:
            return None
        begin = layout.ascii if is_ascii else layout.wide
        characters = self.read(address + begin, length * width)
        if characters is None:
            return None
        return characters.decode(_ENCODINGS[width], "replace")

    def _read_bytes(self, address: int) -> bytes | None:
        layout = self._layout
        head = self.read(address, layout.bytes_data)
        if head is None or _pointer_at(head, TYPE) != id(bytes) + self._shift:
            return None
        length = _pointer_at(head, layout.bytes_length)
        if length > _MOST_TABLE:
            return None
        return self.read(address + layout.bytes_data, length)

    def _identity_bytes(self, head: bytes) -> bytes:
        """Return what of a code stays as long as it is one function's."""
        layout = self._layout
        places = (layout.file, layout.name, layout.table)
        line = head[layout.first_line : layout.first_line + 4]
        return line + b"".join(head[at : at + 8] for at in places)


def _pointer_at(memory: bytes, at: int) -> int:
    return int.from_bytes(memory[at : at + 8], "little")
