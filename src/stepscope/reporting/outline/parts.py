"""The parts of an outline."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from stepscope.reporting.page import Role


class Title(Frozen, frozen=True, eq=True):
    """Title of a report: the name of its run."""

    run: str


class Heading(Frozen, frozen=True, eq=True):
    """Title of a section; level 1 is the title of the whole answer."""

    text: str
    level: int = 2


class Break(Frozen, frozen=True, eq=True):
    """Blank line after a section if the next section has no heading."""


class Paragraph(Frozen, frozen=True, eq=True):
    """Sentences in one paragraph; `strong` ones are emphasised and not indented."""

    text: str
    strong: bool = False
    role: Role = "plain"
    indent: int = 2


class Excerpt(Frozen, frozen=True, eq=True):
    """A name that narrow pages shorten, and a note on the name."""

    text: str
    note: str
    role: Role = "plain"


class Labelled(Frozen, frozen=True, eq=True):
    """Sentences after a label.

    Attributes:
        label: One short word.
        text: The sentences.
        again: Whether an earlier part has the same label, so that a page can omit it.
        shortened: Whether a narrow page cuts the text instead of wrapping it.
    """

    label: str
    text: str
    again: bool = False
    shortened: bool = False


class Bullets(Frozen, frozen=True, eq=True):
    """A list of sentences, numbered if their order matters."""

    items: tuple[str, ...]
    numbered: bool = False
    role: Role = "plain"


class Code(Frozen, frozen=True, eq=True):
    """A line to copy, which is never wrapped or shortened."""

    text: str
    indent: int = 6


class More(Frozen, frozen=True, eq=True):
    """The command that shows the rest of a section."""

    command: str


class Table(Frozen, frozen=True, eq=True):
    """A table: rows under a header.

    Attributes:
        header: Heading of each column. The first column has names, which a narrow page
            shortens; the other columns have numbers.
        rows: Cells of each row, as many as the header has.
        words: Indices of columns after the first that have words instead of numbers. If
            a page is too narrow for the words, each row becomes a sentence.
        left: Indices of further columns that are aligned left.
        expendable: Headings of columns that a narrow page drops, in this order.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[int] = frozenset()
    left: frozenset[int] = frozenset({0})
    expendable: tuple[str, ...] = ()

    def with_columns(self, shown: Sequence[int]) -> Table:
        """Return the table with only the columns at these indices."""
        pairs = list(enumerate(shown))
        return Table(
            header=tuple(self.header[column] for column in shown),
            rows=tuple(tuple(row[column] for column in shown) for row in self.rows),
            words=frozenset(index for index, column in pairs if column in self.words),
            left=frozenset(index for index, column in pairs if column in self.left),
            expendable=self.expendable,
        )

    def without_unknown(self) -> Table:
        """Return the table without columns in which every cell is a dash."""
        known = [
            column
            for column, cells in enumerate(zip(*self.rows, strict=True))
            if not column or {*cells} != {"–"}
        ]
        return self.with_columns(known) if self.rows else self


class Bar(Frozen, frozen=True, eq=True):
    """A part of a whole: name, time, share, and the lines to show below its bar."""

    name: str
    time: str
    percent: float
    below: tuple[Paragraph | Excerpt, ...] = ()


class Bars(Frozen, frozen=True, eq=True):
    """Parts of a whole; `time` is the heading of their times."""

    bars: tuple[Bar, ...]
    time: str


class Series(Frozen, frozen=True, eq=True):
    """Values in order of time, after a label."""

    label: str
    values: tuple[float, ...]


class Check(Frozen, frozen=True, eq=True):
    """Heading of a finding."""

    mark: str
    role: Role
    finding: str
    title: str


class Item(Frozen, frozen=True, eq=True):
    """A sentence after a mark, and the parts below it."""

    mark: str
    role: Role
    text: str
    below: tuple[Check | Paragraph | Labelled | Code, ...] = ()


class Items(Frozen, frozen=True, eq=True):
    """A list of sentences with marks, each with parts below it."""

    items: tuple[Item, ...]


#: Parts that are one line or one paragraph.
Sentences = Title | Heading | Paragraph | Excerpt | Labelled | More | Series | Check
Part = Sentences | Break | Bullets | Code | Table | Bars | Items
Outline = tuple[Part, ...]
Asked = ParamSpec("Asked")


def outlined(yields: Callable[Asked, Iterable[Part]]) -> Callable[Asked, Outline]:
    """Convert a function that yields parts into a function that returns an outline."""

    @wraps(yields)
    def outline(*args: Asked.args, **options: Asked.kwargs) -> Outline:
        return tuple(yields(*args, **options))

    return outline
