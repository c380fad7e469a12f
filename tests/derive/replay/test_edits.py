"""Edits of a graph and their replay, against loops over its nodes and edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.kept_promises import check_graph
from tests.support.traces.literal_graphs import (
    SHAPES,
    edges_of,
    graph_of,
    is_measured,
)

from stepscope.derive.intervals.spans import Spans
from stepscope.derive.replay.activities import Sampled
from stepscope.derive.replay.node_times import (
    NODE,
    NOTHING,
    Gain,
    Identity,
    kept_share,
    largest_floor_ps,
    replay_check,
    replay_graph,
    replayed_gain,
    window_paths,
)
from stepscope.derive.replay.nodes import (
    NEVER,
    EdgeKind,
    Edges,
    Edit,
    Graph,
    NodeKind,
    collectives_at_rate,
    copies_moved,
    joint_edit,
    kernels_scaled,
    launched_as_one,
    link_edges,
    synchronising_removed,
    threads_faster,
    unchanged_edit,
)


def columns_of(edit: Edit) -> list[list[Any]]:
    """All arrays of an edit: durations, lags, from the start, delays, arrivals."""
    arrays = (edit.dur_ps, edit.lag_ps, edit.from_start, edit.max_delay_ps, edit.comes)
    return [array.tolist() for array in arrays]


def plain(graph: Graph) -> list[list[Any]]:
    """The same of an edit that changes nothing."""
    return [
        graph.nodes.dur_ps.tolist(),
        graph.edges.lag_ps.tolist(),
        graph.edges.from_start.tolist(),
        graph.slack_ps.tolist(),
        [int(before) >= 0 for before in graph.arrival_of],
    ]


def chosen_nodes(graph: Graph, bits: int) -> list[bool]:
    return [(bits >> each) % 2 == 1 for each in range(graph.count)]


# The edits.


@given(shape=SHAPES, bits=st.integers(0, 255), factor=st.sampled_from((-1, 0, 0.5, 2)))
def test_kernels_are_scaled_by_a_factor_of_at_most_one(
    shape: Any, bits: int, factor: float
) -> None:
    graph, expected = graph_of(shape), plain(graph_of(shape))
    chosen = chosen_nodes(graph, bits)
    for node in range(graph.count):
        is_device = graph.nodes.kind[node] == NodeKind.DEVICE
        if chosen[node] and is_device and is_measured(graph, node):
            expected[0][node] = int(
                expected[0][node] * {-1: 0, 2: 1}.get(factor, factor)
            )
    assert columns_of(unchanged_edit(graph)) == plain(graph)
    found = kernels_scaled(graph, np.array(chosen), factor=factor)
    assert columns_of(found) == expected


@given(shape=SHAPES, bits=st.integers(0, 255), needed=st.integers(0, 12))
def test_collectives_take_at_most_the_time_that_they_took(
    shape: Any, bits: int, needed: int
) -> None:
    graph, expected = graph_of(shape), plain(graph_of(shape))
    chosen = chosen_nodes(graph, bits)
    for node in range(graph.count):
        is_device = graph.nodes.kind[node] == NodeKind.DEVICE
        if chosen[node] and is_device and is_measured(graph, node):
            expected[0][node] = min(expected[0][node], needed)
    times = np.full(graph.count, needed)
    found = collectives_at_rate(graph, np.array(chosen), needed_ps=times)
    assert columns_of(found) == expected


@given(shape=SHAPES, bits=st.integers(0, 255))
def test_moved_copies_let_their_stream_and_other_streams_go_on(
    shape: Any, bits: int
) -> None:
    graph, expected = graph_of(shape), plain(graph_of(shape))
    chosen = chosen_nodes(graph, bits)
    for number, (source, target, kind, _, lag) in enumerate(edges_of(graph)):
        if not chosen[source] or not is_measured(graph, source):
            continue
        if kind == EdgeKind.STREAM:
            expected[1][number], expected[2][number] = min(lag, 0), 1
        elif kind in (EdgeKind.EVENT, EdgeKind.ACROSS) and not chosen[target]:
            expected[1][number] = NEVER
    assert columns_of(copies_moved(graph, np.array(chosen))) == expected


@given(shape=SHAPES, bits=st.integers(0, 255))
def test_calls_that_wait_for_nothing_lose_their_synchronising_edges(
    shape: Any, bits: int
) -> None:
    graph, expected = graph_of(shape), plain(graph_of(shape))
    chosen = chosen_nodes(graph, bits)
    for number, (_, target, kind, _, _) in enumerate(edges_of(graph)):
        awaited = chosen[target] and is_measured(graph, target)
        if kind == EdgeKind.SYNCHRONISE and awaited:
            expected[1][number] = NEVER
    assert columns_of(synchronising_removed(graph, np.array(chosen))) == expected


@given(
    shape=SHAPES,
    span=st.tuples(st.integers(0, 40), st.integers(1, 15)),
    factor=st.sampled_from((2, 4, float("inf"))),
    tracks=st.sampled_from((None, (1,), (0, 2))),
)
def test_threads_become_faster_only_in_the_spans(
    shape: Any, span: tuple[int, int], factor: float, tracks: tuple[int, ...] | None
) -> None:
    graph, expected = graph_of(shape), plain(graph_of(shape))
    nodes, (begin, length) = graph.nodes, span
    sooner = set()
    for node in range(graph.count):
        start, dur = int(nodes.start_ps[node]), int(nodes.dur_ps[node])
        on_thread = nodes.kind[node] != NodeKind.DEVICE
        on_track = tracks is None or int(nodes.track[node]) in tracks
        if not on_thread or not on_track or not is_measured(graph, node):
            continue
        inside = max(min(start + dur, begin + length) - max(start, begin), 0)
        saved = int(inside * (1 - 1 / factor))
        expected[0][node] -= saved
        if saved > 0 and 2 * inside >= dur:
            sooner.add(node)
    for node, before in enumerate(graph.arrival_of.tolist()):
        expected[4][node] = before >= 0 and before not in sooner
    spans = Spans.of([(begin, begin + length)])
    found = threads_faster(graph, spans, factor=factor, tracks=tracks)
    assert columns_of(found) == expected


@given(shape=SHAPES, groups=st.lists(st.integers(-1, 2), min_size=8, max_size=8))
def test_one_call_launches_all_activities_of_a_group(
    shape: Any, groups: list[int]
) -> None:
    graph, expected = graph_of(shape), plain(graph_of(shape))
    edges = edges_of(graph)
    for group in (0, 1, 2):
        calls = [
            number
            for number, (_, target, kind, _, _) in enumerate(edges)
            if kind == EdgeKind.LAUNCH
            and groups[target] == group
            and is_measured(graph, target)
        ]
        calls.sort(key=lambda number: int(graph.nodes.start_ps[edges[number][0]]))
        for number in calls[1:]:
            expected[1][number] = NEVER
            expected[3][edges[number][1]] = 0
        for number in calls[:-1]:
            source, _, _, from_start, _ = edges[number]
            if from_start:
                expected[0][source] = 0
    group_of = np.array(groups[: graph.count], np.int32)
    assert columns_of(launched_as_one(graph, group_of)) == expected


def test_joint_edits_add_their_reductions() -> None:
    """Of 12: 4 and 9 less are nothing; of a slack of 6: 3 and 2 less are 1."""
    graph = graph_of(([(3, 0, 12, 12, 6, False, True)] * 2, [(0, 1, 2, False, 5)], 0))
    one = Edit(
        *(np.array([8, 12]), np.array([4]), np.array([1], np.uint8)),
        *(np.array([3, 6]), np.array([True, False])),
    )
    other = Edit(
        *(np.array([3, 9]), np.array([-2]), np.array([0], np.uint8)),
        *(np.array([4, 1]), np.array([True, True])),
    )
    found = columns_of(joint_edit(graph, [one, other]))
    assert found == [[0, 9], [-2], [1], [1, 1], [False, False]]
    assert columns_of(joint_edit(graph, [])) == plain(graph)


# The replay.


def slow_replay(
    graph: Graph, columns: list[list[Any]], *, slack: str, edited: bool
) -> tuple[list[int], list[int]]:
    """Start of each node, and when each bound is reached."""
    dur, lags, from_start, delays, comes = columns
    edges = edges_of(graph)
    starts = [0] * graph.count
    for node in range(graph.count):
        ready = int(graph.not_before_ps[node])
        if slack == "kept" and comes[node]:
            come = int(graph.nodes.start_ps[node]) - int(graph.slack_ps[node])
            ready = max(ready, come)
        for number, (source, target, *_) in enumerate(edges):
            if target == node and lags[number] > NEVER:
                end = starts[source] + (0 if from_start[number] else dur[source])
                ready = max(ready, end + lags[number])
        delay = int(graph.slack_ps[node])
        if slack == "dropped" and not graph.kept[node]:
            delay = 0
        starts[node] = ready + (min(delay, delays[node]) if edited else delay)
    reached = []
    for bound in range(3):
        ends = [
            starts[node] + dur[node]
            for node in range(graph.count)
            if graph.completes[node] <= bound
        ]
        begins = [starts[node] for node in graph.boundary[: bound + 1] if node >= 0]
        reached.append(max([NEVER, *ends, *begins]))
    return starts, reached


@given(
    shape=SHAPES, bits=st.integers(0, 255), slack=st.sampled_from(("kept", "dropped"))
)
def test_nodes_begin_as_early_as_their_edges_allow(
    shape: Any, bits: int, slack: Any
) -> None:
    graph = graph_of(shape)
    edit = joint_edit(
        graph,
        [
            kernels_scaled(graph, np.array(chosen_nodes(graph, bits)), factor=0.5),
            copies_moved(graph, np.array(chosen_nodes(graph, ~bits))),
            threads_faster(graph, Spans.of([(12, 30)]), factor=2),
        ],
    )
    for each in (None, edit):
        columns = plain(graph) if each is None else columns_of(each)
        found = replay_graph(graph, each, slack=slack)
        starts, reached = slow_replay(
            graph, columns, slack=slack, edited=each is not None
        )
        is_fixed = [start > NEVER // 2 for start in starts]
        assert [
            a for a, b in zip(found.start_ps.tolist(), is_fixed, strict=True) if b
        ] == [a for a, b in zip(starts, is_fixed, strict=True) if b]
        assert found.dur_ps.tolist() == columns[0]
        if all(is_fixed):
            assert found.bounds_ps.tolist() == reached


@given(shape=SHAPES)
def test_the_pieces_of_a_path_fill_its_window_without_overlap(shape: Any) -> None:
    graph = graph_of(shape)
    run = replay_graph(graph, slack="kept")
    kept = total = 0
    for number, path in enumerate(window_paths(graph, run)):
        first, last = run.bounds_ps[number : number + 2].tolist()
        assert (path.start_ps < path.end_ps).all()
        assert path.end_ps[:1].tolist() == ([last] if last > first else [])
        assert path.start_ps[-1:].tolist() == ([first] if last > first else [])
        assert path.end_ps[1:].tolist() == path.start_ps[:-1].tolist()
        for node, edge, start, end in zip(
            *(column.tolist() for column in (path.node, path.edge)),
            *(column.tolist() for column in (path.start_ps, path.end_ps)),
            strict=True,
        ):
            total += end - start
            if edge == NOTHING or (edge >= 0 and graph.kept[node]):
                kept += end - start
            if edge >= 0:
                assert graph.edges.target[edge] == node
                assert run.via[node] == edge
                assert end <= run.start_ps[node]
            elif edge == NODE:
                assert run.start_ps[node] <= start
                assert end <= run.start_ps[node] + run.dur_ps[node]
    assert kept_share(graph, run) == pytest.approx(kept / total if total > 0 else 0)


@given(shape=SHAPES, bits=st.integers(0, 255))
def test_a_step_needs_the_work_of_its_busiest_track(shape: Any, bits: int) -> None:
    graph = graph_of(shape)
    edit = copies_moved(graph, np.array(chosen_nodes(graph, bits)))
    alone = {
        source
        for number, (source, _, kind, from_start, _) in enumerate(edges_of(graph))
        if kind == EdgeKind.STREAM and edit.from_start[number] and not from_start
    }
    sums: dict[tuple[bool, int], int] = {}
    for node in range(graph.count):
        if is_measured(graph, node) and graph.nodes.kind[node] != NodeKind.OUTSIDE:
            left = min(int(edit.dur_ps[node]), 35 - int(graph.nodes.start_ps[node]))
            key = (node in alone, int(graph.nodes.track[node]))
            sums[key] = sums.get(key, 0) + left
    expected = max(sums.values(), default=0) / 2
    assert largest_floor_ps(graph, edit) == expected


def line_of(durations: list[int], *, kinds: list[NodeKind] | None = None) -> Graph:
    """Nodes in a row from 0 on, each of which begins where the former ends.

    The windows are [0, 20) and [20, 40) and begin with the first and third of four.
    """
    starts = np.append(0, np.cumsum(durations))[:-1].tolist()
    rows = [
        (kind, 0, start, dur, 0, False, False)
        for start, dur, kind in zip(
            starts, durations, kinds or [NodeKind.HOST] * 4, strict=True
        )
    ]
    lines = [(node, node + 1, EdgeKind.THREAD, False, 0) for node in range(3)]
    graph = graph_of((rows, lines, 0))
    whole = Sampled(
        np.array([0, 1]), np.array([0, 20, 40]), 0, by_device=False, open_end=True
    )
    return Graph(
        **{name: getattr(graph, name) for name in graph.__struct_fields__}
        | {
            "sampled": whole,
            "boundary": np.array([0, 2, -1], np.int32),
            "completes": np.array([1, 1, 2, 2], np.int32),
        }
    )


def test_a_gain_is_what_a_step_gets_shorter() -> None:
    """Two windows of 20: the device's 15 and 12 of them are halved."""
    kinds = [NodeKind.HOST, NodeKind.DEVICE] * 2
    graph = line_of([5, 15, 8, 12], kinds=kinds)
    edit = kernels_scaled(graph, np.ones(4, np.bool_), factor=0.5)
    found = replayed_gain(graph, edit)
    assert (found.low_ps, found.high_ps) == (7.0, 7.0)  # (8 + 6) / 2
    assert [each.tolist() for each in found.by_window_ps] == [[8, 6], [8, 6]]
    assert (found.period_ps, found.kept_percent) == (20.0, 0.0)
    assert found.floor_ps == (5 + 7 + 8 + 6) / 2
    check = replay_check(step_graph=graph)
    assert check.stands
    assert (check.windows, check.starts) == (2, 0)
    assert (check.median_error_percent, check.p95_error_percent) == (0.0, 0.0)
    assert check.unexplained_percent == 0.0


