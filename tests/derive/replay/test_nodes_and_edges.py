"""Pieces of threads, and edges to device activities, worked out by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.derive.intervals.spans import Spans
from stepscope.derive.replay.activities import Activities, Pace, Sampled, Thread
from stepscope.derive.replay.device_edges import (
    across_edges,
    launch_edges,
    stream_edges,
)
from stepscope.derive.replay.host_nodes import (
    Lines,
    Waits,
    copy_waits,
    device_waits,
    host_nodes,
    submitted_ps,
)
from stepscope.derive.replay.nodes import EdgeKind, Edges, NodeKind

SAMPLED = Sampled(np.array([0]), np.array([0, 50]), 0, by_device=False, open_end=False)
#: A latency of 10, a gap of 3 on a stream, and 20 after which a start is late.
PACE = Pace(latency_ps=10, stream_gap_ps=3, late_ps=20)


def thread_of(track: int, alive: list[tuple[int, int]], **spans: Any) -> Thread:
    """A thread that lives in these spans and waits in others."""
    waits = {
        name: Spans.of(spans.get(name, []))
        for name in ("for_device", "for_thread", "handed", "dispatching")
    }
    return Thread(
        track=track,
        is_program=spans.get("is_program", False),
        alive=Spans.of(alive),
        silent_for=spans.get("silent_for", False),
        moments=np.array(spans.get("moments", []), np.int64),
        **waits,
    )


def waits_of(rows: list[tuple[int, int, int, int]]) -> Waits:
    """(thread, begin, when the awaited work is done, end)."""
    columns = zip(*rows, strict=True) if rows else [()] * 4
    return Waits(*(np.array(column, np.int64) for column in columns))


# Pieces of threads.

TIME = st.integers(0, 30)


@given(
    lives=st.lists(st.lists(st.tuples(TIME, TIME), max_size=3), min_size=1, max_size=3),
    cuts=st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 33)), max_size=5),
)
def test_threads_are_cut_where_something_depends_on_them(
    lives: list[Any], cuts: list[tuple[int, int]]
) -> None:
    alive = [Spans.of([(a, a + b) for a, b in pairs if b]) for pairs in lives]
    threads = [
        thread_of(
            number, list(zip(each.start_ps.tolist(), each.end_ps.tolist(), strict=True))
        )
        for number, each in enumerate(alive)
    ]
    lines = Lines.fit_threads(SAMPLED, threads)
    cuts = [cut for cut in cuts if cut[0] < len(threads)]
    moments = tuple(np.array([cut[at] for cut in cuts], np.int64) for at in (0, 1))
    found = host_nodes(
        threads,
        lines,
        waits=waits_of([]),
        explained=np.empty(0, np.bool_),
        moments=[(moments[0], moments[1])],
    )
    bounds = [each.time_range for each in alive if each.time_range]
    first = min((span[0] for span in bounds), default=0)
    last = max((span[1] for span in bounds), default=50)
    assert (lines.origin_ps, lines.length_ps) == (first, last - first + 2)
    expected = []
    for number, each in enumerate(alive):
        times = {cut[1] for cut in cuts if cut[0] == number}
        for start, end in zip(
            each.start_ps.tolist(), each.end_ps.tolist(), strict=True
        ):
            inner = sorted(time for time in times if start < time < end)
            edges = [start, *inner, end]
            expected += [(number, *pair) for pair in pairwise(edges)]
    pieces = zip(
        lines.key_threads(found.start_key).tolist(),
        lines.time_ps(found.start_key).tolist(),
        lines.time_ps(found.end_key).tolist(),
        strict=True,
    )
    assert list(pieces) == expected
    assert (found.kind == NodeKind.HOST).all()
    # The piece of a time is the last that begins by then on the same thread.
    for number, _ in enumerate(threads):
        for time in range(first, last + 1):
            piece, begins = found.find_pieces(number, np.array([time]))
            before = [
                index
                for index, (thread, start, _) in enumerate(expected)
                if thread == number and start <= time
            ]
            begun = [each for each in before if expected[each][1] == time]
            assert piece.tolist() == [max(before, default=-1)]
            assert begins.tolist() == [bool(begun)]
            starting = found.pieces_starting(number, np.array([time]))
            assert starting.tolist() == [max(begun, default=-1)]


def test_explained_waits_are_no_pieces_and_others_are_outside() -> None:
    """Two threads from 0 to 50; each waits, and the second twice without a reason.

    The first thread does not continue after its last wait.
    """
    threads = [thread_of(4, [(0, 50)]), thread_of(7, [(0, 50)])]
    lines = Lines.fit_threads(SAMPLED, threads)
    found = host_nodes(
        threads,
        lines,
        waits=waits_of(
            [(1, 30, 30, 35), (0, 10, 18, 20), (1, 5, 5, 15), (0, 45, 50, 50)]
        ),
        explained=np.array([False, True, False, True]),
        moments=[(np.array([0, 0, 1]), np.array([14, 40, 42]))],
    )
    times = [lines.time_ps(key).tolist() for key in (found.start_key, found.end_key)]
    host, resumed, outside = NodeKind.HOST, NodeKind.RESUMED, NodeKind.OUTSIDE
    assert list(zip(*times, found.kind.tolist(), strict=True)) == [
        *((0, 10, host), (18, 20, resumed), (20, 40, host), (40, 45, host)),
        *((0, 5, host), (5, 15, outside), (15, 30, resumed)),
        *((30, 35, outside), (35, 42, resumed), (42, 50, host)),
    ]
    assert found.resumed.tolist() == [8, 1, 6, -1]
    assert found.outside.tolist() == [7, -1, 5, -1]
    # No piece is of a thread that is unknown, or that does not live yet.
    later = host_nodes(
        [thread_of(4, []), thread_of(7, [(20, 50)])],
        Lines(0, 52),
        waits=waits_of([]),
        explained=np.empty(0, np.bool_),
        moments=[],
    )
    piece, begins = later.find_pieces(
        np.array([-1, 0, 1, 1]), np.array([20, 20, 20, 25])
    )
    assert piece.tolist() == [-1, -1, 0, 0]
    assert begins.tolist() == [False, False, True, False]


def test_without_threads_there_are_no_pieces() -> None:
    lines = Lines.fit_threads(SAMPLED, [])
    assert (lines.origin_ps, lines.length_ps) == (0, 52)
    found = host_nodes(
        [], lines, waits=waits_of([]), explained=np.empty(0, np.bool_), moments=[]
    )
    assert len(found.kind) == 0
    piece, begins = found.find_pieces(0, np.array([3, 5]))
    assert (piece.tolist(), begins.tolist()) == ([-1, -1], [False, False])


# Device activities.


def activities_of(rows: list[dict[str, int]]) -> Activities:
    """By stream (track) and start; the caller is track 4 unless said otherwise."""
    plain = {"track": 0, "device": 0, "launch": 0, "caller": 4, "copy": 0}
    rows = [{**plain, "called": row["start"], **row} for row in rows]
    rows = [{"returned": row["called"], **row} for row in rows]

    def column(name: str, dtype: Any = np.int64) -> Any:
        return np.array([row[name] for row in rows], dtype)

    return Activities(
        row=np.arange(len(rows), dtype=np.int32),
        track=column("track", np.int32),
        device=column("device", np.int32),
        stream=column("track"),
        number=np.arange(len(rows)),
        start_ps=column("start"),
        end_ps=column("end"),
        launch=column("launch", np.int32),
        caller=column("caller", np.int32),
        called_ps=column("called"),
        returned_ps=column("returned"),
        copy=column("copy", np.bool_),
    )


def listed(edges: Edges) -> list[tuple[int, int, int, int]]:
    """(source, target, lag, from start) of each edge."""
    columns = (edges.source, edges.target, edges.lag_ps, edges.from_start)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize(
    ("former_end", "start", "submitted"),
    [
        # Called at 100, back at 130; the latency is 10, the gap 3.
        (0, 115, 105),  # 10 before it began
        (102, 115, 105),
        (103, 115, 100),  # its stream was free too late
        (0, 108, 100),  # 98 is before the call
        (0, 180, 130),  # 170 is after the call
    ],
)
def test_work_that_begins_late_on_a_free_stream_was_submitted_late(
    former_end: int, start: int, submitted: int
) -> None:
    found = activities_of(
        [
            {"start": former_end - 5, "end": former_end},
            {"start": start, "end": start + 5, "called": 100, "returned": 130},
        ]
    )
    assert submitted_ps(found, PACE).tolist()[1] == submitted


COPY = {"start": 110, "end": 140, "called": 100, "returned": 145, "copy": 1}


def test_a_copy_call_that_ends_with_its_copy_waits_for_it() -> None:
    cases: list[Any] = [
        ({}, 140),
        ({"end": 155, "returned": 146}, 146),  # within 10 after the return
        ({"end": 156, "returned": 145}, None),  # 11 after it
        ({"start": -290, "end": 159, "called": -300}, None),  # 14 after it, 22 of 449
        ({"start": -290, "end": 159, "called": -350}, 145),  # longer than the copy
        ({"start": -290, "end": 167, "called": -350}, 145),  # 22 of 457 after it
        ({"start": -290, "end": 168, "called": -350}, None),
        ({"copy": 0}, None),
        ({"launch": -1}, None),
        ({"caller": 9}, None),  # of another thread
        ({"start": 105, "end": 108, "returned": 110}, None),  # a call of a latency
        ({"start": 105, "end": 108, "returned": 111}, 108),
        ({"start": 100, "end": 145}, None),  # a call as long as its copy
        ({"start": 101, "end": 145}, 145),
        ({"start": 80, "end": 90}, 100),  # ended before the call began
    ]
    for change, resumed in cases:
        rows = activities_of([{"start": 0, "end": 1}, COPY | change])
        threads = [thread_of(3, [(0, 500)]), thread_of(4, [(0, 500)])]
        submitted = np.array([0, (COPY | change)["called"]])
        found = copy_waits(threads, rows, submitted, PACE)
        if resumed is None:
            assert (
                len(found.waits.thread) == len(found.wait) == len(found.activity) == 0
            )
            continue
        returned = (COPY | change)["returned"]
        assert [column.tolist() for column in found.waits] == [
            *([1], [submitted[1]], [resumed], [returned]),
        ]
        assert (found.wait.tolist(), found.activity.tolist()) == ([0], [1])


def awaited(
    activities: Activities, waits: list[tuple[int, int]], *, wide: list[tuple[int, int]]
) -> tuple[list[list[int]], list[tuple[int, int]]]:
    """The waits of two threads' synchronising calls, and the pairs (wait, activity)."""
    threads = [
        thread_of(3, [(0, 500)]),
        thread_of(4, [(0, 500)], for_device=waits),
    ]
    found = device_waits(
        threads,
        activities,
        whole_device=[Spans.empty(), Spans.of(wide)],
        clock_error_ps=2,
    )
    pairs = sorted(zip(found.wait.tolist(), found.activity.tolist(), strict=True))
    return [column.tolist() for column in found.waits], pairs


