"""Elements and work that threads hand over to each other, against plain loops."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.derive.input_pipeline.calls import _begins_after_earlier
from stepscope.derive.input_pipeline.contexts import (
    Contexts,
    Elements,
    _Side,
    find_callers,
    match_handovers,
)
from stepscope.derive.intervals.nesting import nearest_above
from stepscope.trace.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Stage, number and time.
ELEMENTS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 9)), max_size=8
)


def elements(rows: Sequence[tuple[int, int, int]]) -> Elements:
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    return Elements(columns[0].astype(np.int32), columns[1], columns[2])


@given(ELEMENTS, ELEMENTS)
def test_an_element_goes_to_the_first_taking_that_ends_after_it_began(
    produced: list[tuple[int, int, int]], taken: list[tuple[int, int, int]]
) -> None:
    made, took = match_handovers(elements(produced), elements(taken))
    expected = set()
    for index, (stage, number, time) in enumerate(produced):
        later = [
            (end, other)
            for other, (of, which, end) in enumerate(taken)
            if (of, which) == (stage, number) and end >= time
        ]
        if later:
            expected.add((index, min(later)[1]))
    pairs = list(zip(made.tolist(), took.tolist(), strict=True))
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == expected


class Shape(NamedTuple):
    """Events in two tracks; producers and consumers are (row, type, id, process)."""

    track: list[int]
    parent: list[int]
    calls: list[bool]
    producers: list[tuple[int, int, int, int]]
    consumers: list[tuple[int, int, int, int]]
    pools: list[tuple[int, int]]


COUNT = 9
SIDE = st.lists(
    st.tuples(
        st.integers(0, COUNT - 1),
        st.integers(0, 1),
        st.integers(0, 2),
        st.integers(-1, 0),
    ),
    max_size=6,
    unique_by=lambda row: row[0],
)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    track = sorted(draw(st.lists(st.integers(0, 1), min_size=COUNT, max_size=COUNT)))
    parent = []
    for row in range(COUNT):
        around = [-1, *(each for each in range(row) if track[each] == track[row])]
        parent.append(draw(st.sampled_from(around)))
    calls = draw(st.lists(st.booleans(), min_size=COUNT, max_size=COUNT))
    begins = sorted(draw(st.sets(st.integers(0, COUNT - 1), max_size=2)))
    pools = [(row, row + draw(st.integers(0, 4))) for row in begins]
    return Shape(track, parent, calls, draw(SIDE), draw(SIDE), pools)


def contexts_of(shape: Shape) -> Contexts:
    sides = []
    for rows in (shape.producers, shape.consumers):
        ordered = sorted(rows, key=lambda row: row[2])
        columns = np.array(ordered, np.int64).reshape(-1, 4).T
        sides.append(_Side(*columns))
    pools = np.array(shape.pools, np.int64).reshape(-1, 2).T
    return Contexts(sides[0], sides[1], pools[0], pools[1])


def above(shape: Shape, row: int, stops: set[int]) -> int:
    """The nearest stop around a row, by the chain of its parents."""
    row = shape.parent[row]
    while row >= 0 and row not in stops:
        row = shape.parent[row]
    return row


def outer(shape: Shape, row: int, stops: set[int]) -> int:
    """The nearest stop around a row, else the begin of its thread pool's task."""
    nearest = above(shape, row, stops)
    if nearest >= 0:
        return nearest
    begun = [pool for pool in shape.pools if pool[0] <= row]
    if not begun:
        return -1
    begin, end = begun[-1]
    return begin if shape.track[begin] == shape.track[row] and row <= end else -1


def callers(shape: Shape, row: int) -> set[int]:
    """The calls for which a row runs: its own context first, then all around it."""
    consumed = {each[0]: each[1:] for each in shape.consumers}
    stops = {*consumed, *(each for each, call in enumerate(shape.calls) if call)}
    found: set[int] = set()
    seen: set[int] = set()
    follow: deque[int] = deque([row] if row in consumed else [])

    def reach(stop: int) -> None:
        if stop >= 0 and shape.calls[stop]:
            found.add(stop)
        elif stop in consumed:
            follow.append(stop)

    reach(outer(shape, row, stops))
    while follow:
        current = follow.popleft()
        if current in seen:
            continue
        seen.add(current)
        reach(outer(shape, current, stops))
        for producer, *context in shape.producers:
            if tuple(context) == consumed[current]:
                inside = producer in stops
                reach(producer if inside else outer(shape, producer, stops))
    return found


@given(shapes())
def test_work_belongs_to_the_calls_that_its_contexts_lead_to(shape: Shape) -> None:
    schema = TABLES["events"].dtypes()
    events = pl.DataFrame(
        {
            name: {"track": shape.track, "start_ps": list(range(COUNT))}.get(
                name, [0] * COUNT
            )
            for name in schema
        },
        schema=schema,
    )
    consumed = {row for row, *_ in shape.consumers}
    # Whatever lies in no call of its own thread.
    calls = {row for row, call in enumerate(shape.calls) if call}
    rows = [row for row in range(COUNT) if above(shape, row, calls) < 0]
    index, reached, crowds = find_callers(
        np.array(rows, np.int64),
        parent=np.array(shape.parent, np.int32),
        is_call=np.array(shape.calls),
        events=events,
        contexts=contexts_of(shape),
    )
    found: dict[int, set[int]] = {row: set() for row in rows}
    for at, call in zip(index.tolist(), reached.tolist(), strict=True):
        found[rows[at]].add(call)
    assert found == {row: callers(shape, row) for row in rows}
    assert crowds == set()
    assert contexts_of(shape).consumer_rows.tolist() == sorted(consumed)


@given(shapes())
def test_the_nearest_stop_is_found_at_any_depth(shape: Shape) -> None:
    stops = np.array(shape.calls)
    rows = np.arange(COUNT)
    found = nearest_above(np.array(shape.parent, np.int32), rows, stops)
    wanted = {row for row, call in enumerate(shape.calls) if call}
    assert found.tolist() == [above(shape, row, wanted) for row in range(COUNT)]


@pytest.mark.parametrize(
    ("producers", "consumers", "crowded"),
    [(63, 64, False), (64, 63, False), (64, 64, True), (1, 90, False), (90, 1, False)],
)
def test_a_context_of_64_producers_and_consumers_is_a_crowd(
    producers: int,
    consumers: int,
    crowded: bool,  # noqa: FBT001 - a parameter
) -> None:
    made = [(each, 1, 5, -1) for each in range(producers)]
    took = [(100 + each, 1, 5, -1) for each in range(consumers)]
    # Another context, with a producer and a consumer.
    made.append((95, 0, 2, -1))
    took.append((199, 0, 2, -1))
    contexts = contexts_of(Shape([], [], [], made, took, []))
    rows = np.array([100, 199])
    index, found, crowds = contexts.producers_behind(rows)
    first = sorted(found[index == 0].tolist())
    assert first == ([] if crowded else list(range(producers)))
    assert found[index == 1].tolist() == [95]
    assert crowds == ({(1, 5, -1)} if crowded else set())


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(0, 6)), max_size=9
    )
)
def test_intervals_begin_after_all_earlier_ones_of_their_group(
    drawn: list[tuple[int, int, int]],
) -> None:
    rows = sorted(drawn, key=lambda row: row[:2])
    group, starts, durs = np.array(rows, np.int64).reshape(-1, 3).T
    found = _begins_after_earlier(group, starts, starts + durs)
    for row, (of, begin, _) in enumerate(rows):
        earlier = [sum(each[1:]) for each in rows[:row] if each[0] == of]
        assert found[row] == max([begin, *earlier])
