"""Ops on the threads of literal hosts: eager, short and on the wrong side, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.support.traces.literal import (
    ABSENT,
    OTHER,
    Tables,
    events_at,
    fields_of,
    spans_of,
    types_named,
    windows_at,
)

from stepscope.derive.facts.devices.op_sides import (
    HostPlaced,
    OpsOnSides,
    ops_on_sides,
    placement_signals,
)
from stepscope.derive.facts.devices.small_work import SmallOps, small_ops
from stepscope.derive.facts.hosts.eager_ops import (
    EagerOps,
    EagerSignals,
    eager_signals,
    host_eager_ops,
)
from stepscope.derive.names.event_kinds import EventFlag, HostClass, OpCategory
from stepscope.derive.step_time.host_time import HostCode
from stepscope.thresholds import THRESHOLDS
from stepscope.trace.reading.stat_keys import StatKey

US = 1_000_000
MS = 1_000_000_000
TF, DATASET, TORCH = OpCategory.TENSORFLOW, OpCategory.DATASET, OpCategory.TORCH


def ops_ran(
    types: list[tuple[str, str | None, OpCategory]],
    *runs: tuple[int, int, int, int],
    self_ps: list[int] | None = None,
    eager: list[int] | None = None,
) -> tuple[Any, pl.DataFrame]:
    """Executions of ops (op, track, start, duration), and the events of them."""
    op, _, start, dur = (
        np.array(column, np.int64) for column in zip(*runs, strict=True)
    )
    ops = pl.DataFrame(
        {
            "name": [name for name, _, _ in types],
            "type": pl.Series([type_ for _, type_, _ in types], dtype=pl.String),
            "category": [int(category) for *_, category in types],
        }
    )
    found = SimpleNamespace(
        event=np.arange(len(runs), dtype=np.int32),
        op=op.astype(np.int32),
        start_ps=start,
        dur_ps=dur,
        self_ps=dur if self_ps is None else np.array(self_ps, np.int64),
        eager=np.array([1] * len(runs) if eager is None else eager, np.int8),
        ops=ops,
    )
    return found, events_at(*runs)


# --- eager ops ---


def kinds_with_calls(*calls: bool, compiling: int | None = None) -> Any:
    """Types of which some are calls of JAX's functions, and one may compile."""
    classes = np.zeros(len(calls), np.int8)
    if compiling is not None:
        classes[compiling] = HostClass.COMPILE
    return SimpleNamespace(
        host_class=classes,
        has=lambda flag: (
            np.array(calls, np.bool_)
            if flag == EventFlag.PJIT
            else np.zeros(len(calls), np.bool_)
        ),
    )


def eager(ops: Any, events: pl.DataFrame, **given: Any) -> tuple[EagerOps | None, bool]:
    found: tuple[EagerOps | None, bool] = host_eager_ops(
        **{
            "trace": Tables(events=events, event_types=types_named("x")),
            "host_op_events": ops,
            "event_kinds": kinds_with_calls(False),  # noqa: FBT003
            "host_values": ABSENT,
            "windows": windows_at((0, 100 * US), (100 * US, 5 * MS)),
            **given,
        }
    )
    return found


RUNS = (
    # Two eager ops in a row, the first of which encloses another.
    (0, 1, 0, 20 * US),
    (1, 1, 5 * US, 5 * US),
    (0, 1, 30 * US, 10 * US),
    # After an op of a graph there is no way of an eager op.
    (2, 1, 50 * US, 5 * US),
    (0, 1, 60 * US, 10 * US),
    # One of the second step, and one more than a millisecond later.
    (1, 1, 110 * US, 5 * US),
    (0, 1, 1_115 * US, 5 * US),
    (0, 1, 2_120 * US + 1, 5 * US),
    # Another thread, whose op lasts until the next begins; one without eager ops.
    (3, 2, 10 * US, 10 * US),
    (3, 2, 20 * US, 7 * US),
    (2, 3, 10 * US, 40 * US),
    # An input pipeline's op, and one after all steps.
    (4, 1, 45 * US, 1 * US),
    (0, 1, 6 * MS, 1 * US),
)
OPS = [
    ("a/Add", "Add", TF),
    ("b/Add", "Add", TF),
    ("c", None, TF),
    ("d", None, TF),
    ("data", None, DATASET),
]
EAGER = [1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 1, 1]
SELF = [15, 5, 10, 5, 10, 5, 5, 5, 10, 7, 40, 1, 1]


