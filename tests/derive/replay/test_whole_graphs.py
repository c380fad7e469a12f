"""Every node and edge of the graphs of small programs, worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import replayed as by_hand
from tests.support.traces.replayed import STEPS, US, Program, call, kernel, step

from stepscope.derive.replay.nodes import NEVER, EdgeKind, NodeKind

if TYPE_CHECKING:
    from stepscope.derive.replay.nodes import Graph

HOST, RESUMED, OUTSIDE, DEVICE = NodeKind
#: When the last window ends: with its marker, 10 µs before another would begin.
END = 1000.0 * STEPS - 10


def nodes_of(graph: Graph, origin: int = 0) -> list[tuple[NodeKind, float, float]]:
    """(kind, start, end) of each node in µs."""
    nodes = graph.nodes
    return [
        (NodeKind(kind), (start - origin) / US, (end - origin) / US)
        for kind, start, end in zip(
            nodes.kind.tolist(),
            nodes.start_ps.tolist(),
            graph.end_ps.tolist(),
            strict=True,
        )
    ]


def edges_of(graph: Graph) -> set[tuple[Any, ...]]:
    """(kind, source, target, lag in µs, whether from the start)."""
    edges = graph.edges
    return {
        (EdgeKind(kind), source, target, lag / US, bool(early))
        for kind, source, target, lag, early in zip(
            *(each.tolist() for each in (edges.kind, edges.source, edges.target)),
            *(each.tolist() for each in (edges.lag_ps, edges.from_start)),
            strict=True,
        )
    }


def chain(first: int, last: int) -> set[tuple[Any, ...]]:
    """Each node follows the one before it on its thread."""
    return {
        (EdgeKind.THREAD, node - 1, node, 0.0, False) for node in range(first + 1, last)
    }


def test_every_node_and_edge_of_a_program_that_waits_for_its_kernels() -> None:
    """Three pieces a step: to the wait, to the return, to the next step."""
    graph = Program(by_hand.synchronising()).graph
    pieces, kernels = [], []
    for at in range(STEPS):
        begin = 1000.0 * at
        pieces += [
            (HOST, begin, begin + 20),
            (RESUMED, begin + 605, begin + 610),
            (HOST, begin + 610, min(begin + 1000, END)),
        ]
        kernels.append((DEVICE, begin + 10, begin + 605))
    assert nodes_of(graph) == [*pieces, *kernels]
    first = len(pieces)
    expected = chain(0, first)
    for at in range(STEPS):
        expected |= {
            (EdgeKind.LAUNCH, 3 * at, first + at, 10.0, True),
            (EdgeKind.SYNCHRONISE, first + at, 3 * at + 1, 0.0, False),
        }
        if at:
            stream = (EdgeKind.STREAM, first + at - 1, first + at, 3.0, False)
            expected.add(stream)
    assert edges_of(graph) == expected
    # No piece begins at the end of the last window: all work is done then.
    assert graph.boundary.tolist() == [*(3 * at for at in range(STEPS)), -1]
    assert graph.completes.tolist() == [*[STEPS] * first, *range(1, STEPS + 1)]
    assert not graph.slack_ps.any()
    assert not graph.kept.any()
    assert (graph.arrival_of == -1).all()
    waiting = [kind in (RESUMED, DEVICE) for kind, _, _ in nodes_of(graph)]
    assert graph.may_wait.tolist() == waiting
    assert graph.not_before_ps.tolist() == [0] + [NEVER] * (graph.count - 1)
    assert graph.nodes.row.tolist() == [*[-1] * first, *range(STEPS)]
    names = {HOST: "main", RESUMED: "main", DEVICE: "Stream #7(Compute)"}
    tracks = Program(by_hand.synchronising()).profile.table("vm", "tracks")["name"]
    found = [tracks[track] for track in graph.nodes.track.tolist()]
    assert found == [names[kind] for kind, _, _ in nodes_of(graph)]


def test_every_node_and_edge_of_a_program_that_waits_for_its_loader() -> None:
    """The worker starts 5 after the wait began; it ends 10 before the call returns."""
    graph = Program(by_hand.loading()).graph
    pieces, batches = [], []
    for at in range(STEPS):
        begin = 1000.0 * at
        pieces += [
            (HOST, begin, begin + 5),
            (RESUMED, begin + 710, begin + 720),
            (HOST, begin + 720, min(begin + 1000, END)),
        ]
        batches.append((HOST, begin + 10, begin + 710))
    assert nodes_of(graph) == [*pieces, *batches]
    first = len(pieces)
    expected = chain(0, first) | chain(first, first + STEPS)
    for at in range(STEPS):
        expected |= {
            (EdgeKind.HANDOVER, 3 * at, first + at, 5.0, False),
            (EdgeKind.HANDOVER, first + at, 3 * at + 1, 0.0, False),
        }
    assert edges_of(graph) == expected
    assert not graph.slack_ps.any()
    assert not graph.kept.any()
    assert (graph.completes == STEPS).all()
    waiting = [kind == RESUMED for kind, _, _ in pieces] + [True] * STEPS
    assert graph.may_wait.tolist() == waiting


def test_a_wait_that_nothing_ends_is_a_node_and_what_follows_has_arrived() -> None:
    """The worker is not recorded; each wait takes 715 of 1000."""
    lines = [line for line in by_hand.loading() if line[0] != "worker"]
    graph = Program(lines).graph
    expected = []
    for at in range(STEPS):
        begin = 1000.0 * at
        expected += [
            (HOST, begin, begin + 5),
            (OUTSIDE, begin + 5, begin + 720),
            (RESUMED, begin + 720, min(begin + 1000, END)),
        ]
    assert nodes_of(graph) == expected
    assert edges_of(graph) == chain(0, graph.count)
    kinds = [kind for kind, _, _ in nodes_of(graph)]
    assert graph.kept.tolist() == [kind == OUTSIDE for kind in kinds]
    assert graph.may_wait.tolist() == [kind in (OUTSIDE, RESUMED) for kind in kinds]
    arrivals = [at - 1 if kind == RESUMED else -1 for at, kind in enumerate(kinds)]
    assert graph.arrival_of.tolist() == arrivals


@pytest.mark.parametrize(("period", "arrives"), [(2999, True), (3000, False)])
def test_only_a_wait_of_more_than_a_hundredth_of_a_step_shows_an_arrival(
    period: int, *, arrives: bool
) -> None:
    """The wait lasts 30 µs."""
    lines = []
    for at in range(STEPS):
        begin = period * at
        lines += [
            step(at, begin, period),
            ("main", "IteratorGetNext", begin + 5, 30),
            ("main", "a/MatMul:MatMul", begin + 40, period - 60),
        ]
    graph = Program(lines).graph
    outside = graph.nodes.kind == OUTSIDE
    assert outside.sum() == STEPS
    assert bool((graph.arrival_of >= 0).any()) is arrives


def test_every_node_and_edge_where_the_device_begins_the_windows() -> None:
    """Kernels of 900 launched every 100: the host is done with its steps early."""
    lines = []
    for at in range(6):
        lines += [step(at, 100 * at, 90), call(at + 1, 100 * at + 10, 5)]
        lines.append(kernel(at + 1, 50 + 1000 * at, 990))
    found = Program(lines)
    graph = found.graph
    assert graph.sampled.by_device
    starts = [50 + 1000 * at for at in range(6)]
    # The last window ends with its kernel.
    bounds = [*starts, starts[-1] + 990]
    assert graph.sampled.bounds_ps.tolist() == [at * US for at in bounds]
    device = [node for node in nodes_of(graph) if node[0] == DEVICE]
    assert device == [(DEVICE, float(at), at + 990.0) for at in starts]
    first = graph.count - len(device)
    assert graph.boundary.tolist() == [*range(first, graph.count), -1]
    # Work is due at the first bound after its begin.
    assert graph.completes[first:].tolist() == [1, 2, 3, 4, 5, 6]
    streams = {edge for edge in edges_of(graph) if edge[0] == EdgeKind.STREAM}
    assert streams == {
        (EdgeKind.STREAM, node - 1, node, 10.0, False)
        for node in range(first + 1, graph.count)
    }


def test_windows_begin_on_the_thread_that_runs_the_program_behind_its_calls() -> None:
    """The calls are over after 60; six runs of 80 begin at 5, 105 and so on."""
    lines = [step(at, 10 * at, 9) for at in range(6)]
    for at in range(6):
        begin = 5 + 100 * at
        lines.append(("executor", "dot", begin, 50, {"hlo_op": "dot"}))
        lines.append(("executor", "add", begin + 50, 30, {"hlo_op": "add"}))
    found = Program(lines)
    graph = found.graph
    bounds = [(5 + 100 * at) * US for at in range(6)]
    assert graph.sampled.bounds_ps.tolist() == bounds
    assert graph.nodes.start_ps[graph.boundary].tolist() == bounds
    # The run that begins at the last bound is no longer replayed.
    executor, main = found.track("executor"), found.track("main")
    assert graph.nodes.track[graph.boundary].tolist() == [*[executor] * 5, main]


def test_the_end_of_an_open_window_is_when_all_of_its_work_is_done() -> None:
    lines = [step(0, 0, 700), call(1, 100), kernel(1, 110, 500)]
    lines.append(("worker", "a/MatMul:MatMul", 300, 500))
    graph = Program(lines).graph
    assert graph.sampled.open_end
    assert graph.sampled.bounds_ps.tolist() == [0, 700 * US]
    # The thread is cut at its call, and where the other thread begins.
    assert nodes_of(graph) == [
        *((HOST, 0, 100), (HOST, 100, 300), (HOST, 300, 700)),
        *((HOST, 300, 700), (DEVICE, 110, 610)),
    ]
    assert edges_of(graph) == {
        *chain(0, 3),
        (EdgeKind.HANDOVER, 2, 3, 0.0, True),
        (EdgeKind.LAUNCH, 1, 4, 10.0, True),
    }
    assert graph.completes.tolist() == [1] * 5
    assert graph.boundary.tolist() == [0, -1]
