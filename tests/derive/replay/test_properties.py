"""What holds of every claim on every graph."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.kept_promises import check_graph
from tests.support.traces.replayed import Program, call, kernel, step

from stepscope.derive.intervals.spans import Spans
from stepscope.derive.replay.node_times import (
    SLACKS,
    joint_gain,
    replay_graph,
    replayed_gain,
)
from stepscope.derive.replay.nodes import (
    NodeKind,
    copies_moved,
    joint_edit,
    kernels_scaled,
    launched_as_one,
    synchronising_removed,
    threads_faster,
    unchanged_edit,
)

if TYPE_CHECKING:
    from stepscope.derive.replay.nodes import Edit

STEPS, CALLS = 5, 4
#: Of each call of a step: pause before it, its kernel's length, its stream, and whether
#: the host then waits for it.
CALL = st.tuples(
    st.integers(1, 60), st.integers(1, 90), st.sampled_from((7, 8)), st.booleans()
)


@cache
def made(plan: tuple[Any, ...]) -> Program:
    """A program that behaves as launches, streams and waits do."""
    lines: list[Any] = []
    now, number = 0, 0
    free = {7: 0, 8: 0}
    for at in range(STEPS):
        begin, body = now, []
        for pause, length, stream, waits in plan:
            number += 1
            now += pause
            start = max(now + 8, free[stream] + 1)
            body += [call(number, now, 5), kernel(number, start, length, stream=stream)]
            free[stream] = start + length
            now += 6
            if waits:
                done = max(free.values())
                wait = max(done - now, 1) + 2
                body.append(("main", "cuDeviceSynchronize", now, wait))
                now += wait + 1
        now += 20
        lines += [step(at, begin, now - begin - 1), *body]
    return Program(lines)


PLANS = st.lists(CALL, min_size=1, max_size=CALLS).map(tuple)


@st.composite
def claims(draw: st.DrawFn, found: Program) -> list[Edit]:
    """Some claims of every kind about one program."""
    graph = found.graph
    bits = draw(st.integers(0, 2**20))
    chosen = (bits >> (np.arange(graph.count) % 20)) % 2 == 1
    factor = draw(st.sampled_from((0.0, 0.3, 1.0)))
    groups = np.where(chosen, np.arange(graph.count) // 5, -1).astype(np.int32)
    begin = draw(st.integers(0, 500)) * 1_000_000
    spans = Spans.of([(begin, begin + draw(st.integers(1, 800)) * 1_000_000)])
    every = [
        kernels_scaled(graph, chosen, factor=factor),
        synchronising_removed(graph, chosen),
        copies_moved(graph, chosen),
        launched_as_one(graph, groups),
        threads_faster(graph, spans, factor=draw(st.sampled_from((1.5, 4.0)))),
        found.without("launch"),
        found.without("host_compute", "sync", "between", "unexplained"),
    ]
    picked = draw(st.lists(st.integers(0, len(every) - 1), min_size=1, max_size=3))
    return [every[at] for at in dict.fromkeys(picked)]


@pytest.mark.slow(seconds=0.4)
@given(plan=PLANS, data=st.data())
def test_a_claim_gains_something_between_nothing_and_the_period(
    plan: tuple[Any, ...], data: st.DataObject
) -> None:
    found = made(plan)
    for edit in data.draw(claims(found)):
        gain = replayed_gain(found.graph, edit)
        assert 0 <= gain.low_ps <= gain.high_ps
        assert gain.high_ps <= max(gain.period_ps - gain.floor_ps, 0)


@pytest.mark.slow(seconds=0.3)
@given(plan=PLANS, data=st.data())
def test_claims_together_promise_at_most_their_sum_and_shorten_no_less(
    plan: tuple[Any, ...], data: st.DataObject
) -> None:
    found = made(plan)
    edits = data.draw(claims(found))
    singles = [replayed_gain(found.graph, edit) for edit in edits]
    together = joint_gain(found.graph, edits)
    assert together.high_ps <= sum(one.high_ps for one in singles) + 1e-6
    assert together.low_ps <= sum(one.low_ps for one in singles) + 1e-6
    # A change more never makes the last window end later.
    for slack in SLACKS:
        whole = replay_graph(found.graph, joint_edit(found.graph, edits), slack=slack)
        for edit in edits:
            alone = replay_graph(found.graph, edit, slack=slack)
            assert whole.bounds_ps[-1] <= alone.bounds_ps[-1]


@given(plan=PLANS)
def test_a_faster_kernel_never_makes_a_step_longer(plan: tuple[Any, ...]) -> None:
    found = made(plan)
    every = np.ones(found.graph.count, np.bool_)
    gains = [
        replayed_gain(found.graph, kernels_scaled(found.graph, every, factor=factor))
        for factor in (1.0, 0.7, 0.4, 0.0)
    ]
    highs = [gain.high_ps for gain in gains]
    assert highs[0] == 0
    # Each is held by its own floor too, which falls with the kernels.
    assert highs == sorted(highs)


@given(plan=PLANS)
def test_without_a_change_every_start_is_the_recorded_one(
    plan: tuple[Any, ...],
) -> None:
    found = made(plan)
    graph = found.graph
    check_graph(graph)
    run = replay_graph(graph, unchanged_edit(graph), slack="kept")
    assert (run.start_ps == graph.nodes.start_ps).all()
    # Without slack nothing begins later, and work of the device is never lost.
    early = replay_graph(graph, slack="dropped")
    assert (early.start_ps <= graph.nodes.start_ps).all()
    device = graph.nodes.kind == NodeKind.DEVICE
    assert (early.dur_ps[device] == graph.nodes.dur_ps[device]).all()
    assert found.check.stands
