"""Whether a sequence of symbols repeats, with which period, and how surely.

Every symbol whose occurrences may be the starts of steps is a candidate. Candidates are
proposed by how often symbols occur. Exact tests, which read the boundaries once, reject
most candidates. Only the remaining candidates are compared.

Boundaries cut a sequence into segments. A segment's signature is the multiset of its
symbols; segments are compared by the multiset Jaccard index. Signatures come from a
search in an index by symbol, so the cost is symbols times segments, not the length of
the sequence. If that product exceeds the limit `cells`, segments are sampled at even
distances and the symbols with the least weight are merged. Sampling and merging depend
on the data only, so results are repeatable.

Definition: docs/how-steps-are-found.md#steps-without-markers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepscope.derive.columns.dense_codes import number_rows
from stepscope.derive.steps.candidates import median_period
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Int64s
    from stepscope.derive.sequences import SymbolSequence

#: Minimum number of repetitions. docs/how-steps-are-found.md#steps-without-markers
#: defines this and the next two thresholds.
MIN_STEPS: Final = 3
#: Maximum confidence of inferred steps.
MAX_CONFIDENCE: Final = 0.90
#: Minimum similarity to the modal segment of a segment that counts as the same step.
MIN_SIMILARITY: Final = 0.9
#: Maximum number of distinct signatures among which the modal signature is sought.
_MAX_SIGNATURES_TRIED: Final = 64


class Period(Frozen, frozen=True):
    """One set of boundaries and its measures.

    Attributes:
        symbol: The symbol whose occurrences are the boundaries; -1 if times were given.
        first: First entry of each segment; the last segment ends with the sequence.
        coverage: Share of the weight that is in segments like the modal one.
        cv: Standard deviation over mean of the work per complete segment.
        gap_ps: Mean idle time just before the first entry of a segment.
        pause_ps: Mean idle time just before a boundary.
        last_is_alike: Whether the incomplete segment at the end is like the modal one.
        counted: Whether work is measured as a number of symbols, not as time.
        repeats: Number of entries in the modal segment.
        signature: Occurrences in the modal segment by label, for the labels of the
            symbols with the most weight.
    """

    symbol: int
    first: Int64s
    start_ps: Int64s
    period_ps: int
    coverage: float
    cv: float
    gap_ps: float
    pause_ps: float
    last_is_alike: bool
    counted: bool
    repeats: int
    signature: dict[int, int]

    @property
    def n(self) -> int:
        """Number of steps that these boundaries define."""
        return len(self.first)

    @property
    def even_coverage(self) -> float:
        """Coverage, reduced if segments have unequal numbers of symbols.

        Halves of a step may be nearly alike, but differ in their numbers of symbols.
        """
        uneven = min(self.cv, 1.0) if self.counted else 0.0
        return self.coverage * (1.0 - uneven)

    @property
    def confidence(self) -> float:
        """Confidence that the segments are steps, from 0 to 1."""
        return min(
            MAX_CONFIDENCE,
            self.coverage * max(0.0, 1.0 - self.cv) * (1.0 - 2.0 ** (1 - self.n)),
        )


#: Thresholds for candidates. docs/how-steps-are-found.md#steps-without-markers defines
#: these and all others down to `_MAX_PERIOD_DIFFERENCE`.
_MIN_COVERAGE: Final = 0.70
_MAX_CV_DEVICE: Final = 0.25
_MAX_CV_HOST: Final = 0.30
#: Candidates with coverages this close to the best are chosen by their periods.
_MAX_COVERAGE_LOSS: Final = 0.05
#: Periods within this share of each other count as equal.
_MAX_PERIOD_DIFFERENCE: Final = 0.05

#: Maximum number of distinct occurrence counts that are tried as number of steps.
_MAX_COUNTS_TRIED: Final = 24
#: Maximum number of symbols that are tried per occurrence count.
_MAX_SYMBOLS_TRIED: Final = 4
#: Maximum segments × symbols to compare: for a proposal, and for the final candidate.
_MAX_CELLS: Final = 40_000
_MAX_FINAL_CELLS: Final = 400_000
#: Maximum entries to read in search of pauses, per cycle and over all cycles.
_MAX_ENTRIES_READ: Final = 1_000_000
#: Boundaries move to a pause that is this many times longer than the one before them.
_MIN_PAUSE_RATIO: Final = 1.5
#: Maximum number of candidates to show if none satisfies the thresholds.
_MAX_CANDIDATES_SHOWN: Final = 3


def best_period(periods: Sequence[Period]) -> Period:
    """Return the best candidate among those to which there is no objection.

    Of the candidates that cover almost as much as the best, take the smallest period.
    If periods are about equal, take that with the longest pause before boundaries.
    """
    covered = max(period.even_coverage for period in periods) - _MAX_COVERAGE_LOSS
    covering = [period for period in periods if period.even_coverage >= covered]
    shortest = min(period.period_ps for period in covering)
    near = [
        period
        for period in covering
        if period.period_ps <= shortest * (1 + _MAX_PERIOD_DIFFERENCE)
    ]
    return max(near, key=lambda period: (period.gap_ps, -int(period.first[0])))


def period_objection(sequence: SymbolSequence, period: Period) -> str:
    """Return why a candidate is not good enough, in words; empty if it is."""
    limit = _MAX_CV_DEVICE if sequence.on_device else _MAX_CV_HOST
    if period.n < MIN_STEPS:
        return f"fewer than {MIN_STEPS} repetitions"
    if period.period_ps <= 0:
        return "all its repetitions are at one point in time"
    if period.coverage < _MIN_COVERAGE:
        return f"covers less than {_MIN_COVERAGE:.0%} of the activity"
    if period.cv >= limit:
        return "the work of its segments is uneven"
    return ""


def propose_periods(sequence: SymbolSequence) -> list[Period]:
    """Measure candidates for the starts of steps: symbols, else adjacent pairs.

    Even if every symbol occurs several times per step, a pair may occur only once.
    """
    if len(sequence) < MIN_STEPS:
        return []
    periods = _measure_symbols(sequence, sequence)
    good = [period for period in periods if not period_objection(sequence, period)]
    if not good:
        # Replace each entry's symbol by the pair of this symbol and the next one.
        following = np.append(sequence.symbol[1:], np.int32(-1))
        pairs = number_rows([sequence.symbol, following])
        label = sequence.label[sequence.symbol[pairs.first]]
        paired = _measure_symbols(
            sequence, msgspec.structs.replace(sequence, symbol=pairs.code, label=label)
        )
        good = [period for period in paired if not period_objection(sequence, period)]
        periods += paired
    if not good:
        periods.sort(key=lambda period: -period.confidence)
        return periods[:_MAX_CANDIDATES_SHOWN]
    best = best_period(good)
    first = _begin_after_pause(sequence, best.first)
    exact = measure_segments(
        sequence,
        int(sequence.symbol[first[0]]),
        first,
        sequence.at_ps[first],
        cells=_MAX_FINAL_CELLS,
    )
    return [exact, *(period for period in periods if period is not best)]


def measure_boundaries(sequence: SymbolSequence, start_ps: Int64s) -> Period:
    """Measure boundaries that are given as ascending times."""
    first = np.searchsorted(sequence.at_ps, start_ps, side="left")
    return measure_segments(sequence, -1, first, start_ps, cells=_MAX_FINAL_CELLS)


def _measure_symbols(sequence: SymbolSequence, symbols: SymbolSequence) -> list[Period]:
    """Measure plausible symbols of `symbols`, with their occurrences as boundaries.

    `symbols` has one entry per entry of `sequence`; segments are compared in
    `sequence`. If no candidate can succeed, a few are measured to show what was tried.
    """
    limit = _MAX_CV_DEVICE if sequence.on_device else _MAX_CV_HOST
    hopeful: list[Int64s] = []
    hopeless: list[Int64s] = []
    proposed = _proposed_symbols(symbols)
    for first in symbols.symbol_entries(proposed) if len(proposed) else ():
        even = work_variation(sequence, first) < limit
        covers = share_after(sequence, first) >= _MIN_COVERAGE
        (hopeful if even and covers else hopeless).append(first)
    return [
        measure_segments(
            sequence,
            int(sequence.symbol[first[0]]),
            first,
            sequence.at_ps[first],
            cells=_MAX_CELLS,
        )
        for first in hopeful or hopeless[:_MAX_CANDIDATES_SHOWN]
    ]


def _begin_after_pause(sequence: SymbolSequence, first: Int64s) -> Int64s:
    """Move the start of each cycle to the end of the longest pause inside the cycle.

    Nearly all cycles must have the same number of entries, so that entries correspond
    by position. The entry after the pause must be the same symbol in nearly all cycles.
    """
    lengths = np.diff(first)
    length = int(np.median(lengths))
    regular = first[:-1][lengths == length]
    if len(regular) < MIN_SIMILARITY * len(lengths) or length > _MAX_ENTRIES_READ:
        return first
    regular = regular[even_indices(len(regular), max(1, _MAX_ENTRIES_READ // length))]
    pause = sequence.gap_ps[regular[:, None] + np.arange(length)].mean(axis=0)
    offset = int(np.argmax(pause))
    symbols = sequence.symbol[regular + offset]
    same = float((symbols == np.bincount(symbols).argmax()).mean())
    if pause[offset] < _MIN_PAUSE_RATIO * pause[0] or same < MIN_SIMILARITY:
        return first
    moved = np.append(first[0] + offset - length, first + offset)
    return moved[(moved >= 0) & (moved < len(sequence))]


def _proposed_symbols(sequence: SymbolSequence) -> Int64s:
    """Return symbols to try: of each plausible count, those after the longest pauses.

    A count of occurrences is plausible if its symbols have much weight or are many: in
    n equal steps most symbols occur n times, or a multiple of n.
    """
    counts = sequence.counts
    if not (counts >= MIN_STEPS).any():
        return np.empty(0, np.int64)
    weight = np.bincount(sequence.symbol, weights=sequence.weight)
    values, group = np.unique(counts, return_inverse=True)
    value_weight = np.bincount(group, weights=weight)
    value_kinds = np.bincount(group).astype(np.float64)
    value_weight[values < MIN_STEPS] = -1
    value_kinds[values < MIN_STEPS] = -1
    half = _MAX_COUNTS_TRIED // 2
    tried = np.union1d(
        np.argsort(-value_weight, kind="stable")[:half],
        np.argsort(-value_kinds, kind="stable")[:half],
    )
    gaps = np.bincount(sequence.symbol, weights=sequence.gap_ps) / np.maximum(counts, 1)
    chosen = []
    for value in tried[values[tried] >= MIN_STEPS]:
        symbols = np.flatnonzero(group == value)
        order = np.argsort(-gaps[symbols], kind="stable")[:_MAX_SYMBOLS_TRIED]
        chosen.append(symbols[order])
    return np.concatenate(chosen)


def measure_segments(
    sequence: SymbolSequence, symbol: int, first: Int64s, at_ps: Int64s, *, cells: int
) -> Period:
    """Measure the segments that begin at the given entries and times.

    Args:
        symbol: The symbol whose occurrences are the boundaries; -1 if there is none.
        cells: Maximum segments × symbols to compare.
    """
    edges = np.append(first, len(sequence))
    symbols = min(len(sequence.counts), max(32, cells // max(len(first), 1)))
    taken = even_indices(len(first), max(MIN_STEPS, cells // symbols))
    table = _segment_signatures(sequence, edges, taken, sequence.heaviest[:symbols])
    modal = modal_row(table)
    alike = rows_likeness(table, table[modal]) >= MIN_SIMILARITY
    # A segment that is unlike every other segment does not count as a repetition.
    alike &= alike.sum() > 1
    weight = sequence.weight_before[edges[taken + 1]]
    weight = weight - sequence.weight_before[edges[taken]]
    inside = share_after(sequence, first)
    total = int(weight.sum())
    begun = first[first < len(sequence)]
    # The first entry may begin later than the segment.
    idle = sequence.gap_ps[begun] - (sequence.at_ps[begun] - at_ps[: len(begun)])
    coverage = inside * int(weight[alike].sum()) / total if total else 0.0
    return Period(
        symbol=symbol,
        first=first,
        start_ps=at_ps,
        period_ps=median_period(at_ps) or 0,
        coverage=coverage,
        cv=work_variation(sequence, first),
        gap_ps=float(sequence.gap_ps[begun].mean()) if len(first) else 0.0,
        pause_ps=float(np.maximum(idle, 0).mean()) if len(first) else 0.0,
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


def work_variation(sequence: SymbolSequence, first: Int64s) -> float:
    """Return (population) standard deviation / mean of the complete segments' work."""
    work = np.diff(sequence.work_before[first]).astype(np.float64)
    mean = float(work.mean()) if len(work) else 0.0
    return float(work.std() / mean) if mean > 0 else np.inf


