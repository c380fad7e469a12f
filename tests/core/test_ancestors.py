"""Inherited labels: both forms against walking up from every row."""

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
        answer = form.inherit(np.array(parents, np.int32), label, 0, len(parents))
        assert expected == label.tolist()
        assert sum(value >= 0 for value in expected) == answer


def test_rows_outside_the_range_keep_what_they_have(
    kernel_forms: Callable[[str], Forms],
) -> None:
    for form in kernel_forms("nesting").values():
        parent = np.array([-1, 0, 0, 0], np.int32)
        label = np.array([5, -1, -1, -1], np.int32)
        assert form.inherit(parent, label, 1, 3) == 2
        assert label.tolist() == [5, 5, 5, -1]


@pytest.mark.parametrize(
    ("parent", "begin", "end"), [([0], 0, 1), ([1, -1], 0, 2), ([-1], 0, 2)]
)
def test_what_cannot_be_a_forest_is_refused(
    kernel_forms: Callable[[str], Forms], parent: list[int], begin: int, end: int
) -> None:
    for form in kernel_forms("nesting").values():
        label = np.full(len(parent), -1, np.int32)
        found = form.inherit(np.array(parent, np.int32), label, begin, end)
        assert found == form.BAD_RANGE


@given(forest=forests())
def test_children_of_chosen_rows_are_counted(
    kernel_forms: Callable[[str], Forms], forest: tuple[list[int], list[int]]
) -> None:
    parents, labels = forest
    chosen = [label >= 0 for label in labels]
    expected = [parents.count(row) if chosen[row] else 0 for row in range(len(parents))]
    for form in kernel_forms("nesting").values():
        count = np.zeros(len(parents), np.int32)
        answer = form.children(
            np.array(parents, np.int32), np.array(chosen, np.uint8), count
        )
        assert expected == count.tolist()
        assert sum(expected) == answer


def test_children_of_no_forest_are_refused(
    kernel_forms: Callable[[str], Forms],
) -> None:
    for form in kernel_forms("nesting").values():
        one, two = np.zeros(1, np.int32), np.full(2, -1, np.int32)
        assert form.children(one, np.ones(1, np.uint8), one.copy()) == form.BAD_RANGE
        assert form.children(two, np.ones(1, np.uint8), two.copy()) == form.BAD_RANGE
        assert form.children(two, np.ones(2, np.uint8), one.copy()) == form.BAD_RANGE