@pytest.mark.parametrize(("kept", "reportable"), [(10.0, True), (10.1, False)])
def test_a_gain_is_reported_where_at_most_a_tenth_of_the_path_is_kept(
    kept: float, *, reportable: bool
) -> None:
    nothing = np.zeros(1, np.int64)
    gain = Gain(0.0, 0.0, (nothing, nothing), 1.0, 0.0, kept)
    assert gain.is_reportable is reportable


@pytest.mark.parametrize(
    ("errors", "stands"),
    [
        ((1.0, 3.0, 10.0), True),
        ((1.1, 3.0, 10.0), False),
        ((1.0, 3.1, 10.0), False),
        ((1.0, 3.0, 10.1), False),
    ],
)
def test_a_graph_stands_where_it_repeats_the_recording_and_explains_its_starts(
    errors: tuple[float, float, float], *, stands: bool
) -> None:
    found = Identity(5, *errors, starts=40)
    assert found.stands is stands
    assert (found.why_not is None) is stands


@given(shape=SHAPES)
def test_the_check_compares_the_replay_without_slack_with_the_recording(
    shape: Any,
) -> None:
    graph = graph_of(shape)
    starts, reached = slow_replay(graph, plain(graph), slack="dropped", edited=False)
    if min(starts) < NEVER // 2:
        return
    recorded = [NEVER] * 3
    for bound in range(3):
        for node in range(graph.count):
            start, dur = int(graph.nodes.start_ps[node]), int(graph.nodes.dur_ps[node])
            if graph.completes[node] <= bound:
                recorded[bound] = max(recorded[bound], start + dur)
            if node in graph.boundary[: bound + 1]:
                recorded[bound] = max(recorded[bound], start)
    bounds = [
        bound + (after - before if before > NEVER and after > NEVER else 0)
        for bound, before, after in zip((10, 20, 35), recorded, reached, strict=True)
    ]
    first = 100 * abs(bounds[1] - bounds[0] - 10) / 10
    second = 100 * abs(bounds[2] - bounds[1] - 15) / 15
    low, high = sorted((first, second))
    counted = [
        bool(graph.kept[node])
        for node in range(graph.count)
        if graph.may_wait[node] and is_measured(graph, node)
    ]
    share = 100 * sum(counted) / len(counted) if counted else 0.0
    found = replay_check(step_graph=graph)
    assert found.windows == 2
    assert found.median_error_percent == pytest.approx((low + high) / 2)
    assert found.p95_error_percent == pytest.approx(low + 0.95 * (high - low))
    assert found.starts == len(counted)
    assert found.unexplained_percent == pytest.approx(share)


