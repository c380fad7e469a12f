"""Coarse slices: both forms against the walk over rows, and against sums by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    Forms = Callable[[str], dict[str, ModuleType]]

#: Of one lane: (gap before, duration) of each row.
LANE = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=60)
LANES = st.lists(LANE, min_size=1, max_size=3)
LIMIT = 2**62 - 1


class Rows(NamedTuple):
    start: np.ndarray
    dur: np.ndarray
    lane: np.ndarray
    edges: np.ndarray
    #: Row of each position.
    rows: np.ndarray


class Folded(NamedTuple):
    parts: np.ndarray
    filled: np.ndarray
    places: np.ndarray
    times: np.ndarray


def rows_of(lanes: list[list[tuple[int, int]]], origin: int) -> Rows:
    """Rows by start, as a track has them."""
    found = []
    for number, lane in enumerate(lanes):
        time = origin
        for gap, dur in lane:
            found.append((time + gap, dur, number))
            time += gap + dur
    found.sort(key=lambda row: row[0])
    start, dur, lane_of = np.array(found, np.int64).reshape(-1, 3).T.copy()
    count = np.bincount(lane_of, minlength=len(lanes))
    return Rows(
        start,
        dur,
        lane_of.astype(np.int32),
        np.concatenate(([0], np.cumsum(count))),
        np.argsort(lane_of, kind="stable").astype(np.int32),
    )


def folded_rows(kernels: ModuleType, rows: Rows, level: int) -> Folded:
    lanes = len(rows.edges) - 1
    filled = np.full(lanes, -9, np.int64)
    places = np.full((len(rows.start), 2), -9, np.int32)
    times = np.full((len(rows.start), 4), -9, np.int64)
    state = np.full((2, lanes), -9, np.int64)
    found = kernels.fold_rows(
        *(rows.start, rows.dur, rows.lane, rows.edges, rows.edges),
        *(level, state, filled, places, times),
    )
    assert found == filled.sum()
    return Folded(rows.edges, filled, places, times)


def drawn(
    kernels: ModuleType, rows: Rows, folded: Folded, window: tuple[int, int, int]
) -> list[tuple[int, ...]]:
    """The slices of a window, in just the room that the contract of tiles asks for."""
    begin, end, bucket = window
    lanes = len(rows.edges) - 1
    buckets = -(-max(0, end - begin) // bucket)
    room = min(len(rows.start), lanes * (2 * buckets + 1))
    out = np.full((7, room), -9, np.int64)
    count = kernels.fold_slices(
        *(rows.start, rows.dur, rows.rows, rows.edges), *folded, *window, out
    )
    assert count >= 0
    return list(zip(*out[:, :count].tolist(), strict=True))


def walked(
    tiles: ModuleType, rows: Rows, window: tuple[int, int, int]
) -> list[tuple[int, ...]]:
    """The same from the kernel that looks at rows."""
    lanes = len(rows.edges) - 1
    blocks = np.concatenate(([0], np.cumsum(-(-np.diff(rows.edges) // tiles.BLOCK))))
    timing = np.empty((blocks[-1], 3), np.int64)
    longest = np.empty(blocks[-1], np.int32)
    placed = np.empty(len(rows.start), np.int32)
    tiles.fill_lanes(
        *(rows.start, rows.dur, rows.lane, rows.edges, blocks),
        *(np.empty((2, lanes), np.int64), placed, timing, longest),
    )
    assert np.array_equal(placed, rows.rows)
    out = np.empty((7, len(rows.start)), np.int64)
    count = tiles.fold_window(
        *(rows.start, rows.dur, placed, timing, longest, rows.edges, blocks),
        *(*window, out),
    )
    return list(zip(*out[:, :count].tolist(), strict=True))


# A cut bucket with a slice of short spans and one of a wide span.
@example(lanes=[[(0, 0), (0, 2)]], origin=0, level=0, bucket=2, first=0, buckets=1)
@given(
    lanes=LANES,
    origin=st.integers(-600, 100),
    level=st.integers(0, 6),
    bucket=st.integers(1, 9),
    first=st.integers(-12, 12),
    buckets=st.integers(0, 40),
)
def test_a_window_of_whole_buckets_is_drawn_as_from_its_rows(
    kernel_forms: Forms,
    *,
    lanes: list[list[tuple[int, int]]],
    origin: int,
    level: int,
    bucket: int,
    first: int,
    buckets: int,
) -> None:
    rows = rows_of(lanes, origin)
    begin = first << level
    # The last bucket may be cut.
    window = begin, begin + (buckets << level), bucket << level
    tiles = kernel_forms("tiles")
    for form, kernels in kernel_forms("coarse").items():
        folded = folded_rows(kernels, rows, level)
        expected = walked(tiles[form], rows, window)
        assert expected == drawn(kernels, rows, folded, window)


@given(lanes=LANES, origin=st.integers(-600, 100), level=st.integers(0, 6))
def test_slices_hold_every_row_and_all_time_once(
    kernel_forms: Forms,
    lanes: list[list[tuple[int, int]]],
    origin: int,
    level: int,
) -> None:
    rows = rows_of(lanes, origin)
    for kernels in kernel_forms("coarse").values():
        folded = folded_rows(kernels, rows, level)
        for number, lane in enumerate(lanes):
            begin = folded.parts[number]
            part = slice(begin, begin + folded.filled[number])
            assert folded.times[part, 2].sum() == sum(dur for _, dur in lane)
            first = folded.places[part, 0]
            assert (np.diff(first) > 0).all()
            assert lane == [] or first[0] == rows.edges[number]
            buckets = folded.times[part, 0] >> level
            wide = folded.times[part, 3] >= 1 << level
            # Two of one bucket are next to each other only where one is wide.
            same = buckets[1:] == buckets[:-1]
            assert (wide[1:] | wide[:-1])[same].all()


@pytest.fixture(params=["plain", "compiled"])
def kernels(request: pytest.FixtureRequest, kernel_forms: Forms) -> ModuleType:
    forms = kernel_forms("coarse")
    if request.param not in forms:
        pytest.skip("the kernels are not compiled here")
    return forms[request.param]


def test_slices_by_hand(kernels: ModuleType) -> None:
    """Buckets of 8: two short rows, a wide one, and one of the next bucket."""
    rows = rows_of([[(1, 2), (0, 3), (1, 20), (2, 1)]], 0)
    folded = folded_rows(kernels, rows, 3)
    assert folded.filled.tolist() == [3]
    assert folded.places[:3].tolist() == [[0, 1], [2, 2], [3, 3]]
    assert folded.times[:3].tolist() == [
        [1, 6, 5, 3],
        [7, 27, 20, 20],
        [29, 30, 1, 1],
    ]
    assert drawn(kernels, rows, folded, (0, 64, 64)) == [(0, 0, 4, 2, 1, 30, 26)]
    # The wide row runs into the window.
    assert drawn(kernels, rows, folded, (16, 64, 16)) == [
        (0, 2, 1, 2, 7, 27, 20),
        (0, 3, 1, 3, 29, 30, 1),
    ]


def test_rows_of_no_lane_have_no_slice(kernels: ModuleType) -> None:
    rows = rows_of([[(0, 1), (0, 1)]], 0)
    lane = np.array([-1, 0], np.int32)
    one = rows._replace(lane=lane, edges=np.array([0, 1]))
    assert folded_rows(kernels, one, 0).times[0].tolist() == [1, 2, 1, 1]


def test_arrays_that_do_not_belong_together_are_refused(kernels: ModuleType) -> None:
    rows = rows_of([[(0, 1), (3, 1)]], 0)
    folded = folded_rows(kernels, rows, 0)
    arrays = (rows.start, rows.dur, rows.rows, rows.edges, *folded)
    out = np.zeros((7, 9), np.int64)
    wrong = {
        1: rows.dur[:-1],
        3: rows.edges[:-1],
        4: folded.parts + 9,
        5: folded.filled + 9,
        6: folded.places[:-1],
        7: folded.times[:, :3].copy(),
    }
    for place, array in wrong.items():
        broken = [*arrays[:place], array, *arrays[place + 1 :]]
        assert kernels.fold_slices(*broken, 1, 9, 1, out) == kernels.BAD_RANGE
    for window in ((0, 9, 0), (0, 9, 2**62), (-(2**62) - 2, 9, 1)):
        assert kernels.fold_slices(*arrays, *window, out) == kernels.BAD_RANGE
    assert kernels.fold_slices(*arrays, 0, 9, 1, out[1:]) == kernels.BAD_RANGE
    assert kernels.fold_slices(*arrays, 0, 9, 1, out) == 2


def test_a_row_that_is_looked_for_beyond_the_rows_is_refused(
    kernels: ModuleType,
) -> None:
    rows = rows_of([[(0, 50), (3, 1)]], 0)
    folded = folded_rows(kernels, rows, 0)
    arrays = (rows.start, rows.dur, rows.rows[:0], rows.edges, *folded)
    out = np.zeros((7, 9), np.int64)
    assert kernels.fold_slices(*arrays, 1, 99, 1, out) == kernels.BAD_RANGE


@pytest.mark.parametrize("room", range(2))
def test_no_slice_is_written_beyond_the_room(kernels: ModuleType, room: int) -> None:
    rows = rows_of([[(0, 1), (3, 1)]], 0)
    folded = folded_rows(kernels, rows, 0)
    out = np.zeros((7, room), np.int64)
    arrays = (rows.start, rows.dur, rows.rows, rows.edges, *folded)
    assert kernels.fold_slices(*arrays, 0, 9, 1, out) == kernels.NO_ROOM
    little = np.array([0, room])
    answer = kernels.fold_rows(
        *(rows.start, rows.dur, rows.lane, rows.edges, little, 0),
        *(np.zeros((2, 1), np.int64), np.zeros(1, np.int64), *folded[2:]),
    )
    assert answer == kernels.NO_ROOM


def test_what_cannot_be_folded_is_refused(kernels: ModuleType) -> None:
    rows = rows_of([[(0, 1), (3, 1)]], 0)

    def asked(level: int = 0, **changed: np.ndarray) -> int:
        given = {
            **rows._asdict(),
            "parts": rows.edges,
            "filled": np.zeros(1, np.int64),
            "places": np.zeros((2, 2), np.int32),
            "times": np.zeros((2, 4), np.int64),
            "state": np.zeros((2, 1), np.int64),
            **changed,
        }
        names = ("start", "dur", "lane", "edges", "parts")
        more = ("state", "filled", "places", "times")
        answer = kernels.fold_rows(
            *(given[name] for name in names), level, *(given[name] for name in more)
        )
        assert isinstance(answer, int)
        return answer

    assert asked() == 2
    assert {asked(-1), asked(62)} == {kernels.BAD_RANGE}
    wrong: dict[str, np.ndarray] = {
        "dur": rows.dur[:-1],
        "lane": np.ones(2, np.int32),
        "edges": np.array([0, 1]),
        "parts": np.array([0, 3]),
        "filled": np.zeros(2, np.int64),
        "places": np.zeros((2, 1), np.int32),
        "times": np.zeros((1, 4), np.int64),
        "state": np.zeros((1, 1), np.int64),
    }
    for name, array in wrong.items():
        assert asked(**{name: array}) == kernels.BAD_RANGE, name


def test_times_that_no_clock_gives_are_cut_at_the_limit(kernels: ModuleType) -> None:
    start = np.array([-(2**63), 5, 2**63 - 1])
    dur = np.array([-4, 2**63 - 1, 9])
    edges = np.array([0, 3])
    rows = Rows(start, dur, np.zeros(3, np.int32), edges, np.arange(3, dtype=np.int32))
    folded = folded_rows(kernels, rows, 61)
    assert folded.times[:3, :2].tolist() == [
        [-LIMIT, -LIMIT],
        [5, LIMIT],
        [LIMIT, LIMIT],
    ]
