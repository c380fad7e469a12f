"""Texts by number: the file's interned texts by handle, then those stored in place.

A stat's text is either interned by the producer or stored in place, once per event. To
compare and to parse texts in place a table numbers them, for itself: a text has another
number, or none, in another table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.trace.reading.texts import shortened
from stepscope.trace.stats import PLACE_TEXT, REF
from stepscope.xspace.reading.pivot import intern_places

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stepscope.formats.xplane.decoded.columns import Values

#: Texts that mean "unknown". ROCm under JAX names its module `XlaModule:` where it does
#: not know the op. Definition: docs/formats/xplane.md#the-message.
NO_TEXT: Final = frozenset({"", "(null)", "INVALID", "XlaModule:"})


class Texts:
    """Texts and their numbers; grows as further ones are numbered.

    Attributes:
        strings: Number → text.
    """

    def __init__(
        self, data: NDArray[np.uint8], strings: Sequence[str], known: Mapping[str, int]
    ) -> None:
        self.strings = list(strings)
        self._data = data
        self._known = known
        self._own: dict[str, int] = {}

    def find(self, text: str) -> int:
        """Return the number of a text, -1 where it has none."""
        known = self._known.get(text)
        return self._own.get(text, -1) if known is None else known

    def number(self, text: str) -> int:
        """Return the number of a text, which is added where it has none."""
        number = self.find(text)
        if number < 0:
            number = self._own[text] = len(self.strings)
            self.strings.append(text)
        return number

    def numbers(self, values: Values) -> NDArray[np.int32]:
        """Return the number of each value's text; -1 where there is none."""
        numbers = np.full(len(values.kind), -1, dtype=np.int32)
        np.copyto(numbers, values.value, where=values.kind == REF, casting="same_kind")
        placed = np.flatnonzero(values.kind == PLACE_TEXT)
        if len(placed):
            places, lengths = values.value[placed], values.length[placed]
            interned = intern_places(self._data, places, lengths)
            of_id = [
                self.number(self._text(int(places[row]), int(lengths[row])))
                for row in interned.firsts.tolist()
            ]
            numbers[placed] = np.array(of_id, dtype=np.int32)[interned.ids]
        return numbers

    def series(self, name: str, numbers: NDArray[np.int32]) -> pl.Series:
        """Return a series of texts; null where there is none or it means "unknown"."""
        # A place per string, the last one for none: cheaper than sorting the rows.
        number = np.zeros(len(self.strings) + 1, np.int32)
        number[numbers] = 1
        distinct = np.flatnonzero(number)
        number[distinct] = np.arange(len(distinct), dtype=np.int32)
        distinct[distinct == len(self.strings)] = -1
        texts = [
            None if one < 0 or self.strings[one] in NO_TEXT else self.strings[one]
            for one in distinct.tolist()
        ]
        return pl.Series(name, texts, dtype=pl.String).gather(number[numbers])

    def _text(self, place: int, length: int) -> str:
        content = bytes(self._data[place : place + length])
        return shortened(content.decode("utf-8", "replace"))


def distinct_handles(handles: NDArray[np.int32], table_size: int) -> NDArray[np.int64]:
    """Return the handles that occur, ascending; -1 is none."""
    seen = np.zeros(table_size + 1, dtype=np.bool_)
    # -1 marks the entry after the last handle, which is left out.
    seen[handles] = True
    return np.flatnonzero(seen[:-1])
