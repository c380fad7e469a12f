"""Interval kernels: both forms against sets of whole numbers."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    Forms = Callable[[str], dict[str, ModuleType]]

Pairs = list[tuple[int, int]]

LIMIT = 2**62 - 1
INT64 = st.integers(-(2**63), 2**63 - 1)
OPERATIONS = {
    "union_sets": set.union,
    "intersect_sets": set.intersection,
    "subtract_sets": set.difference,
}


def instants(pairs: Pairs) -> set[int]:
    return {t for start, end in pairs for t in range(start, end)}


def intervals(covered: set[int]) -> Pairs:
    """The one form of a set: its runs of neighbours."""
    runs = groupby(enumerate(sorted(covered)), key=lambda pair: pair[1] - pair[0])
    found = [[time for _, time in run] for _, run in runs]
    return [(run[0], run[-1] + 1) for run in found]


def columns(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return both[:, 0].copy(), both[:, 1].copy()


def of_two(kernels: ModuleType, operation: str, a: Pairs, b: Pairs) -> Pairs:
    """A kernel of two sets, with just the room that its contract asks for."""
    out = np.empty((2, len(a) + len(b)), np.int64)
    count = getattr(kernels, operation)(*columns(a), *columns(b), out)
    return list(zip(*out[:, :count].tolist(), strict=True))


def of_events(kernels: ModuleType, rows: Pairs) -> int | Pairs:
    """The union of rows of (start, duration), or the kernel's refusal."""
    starts, durs = columns(rows)
    out = np.empty((2, len(rows)), np.int64)
    count = kernels.union_events(starts, durs, 0, len(rows), out)
    return count if count < 0 else list(zip(*out[:, :count].tolist(), strict=True))


PAIR = st.tuples(st.integers(-30, 30), st.integers(0, 15)).map(
    lambda row: (row[0], row[0] + row[1])
)
LISTS = st.lists(PAIR, max_size=20).map(lambda pairs: sorted(pairs, key=lambda p: p[0]))
SETS = LISTS.map(lambda pairs: intervals(instants(pairs)))


@given(a=SETS, b=SETS, operation=st.sampled_from(sorted(OPERATIONS)))
def test_set_operations_follow_those_of_sets(
    kernel_forms: Forms, a: Pairs, b: Pairs, operation: str
) -> None:
    expected = intervals(OPERATIONS[operation](instants(a), instants(b)))
    for kernels in kernel_forms("spans").values():
        assert expected == of_two(kernels, operation, a, b)


@given(a=LISTS, b=LISTS)
def test_union_takes_lists_whose_intervals_overlap(
    kernel_forms: Forms, a: Pairs, b: Pairs
) -> None:
    expected = intervals(instants(a + b))
    for kernels in kernel_forms("spans").values():
        assert expected == of_two(kernels, "union_sets", a, b)


@given(pairs=LISTS)
def test_union_of_events_follows_that_of_their_instants(
    kernel_forms: Forms, pairs: Pairs
) -> None:
    rows = [(start, end - start) for start, end in pairs]
    expected = intervals(instants(pairs))
    for kernels in kernel_forms("spans").values():
        assert expected == of_events(kernels, rows)


@given(rows=st.lists(st.tuples(INT64, INT64), max_size=8).map(sorted))
def test_events_that_no_clock_gives_are_cut_at_the_limit(
    kernel_forms: Forms, rows: Pairs
) -> None:
    bounds = [
        (max(start, -LIMIT), min(start + dur, LIMIT)) for start, dur in rows if dur > 0
    ]
    kept = sorted(pair for pair in bounds if pair[0] < pair[1])
    expected: list[list[int]] = []
    for start, end in kept:
        if expected and start <= expected[-1][1]:
            expected[-1][1] = max(expected[-1][1], end)
        else:
            expected.append([start, end])
    for kernels in kernel_forms("spans").values():
        assert [tuple(pair) for pair in expected] == of_events(kernels, rows)


@given(pairs=SETS, times=st.lists(st.integers(-40, 60) | INT64, max_size=30))
def test_covered_before_counts_the_instants_before(
    kernel_forms: Forms, pairs: Pairs, times: list[int]
) -> None:
    covered = instants(pairs)
    expected = [sum(instant < time for instant in covered) for time in times]
    starts, ends = columns(pairs)
    before = np.concatenate(([0], np.cumsum(ends - starts)))
    for kernels in kernel_forms("spans").values():
        out = np.full(len(times), -1, np.int64)
        asked = np.array(times, np.int64)
        assert kernels.covered_before(starts, ends, before, asked, out) == len(times)
        assert expected == out.tolist()


