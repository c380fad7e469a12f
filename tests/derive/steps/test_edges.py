"""Edges of steps, the calls around segments, and launches, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces.literal_tables import (
    activity_of,
    correlation_of,
    kinds_of,
    tables_of,
    types_of,
)

from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag, HostClass
from stepscope.derive.steps.evidence import StepEvidence
from stepscope.derive.steps.launches import (
    count_runs,
    host_launches,
    is_outermost,
    module_launches,
    program_runs,
)

# Kinds of events, by their position in NAMES.
NAMES = [
    *("op", "wait", "sync", "read", "adam", "request", "pjit", "module", "call"),
    *("node", "layer_0", "layer_1", "layer_2", "block 7", "captured", "dataset"),
    *("part_0", "part_1", "part_2", "consumer"),
]
KIND = {name: number for number, name in enumerate(NAMES)}
KINDS = kinds_of(
    len(NAMES),
    ops=[KIND["op"], KIND["dataset"]],
    classes={
        KIND["wait"]: HostClass.INPUT_WAIT,
        KIND["sync"]: HostClass.SYNC,
        KIND["read"]: HostClass.READ_BACK,
    },
    flags={
        KIND["adam"]: EventFlag.OPTIMIZER,
        KIND["request"]: EventFlag.SERVING,
        KIND["pjit"]: EventFlag.PJIT,
        KIND["module"]: EventFlag.MODULE_CALL,
        KIND["call"]: EventFlag.FUNCTION_CALL,
        KIND["captured"]: EventFlag.CAPTURED_FUNCTION,
        KIND["dataset"]: EventFlag.DATASET,
        KIND["part_0"]: EventFlag.MODULE_CALL,
        KIND["part_1"]: EventFlag.MODULE_CALL,
        KIND["part_2"]: EventFlag.MODULE_CALL,
        KIND["consumer"]: EventFlag.CONSUMER_WAIT,
    },
)
#: (name, start, length) on the first thread, or with the number of a thread.
Line = tuple[Any, ...]
TRACKS = ["main", "second", "tf_data_worker"]


def tables(lines: list[Line]) -> Any:
    rows = [line if isinstance(line[0], int) else (0, *line) for line in lines]
    return tables_of([(row[0], KIND[row[1]], *row[2:]) for row in rows], TRACKS)


def evidence_of(
    lines: list[Line],
    *,
    activity: list[Any] | None = None,
    launches: list[Any] = (),
    launch_of: list[int] | None = None,
    sizes: list[int | None] | None = None,
) -> StepEvidence:
    names = NAMES.copy()
    names[KIND["node"]] = "autograd::engine::evaluate_function: AddBackward"
    frame = None
    matched = None
    if activity is not None:
        columns = {} if sizes is None else {"bytes": sizes}
        frame = activity_of(activity, **columns)
        if launch_of is not None:
            matched = correlation_of(frame, launches, launch_of)
    return StepEvidence(*tables(lines), types_of(names), KINDS, frame, matched)


def every(name: str, *segments: int, offset: int = 5, length: int = 2) -> list[Line]:
    """An event in each of these segments of 10."""
    return [(name, 10 * segment + offset, length) for segment in segments]


def starts(count: int) -> Any:
    return 10 * np.arange(count)


# Edges on the host.


def test_steps_have_an_edge_of_one_kind_in_nearly_all_of_them() -> None:
    """Ten segments and a last one, which is not judged: nine are enough."""
    cases: list[str] = [
        "wait",
        "consumer",
        "sync",
        "read",
        "adam",
        "request",
        "module",
        "pjit",
    ]
    for name in cases:
        for missing, lacks in ((1, False), (2, True)):
            lines = every(name, *range(missing, 10))
            # More of its kind elsewhere: their number is not that of the segments.
            lines += [(1, name, at, 1) for at in range(-30, 0)]
            found = evidence_of([*lines, ("op", 0, 1)])
            assert found.lacks_an_edge(starts(11), on_device=False) is lacks


def test_edges_before_and_after_the_segments_do_not_count() -> None:
    lines = [*every("adam", *range(1, 9)), ("adam", 105, 2), ("adam", -5, 2)]
    assert evidence_of(lines).lacks_an_edge(starts(11), on_device=False)
    lines.append(("adam", 0, 2))
    assert not evidence_of(lines).lacks_an_edge(starts(11), on_device=False)
    lines[-1] = (2, "adam", 0, 2)  # on a worker of the input pipeline
    assert evidence_of(lines).lacks_an_edge(starts(11), on_device=False)


def test_edges_of_two_kinds_are_not_added_up() -> None:
    lines = [*every("adam", *range(5)), *every("wait", *range(5, 10))]
    assert evidence_of(lines).lacks_an_edge(starts(11), on_device=False)


def test_a_single_start_has_no_segment_with_an_edge() -> None:
    found = evidence_of(every("adam", 0))
    assert found.lacks_an_edge(starts(1), on_device=False)
    assert not found.lacks_an_edge(starts(2), on_device=False)


@pytest.mark.parametrize(("name", "programs"), [("pjit", True), ("sync", False)])
@pytest.mark.parametrize(
    ("count", "lacks"), [(9, True), (10, False), (12, False), (13, True)]
)
def test_as_many_calls_as_segments_are_edges_wherever_they_are(
    name: str, count: int, *, programs: bool, lacks: bool
) -> None:
    """All of them are in the first segment: a program may run later than its call."""
    lines = [(name, 0, 0)] * count + [("op", 50, 1)]
    found = evidence_of(lines)
    given = {"on_device": False, "programs": programs}
    assert found.lacks_an_edge(starts(11), **given) is lacks


def test_calls_of_programs_are_edges_only_where_asked() -> None:
    lines = [*every("pjit", *range(10)), *every("pjit", *range(10), offset=8, length=1)]
    found = evidence_of(lines)
    assert not found.lacks_an_edge(starts(11), on_device=False)
    assert found.lacks_an_edge(starts(11), on_device=False, programs=False)


def test_only_the_outermost_call_of_a_program_is_an_edge() -> None:
    """One call around all segments, and one in each of them inside it."""
    lines = [("module", 0, 100), *every("module", *range(10))]
    assert evidence_of(lines).lacks_an_edge(starts(11), on_device=False)


def test_a_backward_pass_begins_with_a_node_after_an_op_of_the_program() -> None:
    """Two nodes in each segment; another thread's ops are not between them."""
    lines = [
        *every("op", *range(10), offset=1, length=1),
        *every("node", *range(10), offset=3, length=1),
        *every("node", *range(10), offset=5, length=3),
        *every("op", *range(10), offset=6, length=1),  # inside a node
        *((1, "op", 10 * each + 4, 1) for each in range(5)),
    ]
    found = evidence_of(lines)
    assert not found.lacks_an_edge(starts(11), on_device=False)
    alone = [line for line in lines if line[0] != "op" or line[1] % 10 == 6]
    # Without an op between them, all nodes are one pass.
    assert evidence_of(alone[:20]).lacks_an_edge(starts(11), on_device=False)


