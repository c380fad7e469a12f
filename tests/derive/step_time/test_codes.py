"""What threads do during each event, worked out by hand on events of a few kinds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.support.traces.literal_tables import (
    activity_of,
    correlation_of,
    kinds_of,
    tables_of,
)

from stepscope.derive.columns.stat_values import StatRows
from stepscope.derive.intervals.nesting import nest_events
from stepscope.derive.names.event_kinds import EventFlag, EventKinds, HostClass
from stepscope.derive.step_time.host_codes import HostEvents, Launching
from stepscope.derive.step_time.host_time import HostCode as Code
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.trace.tables import INT, REF
from stepscope.unavailable import Unavailable

US = 1_000_000
WHY = Unavailable(code="NOT_RECORDED", reason="no", remedy="record it")
NO_DEVICE = Unavailable(code="NO_DEVICE_PLANE", reason="none", remedy="none")

# Kinds of events.
(OP, CALL, EXECUTOR, API, DISPATCH, BLOCKING, WAIT, CHILD, ROOT, EXCHANGE) = range(10)
(END, WRAPPER, CAPTURED, READ, SYNC, DISPATCHED, OTHER, EXECUTABLE) = range(10, 18)
(PAUSE, SYSTEM) = (18, 19)
KINDS: EventKinds = kinds_of(
    20,
    ops=[OP],
    classes={
        EXECUTOR: HostClass.EXECUTOR,
        API: HostClass.API,
        DISPATCH: HostClass.DISPATCH,
        BLOCKING: HostClass.BLOCKING,
        CHILD: HostClass.DATASET,
        ROOT: HostClass.DATASET,
        WRAPPER: HostClass.OP,
        READ: HostClass.FILE_READ,
        SYNC: HostClass.SYNC,
        DISPATCHED: HostClass.DISPATCH,
        EXECUTABLE: HostClass.EXECUTABLE,
        PAUSE: HostClass.SYSTEM_WAIT,
        SYSTEM: HostClass.SYSTEM_CALL,
    },
    flags={
        CALL: EventFlag.FUNCTION_CALL,
        EXECUTOR: EventFlag.EXECUTOR,
        WAIT: EventFlag.CONSUMER_WAIT,
        CHILD: EventFlag.DATASET,
        ROOT: EventFlag.DATASET,
        EXCHANGE: EventFlag.COLLECTIVE,
        END: EventFlag.END_THUNK,
        WRAPPER: EventFlag.EAGER_WRAPPER,
        CAPTURED: EventFlag.CAPTURED_FUNCTION,
        DISPATCHED: EventFlag.FUNCTION_CALL,
    },
)


def named(kinds: EventKinds, names: dict[int, str]) -> EventKinds:
    texts = [names.get(each) for each in range(len(kinds.flags))]
    series = pl.Series(texts, dtype=pl.String)
    return EventKinds(kinds.category, series, series, kinds.host_class, kinds.flags)


KINDS = named(KINDS, {CHILD: "Iterator::Root::Map::Batch", ROOT: "Iterator::Root::Map"})
STRINGS = ["traced-xla", "notTraced", "id", "group_id"]
NOTHING = StatRows(
    *(np.empty(0, kind) for kind in (np.int32, np.int32, np.uint8, np.int64, np.int32))
)


def texts_of(values: dict[int, int]) -> StatRows:
    """Event → the index of a text."""
    rows = sorted(values.items())
    owner, value = (np.array([row[at] for row in rows]) for at in (0, 1))
    return StatRows(
        owner.astype(np.int32),
        np.zeros(len(rows), np.int32),
        np.full(len(rows), REF, np.uint8),
        value.astype(np.int64),
        np.zeros(len(rows), np.int32),
    )


def stats_of(ids: dict[int, int]) -> pl.DataFrame:
    rows = [
        {"event": event, "key": 2, "kind": INT, "value": value, "length": 0}
        for event, value in sorted(ids.items())
    ]
    schema = {"event": pl.Int32, "key": pl.Int32, "kind": pl.UInt8}
    return pl.DataFrame(rows, schema=schema | {"value": pl.Int64, "length": pl.Int32})


def launching_of(rows: list[int] | None, **kinds: list[int]) -> Launching:
    """The launches of a device; None without a device."""
    arrays = [
        np.array(each or [], np.int32)
        for each in (rows, kinds.get("reading"), kinds.get("feeding"))
    ]
    why = NO_DEVICE if rows is None else None
    return Launching(rows is None, why, *arrays)


def codes_of(
    lines: list[tuple[int, int, int, int]],
    launching: Launching,
    *,
    values: dict[StatKey, StatRows] | None = None,
    ids: dict[int, int] | None = None,
    tracks: Any = ("main", "other"),
) -> list[int]:
    """The code of each event, by track and start; times are microseconds."""
    scaled = [(track, kind, at * US, dur * US) for track, kind, at, dur in lines]
    tables = tables_of(scaled, list(tracks))
    keys = (StatKey.HLO_OP, StatKey.STAGE_NAME, StatKey.FUNCTION_CALL)
    trace: Any = SimpleNamespace(strings=STRINGS, data=b"")
    host = HostEvents(
        *(trace, *tables, KINDS, stats_of(ids or {})),
        dict.fromkeys(keys, NOTHING) | (values or {}),
    )
    found: list[int] = host.mark_codes(nest_events(*tables), launching).tolist()
    return found


NONE, GPU = launching_of(None), launching_of([])


def test_an_event_has_the_code_of_its_kind() -> None:
    cases: list[tuple[int, Code, Code]] = [
        (OP, Code.HOST_COMPUTE, Code.HOST_COMPUTE),
        (CALL, Code.NOTHING, Code.NOTHING),
        (EXECUTOR, Code.HOST_COMPUTE, Code.LAUNCH),
        (EXECUTABLE, Code.HOST_COMPUTE, Code.LAUNCH),
        (API, Code.NOTHING, Code.LAUNCH),
        (DISPATCH, Code.HOST_COMPUTE, Code.DISPATCH),
        (BLOCKING, Code.BLOCKED, Code.BLOCKED),
        (WAIT, Code.INPUT_WAIT, Code.INPUT_WAIT),
        (CHILD, Code.PIPELINE, Code.PIPELINE),
        (ROOT, Code.ITERATOR, Code.ITERATOR),
        (EXCHANGE, Code.PEER, Code.PEER),
        (SYNC, Code.SYNC, Code.SYNC),
        (CAPTURED, Code.PIPELINE, Code.PIPELINE),
        (READ, Code.FILE_READ, Code.FILE_READ),
        (PAUSE, Code.SYSTEM_WAIT, Code.SYSTEM_WAIT),
        (SYSTEM, Code.SYSTEM_CALL, Code.SYSTEM_CALL),
        (OTHER, Code.NOTHING, Code.NOTHING),
    ]
    for kind, without_device, with_device in cases:
        # The root of the pipeline is recorded too, so that its child is none.
        lines = [(0, kind, 0, 100), (1, ROOT, 0, 5)]
        assert codes_of(lines, NONE)[0] == without_device
        assert codes_of(lines, GPU)[0] == with_device


def test_ops_launch_or_compute_where_launches_are_unknown() -> None:
    unknown = Launching(no_device=False, why_not=WHY)
    lines = [(0, OP, 0, 5), (0, EXECUTOR, 10, 5)]
    assert codes_of(lines, unknown) == [Code.LAUNCH_OR_COMPUTE, Code.LAUNCH]


@pytest.mark.parametrize(
    "track",
    [{"name": "gpu", "device": 0}, {"name": "lines", "kind": "derived"}],
)
def test_only_events_of_host_threads_have_codes(track: dict[str, Any]) -> None:
    every = [OP, EXCHANGE, CAPTURED, READ, WAIT, DISPATCHED]
    lines = [(1, kind, 200 * at, 150) for at, kind in enumerate(every)]
    lines += [(0, OP, 0, 5)]
    values = {
        StatKey.HLO_OP: texts_of({2: 0}),
        StatKey.STAGE_NAME: texts_of({3: 0}),
        StatKey.FUNCTION_CALL: texts_of({6: 0}),
    }
    found = codes_of(lines, NONE, values=values, tracks=["main", track])
    assert found == [Code.HOST_COMPUTE] + [Code.NOTHING] * 6


def test_ops_around_a_launch_dispatch_and_long_ones_beside_it_compute() -> None:
    """The launching call itself launches, whatever its kind."""
    lines = [
        *((0, OP, 0, 500), (0, OTHER, 100, 5)),
        *((0, OP, 1000, 99), (0, OP, 2000, 100)),
    ]
    found = codes_of(lines, launching_of([1]))
    assert found == [Code.DISPATCH, Code.LAUNCH, Code.DISPATCH, Code.HOST_COMPUTE]
    # Without a launch at all, no op prepares one.
    assert codes_of(lines[2:], GPU) == [Code.HOST_COMPUTE] * 2


def test_an_op_that_only_calls_long_ops_has_little_time_between_them() -> None:
    """Of 500 and 499, three calls of 100 leave 50 for each of four pieces."""
    inner = [(0, OP, 100 * k + 50, 100) for k in range(0, 6, 2)]
    lines = [(0, OP, 0, 700), *inner, (0, OTHER, 1000, 5)]
    assert codes_of(lines, launching_of([4]))[0] == Code.HOST_COMPUTE  # 400 / 4
    lines[0] = (0, OP, 0, 699)
    assert codes_of(lines, launching_of([4]))[0] == Code.DISPATCH


def test_calls_that_wait_for_their_copy_are_copies() -> None:
    lines = [(0, OTHER, 0, 5), (0, API, 10, 5), (0, SYNC, 20, 5)]
    found = codes_of(lines, launching_of([], reading=[0, 2], feeding=[1]))
    assert found == [Code.COPY_OUT, Code.COPY_IN, Code.SYNC]


def test_collectives_that_launch_wait_for_nobody() -> None:
    lines = [(0, EXCHANGE, 0, 50), (0, OTHER, 10, 5), (0, EXCHANGE, 100, 50)]
    found = codes_of(lines, launching_of([1]))
    assert found == [Code.NOTHING, Code.LAUNCH, Code.PEER]


def test_a_waiting_call_inside_a_plain_op_is_part_of_it() -> None:
    """Inside a function's call it waits, even if the call is inside an op."""
    lines = [
        *((0, OP, 0, 90), (0, OTHER, 5, 80), (0, BLOCKING, 10, 20)),
        *((0, OP, 100, 90), (0, CALL, 105, 80), (0, BLOCKING, 110, 20)),
        (0, BLOCKING, 210, 20),
    ]
    found = codes_of(lines, NONE)
    assert [found[row] for row in (2, 5, 6)] == [
        *(Code.NOTHING, Code.BLOCKED, Code.BLOCKED),
    ]


