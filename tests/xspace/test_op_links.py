"""The op of an event: by an id, by what holds it; against a loop over all pairs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepscope.xspace.op_links import innermost_around, last_with_id, operands_text

SMALL = st.integers(-3, 5)


@given(st.lists(SMALL, max_size=12), st.lists(SMALL, max_size=12))
def test_the_last_with_an_id_is_found(ids: list[int], wanted: list[int]) -> None:
    found = last_with_id(np.array(ids, np.int64), np.array(wanted, np.int64)).tolist()
    expected = [
        max((at for at, it in enumerate(ids) if it == one), default=-1)
        for one in wanted
    ]
    assert found == expected


def test_what_is_no_op_is_looked_through() -> None:
    # An op [0, 100) holds a call [10, 60), which holds a report at 20; a second op
    # [30, 40) inside the call holds one at 35; at 150 nothing holds it.
    start = np.array([0, 10, 20, 30, 35, 150], np.int64)
    dur = np.array([100, 50, 0, 10, 0, 0], np.int64)
    is_op = np.array([True, False, False, True, False, False])
    found = innermost_around(start, dur, track=np.zeros(6, np.int32), is_op=is_op)
    assert found.tolist() == [-1, 0, 0, 0, 3, -1]


def test_tracks_do_not_hold_each_other() -> None:
    start, dur = np.array([0, 10], np.int64), np.array([100, 0], np.int64)
    found = innermost_around(
        start, dur, track=np.array([0, 1], np.int32), is_op=np.array([True, False])
    )
    assert found.tolist() == [-1, -1]
    nothing = np.zeros(0, np.int64)
    empty = innermost_around(
        nothing, nothing, track=nothing.astype(np.int32), is_op=nothing.astype(bool)
    )
    assert empty.tolist() == []


def test_operands_are_those_with_dimensions_and_a_type() -> None:
    sizes = [[128, 64], [], [[2, 3], [4]], [5]]
    assert operands_text(sizes, ["float", "Scalar", "TensorList", ""]) == (
        "float[128,64], TensorList[2,3], TensorList[4]"
    )
    assert operands_text([[]], ["float"]) is None
