"""Names of events are numbers: ids of the file, and texts of its rows, share them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.trace.reading.texts import Shortening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stepscope.trace.quality import QualityNote

#: The interface's version after a call's name, and which default stream it means.
_VERSION: Final = re.compile(r"(?:_pt[sd][sz])?_v\d{4,}\Z|_pt[sd][sz]\Z")


def call_name(recorded: str) -> str:
    """Return the name that programmers know: `cudaLaunchKernel_v7000` without `_v…`."""
    return _VERSION.sub("", recorded)


class Names:
    """The distinct names of a file; a name's number is its place among them.

    Args:
        strings: Id → text, as the file has them.
    """

    def __init__(self, strings: Mapping[int, str]) -> None:
        self._strings = strings
        self._numbers: dict[str, int] = {}
        self._unknown: set[int] = set()
        self._shortening = Shortening()

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, text: str) -> int:
        """Return the number of a text."""
        short = self._shortening.text(text)
        return self._numbers.setdefault(short, len(self._numbers))

    def texts(self) -> tuple[str, ...]:
        """Return number → text."""
        return tuple(self._numbers)

    def unknown(self) -> frozenset[int]:
        """Return numbers of names that only say which id the file has no text for."""
        return frozenset(self._unknown)

    def of_ids(
        self, ids: pl.Series, shown: Callable[[str], str] | None = None
    ) -> pl.Series:
        """Return the numbers of ids.

        Args:
            ids: As recorded; null gives `(unnamed)`.
            shown: Makes the name of an event from the text of an id.
        """
        distinct = ids.unique(maintain_order=True)
        numbers = [self._of_id(number, shown) for number in distinct.to_list()]
        return _replaced(ids, distinct, numbers)

    def of_texts(self, texts: pl.Series) -> pl.Series:
        """Return the numbers of texts; null gives `(unnamed)`."""
        distinct = texts.unique(maintain_order=True)
        numbers = [self.number(it or "(unnamed)") for it in distinct.to_list()]
        return _replaced(texts, distinct, numbers)

    def notes(self) -> Iterator[QualityNote]:
        """Note how many names were cut."""
        return self._shortening.notes()

    def _of_id(self, number: int | None, shown: Callable[[str], str] | None) -> int:
        text = None if number is None else self._strings.get(number)
        if text is None:
            found = self.number("(unnamed)" if number is None else f"#{number}")
            self._unknown.add(found)
            return found
        return self.number(text if shown is None else shown(text))


def _replaced(given: pl.Series, distinct: pl.Series, numbers: list[int]) -> pl.Series:
    table = pl.DataFrame(
        {"given": distinct, "name": pl.Series(numbers, dtype=pl.Int32)}
    )
    rows = given.alias("given").to_frame()
    joined = rows.join(
        table, on="given", how="left", nulls_equal=True, maintain_order="left"
    )
    return joined["name"]
