"""Segments of a sequence: how alike, how even, how much of it they cover.

Boundaries cut a sequence into segments. A segment's signature is the multiset of its
symbols; segments are compared by the multiset Jaccard index.

Signatures come from a search in an index by symbol, so that a comparison costs symbols
times segments, not the length of the sequence. Where that product exceeds the given
limit (`cells`), segments are sampled at even distances and the lightest symbols are
united into one. Both choices follow from the data alone, so the answer is repeatable.

Definition: docs/how-steps-are-found.md#steps-that-nobody-announced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.steps.candidates import median_period
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.sequences import SymbolSequence

#: Fewer repetitions are no evidence. This and the next two limits are defined in
#: docs/how-steps-are-found.md#steps-that-nobody-announced.
LEAST_STEPS: Final = 3
#: The highest confidence of anything inferred.
HIGHEST_CONFIDENCE: Final = 0.90
#: A segment at least this similar to the modal one is another run of that step.
ALIKE: Final = 0.9
#: Different signatures among which the modal one is sought.
_MODAL_TRIED: Final = 64


class Period(Frozen, frozen=True):
    """One set of boundaries, measured.

    Attributes:
        symbol: The symbol whose occurrences are the boundaries; -1 where they were
            given.
        first: First entry of each segment; the last segment runs to the end.
        period_ps: Their median distance.
        coverage: Share of the weight that lies in segments like the modal one.
        cv: Standard deviation of the work of the closed segments over its mean.
        gap_ps: Mean idle time just before a boundary.
        last_is_alike: Whether the open segment at the end is like the modal one.
        counted: Whether the work is a number of symbols, not a time.
        repeats: Number of entries in the modal segment.
        signature: Label → occurrences in the modal segment; labels of the symbols
            that weigh most.
    """

    symbol: int
    first: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    period_ps: int
    coverage: float
    cv: float
    gap_ps: float
    last_is_alike: bool
    counted: bool
    repeats: int
    signature: dict[int, int]

    @property
    def n(self) -> int:
        """Number of steps that these boundaries give."""
        return len(self.first)

    @property
    def even_coverage(self) -> float:
        """Coverage, less where segments hold unequal numbers of symbols.

        Half a step may be nearly like the other half, but the numbers of what they hold
        differ by turns.
        """
        uneven = min(self.cv, 1.0) if self.counted else 0.0
        return self.coverage * (1.0 - uneven)

    @property
    def confidence(self) -> float:
        """How sure it is that the segments are steps, from 0 to 1."""
        return min(
            HIGHEST_CONFIDENCE,
            self.coverage * max(0.0, 1.0 - self.cv) * (1.0 - 2.0 ** (1 - self.n)),
        )


def measure_segments(
    sequence: SymbolSequence,
    symbol: int,
    first: NDArray[np.int64],
    start_ps: NDArray[np.int64],
    *,
    cells: int,
) -> Period:
    """Measure the segments that begin at given entries and times.

    Args:
        symbol: The symbol whose occurrences the boundaries are; -1 for none.
        cells: Segments times symbols that may be compared.
    """
    edges = np.append(first, len(sequence))
    symbols = min(len(sequence.counts), max(32, cells // max(len(first), 1)))
    rows = max(LEAST_STEPS, cells // symbols)
    taken = evenly(len(first), rows)
    table = _signatures(sequence, edges, taken, sequence.heaviest[:symbols])
    modal = modal_row(table)
    alike = likeness(table, table[modal]) >= ALIKE
    # A segment that is like no other one is no repetition, however much it holds.
    alike &= alike.sum() > 1
    weight = sequence.weight_before[edges[taken + 1]]
    weight = weight - sequence.weight_before[edges[taken]]
    inside = share_after(sequence, first)
    total = int(weight.sum())
    coverage = inside * int(weight[alike].sum()) / total if total else 0.0
    return Period(
        symbol=symbol,
        first=first,
        start_ps=start_ps,
        period_ps=median_period(start_ps) or 0,
        coverage=coverage,
        cv=spread(sequence, first),
        gap_ps=float(sequence.gap_ps[first[first < len(sequence)]].mean())
        if len(first)
        else 0.0,
        last_is_alike=bool(alike[-1]) if len(alike) else False,
        counted=not sequence.on_device,
        repeats=int(table[modal].sum()) if len(table) else 0,
        signature={
            label: count
            for label, count in zip(
                sequence.label[sequence.heaviest[:symbols]].tolist(),
                table[modal].tolist(),
                strict=False,
            )
            if count
        },
    )


def spread(sequence: SymbolSequence, first: NDArray[np.int64]) -> float:
    """Return the population standard deviation / mean of the closed segments' work."""
    work = np.diff(sequence.work_before[first]).astype(np.float64)
    mean = float(work.mean()) if len(work) else 0.0
    return float(work.std() / mean) if mean > 0 else np.inf


def share_after(sequence: SymbolSequence, first: NDArray[np.int64]) -> float:
    """Return the share of the weight that lies after the first boundary."""
    total = int(sequence.weight_before[-1])
    if not total or not len(first):
        return 0.0
    return 1.0 - int(sequence.weight_before[first[0]]) / total


def evenly(n: int, most: int) -> NDArray[np.int64]:
    """Return at most `most` of n indices at even distances, the last one included."""
    if n <= most:
        return np.arange(n)
    return np.unique(np.linspace(0, n - 1, most).round().astype(np.int64))


def _signatures(
    sequence: SymbolSequence,
    edges: NDArray[np.int64],
    taken: NDArray[np.int64],
    symbols: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Count occurrences per segment and symbol; the last column is all others."""
    # Ascending searches keep to one end of the index; the order is restored below.
    rank = np.argsort(symbols)
    base = symbols[rank][:, None] * (len(sequence) + 1)
    if len(taken) == len(edges) - 1:
        counted = np.diff(np.searchsorted(sequence.index, base + edges), axis=1)
    else:
        low = np.searchsorted(sequence.index, base + edges[taken])
        counted = np.searchsorted(sequence.index, base + edges[taken + 1]) - low
    table = np.empty((len(taken), len(symbols)), np.int64)
    table[:, rank] = counted.T
    entries = edges[taken + 1] - edges[taken]
    others = entries - table.sum(axis=1)
    return np.concatenate([table, others[:, None]], axis=1)


def modal_row(table: NDArray[np.int64]) -> int:
    """Return the row with the highest total similarity to all rows."""
    table = np.ascontiguousarray(table)
    # Numbers without any pattern (splitmix64); numpy.random loads slowly.
    mixed = np.arange(1, table.shape[1] + 1, dtype=np.uint64) * np.uint64(
        0x9E3779B97F4A7C15
    )
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    digest = (table.view(np.uint64) * (mixed ^ (mixed >> np.uint64(31)))).sum(axis=1)
    _, row, count = np.unique(digest, return_index=True, return_counts=True)
    tried = np.lexsort((row, -count))[:_MODAL_TRIED]
    kinds = table[row[tried]]
    total = [float((likeness(kinds, kind) * count[tried]).sum()) for kind in kinds]
    return int(row[tried[int(np.argmax(total))]])


def likeness(table: NDArray[np.int64], row: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the multiset Jaccard index of each row with one row; 0 if both empty."""
    common = np.minimum(table, row).sum(axis=1)
    either = table.sum(axis=1) + row.sum() - common
    index: NDArray[np.float64] = common / np.maximum(either, 1)
    return index
