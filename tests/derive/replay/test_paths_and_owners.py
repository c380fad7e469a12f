"""Owners and names of the critical path, and edits of owners, worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces.literal_graphs import SHAPES, edges_of, graph_of
from tests.support.traces.literal_tables import activity_of, tables_of, types_of

from stepscope.derive.intervals.nesting import nest_events
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.replay.activities import Sampled
from stepscope.derive.replay.critical import (
    PATH_ROWS,
    CriticalPath,
    Silences,
    claimed_ps,
    critical_path,
    idle_spans,
    path_owners,
    silent_share,
    without_owners,
)
from stepscope.derive.replay.nodes import (
    NEVER,
    EdgeKind,
    Edges,
    Graph,
    NodeKind,
    Nodes,
    link_edges,
    unchanged_edit,
)
from stepscope.derive.step_time.host_time import HostCode
from stepscope.derive.step_time.owners import BUSY_OWNERS, IDLE_OWNERS
from stepscope.unavailable import Unavailable

WHY = Unavailable(code="NOT_RECORDED", reason="no", remedy="record it")
Pairs = list[tuple[int, int]]


def hand_graph(*, kept: int = -1) -> Graph:
    """A thread (track 0) that launches work on a stream (2) and waits for it, twice.

    The windows are [0, 20) and [20, 40); one node may have an unexplained delay.
    """
    host, device, resumed = NodeKind.HOST, NodeKind.DEVICE, NodeKind.RESUMED
    rows = [
        *((host, 0, 0, 5, -1), (device, 2, 8, 7, 0), (device, 2, 16, 2, 1)),
        *((resumed, 0, 20, 6, -1), (device, 2, 28, 12, 2)),
    ]
    kinds, tracks, starts, durs, of = zip(*rows, strict=True)
    nodes = Nodes(
        np.array(kinds, np.uint8),
        np.array(tracks, np.int32),
        np.array(starts),
        np.array(durs),
        np.array(of, np.int32),
    )
    lines = [
        *((0, 1, EdgeKind.LAUNCH, 3), (1, 2, EdgeKind.STREAM, 1)),
        *((2, 3, EdgeKind.SYNCHRONISE, 2), (3, 4, EdgeKind.LAUNCH, 2)),
    ]
    parts = [
        Edges.make_edges(kind, np.array([a]), np.array([b]), lag_ps=lag)
        for a, b, kind, lag in lines
    ]
    edges, begin, order = link_edges(nodes, Edges.join_edges(parts))
    return Graph(
        nodes=nodes,
        begin=begin,
        edges=edges,
        order=order,
        slack_ps=np.zeros(5, np.int64),
        kept=np.arange(5) == kept,
        not_before_ps=np.array([0, *[NEVER] * 4]),
        may_wait=np.array([False, True, True, True, True]),
        arrival_of=np.full(5, -1, np.int32),
        sampled=Sampled(
            np.array([4, 5]), np.array([0, 20, 40]), 0, by_device=False, open_end=False
        ),
        boundary=np.array([0, 3, -1], np.int32),
        completes=np.array([1, 1, 1, 2, 2], np.int32),
    )


def spans_of(sets: dict[Any, Pairs]) -> dict[Any, Spans]:
    return {name: Spans.of(pairs) for name, pairs in sets.items()}


def account_of(idle: dict[str, Pairs], between: Pairs = ()) -> Any:
    """The account of device 0."""
    every = dict.fromkeys(IDLE_OWNERS, Spans.empty()) | spans_of(idle)
    device = SimpleNamespace(device=0, idle=every, between=Spans.of(between))
    return SimpleNamespace(devices=(device,))


def sets_of(*devices: dict[str, Pairs]) -> Any:
    """Devices from 0 on; two owners never overlap."""
    return SimpleNamespace(
        devices=[
            SimpleNamespace(
                device=number, orders=spans_of(each), charged=spans_of(each)
            )
            for number, each in enumerate(devices)
        ]
    )


class States:
    """What the thread 0 did: input from 0 to 3, and the program's work."""

    claims = (
        ("input", Spans.of([(0, 3)])),
        ("host_compute", Spans.of([(0, 5), (22, 26)])),
    )

    def claims_of_any_thread(self, within: Spans) -> Any:
        assert within == Spans.of([(0, 40)])
        return "claims of any thread"

    def thread_claims(self, track: int, within: Spans, others: Any) -> Any:
        assert (track, others) == (0, "claims of any thread")
        assert within == Spans.of([(0, 40)])
        return self.claims

    def claims_without_device(self, within: Spans) -> Any:
        return self.claims_of_any_thread(within) and self.claims


WORKED = {
    "compute_32": [(8, 12), (16, 18), (28, 33)],
    "copy_in": [(12, 15), (33, 40)],
}