def share_after(sequence: SymbolSequence, first: Int64s) -> float:
    """Return the share of the total weight that is after the first boundary."""
    total = int(sequence.weight_before[-1])
    if not total or not len(first):
        return 0.0
    return 1.0 - int(sequence.weight_before[first[0]]) / total


def even_indices(n: int, limit: int) -> Int64s:
    """Return at most `limit` of n indices at even distances, including the last one."""
    if n <= limit:
        return np.arange(n)
    return np.unique(np.linspace(0, n - 1, limit).round().astype(np.int64))


def _segment_signatures(
    sequence: SymbolSequence, edges: Int64s, taken: Int64s, symbols: Int64s
) -> Int64s:
    """Count occurrences by segment and symbol; the last column is all other symbols."""
    # Ascending search keys are faster; the order of symbols is restored below.
    rank = np.argsort(symbols)
    base = symbols[rank][:, None] * (len(sequence) + 1)
    if len(taken) == len(edges) - 1:
        counted = np.diff(np.searchsorted(sequence.index, base + edges), axis=1)
    else:
        low = np.searchsorted(sequence.index, base + edges[taken])
        counted = np.searchsorted(sequence.index, base + edges[taken + 1]) - low
    table = np.empty((len(taken), len(symbols)), np.int64)
    table[:, rank] = counted.T
    unlisted = (edges[taken + 1] - edges[taken]) - table.sum(axis=1)
    return np.concatenate([table, unlisted[:, None]], axis=1)


def modal_row(table: Int64s) -> int:
    """Return the index of the row with the highest total similarity to all rows."""
    table = np.ascontiguousarray(table)
    # Pseudo-random numbers by splitmix64, because importing numpy.random is slow.
    mixed = np.arange(1, table.shape[1] + 1, dtype=np.uint64) * np.uint64(
        0x9E3779B97F4A7C15
    )
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    digest = (table.view(np.uint64) * (mixed ^ (mixed >> np.uint64(31)))).sum(axis=1)
    _, row, count = np.unique(digest, return_index=True, return_counts=True)
    tried = np.lexsort((row, -count))[:_MAX_SIGNATURES_TRIED]
    kinds = table[row[tried]]
    total = [float((rows_likeness(kinds, kind) * count[tried]).sum()) for kind in kinds]
    return int(row[tried[int(np.argmax(total))]])


def rows_likeness(table: Int64s, row: Int64s) -> NDArray[np.float64]:
    """Return the multiset Jaccard index of each row with `row`; 0 if both are empty."""
    common = np.minimum(table, row).sum(axis=1)
    either = table.sum(axis=1) + row.sum() - common
    index: NDArray[np.float64] = common / np.maximum(either, 1)
    return index
