"""Tile kernels: both forms against a painter that looks at every row."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    Forms = Callable[[str], dict[str, ModuleType]]

#: Of one lane: (start, duration), ascending, none before the end of the one before.
Lane = list[tuple[int, int]]
#: lane, first position, rows, longest row, start, end, together
Slice = tuple[int, ...]

LIMIT = 2**62 - 1
BLOCK = 16
INT64 = st.integers(-(2**63), 2**63 - 1)


class Index(NamedTuple):
    start: np.ndarray
    dur: np.ndarray
    rows: np.ndarray
    timing: np.ndarray
    longest: np.ndarray
    edges: np.ndarray
    blocks: np.ndarray


def columns(lanes: list[Lane]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start, duration and lane of all rows, as a track has them: by start."""
    rows = [(*row, number) for number, lane in enumerate(lanes) for row in lane]
    rows.sort(key=lambda row: row[0])
    table = np.array(rows, np.int64).reshape(-1, 3)
    return (
        table[:, 0].copy(),
        table[:, 1].copy(),
        table[:, 2].astype(np.int32),
    )


def indexed(
    kernels: ModuleType,
    start: np.ndarray,
    dur: np.ndarray,
    lane: np.ndarray,
    *,
    lanes: int,
) -> Index | int:
    """The index of the rows, or the refusal to make it."""
    count = np.zeros(lanes, np.int64)
    drawn = kernels.count_lanes(lane, count)
    edges = np.concatenate(([0], np.cumsum(count)))
    blocks = np.concatenate(([0], np.cumsum(-(-count // kernels.BLOCK))))
    rows = np.full(drawn, -9, np.int32)
    timing = np.full((blocks[-1], 3), -9, np.int64)
    longest = np.full(blocks[-1], -9, np.int32)
    state = np.full((2, lanes), -9, np.int64)
    answer = kernels.fill_lanes(
        start, dur, lane, edges, blocks, state, rows, timing, longest
    )
    if answer < 0:
        return int(answer)
    assert answer == drawn
    return Index(start, dur, rows, timing, longest, edges, blocks)


def folded(
    kernels: ModuleType, index: Index, window: tuple[int, int], *, bucket: int
) -> list[Slice]:
    """The slices of all lanes, with just the room that the contract asks for."""
    width = max(0, window[1] - window[0])
    buckets = -(-width // bucket) if bucket else len(index.rows)
    room = min(len(index.rows), (len(index.edges) - 1) * (2 * buckets + 1))
    out = np.full((kernels.COLUMNS, room), -9, np.int64)
    count = kernels.fold_window(*index, *window, bucket, out)
    assert count >= 0
    return list(zip(*out[:, :count].tolist(), strict=True))


def painted(
    lanes: list[Lane], index: Index, window: tuple[int, int], *, bucket: int
) -> list[Slice]:
    """The definition: look at each row of each lane, and at its bucket."""
    rows, edges = index.rows.tolist(), index.edges.tolist()
    found: list[Slice] = []
    for number, lane in enumerate(lanes):

        def written(part: list[int], number: int = number, lane: Lane = lane) -> Slice:
            longest = max(part, key=lambda k: (lane[k][1], -k))
            return (
                number,
                edges[number] + part[0],
                len(part),
                rows[edges[number] + longest],
                lane[part[0]][0],
                max(sum(lane[k]) for k in part),
                sum(lane[k][1] for k in part),
            )

        def group(
            k: int, window: tuple[int, int] = window, lane: Lane = lane
        ) -> tuple[int, int]:
            apart = not bucket or lane[k][0] < window[0] or lane[k][1] >= bucket
            return (k, 1) if apart else ((lane[k][0] - window[0]) // bucket, 0)

        seen = [
            k
            for k, (start, dur) in enumerate(lane)
            if window[0] < window[1]
            and (window[0] <= start < window[1] or start < window[0] < start + dur)
        ]
        found += [written(list(part)) for _, part in groupby(seen, key=group)]
    return found


LANE = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=40).map(
    lambda steps: [
        (sum(gap + dur for gap, dur in steps[:k]) + steps[k][0] - 40, steps[k][1])
        for k in range(len(steps))
    ]
)
LANES = st.lists(LANE, max_size=3)
WINDOW = st.tuples(st.integers(-60, 200), st.integers(-5, 250)).map(
    lambda pair: (pair[0], pair[0] + pair[1])
)


@given(lanes=LANES, window=WINDOW, bucket=st.integers(0, 60))
def test_slices_are_those_of_a_painter_who_looks_at_every_row(
    kernel_forms: Forms, lanes: list[Lane], window: tuple[int, int], bucket: int
) -> None:
    for kernels in kernel_forms("tiles").values():
        index = indexed(kernels, *columns(lanes), lanes=len(lanes))
        assert isinstance(index, Index)
        expected = painted(lanes, index, window, bucket=bucket)
        assert expected == folded(kernels, index, window, bucket=bucket)


@given(
    durs=st.lists(st.integers(0, 5), min_size=20, max_size=200),
    bucket=st.integers(20, 400),
    begin=st.integers(-30, 100),
)
def test_the_longest_of_many_is_found_by_blocks(
    kernel_forms: Forms, durs: list[int], bucket: int, begin: int
) -> None:
    lane = [(5 * place, dur) for place, dur in enumerate(durs)]
    window = (begin, begin + 900)
    for kernels in kernel_forms("tiles").values():
        index = indexed(kernels, *columns([lane]), lanes=1)
        assert isinstance(index, Index)
        blocks = [durs[at : at + BLOCK] for at in range(0, len(durs), BLOCK)]
        longest = [BLOCK * at + each.index(max(each)) for at, each in enumerate(blocks)]
        assert longest == index.longest.tolist()
        assert index.timing.tolist() == [
            [sum(each), max(each), 5 * BLOCK * place]
            for place, each in enumerate(blocks)
        ]
        expected = painted([lane], index, window, bucket=bucket)
        assert expected == folded(kernels, index, window, bucket=bucket)


@given(lanes=LANES, bucket=st.integers(1, 60), per_tile=st.integers(1, 8), at=INT64)
def test_tiles_side_by_side_hold_every_row_and_all_time_once(
    kernel_forms: Forms, lanes: list[Lane], bucket: int, per_tile: int, at: int
) -> None:
    width = bucket * per_tile
    origin = -60 - at % width
    for kernels in kernel_forms("tiles").values():
        index = indexed(kernels, *columns(lanes), lanes=len(lanes))
        assert isinstance(index, Index)
        rows: list[list[int]] = [[] for _ in lanes]
        together = [0] * len(lanes)
        for begin in range(origin, 1200, width):
            for one in folded(kernels, index, (begin, begin + width), bucket=bucket):
                if one[4] < begin:
                    continue  # began in an earlier tile and is counted there
                rows[one[0]] += range(one[1], one[1] + one[2])
                together[one[0]] += one[6]
        edges = index.edges.tolist()
        assert rows == [list(range(edges[k], edges[k + 1])) for k in range(len(lanes))]
        assert together == [sum(dur for _, dur in lane) for lane in lanes]


@given(rows=st.lists(st.tuples(INT64, INT64), max_size=6), bucket=st.integers(0, LIMIT))
def test_times_that_no_clock_gives_are_cut_at_the_limit(
    kernel_forms: Forms, rows: Lane, bucket: int
) -> None:
    def cut(time: int) -> int:
        return max(-LIMIT, min(LIMIT, time))

    rows.sort()
    ends = [cut(start + max(0, dur)) for start, dur in rows]
    lane = [
        (cut(start), end - cut(start))
        for (start, _), end in zip(rows, ends, strict=True)
    ]
    overlap = any(start < end for (start, _), end in zip(lane[1:], ends, strict=False))
    for kernels in kernel_forms("tiles").values():
        index = indexed(kernels, *columns([rows]), lanes=1)
        if overlap:
            assert index == kernels.OVERLAP
            continue
        assert isinstance(index, Index)
        window = (-(2**63), 2**63 - 1)
        slices = folded(kernels, index, window, bucket=bucket)
        counted = [row for row in lane if row[0] < LIMIT]
        assert len(counted) == sum(one[2] for one in slices)
        assert sum(dur for _, dur in counted) == sum(one[6] for one in slices)
        assert all(-LIMIT <= one[4] <= one[5] <= LIMIT for one in slices)


@pytest.fixture(params=["plain", "compiled"])
def kernels(request: pytest.FixtureRequest, kernel_forms: Forms) -> ModuleType:
    forms = kernel_forms("tiles")
    if request.param not in forms:
        pytest.skip("the kernels are not compiled here")
    return forms[request.param]


def example(kernels: ModuleType) -> Index:
    """Two lanes: one long row over three short ones."""
    lanes = [[(0, 100)], [(10, 5), (20, 30), (60, 2)]]
    index = indexed(kernels, *columns(lanes), lanes=2)
    assert isinstance(index, Index)
    return index


def test_a_wide_row_stands_between_what_is_folded_before_and_after_it(
    kernels: ModuleType,
) -> None:
    index = example(kernels)
    assert folded(kernels, index, (0, 100), bucket=25) == [
        (0, 0, 1, 0, 0, 100, 100),
        (1, 1, 1, 1, 10, 15, 5),
        (1, 2, 1, 2, 20, 50, 30),
        (1, 3, 1, 3, 60, 62, 2),
    ]
    assert folded(kernels, index, (0, 100), bucket=200)[1] == (1, 1, 3, 2, 10, 62, 37)


@pytest.mark.parametrize(("dur", "slices"), [(9, 1), (10, 2), (11, 2)])
def test_the_last_row_of_a_bucket_stands_alone_from_a_bucket_on(
    kernels: ModuleType, dur: int, slices: int
) -> None:
    index = indexed(kernels, *columns([[(1, 1), (3, dur)]]), lanes=1)
    assert isinstance(index, Index)
    assert len(folded(kernels, index, (0, 100), bucket=10)) == slices


def test_what_began_before_the_window_is_its_first_slice_and_stays_whole(
    kernels: ModuleType,
) -> None:
    slices = folded(kernels, example(kernels), (30, 40), bucket=10)
    assert slices == [(0, 0, 1, 0, 0, 100, 100), (1, 2, 1, 2, 20, 50, 30)]


def test_a_row_of_no_lane_has_no_place(kernels: ModuleType) -> None:
    start, dur = np.array([0, 1, 2]), np.array([5, 5, 5])
    lane = np.array([0, -1, 1], np.int32)
    index = indexed(kernels, start, dur, lane, lanes=2)
    assert isinstance(index, Index)
    assert index.rows.tolist() == [0, 2]


def test_rows_of_one_lane_that_overlap_are_refused(kernels: ModuleType) -> None:
    start, dur, lane = columns([[(0, 5), (4, 1)]])
    assert indexed(kernels, start, dur, lane, lanes=1) == kernels.OVERLAP


def room_for_one() -> list[np.ndarray]:
    """Of rows, and of what is known and which row is longest of a block."""
    return [np.zeros(1, np.int32), np.zeros((1, 3), np.int64), np.zeros(1, np.int32)]


def test_a_lane_beyond_the_number_of_lanes_is_refused(kernels: ModuleType) -> None:
    start, dur, lane = columns([[], [(0, 5)]])
    assert kernels.count_lanes(lane, np.zeros(1, np.int64)) == kernels.BAD_RANGE
    edges, state = np.array([0, 1]), np.zeros((2, 1), np.int64)
    answer = kernels.fill_lanes(start, dur, lane, edges, edges, state, *room_for_one())
    assert answer == kernels.BAD_RANGE


@pytest.mark.parametrize("edges", [[0, 0], [1, 0], [-1, 1], [0, 9]])
def test_edges_that_do_not_fit_the_rows_are_refused(
    kernels: ModuleType, edges: list[int]
) -> None:
    start, dur, lane = columns([[(0, 5)]])
    one, given, state = np.array([0, 1]), np.array(edges), np.zeros((2, 1), np.int64)
    for limits in ((given, one), (one, given)):
        answer = kernels.fill_lanes(start, dur, lane, *limits, state, *room_for_one())
        assert answer == kernels.BAD_RANGE


@pytest.mark.parametrize("changed", ["dur", "timing", "longest", "edges", "blocks"])
def test_arrays_that_do_not_belong_together_are_refused(
    kernels: ModuleType, changed: str
) -> None:
    index = example(kernels)
    wrong = {
        "dur": index.dur[:-1],
        "timing": index.timing[:, :2].copy(),
        "longest": index.longest[:0],
        "edges": index.edges + 1,
        "blocks": index.blocks[:-1],
    }
    out = np.zeros((kernels.COLUMNS, 9), np.int64)
    broken = index._replace(**{changed: wrong[changed]})
    assert kernels.fold_window(*broken, 0, 100, 10, out) == kernels.BAD_RANGE
    assert kernels.fold_window(*index, 0, 100, -1, out) == kernels.BAD_RANGE
    assert kernels.fold_window(*index, 0, 100, 2**62, out) == kernels.BAD_RANGE
    assert kernels.fold_window(*index, 0, 100, 10, out[1:]) == kernels.BAD_RANGE
    assert kernels.fold_window(*index, 0, 100, 10, out) == 4


@pytest.mark.parametrize("room", range(4))
def test_no_slice_is_written_beyond_the_output(kernels: ModuleType, room: int) -> None:
    index = example(kernels)
    out = np.full((kernels.COLUMNS, room), -9, np.int64)
    assert kernels.fold_window(*index, 0, 100, 25, out) == kernels.NO_ROOM


@pytest.mark.slow(seconds=0.7)
def test_another_thread_runs_meanwhile(
    kernel_forms: Forms, runs_beside: Callable[[Callable[[], object]], bool]
) -> None:
    forms = kernel_forms("tiles")
    if "compiled" not in forms:
        pytest.skip("the kernels are not compiled here")
    kernels = forms["compiled"]
    rows = 4_000_000
    start = np.arange(rows, dtype=np.int64) * 2
    index = indexed(
        kernels, start, np.ones_like(start), np.zeros(rows, np.int32), lanes=1
    )
    assert isinstance(index, Index)
    out = np.empty((kernels.COLUMNS, rows), np.int64)
    assert any(
        runs_beside(lambda: kernels.fold_window(*index, 0, 2 * rows, 1, out))
        for _ in range(20)
    )
