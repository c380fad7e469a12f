"""The parts that an outline is made of."""

from __future__ import annotations

from stepscope.frozen import Frozen


class Heading(Frozen, frozen=True, eq=True):
    """The title of what follows; level 1 is that of the whole answer."""

    text: str
    level: int = 2


class Paragraph(Frozen, frozen=True, eq=True):
    """Sentences; `strong` ones are what has to be seen first."""

    text: str
    strong: bool = False


class Bullets(Frozen, frozen=True, eq=True):
    """A list of sentences; numbered where their order matters."""

    items: tuple[str, ...]
    numbered: bool = False


class Code(Frozen, frozen=True, eq=True):
    """A line to copy; it is never wrapped or shortened."""

    text: str


class Table(Frozen, frozen=True, eq=True):
    """Rows under a header.

    Attributes:
        header: Heading of each column; the first column holds names and is shortened
            where a page is narrow, the others hold numbers.
        rows: The cells, as many as the header has.
        words: Columns after the first that hold words, not numbers.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[int] = frozenset()


Part = Heading | Paragraph | Bullets | Code | Table
Outline = tuple[Part, ...]
