"""Labels, counts and marks of enclosing rows: both forms against walking up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

Forms = dict[str, "ModuleType"]


@st.composite
def forests(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Parents that come before their children, and labels of some rows."""
    size = draw(st.integers(0, 30))
    parents = [draw(st.integers(-1, row - 1)) for row in range(size)]
    labels = [draw(st.sampled_from([-1, -1, 7, row])) for row in range(size)]
    return parents, labels


def nearest_label(parents: list[int], labels: list[int], row: int) -> int:
    while labels[row] < 0 and parents[row] >= 0:
        row = parents[row]
    return max(labels[row], -1)


@given(forest=forests())
def test_each_row_gets_the_label_of_its_nearest_labelled_ancestor(
    kernel_forms: Callable[[str], Forms], forest: tuple[list[int], list[int]]
) -> None:
    parents, labels = forest
    expected = [nearest_label(parents, labels, row) for row in range(len(parents))]
    for form in kernel_forms("nesting").values():
        label = np.array(labels, np.int32)
        answer = form.inherit_from_parents(
            np.array(parents, np.int32), label, 0, len(parents)
        )
        assert expected == label.tolist()
        assert sum(value >= 0 for value in expected) == answer


@given(forest=forests(), seed=st.integers(0, 2**60))
def test_a_row_gets_the_code_that_holds_around_it(
    kernel_forms: Callable[[str], Forms], forest: tuple[list[int], list[int]], seed: int
) -> None:
    parents, _ = forest
    codes = [seed >> (2 * row) & 3 for row in range(len(parents))]
    expected = []
    for row in range(len(parents)):
        around, at = [], row
        while at >= 0:
            around.append(codes[at])
            at = parents[at]
        # 2 and 3 are sticky; else the nearest code that is not 0.
        held = [code for code in around if code >= 2] or [it for it in around if it]
        expected.append(held[0] if held else 0)
    sticky = np.zeros(256, np.uint8)
    sticky[2:4] = 1
    for form in kernel_forms("rows").values():
        code = np.array(codes, np.uint8)
        changed = form.paint_codes(np.array(parents, np.int32), sticky, code)
        assert code.tolist() == expected
        assert changed >= sum(
            it != was for it, was in zip(expected, codes, strict=True)
        )


def test_codes_of_other_rows_or_kinds_are_refused(
    kernel_forms: Callable[[str], Forms],
) -> None:
    sticky, parent = np.zeros(256, np.uint8), np.array([-1, 0], np.int32)
    for form in kernel_forms("rows").values():
        assert form.paint_codes(parent, sticky, np.zeros(1, np.uint8)) == form.BAD_RANGE
        two = np.zeros(2, np.uint8)
        assert form.paint_codes(parent, sticky[:9], two) == form.BAD_RANGE
        assert form.paint_codes(parent[::-1].copy(), sticky, two) == form.BAD_RANGE


def test_rows_outside_the_range_keep_what_they_have(
    kernel_forms: Callable[[str], Forms],
) -> None:
    for form in kernel_forms("nesting").values():
        parent = np.array([-1, 0, 0, 0], np.int32)
        label = np.array([5, -1, -1, -1], np.int32)
        assert form.inherit_from_parents(parent, label, 1, 3) == 2
        assert label.tolist() == [5, 5, 5, -1]


@st.composite
def nested_rows(draw: st.DrawFn) -> tuple[list[tuple[int, int]], list[int]]:
    """Rows of one track in order, each with its start and duration, and parents."""
    rows = draw(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=9))
    rows.sort(key=lambda row: (row[0], -row[1]))
    parents = [-1] * len(rows)
    for at, (start, dur) in enumerate(rows):
        for above in range(at):
            begin, length = rows[above]
            if begin <= start and start + dur <= begin + length:
                parents[at] = above
    return rows, parents


@given(track=nested_rows(), moments=st.lists(st.integers(0, 55), max_size=9))
def test_at_each_moment_the_innermost_row_that_runs_is_found(
    kernel_forms: Callable[[str], Forms],
    track: tuple[list[tuple[int, int]], list[int]],
    moments: list[int],
) -> None:
    rows, parents = track
    moments.sort()
    expected = []
    for moment in moments:
        # The latest row, or else what is around it, and so on.
        at = max((k for k, row in enumerate(rows) if row[0] <= moment), default=-1)
        while at >= 0 and sum(rows[at]) <= moment:
            at = parents[at]
        expected.append(at)
    # Rows of other tracks lie before and after.
    start, dur = np.array([(0, 99), *rows, (0, 99)], np.int64).T.copy()
    parent = np.array([-1, *(k + 1 if k >= 0 else -1 for k in parents), -1], np.int32)
    for form in kernel_forms("nesting").values():
        found = np.full(len(moments), 77, np.int32)
        answer = form.running_rows(
            start, dur, parent, 1, len(rows) + 1, np.array(moments, np.int64), found
        )
        assert [k + 1 if k >= 0 else -1 for k in expected] == found.tolist()
        assert sum(k >= 0 for k in expected) == answer


