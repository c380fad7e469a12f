"""An outline as Markdown: for a pull request, an issue or a notebook."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stepscope.patterns import Pattern
from stepscope.report.outline.parts import Bullets, Code, Heading, Paragraph

if TYPE_CHECKING:
    from stepscope.report.outline.parts import Outline, Part, Table

#: What has a meaning in Markdown or HTML wherever it stands in a line; names of kernels
#: are full of it.
_SPECIAL: Final = Pattern(r"([\\*_\[\]<>|&~])")
#: What our own texts put between grave accents is code there too.
_CODE: Final = Pattern(r"`[^`\n]+`")
#: What begins a list or a heading: a mark, or a number and a mark.
_BEGINS: Final = Pattern(r"^(\s*\d*)([-+#.)])(?=\s|$)")


def render(outline: Outline) -> str:
    """Write an outline as Markdown that shows every name as it is."""
    return "\n\n".join(_written(part) for part in outline) + "\n"


def _written(part: Part) -> str:
    if isinstance(part, Heading):
        return f"{'#' * part.level} {_escaped(part.text)}"
    if isinstance(part, Paragraph):
        text = _escaped(part.text)
        return f"**{text}**" if part.strong else text
    if isinstance(part, Code):
        longest = max(map(len, re.findall("`+", part.text)), default=0)
        fence = "`" * max(3, longest + 1)
        return f"{fence}\n{part.text}\n{fence}"
    if isinstance(part, Bullets):
        return "\n".join(
            f"{f'{number}.' if part.numbered else '-'} {_escaped(item)}"
            for number, item in enumerate(part.items, 1)
        )
    return _table(part)


def _table(part: Table) -> str:
    columns = range(len(part.header))
    sides = ["---" if not at or at in part.words else "--:" for at in columns]
    rows = [[_cell(one) for one in row] for row in (part.header, *part.rows)]
    rows.insert(1, sides)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(text: str) -> str:
    return _escaped(text).replace("\n", " ")


def _escaped(text: str) -> str:
    """Return a text that Markdown shows as it is, code between accents kept."""
    one_line = " ".join(text.split())
    written, end = [], 0
    for code in _CODE.finditer(one_line):
        # A bar ends a cell of a table even in code.
        inside = code.group().replace("|", "\\|")
        written += [_plain(one_line[end : code.start()]), inside]
        end = code.end()
    written.append(_plain(one_line[end:]))
    return _BEGINS.sub(r"\1\\\2", "".join(written))


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text).replace("`", "\\`")
