"""Values of one stat for many events, and numbers for the texts of stats.

The producer stores a stat's text either once per file, as an interned string, or in
each event. A table gives numbers to texts stored in events, so that it can compare and
parse them. These numbers are valid only within one table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import nullable_series
from stepscope.trace.reading.texts import shorten_text
from stepscope.trace.tables import DOUBLE, INT, PLACE_TEXT, REF, UINT
from stepscope.xspace.reading.columns import intern_texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s
    from stepscope.xspace.reading.columns import Pivot, Stats, TypeStats


#: Number of events whose stats are converted to columns at a time. The values fit in
#: the processor's cache, and wide columns never exist for all events.
BLOCK_ROWS: Final = 1 << 14
#: Texts that mean "unknown". ROCm under JAX writes `XlaModule:` as the module if it
#: does not know the op. Definition: docs/formats/xplane.md#the-message.
NO_TEXT: Final = frozenset({"", "(null)", "INVALID", "XlaModule:"})


class Values(Frozen, frozen=True, eq=True):
    """Values of one stat per requested row; kind 0 means that a row has no value.

    Attributes:
        value: The number's 64 bits, or the handle or the file offset of a text.
        length: Length of the text at the offset, in bytes.
    """

    kind: UInt8s
    value: Int64s
    length: Int32s

    @classmethod
    def of_rows(cls, stats: Stats | TypeStats | Pivot, rows: Int64s | int) -> Values:
        """Return the values in some rows of stats, or in one row of a pivot."""
        return cls(stats.kind[rows], stats.value[rows], stats.length[rows])

    def integer_values(self) -> tuple[Int64s, Bools]:
        """Return the values as integers, and a mask of the rows that have an integer.

        Producers store a stat as a signed, unsigned or floating-point number. An
        unsigned number above 2^63 keeps its 64 bits.
        """
        present = (self.kind == INT) | (self.kind == UINT)
        real = self.kind == DOUBLE
        if not real.any():
            return self.value, present
        reals = self.value.view(np.float64)
        is_integral = real & np.isfinite(reals) & (np.abs(reals) < 2.0**63)
        numbers = self.value.copy()
        numbers[is_integral] = reals[is_integral].astype(np.int64)
        return numbers, present | is_integral

    def real_values(self) -> tuple[NDArray[np.float64], Bools]:
        """Return the values as floats, and a mask of the rows that have a number."""
        numbers = np.zeros(len(self.kind))
        for kind, column in (
            (DOUBLE, self.value.view(np.float64)),
            (INT, self.value),
            (UINT, self.value.view(np.uint64)),
        ):
            rows = self.kind == kind
            numbers[rows] = column[rows]
        present = (self.kind == DOUBLE) | (self.kind == INT) | (self.kind == UINT)
        return numbers, present


def handle_series(name: str, handles: Int32s) -> pl.Series:
    """Return a series of handles; -1 becomes null."""
    return nullable_series(name, handles, handles >= 0)


class Texts:
    """Texts and their numbers; new texts are added when they are numbered."""

    def __init__(
        self, data: UInt8s, strings: Sequence[str], known: Mapping[str, int]
    ) -> None:
        self.strings = list(strings)
        self._data = data
        self._known = known
        self._own: dict[str, int] = {}

    def find(self, text: str) -> int:
        """Return the number of a text, or -1 if it has no number."""
        known = self._known.get(text)
        return self._own.get(text, -1) if known is None else known

    def number(self, text: str) -> int:
        """Return the number of a text; a new text is added."""
        number = self.find(text)
        if number < 0:
            number = self._own[text] = len(self.strings)
            self.strings.append(text)
        return number

    def numbers(self, values: Values) -> Int32s:
        """Return the number of each value's text, or -1 for a value without a text."""
        numbers = np.full(len(values.kind), -1, dtype=np.int32)
        np.copyto(numbers, values.value, where=values.kind == REF, casting="same_kind")
        placed = np.flatnonzero(values.kind == PLACE_TEXT)
        if len(placed):
            offsets, lengths = values.value[placed], values.length[placed]
            interned = intern_texts(self._data, offsets, lengths)
            of_id = []
            for row in interned.firsts.tolist():
                place, length = int(offsets[row]), int(lengths[row])
                text = bytes(self._data[place : place + length])
                of_id.append(self.number(shorten_text(text.decode("utf-8", "replace"))))
            numbers[placed] = np.array(of_id, dtype=np.int32)[interned.ids]
        return numbers

    def series(self, name: str, numbers: Int32s) -> pl.Series:
        """Return a series of texts; null for -1 and for texts that mean "unknown"."""
        # An array with an entry per string and for -1 is faster than sorting rows.
        number = np.zeros(len(self.strings) + 1, np.int32)
        number[numbers] = 1
        distinct = np.flatnonzero(number)
        number[distinct] = np.arange(len(distinct), dtype=np.int32)
        distinct[distinct == len(self.strings)] = -1
        texts = [
            None if ref < 0 or self.strings[ref] in NO_TEXT else self.strings[ref]
            for ref in distinct.tolist()
        ]
        return pl.Series(name, texts, dtype=pl.String).gather(number[numbers])


def distinct_handles(handles: Int32s, table_size: int) -> Int64s:
    """Return the distinct handles, ascending, without -1."""
    is_used = np.zeros(table_size + 1, dtype=np.bool_)
    # -1 marks the last entry, which is left out.
    is_used[handles] = True
    return np.flatnonzero(is_used[:-1])
