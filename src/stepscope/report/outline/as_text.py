"""An outline as a page of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.report.outline.parts import Bullets, Code, Heading, Paragraph, Table
from stepscope.report.page import Piece, line, table, wrapped

if TYPE_CHECKING:
    from stepscope.report.outline.parts import Outline, Part
    from stepscope.report.page import Align, Line, Role

#: Names are shortened to this before a table gives way to a list.
_NARROWEST: Final = 24


def render(outline: Outline, *, width: int) -> list[Line]:
    """Write an outline in lines of at most `width`; sections are a blank line apart."""
    lines: list[Line] = []
    for at, part in enumerate(outline):
        tables = isinstance(part, Table) and isinstance(outline[at - 1], Table)
        if at and (isinstance(part, Heading) or tables):
            lines.append(line())
        lines += _lines(part, width)
    return [*lines, line()]


def _lines(part: Part, width: int) -> list[Line]:
    if isinstance(part, Heading):
        title: Role = "title" if part.level == 1 else "heading"
        return wrapped(part.text, width, indent=0, role=title)
    if isinstance(part, Paragraph):
        role: Role = "title" if part.strong else "plain"
        return wrapped(part.text, width, indent=0 if part.strong else 2, role=role)
    if isinstance(part, Code):
        return [line("      ", Piece(part.text, "code"))]
    if isinstance(part, Bullets):
        return [
            one
            for number, item in enumerate(part.items, 1)
            for one in _item(item, number if part.numbered else None, width)
        ]
    return _table(part, width)


def _item(text: str, number: int | None, width: int) -> list[Line]:
    mark = "•" if number is None else f"{number}"
    first, *rest = wrapped(text, width, indent=4)
    return [line(f"  {mark} ", first[1]), *rest]


def _table(part: Table, width: int) -> list[Line]:
    longest = [
        max(map(len, column)) for column in zip(part.header, *part.rows, strict=True)
    ]
    least = min(longest[0], _NARROWEST) + sum(longest[1:]) + 2 * len(longest)
    if part.words and least > width:
        # Sentences in cells are wrapped, and a table cannot do that.
        return _lines(Bullets(tuple(_sentence(part, row) for row in part.rows)), width)
    align: list[Align] = [
        "<" if at == 0 or at in part.words else ">" for at in range(len(part.header))
    ]
    return table(part.header, part.rows, align=align, width=width, stretch=0)


def _sentence(part: Table, row: tuple[str, ...]) -> str:
    """Write a row as its name and its other cells, each after its heading."""
    cells = [
        f"{heading}: {cell}" if heading else cell
        for heading, cell in zip(part.header[1:], row[1:], strict=True)
        if cell
    ]
    return " · ".join((row[0], *cells))
