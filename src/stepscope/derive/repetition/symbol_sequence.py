"""`SymbolSequence`: what a track did, in order, as symbols that may repeat."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray


class SymbolSequence(Frozen, frozen=True, dict=True):
    """What happened, in order; one entry per kernel, op or instruction.

    Attributes:
        what: What the sequence consists of, in words.
        symbol: int32 by entry, dense from 0.
        label: int32 by symbol: a number for what the symbol is, comparable between
            sequences of one kind.
        at_ps: int64, ascending: time of the entry on the clock of the boundaries.
        weight: int64: the entry's part of the time that steps must cover.
        work: int64: kernel time on a device, 1 on a host.
        gap_ps: int64: idle time just before the entry.
        end_ps: End of the last entry.
        on_device: Whether the times are those of a device.
        launch: int32 or None: row of launches that caused the entry, -1 for none.
    """

    what: str
    symbol: NDArray[np.int32]
    label: NDArray[np.int32]
    at_ps: NDArray[np.int64]
    weight: NDArray[np.int64]
    work: NDArray[np.int64]
    gap_ps: NDArray[np.int64]
    end_ps: int
    on_device: bool
    launch: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.symbol)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Occurrences per symbol."""
        return np.bincount(self.symbol).astype(np.int64)

    @cached_property
    def weight_before(self) -> NDArray[np.int64]:
        """Weight before each entry, and before the end."""
        return _running(self.weight)

    @cached_property
    def work_before(self) -> NDArray[np.int64]:
        """Work before each entry, and before the end."""
        return _running(self.work)

    @cached_property
    def heaviest(self) -> NDArray[np.int64]:
        """All symbols, those of most weight first."""
        weight = np.bincount(self.symbol, weights=self.weight)
        return np.argsort(-weight, kind="stable")

    @cached_property
    def index(self) -> NDArray[np.int64]:
        """Symbol × (length + 1) + entry, ascending: the entries of each symbol."""
        small = len(self.counts) <= np.iinfo(np.uint16).max
        # Sixteen bits are sorted by counting, many times faster than by comparing.
        symbol = self.symbol.astype(np.uint16) if small else self.symbol
        order = np.argsort(symbol, kind="stable")
        return self.symbol[order].astype(np.int64) * (len(self) + 1) + order

    def occurrences(self, symbols: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return the entries of each of some symbols, ascending."""
        number = np.zeros(len(self.counts), np.uint16)
        number[symbols] = np.arange(1, len(symbols) + 1)
        found = number[self.symbol]
        entry = np.flatnonzero(found)
        order = np.argsort(found[entry], kind="stable")
        return np.split(entry[order], np.cumsum(self.counts[symbols])[:-1])


def _running(values: NDArray[np.int64]) -> NDArray[np.int64]:
    total = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=total[1:])
    return total
