"""Values of one stat for many events, and columns that may hold null."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import nullable
from stepscope.trace.stats import DOUBLE, INT, PLACE_TEXT, REF, UINT

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

#: Events whose stats are brought into columns at one time: few enough to stay in the
#: processor's cache, so that wide columns are never held for all events.
BLOCK_ROWS: Final = 1 << 14


class Values(Frozen, frozen=True, eq=True):
    """One stat, by row of what was asked for; kind 0 where a row has none.

    Attributes:
        kind: As in the column `kind` of `stats`.
        value: The number's 64 bits, a handle, or a place in the file.
        length: Length of a place.
    """

    kind: NDArray[np.uint8]
    value: NDArray[np.int64]
    length: NDArray[np.int32]

    @classmethod
    def none(cls, count: int) -> Values:
        """Return the values of rows that have none."""
        kind, value = np.zeros(count, np.uint8), np.zeros(count, np.int64)
        return cls(kind, value, np.zeros(count, np.int32))

    def integers(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Whole numbers and where there is one.

        Writers choose the signed, the unsigned or the real field for a stat;
        a number above 2^63 keeps its 64 bits.
        """
        present = (self.kind == INT) | (self.kind == UINT)
        real = self.kind == DOUBLE
        if not real.any():
            return self.value, present
        reals = self.value.view(np.float64)
        whole = real & np.isfinite(reals) & (np.abs(reals) < 2.0**63)
        numbers = self.value.copy()
        numbers[whole] = reals[whole].astype(np.int64)
        return numbers, present | whole

    def reals(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Real numbers and where there is one."""
        numbers = np.zeros(len(self.kind))
        for kind, given in (
            (DOUBLE, self.value.view(np.float64)),
            (INT, self.value),
            (UINT, self.value.view(np.uint64)),
        ):
            rows = self.kind == kind
            numbers[rows] = given[rows]
        present = (self.kind == DOUBLE) | (self.kind == INT) | (self.kind == UINT)
        return numbers, present

    def has_text(self) -> NDArray[np.bool_]:
        """Return where there is a text, interned or in place."""
        present: NDArray[np.bool_] = (self.kind == REF) | (self.kind == PLACE_TEXT)
        return present


def series_of(name: str, handles: NDArray[np.int32]) -> pl.Series:
    """Return a series of handles; -1 is null."""
    return nullable(name, handles, handles >= 0)