#: Streams 0 and 1 of the device.
STREAMS = [
    *({"start": 10, "end": 20}, {"start": 30, "end": 60}, {"start": 70, "end": 80}),
    *({"track": 1, "start": 12, "end": 50}, {"track": 1, "start": 90, "end": 95}),
]


def test_a_call_waits_for_the_last_activity_that_ended_before_it_did() -> None:
    rows = activities_of(STREAMS)
    waits, pairs = awaited(rows, [(15, 58), (61, 65), (66, 78), (85, 99)], wide=[])
    assert waits[0] == [1] * 4
    assert waits[1] == [15, 61, 66, 85]
    assert waits[3] == [58, 65, 78, 99]
    # Ends at 60 and 80 are within the clock's error of 58 and 78.
    assert waits[2] == [58, 61, 78, 95]
    assert pairs == [(0, 1), (1, 1), (2, 2), (3, 4)]


def test_a_call_for_the_whole_device_waits_for_the_last_activity_of_each_stream() -> (
    None
):
    rows = activities_of(STREAMS)
    waits, pairs = awaited(rows, [(15, 62), (85, 99)], wide=[(15, 62)])
    assert waits[2] == [60, 95]
    assert pairs == [(0, 1), (0, 3), (1, 4)]


def test_a_call_waits_for_nothing_that_was_launched_after_it() -> None:
    rows = activities_of(
        [{"start": 10, "end": 20, "called": 21}, {"start": 30, "end": 40}]
    )
    waits, pairs = awaited(rows, [(5, 21), (22, 25), (26, 45)], wide=[])
    assert waits[2] == [5, 22, 40]
    assert pairs == [(1, 0), (2, 1)]


