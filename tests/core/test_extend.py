"""Spans of derived lines: both forms against a reading of the rule, piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

Forms = dict[str, "ModuleType"]


class Piece(NamedTuple):
    code: int
    step: int
    start: int
    dur: int
    opens: int


pieces = st.lists(
    st.builds(
        Piece,
        code=st.integers(-1, 1),
        step=st.integers(-1, 1),
        start=st.integers(0, 40),
        dur=st.integers(0, 6),
        opens=st.sampled_from([0, 0, 0, 1]),
    ),
    max_size=20,
).map(lambda found: sorted(found, key=lambda piece: piece.start))


def by_the_rule(
    rows: list[Piece], *, bounded: bool
) -> tuple[list[list[int]], list[int]]:
    """First piece and end of each span, and where something opened or closed."""
    spans: list[list[int]] = []
    opens = [piece.opens for piece in rows]
    open_: list[int] | None = None
    for at, piece in enumerate(rows):
        if piece.code < 0:
            opens[at] = opens[at] or int(open_ is not None)
            open_ = None
            continue
        end = piece.start + piece.dur
        if open_ is not None:
            first = rows[open_[0]]
            near = piece.start <= open_[1] + 2 * (open_[1] - first.start)
            if (
                (first.code, first.step) == (piece.code, piece.step)
                and not piece.opens
                and (near or not bounded or piece.step >= 0)
            ):
                open_[1] = max(open_[1], end)
                continue
        open_ = [at, end]
        spans.append(open_)
        opens[at] = 1
    return spans, opens


def run(
    form: ModuleType, rows: list[Piece], *, bounded: bool
) -> tuple[list[list[int]], list[int]]:
    def column(name: str, dtype: type) -> np.ndarray:
        return np.array([getattr(piece, name) for piece in rows], dtype)

    start = column("start", np.int64)
    opens = column("opens", np.uint8)
    first, until = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    count = form.extend(
        column("code", np.int32),
        column("step", np.int32),
        start,
        start + column("dur", np.int64),
        int(bounded),
        opens,
        first,
        until,
    )
    found = np.stack((first[:count], until[:count]), axis=1).tolist()
    return found, opens.tolist()


@settings(deadline=None)  # the machine may be busy
@given(rows=pieces, bounded=st.booleans())
def test_pieces_extend_a_span_or_open_one(
    kernel_forms: Callable[[str], Forms], *, rows: list[Piece], bounded: bool
) -> None:
    expected = by_the_rule(rows, bounded=bounded)
    for form in kernel_forms("extend").values():
        assert expected == run(form, rows, bounded=bounded)


def test_without_a_step_only_what_is_near_is_the_same_execution(
    kernel_forms: Callable[[str], Forms],
) -> None:
    near = [Piece(0, -1, 0, 10, 0), Piece(0, -1, 30, 5, 0)]
    far = [Piece(0, -1, 0, 10, 0), Piece(0, -1, 31, 5, 0)]
    in_step = [Piece(0, 4, 0, 10, 0), Piece(0, 4, 31, 5, 0)]
    for form in kernel_forms("extend").values():
        assert run(form, near, bounded=True) == ([[0, 35]], [1, 0])
        assert run(form, far, bounded=True) == ([[0, 10], [1, 36]], [1, 1])
        assert run(form, in_step, bounded=True) == ([[0, 36]], [1, 0])
        assert run(form, far, bounded=False) == ([[0, 36]], [1, 0])


def test_arrays_of_different_lengths_are_refused(
    kernel_forms: Callable[[str], Forms],
) -> None:
    narrow, wide = np.zeros(2, np.int32), np.zeros(2, np.int64)
    for form in kernel_forms("extend").values():
        answer = form.extend(
            narrow, narrow, wide, wide, 0, np.zeros(2, np.uint8), wide, wide[:1]
        )
        assert answer == form.BAD_RANGE
