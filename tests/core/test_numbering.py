"""Numbering and picking: both forms against dictionaries and lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

Forms = dict[str, "ModuleType"]
OUTER, LEAST, WIDTH = 3, -2, 6
PAIRS = st.lists(
    st.tuples(st.integers(0, OUTER - 1), st.integers(LEAST, LEAST + WIDTH - 1))
)


def numbered(
    form: ModuleType, pairs: list[tuple[int, int]], *, room: int | None = None
) -> tuple[int, list[int], list[int]]:
    out = np.full(len(pairs), -9, np.int32)
    first = np.full(len(pairs) if room is None else room, -9, np.int64)
    answer = form.number_pairs(
        np.array([outer for outer, _ in pairs], np.int32),
        np.array([inner for _, inner in pairs], np.int32),
        LEAST,
        WIDTH,
        np.full(OUTER * WIDTH, -1, np.int32),
        out,
        first,
    )
    return answer, out.tolist(), first.tolist()[: max(answer, 0)]


@given(pairs=PAIRS)
def test_pairs_are_numbered_as_they_first_appear(
    kernel_forms: Callable[[str], Forms], pairs: list[tuple[int, int]]
) -> None:
    distinct = list(dict.fromkeys(pairs))
    expected = (
        len(distinct),
        [distinct.index(pair) for pair in pairs],
        [pairs.index(pair) for pair in distinct],
    )
    for form in kernel_forms("numbering").values():
        assert expected == numbered(form, pairs)


@given(values=st.lists(st.integers(LEAST, LEAST + WIDTH - 1)))
def test_values_without_others_are_numbered_alone(
    kernel_forms: Callable[[str], Forms], values: list[int]
) -> None:
    for form in kernel_forms("numbering").values():
        out, first = np.empty(len(values), np.int32), np.empty(len(values), np.int64)
        answer = form.number_pairs(
            np.empty(0, np.int32),
            np.array(values, np.int32),
            LEAST,
            WIDTH,
            np.full(WIDTH, -1, np.int32),
            out,
            first,
        )
        alone = answer, out.tolist(), first.tolist()[:answer]
        assert alone == numbered(form, [(0, value) for value in values])


def test_numbers_without_room_and_values_without_a_place_are_refused(
    kernel_forms: Callable[[str], Forms],
) -> None:
    for form in kernel_forms("numbering").values():
        assert numbered(form, [(0, 0), (0, 1)], room=1)[0] == form.NO_ROOM
        assert numbered(form, [(OUTER, 0)])[0] == form.BAD_RANGE
        assert numbered(form, [(-1, 0)])[0] == form.BAD_RANGE
        assert numbered(form, [(0, LEAST + WIDTH)])[0] == form.BAD_RANGE
        assert numbered(form, [(0, LEAST - 1)])[0] == form.BAD_RANGE


@given(
    keys=st.lists(st.integers(0, 5)),
    wanted=st.sets(st.integers(0, 5)),
    cut=st.integers(0, 5),
    room=st.integers(0, 8),
)
def test_picked_rows_are_those_with_a_wanted_key(
    kernel_forms: Callable[[str], Forms],
    keys: list[int],
    wanted: set[int],
    cut: int,
    room: int,
) -> None:
    begin = min(cut, len(keys))
    expected = [row for row in range(begin, len(keys)) if keys[row] in wanted]
    table = np.array([value in wanted for value in range(6)], np.uint8)
    for form in kernel_forms("numbering").values():
        out = np.full(room, -1, np.int64)
        key = np.array(keys, np.int32)
        answer = form.pick_rows(key, table, begin, len(keys), out)
        assert len(expected) == answer
        assert expected[:room] == out.tolist()[: min(answer, room)]


def test_a_key_without_a_place_is_refused(kernel_forms: Callable[[str], Forms]) -> None:
    for form in kernel_forms("numbering").values():
        out, table = np.empty(1, np.int64), np.zeros(2, np.uint8)
        for key in (2, -1):
            keys = np.array([key], np.int32)
            assert form.pick_rows(keys, table, 0, 1, out) == form.BAD_RANGE
            # Rows are looked at in eights: wherever in them, and after the last ones.
            for at in range(19):
                keys = np.zeros(19, np.int32)
                assert form.pick_rows(keys, table, 0, 19, out) == 0
                keys[at] = key
                assert form.pick_rows(keys, table, 0, 19, out) == form.BAD_RANGE
        assert form.pick_rows(keys, table, 0, 20, out) == form.BAD_RANGE


@given(
    rows=st.lists(st.tuples(st.integers(-1, 2), st.integers(-9, 9), st.integers(0, 5)))
)
def test_a_hull_reaches_from_the_first_begin_to_the_last_end(
    kernel_forms: Callable[[str], Forms], rows: list[tuple[int, int, int]]
) -> None:
    of_group = [[row for row in rows if row[0] == group] for group in range(3)]
    expected = [
        (
            len(found),
            min((begin for _, begin, _ in found), default=0),
            max((begin + dur for _, begin, dur in found), default=0),
        )
        for found in of_group
    ]
    code, begin, dur = np.array(rows, np.int64).reshape(-1, 3).T.copy()
    for form in kernel_forms("numbering").values():
        found = [np.zeros(3, np.int64) for _ in range(3)]
        assert form.group_hulls(code.astype(np.int32), begin, dur, *found) == len(rows)
        assert expected == list(zip(*(one.tolist() for one in found), strict=True))
        small = [np.zeros(1, np.int64) for _ in range(3)]
        if any(group > 0 for group, _, _ in rows):
            answer = form.group_hulls(code.astype(np.int32), begin, dur, *small)
            assert answer == form.BAD_RANGE


@given(
    rows=st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 3))),
    place=st.permutations([-1, 0, 1, 2]),
)
def test_a_tally_counts_rows_by_group_and_name(
    kernel_forms: Callable[[str], Forms],
    rows: list[tuple[int, int]],
    place: list[int],
) -> None:
    expected = [[0] * 3 for _ in range(3)]
    for group, name in rows:
        if group >= 0 and place[name] >= 0:
            expected[group][place[name]] += 1
    group, name = np.array(rows, np.int32).reshape(-1, 2).T.copy()
    for form in kernel_forms("numbering").values():
        out = np.zeros((3, 3), np.int64)
        answer = form.tally_names(group, name, np.array(place, np.int32), out)
        assert expected == out.tolist()
        assert answer == out.sum()


def test_groups_and_names_without_a_place_are_refused(
    kernel_forms: Callable[[str], Forms],
) -> None:
    for form in kernel_forms("numbering").values():
        bad, out = form.BAD_RANGE, np.zeros((1, 1), np.int64)
        place, two = np.zeros(1, np.int32), np.zeros(2, np.int32)
        for group, name in ((1, 0), (0, 1), (0, -1)):
            given_rows = (np.array([value], np.int32) for value in (group, name))
            assert form.tally_names(*given_rows, place, out) == bad
        assert form.tally_names(place, place, place + np.int32(1), out) == bad
        assert form.tally_names(two, place, place, out) == bad
        long, longer = np.zeros(1, np.int64), np.zeros(2, np.int64)
        assert form.group_hulls(two, long, longer, long, long, long) == bad
        assert form.group_hulls(place, long, longer, long, long, long) == bad
        assert form.group_hulls(place, long, long, longer, long, long) == bad
        assert form.group_hulls(place, long, long, long, long, longer) == bad
