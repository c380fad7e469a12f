"""What every sort of event has in common before it lies on a track.

Names of events are numbers: ids of the file, and texts of its rows, share them.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.trace.reading.texts import Shortening

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from stepscope.trace.quality import QualityNote

#: The interface's version after a call's name, and which default stream it means.
_VERSION: Final = re.compile(r"(?:_pt[sd][sz])?_v\d{4,}\Z|_pt[sd][sz]\Z")


def call_name(recorded: str) -> str:
    """Return the name that programmers know: `cudaLaunchKernel_v7000` without `_v…`."""
    return _VERSION.sub("", recorded)


class Names:
    """The distinct names of a file; a name's number is its place among them."""

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

    def number_ids(
        self, ids: pl.Series, shown: Callable[[str], str] | None = None
    ) -> pl.Series:
        """Return the numbers of ids.

        Args:
            ids: As recorded; null gives `(unnamed)`.
            shown: Makes the name of an event from the text of an id.
        """
        distinct = ids.unique(maintain_order=True)
        numbers = [self._number_of_id(number, shown) for number in distinct.to_list()]
        return _replace_values(ids, distinct, numbers)

    def number_texts(self, texts: pl.Series) -> pl.Series:
        """Return the numbers of texts; null gives `(unnamed)`."""
        distinct = texts.unique(maintain_order=True)
        numbers = [self.number(it or "(unnamed)") for it in distinct.to_list()]
        return _replace_values(texts, distinct, numbers)

    def notes(self) -> Iterator[QualityNote]:
        """Note how many names were cut."""
        return self._shortening.notes()

    def _number_of_id(
        self, number: int | None, shown: Callable[[str], str] | None
    ) -> int:
        text = None if number is None else self._strings.get(number)
        if text is None:
            found = self.number("(unnamed)" if number is None else f"#{number}")
            self._unknown.add(found)
            return found
        return self.number(text if shown is None else shown(text))


def _replace_values(
    given: pl.Series, distinct: pl.Series, numbers: list[int]
) -> pl.Series:
    table = pl.DataFrame(
        {"given": distinct, "name": pl.Series(numbers, dtype=pl.Int32)}
    )
    rows = given.alias("given").to_frame()
    joined = rows.join(
        table, on="given", how="left", nulls_equal=True, maintain_order="left"
    )
    return joined["name"]


class Origin(IntEnum):
    """Which sort of record an event comes from; it decides on which track it lies."""

    # Of two that begin and end together, the first here holds the other.
    RANGE = 0  # pushed and popped on a thread, or a mark
    CALL = 1  # of the CUDA runtime or driver
    SYSTEM_CALL = 2  # of the operating system's libraries
    WORK = 3  # a kernel, copy or memset
    SYNC = 4  # what a device was waited for
    OVERHEAD = 5  # the profiler's own work
    SPAN = 6  # a range that may end on another thread, and overlap others
    MEMORY = 7  # the driver gave memory of a device to the program, or took it back
    OFF_CORE = 8  # a thread had no core
    COUNTER = 9  # a value of something that changes over time
    SAMPLE = 10  # a function that looks at a core found there


class Said(IntEnum):
    """What the producer says of a name: an op, a range that was named, neither."""

    NEITHER = 0
    OP = 1
    ANNOTATION = 2
    NOTHING = 3


#: Columns of every sort of event; `place` is its row among those of its sort.
EVENT_COLUMNS: Final = {
    "start": pl.Int64(),  # ns
    "dur": pl.Int64(),  # ns
    "process": pl.Int64(),
    "device": pl.Int32(),  # null on the host
    "id": pl.Int64(),  # thread or stream
    "name": pl.Int32(),
    "said": pl.UInt8(),
}


#: A global id is the machine, the process and the thread, with so many bits each.
_BITS: Final = 24


_MASK: Final = 2**_BITS - 1


def process_expr(column: str, *, machines: int) -> pl.Expr:
    """Return the process of a global id; with that of its machine if they are several.

    Args:
        column: Name of the column with global ids.
        machines: Number of machines in the file.
    """
    shifted = pl.col(column) // 2**_BITS
    return shifted if machines > 1 else shifted & _MASK


def thread_expr(column: str) -> pl.Expr:
    """Return the thread of a global id."""
    return (pl.col(column) & _MASK).fill_null(-1)


def machines_of_ids(ids: pl.Series) -> pl.Series:
    """Return the machine of global ids."""
    found: pl.Series = ids // 2 ** (2 * _BITS)
    return found


def select_rows(frame: pl.DataFrame, test: pl.Expr) -> pl.DataFrame:
    """Return the rows that pass a test; where all do the frame itself, not a copy."""
    passes = frame.select(test.fill_null(value=False)).to_series()
    return frame if passes.all() else frame.filter(passes)


def row_changes(columns: Iterable[str]) -> pl.Expr:
    """Return which rows differ from the one before; the first row does.

    Most events follow others of their process, device or track: what is looked for in
    all rows is found in these.
    """
    return pl.any_horizontal(
        pl.int_range(pl.len()) == 0,
        *(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in columns),
    )


def keep_timed_rows(
    frame: pl.DataFrame, what: str, refused: Counter[str]
) -> pl.DataFrame:
    """Return the rows with a start and no earlier end, with `dur`; count the others."""
    longest = 2**62
    near = pl.all_horizontal(pl.col("start", "end").is_between(-longest, longest - 1))
    # Compared before they are subtracted: a difference could overflow.
    right = select_rows(frame, near & (pl.col("end") >= pl.col("start")))
    if lost := frame.height - right.height:
        refused[what] += lost
    return right.with_columns(dur=pl.col("end") - pl.col("start"))
