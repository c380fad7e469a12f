"""Kernels over the rows of a track: both forms against sets of whole numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.test_spans import INT64, LIMIT, SETS, columns, instants, intervals

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from tests.core.test_spans import Pairs

    Forms = Callable[[str], dict[str, ModuleType]]

#: Rows of a track: (start, duration, code); codes 1 and 2 are wanted.
ROWS = st.lists(
    st.tuples(st.integers(-20, 40), st.integers(0, 9), st.integers(0, 3)), max_size=20
).map(lambda rows: sorted(rows, key=lambda row: row[0]))
WANTED = np.zeros(256, np.uint8)
WANTED[[1, 2]] = 1


def row_columns(rows: list[tuple[int, int, int]]) -> list[np.ndarray]:
    starts, durs, codes = np.array(rows, np.int64).reshape(-1, 3).T.copy()
    return [starts, durs, codes.astype(np.uint8)]


@given(rows=ROWS, most=st.integers(0, 12), origin=st.sampled_from([0, LIMIT - 30]))
def test_quick_begins_cover_what_lies_between_them(
    kernel_forms: Forms, rows: list[tuple[int, int, int]], most: int, origin: int
) -> None:
    rows = [(origin + start, dur, code) for start, dur, code in rows]
    told = [row for row in rows if row[2]]
    begins = [row for row in told if WANTED[row[2]]]
    found = []
    for at, (start, dur, _) in enumerate(begins):
        length = dur
        if at + 1 < len(begins) and begins[at + 1][0] - start <= most:
            length = begins[at + 1][0] - start
        if length <= most:
            found.append((start, start + length))
    for at, (start, _, code) in enumerate(told):
        ended = max((one + dur for one, dur, _ in told[:at]), default=start)
        if WANTED[code] and 0 < start - ended <= most:
            found.append((ended, start))
    found = [(start, min(end, LIMIT)) for start, end in found if start < LIMIT]
    expected = intervals(instants(found))
    for kernels in kernel_forms("rows").values():
        out = np.empty((2, len(rows)), np.int64)
        count = kernels.union_quick(*row_columns(rows), WANTED, most, 0, len(rows), out)
        assert expected == list(zip(*out[:, :count].tolist(), strict=True))


@given(rows=ROWS, pairs=SETS)
def test_rows_that_meet_a_set_share_an_instant_with_it(
    kernel_forms: Forms, rows: list[tuple[int, int, int]], pairs: Pairs
) -> None:
    there = instants(pairs)
    meeting, outermost = [], []
    reach = -(10**6)
    for at, (start, dur, code) in enumerate(rows):
        if not WANTED[code] or not dur:
            continue
        if there & set(range(start, start + dur)):
            meeting.append(at)
            if start >= reach:
                outermost.append(at)
        reach = max(reach, start + dur)
    for kernels in kernel_forms("rows").values():
        for only, expected in ((0, meeting), (1, outermost)):
            out = np.full(len(rows), -1, np.int64)
            count = kernels.rows_meeting_set(
                *row_columns(rows), WANTED, *columns(pairs), only, out
            )
            assert expected == out[:count].tolist()


@given(
    rows=st.lists(st.tuples(INT64, INT64, st.integers(0, 3)), max_size=8),
    pairs=st.lists(st.tuples(INT64, INT64), max_size=8),
)
def test_garbage_rows_stay_within_their_room(
    kernel_forms: Forms,
    rows: list[tuple[int, int, int]],
    pairs: Pairs,
) -> None:
    for kernels in kernel_forms("rows").values():
        count = len(rows)
        around = np.full(2 * count + 40, 77, np.int64)
        out = around[20 : 20 + 2 * count].reshape(2, count)
        quick = kernels.union_quick(*row_columns(rows), WANTED, 9, 0, count, out)
        assert quick <= count
        met = kernels.rows_meeting_set(
            *row_columns(rows), WANTED, *columns(pairs), 0, out.reshape(-1)[:count]
        )
        assert met <= count
        assert (around[:20] == 77).all()
        assert (around[20 + 2 * count :] == 77).all()


@pytest.fixture(params=["compiled", "plain"])
def kernels(request: pytest.FixtureRequest, kernel_forms: Forms) -> ModuleType:
    forms = kernel_forms("rows")
    if request.param not in forms:
        pytest.skip("the kernels are not compiled on this machine")
    return forms[request.param]


def test_arrays_that_break_the_contract_are_refused(kernels: ModuleType) -> None:
    three, two = np.arange(3) * 9, np.arange(2) * 9
    room, flat = np.empty((2, 6), np.int64), np.empty((3, 6), np.int64)
    bad, small, disorder = kernels.BAD_RANGE, kernels.NO_ROOM, kernels.OUT_OF_ORDER
    descending = three[::-1].copy()
    code, wanted = np.ones(3, np.uint8), np.ones(256, np.uint8)
    quick = kernels.union_quick
    assert quick(three, two, code, wanted, 1, 0, 3, room) == bad
    assert quick(three, three, code[:2], wanted, 1, 0, 3, room) == bad
    assert quick(three, three, code, wanted[:9], 1, 0, 3, room) == bad
    assert quick(three, three, code, wanted, -1, 0, 3, room) == bad
    assert quick(three, three, code, wanted, 1, 0, 3, flat) == bad
    assert quick(three, three, code, wanted, 1, 0, 3, room[:, :2].copy()) == small
    assert quick(descending, three, code, wanted, 1, 0, 3, room) == disorder
    meeting = kernels.rows_meeting_set
    assert meeting(three, two, code, wanted, two, two, 0, three.copy()) == bad
    assert meeting(three, three, code[:2], wanted, two, two, 0, three.copy()) == bad
    assert meeting(three, three, code, wanted[:9], two, two, 0, three.copy()) == bad
    assert meeting(three, three, code, wanted, three, two, 0, three.copy()) == bad
    assert meeting(three, three, code, wanted, two, two, 0, two.copy()) == small
    far = two + 99
    assert meeting(descending, three, code, wanted, two, far, 0, three.copy()) == (
        disorder
    )
