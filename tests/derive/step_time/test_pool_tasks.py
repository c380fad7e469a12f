"""Tasks of thread pools, and what the program did around a time, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces.literal_tables import kinds_of, tables_of

from stepscope.derive.intervals.nesting import flatten_tracks, nest_events
from stepscope.derive.intervals.spans import Spans, TrackRows
from stepscope.derive.names.event_kinds import EventFlag, HostClass
from stepscope.derive.step_time.host_time import STICKY, HostCode
from stepscope.derive.step_time.neighbours import Surroundings, neighbours_text
from stepscope.derive.step_time.pool_tasks import (
    PoolTasks,
    computing_spans,
    pool_tasks,
    until_first_task,
)
from stepscope.trace.tables import INT
from stepscope.units import PS_PER_MS, PS_PER_US

# Kinds of events.
OP, RECORD, START, STOP, EXCHANGE, EXECUTOR, CALL, STICK, OTHER = range(9)
KINDS = kinds_of(
    9,
    ops=[OP, CALL],
    classes={EXECUTOR: HostClass.EXECUTOR},
    flags={
        RECORD: EventFlag.POOL_RECORD,
        START: EventFlag.POOL_START,
        STOP: EventFlag.POOL_STOP,
        CALL: EventFlag.PJIT,
    },
)
CODES = {
    OP: HostCode.HOST_COMPUTE,
    EXECUTOR: HostCode.HOST_COMPUTE,
    CALL: HostCode.HOST_COMPUTE,
    EXCHANGE: HostCode.PEER,
    STICK: HostCode.COMPILE,
}
STRINGS = ["_p", "_c"]


class Pool:
    """Events of some threads; a line may carry the id of a task."""

    def __init__(self, lines: list[tuple[int, ...]], threads: int = 3) -> None:
        ordered = sorted(lines, key=lambda line: (line[0], line[2], -line[3]))
        self.tracks, self.events = tables_of(
            [line[:4] for line in ordered],
            [f"thread {number}" for number in range(threads)],
        )
        rows = [
            {
                "event": row,
                "key": 0 if line[1] == RECORD else 1,
                "kind": INT,
                "value": line[4],
                "length": 0,
            }
            for row, line in enumerate(ordered)
            if len(line) > 4
        ]
        schema = {"event": pl.Int32, "key": pl.Int32, "kind": pl.UInt8}
        self.stats = pl.DataFrame(
            rows, schema=schema | {"value": pl.Int64, "length": pl.Int32}
        )
        self.code = np.array([CODES.get(line[1], 0) for line in ordered], np.uint8)
        self.rows = TrackRows.from_tables(self.tracks, self.events)

    def tasks(self) -> PoolTasks:
        return pool_tasks(
            *(self.events, KINDS, nest_events(self.tracks, self.events)),
            stats=self.stats,
            strings=STRINGS,
            code=self.code,
        )

    def listed(self) -> list[tuple[int, ...]]:
        """(track, start, end, handed over, code) of each task."""
        found = self.tasks()
        columns = (found.track, found.start_ps, found.end_ps, found.handed_ps)
        return list(
            zip(*(each.tolist() for each in (*columns, found.code)), strict=True)
        )

    def computing(self) -> Spans:
        sets = flatten_tracks(self.tracks, self.events, self.code, sticky=STICKY)
        return computing_spans(
            *(self.events, KINDS, self.tasks()),
            code=self.code,
            sets=sets,
            rows=self.rows,
        )


COMPUTE, COMPILE = HostCode.HOST_COMPUTE, HostCode.COMPILE


@pytest.mark.parametrize("far", [0, 10**6])
def test_a_task_has_the_time_and_the_code_of_its_handover(far: int) -> None:
    """Ids near each other are looked up in a table, others are searched."""
    pool = Pool(
        [
            *((0, OP, 0, 50), (0, RECORD, 10, 0, 5), (0, RECORD, 20, 0, 6 + far)),
            *((0, RECORD, 60, 0, 7), (0, STICK, 70, 20), (0, OP, 72, 10)),
            (0, RECORD, 75, 0, 9),
            *((1, START, 12, 0, 5), (1, STOP, 18, 0)),
            *((1, START, 62, 0, 7), (1, STOP, 65, 0)),
            *((1, START, 78, 0, 9), (1, STOP, 79, 0)),
            *((2, START, 19, 0, 6 + far), (2, STOP, 25, 0)),
            *((2, START, 30, 0, 8), (2, STOP, 35, 0)),
            *((2, START, 40, 0), (2, STOP, 45, 0)),
        ]
    )
    assert pool.listed() == [
        (1, 12, 18, 10, COMPUTE),
        (1, 62, 65, 60, 0),  # no event around the handover has a code
        (1, 78, 79, 75, COMPILE),  # the outer one has its code at all times
        (2, 19, 25, 19, COMPUTE),  # handed over at its start at the latest
        (2, 30, 35, 30, 0),  # nobody handed it over
        (2, 40, 45, 40, 0),  # it has no id
    ]


def test_a_task_that_has_no_end_on_its_thread_is_none() -> None:
    pool = Pool(
        [
            *((0, START, 0, 0, 1), (0, START, 5, 0, 2), (0, STOP, 9, 0)),
            *((0, STOP, 10, 0), (0, START, 20, 0, 3), (1, STOP, 30, 0)),
        ]
    )
    assert pool.listed() == [(0, 5, 9, 5, 0)]
    assert Pool([]).listed() == []


def test_a_task_of_a_task_has_the_code_of_the_first() -> None:
    """Each of four tasks hands over the next; another chain leads nowhere."""
    lines: list[tuple[int, ...]] = [(0, OP, 0, 9), (0, RECORD, 5, 0, 1)]
    for number in range(1, 5):
        track, begin = 1 + number % 2, 20 * number
        lines += [
            (track, START, begin, 0, number),
            (track, RECORD, begin + 10, 0, number + 1),
            (track, STOP, begin + 10, 0),
        ]
    lines += [(0, RECORD, 200, 0, 9), (1, START, 210, 0, 9), (1, STOP, 215, 0)]
    found = Pool(lines).listed()
    assert sorted(each[1:] for each in found) == [
        *((20, 30, 5, COMPUTE), (40, 50, 30, COMPUTE), (60, 70, 50, COMPUTE)),
        *((80, 90, 70, COMPUTE), (210, 215, 200, 0)),
    ]


def test_a_task_has_the_code_of_the_innermost_event_around_its_handover() -> None:
    """What has no code is passed over; an outer sticky code counts more."""
    pool = Pool(
        [
            *((0, EXCHANGE, 0, 50), (0, OP, 5, 20), (0, OTHER, 6, 10)),
            (0, RECORD, 10, 0, 1),
            *((0, STICK, 60, 40), (0, EXCHANGE, 65, 30), (0, RECORD, 70, 0, 2)),
            *((1, START, 11, 0, 1), (1, STOP, 12, 0)),
            *((1, START, 71, 0, 2), (1, STOP, 72, 0)),
        ]
    )
    assert [task[-1] for task in pool.listed()] == [COMPUTE, COMPILE]


def test_a_call_works_itself_until_it_hands_over_its_first_task() -> None:
    pool = Pool(
        [
            *((0, OP, 0, 50), (0, RECORD, 10, 0, 1), (0, RECORD, 20, 0, 2)),
            *((0, OP, 60, 5), (0, RECORD, 65, 0, 3)),  # just after its end
            *((0, OP, 70, 5), (1, OP, 0, 40), (1, RECORD, 0, 0, 4)),
            (2, OP, 80, 20),
        ]
    )
    kind, row = pool.events["type"].to_numpy(), np.arange(len(pool.events))
    found = until_first_task(pool.events, KINDS, row[kind == OP])
    assert found == Spans.of([(0, 10)])


def test_ops_and_tasks_compute_where_threads_take_part_in_a_collective() -> None:
    """Executors and calls of programs only hand work on; a task waits in a collective.

    The second op is around an event of another code.
    """
    lines: list[tuple[int, ...]] = [
        *((0, OP, 0, 10), (0, EXECUTOR, 20, 10), (0, CALL, 40, 20), (0, OP, 45, 5)),
        *((1, START, 100, 0, 1), (1, EXCHANGE, 105, 10), (1, STOP, 120, 0)),
        *((2, OP, 200, 20), (2, STICK, 205, 5)),
    ]
    assert Pool(lines).computing() == Spans.of(
        [(0, 10), (45, 50), (100, 105), (115, 120), (200, 205), (210, 220)]
    )
    alone = [line for line in lines if line[1] != EXCHANGE]
    assert Pool(alone).computing() == Spans.empty()


# What the program did around a time.

MS, LONG = PS_PER_MS, 100 * PS_PER_US
PLAIN, PASSING, GRAPH, MARK, WRITE, WRAPPER = range(6)


def around(
    lines: list[tuple[float, ...]], span: tuple[float, float], *, marks: bool = True
) -> tuple[int, int, bool]:
    """The kinds of the events before and after a span; times are milliseconds."""
    scaled = [
        (1, int(kind), round(at * MS), round(dur * MS)) for kind, at, dur in lines
    ]
    _, events = tables_of([(0, PLAIN, 0, 90 * MS), *scaled], ["other", "main"])
    tracks, _ = tables_of([(0, PLAIN, 0, 90 * MS), *scaled], ["other", "main"])
    types = events["type"].to_numpy()
    flag = np.arange(6)
    found = Surroundings.observe_thread(
        TrackRows.from_tables(tracks, events),
        1,
        code=np.where(
            types == WRITE, HostCode.OUTPUT, np.where(types == 9, HostCode.LAUNCH, 0)
        ).astype(np.uint8),
        types=types,
        passing=flag == PASSING,
        calls=(flag == GRAPH) | (flag == MARK),
        marks=(flag == MARK) & marks,
    )
    spans = Spans.of([(round(span[0] * MS), round(span[1] * MS))])
    nearest = found.nearest_events(spans)
    return int(nearest.before[0]), int(nearest.after[0]), bool(nearest.inside[0])


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([(PLAIN, 0, 10), (GRAPH, 20, 1)], (PLAIN, GRAPH, False)),
        ([(PLAIN, 0, 10.1), (GRAPH, 19.9, 1)], (-1, -1, False)),
        # What lasts less than 0.1 ms shows nothing.
        ([(PLAIN, 0, 1), (GRAPH, 5, 0.1), (PLAIN, 25, 0.099)], (GRAPH, -1, False)),
        ([(PLAIN, 0, 1), (PASSING, 5, 1), (PASSING, 22, 1)], (PLAIN, -1, False)),
        # The outer one counts, and of those that overlap the first.
        (
            [(PLAIN, 0, 9), (GRAPH, 1, 5), (WRAPPER, 25, 9), (PLAIN, 26, 1)],
            (PLAIN, WRAPPER, False),
        ),
        ([], (-1, -1, False)),
    ],
)
def test_the_nearest_long_outermost_events_are_around_a_time(
    lines: list[tuple[float, ...]], expected: tuple[int, int, bool]
) -> None:
    assert around(lines, (10, 20)) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # [0, 40) is a step: its own events count, and no others.
        ([(MARK, 0, 40), (PLAIN, 5, 2), (GRAPH, 30, 5)], (PLAIN, GRAPH, True)),
        ([(PLAIN, -3, 2), (MARK, 0, 40), (GRAPH, 50, 5)], (-1, -1, True)),
        ([(MARK, 0, 40), (PLAIN, 20, 19)], (-1, PLAIN, True)),
        ([(MARK, 0, 20), (PLAIN, 20, 19)], (-1, -1, True)),
        # The step ends within the time.
        ([(MARK, 0, 19), (PLAIN, 5, 2), (GRAPH, 30, 5)], (-1, GRAPH, False)),
        ([(MARK, 10, 30), (PLAIN, 5, 5)], (-1, -1, True)),
    ],
)
def test_within_a_step_only_its_own_events_are_around_a_time(
    lines: list[tuple[float, ...]], expected: tuple[int, int, bool]
) -> None:
    moved = [(kind, at + 5, dur) for kind, at, dur in lines]
    assert around(moved, (15, 25)) == expected


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        ([(PLAIN, 25, 1), (WRITE, 30, 1)], WRITE),  # 10 ms later
        ([(PLAIN, 25, 1), (WRITE, 30.001, 1)], PLAIN),
        ([(PLAIN, 25, 1), (GRAPH, 26, 0.01), (WRITE, 28, 1)], PLAIN),
        ([(PLAIN, 25, 1), (WRITE, 28, 1), (GRAPH, 28, 0.01)], PLAIN),
        ([(WRITE, 19, 0.5), (PLAIN, 25, 1)], PLAIN),  # before the time
        ([(PLAIN, 25, 1), (WRITE, 28, 0.01)], WRITE),  # however short
    ],
)
def test_a_write_soon_after_names_the_event_after_a_time(
    lines: list[tuple[float, ...]], after: int
) -> None:
    assert around(lines, (10, 20), marks=False)[1] == after


@given(
    rows=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=7),
    span=st.tuples(st.integers(0, 40), st.integers(1, 9)),
)
def test_the_nearest_events_equal_a_plain_loop(
    rows: list[tuple[int, int]], span: tuple[int, int]
) -> None:
    """Kinds are positions in time order, so that each event is told apart."""
    ordered = sorted(rows, key=lambda row: (row[0], -row[1]))
    lines = [
        (0, kind, start * LONG, dur * LONG) for kind, (start, dur) in enumerate(ordered)
    ]
    tracks, events = tables_of(lines, ["main"])
    none = np.zeros(max(len(lines), 1), np.bool_)
    found = Surroundings.observe_thread(
        TrackRows.from_tables(tracks, events),
        0,
        code=np.zeros(len(lines), np.uint8),
        types=events["type"].to_numpy(),
        passing=none,
        calls=none,
        marks=none,
    )
    outer, reach = [], -1
    for kind, (start, dur) in enumerate(ordered):
        if start >= reach:
            outer.append(kind)
        reach = max(reach, start + dur)
    begin, end = span[0], sum(span)
    before = [kind for kind in outer if sum(ordered[kind]) <= begin]
    after = [kind for kind in outer if ordered[kind][0] >= end]
    spans = Spans.of([(begin * LONG, end * LONG)])
    nearest = found.nearest_events(spans)
    assert nearest.before.tolist() == [max(before, default=-1)]
    assert nearest.after.tolist() == [min(after, default=-1)]


@pytest.mark.parametrize(
    ("before", "after", "inside", "text"),
    [
        (None, None, False, None),
        (None, None, True, "within a step's range"),
        ("a", "a", False, "between two calls of a"),
        ("a", "a", True, "between two calls of a"),
        ("a", "b", False, "after a, before b"),
        ("a", None, False, "after a"),
        (None, "b", False, "before b"),
        ("a", None, True, "after a, to the end of the step's range"),
        (None, "b", True, "from the begin of the step's range, before b"),
    ],
)
def test_a_time_is_told_by_the_events_around_it(
    before: str | None, after: str | None, *, inside: bool, text: Any
) -> None:
    assert neighbours_text(before, after, inside=inside) == text