# Edges on the device.


def device_edges(kinds: list[tuple[str, int | None]], *, on_device: bool) -> bool:
    """Whether edges lack, of one activity in each of ten segments of the device.

    Their calls begin one segment earlier on the host.
    """
    activity = [
        (9, 0, kind, KIND["op"], 10 * at + 105, 1) for at, (kind, _) in enumerate(kinds)
    ]
    found = evidence_of(
        [("op", 0, 1)],
        activity=activity,
        launches=[(0, 0, 10 * at + 5, 1) for at in range(len(kinds))],
        launch_of=list(range(len(kinds))),
        sizes=[size for _, size in kinds],
    )
    begin = starts(11) + (100 if on_device else 0)
    return found.lacks_an_edge(begin, on_device=on_device)


@pytest.mark.parametrize(
    ("kind", "size", "lacks"),
    [
        ("h2d", 65, False),
        ("h2d", 64, True),  # scalars
        ("h2d", None, False),
        ("d2h", 8, False),
        ("kernel", None, True),
        ("p2p_copy", 999, True),
    ],
)
def test_copies_to_and_from_the_host_are_edges(
    kind: str, size: int | None, *, lacks: bool
) -> None:
    assert device_edges([(kind, size)] * 10, on_device=False) is lacks
    assert device_edges([(kind, size)] * 10, on_device=True) is lacks


def test_updates_of_weights_on_the_device_are_edges() -> None:
    activity = [(9, 0, "kernel", KIND["adam"], 10 * at + 5, 1) for at in range(10)]
    found = evidence_of([("op", 0, 1)], activity=activity)
    assert not found.lacks_an_edge(starts(11), on_device=True)
    # Without launches, nobody knows when the host asked for them.
    assert found.lacks_an_edge(starts(11), on_device=False)
    without = evidence_of([("op", 0, 1)])
    assert without.lacks_an_edge(starts(11), on_device=True)


def test_on_the_device_a_backward_pass_begins_with_its_first_work() -> None:
    """Each pass begins at 3 of its segment on the host; its kernel runs 100 later."""
    lines = [
        *every("op", *range(10), offset=1, length=1),
        *every("node", *range(10), offset=3, length=3),
    ]
    calls = [(0, 0, 10 * at + 4, 1) for at in range(10)]
    activity = [(9, 0, "kernel", KIND["op"], 10 * at + 105, 1) for at in range(10)]
    found = evidence_of(
        lines, activity=activity, launches=calls, launch_of=list(range(10))
    )
    assert not found.lacks_an_edge(starts(11) + 100, on_device=True)
    early = [(0, 0, 10 * at + 2, 1) for at in range(10)]
    # Launched before its pass, each kernel is the first of the next; the last has none.
    found = evidence_of(
        lines, activity=activity, launches=early, launch_of=list(range(10))
    )
    assert not found.lacks_an_edge(starts(11) + 105, on_device=True)
    assert found.lacks_an_edge(starts(11) + 95, on_device=True)
    assert evidence_of(lines, activity=activity).lacks_an_edge(
        starts(11) + 100, on_device=True
    )