@pytest.mark.parametrize("turned", [False, True])
def test_every_field_of_eager_ops(*, turned: bool) -> None:
    order = range(len(RUNS))[:: -1 if turned else 1]
    ops, events = ops_ran(
        OPS,
        *(RUNS[row] for row in order),
        self_ps=[SELF[row] * US for row in order],
        eager=[EAGER[row] for row in order],
    )
    found, torch = eager(ops, events)
    expected = EagerOps(
        eager_ps=72 * US,
        op_ps=117 * US,
        # From 20 to 30 in the first step, from 70 to 110 and a whole ms in the second.
        dispatch_ps=(10 * US, 40 * US + 1_000 * US),
        per_step=9 / 2,
        names=(("Add", 100 * 55 / 72), ("d", 100 * 17 / 72)),
    )
    assert fields_of(found) == fields_of(expected)
    assert not torch


def test_ops_of_graphs_and_ops_outside_the_steps_are_not_eager() -> None:
    ops, events = ops_ran(OPS, *RUNS, eager=[-1] * len(RUNS))
    assert eager(ops, events) == (None, False)
    late, events = ops_ran(OPS, (0, 1, 6 * MS, 1))
    assert eager(late, events) == (None, False)
    pipeline, events = ops_ran(OPS, (4, 1, 0, 9), (0, 1, 1, 1), eager=[1, -1])
    assert eager(pipeline, events) == (None, False)
    torch, events = ops_ran([("aten::mm", None, TORCH)], (0, 1, 0, 1), eager=[-1])
    assert eager(torch, events) == (None, True)


def test_calls_of_compiled_functions_one_by_one_are_eager_ops() -> None:
    """Calls from 10 to 40, which encloses another, and from 50 to 60 compute 15 ps."""
    events = events_at(
        *((0, 1, 10, 30), (1, 1, 15, 5), (1, 1, 50, 10), (0, 1, 300, 9)),
        *((2, 2, 20, 10), (2, 2, 55, 90), (0, 3, 120, 20)),
    )
    types = types_named("PjitFunction(f)", "PjitFunction(g)", "fusion")
    nothing, _ = ops_ran([("x", None, TF)], (0, 1, 0, 1), eager=[-1])
    given = {
        "trace": Tables(events=events, event_types=types),
        "event_kinds": kinds_with_calls(*(True, True, False)),
        "windows": windows_at((0, 100), (100, 200)),
    }
    values = {StatKey.HLO_OP: SimpleNamespace(owner=np.array([4, 5], np.int32))}
    found, _ = eager(nothing, events, host_values=values, **given)
    expected = EagerOps(
        eager_ps=30 + 10 + 20,
        op_ps=None,
        # From 40 to 50 and, of calls, 20 + 5; then 20 - 20, since until 145 one ran.
        dispatch_ps=(10 + 20 + 5, 0),
        per_step=1.5,
        names=(("f", 100 * 50 / 60), ("g", 100 * 10 / 60)),
    )
    assert fields_of(found) == fields_of(expected)
    unknown, _ = eager(nothing, events, **given)
    assert unknown is not None
    assert unknown.dispatch_ps == (10 + 30 + 10, 20)
    outside, _ = eager(nothing, events, **(given | {"windows": windows_at((500, 600))}))
    assert outside is None


def test_compilation_within_a_call_is_no_time_of_eager_ops() -> None:
    """Of a call from 10 to 40, 22 are compilation; JAX reports it twice."""
    events = events_at((0, 1, 10, 30), (1, 1, 12, 22), (1, 1, 14, 8), (0, 1, 50, 10))
    types = types_named("PjitFunction(f)", "backend_compile")
    nothing, _ = ops_ran([("x", None, TF)], (0, 1, 0, 1), eager=[-1])
    found, _ = eager(
        nothing,
        events,
        trace=Tables(events=events, event_types=types),
        event_kinds=kinds_with_calls(*(True, False), compiling=1),
        windows=windows_at((0, 100)),
    )
    assert found is not None
    assert found.dispatch_ps == (30 - 22 + 10 + 10,)


@pytest.mark.parametrize(
    ("op_ps", "per_step", "percent", "leads"),
    [
        (1_000, 20.0, 10.0, True),
        (1_001, 20.0, 100 * 100 / 1001, False),
        (None, 20.0, None, True),
        (0, 20.0, None, True),
        (1_000, 19.9, 10.0, False),
    ],
)
def test_many_eager_ops_with_a_tenth_of_the_time_lead(
    *, op_ps: int | None, per_step: float, percent: float | None, leads: bool
) -> None:
    ops = EagerOps(100, op_ps, (), per_step, ())
    assert ops.percent == percent
    assert ops.lead(THRESHOLDS) is leads


def test_eager_ops_of_hosts_are_collected() -> None:
    ops = EagerOps(1, 1, (), 1.0, ())
    found = eager_signals.function(
        host_eager_ops={"a": (ops, False), "b": (None, True), "c": OTHER}
    )
    assert fields_of(found) == fields_of(EagerSignals({"a": ops}, torch=True))
    only_torch = eager_signals.function(host_eager_ops={"b": (None, True), "c": OTHER})
    assert (only_torch.hosts, only_torch.torch) == ({}, True)
    assert (
        eager_signals.function(host_eager_ops={"b": (None, False), "c": OTHER}) == OTHER
    )
    nothing = eager_signals.function(host_eager_ops={"b": (None, False)})
    assert (nothing.hosts, nothing.torch) == ({}, False)


