"""Spans of derived lines: both forms against a reading of the rule, level by level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

Forms = dict[str, "ModuleType"]

#: Codes of pieces: their paths (equal numbers for equal beginnings), and whether such
#: pieces are within the line.
PATHS: list[tuple[tuple[int, ...], bool]] = [
    ((0, 1, 2), True),
    ((0, 1, 3), True),
    ((0, 4), True),
    ((5,), True),
    ((), True),
    ((0, 1), False),
]
LEVELS = 3
UNIT = 2


class Piece(NamedTuple):
    code: int
    step: int
    start: int
    dur: int
    change: int


class Span(NamedTuple):
    level: int
    first: int
    until: int
    key: int
    members: tuple[int, ...]


pieces = st.lists(
    st.builds(
        Piece,
        code=st.integers(-1, len(PATHS) - 1),
        step=st.integers(-1, 1),
        start=st.integers(0, 40),
        dur=st.integers(0, 6),
        change=st.sampled_from([0, 0, 0, 1]),
    ),
    max_size=20,
).map(lambda found: sorted(found, key=lambda piece: piece.start))


def by_the_rule(
    rows: list[Piece], *, bounded: bool
) -> tuple[list[Span], list[int], list[tuple[int, int, int]]]:
    """Spans, where the outermost level changed, and how the spans are shown."""
    inside: list[int] = []
    opens: list[bool] = []
    change = False
    for at, piece in enumerate(rows):
        change = change or bool(piece.change)
        if piece.code >= 0 and PATHS[piece.code][1]:
            inside.append(at)
            opens.append(change)
            change = False
    spans: list[Span] = []
    happened = [0] * len(rows)
    for level in range(LEVELS):
        found = _level(rows, inside, opens, level, bounded=bounded)
        spans += found
        if level == 0:
            for at, each in zip(inside, opens, strict=True):
                happened[at] = int(each)
    spans.sort(key=lambda span: (span.first, span.level))
    shown = []
    for span in spans:
        start, dur = _shown(rows, spans, span)
        times = (rows[at] for at in span.members)
        busy = {ps for each in times for ps in range(each.start, each.start + each.dur)}
        shown.append((start, dur, min(len(busy), dur)))
    return spans, happened, shown


def _level(
    rows: list[Piece],
    inside: list[int],
    opens: list[bool],
    level: int,
    *,
    bounded: bool,
) -> list[Span]:
    spans: list[Span] = []
    running = False
    for place, at in enumerate(inside):
        piece, path = rows[at], PATHS[rows[at].code][0]
        if len(path) <= level:
            opens[place] = opens[place] or running
            running = False
            continue
        end = piece.start + piece.dur
        if running and not opens[place]:
            span = spans[-1]
            first = rows[span.first]
            near = piece.start <= span.until + 2 * (span.until - first.start)
            if (span.key, first.step) == (path[level], piece.step) and (
                near or not bounded or piece.step >= 0
            ):
                members = (*span.members, at)
                spans[-1] = span._replace(until=max(span.until, end), members=members)
                continue
        opens[place] = running = True
        spans.append(Span(level, at, end, path[level], (at,)))
    return spans


def _shown(rows: list[Piece], spans: list[Span], span: Span) -> tuple[int, int]:
    """Start and duration: levels of equal length must be distinguished."""
    start = rows[span.first].start
    if span.level == 0:
        return start, span.until - start
    outer = [
        one for one in spans if one.level == span.level - 1 and one.first <= span.first
    ][-1]
    around = sum(_shown(rows, spans, outer))
    equal = (rows[outer.first].start, outer.until) == (start, span.until)
    end = min(span.until, around - UNIT * equal)
    least = start + min(span.until - start, UNIT)
    return start, max(end, min(least, around)) - start


def run(form: ModuleType, rows: list[Piece], *, bounded: bool) -> Any:
    def column(name: str, dtype: type) -> np.ndarray:
        return np.array([getattr(piece, name) for piece in rows], dtype)

    start = column("start", np.int64)
    path = np.full((len(PATHS), LEVELS), -1, np.int32)
    for code, (names, _) in enumerate(PATHS):
        path[code, : len(names)] = names
    room = len(rows) * LEVELS
    found, times = np.empty((4, room), np.int32), np.empty((3, room), np.int64)
    happened = np.zeros(len(rows), np.uint8)
    count = form.open_spans(
        column("code", np.int32),
        np.arange(len(rows), dtype=np.int32),
        column("step", np.int32),
        start,
        start + column("dur", np.int64),
        np.array([within for _, within in PATHS], np.uint8),
        path.ravel(),
        np.arange(6, dtype=np.int32),
        column("change", np.uint8),
        int(bounded),
        np.empty((5, LEVELS), np.int64),
        happened,
        found,
        times,
    )
    level, key, first, step = found[:, :count]
    assert step.tolist() == [rows[at].step for at in first]
    assert times[0, :count].tolist() == [rows[at].start for at in first]
    columns = (each.tolist() for each in (level, first, times[1, :count], key))
    spans = [Span(*each, ()) for each in zip(*columns, strict=True)]
    ordered = form.close_spans(level, times, UNIT, np.zeros((3, LEVELS), np.int64))
    shown = list(zip(*times[:, :count].tolist(), strict=True))
    return spans, happened.tolist(), shown, ordered


@given(rows=pieces, bounded=st.booleans())
def test_pieces_extend_a_span_or_open_one(
    kernel_forms: Callable[[str], Forms], *, rows: list[Piece], bounded: bool
) -> None:
    spans, happened, shown = by_the_rule(rows, bounded=bounded)
    order = [
        (start, -dur, span.level)
        for (start, dur, _), span in zip(shown, spans, strict=True)
    ]
    for form in kernel_forms("sweeps").values():
        bare = [span._replace(members=()) for span in spans]
        expected = (bare, happened, shown, int(order == sorted(order)))
        assert expected == run(form, rows, bounded=bounded)


def test_without_a_step_only_what_is_near_is_the_same_execution(
    kernel_forms: Callable[[str], Forms],
) -> None:
    near = [Piece(3, -1, 0, 10, 0), Piece(3, -1, 30, 5, 0)]
    far = [Piece(3, -1, 0, 10, 0), Piece(3, -1, 31, 5, 0)]
    in_step = [Piece(3, 4, 0, 10, 0), Piece(3, 4, 31, 5, 0)]
    for form in kernel_forms("sweeps").values():
        assert run(form, near, bounded=True)[2] == [(0, 35, 15)]
        assert run(form, far, bounded=True)[2] == [(0, 10, 10), (31, 5, 5)]
        assert run(form, in_step, bounded=True)[2] == [(0, 36, 15)]
        assert run(form, far, bounded=False)[2] == [(0, 36, 15)]


def test_levels_of_equal_length_are_told_apart(
    kernel_forms: Callable[[str], Forms],
) -> None:
    rows = [Piece(0, 0, 0, 10, 0), Piece(0, 0, 20, 1, 1)]
    for form in kernel_forms("sweeps").values():
        shown = [each[:2] for each in run(form, rows, bounded=False)[2]]
        assert shown == [(0, 10), (0, 8), (0, 6), (20, 1), (20, 1), (20, 1)]


def test_arrays_that_do_not_fit_are_refused(
    kernel_forms: Callable[[str], Forms],
) -> None:
    narrow, wide = np.zeros(2, np.int32), np.zeros(2, np.int64)
    marks, room = np.zeros(2, np.uint8), np.zeros((5, 1), np.int64)
    for form in kernel_forms("sweeps").values():
        within, one = np.ones(1, np.uint8), narrow[:1]
        full = [narrow, narrow, narrow, wide, wide, within, one, one, marks, 0]
        into = [room, marks, np.zeros((4, 2), np.int32), np.zeros((3, 2), np.int64)]
        assert form.open_spans(*full, *into) == 1
        short = [*into[:3], into[3][:, :1].copy()]
        assert form.open_spans(*full, *short) == form.BAD_RANGE
        beyond = [narrow + 1, *full[1:]]
        assert form.open_spans(*beyond, *into) == form.BAD_RANGE
        unnamed = [*full[:7], narrow[:0], *full[8:]]
        assert form.open_spans(*unnamed, *into) == form.BAD_RANGE
        around = np.zeros((3, 1), np.int64)
        answer = form.close_spans(narrow, short[3], 1, around)
        assert answer == form.BAD_RANGE
        assert form.close_spans(narrow + 1, into[3], 1, around) == form.BAD_RANGE