@pytest.mark.parametrize(("at", "lacks"), [(6, True), (9, False)])
def test_a_wait_inside_an_op_that_copies_a_scalar_is_no_edge(
    at: int, *, lacks: bool
) -> None:
    lines = [
        *every("op", *range(10), offset=4, length=4),
        *every("sync", *range(10), offset=at, length=1),
        *((1, "sync", 300, 1) for _ in range(30)),
    ]
    activity = [(9, 0, "h2d", KIND["op"], 10 * k + 5, 1) for k in range(10)]
    found = evidence_of(
        lines,
        activity=activity,
        launches=[(0, 0, 10 * k + 5, 1) for k in range(10)],
        launch_of=list(range(10)),
        sizes=[8] * 10,
    )
    assert found.lacks_an_edge(starts(11), on_device=False) is lacks


# Op by op.


def test_a_few_programs_of_an_op_each_are_ops() -> None:
    """Programs in ten segments, each called so many times in all."""
    cases: list[tuple[list[int], float, bool]] = [
        ([10, 10], 4, True),  # 20 calls of 0.9 × 4 × 10 / 2
        ([10, 8], 4, True),
        ([10, 7], 4, False),
        ([10], 2, False),  # one program is a step
        ([10, 5], 2, True),  # half of the segments are often
        ([10, 4], 2, False),
        ([10] * 4, 8, True),
        ([10] * 5, 8, False),  # five are more than a layer has
    ]
    for calls, executed, few in cases:
        kinds = kinds_of(6, flags=dict.fromkeys(range(5), EventFlag.PJIT))
        lines = [
            (0, kind, 10 * at + kind, 1)
            for kind, count in enumerate(calls)
            for at in range(count)
        ]
        found = StepEvidence(
            *tables_of([*lines, (0, 5, 0, 0)], TRACKS),
            types_of(["x"] * 6),
            kinds,
            None,
            None,
        )
        assert found.runs_op_by_op(10, executed=executed) is few


# Calls around segments, and series of modules.


@pytest.mark.parametrize(
    ("calls", "inside"), [([60], True), ([20, 20, 20], True), ([10] * 6, False)]
)
def test_several_segments_inside_one_call_are_layers(
    calls: list[int], *, inside: bool
) -> None:
    """Six segments of 10: 1.5 of them in a call are enough."""
    track = np.zeros(6, np.int32)
    for name in ("module", "op", "request"):
        at, lines = 0, []
        for length in calls:
            lines.append((name, at, length))
            at += length
        found = evidence_of(lines)
        assert found.inside_one_call(track, starts(6)) is inside
        # On another thread, no call is around them.
        assert not found.inside_one_call(np.ones(6, np.int32), starts(6))
    assert not evidence_of([("dataset", 0, 60)]).inside_one_call(track, starts(6))


def test_segments_of_two_threads_are_counted_on_each() -> None:
    """Three segments in a call, and three without one: four calls of six."""
    found = evidence_of([("module", 0, 30)])
    track = np.array([0, 0, 0, 1, 1, 1], np.int32)
    assert found.inside_one_call(track, starts(6))
    track = np.array([0, 0, 1, 1, 1, 1], np.int32)
    assert not found.inside_one_call(track, starts(6))


@pytest.mark.parametrize(
    ("lines", "numbered"),
    [
        ([(f"layer_{k}", 10 * k + 5, 2) for k in range(3)], True),
        ([(f"part_{k}", 10 * k + 5, 2) for k in range(3)], True),
        ([(f"layer_{k}", 10 * k + 5, 2) for k in (0, 1)], False),  # two are no series
        ([(f"layer_{k}", 10 * k + 5, 2) for k in (0, 1, 1, 2)], False),  # called twice
        ([(f"layer_{k}", 5 + k, 1) for k in range(3)], False),  # in one segment
        ([("layer_0", 5, 2), ("part_1", 15, 2), ("layer_2", 25, 2)], False),
        ([("op", 5, 2), ("adam", 15, 2), ("wait", 25, 2)], False),
    ],
)
def test_segments_of_numbered_instances_are_layers(
    lines: list[Line], *, numbered: bool
) -> None:
    assert evidence_of(lines).numbered_instances(starts(4)) is numbered


