"""Graphs of any shape for the replay, with what a loop needs to know of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from stepscope.derive.replay.activities import Sampled
from stepscope.derive.replay.nodes import (
    NEVER,
    EdgeKind,
    Edges,
    Graph,
    NodeKind,
    Nodes,
    link_edges,
)

#: kind, track, start, duration, slack, kept, has an arrival before it
NODE_ROW = st.tuples(
    st.sampled_from(tuple(NodeKind)),
    st.integers(0, 2),
    st.integers(0, 40),
    st.integers(0, 12),
    st.integers(0, 6),
    st.booleans(),
    st.booleans(),
)
#: source and target (the lower is the source), kind, whether from the start, lag
EDGE_ROW = st.tuples(
    st.integers(0, 7),
    st.integers(0, 7),
    st.sampled_from(tuple(EdgeKind)),
    st.booleans(),
    st.integers(-3, 9),
)
SHAPES = st.tuples(
    st.lists(NODE_ROW, min_size=2, max_size=8),
    st.lists(EDGE_ROW, max_size=10),
    st.integers(0, 2**30),
)


def graph_of(shape: tuple[Any, ...]) -> Graph:
    """A graph of any shape; its windows are [10, 20) and [20, 35)."""
    rows, lines, bits = shape
    rows = sorted(rows, key=lambda row: row[2])
    kind, track, start, dur, slack, kept, arrives = zip(*rows, strict=True)
    nodes = Nodes(
        np.array(kind, np.uint8),
        np.array(track, np.int32),
        np.array(start),
        np.array(dur),
        np.full(len(rows), -1, np.int32),
    )
    parts = [
        Edges.make_edges(
            EdgeKind(of),
            np.array([min(a, b)]),
            np.array([max(a, b)]),
            lag_ps=lag,
            from_start=early,
        )
        for a, b, of, early, lag in lines
        if a != b and max(a, b) < len(rows)
    ]
    edges, begin, order = link_edges(nodes, Edges.join_edges(parts))
    bounds = np.array([10, 20, 35])
    numbers = [(bits >> (3 * each)) % 8 for each in range(10)]
    boundary = [number if number < len(rows) else -1 for number in numbers[:3]]
    rootless = np.diff(begin) == 0
    return Graph(
        nodes=nodes,
        begin=begin,
        edges=edges,
        order=order,
        slack_ps=np.array(slack),
        kept=np.array(kept),
        not_before_ps=np.where(rootless, nodes.start_ps, NEVER),
        may_wait=np.array([(bits >> each) % 2 == 1 for each in range(len(rows))]),
        arrival_of=np.array(
            [each - 1 if come else -1 for each, come in enumerate(arrives)], np.int32
        ),
        sampled=Sampled(np.array([4, 5]), bounds, 0, by_device=False, open_end=False),
        boundary=np.array(boundary, np.int32),
        completes=np.array([(bits >> each) % 4 for each in range(len(rows))], np.int32),
    )


def edges_of(graph: Graph) -> list[tuple[int, int, int, int, int]]:
    """(source, target, kind, from start, lag) of each edge."""
    edges = graph.edges
    columns = (edges.source, edges.target, edges.kind, edges.from_start, edges.lag_ps)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def is_measured(graph: Graph, node: int) -> bool:
    return 10 <= int(graph.nodes.start_ps[node]) < 35
