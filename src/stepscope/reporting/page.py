"""Lines of text, made of pieces that have a role; bars and sparklines as characters.

A role is the kind of a piece of text; the caller chooses colours for the roles. The
text of a page is complete even if the roles are ignored.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final, Literal

from stepscope.frozen import Frozen
from stepscope.patterns import UNNAMED_NAMESPACE, Pattern, printable_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Role = Literal[
    "plain", "title", "heading", "dim", "good", "bad", "warn", "bar", "code", "number"
]
Align = Literal["<", ">"]

_MEASURE: Final = Pattern(r"(\d) (%|[mµnp]?s\b|[KMG]?i?B\b)")
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_LEVELS: Final = "▁▂▃▄▅▆▇█"


class Piece(Frozen, frozen=True, eq=True):
    """A piece of one line, with its role."""

    text: str
    role: Role = "plain"


Line = tuple[Piece, ...]


def line(*pieces: Piece | str) -> Line:
    """Make a line from pieces and plain texts."""
    return tuple(Piece(piece) if isinstance(piece, str) else piece for piece in pieces)


def more_line(command: str) -> Line:
    """Make the line with the command that shows the rest of a summary."""
    return line(Piece("  more: ", "dim"), Piece(command, "code"))


def plain_text(lines: Iterable[Line]) -> str:
    """Return the text of the lines, without roles and without trailing blanks."""
    written = ("".join(piece.text for piece in pieces).rstrip() for pieces in lines)
    return "\n".join(map(printable_text, written)) + "\n"


def bar(share: float, width: int) -> str:
    """Draw a bar of `share` (0 to 1) of the width; only a zero has no bar."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    if share > 0:
        eighths = max(eighths, 1)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def sparkline(values: Sequence[float], width: int) -> tuple[str, int]:
    """Draw each value as a mark of a height; also return the number of values per mark.

    A mark for several values shows the largest of these values.
    """
    if not values:
        return "", 1
    per_mark = -(-len(values) // width)
    marks = [
        max(values[begin : begin + per_mark])
        for begin in range(0, len(values), per_mark)
    ]
    top = max(marks)
    if top <= 0:
        return _LEVELS[0] * len(marks), per_mark
    scale = len(_LEVELS) - 1
    return "".join(_LEVELS[round(mark / top * scale)] for mark in marks), per_mark


def cut(text: str, width: int) -> str:
    """Cut a text to at most `width` characters; an ellipsis marks the cut."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def cut_middle(text: str, width: int) -> str:
    """Shorten a name to at most `width` characters by cutting its middle.

    Both ends of a name identify a kernel. Unnamed C++ namespaces are removed first.
    """
    if len(text) > width:
        text = UNNAMED_NAMESPACE.sub("", text)
    if len(text) <= width or width < 5:
        return cut(text, width)
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def wrap_text(
    text: str, width: int, *, indent: int, role: Role = "plain"
) -> list[Line]:
    """Wrap a text into indented lines of at most `width` characters."""
    # A number and its unit stay on one line.
    tied = _MEASURE.sub("\\1\u00a0\\2", text)
    lines = textwrap.wrap(
        tied, max(width - indent, 20), break_long_words=False, break_on_hyphens=False
    )
    return [
        line(" " * indent, Piece(wrapped.replace("\u00a0", " "), role))
        for wrapped in lines
    ]


def table_lines(
    header: Sequence[str],
    body: Sequence[Sequence[str]],
    *,
    align: Sequence[Align],
    width: int,
    cut_column: int,
    indent: int = 2,
) -> list[Line]:
    """Lay out columns two blanks apart; column `cut_column` is cut to fit the width."""
    widths = [
        max(len(row[index]) for row in (header, *body)) for index in range(len(header))
    ]
    other_width = sum(widths) - widths[cut_column] + 2 * (len(widths) - 1) + indent
    widths[cut_column] = min(widths[cut_column], max(width - other_width, 12))

    def row_line(row: Sequence[str], role: Role) -> Line:
        cells = [
            f"{cut_middle(cell, size) if index == cut_column else cell:{side}{size}}"
            for index, (cell, size, side) in enumerate(
                zip(row, widths, align, strict=True)
            )
        ]
        return line(" " * indent, Piece("  ".join(cells), role))

    return [row_line(header, "dim"), *(row_line(row, "plain") for row in body)]
