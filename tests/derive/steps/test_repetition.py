"""How sure a repetition is, and where its cycles begin, worked out by hand."""

from __future__ import annotations

import math
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces.literal_tables import kinds_of, tables_of

from stepscope.derive.names.event_kinds import EventFlag, HostClass
from stepscope.derive.sequences import SymbolSequence
from stepscope.derive.steps import inferred
from stepscope.derive.steps.inferred_candidates import (
    Measured,
    begin_of_cycle,
    candidate_objection,
    candidate_steps,
    multiset_similarity,
    ranking_key,
    shorten_name,
    unite_threads,
)
from stepscope.derive.steps.periods import (
    Period,
    best_period,
    even_indices,
    measure_boundaries,
    measure_segments,
    modal_row,
    period_objection,
    propose_periods,
    rows_likeness,
    share_after,
    work_variation,
)


def sequence_of(
    symbols: list[int],
    *,
    weights: list[int] | None = None,
    gaps: list[int] | None = None,
    on_device: bool = True,
) -> SymbolSequence:
    """Entries of their weight, each after its gap."""
    count = len(symbols)
    weight, gap = np.array(weights or [1] * count), np.array(gaps or [0] * count)
    ends = np.cumsum(weight + gap)
    return SymbolSequence(
        what="test",
        symbol=np.array(symbols, np.int32),
        label=np.arange(100, 101 + max(symbols), dtype=np.int32),
        at_ps=ends - weight,
        weight=weight,
        work=weight if on_device else np.ones(count, np.int64),
        gap_ps=gap,
        end_ps=int(ends[-1]),
        on_device=on_device,
    )


def period_of(n: int = 5, **fields: Any) -> Period:
    plain = {
        "symbol": 0,
        "first": np.arange(n),
        "start_ps": 10 * np.arange(n),
        "period_ps": 10,
        "coverage": 1.0,
        "cv": 0.0,
        "gap_ps": 0.0,
        "pause_ps": 0.0,
        "last_is_alike": True,
        "counted": False,
        "repeats": 4,
        "signature": {1: 2},
    }
    return Period(**plain | fields)


# How sure a period is.


@pytest.mark.parametrize(
    ("n", "coverage", "cv", "confidence"),
    [
        (2, 1.0, 0.0, 0.5),
        (3, 0.8, 0.0, 0.6),
        (3, 0.8, 0.25, 0.45),
        (4, 0.8, 0.5, 0.35),
        (30, 1.0, 0.0, 0.9),  # never more
        (5, 1.0, 1.5, 0.0),
    ],
)
def test_confidence_grows_with_coverage_evenness_and_repetitions(
    n: int, coverage: float, cv: float, confidence: float
) -> None:
    found = period_of(n, coverage=coverage, cv=cv)
    assert found.n == n
    assert found.confidence == pytest.approx(confidence)


def test_uneven_numbers_of_symbols_reduce_the_coverage_on_the_host_only() -> None:
    assert period_of(coverage=0.8, cv=0.25).even_coverage == 0.8
    counted = period_of(coverage=0.8, cv=0.25, counted=True)
    assert counted.even_coverage == pytest.approx(0.6)
    assert period_of(cv=7.0, counted=True).even_coverage == 0.0


def test_of_periods_that_cover_as_much_a_short_one_after_a_long_pause_is_best() -> None:
    def period(coverage: float, length: int, gap: float, first: int) -> Period:
        start = np.array([first])
        fields = {"gap_ps": gap, "first": start, "period_ps": length}
        return period_of(coverage=coverage, **fields)

    best = period(0.95, 100, 5.0, 3)
    worse = [
        period(1.0, 106, 50.0, 0),  # longer by more than a twentieth
        period(0.94, 10, 50.0, 0),  # covers too little
        period(0.95, 105, 4.0, 0),  # a shorter pause
        period(0.95, 105, 5.0, 4),  # begins later
    ]
    assert best_period([*worse, best]) is best
    assert best_period([best, *worse]) is best
    longer = period(1.0, 105, 6.0, 9)
    assert best_period([best, longer]) is longer


def test_a_period_needs_repetitions_coverage_and_even_work() -> None:
    cases: list[tuple[dict[str, Any], bool, bool]] = [
        ({"n": 3}, True, True),
        ({"n": 2}, True, False),
        ({"period_ps": 0}, True, False),
        ({"period_ps": 1}, True, True),
        ({"coverage": 0.7}, True, True),
        ({"coverage": 0.69}, True, False),
        ({"cv": 0.249}, True, True),
        ({"cv": 0.25}, True, False),
        ({"cv": 0.299}, False, True),
        ({"cv": 0.3}, False, False),
    ]
    for fields, on_device, fits in cases:
        sequence = sequence_of([0], on_device=on_device)
        assert (period_objection(sequence, period_of(**fields)) == "") is fits