@given(pairs=SETS, times=st.lists(st.integers(-40, 60) | INT64, max_size=30))
def test_covered_until_counts_the_instants_before_ascending_times(
    kernel_forms: Forms, pairs: Pairs, times: list[int]
) -> None:
    covered = instants(pairs)
    times.sort()
    expected = [sum(instant < time for instant in covered) for time in times]
    for kernels in kernel_forms("spans").values():
        out = np.full(len(times), -1, np.int64)
        asked = np.array(times, np.int64)
        assert kernels.covered_until(*columns(pairs), asked, out) == len(times)
        assert expected == out.tolist()


@given(data=st.data(), operation=st.sampled_from(sorted(OPERATIONS)))
def test_no_disorder_makes_a_kernel_write_beyond_its_room(
    kernel_forms: Forms, data: st.DataObject, operation: str
) -> None:
    sizes = st.integers(0, 6)
    n, m = data.draw(sizes), data.draw(sizes)
    time = st.integers(-5, 5)
    arrays = [
        np.array(data.draw(st.lists(time, min_size=size, max_size=size)), np.int64)
        for size in (n, n, m, m)
    ]
    for kernels in kernel_forms("spans").values():
        around = np.full(4 * (n + m) + 40, 77, np.int64)
        out = around[20 : 20 + 2 * (n + m)].reshape(2, n + m)
        count = getattr(kernels, operation)(*arrays, out)
        assert 0 <= count <= n + m
        assert (around[:20] == 77).all()
        assert (around[20 + 2 * (n + m) :] == 77).all()


@given(
    garbage=st.lists(st.tuples(INT64, INT64, INT64), max_size=6),
    times=st.lists(INT64, max_size=6),
)
def test_measuring_garbage_ends(
    kernel_forms: Forms, garbage: list[tuple[int, int, int]], times: list[int]
) -> None:
    # Only the compiled form wraps; that it stays within its arrays is what matters.
    kernels = kernel_forms("spans").get("compiled")
    if kernels is None:
        pytest.skip("the kernels are not compiled on this machine")
    starts, ends, before = np.array(garbage, np.int64).reshape(-1, 3).T.copy()
    out = np.empty(len(times), np.int64)
    asked = np.array(times, np.int64)
    assert kernels.covered_before(starts, ends, before, asked, out) == len(times)


@pytest.fixture(params=["compiled", "plain"])
def kernels(request: pytest.FixtureRequest, kernel_forms: Forms) -> ModuleType:
    forms = kernel_forms("spans")
    if request.param not in forms:
        pytest.skip("the kernels are not compiled on this machine")
    return forms[request.param]


def test_a_union_begins_with_the_first_start_and_not_at_zero(
    kernels: ModuleType,
) -> None:
    assert of_events(kernels, [(-9, 2), (-5, 3), (4, 1)]) == [
        (-9, -7),
        (-5, -2),
        (4, 5),
    ]
    assert of_two(kernels, "union_sets", [(-9, -7)], [(-5, -2)]) == [(-9, -7), (-5, -2)]


def test_the_first_row_of_a_range_counts(kernels: ModuleType) -> None:
    starts, durs = columns([(0, 9), (3, 1), (7, 2), (8, 9)])
    out = np.zeros((2, 2), np.int64)
    assert kernels.union_events(starts, durs, 1, 3, out) == 2
    assert out.tolist() == [[3, 7], [4, 9]]


def test_touching_intervals_become_one(kernels: ModuleType) -> None:
    assert of_events(kernels, [(0, 5), (5, 5), (11, 1)]) == [(0, 10), (11, 12)]
    assert of_two(kernels, "union_sets", [(0, 5)], [(5, 9)]) == [(0, 9)]


def test_a_hole_may_reach_over_several_intervals(kernels: ModuleType) -> None:
    several = [(0, 4), (6, 8), (9, 12), (20, 30)]
    assert of_two(kernels, "subtract_sets", several, [(2, 10), (22, 23)]) == [
        (0, 2),
        (10, 12),
        (20, 22),
        (23, 30),
    ]


def test_starts_that_descend_are_told(kernels: ModuleType) -> None:
    assert of_events(kernels, [(5, 1), (4, 1)]) == kernels.OUT_OF_ORDER
    assert of_events(kernels, [(5, 1), (4, 0)]) == kernels.OUT_OF_ORDER