def test_moments_without_order_and_rows_beyond_the_arrays_are_refused(
    kernel_forms: Callable[[str], Forms],
) -> None:
    times, none = np.array([1, 2], np.int64), np.full(2, -1, np.int32)
    itself = np.arange(2, dtype=np.int32)
    for form in kernel_forms("nesting").values():
        rows = (times, times, none)
        late = np.array([9, 9], np.int64)
        assert form.running_rows(*rows, 0, 2, late[::-1].copy(), none.copy()) == 0
        assert form.running_rows(*rows, 0, 2, np.array([2, 1]), none.copy()) == (
            form.OUT_OF_ORDER
        )
        bad = form.BAD_RANGE
        assert form.running_rows(*rows, 0, 3, late, none.copy()) == bad
        assert form.running_rows(*rows, -1, 2, late, none.copy()) == bad
        assert form.running_rows(*rows, 2, 1, late, none.copy()) == bad
        assert form.running_rows(*rows, 0, 2, late, none[:1].copy()) == bad
        assert form.running_rows(times, times[:1], none, 0, 2, late, none.copy()) == bad
        assert form.running_rows(times, times, none[:1], 0, 2, late, none.copy()) == bad
        # A row around itself is no nesting.
        assert form.running_rows(times, times, itself, 0, 2, late, none.copy()) == bad


@pytest.mark.parametrize(
    ("parent", "begin", "end"), [([0], 0, 1), ([1, -1], 0, 2), ([-1], 0, 2)]
)
def test_what_cannot_be_a_forest_is_refused(
    kernel_forms: Callable[[str], Forms], parent: list[int], begin: int, end: int
) -> None:
    for form in kernel_forms("nesting").values():
        label = np.full(len(parent), -1, np.int32)
        found = form.inherit_from_parents(np.array(parent, np.int32), label, begin, end)
        assert found == form.BAD_RANGE


@given(forest=forests())
def test_children_of_chosen_rows_are_counted(
    kernel_forms: Callable[[str], Forms], forest: tuple[list[int], list[int]]
) -> None:
    parents, labels = forest
    chosen = [label >= 0 for label in labels]
    expected = [parents.count(row) if chosen[row] else 0 for row in range(len(parents))]
    for form in kernel_forms("rows").values():
        count = np.zeros(len(parents), np.int32)
        answer = form.count_children(
            np.array(parents, np.int32), np.array(chosen, np.uint8), count
        )
        assert expected == count.tolist()
        assert sum(expected) == answer


def test_children_of_no_forest_are_refused(
    kernel_forms: Callable[[str], Forms],
) -> None:
    for form in kernel_forms("rows").values():
        one, two = np.zeros(1, np.int32), np.full(2, -1, np.int32)
        assert (
            form.count_children(one, np.ones(1, np.uint8), one.copy()) == form.BAD_RANGE
        )
        assert (
            form.count_children(two, np.ones(1, np.uint8), two.copy()) == form.BAD_RANGE
        )
        assert (
            form.count_children(two, np.ones(2, np.uint8), one.copy()) == form.BAD_RANGE
        )


@given(data=st.data(), size=st.integers(0, 12))
def test_calls_and_what_encloses_them_are_marked(
    kernel_forms: Callable[[str], Forms], data: st.DataObject, size: int
) -> None:
    parents = [data.draw(st.integers(-1, row - 1)) for row in range(size)]
    types = [data.draw(st.integers(0, 1)) for _ in range(size)]
    codes = [data.draw(st.sampled_from([0, 1, 8])) for _ in range(size)]
    rows = data.draw(st.lists(st.sampled_from(range(size)))) if size else []
    around = set()
    for row in rows:
        above = parents[row]
        while above >= 0:
            around.add(above)
            above = parents[above]
    expected = list(codes)
    # Codes 0 and 8 are plain; type 1 is an op.
    for row in rows:
        expected[row] = expected[row] or 8
    for row in around:
        if types[row] == 1 and expected[row] in (0, 8):
            expected[row] = 9
    plain = np.zeros(256, np.uint8)
    plain[[0, 8]] = 1
    for form in kernel_forms("rows").values():
        code, enclosing = np.array(codes, np.uint8), np.zeros(size, np.uint8)
        answer = form.mark_calls(
            np.array(rows, np.int32),
            np.array(parents, np.int32),
            np.array(types, np.int32),
            np.array([0, 1], np.uint8),
            plain,
            8,
            9,
            code,
            enclosing,
        )
        assert expected == code.tolist()
        assert [int(row in around) for row in range(size)] == enclosing.tolist()
        assert len(around) == answer


def test_marks_of_no_forest_are_refused(
    kernel_forms: Callable[[str], Forms],
) -> None:
    rows, few = np.zeros(3, np.int32), np.zeros(2, np.int32)
    beyond = np.full(3, 3, np.int32)
    flags, plain = np.zeros(3, np.uint8), np.zeros(256, np.uint8)
    for form in kernel_forms("rows").values():
        bad = form.BAD_RANGE
        none = np.full(3, -1, np.int32)
        mark = [rows, none, rows, plain, plain]
        tail = (1, 2, flags.copy(), flags.copy())
        assert form.mark_calls(*mark, *tail) == 0
        assert form.mark_calls(beyond, *mark[1:], *tail) == bad
        assert form.mark_calls(*mark[:2], few, *mark[3:], *tail) == bad
        assert form.mark_calls(*mark[:4], flags, *tail) == bad
        assert form.mark_calls(*mark, 1, 2, flags[:2].copy(), flags.copy()) == bad
        assert form.mark_calls(*mark, 1, 2, flags.copy(), flags[:2].copy()) == bad
        # A parent that does not come before its child is no parent.
        assert form.mark_calls(rows, rows, *mark[2:], *tail) == bad