def test_values_say_what_a_name_does_not() -> None:
    lines = [(0, OTHER, 10 * k, 5) for k in range(5)] + [(0, END, 50, 5)]
    values = {
        StatKey.HLO_OP: texts_of({0: 0, 5: 0}),
        StatKey.STAGE_NAME: texts_of({1: 0}),
        StatKey.FUNCTION_CALL: texts_of({2: 0, 3: 1}),
    }
    compute, stage, traced = Code.HOST_COMPUTE, Code.OWN_INPUT, Code.TRACING
    found = codes_of(lines, NONE, values=values)
    assert found == [compute, stage, traced, compute, Code.NOTHING, Code.NOTHING]
    # With a device, a call that was not traced only dispatches work.
    assert codes_of(lines, GPU, values=values)[3] == Code.NOTHING


def test_values_do_not_replace_what_a_name_says() -> None:
    lines = [(0, WAIT, 10 * k, 5) for k in range(3)]
    values = {
        StatKey.HLO_OP: texts_of({0: 0}),
        StatKey.STAGE_NAME: texts_of({1: 0}),
        StatKey.FUNCTION_CALL: texts_of({2: 0}),
    }
    assert codes_of(lines, NONE, values=values) == [Code.INPUT_WAIT] * 3


def test_a_function_is_new_inside_the_call_that_traced_it() -> None:
    lines = [
        *((0, OTHER, 0, 90), (0, OTHER, 5, 80), (0, DISPATCHED, 10, 20)),
        (0, DISPATCHED, 100, 20),
    ]
    values = {StatKey.FUNCTION_CALL: texts_of({0: 0})}
    found = codes_of(lines, NONE, values=values)
    assert [found[row] for row in (0, 2, 3)] == [
        *(Code.TRACING, Code.TRACING, Code.HOST_COMPUTE),
    ]