# What is measured.


@given(
    symbols=st.lists(st.integers(0, 3), min_size=4, max_size=14),
    data=st.data(),
    on_device=st.booleans(),
)
def test_measures_of_segments_equal_a_plain_loop(
    symbols: list[int], data: st.DataObject, *, on_device: bool
) -> None:
    count = len(symbols)
    number = st.integers(0, 9)
    weights = data.draw(st.lists(number, min_size=count, max_size=count))
    gaps = data.draw(st.lists(number, min_size=count, max_size=count))
    starts = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=5))
    sequence = sequence_of(symbols, weights=weights, gaps=gaps, on_device=on_device)
    first = sorted(starts)
    edges = [*first, count]
    parts = [range(a, b) for a, b in pairwise(edges)]
    found = measure_segments(
        sequence, 7, np.array(first), sequence.at_ps[first], cells=10_000
    )
    work = [sum(weights[at] if on_device else 1 for at in part) for part in parts[:-1]]
    mean = sum(work) / len(work) if work else 0
    spread = math.sqrt(sum((each - mean) ** 2 for each in work) / max(len(work), 1))
    assert found.cv == (pytest.approx(spread / mean) if mean else math.inf)
    assert work_variation(sequence, np.array(first)) == found.cv
    total = sum(weights)
    after = sum(weights[first[0] :])
    share = after / total if total else 0
    assert share_after(sequence, np.array(first)) == pytest.approx(share)
    bags = [
        [sum(symbols[at] == kind for at in part) for kind in range(4)] for part in parts
    ]

    def likeness(a: list[int], b: list[int]) -> float:
        common = sum(map(min, a, b))
        return common / (sum(a) + sum(b) - common)

    totals = [sum(likeness(each, bag) for each in bags) for bag in bags]
    modal = [
        bag for bag, each in zip(bags, totals, strict=True) if each > max(totals) - 1e-9
    ]
    options = []
    for bag in modal:
        alike = [likeness(each, bag) >= 0.9 for each in bags]
        if sum(alike) < 2:
            alike = [False] * len(alike)
        own = [sum(weights[at] for at in part) for part in parts]
        like = sum(each for each, same in zip(own, alike, strict=True) if same)
        signature = {100 + kind: n for kind, n in enumerate(bag) if n}
        options.append((like / total if total else 0, alike[-1], sum(bag), signature))
    assert any(
        found.coverage == pytest.approx(coverage)
        and (found.last_is_alike, found.repeats, found.signature) == tuple(others)
        for coverage, *others in options
    )
    assert found.gap_ps == pytest.approx(sum(gaps[at] for at in first) / len(first))
    distances = np.diff(sequence.at_ps[first])
    assert found.period_ps == (int(np.median(distances)) if len(distances) else 0)
    assert (found.symbol, found.counted) == (7, not on_device)
    assert found.first.tolist() == first
    assert found.start_ps.tolist() == sequence.at_ps[first].tolist()


def test_of_many_segments_those_at_even_distances_are_measured() -> None:
    """Twelve segments, of which the first, fourth, seventh, ninth and last are read.

    Of these, all but the seventh are `0 1 2`; the others are all different.
    """
    usual, others = [0, 1, 2], [[0, 3], [0, 3, 3], [0, 1, 1], [0, 2], [0, 2, 2, 2]]
    segments = [others[at % 5] for at in range(12)]
    for at in (0, 3, 8, 11):
        segments[at] = usual
    segments[6] = [0, 3, 3, 3]
    symbols = [symbol for segment in segments for symbol in segment]
    weights = [1 + symbol for symbol in symbols]
    lengths = [len(segment) for segment in segments]
    first = np.cumsum([0, *lengths])[:-1]
    sequence = sequence_of(symbols, weights=weights)
    found = measure_segments(sequence, 0, first, sequence.at_ps[first], cells=20)
    # Four segments of 6 beside one of 13.
    assert found.coverage == pytest.approx(24 / 37)
    assert found.last_is_alike
    assert found.signature == {100: 1, 101: 1, 102: 1}
    assert found.repeats == 3
    assert found.n == 12


def test_given_times_cut_before_the_first_entry_that_is_not_earlier() -> None:
    sequence = sequence_of([0, 1] * 4, weights=[5] * 8)  # at 0, 5, … 35
    found = measure_boundaries(sequence, np.array([0, 8, 20, 99]))
    assert found.first.tolist() == [0, 2, 4, 8]
    assert found.start_ps.tolist() == [0, 8, 20, 99]
    assert (found.symbol, found.period_ps) == (-1, 12)


