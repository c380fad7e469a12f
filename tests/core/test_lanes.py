"""Lanes: nothing is lost, nothing covers what it does not contain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

Forms = dict[str, "ModuleType"]
Span = tuple[int, int]


def in_order(spans: list[Span]) -> list[Span]:
    """Start ascending, then duration descending."""
    return sorted(spans, key=lambda span: (span[0], -span[1]))


spans = st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 12)), max_size=25).map(
    in_order
)


def arrays(rows: list[Span]) -> tuple[np.ndarray, np.ndarray]:
    start = np.array([start for start, _ in rows], np.int64)
    return start, start + np.array([dur for _, dur in rows], np.int64)


def fitted(
    form: ModuleType, rows: list[Span], room: int = 64, chosen: Sequence[int] = ()
) -> tuple[int, list[int]]:
    start, end = arrays(rows)
    depth = np.full(len(rows), 99, np.int32)
    answer = form.nest_fitting_rows(
        start,
        end - start,
        np.array(chosen, np.uint8),
        depth,
        np.empty(room, np.int64),
    )
    return answer, depth.tolist()


def spread(form: ModuleType, rows: list[Span]) -> tuple[int, list[int]]:
    start, end = arrays(rows)
    lane = np.full(len(rows), 99, np.int32)
    by_end = np.argsort(end, kind="stable")
    answer = form.spread_lanes(start, end, by_end, lane, np.empty(len(rows), np.int32))
    return answer, lane.tolist()


def running(rows: list[Span], at: int) -> list[int]:
    """Earlier rows that still run when a row begins."""
    begins = rows[at][0]
    return [
        row for row in range(at) if rows[row][0] <= begins < rows[row][0] + rows[row][1]
    ]


@given(rows=spans)
def test_kept_spans_nest_and_a_span_is_apart_only_if_it_must_be(
    kernel_forms: Callable[[str], Forms], rows: list[Span]
) -> None:
    for form in kernel_forms("rows").values():
        answer, depth = fitted(form, rows)
        for at, (start, dur) in enumerate(rows):
            around = [row for row in running(rows, at) if depth[row] != form.APART]
            overlapped = [row for row in around if sum(rows[row]) < start + dur]
            assert (depth[at] == form.APART) == bool(overlapped)
            if depth[at] != form.APART:
                assert depth[at] == len(around)
        assert answer == max((each + 1 for each in depth), default=0)


@given(rows=spans, seed=st.integers(0, 2**25 - 1))
def test_rows_that_are_not_chosen_are_passed_over(
    kernel_forms: Callable[[str], Forms], rows: list[Span], seed: int
) -> None:
    chosen = [seed >> at & 1 for at in range(len(rows))]
    some = [row for row, one in zip(rows, chosen, strict=True) if one]
    for form in kernel_forms("rows").values():
        answer, depth = fitted(form, rows, chosen=chosen)
        kept = [each for each, one in zip(depth, chosen, strict=True) if one]
        assert (answer, kept) == fitted(form, some)
        assert all(
            each == 99 for each, one in zip(depth, chosen, strict=True) if not one
        )


def test_a_duration_below_zero_is_an_instant(
    kernel_forms: Callable[[str], Forms],
) -> None:
    start, dur = np.array([0, 3, 3], np.int64), np.array([5, -4, 1], np.int64)
    for form in kernel_forms("rows").values():
        depth, stack = np.empty(3, np.int32), np.empty(3, np.int64)
        assert (
            form.nest_fitting_rows(start, dur, np.empty(0, np.uint8), depth, stack) == 2
        )
        assert depth.tolist() == [0, 1, 1]


@given(rows=spans)
def test_no_lane_runs_two_spans_and_there_are_as_many_as_run_at_a_time(
    kernel_forms: Callable[[str], Forms], rows: list[Span]
) -> None:
    beside = [len(running(rows, at)) + 1 for at in range(len(rows))]
    for form in kernel_forms("rows").values():
        answer, lane = spread(form, rows)
        for at in range(len(rows)):
            assert lane[at] not in {lane[row] for row in running(rows, at)}
        assert answer == max(beside, default=0)
        # What runs alone is on the first lane.
        assert all(lane[at] == 0 for at, count in enumerate(beside) if count == 1)


def test_a_stack_without_room_is_told(kernel_forms: Callable[[str], Forms]) -> None:
    rows = [(0, 10), (1, 8), (2, 6)]
    for form in kernel_forms("rows").values():
        assert fitted(form, rows, room=2)[0] == form.NO_ROOM
        assert fitted(form, rows, room=3) == (3, [0, 1, 2])


@pytest.mark.parametrize("by_end", [[0, 2], [-1, 0], [0]])
def test_what_names_no_rows_is_refused(
    kernel_forms: Callable[[str], Forms], by_end: list[int]
) -> None:
    start, end = arrays([(0, 1), (5, 1)])
    for form in kernel_forms("rows").values():
        lane, free = np.zeros(2, np.int32), np.empty(2, np.int32)
        order = np.array(by_end, np.int64)
        assert form.spread_lanes(start, end, order, lane, free) == form.BAD_RANGE
        every, stack = np.empty(0, np.uint8), np.empty(4, np.int64)
        assert (
            form.nest_fitting_rows(start, end[:1], every, lane, stack) == form.BAD_RANGE
        )
        assert form.nest_fitting_rows(start, end, every, lane, stack) >= 0
        one = np.ones(1, np.uint8)
        assert form.nest_fitting_rows(start, end, one, lane, stack) == form.BAD_RANGE
