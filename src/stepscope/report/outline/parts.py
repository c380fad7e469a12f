"""The parts that an outline is made of."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from stepscope.report.page import Role


class Title(Frozen, frozen=True, eq=True):
    """The name of the run that a report is about."""

    run: str


class Heading(Frozen, frozen=True, eq=True):
    """The title of what follows; level 1 is that of the whole answer."""

    text: str
    level: int = 2


class Break(Frozen, frozen=True, eq=True):
    """The end of a section after which none with a heading comes."""


class Paragraph(Frozen, frozen=True, eq=True):
    """Sentences; `strong` ones are what has to be seen first, at the margin."""

    text: str
    strong: bool = False
    role: Role = "plain"
    indent: int = 2


class Excerpt(Frozen, frozen=True, eq=True):
    """A name that is shortened where a page is narrow, and a note about it."""

    text: str
    note: str
    role: Role = "plain"


class Labelled(Frozen, frozen=True, eq=True):
    """Sentences behind a label.

    Attributes:
        label: One short word.
        text: The sentences.
        again: Whether a part before has the same label, so that a page need not show
            it once more.
        shortened: Whether a narrow page cuts the text and does not wrap it.
    """

    label: str
    text: str
    again: bool = False
    shortened: bool = False


class Bullets(Frozen, frozen=True, eq=True):
    """A list of sentences; numbered where their order matters."""

    items: tuple[str, ...]
    numbered: bool = False
    role: Role = "plain"


class Code(Frozen, frozen=True, eq=True):
    """A line to copy; it is never wrapped or shortened."""

    text: str
    indent: int = 6


class More(Frozen, frozen=True, eq=True):
    """The command for the rest of what a section sums up."""

    command: str


class Table(Frozen, frozen=True, eq=True):
    """Rows under a header.

    Attributes:
        header: Heading of each column; the first column holds names and is shortened
            where a page is narrow, the others hold numbers.
        rows: The cells, as many as the header has.
        words: Columns after the first that hold words, not numbers; where the page is
            too narrow for them, each row becomes a sentence.
        left: Columns that are not aligned like numbers though they are no such words.
        expendable: Headings of columns that a narrow page drops, one after the other.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[int] = frozenset()
    left: frozenset[int] = frozenset({0})
    expendable: tuple[str, ...] = ()

    def with_columns(self, shown: Sequence[int]) -> Table:
        """Return the table with these columns only."""
        places = list(enumerate(shown))
        return Table(
            header=tuple(self.header[column] for column in shown),
            rows=tuple(tuple(row[column] for column in shown) for row in self.rows),
            words=frozenset(place for place, it in places if it in self.words),
            left=frozenset(place for place, it in places if it in self.left),
            expendable=self.expendable,
        )

    def without_unknown(self) -> Table:
        """Return the table without columns in which every row holds a dash."""
        columns = zip(*self.rows, strict=True)
        known = [at for at, cells in enumerate(columns) if not at or {*cells} != {"–"}]
        return self.with_columns(known) if self.rows else self


class Bar(Frozen, frozen=True, eq=True):
    """A part of a whole: its name, its time and its share, and what it consists of."""

    name: str
    time: str
    percent: float
    below: tuple[Paragraph | Excerpt, ...] = ()


class Bars(Frozen, frozen=True, eq=True):
    """Parts of a whole; `time` says what their times are of."""

    bars: tuple[Bar, ...]
    time: str


class Series(Frozen, frozen=True, eq=True):
    """Values in the order of time, behind a label."""

    label: str
    values: tuple[float, ...]


class Check(Frozen, frozen=True, eq=True):
    """A finding, as the heading of what is said of it."""

    mark: str
    role: Role
    finding: str
    title: str


class Item(Frozen, frozen=True, eq=True):
    """A marked sentence, and what belongs below it."""

    mark: str
    role: Role
    text: str
    below: tuple[Check | Paragraph | Labelled | Code, ...] = ()


class Items(Frozen, frozen=True, eq=True):
    """A list of marked sentences with details."""

    items: tuple[Item, ...]


#: What is a line or a paragraph by itself.
Sentences = Title | Heading | Paragraph | Excerpt | Labelled | More | Series | Check
Part = Sentences | Break | Bullets | Code | Table | Bars | Items
Outline = tuple[Part, ...]
Asked = ParamSpec("Asked")


def outlined(yields: Callable[Asked, Iterable[Part]]) -> Callable[Asked, Outline]:
    """Make a function that returns an outline of one that yields its parts."""

    @wraps(yields)
    def outline(*args: Asked.args, **options: Asked.kwargs) -> Outline:
        return tuple(yields(*args, **options))

    return outline