# --- short ops ---


def short(ops: Any, events: pl.DataFrame, steps: Any, classes: Any = ABSENT) -> Any:
    return small_ops.function(
        host_op_events=ops, host_classes=classes, events=events, windows=steps
    )


def test_every_field_of_short_ops() -> None:
    """In each of two steps 50 ops of 1 µs follow each other after 2 µs.

    An op of 20 µs runs as often, on another thread; its self time is no short one.
    """
    runs, self_ps = [], []
    for step in range(2):
        for at in range(50):
            begin = step * 400 * US + at * 3 * US
            runs += [(at % 2, 1, begin, US), (2, 2, begin, 20 * US)]
            self_ps += [US, 20 * US]
    # One after a long pause, and one of which there are few.
    runs += [(3, 1, 160 * US, 1), (0, 1, 170 * US + MS, 1)]
    self_ps += [1, 1]
    types = [
        *(("a/Add", "Add", TF), ("b/Add", "Add", TF)),
        *(("mul", None, TF), ("rare", None, TF)),
    ]
    ops, events = ops_ran(types, *runs, self_ps=self_ps)
    found = short(ops, events, windows_at((0, 400 * US), (400 * US, 900 * US)))
    expected = SmallOps(
        dispatch_ps=(49 * 2 * US, 49 * 2 * US),
        own_ps=(50 * US, 50 * US),
        per_step=50.0,
        mean_ps=US,
        names=(("Add", 50.0),),
    )
    assert fields_of(found) == fields_of(expected)
    # A third step without ops makes the ops too rare.
    three = windows_at((0, 400 * US), (400 * US, 900 * US), (900 * US, 950 * US))
    none = short(ops, events, three)
    nothing = (0, 0, 0)
    expected = SmallOps(nothing, nothing, 0.0, None, ())
    assert fields_of(none) == fields_of(expected)


def test_short_ops_with_the_longest_pauses_before_them_are_first() -> None:
    """Each of three threads runs one type; `a` and `b` after pauses of 2 µs."""
    runs = [
        (type_, type_, at * (1 + pause) * US, US)
        for type_, pause in ((0, 2), (1, 2), (2, 3))
        for at in range(60)
    ]
    ops, events = ops_ran([("b", None, TF), ("a", None, TF), ("c", None, TF)], *runs)
    found = short(ops, events, windows_at((0, 900 * US)))
    assert found.names == (("c", 60.0), ("a", 60.0), ("b", 60.0))
    assert found.dispatch_ps == (59 * (2 + 2 + 3) * US,)


def test_the_time_between_short_ops_begins_at_their_ends() -> None:
    runs = [(0, 1, at * 5 * US, (3, 1)[at % 2] * US) for at in range(50)]
    ops, events = ops_ran([("a", None, TF)], *runs)
    found = short(ops, events, windows_at((0, 900 * US)))
    assert found.own_ps == (100 * US,)
    assert found.mean_ps == 2 * US
    # After an op of 3 µs 2 remain until the next, and after one of 1 µs 4.
    assert found.dispatch_ps == (25 * 2 * US + 24 * 4 * US,)


def test_ops_that_produce_batches_are_not_short_work_of_the_program() -> None:
    runs = [(at % 2, 1 + at % 2, at * 5 * US, US) for at in range(200)]
    types = [("a", None, TF), ("b", None, TF)]
    ops, events = ops_ran(types, *runs)
    spans = spans_of((0, 2 * MS))
    classes = SimpleNamespace(
        by_thread={
            1: {HostCode.ITERATOR: spans},
            2: {HostCode.HOST_COMPUTE: spans},
        }
    )
    found = short(ops, events, windows_at((0, 2 * MS)), classes)
    assert found.names == (("b", 100.0),)
    datasets, events = ops_ran([("a", None, DATASET), types[1]], *runs)
    assert short(datasets, events, windows_at((0, 2 * MS))).names == (("b", 100.0),)
    empty = SimpleNamespace(event=np.empty(0, np.int32))
    assert short(empty, events, windows_at((0, 1))) is None


def test_a_pause_of_a_millisecond_is_the_way_to_an_op_and_a_longer_is_not() -> None:
    """An op that encloses the next one leaves no way to it."""
    runs, begin = [], 0
    for at in range(60):
        runs.append((0, 1, begin, US))
        begin += US + {10: MS, 20: MS + 1}.get(at, 10)
    runs += [(1, 1, begin, 30 * MS), (0, 1, begin + 5, US), (0, 1, begin + 31 * MS, US)]
    ops, events = ops_ran([("a", None, TF), ("long", None, TF)], *runs)
    found = short(ops, events, windows_at((0, 200 * MS)))
    # The last of them begins 1 ms after the enclosing op, which is what ended last.
    assert found.dispatch_ps == (57 * 10 + MS + MS,)


