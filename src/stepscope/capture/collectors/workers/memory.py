"""Reading the objects of a Python process from its memory file.

Nothing is written, and each value is checked: the process continues to run, so the
object at an address may have been replaced. A value that fails its check becomes None.

Definition: the format of line tables is that of CPython since 3.11, described in its
`Objects/locations.md` (InternalDocs/code_objects.md).
"""

from __future__ import annotations

import codecs
import os
import struct
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.capture.base.spool import OwnFile
from stepscope.capture.collectors.workers.layout import TYPE, runtime_address

if TYPE_CHECKING:
    from stepscope.capture.collectors.workers.layout import Layout

_UNIT_BYTES: Final = 2
#: Kinds of line-table entries; the kind defines the content after the entry's head.
_NO_LINE: Final = 15
_LONG: Final = 14
_NO_COLUMN: Final = 13
_ONE_LINE: Final = 10


def read_line_table(
    table: bytes, first_line: int
) -> tuple[list[int], list[int | None]]:
    """Return the start and the source line of each range of instructions.

    Args:
        table: The line table; of a damaged table, the readable part is decoded.

    Returns:
        Offsets in bytes from the first instruction, ascending, and lines; None for
        instructions without a line.
    """
    begins: list[int] = []
    lines: list[int | None] = []
    line, offset, index = first_line, 0, 0
    while index < len(table):
        head = table[index]
        kind, units = head >> 3 & 15, (head & 7) + 1
        index += 1
        if kind in {_LONG, _NO_COLUMN}:
            change, index = _read_signed(table, index)
            line += change
        elif _ONE_LINE <= kind < _NO_COLUMN:
            line += kind - _ONE_LINE
        begins.append(offset)
        lines.append(None if kind == _NO_LINE else line)
        offset += units * _UNIT_BYTES
        # Skip column data: only the first byte of an entry has its highest bit set.
        while index < len(table) and not table[index] & 128:
            index += 1
    return begins, lines


def _read_signed(table: bytes, index: int) -> tuple[int, int]:
    """Decode a signed number (six bits a byte, lowest first); return the next index."""
    value = shift = 0
    while index < len(table):
        byte = table[index]
        value |= (byte & 63) << shift
        index, shift = index + 1, shift + 6
        if not byte & 64:
            break
    return (-(value >> 1) if value & 1 else value >> 1), index


#: Maximum characters of a path or name.
_MAX_CHARACTERS: Final = 4_096
#: Maximum bytes of a line table, enough for about ten thousand lines.
_MAX_TABLE_BYTES: Final = 2**18
_MAX_LINE: Final = 10_000_000
_MAX_THREADS: Final = 64
_MIN_ADDRESS: Final = 4_096
_ADDRESS_END: Final = 2**47
_ENCODINGS: Final = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}
for _name in _ENCODINGS.values():
    # Import the codec now, so that it is not imported during a step.
    codecs.lookup(_name)


class Code(NamedTuple):
    """A function, as read from its code object in another process.

    Attributes:
        head: Bytes of the code object that are unchanged for the same function.
    """

    name: str
    file: str
    first_line: int
    table: bytes
    head: bytes


class Place(NamedTuple):
    """File of a process's interpreter, and its first address in memory."""

    file: str
    begin: int


