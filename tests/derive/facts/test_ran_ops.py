"""Which ops a function of a literal host calls, worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.traces.literal import Tables, events_at, spans_of, types_named

from stepscope.derive.facts.hosts.ran_ops import RanOps, SampledTime, ran_ops
from stepscope.derive.step_time.host_time import HostCode

OP, GARBAGE = HostCode.HOST_COMPUTE, HostCode.GARBAGE


def ops_at(*ops: tuple[int, int, int], **passes: Any) -> RanOps:
    """Ops: start, end and kind; which kinds are of a backward or forward pass."""
    start, end, kind = (np.array([op[at] for op in ops], np.int64) for at in range(3))
    none = np.zeros(int(kind.max(initial=-1)) + 1, np.bool_)
    backward, forward = (
        none if name not in passes else np.array(passes[name], np.bool_)
        for name in ("backward", "forward")
    )
    return RanOps(start, end, kind, backward, forward, passes.get("nodes", 0))


def within(*ran: tuple[int, int], seen: Any = None, of_ps: int = 0) -> SampledTime:
    return SampledTime(spans_of(*ran), spans_of(*(seen or ran)), of_ps)


def test_an_op_is_a_functions_if_half_of_it_is_there() -> None:
    cases: list[tuple[SampledTime, bool]] = [
        # Half of the 100 ps of an op that ends at 99.
        (within((0, 50)), True),
        (within((0, 49)), False),
        (within(), False),
        # 25 ps certainly, extrapolated to 50 ps of samples.
        (within((0, 25), seen=[(0, 50)]), True),
        (within((0, 25), seen=[(0, 49)]), False),
        # Or to a quarter of all steps.
        (within((0, 25), of_ps=200), True),
        (within((0, 25), of_ps=199), False),
        # Nothing of the op is in this.
        (within((200, 225), of_ps=10_000), False),
    ]
    for time, held in cases:
        assert ops_at((0, 99, 0)).kinds_within(time).tolist() == [held]
        # 50 of 101 ps are less than half.
        assert not ops_at((0, 100, 0)).kinds_within(within((0, 50))).any()


def test_ops_of_one_kind_are_judged_together() -> None:
    ops = ops_at((0, 0, 0), (10, 19, 1), (50, 99, 1), (20, 30, 2), (0, 4, 2))
    assert ops.kinds_within(within((0, 45))).tolist() == [True, False, True]
    assert ops.spans == spans_of((0, 4), (10, 19), (20, 30), (50, 99))
    # Of the op that is elsewhere, the time in which others run is theirs.
    ops = ops_at((0, 40, 0), (30, 100, 1))
    assert ops.spans_of_other_kinds(within((0, 40))) == spans_of((40, 100))
    assert ops.spans_of_other_kinds(within((0, 200))) == spans_of()


@pytest.mark.parametrize(
    ("until", "found"), [(5, False), (15, False), (25, True), (45, True), (0, False)]
)
def test_most_kinds_of_ops_run_in_a_function(until: int, *, found: bool) -> None:
    """Of three kinds two are most; ten runs of the last are one kind."""
    often = tuple((40 + at, 41 + at, 2) for at in range(10))
    ops = ops_at((0, 5, 0), (20, 24, 1), *often)
    time = within((0, until)) if until else within()
    assert ops.run_within(time) is found
    assert ops.pass_runs_within(time) is found
    assert not ops_at((0, 5, 0), (20, 24, 1)).run_within(within((0, 5)))
    assert not ops_at().run_within(within((0, 5)))
    assert not ops_at().pass_runs_within(within((0, 5)))


#: A kind without gradients, two of the forward pass, two of the backward pass.
PASSES: Any = {
    "forward": [False, True, True, False, False],
    "backward": [False, False, False, True, True],
    "nodes": 2,
}
MODEL = ((0, 9, 0), (10, 19, 1), (20, 29, 2), (30, 39, 3), (40, 49, 4))


def test_a_step_runs_both_passes() -> None:
    cases: list[tuple[SampledTime, bool, bool]] = [
        (within((10, 50)), True, True),
        (within((10, 30)), False, True),
        (within((30, 50)), False, True),
        # One of two kinds of a pass is not most of them.
        (within((0, 20), (40, 50)), False, False),
        (within((20, 40)), False, False),
        (within((10, 40)), False, True),
        (within((20, 50)), False, True),
    ]
    for time, both, one in cases:
        ops = ops_at(*MODEL, **PASSES)
        assert ops.run_within(time) is both
        assert ops.pass_runs_within(time) is one


def test_more_than_two_forward_ops_a_node_are_a_validation() -> None:
    """Two nodes: four forward ops are a checkpointed pass, five are not."""
    forward = ((10, 19, 1), (20, 29, 2), (50, 59, 1), (60, 69, 2))
    ops = (*MODEL[:1], *MODEL[3:], *forward)
    time = within((10, 30), (50, 100))
    assert ops_at(*ops, **PASSES).pass_runs_within(time)
    assert not ops_at(*ops, (70, 79, 2), **PASSES).pass_runs_within(time)
    # Those outside of the function do not count.
    assert ops_at(*ops, (100, 109, 2), **PASSES).pass_runs_within(time)
    assert not ops_at(*ops, (99, 108, 2), **PASSES).pass_runs_within(time)
    assert not ops_at(*ops, (99, 99, 2), **PASSES).pass_runs_within(time)
    assert not ops_at(*ops, (48, 50, 2), **PASSES).pass_runs_within(time)
    # With the backward pass, their number does not matter.
    assert ops_at(*ops, (70, 79, 2), **PASSES).pass_runs_within(within((10, 100)))


# --- from events ---

NAMES = (
    "aten::_log_softmax",
    "LogSoftmaxBackward0",
    "autograd::engine::evaluate_function: LogSoftmaxBackward0",
    "aten::mul",
    None,
    "log_softmax",
)


def ran(
    *events: tuple[int, int, int, int, HostCode],
    threads: tuple[int, ...] = (1,),
    names: tuple[str | None, ...] = NAMES,
) -> RanOps:
    """Type, track, start, duration and code of events; tracks are in order."""
    tracks = [track for _, track, *_ in events]

    def track_rows(track: int) -> slice:
        begin = sum(each < track for each in tracks)
        return slice(begin, begin + tracks.count(track))

    states: Any = SimpleNamespace(
        classes=SimpleNamespace(
            rows=SimpleNamespace(track_rows=track_rows),
            code=np.array([code for *_, code in events], np.uint8),
        )
    )
    trace: Any = Tables(
        events=events_at(*(event[:4] for event in events)),
        event_types=types_named(*names),
    )
    return ran_ops(trace, states, threads, spans_of((0, 400)))


EVENTS = (
    # In no judged step: it begins before the first of them.
    (3, 1, -1, 5, OP),
    (0, 1, 0, 10, OP),
    (3, 1, 20, 5, OP),
    # It begins before a node.
    (0, 1, 99, 2, OP),
    (2, 1, 100, 50, OP),
    (2, 1, 105, 40, OP),
    (1, 1, 110, 30, OP),
    # Recomputed in the backward pass: from its first moment to its last.
    (0, 1, 120, 5, OP),
    (0, 1, 149, 5, OP),
    (0, 1, 150, 5, OP),
    (4, 1, 160, 3, OP),
    (3, 1, 200, 3, GARBAGE),
    (5, 1, 399, 30, OP),
    # In no judged step: it begins after the last of them.
    (3, 1, 400, 3, OP),
    (3, 2, 30, 3, OP),
)


def test_every_field_of_the_ops_of_a_thread() -> None:
    found = ran(*EVENTS)
    assert found.start_ps.tolist() == [
        0,
        20,
        99,
        100,
        105,
        110,
        120,
        149,
        150,
        160,
        399,
    ]
    assert found.end_ps.tolist() == [
        10,
        25,
        101,
        150,
        145,
        140,
        125,
        154,
        155,
        163,
        429,
    ]
    # Kinds: the six types in order, then the first of them in the backward pass.
    assert found.kind.tolist() == [0, 3, 0, 2, 2, 1, 6, 6, 0, 4, 5]
    assert np.flatnonzero(found.backward).tolist() == [1, 2]
    assert np.flatnonzero(found.forward).tolist() == [0]
    assert len(found.backward) == len(found.forward) == 7
    assert found.nodes == 1
    assert found.spans == spans_of((0, 10), (20, 25), (99, 155), (160, 163), (399, 429))


def test_ops_of_several_threads_are_together() -> None:
    found = ran(*EVENTS, threads=(2, 1))
    assert found.start_ps.tolist()[:2] == [30, 0]
    assert len(found.kind) == 12
    assert ran(*EVENTS, threads=(2,)).kind.tolist() == [0]
    nothing = ran(*EVENTS, threads=())
    assert (len(nothing.start_ps), len(nothing.backward), nothing.nodes) == (0, 0, 0)


def test_nodes_that_only_the_engine_names_are_counted() -> None:
    engine = "autograd::engine::evaluate_function: AddBackward0"
    found = ran(
        *((0, 1, 0, 5, OP), (1, 1, 10, 5, OP), (1, 1, 20, 5, OP)),
        names=("aten::add", engine),
    )
    assert found.nodes == 2
    assert found.kind.tolist() == [0, 1, 1]
    assert (found.forward.tolist(), found.backward.tolist()) == (
        [True, False],
        [False, True],
    )