def path_of(graph: Graph, **change: Any) -> CriticalPath:
    lines = [(0, 0, 0, 30), (0, 1, 2, 2), (2, 2, 8, 7), (2, 3, 16, 2), (2, 2, 28, 12)]
    stream = {"name": "stream", "kind": "stream", "device": 0}
    tracks, events = tables_of(lines, ["main", "other", stream])
    kinds = [(2, 0, "kernel", kind, 0, 1) for kind in (2, 3, 2)]
    values: dict[str, Any] = {
        "account": account_of({}),
        "host_states": States(),
        "device_sets": sets_of(WORKED),
        "device_activity": activity_of(kinds),
    }
    return critical_path(
        step_graph=graph,
        tracks=tracks,
        events=events,
        event_types=types_of(["train", "load", "gemm", "relu"]),
        event_nesting=nest_events(tracks, events),
        **values | change,
    )


PATH = [
    (4, 0, "load", "input", "work", 0, 5),
    (4, 2, None, "launch", "launch", 5, 3),
    (4, 2, "gemm", "compute_32", "work", 8, 7),
    (4, 2, None, "switch", "stream", 15, 1),
    (4, 2, "relu", "compute_32", "work", 16, 2),
    (4, 0, None, "sync", "synchronise", 18, 2),
    (5, 0, "train", "host_compute", "work", 20, 6),
    (5, 2, None, "launch", "launch", 26, 2),
    (5, 2, "gemm", "copy_in", "work", 28, 12),
]


def test_every_column_of_the_critical_path() -> None:
    found = path_of(hand_graph())
    assert found.rows.schema == PATH_ROWS
    assert found.rows.rows() == PATH
    assert found.unexplained_percent == 0.0
    shares = found.share("owner")
    assert shares.columns == ["owner", "time_ps", "percent"]
    assert shares.rows() == [
        *(("copy_in", 12, 30.0), ("compute_32", 9, 22.5), ("host_compute", 6, 15.0)),
        *(
            ("input", 5, 12.5),
            ("launch", 5, 12.5),
            ("sync", 2, 5.0),
            ("switch", 1, 2.5),
        ),
    ]
    assert found.share("track").rows() == [(2, 27, 67.5), (0, 13, 32.5)]
    nothing = CriticalPath(found.rows[:0], 0.0)
    assert nothing.share("owner").is_empty()


def test_an_unexplained_delay_after_a_stream_is_queued() -> None:
    found = path_of(hand_graph(kept=2))
    assert found.unexplained_percent == 25.0
    assert found.rows["owner"][3] == "queued"
    owners = found.rows["owner"].to_list()
    del owners[3]
    assert owners == [row[3] for row in PATH if row[5] != 15]


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("host_states", {0: "unexplained", 6: "unexplained"}),
        ("device_sets", dict.fromkeys((2, 4, 8), "unexplained")),
        ("device_activity", {}),
    ],
)
def test_what_was_not_recorded_has_no_owner_or_name(
    name: str, lost: dict[int, str]
) -> None:
    found = path_of(hand_graph(), **{name: WHY})
    expected = [lost.get(at, row[3]) for at, row in enumerate(PATH)]
    assert found.rows["owner"].to_list() == expected
    names = [row[2] for row in PATH]
    if name == "device_activity":
        names = [None if each in ("gemm", "relu") else each for each in names]
    assert found.rows["name"].to_list() == names


def test_without_a_device_threads_claim_time_together() -> None:
    without = account_of({})
    without.devices[0].device = None
    assert path_of(hand_graph(), account=without).rows.rows() == PATH


def silences_of(busy: Pairs, ran: dict[int, Pairs]) -> Silences:
    classes: Any = SimpleNamespace(by_thread={0: spans_of(ran)})
    return Silences(hand_graph(), classes, Spans.of(busy))


def test_a_thread_that_is_silent_while_a_device_works_waits_for_it() -> None:
    """Of the 6 from 20 on, the thread is silent for 4 or 3 of them."""
    graph = hand_graph()
    sets = sets_of(WORKED | {"memset": [(20, 25)]})
    given_values = {
        "account": account_of({}),
        "host_states": States(),
        "device_sets": sets,
    }
    common: Any = given_values
    shares = {row[0]: row[2] for row in path_of(graph).share("owner").rows()}
    working = silences_of([(20, 26)], {HostCode.OUTPUT: [(20, 23)]})
    found = path_owners(graph, unchanged_edit(graph), silences=working, **common)
    assert found == pytest.approx(shares)
    assert list(found) == [
        *("copy_in", "compute_32", "host_compute", "input", "launch", "sync", "switch"),
    ]
    silent = silences_of([(20, 26)], {HostCode.OUTPUT: [(20, 22)]})
    found = path_owners(graph, unchanged_edit(graph), silences=silent, **common)
    del shares["host_compute"]
    assert found == pytest.approx(shares | {"memset": 15.0})
    assert silent_share(graph, unchanged_edit(graph), silent) == 4 / 40
    assert silent_share(graph, unchanged_edit(graph), working) == 3 / 40


def test_only_threads_have_silences_and_only_long_ones() -> None:
    """A hundredth of a step of 20 is 0.2."""
    silences = silences_of([(3, 30)], {HostCode.OUTPUT: [(0, 1), (4, 23)]})
    every = np.arange(5)
    assert silences.may_hold(every).tolist() == [True, False, False, True, False]
    assert [silences.silent_time(node) for node in (0, 3)] == [1, 3]
    assert silences_of([], {}).silent_time(0) == 0