def test_executors_of_the_input_pipeline_are_found_by_their_ids() -> None:
    """Of three executors and a wait, those with the id of a captured function."""
    lines = [
        *((0, CAPTURED, 0, 5), (0, EXECUTOR, 10, 5), (0, EXECUTOR, 20, 5)),
        *((0, WAIT, 30, 5), (0, OP, 40, 5), (0, EXECUTOR, 50, 5)),
    ]
    found = codes_of(lines, NONE, ids={0: 7, 1: 7, 2: 8, 3: 7, 4: 7})
    compute, pipeline = Code.HOST_COMPUTE, Code.PIPELINE
    assert found == [pipeline, pipeline, compute, pipeline, compute, compute]


@pytest.mark.parametrize(
    ("outer", "length", "code"),
    [
        (OTHER, 100, Code.FILE_READ),
        (OTHER, 99, Code.NOTHING),  # too short
        (SYNC, 100, Code.NOTHING),  # part of a call of the runtime
        (DISPATCH, 100, Code.FILE_READ),  # an op that only dispatches
        (OP, 100, Code.NOTHING),  # part of an op
    ],
)
def test_a_long_system_call_counts_where_no_other_work_encloses_it(
    outer: int, length: int, code: Code
) -> None:
    lines = [(0, outer, 0, 900), (0, OTHER, 5, 800), (0, READ, 10, length)]
    assert codes_of(lines, GPU)[2] == code