def test_a_graph_checks_that_its_times_do_not_contradict_its_edges() -> None:
    graph = line_of([5, 15, 8, 12])
    check_graph(graph)
    assert graph.end_ps.tolist() == [5, 20, 28, 40]
    assert graph.measured.tolist() == [True] * 4
    fields = {name: getattr(graph, name) for name in graph.__struct_fields__}
    with pytest.raises(ValueError, match="earlier"):
        check_graph(Graph(**fields | {"slack_ps": np.array([0, 0, -1, 0])}))
    loop = Edges.make_edges(EdgeKind.THREAD, np.array([0, 1]), np.array([1, 0]))
    edges, begin, order = link_edges(graph.nodes, loop)
    assert begin.tolist() == [0, 1, 2, 2, 2]
    assert (edges.source.tolist(), edges.target.tolist()) == ([1, 0], [0, 1])
    assert sorted(order.tolist()) == [2, 3]
    with pytest.raises(ValueError, match="cycle"):
        check_graph(Graph(**fields | {"order": order}))


def test_edges_without_a_source_or_a_target_are_left_out() -> None:
    parts = [
        Edges.make_edges(
            EdgeKind.EVENT, np.array([0, -1, 2]), np.array([1, 1, -1]), lag_ps=7
        ),
        Edges.make_edges(
            EdgeKind.STREAM,
            np.array([3, 0]),
            np.array([4, 0]),
            lag_ps=np.array([5, -6]),
            from_start=np.array([True, False]),
        ),
    ]
    joined = Edges.join_edges(parts)
    columns = (joined.source, joined.target, joined.from_start, joined.lag_ps)
    assert [column.tolist() for column in columns] == [
        *([0, 3, 0], [1, 4, 0], [0, 1, 0], [7, 5, -6]),
    ]
    assert joined.kind.tolist() == [EdgeKind.EVENT, EdgeKind.STREAM, EdgeKind.STREAM]
    assert len(Edges.join_edges([]).source) == 0