def test_shares_and_spreads_of_nothing() -> None:
    sequence = sequence_of([0, 1], weights=[0, 0])
    none = np.empty(0, np.int64)
    assert share_after(sequence, np.array([0])) == 0.0
    assert share_after(sequence_of([0, 1]), none) == 0.0
    assert share_after(sequence_of([0, 1]), np.array([1])) == 0.5
    assert work_variation(sequence_of([0, 1]), none[:1]) == math.inf


@pytest.mark.parametrize(
    ("n", "limit", "taken"),
    [
        (5, 5, [0, 1, 2, 3, 4]),
        (0, 3, []),
        (5, 3, [0, 2, 4]),
        (11, 3, [0, 5, 10]),
        (9, 2, [0, 8]),
    ],
)
def test_indices_are_taken_at_even_distances(
    n: int, limit: int, taken: list[int]
) -> None:
    assert even_indices(n, limit).tolist() == taken


TABLE = st.lists(
    st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=9
)


@given(TABLE)
def test_the_modal_row_is_the_one_most_like_all_rows(rows: list[list[int]]) -> None:
    table = np.array(rows, np.int64)

    def likeness(a: list[int], b: list[int]) -> float:
        common = sum(map(min, a, b))
        return common / max(sum(a) + sum(b) - common, 1)

    for row in rows:
        expected = [likeness(each, row) for each in rows]
        assert rows_likeness(table, np.array(row)).tolist() == pytest.approx(expected)
    totals = [sum(likeness(each, row) for each in rows) for row in rows]
    assert totals[modal_row(table)] == pytest.approx(max(totals))


# Which periods are proposed.


def proposed(symbols: list[int], **columns: Any) -> list[Period]:
    return propose_periods(sequence_of(symbols, **columns))


def test_cycles_begin_after_their_longest_pause() -> None:
    """Symbol 0 begins the recording, but the pause is before symbol 2."""
    pauses = [0, 1, 9, 1] * 6
    best = proposed([0, 1, 2, 3] * 6, gaps=pauses)[0]
    assert best.first.tolist() == [2, 6, 10, 14, 18, 22]
    assert (best.symbol, best.n, best.gap_ps) == (2, 6, 9.0)
    assert best.period_ps == 4 + 11


def test_equal_pauses_leave_the_begin_where_it_is() -> None:
    best = proposed([0, 1, 2, 3] * 6)[0]
    assert best.first.tolist() == [0, 4, 8, 12, 16, 20]
    assert best.coverage == 1.0


def test_pairs_begin_steps_where_every_symbol_occurs_several_times() -> None:
    """0 0 1 1 0 1: only pairs occur once in each cycle."""
    cycle = [0, 0, 1, 1, 0, 1]
    best = proposed(cycle * 6, weights=[3, 5, 2, 8, 3, 4] * 6)[0]
    assert best.period_ps == 25
    assert best.coverage == pytest.approx(1.0, abs=0.17)
    assert np.diff(best.first).tolist() == [6] * (best.n - 1)


@pytest.mark.parametrize("symbols", [[0, 1], [0, 1, 2, 3, 4, 5], [0, 1, 0, 1]])
def test_without_three_occurrences_nothing_is_proposed(symbols: list[int]) -> None:
    assert proposed(symbols) == []


# Candidates.

FIVE = period_of()


def measured(**fields: Any) -> Measured:
    plain: dict[str, Any] = {
        "source": "launch",
        "what": "a launch",
        "label": 1,
        "sequence": sequence_of([0, 1, 2]),
        "period": FIVE,
        "track": np.array([2, 2, 3, -1, 2], np.int32)[: fields.get("period", FIVE).n],
        "slack_ps": None,
        "on_device": False,
    }
    return Measured(**plain | fields)


