"""Outlines as pages of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.reporting.outline import parts
from stepscope.reporting.page import (
    Piece,
    bar,
    cut,
    cut_middle,
    line,
    more_line,
    plain_text,
    sparkline,
    table_lines,
    wrap_text,
)
from stepscope.reporting.words.names import percent

if TYPE_CHECKING:
    from stepscope.reporting.outline.parts import Outline, Part
    from stepscope.reporting.page import Align, Line, Role

#: Minimum width of a column, in characters; narrower tables become lists.
_MIN_COLUMN_WIDTH: Final = 24
#: Width of the columns of a bar's name and of its numbers, in characters.
_NAME_WIDTH: Final = 24
_NUMBERS_WIDTH: Final = 22
#: Width, in characters, of the note on the number of values per mark of a sparkline.
_NOTE_WIDTH: Final = 32
#: Indentation of the text after a finding's label, in characters.
_LABEL_WIDTH: Final = 11


def render(outline: Outline, *, width: int) -> list[Line]:
    """Write an outline in lines of at most `width`; a blank line separates sections.

    Names of ops and kernels are shortened to fit; commands to copy are never shortened.
    """
    lines: list[Line] = []
    for index, part in enumerate(outline):
        tables = isinstance(part, parts.Table) and isinstance(
            outline[index - 1], parts.Table
        )
        if index and (isinstance(part, parts.Heading) or tables):
            lines.append(line())
        lines += _part_lines(part, width)
    return [*lines, line()]


def render_page(outline: Outline, *, width: int) -> str:
    """Write an outline as the text of a whole page, without roles."""
    return plain_text(render(outline, width=width)[:-1])


def _part_lines(part: Part, width: int) -> list[Line]:  # noqa: PLR0911 - one for each part
    match part:
        case parts.Labelled():
            label = Piece(f"    {'' if part.again else part.label:7}", "dim")
            if part.shortened:
                return [line(label, cut(part.text, width - _LABEL_WIDTH))]
            first, *more_lines = wrap_text(part.text, width, indent=_LABEL_WIDTH)
            return [line(label, first[1]), *more_lines]
        case parts.Bullets():
            return _bullet_lines(part, width)
        case parts.Items() | parts.Bars():
            return _lines_with_details(part, width)
        case parts.Table():
            return _table_lines(part, width)
        case parts.Heading():
            title: Role = "title" if part.level == 1 else "heading"
            return wrap_text(part.text, width, indent=0, role=title)
        case parts.Paragraph(text=text, strong=True):
            return wrap_text(text, width, indent=0, role="title")
        case parts.Paragraph():
            return wrap_text(part.text, width, indent=part.indent, role=part.role)
        case _:
            return [_part_line(part, width)]


def _lines_with_details(part: parts.Items | parts.Bars, width: int) -> list[Line]:
    lines: list[Line] = []
    for item in part.items if isinstance(part, parts.Items) else part.bars:
        if isinstance(item, parts.Item):
            first, *more_lines = wrap_text(item.text, width, indent=4)
            mark = Piece(item.mark, item.role)
            lines += [line("  ", mark, " ", *first[1:]), *more_lines]
        else:
            bar_width = max(width - _NAME_WIDTH - _NUMBERS_WIDTH - 4, 10)
            numbers = f"{item.time:>11}{percent(item.percent):>9}  "
            drawn = Piece(bar(item.percent / 100, bar_width), "bar")
            lines.append(line(f"  {item.name:<{_NAME_WIDTH}}{numbers}", drawn))
        lines += [row for below in item.below for row in _part_lines(below, width)]
    return lines


def _part_line(part: Part, width: int) -> Line:  # noqa: PLR0911 - one for each part
    match part:
        case parts.Title():
            run = Piece(cut_middle(part.run, width - 12), "title")
            return line(Piece("stepscope", "title"), " · ", run)
        case parts.Excerpt():
            name = Piece(cut(part.text, width - _NAME_WIDTH), part.role)
            return line("      ", name, Piece(f"  {part.note}", "dim"))
        case parts.Code():
            return line(" " * part.indent, Piece(part.text, "code"))
        case parts.More():
            return more_line(part.command)
        case parts.Series():
            mark_count = width - 4 - len(part.label)
            if len(part.values) > mark_count:
                mark_count -= _NOTE_WIDTH
            drawn, per_mark = sparkline(part.values, mark_count)
            note = "" if per_mark == 1 else f"  each mark the longest of {per_mark}"
            return line(f"  {part.label}", Piece(drawn, "bar"), Piece(note, "dim"))
        case parts.Check():
            mark = Piece(part.mark, part.role)
            return line("    ", mark, Piece(f"  {part.finding}", "dim"))
        case _:
            return line()


def _bullet_lines(part: parts.Bullets, width: int) -> list[Line]:
    lines: list[Line] = []
    for number, item in enumerate(part.items, 1):
        first, *more_lines = wrap_text(item, width, indent=4, role=part.role)
        mark = number if part.numbered else "•"
        lines += [line(f"  {mark} ", first[1]), *more_lines]
    return lines


def _table_lines(part: parts.Table, width: int) -> list[Line]:
    for heading in part.expendable:
        if _min_table_width(part) > width:
            part = part.with_columns(
                [column for column, name in enumerate(part.header) if name != heading]
            )
    if part.words and _min_table_width(part) > width:
        # Cells with sentences must be wrapped, which a table does not support.
        sentences = []
        for name, *cells in part.rows:
            named = [
                f"{heading}: {cell}" if heading else cell
                for heading, cell in zip(part.header[1:], cells, strict=True)
                if cell
            ]
            sentences.append(" · ".join((name, *named)))
        return _bullet_lines(parts.Bullets(tuple(sentences)), width)
    left = part.left | part.words
    align: list[Align] = [
        "<" if column in left else ">" for column in range(len(part.header))
    ]
    drawn = table_lines(part.header, part.rows, align=align, width=width, cut_column=0)
    return drawn if any(part.header) else drawn[1:]


def _min_table_width(part: parts.Table) -> int:
    widths = [
        max(map(len, column)) for column in zip(part.header, *part.rows, strict=True)
    ]
    return min(widths[0], _MIN_COLUMN_WIDTH) + sum(widths[1:]) + 2 * len(widths)
