"""The definition of a rule: its page of the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.patterns import Pattern
from stepscope.report.outline.parts import Bullets, Code, Heading, Paragraph, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.report.outline.parts import Part

_PACKAGE: Final = Path(__file__).resolve().parents[2]
#: Where the pages are: in a checkout, and in an installed package.
_PLACES: Final = (
    _PACKAGE.parents[1] / "docs" / "advice",
    _PACKAGE / "advice" / "pages",
)
_LINK: Final = Pattern(r"\[([^\]]*)\]\([^)]*\)")
_ITEM: Final = Pattern(r"\s*(?:[-*]|\d+\.)\s+(.*)")


def definition_of(rule: str) -> tuple[Part, ...] | None:
    """Return the page of a rule without its title; None where no page is installed."""
    name = f"{rule.replace('.', '_')}.md"
    for folder in _PLACES:
        try:
            text = (folder / name).read_text(encoding="utf-8")
        except OSError:
            continue
        return tuple(parsed(text))[1:]
    return None


def parsed(text: str) -> Iterator[Part]:
    """Read the little of Markdown that the pages are written in."""
    lines: list[str] = []
    fenced = False
    for line in (*text.splitlines(), ""):
        if line.startswith("```"):
            if lines and fenced:
                yield from (Code(one) for one in lines)
            elif lines:
                yield from _block(lines)
            lines, fenced = [], not fenced
        elif fenced or line.strip():
            if line.startswith("#") and not fenced:
                if lines:
                    yield from _block(lines)
                mark, _, title = line.partition(" ")
                yield Heading(_plain(title), len(mark) + 1)
                lines = []
            else:
                lines.append(line)
        elif lines:
            yield from _block(lines)
            lines = []


def _block(lines: list[str]) -> Iterator[Part]:
    if all(one.startswith("    ") for one in lines):
        yield from (Code(one.strip()) for one in lines)
    elif lines[0].startswith("|"):
        rows = [_cells(one) for one in lines]
        width = len(rows[0])
        body = tuple(row for row in rows[2:] if len(row) == width)
        yield Table(rows[0], body, frozenset(range(width)))
    elif _ITEM.match(lines[0]):
        yield Bullets(tuple(_items(lines)))
    else:
        yield Paragraph(_plain(" ".join(one.strip() for one in lines)))


def _items(lines: list[str]) -> Iterator[str]:
    item = ""
    for line in lines:
        begins = _ITEM.match(line)
        if begins is None:
            item += f" {line.strip()}"
            continue
        if item:
            yield _plain(item)
        item = begins.group(1)
    yield _plain(item)


def _cells(line: str) -> tuple[str, ...]:
    inside = line.strip().strip("|").replace("\\|", "\0")
    return tuple(_plain(one.strip().replace("\0", "|")) for one in inside.split("|"))


def _plain(text: str) -> str:
    return _LINK.sub(r"\1", text)
