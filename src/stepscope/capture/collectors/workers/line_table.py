"""The table of lines of a function, as CPython keeps it since 3.11.

Definition: CPython's `Objects/locations.md` (InternalDocs/code_objects.md).
"""

from __future__ import annotations

from typing import Final

_UNIT_BYTES: Final = 2
#: Kinds of entries: what they say besides the number of their instructions.
_NO_LINE: Final = 15
_LONG: Final = 14
_NO_COLUMN: Final = 13
_ONE_LINE: Final = 10


def lines_of(table: bytes, first_line: int) -> tuple[list[int], list[int | None]]:
    """Return where runs of instructions begin, and which line each is of.

    Args:
        table: The table; one that is cut off or damaged tells as much as it does.
        first_line: The function's first line.

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
            change, at = _signed(table, at)
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


def _signed(table: bytes, at: int) -> tuple[int, int]:
    """Return a number of six bits a byte, the lowest bit its sign; and what follows."""
    value = shift = 0
    while at < len(table):
        byte = table[at]
        value |= (byte & 63) << shift
        at, shift = at + 1, shift + 6
        if not byte & 64:
            break
    return (-(value >> 1) if value & 1 else value >> 1), at
