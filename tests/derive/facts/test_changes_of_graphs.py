"""The edits of a step's graph for each kind of change, with nodes chosen by hand."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.support.traces.literal import ABSENT, spans_of

from stepscope.derive.facts.savings.what_if_changes import (
    Carried,
    CopiesInParallel,
    Faster,
    Gone,
    Joined,
    Levelled,
    NotAwaited,
    Quiet,
    Recorded,
    apply_change,
)
from stepscope.derive.replay.activities import Sampled
from stepscope.derive.replay.critical import without_owners
from stepscope.derive.replay.nodes import (
    EdgeKind,
    Edges,
    Edit,
    Graph,
    NodeKind,
    Nodes,
    collectives_at_rate,
    copies_moved,
    joint_edit,
    kernels_scaled,
    launched_as_one,
    link_edges,
    synchronising_removed,
    threads_faster,
)
from stepscope.derive.step_time.host_time import HostCode
from stepscope.derive.step_time.owners import IDLE_OWNERS

#: A time in the graph, of two windows, as ms per step.
MS = 1e-9 / 2
HOST, RESUMED, DEVICE = NodeKind.HOST, NodeKind.RESUMED, NodeKind.DEVICE
# A thread, and a stream of each of two devices: kind, track, start, duration.
NODES = (
    (HOST, 0, 0, 20),
    (RESUMED, 0, 60, 10),
    (HOST, 0, 100, 30),
    (RESUMED, 0, 170, 10),
    (DEVICE, 1, 10, 20),
    (DEVICE, 1, 30, 30),
    (DEVICE, 1, 60, 40),
    (DEVICE, 1, 100, 20),
    (DEVICE, 1, 130, 20),
    (DEVICE, 1, 150, 10),
    (DEVICE, 2, 20, 16),
    (DEVICE, 2, 40, 20),
)
FIRST = 4
CLASS_OF = np.array([0, 1, 0, 0, 0, 2, 0, 0], np.int32)
LINES = (
    *((EdgeKind.LAUNCH, 0, node) for node in (4, 5, 6, 10, 11)),
    *((EdgeKind.LAUNCH, 2, node) for node in (7, 8, 9)),
    *((EdgeKind.STREAM, node, node + 1) for node in (4, 5, 6, 7, 8, 10)),
    *((EdgeKind.SYNCHRONISE, 5, 1), (EdgeKind.SYNCHRONISE, 9, 3)),
    *((EdgeKind.SYNCHRONISE, 6, 2), (EdgeKind.EVENT, 5, 11), (EdgeKind.THREAD, 0, 1)),
)
KIND, TRACK, START, DUR = (np.array(each) for each in zip(*NODES, strict=True))
ROW = np.maximum(np.arange(len(NODES)) - FIRST, -1)


def hand_graph() -> Graph:
    nodes = Nodes(
        KIND.astype(np.uint8),
        TRACK.astype(np.int32),
        START,
        DUR,
        np.where(KIND == DEVICE, ROW, -1).astype(np.int32),
    )
    parts = [
        Edges.make_edges(
            kind,
            np.array([a]),
            np.array([b]),
            lag_ps=3,
            from_start=kind == EdgeKind.LAUNCH,
        )
        for kind, a, b in LINES
    ]
    edges, begin, order = link_edges(nodes, Edges.join_edges(parts))
    count = len(NODES)
    return Graph(
        nodes=nodes,
        begin=begin,
        edges=edges,
        order=order,
        slack_ps=np.ones(count, np.int64),
        kept=np.zeros(count, np.bool_),
        not_before_ps=np.zeros(count, np.int64),
        may_wait=np.ones(count, np.bool_),
        arrival_of=np.full(count, -1, np.int32),
        sampled=Sampled(
            np.array([4, 5]),
            np.array([0, 100, 200]),
            -50,
            by_device=False,
            open_end=False,
        ),
        boundary=np.array([0, 2, -1], np.int32),
        completes=np.array([int(start >= 100) + 1 for start in START], np.int32),
    )


GRAPH = hand_graph()
IDLE = dict.fromkeys(IDLE_OWNERS, spans_of())
ACCOUNT = SimpleNamespace(
    devices=tuple(
        SimpleNamespace(
            device=device,
            idle=IDLE
            | {"input": spans_of((0, 10 + shift)), "launch": spans_of((160, 170))},
            between=spans_of((165, 200)),
        )
        for device, shift in ((0, 0), (1, 7))
    )
)
COPIED = {"copy_in": spans_of((30, 60)), "copy_out": spans_of((60, 95))}
SETS = SimpleNamespace(
    devices=[
        SimpleNamespace(
            device=device,
            orders=COPIED,
            charged=COPIED,
            busy=spans_of((begin, 260)),
        )
        for device, begin in ((0, -90), (1, 20))
    ]
)


def rows(*chosen: int) -> Any:
    return np.isin(np.arange(len(CLASS_OF)), chosen)


def recorded(**fields: Any) -> Recorded:
    usual = {
        "graph": GRAPH,
        "account": ACCOUNT,
        "host_classes": SimpleNamespace(
            by_thread={0: {HostCode.FILE_READ: spans_of((2, 9))}}
        ),
        "device_sets": SETS,
        "tracks": pl.DataFrame({"device": pl.Series([None, 0, 1], dtype=pl.Int32)}),
        "class_of": CLASS_OF,
        "copies": {"copy_in": rows(1, 6), "copy_out": rows(2)},
        "exchanges": rows(5),
        "topics": {
            0: {"read_back": spans_of((60, 62), (160, 170), (190, 220))},
            1: {"read_back": spans_of()},
        },
    }
    return Recorded(**(usual | fields))


def nodes_of(*chosen: int) -> Any:
    return np.isin(np.arange(len(NODES)), chosen)


def columns_of(edit: Edit) -> list[Any]:
    arrays = (edit.dur_ps, edit.lag_ps, edit.from_start, edit.max_delay_ps, edit.comes)
    return [array.tolist() for array in arrays]


def judge(change: Any, least: Edit, most: Edit | None = None, **told: Any) -> None:
    """The edits of a change on device 0, and all that is told of them."""
    edits = apply_change(change, recorded(), told.pop("on", 0))
    assert columns_of(edits.least) == columns_of(least)
    assert columns_of(edits.most) == columns_of(most or least)
    assert (edits.least is edits.most) == (most is None)
    usual = {"compared": "nothing", "effect_ms": None, "partly": False, "device": True}
    fields = {name: getattr(edits, name) for name in usual}
    claimed = told.pop("claimed_ps", 0) * MS
    assert fields == usual | told
    assert edits.claimed_ms == pytest.approx(claimed)


def test_faster_kernels_of_some_classes_are_scaled() -> None:
    """Of 20, 40, 20, 20, 10, 16 and 20, a quarter stays, rounded down."""
    chosen = nodes_of(4, 6, 7, 8, 9, 10, 11)
    low, high = (kernels_scaled(GRAPH, chosen, factor=left) for left in (0.5, 0.25))
    gone = 15 + 30 + 15 + 15 + 8 + 12 + 15
    judge(Faster([0, 2], (0.5, 0.25)), low, high, claimed_ps=gone, compared="bound")
    same = kernels_scaled(GRAPH, nodes_of(5), factor=1.0)
    judge(Faster({1}, (1.0, 1.0)), same, same)


#: Kernels of class 0 that follow each other on a stream, in one window.
RUNS = {7: 0, 8: 0, 10: 1, 11: 1}


def test_kernels_in_a_row_are_launched_as_one() -> None:
    """The kernel that begins at 100 is in the second window, its neighbour is not."""
    runs = np.array([RUNS.get(node, -1) for node in range(len(NODES))], np.int32)
    joined = launched_as_one(GRAPH, runs)
    together = joint_edit(GRAPH, [joined])
    judge(Joined([0], 2), together, together)
    low, high = (
        joint_edit(GRAPH, [kernels_scaled(GRAPH, runs >= 0, factor=left), joined])
        for left in (0.75, 0.5)
    )
    judge(
        Joined([0], 2, (0.75, 0.5)),
        low,
        high,
        claimed_ps=(20 + 20 + 16 + 20) / 2,
        compared="bound",
    )
    nothing = joint_edit(GRAPH, [])
    judge(Joined([0], 3), nothing, nothing)
    # Of three in a row on the first stream of one window.
    three = np.isin(np.arange(len(NODES)), (4, 5, 6)).astype(np.int32) - 1
    third, shorter = (
        joint_edit(
            GRAPH,
            [
                kernels_scaled(GRAPH, three >= 0, factor=left),
                launched_as_one(GRAPH, three),
            ],
        )
        for left in (1.0, 0.5)
    )
    judge(
        Joined([0, 1], 3, (1.0, 0.5)),
        third,
        shorter,
        claimed_ps=10 + 15 + 20,
        compared="bound",
    )


def test_activities_of_a_device_except_collectives_are_levelled() -> None:
    low, high = (
        kernels_scaled(GRAPH, nodes_of(4, 5, 6, 7, 8), factor=left)
        for left in (0.9, 0.5)
    )
    gone = 10 + 15 + 20 + 10 + 10
    judge(Levelled((0.9, 0.5)), low, high, claimed_ps=gone, compared="bound")
    low, high = (
        kernels_scaled(GRAPH, nodes_of(10, 11), factor=left) for left in (0.9, 0.5)
    )
    judge(Levelled((0.9, 0.5)), low, high, on=1, claimed_ps=18, compared="bound")


def test_collectives_take_the_time_that_their_bytes_need() -> None:
    needed = np.zeros(len(NODES), np.int64)
    needed[[7, 5, 4]] = 5, 50, 7
    edit = collectives_at_rate(GRAPH, nodes_of(4, 5, 7), needed_ps=needed)
    judge(Carried({3: 5, 1: 50, 0: 7}), edit)
    assert edit.dur_ps[[4, 5, 7]].tolist() == [7, 30, 5]


def test_threads_are_quiet_while_a_function_runs() -> None:
    spans = spans_of((-10, 5), (150, 172), (190, 250))
    edit = threads_faster(GRAPH, spans, factor=inf, tracks={0})
    judge(
        Quiet(spans, [0], 0.25),
        edit,
        claimed_ps=5 + 22 + 10,
        compared="effect",
        effect_ms=0.25,
        device=False,
        partly=True,
    )


def test_calls_that_end_when_a_topic_begins_do_not_wait() -> None:
    """A call ends at 60, where the topic begins, and one at 170, where it is over."""
    edit = synchronising_removed(GRAPH, nodes_of(1))
    judge(NotAwaited("read_back"), edit, claimed_ps=2 + 10 + 10, compared="effect")
    none = joint_edit(GRAPH, [])
    judge(NotAwaited("read_back"), none, on=1, compared="effect")


@pytest.mark.parametrize(
    ("owners", "moved", "awaited", "claimed_ps"),
    [
        # A call at 60 waits for the copy in; the wait for the copy out remains.
        (("copy_in",), (5,), (1,), 30),
        (("copy_out",), (6,), (), 35),
        (("copy_in", "copy_out"), (5, 6), (1,), 65),
    ],
)
def test_copies_run_in_parallel_and_only_results_are_awaited(
    owners: Any, moved: Any, awaited: Any, claimed_ps: int
) -> None:
    edit = joint_edit(
        GRAPH,
        (
            copies_moved(GRAPH, nodes_of(*moved)),
            synchronising_removed(GRAPH, nodes_of(*awaited)),
        ),
    )
    judge(
        CopiesInParallel(owners, 0.5),
        edit,
        claimed_ps=claimed_ps,
        compared="effect",
        effect_ms=0.5,
    )


@pytest.mark.parametrize(
    ("owners", "place", "on", "claimed_ps"),
    [
        (("input",), "any", 0, 10),
        (("input",), "any", 1, 17),
        (("launch",), "between", 0, 5),
        (("launch", "input"), "inside", 0, 15),
        (("copy_in",), "any", 0, 30),
    ],
)
def test_the_time_of_owners_goes(
    owners: Any, place: str, on: int, claimed_ps: int
) -> None:
    known = recorded()
    edit = without_owners(
        GRAPH,
        owners,
        place=place,
        device=on,
        account=known.account,
        host_classes=known.host_classes,
        device_sets=known.device_sets,
        tracks=known.tracks,
    )
    judge(
        Gone(owners, place),
        edit,
        on=on,
        claimed_ps=claimed_ps,
        compared="effect",
        device=False,
        partly="input" in owners,
    )


def test_devices_are_busy_from_the_window_before_the_first() -> None:
    assert recorded().device_busy == spans_of((-50, 200))
    assert recorded(device_sets=ABSENT).device_busy == spans_of()