# --- sides ---


def sides(*numbers: int | None) -> Any:
    names = ("device_executions", "host_executions", "device_self_ps", "host_self_ps")
    return SimpleNamespace(**dict(zip(names, numbers, strict=True)))


def test_ops_of_all_hosts_are_on_one_side_or_the_other() -> None:
    hosts = {"a": sides(3, 1, 60, 20), "b": sides(0, 6, None, 50), "c": OTHER}
    found = ops_on_sides.function(op_placement=hosts)
    assert fields_of(found) == fields_of(OpsOnSides(30.0, 75.0))
    untimed = ops_on_sides.function(op_placement={"a": sides(1, 1, None, None)})
    assert fields_of(untimed) == fields_of(OpsOnSides(50.0, None))
    nothing = ops_on_sides.function(op_placement={"a": sides(0, 0, 0, 0)})
    assert fields_of(nothing) == fields_of(OpsOnSides(None, None))
    assert ops_on_sides.function(op_placement={"c": OTHER}) == OTHER


def waited(*rows: tuple[str, int | None, str | None, str, int]) -> Any:
    schema = {
        "owner": pl.String,
        "device": pl.Int32,
        "function": pl.String,
        "name": pl.String,
        "time_ps": pl.Int64,
    }
    return SimpleNamespace(rows=pl.DataFrame(rows, schema=schema, orient="row"))


TYPED = [
    ("model/MatMul", "MatMul", TF),
    ("model/Slice", "Slice", TF),
    ("other/PyFunc", "PyFunc", TF),
    ("Slice", "Slice", TF),
    ("launches", "Relu", TF),
    ("data/Map", "Map", DATASET),
    ("aten::mm", None, TF),
]
PARTS = waited(
    *(("host_compute", 0, None, name, 10 + at) for at, (name, *_) in enumerate(TYPED)),
    ("host_compute", 0, None, "Slice", 3),
    ("host_compute", 0, "f", "Slice", 90),
    ("launch", 0, None, "Slice", 90),
    ("host_compute", None, None, "Slice", 90),
    ("host_compute", 0, None, "not an op", 90),
    ("launch", 1, None, "x", 90),
)


def placed(**given: Any) -> Any:
    runs = [(at, at % 3, 100 * at, 50) for at in range(len(TYPED))]
    ops, events = ops_ran(TYPED, *runs)
    return placement_signals.function(
        **{
            "account_parts": PARTS,
            "host_op_events": ops,
            "device_ops": SimpleNamespace(
                rows=pl.DataFrame({"name": ["model/Conv", None, "Slice"]})
            ),
            "events": events,
            # Of the thread of `launches`, of which one call is in its execution.
            "launches": events_at(
                (0, 1, 449, 1), (0, 1, 399, 1), (0, 0, 60, 1), (0, 0, 650, 1)
            ),
            **given,
        }
    )


def test_every_op_on_the_host_that_a_device_waits_for() -> None:
    found = placed()
    expected = {
        0: (
            HostPlaced("Slice", "other", 16),
            HostPlaced("aten::mm", "heavy", 16),
            HostPlaced("other/PyFunc", "callback", 12),
            HostPlaced("model/Slice", "model", 11),
            HostPlaced("model/MatMul", "heavy", 10),
        ),
        1: (),
    }
    assert fields_of(found) == fields_of(expected)


def test_without_launches_and_device_ops_all_ops_are_on_the_host() -> None:
    found = placed(launches=ABSENT, device_ops=ABSENT)
    kinds = {op.name: op.kind for op in found[0]}
    assert kinds == {
        "Slice": "other",
        "aten::mm": "heavy",
        "launches": "other",
        "other/PyFunc": "callback",
        "model/Slice": "other",
        "model/MatMul": "heavy",
    }


def test_an_op_that_launches_under_its_name_once_is_on_the_device() -> None:
    """Two ops have one name; only one of them launches, exactly when it begins."""
    types = [("same", "A", TF), ("same", "B", TF), ("ends", "C", TF)]
    ops, events = ops_ran(types, (0, 0, 0, 9), (1, 0, 10, 9), (2, 0, 20, 9))
    parts = waited(*(("host_compute", 0, None, name, 5) for name in ("same", "ends")))
    found = placed(
        account_parts=parts,
        host_op_events=ops,
        events=events,
        launches=events_at((0, 0, 10, 1), (0, 0, 29, 1)),
    )
    assert [op.name for op in found[0]] == ["ends"]
