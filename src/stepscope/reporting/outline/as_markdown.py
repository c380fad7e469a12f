"""Outlines as Markdown, for pull requests, issues and notebooks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stepscope.patterns import Pattern
from stepscope.reporting.outline import parts
from stepscope.reporting.page import sparkline
from stepscope.reporting.words.names import percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.reporting.outline.parts import Outline, Part

#: Characters with a meaning in Markdown or HTML anywhere in a line; kernel names
#: contain many such characters.
_SPECIAL: Final = Pattern(r"([\\*_\[\]<>|&~])")
#: Code: text between backticks, in the report's sentences as in Markdown.
_CODE: Final = Pattern(r"`[^`\n]+`")
#: Line that Markdown would read as a list or heading: a mark, or number and mark.
_BEGINS: Final = Pattern(r"^(\s*\d*)([-+#.)])(?=\s|$)")

#: Maximum number of characters of a sparkline.
_MAX_MARKS: Final = 72


def render(outline: Outline) -> str:
    """Write an outline as Markdown; names are escaped and appear unchanged."""
    return "\n\n".join(_markdown_blocks(outline)) + "\n"


def _markdown_blocks(outline: Sequence[Part]) -> Iterator[str]:
    """Write the parts; consecutive labels become one list."""
    labels: list[str] = []
    for part in outline:
        if isinstance(part, parts.Labelled):
            labels.append(
                f"- {_escape_text(f'{part.label.capitalize()}: {part.text}')}"
            )
            continue
        if labels:
            yield "\n".join(labels)
            labels = []
        yield from _part_blocks(part)
    if labels:
        yield "\n".join(labels)


def _part_blocks(part: Part) -> Iterator[str]:
    match part:
        case parts.Code():
            longest = max(map(len, re.findall("`+", part.text)), default=0)
            fence = "`" * max(3, longest + 1)
            yield f"{fence}\n{part.text}\n{fence}"
        case parts.Bullets():
            yield "\n".join(
                f"{f'{number}.' if part.numbered else '-'} {_escape_text(item)}"
                for number, item in enumerate(part.items, 1)
            )
        case parts.Table():
            yield _table_block(part)
        case parts.Bars():
            yield _table_block(_table_of_bars(part))
        case parts.Items():
            marked = (f"{item.mark} {item.text}" for item in part.items)
            # The Markdown list adds its own bullet to each item.
            items = tuple(text.removeprefix("• ") for text in marked)
            yield from _part_blocks(parts.Bullets(items))
            yield from _markdown_blocks(
                [below for item in part.items for below in item.below]
            )
        case parts.Break():
            pass
        case _:
            yield _sentence_block(part)


def _sentence_block(part: parts.Sentences) -> str:  # noqa: PLR0911 - one for each part
    match part:
        case parts.Title():
            return f"# {_escape_text(part.run)}"
        case parts.Heading():
            return f"{'#' * part.level} {_escape_text(part.text)}"
        case parts.Check():
            return f"### {_escape_text(f'{part.finding}: {part.title}')}"
        case parts.Paragraph(text=text, strong=True):
            return f"**{_escape_text(text)}**"
        case parts.Excerpt():
            return _escape_text(f"{part.text} {part.note}")
        case parts.More():
            return _escape_text(f"More: `{part.command}`")
        case parts.Series():
            drawn, per_mark = sparkline(part.values, _MAX_MARKS)
            note = "" if per_mark == 1 else f" each mark the longest of {per_mark}"
            return _escape_text(f"{part.label}`{drawn}`{note}")
        case _:
            return _escape_text(part.text)


def _table_of_bars(part: parts.Bars) -> parts.Table:
    """Return bars as rows of a table; the last cell lists what the bar consists of."""
    notes = [
        "; ".join(
            f"{excerpt.text} {excerpt.note}"
            if isinstance(excerpt, parts.Excerpt)
            else excerpt.text
            for excerpt in bar.below
        )
        for bar in part.bars
    ]
    rows = [(bar.name, bar.time, percent(bar.percent)) for bar in part.bars]
    header = ("category", part.time, "share")
    if not any(notes):
        return parts.Table(header, tuple(rows))
    noted = tuple((*row, note) for row, note in zip(rows, notes, strict=True))
    return parts.Table((*header, ""), noted, frozenset({3}))


def _table_block(part: parts.Table) -> str:
    columns = range(len(part.header))
    left = part.left | part.words
    sides = ["---" if column in left else "--:" for column in columns]
    rows = [[_escape_text(cell) for cell in row] for row in (part.header, *part.rows)]
    rows.insert(1, sides)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _escape_text(text: str) -> str:
    one_line = " ".join(text.split())
    written, end = [], 0
    for code in _CODE.finditer(one_line):
        # A vertical bar ends a cell of a table even inside code.
        inside = code.group().replace("|", "\\|")
        written += [_escape_marks(one_line[end : code.start()]), inside]
        end = code.end()
    written.append(_escape_marks(one_line[end:]))
    return _BEGINS.sub(r"\1\\\2", "".join(written))


def _escape_marks(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text).replace("`", "\\`")
