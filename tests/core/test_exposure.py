"""Time alone: both forms against looking at every instant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

Forms = dict[str, "ModuleType"]
Rows = list[tuple[int, int, int]]
KEYS = 3
#: (start, duration, key) of small whole numbers, so that every instant can be visited.
ROWS = st.lists(
    st.tuples(st.integers(-10, 20), st.integers(0, 12), st.integers(0, KEYS - 1)),
    max_size=14,
).map(sorted)


def columns(rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (
        np.array([start for start, _, _ in rows], np.int64),
        np.array([dur for _, dur, _ in rows], np.int64),
        np.array([key for _, _, key in rows], np.int32),
    )


def swept(
    form: ModuleType, rows: Rows, *, room: int | None = None
) -> tuple[int, list[int], list[int]]:
    alone, by_key = np.zeros(len(rows), np.int64), np.zeros(KEYS, np.int64)
    answer = form.sweep_intervals(
        *columns(rows),
        np.empty((2, len(rows) if room is None else room), np.int64),
        np.zeros(KEYS, np.int64),
        alone,
        by_key,
    )
    return answer, alone.tolist(), by_key.tolist()


def swept_slowly(rows: Rows) -> tuple[int, list[int], list[int]]:
    alone, by_key, busy = [0] * len(rows), [0] * KEYS, 0
    for instant in range(-10, 40):
        running = [
            row
            for row, (start, dur, _) in enumerate(rows)
            if start <= instant < start + dur
        ]
        busy += bool(running)
        if len(running) == 1:
            alone[running[0]] += 1
        if len({rows[row][2] for row in running}) == 1:
            by_key[rows[running[0]][2]] += 1
    return busy, alone, by_key


@given(rows=ROWS)
def test_every_instant_goes_to_who_has_it_alone(
    kernel_forms: Callable[[str], Forms], rows: Rows
) -> None:
    for form in kernel_forms("sweeps").values():
        assert swept_slowly(rows) == swept(form, rows)


def test_a_full_heap_asks_for_more_room(kernel_forms: Callable[[str], Forms]) -> None:
    for form in kernel_forms("sweeps").values():
        rows = [(0, 10, 0), (1, 10, 1), (2, 10, 0)]
        assert swept(form, rows, room=2)[0] == form.NO_ROOM
        assert swept(form, rows, room=3)[0] == 12


def test_disorder_and_strange_keys_are_refused(
    kernel_forms: Callable[[str], Forms],
) -> None:
    for form in kernel_forms("sweeps").values():
        assert swept(form, [(5, 1, 0), (4, 1, 0)])[0] == form.OUT_OF_ORDER
        assert swept(form, [(5, 1, KEYS)])[0] == form.BAD_RANGE
        assert swept(form, [(5, 1, -1)])[0] == form.BAD_RANGE


@given(rows=ROWS)
def test_busy_before_is_the_latest_end_of_what_started_earlier(
    kernel_forms: Callable[[str], Forms], rows: Rows
) -> None:
    never = -(2**63)
    expected = [
        max(
            (s + d for s, d, _ in rows if s < start and d > 0),
            default=never,
        )
        for start, _, _ in rows
    ]
    for form in kernel_forms("sweeps").values():
        starts, durs, _ = columns(rows)
        out = np.zeros(len(rows), np.int64)
        assert form.busy_before(starts, durs, out) == len(rows)
        assert expected == out.tolist()


def test_busy_before_refuses_disorder(kernel_forms: Callable[[str], Forms]) -> None:
    for form in kernel_forms("sweeps").values():
        starts, durs = np.array([1, 0], np.int64), np.ones(2, np.int64)
        out = np.zeros(2, np.int64)
        assert form.busy_before(starts, durs, out) == form.OUT_OF_ORDER
        assert form.busy_before(starts, durs, out[:1]) == form.BAD_RANGE
