"""Whether a sequence of symbols repeats, with which period, and how surely.

Every symbol whose occurrences could be the beginnings of steps is a candidate.
Candidates are proposed by how often symbols occur, thinned out by exact tests that cost
one pass over their boundaries, and only then compared.

Definition: docs/how-steps-are-found.md#steps-that-nobody-announced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepscope.derive.columns.dense_codes import combined
from stepscope.derive.steps.segments import (
    ALIKE,
    LEAST_STEPS,
    Period,
    evenly,
    measure_segments,
    share_after,
    spread,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.derive.sequences import SymbolSequence

#: Limits that a candidate must keep. This one and those up to `_NEAR` are defined in
#: docs/how-steps-are-found.md#steps-that-nobody-announced.
_LEAST_COVERAGE: Final = 0.70
_CV_LIMIT_DEVICE: Final = 0.25
_CV_LIMIT_HOST: Final = 0.30
#: A coverage this far below the best still competes on period.
_COVERAGE_SLACK: Final = 0.05
#: Periods within this share of each other are equal.
_NEAR: Final = 0.05

#: Counts of occurrences that are tried as numbers of steps.
_COUNTS_TRIED: Final = 24
#: Symbols tried per count.
_SYMBOLS_TRIED: Final = 4
#: Segments times symbols compared for a proposal, and for the chosen one.
_CELLS: Final = 40_000
_FINAL_CELLS: Final = 400_000
#: Entries of a cycle, and of all cycles together, that are read to find its pauses.
_LONGEST_CYCLE: Final = 1_000_000
#: A pause this much longer than the one before the boundaries takes their place.
_CLEARLY_LONGER: Final = 1.5
#: Candidates that are shown where none is worth a comparison.
_SHOWN: Final = 3


def preferred(periods: Sequence[Period]) -> Period:
    """Return the candidate that gives the steps, of those that break no limit.

    Of those that cover almost as much as the best, the smallest period; of equal
    periods, the one with the longest pause before its boundaries.
    """
    covered = max(period.even_coverage for period in periods) - _COVERAGE_SLACK
    covering = [period for period in periods if period.even_coverage >= covered]
    shortest = min(period.period_ps for period in covering)
    near = [it for it in covering if it.period_ps <= shortest * (1 + _NEAR)]
    return max(near, key=lambda period: (period.gap_ps, -int(period.first[0])))


def objection(sequence: SymbolSequence, period: Period) -> str:
    """Name the limit that a candidate breaks; empty where it breaks none."""
    limit = _CV_LIMIT_DEVICE if sequence.on_device else _CV_LIMIT_HOST
    if period.n < LEAST_STEPS:
        return f"fewer than {LEAST_STEPS} repetitions"
    if period.period_ps <= 0:
        return "its repetitions lie at one point in time"
    if period.coverage < _LEAST_COVERAGE:
        return f"covers less than {_LEAST_COVERAGE:.0%} of the activity"
    if period.cv >= limit:
        return "the work of its segments is uneven"
    return ""


def propose(sequence: SymbolSequence) -> list[Period]:
    """Measure possible beginnings of steps: symbols, else pairs of neighbours.

    Where every symbol occurs several times per step, a pair of neighbours may still
    occur once.
    """
    if len(sequence) < LEAST_STEPS:
        return []
    found = _candidates(sequence, sequence)
    good = [period for period in found if not objection(sequence, period)]
    if not good:
        # The sequence with each entry's symbol paired with its successor's.
        following = np.append(sequence.symbol[1:], np.int32(-1))
        pairs = combined([sequence.symbol, following])
        label = sequence.label[sequence.symbol[pairs.first]]
        paired = _candidates(
            sequence, msgspec.structs.replace(sequence, symbol=pairs.code, label=label)
        )
        good = [period for period in paired if not objection(sequence, period)]
        found += paired
    if not good:
        found.sort(key=lambda period: -period.confidence)
        return found[:_SHOWN]
    best = preferred(good)
    first = _after_longest_pause(sequence, best.first)
    exact = measure_segments(
        sequence,
        int(sequence.symbol[first[0]]),
        first,
        sequence.at_ps[first],
        cells=_FINAL_CELLS,
    )
    return [exact, *(period for period in found if period is not best)]


def measure(sequence: SymbolSequence, start_ps: NDArray[np.int64]) -> Period:
    """Measure boundaries that were given as ascending times."""
    first = np.searchsorted(sequence.at_ps, start_ps, side="left")
    return measure_segments(sequence, -1, first, start_ps, cells=_FINAL_CELLS)


def _candidates(sequence: SymbolSequence, symbols: SymbolSequence) -> list[Period]:
    """Measure the occurrences of the plausible symbols of a second sequence.

    `symbols` has as many entries as `sequence`, in which the segments are compared.
    Where no candidate can succeed, some are measured nevertheless, so that the user
    sees what was tried.
    """
    limit = _CV_LIMIT_DEVICE if sequence.on_device else _CV_LIMIT_HOST
    hopeful: list[NDArray[np.int64]] = []
    hopeless: list[NDArray[np.int64]] = []
    proposed = _proposals(symbols)
    for first in symbols.occurrences(proposed) if len(proposed) else ():
        even = spread(sequence, first) < limit
        covers = share_after(sequence, first) >= _LEAST_COVERAGE
        (hopeful if even and covers else hopeless).append(first)
    return [
        measure_segments(
            sequence,
            int(sequence.symbol[first[0]]),
            first,
            sequence.at_ps[first],
            cells=_CELLS,
        )
        for first in hopeful or hopeless[:_SHOWN]
    ]


def _after_longest_pause(
    sequence: SymbolSequence, first: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Move the begin of each cycle to the end of the longest pause inside it.

    Nearly all cycles must have equally many entries, so that a place in one is a place
    in the others, and the entry at that place must be one symbol in nearly all.
    """
    lengths = np.diff(first)
    length = int(np.median(lengths))
    regular = first[:-1][lengths == length]
    if len(regular) < ALIKE * len(lengths) or length > _LONGEST_CYCLE:
        return first
    regular = regular[evenly(len(regular), max(1, _LONGEST_CYCLE // length))]
    pause = sequence.gap_ps[regular[:, None] + np.arange(length)].mean(axis=0)
    place = int(np.argmax(pause))
    symbols = sequence.symbol[regular + place]
    same = float((symbols == np.bincount(symbols).argmax()).mean())
    if pause[place] < _CLEARLY_LONGER * pause[0] or same < ALIKE:
        return first
    moved = np.append(first[0] + place - length, first + place)
    return moved[(moved >= 0) & (moved < len(sequence))]


def _proposals(sequence: SymbolSequence) -> NDArray[np.int64]:
    """Symbols to try: for each plausible count, those after the longest pauses.

    A count is plausible if the symbols that occur so often weigh much, or if there
    are many of them: in n equal steps most symbols occur n times or a multiple.
    """
    counts = sequence.counts
    often = counts >= LEAST_STEPS
    if not often.any():
        return np.empty(0, np.int64)
    weight = np.bincount(sequence.symbol, weights=sequence.weight)
    values, which = np.unique(counts, return_inverse=True)
    value_weight = np.bincount(which, weights=weight)
    value_kinds = np.bincount(which).astype(np.float64)
    value_weight[values < LEAST_STEPS] = -1
    value_kinds[values < LEAST_STEPS] = -1
    half = _COUNTS_TRIED // 2
    tried = np.union1d(
        np.argsort(-value_weight, kind="stable")[:half],
        np.argsort(-value_kinds, kind="stable")[:half],
    )
    pause = np.bincount(sequence.symbol, weights=sequence.gap_ps) / np.maximum(
        counts, 1
    )
    chosen = []
    for value in tried[values[tried] >= LEAST_STEPS]:
        symbols = np.flatnonzero(which == value)
        order = np.argsort(-pause[symbols], kind="stable")[:_SYMBOLS_TRIED]
        chosen.append(symbols[order])
    return np.concatenate(chosen)