def test_a_candidate_is_accepted_without_an_objection_and_if_it_is_sure() -> None:
    cases: list[tuple[dict[str, Any], bool, float]] = [
        ({}, True, 0.9),
        ({"source": "period", "period": period_of(repeats=1)}, False, 0.9),
        ({"source": "period", "period": period_of(repeats=2)}, True, 0.9),
        ({"period": period_of(repeats=1)}, True, 0.9),
        ({"layers": "layers"}, False, 0.59),
        ({"edge": False}, False, 0.59),
        ({"begin_is_clear": False}, True, 0.79),
        ({"edge": False, "begin_is_clear": False}, False, 0.59),
        ({"period": period_of(2)}, False, 0.5),
        ({"period": period_of(3, coverage=0.7)}, False, 0.525),
        ({"period": period_of(3, coverage=0.8)}, True, 0.6),
        ({"period": period_of(3, coverage=0.8), "begin_is_clear": False}, True, 0.6),
    ]
    for fields, accepted, confidence in cases:
        given_candidate = measured(**fields)
        found = candidate_steps(given_candidate, rejected=False).candidate
        assert found.accepted is accepted
        assert (found.why_not == "") is accepted
        assert found.confidence == pytest.approx(confidence)
        assert ranking_key(given_candidate) == (
            candidate_objection(given_candidate) == "",
            given_candidate.confidence,
        )
        # Another candidate was chosen.
        other = candidate_steps(given_candidate, rejected=True).candidate
        assert not other.accepted
        assert other.why_not


@pytest.mark.parametrize("alike", [True, False])
def test_the_rows_of_inferred_steps_say_what_is_known_of_them(*, alike: bool) -> None:
    found = candidate_steps(
        measured(period=period_of(last_is_alike=alike, period_ps=10)), rejected=False
    )
    assert (found.on_device, found.last_end_ps) == (False, 3)
    assert (found.candidate.n, found.candidate.period_ps) == (5, 10)
    assert (found.candidate.coverage, found.candidate.cv) == (1.0, 0.0)
    assert found.candidate.what == "a launch"
    columns = found.rows.to_dict(as_series=False)
    empty = ("marker", "end_ps", "event", "batches", "group", "slack_ps")
    assert columns == {
        "step": [0, 1, 2, 3, 4],
        "name": [f"step {number} (inferred)" for number in range(5)],
        "start_ps": [0, 10, 20, 30, 40],
        "track": [2, 2, 3, None, 2],
        "cut": [False] * 4 + [not alike],
        **{name: [None] * 5 for name in empty},
    }
    slack = candidate_steps(measured(slack_ps=np.arange(5)), rejected=False)
    assert slack.rows["slack_ps"].to_list() == [0, 1, 2, 3, 4]


def test_steps_of_several_threads_are_united_in_time_order() -> None:
    """Coverages 0.8 and 0.5 of weights 3 and 6 are 0.6 together."""
    one = measured(
        period=period_of(3, coverage=0.8, cv=0.1, start_ps=np.array([0, 50, 90])),
        track=np.array([1, 1, 1], np.int32),
        slack_ps=np.array([1, 2, 3]),
    )
    other = measured(
        period=period_of(2, coverage=0.5, cv=0.2, start_ps=np.array([20, 60])),
        sequence=sequence_of([0, 1, 2], weights=[2, 2, 2]),
        track=np.array([4, 4], np.int32),
        slack_ps=np.array([8, 9]),
    )
    found = unite_threads([one, other])
    assert found.period.start_ps.tolist() == [0, 20, 50, 60, 90]
    assert found.period.first.tolist() == [0, 0, 1, 1, 2]
    assert found.period.period_ps == 25  # of 20, 30, 10 and 30
    assert found.period.coverage == pytest.approx(0.6)
    assert found.period.cv == 0.2
    assert found.track.tolist() == [1, 4, 1, 4, 1]
    assert found.slack_ps is not None
    assert found.slack_ps.tolist() == [1, 8, 2, 9, 3]
    unknown = unite_threads([one, measured(slack_ps=None, period=other.period)])
    assert unknown.slack_ps is None
    assert unite_threads([one]) is one


@pytest.mark.parametrize(
    ("a", "b", "similarity"),
    [
        ({}, {}, 0.0),
        ({1: 2}, {1: 2}, 1.0),
        ({1: 2}, {2: 2}, 0.0),
        ({1: 2, 2: 1}, {1: 1, 3: 1}, 0.25),
    ],
)
def test_multisets_are_similar_by_what_they_have_in_common(
    a: dict[int, int], b: dict[int, int], similarity: float
) -> None:
    assert multiset_similarity(a, b) == multiset_similarity(b, a) == similarity


def test_long_names_are_shortened_to_sixty_characters() -> None:
    assert shorten_name("x" * 60) == "x" * 60
    assert shorten_name("x" * 61) == "x" * 59 + "…"


# The begin of a cycle.

A, B, C, FETCH, NOISE = range(5)
CYCLE_KINDS = kinds_of(
    5,
    ops=[A, B, C],
    classes={FETCH: HostClass.INPUT_WAIT},
    flags={NOISE: EventFlag.ALLOCATOR},
)


