"""When nodes begin: both forms against letting nodes wait one by one."""

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
NEVER = -(2**61 - 1)
NODES = 7
#: (source, target, lag, from start): an edge of a graph whose nodes are shuffled.
Edge = tuple[int, int, int, bool]
NUMBERS = st.lists(st.integers(0, 9), min_size=NODES, max_size=NODES)
LAGS = st.integers(-4, 6)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Edge], list[int]]:
    """Edges without a circle: they go up in a hidden order of the nodes."""
    place = draw(st.permutations(range(NODES)))
    pairs = draw(
        st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)))
    )
    edges = [
        (place[min(a, b)], place[max(a, b)], draw(LAGS), draw(st.booleans()))
        for a, b in pairs
        if a != b
    ]
    return sorted(edges, key=lambda edge: edge[1]), list(place)


def begins(edges: list[Edge], nodes: int = NODES) -> np.ndarray:
    counts = np.bincount([target for _, target, _, _ in edges], minlength=nodes)
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def ordered(form: ModuleType, edges: list[Edge], nodes: int = NODES) -> list[int]:
    source = np.array([edge[0] for edge in edges], np.int32)
    order = np.full(nodes, -9, np.int32)
    placed = form.order_nodes(
        begins(edges, nodes),
        source,
        np.empty(nodes + 1, np.int64),
        np.empty(len(source), np.int32),
        np.empty(nodes, np.int32),
        order,
    )
    return order[:placed].tolist()


def forward(
    form: ModuleType,
    edges: list[Edge],
    order: list[int],
    numbers: list[list[int]],
) -> tuple[int, list[int], list[int]]:
    not_before, delay, dur = (np.array(column, np.int64) for column in numbers)
    start, via = np.empty(len(dur), np.int64), np.empty(len(dur), np.int32)
    answer = form.schedule_nodes(
        np.array(order, np.int32),
        begins(edges, len(dur)),
        np.array([edge[0] for edge in edges], np.int32),
        np.array([edge[3] for edge in edges], np.uint8),
        np.array([edge[2] for edge in edges], np.int64),
        not_before,
        delay,
        dur,
        start,
        via,
    )
    return answer, start.tolist(), via.tolist()


def waited(edges: list[Edge], numbers: list[list[int]]) -> list[int]:
    """The same, each node asking its sources again and again until nothing moves."""
    not_before, delay, dur = numbers
    start = [a + b for a, b in zip(not_before, delay, strict=True)]
    moved = True
    while moved:
        moved = False
        for source, target, lag, from_start in edges:
            ready = start[source] + (0 if from_start else dur[source]) + lag
            if ready + delay[target] > start[target]:
                start[target], moved = ready + delay[target], True
    return start


@pytest.fixture(name="forms", scope="module")
def _forms(kernel_forms: Callable[[str], Forms]) -> Forms:
    return kernel_forms("launches")


@given(graph=graphs(), numbers=st.tuples(NUMBERS, NUMBERS, NUMBERS).map(list))
def test_nodes_begin_when_all_that_they_wait_for_is_there(
    forms: Forms, graph: tuple[list[Edge], list[int]], numbers: list[list[int]]
) -> None:
    edges, _ = graph
    for form in forms.values():
        order = ordered(form, edges)
        assert sorted(order) == list(range(NODES))
        answer, start, via = forward(form, edges, order, numbers)
        assert answer == NODES
        assert start == waited(edges, numbers)
        for node, edge in enumerate(via):
            assert edge < 0 or edges[edge][1] == node


@given(graph=graphs())
def test_sources_come_before_what_waits_for_them(
    forms: Forms, graph: tuple[list[Edge], list[int]]
) -> None:
    for form in forms.values():
        place = {node: at for at, node in enumerate(ordered(form, graph[0]))}
        assert all(place[source] < place[target] for source, target, _, _ in graph[0])


def test_the_edge_that_decides_is_told(forms: Forms) -> None:
    """Node 2 waits for the end of node 0 (at 5) and the begin of node 1 plus 7."""
    edges = [(0, 2, 0, False), (1, 2, 7, True)]
    for form in forms.values():
        found = forward(form, edges, [0, 1, 2], [[0, 0, NEVER], [0, 0, 1], [5, 9, 1]])
        assert found == (3, [0, 0, 8], [-1, -1, 1])


def test_a_circle_leaves_its_nodes_out(forms: Forms) -> None:
    edges = [(2, 1, 0, False), (1, 2, 0, False)]
    for form in forms.values():
        assert ordered(form, edges, 3) == [0]


def test_what_does_not_fit_is_refused(forms: Forms) -> None:
    three = [[0, 0, 0], [0, 0, 0], [1, 1, 1]]
    for form in forms.values():
        bad = form.BAD_RANGE
        assert forward(form, [(7, 1, 0, False)], [0, 1, 2], three)[0] == bad
        assert forward(form, [(0, 1, 0, False)], [0, 1, 9], three)[0] == bad
        assert forward(form, [(0, 1, 0, False)], [0, 1], three)[0] == bad
        room = np.empty(3, np.int32)
        begin = np.array([0, 1, 5, 1], np.int64)
        source = np.array([0], np.int32)
        answer = form.order_nodes(
            begin, source, np.empty(4, np.int64), source.copy(), room, room.copy()
        )
        assert answer == bad


def test_other_threads_run_meanwhile(
    forms: Forms, runs_beside: Callable[[Callable[[], object]], bool]
) -> None:
    if "compiled" not in forms:
        pytest.skip("the kernels are not compiled here")
    nodes = 2_000_000
    source = np.arange(nodes - 1, dtype=np.int32)
    begin = np.concatenate(([0], np.arange(nodes))).astype(np.int64)
    rooms = (
        np.empty(nodes + 1, np.int64),
        np.empty(nodes - 1, np.int32),
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int32),
    )

    def work() -> None:
        assert forms["compiled"].order_nodes(begin, source, *rooms) == nodes

    assert any(runs_beside(work) for _ in range(20))