def test_launches_take_at_most_a_latency() -> None:
    rows = activities_of(
        [
            {"start": 100, "end": 105},
            {"start": 110, "end": 115},
            {"start": 120, "end": 125, "launch": -1},
            {"start": 130, "end": 135},
        ]
    )
    found = launch_edges(
        rows,
        first=7,
        submitted=np.array([95, 90, 111, 120]),
        source=np.array([3, 2, 4, -1]),
        from_start=np.array([True, False, True, True]),
        pace=PACE,
    )
    assert [each for each in listed(found) if each[0] >= 0] == [
        *((3, 7, 5, 1), (2, 8, 10, 0)),
    ]
    assert set(found.kind.tolist()) == {EdgeKind.LAUNCH}


def test_activities_of_a_stream_follow_each_other_within_the_usual_gap() -> None:
    rows = activities_of(
        [
            *({"start": 10, "end": 20}, {"start": 22, "end": 30}),
            *({"start": 40, "end": 50}, {"start": 45, "end": 55}),
            *(
                {"track": 1, "start": 56, "end": 60},
                {"track": 1, "start": 63, "end": 65},
            ),
        ]
    )
    found = stream_edges(rows, first=7, pace=PACE)
    assert [each for each in listed(found) if each[0] >= 0] == [
        *((7, 8, 2, 0), (8, 9, 3, 0), (9, 10, -5, 0), (11, 12, 3, 0)),
    ]
    assert set(found.kind.tolist()) == {EdgeKind.STREAM}