@pytest.mark.parametrize(
    ("other", "own", "waits"),
    [
        ((1, OP, 20, 5), [], True),
        ((1, EXECUTOR, 20, 5), [], True),
        ((1, OTHER, 20, 5), [], False),
        ((1, OP, 9, 5), [], False),  # began before the call
        ((1, OP, 110, 5), [], False),  # began after it
        ((0, OP, 200, 5), [], False),  # on the same thread
        ((1, OP, 20, 5), [(0, OTHER, 20, 80)], False),  # 20 of 100 are its own time
        ((1, OP, 20, 5), [(0, DISPATCH, 20, 50)], False),  # half of it is its own
        ((1, OP, 20, 5), [(0, DISPATCH, 20, 49)], True),
    ],
)
def test_a_call_of_a_graph_waits_where_other_threads_run_its_ops(
    other: tuple[int, int, int, int], own: list[Any], *, waits: bool
) -> None:
    """A wrapper from 10 to 110 inside a function's call; no device."""
    lines = [(0, CALL, 0, 150), (0, WRAPPER, 10, 100), *own, other]
    found = codes_of(lines, NONE)
    assert found[1] == (Code.BLOCKED if waits else Code.HOST_COMPUTE)


def test_outside_of_a_function_s_call_or_with_a_device_a_wrapper_works() -> None:
    lines = [(0, OTHER, 0, 150), (0, WRAPPER, 10, 100), (1, OP, 20, 5)]
    assert codes_of(lines, NONE)[1] == Code.HOST_COMPUTE
    assert codes_of(lines[1:], NONE)[0] == Code.HOST_COMPUTE
    lines[0] = (0, CALL, 0, 150)
    assert codes_of(lines, NONE)[1] == Code.BLOCKED
    assert codes_of(lines, GPU)[1] != Code.BLOCKED


# Which events launch work.


def collected(
    latency_ps: int | None, calls: list[int], copies: list[tuple[str, int, int]]
) -> Launching:
    """Calls of these lengths; copies are (kind, duration, call)."""
    activity = activity_of([(0, 0, kind, 0, 0, dur) for kind, dur, _ in copies])
    launches = [(0, 0, 10 * row, dur) for row, dur in enumerate(calls)]
    matched = correlation_of(activity, launches, [each[2] for each in copies])
    latency: Any = WHY if latency_ps is None else SimpleNamespace(latency_ps=latency_ps)
    return Launching.collect_launches(matched, activity, latency)


def test_calls_that_outlast_their_copies_by_a_latency_wait_for_them() -> None:
    copies = [
        *(("d2h", 20, 0), ("d2h", 20, 1), ("d2h", 10, 2), ("d2h", 10, 2)),
        *(("h2d", 20, 3), ("kernel", 1, 4), ("d2h", 0, 5), ("d2h", 9, -1)),
    ]
    found = collected(10, [31, 30, 31, 31, 99, 99, 99], copies)
    assert found.rows.tolist() == [0, 1, 2, 3, 4, 5]
    assert found.reading.tolist() == [0, 2]
    assert found.feeding.tolist() == [3]
    assert (found.no_device, found.why_not) == (False, None)
    unknown = collected(None, [31, 31], [("d2h", 20, 0), ("h2d", 20, 1)])
    assert unknown.rows.tolist() == [0, 1]
    assert (len(unknown.reading), len(unknown.feeding)) == (0, 0)


def test_launches_are_unknown_for_the_reason_that_is_given() -> None:
    activity = activity_of([(0, 0, "kernel", 0, 0, 5)])
    matched = correlation_of(activity, [(0, 0, 0, 1)], [0])
    collect = Launching.collect_launches
    for found, no_device, why in (
        (collect(matched, NO_DEVICE, WHY), True, NO_DEVICE),
        (collect(WHY, NO_DEVICE, WHY), True, NO_DEVICE),
        (collect(matched, WHY, WHY), False, WHY),
        (collect(WHY, activity, WHY), False, WHY),
    ):
        assert (found.no_device, found.why_not) == (no_device, why)
        assert len(found.rows) == len(found.reading) == len(found.feeding) == 0
    empty = collect(matched, activity[:0], WHY)
    assert empty.why_not is not None
    assert not empty.no_device