# Time and edits of owners.


@pytest.mark.parametrize(
    ("place", "pairs"),
    [
        ("any", [(5, 8), (10, 20)]),
        ("inside", [(5, 8), (10, 15)]),
        ("between", [(15, 20)]),
    ],
)
def test_idle_time_of_owners_is_inside_or_between_steps(
    place: str, pairs: Pairs
) -> None:
    account = account_of({"sync": [(0, 8)], "input": [(10, 30)]}, [(15, 40)])
    (device,) = account.devices
    owners = ("sync", "input", "compute_32")
    found = idle_spans(device, owners, place=place, within=(5, 20))
    assert found == Spans.of(pairs)
    time = sum(b - a for a, b in pairs)
    common: Any = {"device": 0, "account": account}
    # The windows are [0, 40): all of the owners' time counts.
    claimed = {"any": 8 + 20, "inside": 8 + 5, "between": 15}[place]
    graph = hand_graph()
    sets = sets_of(WORKED, {"compute_32": [(0, 40)]})
    alone = claimed_ps(graph, owners, place=place, device_sets=WHY, **common)
    assert alone == claimed >= time
    both = claimed_ps(graph, owners, place=place, device_sets=sets, **common)
    assert both == claimed + (0 if place == "between" else 11)


PAIRS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=2).map(
    lambda pairs: [(a, a + b) for a, b in pairs]
)


def inside(sets: Any, start: int, end: int) -> int:
    return sum(any(a <= t < b for a, b in sets) for t in range(start, end))


@given(
    shape=SHAPES,
    idle=PAIRS,
    ran=st.tuples(PAIRS, PAIRS),
    worked=PAIRS,
    owners=st.sampled_from(
        (("input",), ("launch",), ("copy_in",), ("input", "copy_in"))
    ),
    place=st.sampled_from(("any", "between")),
)
def test_edits_of_owners_equal_a_plain_loop(
    *, shape: Any, idle: Pairs, ran: Any, worked: Pairs, owners: Any, place: str
) -> None:
    """Threads read files (input) and write; devices 0 and 1 copy at the same times."""
    graph = graph_of(shape)
    reading, writing = (Spans.of(pairs) for pairs in ran)
    writing = writing - reading
    by_thread = {0: {HostCode.FILE_READ: reading, HostCode.OUTPUT: writing}}
    classes: Any = SimpleNamespace(by_thread=by_thread)
    owner = owners[0] if owners[0] != "copy_in" else "sync"
    account = account_of({owner: idle}, [(0, 25)])
    tracks = pl.DataFrame({"device": pl.Series([None, 0, 1], dtype=pl.Int32)})
    copied = {"copy_in": worked}
    found = without_owners(
        graph,
        owners,
        place=place,
        device=0,
        account=account,
        host_classes=classes,
        device_sets=sets_of(copied, copied),
        tracks=tracks,
    )
    times = range(10, 35)
    removed = {
        t
        for t in times
        if owner in owners and inside(idle, t, t + 1) and (place == "any" or t < 25)
    }
    copies = "copy_in" in owners and place == "any"
    united = Spans.of(worked)
    work = {t for t in times if copies and inside(worked, t, t + 1)}
    reads = {t for t in times if reading.within([t], [t + 1])[0]}
    writes = {t for t in times if writing.within([t], [t + 1])[0]}
    nodes = graph.nodes
    for node in range(graph.count):
        start, dur = int(nodes.start_ps[node]), int(nodes.dur_ps[node])
        own = set(range(start, start + dur))
        if nodes.kind[node] == NodeKind.DEVICE:
            entire = dur > 0 and united.within([start], [start + dur])[0] == dur
            on_device = nodes.track[node] in (1, 2)
            saved = len(own & work) if copies and entire and on_device else 0
        else:
            mine, theirs = (reads, writes) if nodes.track[node] == 0 else (set(), set())
            if "input" not in owners:
                mine, theirs = set(), mine | theirs
            saved = len(own & ((removed - theirs) | (work & mine)))
        assert found.dur_ps[node] == dur - saved
        slack = int(graph.slack_ps[node])
        held = len(removed & set(range(start - slack, start)))
        assert found.max_delay_ps[node] == slack - held
        before = int(graph.arrival_of[node])
        comes = before >= 0
        if comes and "input" in owners and nodes.track[before] == 0:
            first, last = int(nodes.start_ps[before]), int(graph.end_ps[before])
            read = int(reading.clip(first, last).length_ps)
            comes = 2 * read < last - first
        assert found.comes[node] == comes
    for number, (_, target, kind, from_start, lag) in enumerate(edges_of(graph)):
        begun = int(nodes.start_ps[target])
        early = begun - max(lag, 0)
        arrives = kind == EdgeKind.LAUNCH and "launch" in owners
        gone = removed & set(range(early, begun)) if arrives else set()
        assert found.lag_ps[number] == lag - len(gone)
        assert found.from_start[number] == from_start
    assert set(owners) <= {*IDLE_OWNERS, *BUSY_OWNERS}