def place_of_runtime(process: int | str, file: str | None = None) -> Place | None:
    """Return where a process has loaded the interpreter; None if it has not.

    Args:
        file: Path of the interpreter; None for this process's own interpreter.

    Raises:
        OSError: The process has ended, or access is denied.
    """
    runtime = None if file is not None else runtime_address()
    begins: dict[str, int] = {}
    # Format of a line: address perms offset device inode path.
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
    """Reader of the Python objects of one process."""

    def __init__(self, process: int | str, layout: Layout, *, shift: int = 0) -> None:
        """Open the memory of a process.

        Args:
            shift: Address of the interpreter in that process minus its address here.

        Raises:
            OSError: Access is denied, or the process has ended.
        """
        self._layout = layout
        self._shift = shift
        self._own = OwnFile(f"/proc/{process}/mem", os.O_RDONLY)
        self.file = self._own.number()

    def close_file(self) -> None:
        """Close the memory file."""
        self._own.close()

    def read(self, address: int, size: int) -> bytes | None:
        """Return `size` bytes at an address; None if they are not readable."""
        if not _MIN_ADDRESS <= address < _ADDRESS_END:
            return None
        try:
            content = os.pread(self.file, size, address)
        except OSError:
            return None
        return content if len(content) == size else None

    def read_address(self, address: int) -> int | None:
        """Return the pointer stored at an address."""
        content = self.read(address, 8)
        return None if content is None else int.from_bytes(content, "little")

    def thread_state(self, thread: int) -> int | None:
        """Return the address of a thread's state, by system thread id, or None."""
        layout = self._layout
        runtime = runtime_address() + self._shift
        interpreter = self.read_address(runtime + layout.interpreter)
        state = interpreter and self.read_address(interpreter + layout.thread)
        for _ in range(_MAX_THREADS):
            if not state:
                return None
            native_id = self.read_address(state + layout.stacks["native_id"])
            if native_id == thread:
                return state
            state = self.read_address(state + layout.next_thread)
        return None

    def read_code(self, address: int) -> Code | None:
        """Return the function of the code object at an address, or None."""
        layout = self._layout
        head = self.read_head(address)
        if head is None:
            return None
        (first_line,) = struct.unpack_from("<i", head, layout.first_line)
        file = self.read_text(_read_pointer(head, layout.file))
        name = self.read_text(_read_pointer(head, layout.name))
        if not file or not name or not 0 <= first_line <= _MAX_LINE:
            return None
        table = self._read_bytes(_read_pointer(head, layout.table))
        return Code(name, file, first_line, table or b"", self._identity_bytes(head))

    def is_still(self, address: int, code: Code) -> bool:
        """Return whether an address still contains the same code object."""
        head = self.read_head(address)
        return head is not None and self._identity_bytes(head) == code.head

    def read_head(self, address: int) -> bytes | None:
        """Return the bytes of a code object up to its first instruction, or None."""
        head = self.read(address, self._layout.code_bytes)
        kind = id(CodeType) + self._shift
        return head if head is not None and _read_pointer(head, TYPE) == kind else None

    def read_text(self, address: int) -> str | None:
        """Return the text at an address; None for another object or a long text."""
        layout = self._layout
        head = self.read(address, layout.wide)
        if head is None or _read_pointer(head, TYPE) != id(str) + self._shift:
            return None
        length = _read_pointer(head, layout.text_length)
        state = head[layout.text_state]
        width, is_compact, is_ascii = state >> 2 & 7, state >> 5 & 1, state >> 6 & 1
        if not is_compact or width not in _ENCODINGS or length > _MAX_CHARACTERS:
            return None
        begin = layout.ascii if is_ascii else layout.wide
        characters = self.read(address + begin, length * width)
        if characters is None:
            return None
        return characters.decode(_ENCODINGS[width], "replace")

    def _read_bytes(self, address: int) -> bytes | None:
        layout = self._layout
        head = self.read(address, layout.bytes_data)
        if head is None or _read_pointer(head, TYPE) != id(bytes) + self._shift:
            return None
        length = _read_pointer(head, layout.bytes_length)
        if length > _MAX_TABLE_BYTES:
            return None
        return self.read(address + layout.bytes_data, length)

    def _identity_bytes(self, head: bytes) -> bytes:
        """Return the part of a code object that identifies its function."""
        layout = self._layout
        offsets = (layout.file, layout.name, layout.table)
        line = head[layout.first_line : layout.first_line + 4]
        return line + b"".join(head[offset : offset + 8] for offset in offsets)


def _read_pointer(memory: bytes, offset: int) -> int:
    return int.from_bytes(memory[offset : offset + 8], "little")