def test_many_more_instances_than_segments_are_no_segments() -> None:
    lines = [(f"layer_{k}", 10 * k + 5, 2) for k in range(3)]
    found = evidence_of(lines)
    assert found.numbered_instances(starts(2))  # three of at most 1.5 × 2
    assert not found.numbered_instances(starts(1))


# Launches.


def test_launches_are_outermost_calls_of_programs_and_models() -> None:
    """By thread and program, those that took longest first."""
    lines: list[Line] = [
        *(("pjit", 100 * k, 50) for k in range(4)),
        *(("pjit", 100 * k + 10, 20) for k in range(4)),  # inside the same program
        *(("call", 100 * k + 12, 5) for k in range(4)),
        *(("module", 100 * k + 60, 30) for k in range(3)),
        *(("module", 100 * k + 65, 9) for k in range(3)),  # inside the model
        *(("part_0", 100 * k + 76, 9) for k in range(3)),
        *((1, "request", 100 * k, 60) for k in range(3)),
        *((1, "call", 100 * k + 70, 9) for k in range(2)),  # two are too few
        *((2, "pjit", 100 * k, 90) for k in range(3)),  # of the input pipeline
    ]
    found = host_launches(*tables(lines), KINDS)
    assert [
        (each.track, NAMES[each.type], each.start_ps.tolist()) for each in found
    ] == [
        (0, "pjit", [0, 100, 200, 300]),
        (1, "request", [0, 100, 200]),
        (0, "module", [60, 160, 260]),
        (0, "call", [12, 112, 212, 312]),
    ]


def test_programs_inside_functions_of_the_input_pipeline_are_no_launches() -> None:
    lines: list[Line] = [
        *(("pjit", 100 * k, 50) for k in range(4)),
        *((1, "pjit", 100 * k + 5, 10) for k in range(4)),
        *((1, "captured", 100 * k, 50) for k in range(4)),
    ]
    found = host_launches(*tables(lines), KINDS)
    assert [each.track for each in found] == [0]
    assert host_launches(*tables([("op", 0, 1)]), KINDS) == []


def test_runs_of_programs_are_merged_on_each_thread() -> None:
    lines: list[Line] = [
        *(("pjit", 0, 50), ("call", 10, 20), ("request", 60, 10), ("module", 90, 5)),
        *((1, "pjit", 5, 10), (2, "pjit", 0, 9)),
    ]
    runs = program_runs(*tables(lines), KINDS)
    assert runs == {0: Spans.of([(0, 50), (60, 70)]), 1: Spans.of([(5, 15)])}
    calls = [
        *((0, 0, 0, 1), (0, 0, 49, 1), (0, 0, 50, 1), (0, 0, 55, 1), (0, 0, 60, 1)),
        *((1, 0, 60, 1), (1, 0, 5, 1), (1, 0, 6, 1), (3, 0, 1, 1)),
    ]
    launches = correlation_of(activity_of([]), calls, []).launches

    def counted(*rows: int) -> int:
        return count_runs(runs, launches, np.array(rows, np.int32))

    assert counted(0, 1) == counted(0) == counted(0, 0) == 1
    assert counted(0, 2, 3, 4) == 4  # two runs, and two calls without one
    assert counted(5, 6, 7, 8) == 3
    assert counted() == 0


def test_lines_of_modules_are_sequences_with_their_programs() -> None:
    """The first line repeats two programs; the second has two events."""
    lines = [
        *((1, 5, 100 * k, 60) for k in range(4)),
        *((1, 6, 100 * k + 70, 20) for k in range(4)),
        *((1, 7, 400 + k, 1) for k in range(2)),
        *((2, 5, 100 * k, 60) for k in range(2)),
        *((0, 5, 100 * k, 60) for k in range(4)),
    ]
    core = {"kind": "derived", "derived": "xla_modules", "device": 3}
    found = module_launches(
        *tables_of(lines, ["main", {**core, "name": "XLA Modules"}, core])
    )
    assert len(found) == 1
    sequence, launches = found[0]
    assert sequence.what == "programs of XLA Modules of device 3"
    assert sequence.on_device
    assert sequence.work.tolist() == [*[60, 20] * 4, 1, 1]
    assert [(each.track, each.type, each.start_ps.tolist()) for each in launches] == [
        (1, 5, [0, 100, 200, 300]),
        (1, 6, [70, 170, 270, 370]),
    ]


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), max_size=9).map(sorted)
)
def test_events_that_begin_before_an_earlier_one_ends_are_not_outermost(
    rows: list[tuple[int, int]],
) -> None:
    start, dur = (np.array([row[at] for row in rows], np.int64) for at in (0, 1))
    expected = [
        all(sum(before) <= row[0] for before in rows[:at])
        for at, row in enumerate(rows)
    ]
    assert is_outermost(start, start + dur).tolist() == expected
