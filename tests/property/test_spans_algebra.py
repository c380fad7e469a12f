"""`Spans` behaves like the set of whole instants that it stands for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kept_promises import check_spans

from stepscope.derive.intervals.spans import LIMIT_PS, Spans

Pairs = list[tuple[int, int]]

PAIR = st.tuples(st.integers(-30, 30), st.integers(0, 15)).map(
    lambda row: (row[0], row[0] + row[1])
)
PAIRS = st.lists(PAIR, max_size=20)
WINDOW = st.tuples(st.integers(-50, 60), st.integers(-50, 60))


def instants(pairs: Pairs) -> set[int]:
    return {t for start, end in pairs for t in range(start, end)}


def covered(spans: Spans) -> set[int]:
    """The instants of a set whose promise has been checked."""
    check_spans(spans)
    pairs = zip(spans.start_ps.tolist(), spans.end_ps.tolist(), strict=True)
    return instants(list(pairs))


@given(a=PAIRS, b=PAIRS)
def test_operators_are_those_of_sets(a: Pairs, b: Pairs) -> None:
    one, other = Spans.of(a), Spans.of(b)
    assert covered(one) == instants(a)
    assert covered(one | other) == instants(a) | instants(b)
    assert covered(one & other) == instants(a) & instants(b)
    assert covered(one - other) == instants(a) - instants(b)


@given(a=PAIRS, b=PAIRS, c=PAIRS)
def test_equal_sets_are_equal_values(a: Pairs, b: Pairs, c: Pairs) -> None:
    one, two, three = Spans.of(a), Spans.of(b), Spans.of(c)
    assert (one | two) - three == (one - three) | (two - three)
    assert one - (two | three) == (one - two) & (one - three)
    assert one & (two | three) == (one & two) | (one & three)
    assert (one == two) == (instants(a) == instants(b))


@given(a=PAIRS, b=PAIRS)
def test_lengths_are_conserved(a: Pairs, b: Pairs) -> None:
    one, other = Spans.of(a), Spans.of(b)
    assert one.length_ps == len(instants(a))
    assert one.length_ps == (one & other).length_ps + (one - other).length_ps
    assert (one | other).length_ps == (one - other).length_ps + other.length_ps


@given(rows=st.lists(st.tuples(st.integers(-30, 30), st.integers(-3, 15)), max_size=60))
def test_events_in_any_order_cover_their_instants(rows: Pairs) -> None:
    both = np.array(rows, np.int64).reshape(-1, 2)
    spans = Spans.from_events(both[:, 0], both[:, 1])
    assert covered(spans) == instants([(start, start + dur) for start, dur in rows])


@settings(max_examples=50)
@given(tracks=st.lists(st.integers(0, 400), max_size=6), seed=st.integers(0, 2**32 - 1))
def test_tracks_one_after_another_need_no_common_order(
    tracks: list[int], seed: int
) -> None:
    # Long sorted stretches take another way through the code than short ones.
    random = np.random.default_rng(seed)
    stretches = [np.sort(random.integers(0, 3000, count)) for count in tracks]
    starts = np.concatenate([np.empty(0, np.int64), *stretches])
    durs = random.integers(0, 4, len(starts))
    ticks = np.zeros(3005, np.int64)
    np.add.at(ticks, starts, 1)
    np.add.at(ticks, starts + durs, -1)
    expected = set(np.flatnonzero(np.cumsum(ticks)).tolist())
    assert covered(Spans.from_events(starts, durs)) == expected


@given(sets=st.lists(PAIRS, max_size=6))
def test_union_of_many_sets(sets: list[Pairs]) -> None:
    expected = set().union(*(instants(pairs) for pairs in sets))
    assert covered(Spans.union_of(Spans.of(pairs) for pairs in sets)) == expected


@given(pairs=PAIRS, window=WINDOW)
def test_clip_and_gaps_divide_a_window(pairs: Pairs, window: tuple[int, int]) -> None:
    spans, inside = Spans.of(pairs), set(range(*window))
    before = covered(spans)
    assert covered(spans.clip(*window)) == instants(pairs) & inside
    assert covered(spans.gaps(*window)) == inside - instants(pairs)
    assert covered(spans) == before


@given(pairs=PAIRS, windows=st.lists(WINDOW, max_size=10))
def test_measures_count_instants(pairs: Pairs, windows: Pairs) -> None:
    spans, there = Spans.of(pairs), instants(pairs)
    times = [time for window in windows for time in window]
    expected_before = [sum(instant < time for instant in there) for time in times]
    assert spans.covered_before(times).tolist() == expected_before
    starts, ends = [min(w) for w in windows], [max(w) for w in windows]
    expected_within = [len(there & set(range(min(w), max(w)))) for w in windows]
    assert spans.within(starts, ends).tolist() == expected_within


@given(
    lengths=st.lists(st.integers(1, 9), min_size=80, max_size=120),
    times=st.lists(st.integers(-5, 1400), min_size=1, max_size=4),
    origin=st.sampled_from([0, -700, 2**61]),
)
def test_few_times_against_many_intervals_count_instants_too(
    lengths: list[int], times: list[int], origin: int
) -> None:
    """Sums of late times wrap around in 64 bits; what is covered must not."""
    starts = [11 * number for number in range(len(lengths))]
    there = {
        start + offset
        for start, length in zip(starts, lengths, strict=True)
        for offset in range(length)
    }
    spans = Spans.of(
        [
            (origin + start, origin + start + length)
            for start, length in zip(starts, lengths, strict=True)
        ]
    )
    found = spans.covered_before([origin + time for time in times]).tolist()
    assert found == [sum(instant < time for instant in there) for time in times]


@given(pairs=PAIRS, times=st.lists(st.integers(-50, 60), max_size=20))
def test_the_interval_that_holds_a_time_is_found(
    pairs: Pairs, times: list[int]
) -> None:
    spans = Spans.of(pairs)
    intervals = list(zip(spans.start_ps.tolist(), spans.end_ps.tolist(), strict=True))
    expected = [
        next((at for at, (a, b) in enumerate(intervals) if a <= time < b), -1)
        for time in times
    ]
    assert spans.holding(np.array(times, np.int64)).tolist() == expected


@given(pairs=PAIRS)
def test_the_hull_reaches_from_the_first_to_the_last_instant(pairs: Pairs) -> None:
    there = instants(pairs)
    expected = (min(there), max(there) + 1) if there else None
    assert Spans.of(pairs).time_range == expected


def test_a_window_between_two_intervals_touches_neither() -> None:
    spans = Spans.of([(0, 5), (7, 9)])
    assert spans.clip(5, 7) == Spans.empty()
    assert spans.clip(5, 8) == Spans.of([(7, 8)])
    assert spans.clip(4, 7) == Spans.of([(4, 5)])
    assert spans.clip(3, 3) == spans.gaps(6, 6) == Spans.empty()
    assert spans.gaps(5, 7) == Spans.of([(5, 7)])


def test_a_value_is_not_changed_by_what_is_made_from_it() -> None:
    spans = Spans.of([(0, 10), (20, 30)])
    clipped = spans.clip(5, 25)
    assert clipped == Spans.of([(5, 10), (20, 25)])
    assert spans == Spans.of([(0, 10), (20, 30)])


def test_times_beyond_the_limit_are_cut_from_events_and_refused_as_pairs() -> None:
    huge = np.array([2**63 - 1])
    assert Spans.from_events([0], huge) == Spans.of([(0, LIMIT_PS)])
    assert Spans.from_events([-(2**63)], huge) == Spans.of([(-LIMIT_PS, -1)])
    assert len(Spans.from_events(huge, huge)) == 0
    with pytest.raises(ValueError, match="not an interval"):
        Spans.of([(0, LIMIT_PS + 1)])


def test_the_longest_possible_set_has_an_exact_length() -> None:
    everything = Spans.of([(-LIMIT_PS, LIMIT_PS)])
    check_spans(everything)
    assert everything.length_ps == 2 * LIMIT_PS
    assert everything.covered_before([2**63 - 1, 0]).tolist() == [
        2 * LIMIT_PS,
        LIMIT_PS,
    ]


def test_reversed_intervals_and_windows_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[5, 3\)"):
        Spans.of([(5, 3)])
    with pytest.raises(ValueError, match="ends before it starts"):
        Spans.empty().within([5], [3])
    with pytest.raises(ValueError, match="1 starts for 2"):
        Spans.empty().within([5], [7, 8])
    with pytest.raises(ValueError, match="2 starts for 1"):
        Spans.from_events([5, 6], [7])


@pytest.mark.parametrize(
    ("starts", "ends", "problem"),
    [
        ([0, 5], [5, 7], "touch"),
        ([5, 0], [7, 2], "descend"),
        ([0], [0], "empty"),
        ([0], [2, 3], "1 starts"),
        ([0], [LIMIT_PS + 1], "beyond"),
    ],
)
def test_self_check_finds_broken_promises(
    starts: list[int], ends: list[int], problem: str
) -> None:
    broken = Spans(np.array(starts, np.int64), np.array(ends, np.int64))
    with pytest.raises(ValueError, match=problem):
        check_spans(broken)


def test_self_check_finds_foreign_types() -> None:
    floats = np.array([1.0])
    with pytest.raises(ValueError, match="float64"):
        check_spans(Spans(floats, floats + 1))


def test_a_set_is_shown_as_what_makes_it() -> None:
    spans = Spans.of([(0, 1), (4, 9)])
    assert repr(spans) == "Spans.of([(0, 1), (4, 9)])"
    assert repr(Spans.of((n, n + 1) for n in range(0, 12, 2))).endswith("… 6 in all])")
    with pytest.raises(TypeError, match="unhashable"):
        hash(spans)
    assert spans != [(0, 1), (4, 9)]


FEW = st.lists(
    st.tuples(st.integers(-5, 1400), st.integers(0, 60)), min_size=1, max_size=3
).map(lambda rows: [(start, start + dur) for start, dur in rows])


@given(lengths=st.lists(st.integers(1, 9), min_size=80, max_size=120), few=FEW)
def test_few_intervals_against_many_are_sets_too(
    lengths: list[int], few: Pairs
) -> None:
    # Few against many are looked up; others are walked over.
    starts = [11 * number for number in range(len(lengths))]
    pairs = [(s, s + length) for s, length in zip(starts, lengths, strict=True)]
    many, some = Spans.of(pairs), Spans.of(few)
    expected = instants(pairs)
    for one, other in ((many, some), (some, many)):
        assert covered(one & other) == expected & instants(few)
    assert covered(some - many) == instants(few) - expected
    assert covered(many - some) == expected - instants(few)
    ends = [end for _, end in few]
    assert many.within([start for start, _ in few], ends).tolist() == [
        len(expected & set(range(*pair))) for pair in few
    ]


def test_quick_begins_are_one_set() -> None:
    code, begins = np.array([1, 0, 1, 2, 1], np.uint8), np.zeros(256, np.uint8)
    begins[1] = 1
    found = Spans.unite_near_starts(
        np.array([0, 1, 4, 41, 50]),
        np.array([1, 1, 30, 5, 3]),
        code=code,
        begins=begins,
        most_ps=10,
    )
    # From 4 the next begin is far away, and so is the event's own end. What ended at
    # 46 is soon followed by a begin; what is passed over ends nothing.
    assert found == Spans.of([(0, 4), (46, 53)])