def begins(
    lines: list[tuple[int, int, int]], starts: list[int]
) -> tuple[list[int], list[int], bool] | None:
    """Starts, the pauses before them, and whether they are clear."""
    every = [(1, *line) for line in lines] + [(0, FETCH, 3, 1), (0, A, 0, 2)]
    tracks, events = tables_of(every, ["other", "main"])
    found = begin_of_cycle(
        tracks, events, CYCLE_KINDS, track=1, start_ps=np.array(starts)
    )
    if found is None:
        return None
    return found.start_ps.tolist(), found.slack_ps.tolist(), found.clear


def cycles(*pieces: tuple[int, int, int], count: int = 5) -> list[tuple[int, int, int]]:
    """Events (kind, start, length) in each cycle of 100."""
    return [
        (kind, 100 * number + start, length)
        for number in range(count)
        for kind, start, length in pieces
    ]


MIDDLE = [40, 140, 240, 340, 440]


def test_a_cycle_begins_after_its_longest_pause() -> None:
    lines = cycles((A, 10, 20), (B, 35, 10), (C, 60, 10))
    # Pauses: 40 before A, 5 before B, 15 before C; the first A has none before it.
    assert begins(lines, MIDDLE) == (
        [10, 110, 210, 310, 410],
        [0, 40, 40, 40, 40],
        True,
    )


@pytest.mark.parametrize(("length", "clear"), [(19, False), (20, True)])
def test_a_second_long_pause_makes_the_begin_unclear(
    length: int, *, clear: bool
) -> None:
    """Before A: 40, but none before the first, 32 in the mean. Before B: 17 or 16."""
    lines = cycles((A, 10, length), (B, 46, 24))
    assert begins(lines, MIDDLE) == (
        [10, 110, 210, 310, 410],
        [0, 40, 40, 40, 40],
        clear,
    )


def test_a_cycle_with_a_fetch_begins_with_it_however_short_the_pause() -> None:
    lines = cycles((A, 10, 20), (B, 35, 10), (FETCH, 46, 3))
    assert begins(lines, MIDDLE) == (
        [46, 146, 246, 346, 446],
        [1] * 5,
        True,
    )


def test_of_two_fetches_the_one_after_the_longer_pause_begins_the_cycle() -> None:
    lines = cycles((FETCH, 10, 5), (FETCH, 30, 5), (A, 40, 20))
    found = begins(lines, [40, 140, 240, 340, 440])
    # From the end of one to the next: 15 and 75.
    assert found is not None
    assert found[0] == [10, 110, 210, 310, 410]


def test_a_fetch_that_some_cycles_lack_begins_none() -> None:
    lines = [
        *cycles((A, 10, 20), (B, 35, 10)),
        *((FETCH, 146, 3), (FETCH, 246, 3)),
    ]
    found = begins(lines, MIDDLE)
    assert found is not None
    assert found[0] == [10, 110, 210, 310, 410]


def test_an_event_around_a_boundary_is_where_its_cycle_begins() -> None:
    """Boundaries within A: what is once in each cycle is counted from A on."""
    lines = cycles((A, 30, 20), (B, 60, 30))
    found = begins(lines, MIDDLE)
    assert found is not None
    assert found[0] == [30, 130, 230, 330, 430]
    # Some are at its start, and some within it: each cycle contains it once.
    assert begins(lines, [30, 140, 230, 340, 430]) == (
        [30, 130, 230, 330, 430],
        [0, 40, 40, 40, 40],
        True,
    )


@pytest.mark.parametrize(
    ("lines", "starts"),
    [
        ([], MIDDLE),
        (cycles((A, 10, 20)), [40, 140]),  # two cycles
        (cycles((A, 10, 20), (A, 50, 20)), MIDDLE),  # twice in each
        (cycles((NOISE, 10, 20)), MIDDLE),
        (cycles((A, 10, 0)), MIDDLE),  # of no length
        ([(A, 0, 400), *cycles((NOISE, 410, 1))], MIDDLE),  # most of the recording
        (cycles((A, 30, 20)), [35, 40, 140]),  # two boundaries in one event
    ],
)
def test_a_thread_without_an_event_once_in_each_cycle_shows_no_begin(
    lines: list[tuple[int, int, int]], starts: list[int]
) -> None:
    assert begins(lines, starts) is None


def test_a_pass_after_the_last_entry_makes_no_equal_passes() -> None:
    """The ops of the sequence may be fewer than the calls that repeat."""
    sequence = sequence_of([0, 1] * 4, weights=[5] * 8)  # at 0, 5, … 35
    evidence: Any = SimpleNamespace(
        equal_passes=lambda: (0, np.array([0, 8, 20, 99])), ops={0: sequence}
    )
    assert inferred._equal_passes(evidence) is None