def test_a_late_start_is_explained_by_another_stream_that_ended_just_before() -> None:
    """The late activity is launched at 60 and begins at 100 on stream 5."""
    cases: list[Any] = [
        ([{"start": 50, "end": 90}], 4, (0, 10)),
        ([{"start": 50, "end": 90}], 3, None),  # no more than the usual gap
        ([{"start": 50, "end": 80}], 4, (0, 20)),
        ([{"start": 50, "end": 79}], 4, None),  # ended 21 before
        ([{"start": 50, "end": 100}], 4, (0, 0)),
        ([{"start": 50, "end": 101}], 4, None),  # ended later
        ([{"start": 50, "end": 90, "device": 1}], 4, None),
        ([{"start": 50, "end": 90, "track": 5}], 4, None),  # of its own stream
        ([{"start": 50, "end": 90, "called": 60}], 4, (0, 10)),
        ([{"start": 50, "end": 90, "called": 61}], 4, None),  # launched after it
        ([{"start": 50, "end": 90}, {"track": 1, "start": 60, "end": 95}], 4, (1, 5)),
        (
            [
                {"start": 50, "end": 90},
                {"track": 1, "start": 60, "end": 95, "called": 70},
            ],
            *(4, (0, 10)),
        ),
    ]
    for others, slack, edge in cases:
        late = {"track": 5, "start": 100, "end": 110, "called": 60}
        before = [{"called": 40, **other} for other in others]
        rows = activities_of([*before, late])
        slacks = np.array([0] * len(others) + [slack])
        found = [
            each
            for each in listed(across_edges(rows, slacks, first=7, pace=PACE))
            if each[0] >= 0
        ]
        target = 7 + len(others)
        assert found == ([] if edge is None else [(7 + edge[0], target, edge[1], 0)])


def test_late_starts_of_two_devices_are_explained_each_on_its_own() -> None:
    rows = activities_of(
        [
            *({"start": 50, "end": 90}, {"track": 1, "start": 100, "end": 110}),
            {"track": 2, "device": 1, "start": 50, "end": 92},
            {"track": 3, "device": 1, "start": 100, "end": 110},
        ]
    )
    found = across_edges(rows, np.array([0, 9, 0, 9]), first=0, pace=PACE)
    assert listed(found) == [(0, 1, 10, 0), (2, 3, 8, 0)]
    assert set(found.kind.tolist()) == {EdgeKind.ACROSS}
