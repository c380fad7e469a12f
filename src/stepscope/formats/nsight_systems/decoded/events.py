"""Columns and helpers that all sorts of events share before they get tracks.

Event names are stored as numbers. Texts with an id in the file and texts stored in rows
share one numbering.
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

#: Matches suffixes of call names: the API version, and the kind of default stream.
_VERSION: Final = re.compile(r"(?:_pt[sd][sz])?_v\d{4,}\Z|_pt[sd][sz]\Z")


def call_name(recorded: str) -> str:
    """Return the documented name of a call, such as `cudaLaunchKernel`."""
    return _VERSION.sub("", recorded)


class Names:
    """The distinct names of a file, each with a number from 0 up."""

    def __init__(self, strings: Mapping[int, str]) -> None:
        self._strings = strings
        self._numbers: dict[str, int] = {}
        self._unknown: set[int] = set()
        self._shortening = Shortening()

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, text: str) -> int:
        """Return the number of a text; a new text is added."""
        return self._numbers.setdefault(self._shortening.text(text), len(self._numbers))

    def texts(self) -> tuple[str, ...]:
        """Return number → text."""
        return tuple(self._numbers)

    def unknown(self) -> frozenset[int]:
        """Return the numbers of placeholder names, which replace ids without a text."""
        return frozenset(self._unknown)

    def number_ids(
        self, ids: pl.Series, shown: Callable[[str], str] | None = None
    ) -> pl.Series:
        """Return the numbers of the names that the ids refer to.

        Args:
            ids: Ids as recorded; null becomes `(unnamed)`.
            shown: Converts the text of an id to the name of an event.
        """
        distinct = ids.unique(maintain_order=True)
        numbers = [self._number_id(number, shown) for number in distinct.to_list()]
        return _replace_values(ids, distinct, numbers)

    def number_texts(self, texts: pl.Series) -> pl.Series:
        """Return the numbers of texts; null becomes `(unnamed)`."""
        distinct = texts.unique(maintain_order=True)
        numbers = [self.number(text or "(unnamed)") for text in distinct.to_list()]
        return _replace_values(texts, distinct, numbers)

    def notes(self) -> Iterator[QualityNote]:
        """Return a note with the number of shortened names, if any."""
        return self._shortening.notes()

    def _number_id(self, number: int | None, shown: Callable[[str], str] | None) -> int:
        text = None if number is None else self._strings.get(number)
        if text is None:
            name = self.number("(unnamed)" if number is None else f"#{number}")
            self._unknown.add(name)
            return name
        return self.number(text if shown is None else shown(text))


def _replace_values(values: pl.Series, old: pl.Series, numbers: list[int]) -> pl.Series:
    table = pl.DataFrame({"given": old, "name": pl.Series(numbers, dtype=pl.Int32)})
    joined = (
        values.alias("given")
        .to_frame()
        .join(table, on="given", how="left", nulls_equal=True, maintain_order="left")
    )
    return joined["name"]


class Origin(IntEnum):
    """Kind of record from which an event was read; it determines the event's track."""

    # If two events have equal times, the one with the lower number encloses the other.
    RANGE = 0  # a range pushed and popped on a thread, or a mark
    CALL = 1  # a call of the CUDA runtime or driver
    SYSTEM_CALL = 2  # a call of the operating system's libraries
    WORK = 3  # a kernel, copy or memset
    SYNC = 4  # a wait for a device
    OVERHEAD = 5  # the profiler's overhead
    SPAN = 6  # a range that may end on another thread, and may overlap other ranges
    MEMORY = 7  # an allocation or deallocation of the driver
    OFF_CORE = 8  # an interval in which a thread had no core
    COUNTER = 9  # a value of a counter
    SAMPLE = 10  # a function of a thread, from CPU samples


class Sense(IntEnum):
    """Recorded meaning of a name: an op, a program's range, neither, or not known."""

    NEITHER = 0
    OP = 1
    ANNOTATION = 2
    NOTHING = 3


#: Columns of every sort of event; `place` is the event's row in the frame of its sort.
EVENT_COLUMNS: Final = {
    "start": pl.Int64(),  # ns
    "dur": pl.Int64(),  # ns
    "process": pl.Int64(),
    "device": pl.Int32(),  # null on the host
    "id": pl.Int64(),  # thread or stream
    "name": pl.Int32(),
    "said": pl.UInt8(),
}


#: Bits of each part of a global id: the machine, the process and the thread.
_BITS: Final = 24
_MASK: Final = 2**_BITS - 1
#: Range of times, in ns, in which the difference of two times fits 64 bits.
TIMES_NS: Final = (-(2**62), 2**62 - 1)


def process_expr(column: str, *, machines: int) -> pl.Expr:
    """Return the process of a global id; with several machines, also its machine."""
    shifted = pl.col(column) // 2**_BITS
    return shifted if machines > 1 else shifted & _MASK


def thread_expr(column: str) -> pl.Expr:
    """Return the thread number in a global id."""
    return (pl.col(column) & _MASK).fill_null(-1)


def select_rows(frame: pl.DataFrame, test: pl.Expr) -> pl.DataFrame:
    """Return the rows that pass a test; if all pass, the frame itself, not a copy."""
    passes = frame.select(test.fill_null(value=False)).to_series()
    return frame if passes.all() else frame.filter(passes)


def row_changes(columns: Iterable[str]) -> pl.Expr:
    """Return True for rows that differ from the row before; also for the first row.

    Most events have the same process, device or track as the event before. So few rows
    differ, and these contain all distinct values.
    """
    return pl.any_horizontal(
        pl.int_range(pl.len()) == 0,
        *(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in columns),
    )


def timed_rows(frame: pl.DataFrame, reason: str, refused: Counter[str]) -> pl.DataFrame:
    """Return rows that end at or after their start, plus `dur`; count other rows."""
    near = pl.all_horizontal(pl.col("start", "end").is_between(*TIMES_NS))
    # Compare before subtracting, because a difference could overflow.
    ordered = select_rows(frame, near & (pl.col("end") >= pl.col("start")))
    if lost := frame.height - ordered.height:
        refused[reason] += lost
    return ordered.with_columns(dur=pl.col("end") - pl.col("start"))
