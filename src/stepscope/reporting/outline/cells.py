"""Cells of tables as text, and tables from the rows of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from stepscope.reporting.outline.parts import Break, Paragraph, Table
from stepscope.reporting.words.names import ms, percent, us
from stepscope.reporting.words.pages import reason_sentences
from stepscope.units import bytes_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import polars as pl

    from stepscope.reporting.outline.parts import Part
    from stepscope.unavailable import Missing

#: Heading, field of the row, and function that writes the value.
TableColumn: TypeAlias = "tuple[str, str, Callable[[Any], str]]"

UNKNOWN: Final = "–"


def table_of_rows(
    rows: pl.DataFrame,
    columns: Sequence[TableColumn],
    *,
    left: frozenset[int] = frozenset({0}),
    expendable: tuple[str, ...] = (),
) -> Table:
    """Return rows of a result as a table; unknown values are a dash."""
    return Table(
        tuple(heading for heading, _, _ in columns),
        tuple(
            tuple(write(row[field]) for _, field, write in columns)
            for row in rows.iter_rows(named=True)
        ),
        left=left,
        expendable=expendable,
    )


def reason_parts(missing: Sequence[Missing]) -> Iterator[Part]:
    """Write why fields of a result are null, for the end of its page."""
    if missing:
        yield Break()
        yield from map(Paragraph, reason_sentences(missing))


def text_cell(value: str | None) -> str:
    """Write a name; an empty name or null is a dash."""
    return value or UNKNOWN


def known(write: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a function that writes null as a dash and other values with `write`."""
    return lambda value: UNKNOWN if value is None else write(value)


def known_or_zero(write: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a function like that of `known`, but zero becomes `0` without a unit."""
    return known(lambda value: write(value) if value else "0")


count_cell: Final = known("{:,}".format)
rate_cell: Final = known("{:,.2f}".format)
percent_cell: Final = known(percent)
us_cell: Final = known_or_zero(us)
ms_cell: Final = known_or_zero(ms)
bytes_cell: Final = known_or_zero(bytes_text)