def test_arrays_that_break_the_contract_are_refused(kernels: ModuleType) -> None:
    three, two = np.arange(3) * 9, np.arange(2) * 9
    room, flat = np.empty((2, 6), np.int64), np.empty((3, 6), np.int64)
    bad, small = kernels.BAD_RANGE, kernels.NO_ROOM
    for begin, end in ((-1, 2), (2, 1), (0, 4)):
        assert kernels.union_events(three, three, begin, end, room) == bad
    assert kernels.union_events(three, two, 0, 3, room) == bad
    assert kernels.union_events(three, three, 0, 3, flat) == bad
    assert kernels.union_events(three, three, 0, 3, room[:, :2].copy()) == small
    for name in OPERATIONS:
        kernel = getattr(kernels, name)
        assert kernel(three, two, two, two, room) == bad
        assert kernel(three, three, two, three, room) == bad
        assert kernel(three, three, two, two, flat) == bad
        assert kernel(three, three, two, two, room[:, :4].copy()) == small
    before = kernels.covered_before
    assert before(three, two, three, three, three.copy()) == bad
    assert before(three, three, two, three, three.copy()) == bad
    assert before(three, three, three, three, two.copy()) == small


@pytest.mark.slow(seconds=0.4)
def test_another_thread_runs_during_a_kernel(
    kernel_forms: Forms, runs_beside: Callable[[Callable[[], object]], bool]
) -> None:
    kernels = kernel_forms("spans").get("compiled")
    if kernels is None:
        pytest.skip("the kernels are not compiled on this machine")
    count = 3_000_000
    starts = np.arange(count) * 4
    ends, durs = starts + 2, np.full(count, 2)
    out, covered = np.empty((2, 2 * count), np.int64), np.empty(count, np.int64)
    works: list[Callable[[], object]] = [
        lambda: kernels.union_events(starts, durs, 0, count, out),
        lambda: kernels.union_sets(starts, ends, starts, ends, out),
        lambda: kernels.intersect_sets(starts, ends, starts, ends, out),
        lambda: kernels.subtract_sets(starts, ends, starts + 1, ends + 1, out),
        lambda: kernels.covered_before(starts, ends, starts, ends, covered),
        lambda: kernels.covered_until(starts, ends, starts, covered),
    ]
    assert not runs_beside(lambda: sum(range(1_000_000)))
    for work in works:
        assert any(runs_beside(work) for _ in range(20))


def test_ascending_times_that_break_the_contract_are_refused(
    kernels: ModuleType,
) -> None:
    three, two = np.arange(3) * 9, np.arange(2) * 9
    bad, small, disorder = kernels.BAD_RANGE, kernels.NO_ROOM, kernels.OUT_OF_ORDER
    descending = three[::-1].copy()
    until = kernels.covered_until
    assert until(three, two, three, three.copy()) == bad
    assert until(three, three, three, two.copy()) == small
    assert until(three, three, descending, three.copy()) == disorder


@given(
    rows=st.lists(st.tuples(INT64, INT64) | st.tuples(*[st.integers(0, 9)] * 2)),
    shift=st.integers(-LIMIT, LIMIT) | st.integers(-9, 9),
)
def test_a_survey_counts_odd_times_and_disorder_and_finds_the_last_end(
    kernel_forms: Forms, rows: Pairs, shift: int
) -> None:
    usual = [
        (start, dur)
        for start, dur in rows
        if abs(start) <= LIMIT and abs(start + shift) <= LIMIT and 0 <= dur <= LIMIT
    ]
    disorder = sum(
        start < before or (start == before and dur > lasted)
        for (before, lasted), (start, dur) in pairwise(usual)
    )
    starts, durs = columns([(0, 0), *rows, (0, 0)])
    end = len(rows) + 1
    for form in kernel_forms("spans").values():
        found = np.zeros(3, np.int64)
        assert form.survey_track(starts, durs, 1, end, shift, LIMIT, found) == len(rows)
        assert found[:2].tolist() == [len(rows) - len(usual), disorder]
        if usual:
            assert int(found[2]) == max(start + dur for start, dur in usual) + shift


def test_a_survey_refuses_rows_that_are_not_there(kernel_forms: Forms) -> None:
    starts, durs = columns([(0, 1), (1, 1)])
    found = np.zeros(3, np.int64)
    for form in kernel_forms("spans").values():
        for begin, end in ((-1, 1), (0, 3), (2, 1)):
            answer = form.survey_track(starts, durs, begin, end, 0, LIMIT, found)
            assert answer == form.BAD_RANGE
        assert (
            form.survey_track(starts, durs[:1], 0, 2, 0, LIMIT, found) == form.BAD_RANGE
        )
        assert form.survey_track(starts, durs, 0, 2, LIMIT + 1, LIMIT, found) < 0
        assert (
            form.survey_track(starts, durs, 0, 2, 0, LIMIT, found[:2]) == form.BAD_RANGE
        )
