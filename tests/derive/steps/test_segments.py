"""The measures of segments against a slow second implementation.

Definition: docs/how-steps-are-found.md#steps-without-markers.
"""

from __future__ import annotations

import statistics
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from stepscope.derive.sequences import SymbolSequence
from stepscope.derive.steps.periods import (
    measure_boundaries,
    measure_segments,
    propose_periods,
)


def sequence_of(symbols: list[int], weights: list[int]) -> SymbolSequence:
    """Entries back to back, each as long as it weighs, as on a device."""
    ends = np.cumsum(weights)
    starts = ends - weights
    return SymbolSequence(
        what="test",
        symbol=np.array(symbols, np.int32),
        label=np.arange(max(symbols) + 1, dtype=np.int32),
        at_ps=starts.astype(np.int64),
        weight=np.array(weights, np.int64),
        work=np.array(weights, np.int64),
        gap_ps=np.zeros(len(symbols), np.int64),
        end_ps=int(ends[-1]),
        on_device=True,
    )


def jaccard(a: Counter[int], b: Counter[int]) -> float:
    return (a & b).total() / (a | b).total()


def slow(
    symbols: list[int], weights: list[int], first: list[int]
) -> tuple[set[float], float]:
    """Possible coverages (one per most similar segment), and the spread."""
    edges = [*first, len(symbols)]
    segments = list(pairwise(edges))
    bags = [Counter(symbols[a:b]) for a, b in segments]
    totals = [sum(jaccard(bag, other) for other in bags) for bag in bags]
    coverages = set()
    for bag, total in zip(bags, totals, strict=True):
        if total >= max(totals) - 1e-9:
            inside = sum(
                sum(weights[a:b])
                for (a, b), other in zip(segments, bags, strict=True)
                if jaccard(bag, other) >= 0.9
            )
            alone = sum(jaccard(bag, other) >= 0.9 for other in bags) == 1
            coverages.add(0.0 if alone else inside / sum(weights))
    work = [sum(weights[a:b]) for a, b in segments[:-1]]
    return coverages, statistics.pstdev(work) / statistics.mean(work)


@pytest.mark.parametrize("seed", range(40))
def test_coverage_and_spread_equal_a_slow_implementation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cycle = rng.integers(1, 6, rng.integers(2, 12)).tolist()
    symbols = []
    for _ in range(int(rng.integers(3, 15))):
        noisy = [s if rng.random() > 0.02 else int(rng.integers(1, 6)) for s in cycle]
        symbols += [0, *noisy]
    weights = rng.integers(1, 100, len(symbols)).tolist()
    sequence = sequence_of(symbols, weights)
    first = [at for at, symbol in enumerate(symbols) if symbol == 0]
    found = measure_boundaries(sequence, sequence.at_ps[first])
    coverages, spread = slow(symbols, weights, first)
    assert any(found.coverage == pytest.approx(each) for each in coverages)
    assert found.cv == pytest.approx(spread)
    assert found.n == len(first)


def test_a_sample_of_many_segments_measures_what_all_of_them_do() -> None:
    cycle = list(range(50))
    symbols = cycle * 2000
    sequence = sequence_of(symbols, [7] * len(symbols))
    first = np.arange(0, len(symbols), 50)
    start_ps = sequence.at_ps[first]
    exact = measure_segments(sequence, 0, first, start_ps, cells=10**9)
    sampled = measure_segments(sequence, 0, first, start_ps, cells=2000)
    assert (sampled.coverage, sampled.cv) == (exact.coverage, exact.cv) == (1.0, 0.0)


def test_proposals_do_not_depend_on_what_ran_before() -> None:
    rng = np.random.default_rng(5)
    symbols = np.tile(rng.integers(0, 30, 400), 50).tolist()
    weights = rng.integers(1, 9, len(symbols)).tolist()

    def answers() -> list[tuple[int, float, float]]:
        periods = propose_periods(sequence_of(symbols, weights))
        return [(it.n, it.coverage, it.confidence) for it in periods]

    assert answers() == answers()
    assert answers()[0][0] == 50


def test_one_segment_that_holds_nearly_all_is_no_repetition() -> None:
    """A thread of a pool that ran a program thrice, just before all else: three steps.

    The third segment holds ten of twelve entries, and is like neither of the others.
    """
    sequence = sequence_of([1, 2, *[1, 2, 3] * 3, 1], [1] * 12)
    found = measure_boundaries(sequence, sequence.at_ps[:3])
    assert (found.n, found.coverage) == (3, 0.0)
