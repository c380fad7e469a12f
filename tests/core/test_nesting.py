"""Nesting kernels: both forms against an obviously right reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

Rows = list[tuple[int, int]]

INT64 = st.integers(-(2**63), 2**63 - 1)


def in_order(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: (row[0], -row[1]))


def track(longest: int = 20) -> st.SearchStrategy[Rows]:
    """A track's rows of small whole numbers, so that every instant can be visited."""
    row = st.tuples(st.integers(-20, 20), st.integers(0, longest))
    return st.lists(row, max_size=25).map(in_order)


def columns(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    both = np.array(rows, np.int64).reshape(-1, 2)
    return both[:, 0].copy(), both[:, 1].copy()


def nested(
    kernels: ModuleType, rows: Rows, *, room: int | None = None
) -> tuple[int, list[int], list[int], list[int]]:
    """The kernel's answer, parents, depths and self times of one whole track."""
    starts, durs = columns(rows)
    count = len(rows)
    parent, depth = np.full(count, -9, np.int32), np.full(count, -9, np.int32)
    self_ps = np.full(count, -9, np.int64)
    stack = np.empty((2, count if room is None else room), np.int64)
    answer = kernels.nest_track_rows(
        starts, durs, 0, count, parent, depth, self_ps, stack
    )
    return answer, parent.tolist(), depth.tolist(), self_ps.tolist()


def nested_slowly(rows: Rows) -> tuple[int, list[int], list[int], list[int]]:
    """The definition: the latest earlier row that still runs is the parent, and an
    instant belongs to the latest row that runs.
    """
    ends = [start + dur for start, dur in rows]
    parents: list[int] = []
    depths: list[int] = []
    for row, (start, _) in enumerate(rows):
        open_rows = [k for k in range(row) if rows[k][1] > 0 and ends[k] > start]
        parents.append(max(open_rows, default=-1))
        depths.append(0 if parents[row] < 0 else depths[parents[row]] + 1)
    selves = [0] * len(rows)
    for instant in range(-20, 60):
        running = [k for k, (start, _) in enumerate(rows) if start <= instant < ends[k]]
        if running:
            selves[max(running)] += 1
    overhangs = sum(p >= 0 and ends[k] > ends[p] for k, p in enumerate(parents))
    return overhangs, parents, depths, selves


@given(rows=track())
def test_nesting_follows_its_definition(
    kernel_forms: Callable[[str], dict[str, ModuleType]], rows: Rows
) -> None:
    expected = nested_slowly(rows)
    for kernels in kernel_forms("nesting").values():
        assert expected == nested(kernels, rows)


@given(rows=st.lists(st.tuples(INT64, INT64), max_size=12).map(in_order))
def test_both_forms_agree_on_numbers_that_no_clock_gives(
    kernel_forms: Callable[[str], dict[str, ModuleType]], rows: Rows
) -> None:
    answers = [nested(kernels, rows) for kernels in kernel_forms("nesting").values()]
    assert all(answer == answers[0] for answer in answers)
    assert answers[0][0] >= 0
    assert all(self_ps >= 0 for self_ps in answers[0][3])


@pytest.fixture(params=["compiled", "plain"])
def kernels(
    request: pytest.FixtureRequest, kernel_forms: Callable[[str], dict[str, ModuleType]]
) -> ModuleType:
    forms = kernel_forms("nesting")
    if request.param not in forms:
        pytest.skip("the kernels are not compiled on this machine")
    return forms[request.param]


def test_an_instant_belongs_to_the_event_that_started_last(kernels: ModuleType) -> None:
    #          0    5    10   15   20
    # row 0    |---------|
    # row 1         |--------------|
    # row 2              .    |--|
    rows = [(0, 10), (5, 15), (15, 3)]
    assert nested(kernels, rows) == (1, [-1, 0, 1], [0, 1, 2], [5, 12, 3])


def test_a_child_that_outlives_two_generations_charges_both(
    kernels: ModuleType,
) -> None:
    rows = [(0, 20), (2, 8), (5, 10), (12, 1)]
    #  row 2 takes [5, 10) from row 1 and [10, 15) from row 0
    assert nested(kernels, rows) == (1, [-1, 0, 1, 2], [0, 1, 2, 3], [7, 3, 9, 1])


def test_events_of_no_length_are_children_and_never_parents(
    kernels: ModuleType,
) -> None:
    rows = [(0, 4), (0, 0), (2, 0), (2, 0), (4, 2), (4, 0)]
    expected = (0, [-1, 0, 0, 0, -1, 4], [0, 1, 1, 1, 0, 1], [4, 0, 0, 0, 2, 0])
    assert nested(kernels, rows) == expected


def test_of_equal_events_the_later_row_is_the_child(kernels: ModuleType) -> None:
    rows = [(3, 5), (3, 5), (3, 5)]
    assert nested(kernels, rows) == (0, [-1, 0, 1], [0, 1, 2], [0, 0, 5])


def test_rows_outside_the_range_are_left_alone(kernels: ModuleType) -> None:
    starts, durs = columns([(0, 100), (10, 5), (12, 1), (13, 9)])
    parent, depth = np.full(4, 7, np.int32), np.full(4, 7, np.int32)
    self_ps = np.full(4, 7, np.int64)
    stack = np.empty((2, 2), np.int64)
    assert (
        kernels.nest_track_rows(starts, durs, 1, 3, parent, depth, self_ps, stack) == 0
    )
    assert parent.tolist() == [7, -1, 1, 7]
    assert depth.tolist() == [7, 0, 1, 7]
    assert self_ps.tolist() == [7, 4, 1, 7]


def test_too_small_a_stack_is_told_and_never_truncates(kernels: ModuleType) -> None:
    rows = [(row, 100 - 2 * row) for row in range(40)]
    assert nested(kernels, rows, room=39)[0] == kernels.NO_ROOM
    assert nested(kernels, rows, room=40)[2] == list(range(40))


@pytest.mark.parametrize("rows", [[(5, 1), (4, 1)], [(5, 1), (5, 2)]])
def test_rows_out_of_order_are_told(kernels: ModuleType, rows: Rows) -> None:
    starts, durs = columns([(0, 9), *rows, (90, 1)])
    assert nested(kernels, [(0, 9), *rows])[0] == kernels.OUT_OF_ORDER
    assert kernels.first_unordered(starts, durs, 0, 4) == 2
    assert kernels.first_unordered(starts, durs, 2, 4) == 4
    assert kernels.first_unordered(starts, durs, 3, 3) == 3


def test_equal_starts_are_in_order_while_durations_do_not_grow(
    kernels: ModuleType,
) -> None:
    starts, durs = columns([(5, 9), (5, 9), (5, 2), (5, 0), (6, 9)])
    assert kernels.first_unordered(starts, durs, 0, 5) == 5


def test_a_staircase_of_overhangs_takes_linear_work(
    kernel_forms: Callable[[str], dict[str, ModuleType]],
) -> None:
    # Every event outlives all earlier ones. Work that grew with the number of open
    # events would need minutes for this.
    form = kernel_forms("nesting").get("compiled")
    count = 400_000 if form else 400
    starts = np.arange(count, dtype=np.int64)
    durs = np.full(count, count, np.int64)
    parent, depth = np.empty(count, np.int32), np.empty(count, np.int32)
    self_ps, stack = np.empty(count, np.int64), np.empty((2, 4), np.int64)
    kernels = form or kernel_forms("nesting")["plain"]
    answer = kernels.nest_track_rows(
        starts, durs, 0, count, parent, depth, self_ps, stack
    )
    assert answer == count - 1
    assert np.array_equal(depth, np.arange(count))
    assert self_ps[:-1].tolist() == [1] * (count - 1)
    assert self_ps[-1] == count


Segment = tuple[int, int, int]


def flattened(
    kernels: ModuleType,
    rows: Rows,
    codes: list[int],
    sticky: set[int],
    *,
    room: int | None = None,
    places: int | None = None,
) -> int | list[Segment]:
    """The segments as (start, end, code), or the kernel's refusal."""
    starts, durs = columns(rows)
    count = len(rows)
    marks = np.zeros(256, np.uint8)
    marks[list(sticky)] = 1
    running = np.empty((4, count if room is None else room), np.int64)
    out = np.empty((3, 2 * count if places is None else places), np.int64)
    coded = np.array(codes, np.uint8)
    answer = kernels.flatten_track_rows(
        starts, durs, coded, marks, 0, count, running, out
    )
    return answer if answer < 0 else list(zip(*out[:, :answer].tolist(), strict=True))


def flattened_slowly(rows: Rows, codes: list[int], sticky: set[int]) -> list[Segment]:
    """Instant by instant: the first sticky row that runs, else the last coded one."""
    segments: list[Segment] = []
    for instant in range(-20, 60):
        running = [
            code
            for (start, dur), code in zip(rows, codes, strict=True)
            if code and start <= instant < start + dur
        ]
        if not running:
            continue
        code = next((c for c in running if c in sticky), running[-1])
        if segments and segments[-1][1] == instant and segments[-1][2] == code:
            segments[-1] = (segments[-1][0], instant + 1, code)
        else:
            segments.append((instant, instant + 1, code))
    return segments


@given(data=st.data(), rows=track(), sticky=st.sets(st.sampled_from([2, 4])))
def test_flattening_follows_its_definition(
    kernel_forms: Callable[[str], dict[str, ModuleType]],
    data: st.DataObject,
    rows: Rows,
    sticky: set[int],
) -> None:
    count = len(rows)
    codes = data.draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    expected = flattened_slowly(rows, codes, sticky)
    for kernels in kernel_forms("nesting").values():
        assert expected == flattened(kernels, rows, codes, sticky)


def test_a_transparent_event_shows_what_is_around_it(kernels: ModuleType) -> None:
    rows = [(0, 10), (2, 4), (3, 1), (20, 5)]
    expected = [(0, 3, 1), (3, 4, 2), (4, 10, 1)]
    assert flattened(kernels, rows, [1, 0, 2, 0], set()) == expected


def test_a_sticky_event_keeps_what_is_nested_in_it(kernels: ModuleType) -> None:
    rows = [(0, 20), (5, 10), (6, 8), (7, 2)]
    expected = [(0, 5, 1), (5, 15, 2), (15, 20, 1)]
    assert flattened(kernels, rows, [1, 2, 3, 1], {2, 3}) == expected


def test_touching_segments_of_one_code_are_one(kernels: ModuleType) -> None:
    rows = [(0, 5), (5, 5), (10, 1), (12, 1)]
    assert flattened(kernels, rows, [1, 1, 1, 1], set()) == [(0, 11, 1), (12, 13, 1)]


@pytest.mark.parametrize("sticky", [set(), {1, 2}])
def test_too_little_room_for_flattening_is_told(
    kernels: ModuleType, sticky: set[int]
) -> None:
    rows = [(0, 9), (1, 7), (2, 5)] if not sticky else [(0, 9), (1, 9), (2, 9)]
    codes = [1, 2, 1]
    assert flattened(kernels, rows, codes, sticky, room=2) == kernels.NO_ROOM
    assert flattened(kernels, rows, codes, sticky, places=2) == kernels.NO_ROOM
    assert len(flattened(kernels, rows, codes, sticky, room=3)) >= 3


def test_only_coded_rows_need_to_be_in_order(kernels: ModuleType) -> None:
    rows = [(5, 1), (0, 9), (6, 1)]
    assert flattened(kernels, rows, [0, 1, 2], set()) == [
        (0, 6, 1),
        (6, 7, 2),
        (7, 9, 1),
    ]
    assert flattened(kernels, rows, [1, 1, 2], set()) == kernels.OUT_OF_ORDER


def test_ranges_beyond_the_arrays_are_refused(kernels: ModuleType) -> None:
    three, two = np.zeros(3, np.int64), np.zeros(2, np.int64)
    rows32, stack = np.zeros(3, np.int32), np.empty((2, 3), np.int64)
    short32, flat_stack = np.zeros(2, np.int32), np.empty((3, 3), np.int64)
    bad = kernels.BAD_RANGE
    nest, first = kernels.nest_track_rows, kernels.first_unordered
    assert first(three, three, 0, 4) == first(two, three, 0, 3) == bad
    assert first(three, three, -1, 2) == first(three, three, 2, 1) == bad
    for begin, end in ((-1, 2), (2, 1), (0, 4)):
        assert nest(three, three, begin, end, rows32, rows32, three, stack) == bad
    assert nest(three, two, 0, 3, rows32, rows32, three, stack) == bad
    assert nest(three, three, 0, 3, short32, rows32, three, stack) == bad
    assert nest(three, three, 0, 3, rows32, short32, three, stack) == bad
    assert nest(three, three, 0, 3, rows32, rows32, two, stack) == bad
    assert nest(three, three, 0, 3, rows32, rows32, three, flat_stack) == bad


def test_flattening_beyond_the_arrays_is_refused(kernels: ModuleType) -> None:
    def refused(**changed: Any) -> bool:
        given: dict[str, Any] = {
            "start": np.zeros(3, np.int64),
            "dur": np.ones(3, np.int64),
            "code": np.ones(3, np.uint8),
            "sticky": np.zeros(256, np.uint8),
            "begin": 0,
            "end": 3,
            "running": np.empty((4, 3), np.int64),
            "out": np.empty((3, 6), np.int64),
        }
        return (
            kernels.flatten_track_rows(*(given | changed).values()) == kernels.BAD_RANGE
        )

    assert not refused()
    assert refused(begin=-1)
    assert refused(end=4)
    assert refused(begin=3, end=2)
    assert refused(dur=np.ones(2, np.int64))
    assert refused(code=np.ones(2, np.uint8))
    assert refused(sticky=np.zeros(255, np.uint8))
    assert refused(running=np.empty((3, 3), np.int64))
    assert refused(out=np.empty((2, 6), np.int64))


@pytest.mark.slow(seconds=0.4)
def test_another_thread_runs_during_a_kernel(
    kernel_forms: Callable[[str], dict[str, ModuleType]],
    runs_beside: Callable[[Callable[[], object]], bool],
) -> None:
    kernels = kernel_forms("nesting").get("compiled")
    if kernels is None:
        pytest.skip("the kernels are not compiled on this machine")
    count = 3_000_000
    starts, durs = np.arange(count) * 4, np.full(count, 3)
    codes, sticky = np.ones(count, np.uint8), np.zeros(256, np.uint8)
    parent, depth = np.empty(count, np.int32), np.empty(count, np.int32)
    self_ps, stack = np.empty(count, np.int64), np.empty((2, 9), np.int64)
    running, out = np.empty((4, 9), np.int64), np.empty((3, 2 * count), np.int64)

    def nest() -> None:
        kernels.nest_track_rows(starts, durs, 0, count, parent, depth, self_ps, stack)

    def flatten() -> None:
        kernels.flatten_track_rows(starts, durs, codes, sticky, 0, count, running, out)

    assert not runs_beside(lambda: sum(range(1_000_000)))
    assert any(runs_beside(nest) for _ in range(20))
    assert any(runs_beside(flatten) for _ in range(20))
