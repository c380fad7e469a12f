"""What a step gains, worked out by hand on programs of a few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.support.traces import replayed as by_hand
from tests.support.traces.replayed import STEPS, US, call, kernel, step

from stepscope.derive.facts.savings.predicted_savings import host_replay
from stepscope.derive.facts.savings.what_if_changes import CopiesInParallel
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.replay.nodes import (
    EdgeKind,
    NodeKind,
    collectives_at_rate,
    copies_moved,
    joint_edit,
    kernels_scaled,
    launched_as_one,
    synchronising_removed,
    threads_faster,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.support.traces import blueprint
    from tests.support.traces.replayed import Program

    Programs = Callable[[Sequence[blueprint.Line]], Program]


def test_a_launch_bound_step_shrinks_to_what_is_launched(program: Programs) -> None:
    """The device works 100 µs of 1000; all idle time is the host's way to launches.

    The begin of each call, 10 µs, is the way of its launch to the device; the host's
    own 20 µs beside each kernel stay too, and the 170 µs after the last kernel, which
    wait for no launch.
    """
    found = program(by_hand.launch_bound())
    assert found.check.stands
    low, high = found.gain_us(found.without("launch"))
    assert low == high == pytest.approx((STEPS * 900 - 170) / STEPS)


def test_launching_five_kernels_as_one_leaves_the_first_call(program: Programs) -> None:
    """What the host did from each call to the next goes: 4 x 200 µs of 1000."""
    found = program(by_hand.launch_bound())
    graph = found.graph
    group = np.full(graph.count, -1, np.int32)
    device = graph.nodes.kind == NodeKind.DEVICE
    group[device] = graph.nodes.start_ps[device] // (1000 * US)
    low, high = found.gain_us(launched_as_one(graph, group))
    # The four later kernels run in 20 µs each: still less than the 200 that stay.
    assert low == high == pytest.approx(800, abs=5)


def test_a_device_bound_step_gains_nothing_from_a_faster_host(
    program: Programs,
) -> None:
    found = program(by_hand.device_bound())
    assert found.check.stands
    assert found.graph.sampled.by_device
    host = Spans.of([(0, 10**12)])
    low, high = found.gain_us(threads_faster(found.graph, host, factor=2))
    assert (low, high) == (0, 0)


def test_a_device_bound_step_gains_what_its_kernels_gain(program: Programs) -> None:
    """Half of 998 µs, and nothing else has to give way: the host needs 300."""
    found = program(by_hand.device_bound())
    every = np.ones(found.graph.count, np.bool_)
    low, high = found.gain_us(kernels_scaled(found.graph, every, factor=0.5))
    assert low == high == pytest.approx(499, abs=3)


def test_a_step_takes_no_less_than_its_host_needs(program: Programs) -> None:
    found = program(by_hand.device_bound())
    every = np.ones(found.graph.count, np.bool_)
    _, high = found.gain_us(kernels_scaled(found.graph, every, factor=0.0))
    # The host's own 300 µs a step, and the way of a launch.
    assert high == pytest.approx(700, abs=25)


def test_work_after_the_last_step_is_no_steps(program: Programs) -> None:
    """The last kernel ends 100 µs after its marker; a benchmark is launched before."""
    lines: list[blueprint.Line] = []
    for at in range(STEPS):
        begin = 1000 * at
        lines += [step(at, begin, 990), call(at + 1, begin)]
        lines.append(kernel(at + 1, begin + 490, 600 if at == STEPS - 1 else 500))
    end = 1000 * STEPS + 90
    lines += [call(99, end - 50), kernel(99, end + 10, 5000)]
    found = program(lines)
    graph = found.graph
    assert graph.sampled.last_ps == end * US
    device = graph.nodes.kind == NodeKind.DEVICE
    assert graph.completes[device].tolist() == [*range(1, STEPS + 1), STEPS + 1]
    benchmark = device & (graph.nodes.dur_ps == 5000 * US)
    assert found.gain_us(kernels_scaled(graph, benchmark, factor=0.5)) == (0, 0)


def test_a_wait_is_no_node_and_ends_with_its_kernel(program: Programs) -> None:
    found = program(by_hand.synchronising())
    graph = found.graph
    resumed = graph.nodes.start_ps[graph.nodes.kind == NodeKind.RESUMED] / US
    assert set(resumed % 1000) == {605.0}
    assert found.check.stands
    assert found.check.unexplained_percent == 0
    # Faster kernels end the wait sooner: 297.5 of 595 µs.
    every = np.ones(graph.count, np.bool_)
    assert found.gain_us(kernels_scaled(graph, every, factor=0.5)) == pytest.approx(
        (297.5, 297.5), abs=1
    )


def test_without_a_synchronisation_host_and_device_overlap(program: Programs) -> None:
    """The host's own 405 µs hide behind the kernel: 595 µs a step remain.

    The first launch takes 10 µs, each kernel follows the one before after 3, and the
    last step is over 10 µs before another would begin.
    """
    found = program(by_hand.synchronising())
    resumed = found.graph.nodes.kind == NodeKind.RESUMED
    _, high = found.gain_us(synchronising_removed(found.graph, resumed))
    remaining = STEPS * 595 + 10 + (STEPS - 1) * 3
    assert high == pytest.approx((STEPS * 1000 - 10 - remaining) / STEPS)


def test_work_of_another_stream_that_ended_just_then_explains_a_start(
    program: Programs,
) -> None:
    found = program(by_hand.two_streams())
    graph = found.graph
    assert int((graph.edges.kind == EdgeKind.ACROSS).sum()) == STEPS
    assert found.check.unexplained_percent == 0
    first = graph.nodes.track == found.track("Stream #7(Compute)")
    assert found.gain_us(kernels_scaled(graph, first, factor=0.5)) == pytest.approx(
        (150, 150), abs=3
    )


def test_a_call_for_the_whole_device_waits_for_every_stream(program: Programs) -> None:
    """Only B of the two is in the way of the host, until A is made very long."""
    found = program(by_hand.two_streams())
    graph = found.graph
    second = graph.nodes.track == found.track("Stream #8(Compute)")
    assert found.gain_us(kernels_scaled(graph, second, factor=0.0)) == pytest.approx(
        (300, 300), abs=3
    )
    both = joint_edit(
        graph,
        [
            kernels_scaled(graph, second, factor=0.0),
            kernels_scaled(graph, ~second, factor=0.5),
        ],
    )
    assert found.gain_us(both) == pytest.approx((450, 450), abs=5)


def test_a_copy_on_a_stream_of_its_own_hides_behind_kernels(program: Programs) -> None:
    found = program(by_hand.copying())
    graph = found.graph
    assert found.check.stands
    copy = (graph.nodes.kind == NodeKind.DEVICE) & (graph.nodes.dur_ps == 400 * US)
    low, high = found.gain_us(copies_moved(graph, copy))
    # 15 µs to the second call, 20 for its launch, 495 of kernels, 4 to the next step.
    assert low == high == pytest.approx(910 - (15 + 20 + 495 + 4), abs=1)


def test_copies_that_go_go_on_every_device(program: Programs) -> None:
    """Beside the other device's copies, those of one device alone would gain nothing.

    The kernels begin 411 µs into the step, and then as soon as they can: after the 18
    µs to the last call and the 20 or so of a launch.
    """
    found = program(by_hand.copying_to_both())
    assert found.check.stands
    low, high = found.gain_us(found.without("copy_in"))
    assert low == high == pytest.approx(411 - 38, abs=8)


def test_an_exchange_takes_what_its_bytes_need(program: Programs) -> None:
    """1 MB at 10 GB/s are 100 µs, not the 400 that it took; none gets longer."""
    found = program(by_hand.copying())
    graph = found.graph
    slow = (graph.nodes.kind == NodeKind.DEVICE) & (graph.nodes.dur_ps == 400 * US)
    edit = collectives_at_rate(graph, slow, needed_ps=np.full(graph.count, 100 * US))
    assert found.gain_us(edit) == pytest.approx((300, 300), abs=5)


def test_with_one_thread_an_owner_gains_its_own_time(program: Programs) -> None:
    lines = []
    for at in range(STEPS):
        begin = 1000 * at
        lines += [
            step(at, begin, 995),
            ("main", "IteratorGetNext", begin + 10, 15),
            ("main", "a/MatMul:MatMul", begin + 30, 700),
        ]
    found = program(lines)
    assert found.check.unexplained_percent == 0
    assert found.gain_us(found.without("host_compute")) == pytest.approx(
        (700, 700), abs=1e-6
    )
    assert found.gain_us(found.without("input")) == pytest.approx((15, 15), abs=1e-6)


def test_a_wait_ends_when_the_loaders_thread_is_done(program: Programs) -> None:
    found = program(by_hand.loading())
    graph = found.graph
    handed = graph.edges.kind == EdgeKind.HANDOVER
    assert int(handed.sum()) >= 2 * (graph.sampled.count - 1)
    assert found.check.stands
    assert found.check.unexplained_percent == 0


def test_a_loader_twice_as_fast_gains_half_of_its_time(program: Programs) -> None:
    found = program(by_hand.loading())
    graph = found.graph
    worker = graph.nodes.track == found.track("worker")
    starts = graph.nodes.start_ps[worker]
    spans = Spans.from_events(starts, graph.nodes.dur_ps[worker])
    edit = threads_faster(graph, spans, factor=2)
    # Main does nothing else then, so that all of the 350 µs are gained.
    assert found.gain_us(edit) == pytest.approx((350, 350), abs=10)


@pytest.mark.parametrize(("thread", "gained"), [("worker", 350), ("main", 0)])
def test_only_the_named_threads_become_faster(
    program: Programs, thread: str, gained: int
) -> None:
    found = program(by_hand.loading())
    graph = found.graph
    worker = graph.nodes.track == found.track("worker")
    starts = graph.nodes.start_ps[worker]
    spans = Spans.from_events(starts, graph.nodes.dur_ps[worker])
    edit = threads_faster(graph, spans, factor=2, tracks={found.track(thread)})
    low, high = found.gain_us(edit)
    # What main does beside the worker is short.
    assert (low, high) == pytest.approx((gained, gained), abs=10)


def test_a_wait_that_nothing_explains_is_kept_as_it_was(program: Programs) -> None:
    """Worker processes leave no trace: their batch comes when it came."""
    lines = [line for line in by_hand.loading() if line[0] != "worker"]
    found = program(lines)
    graph = found.graph
    outside = graph.nodes.kind == NodeKind.OUTSIDE
    assert int((outside & graph.measured).sum()) == graph.sampled.count
    assert found.check.unexplained_percent > 10
    assert not found.check.stands
    assert found.check.why_not is not None
    assert "graph incomplete" in found.check.why_not.reason
    # A faster program waits longer, unless it is the batch that comes sooner.
    low, high = found.gain_us(found.without("host_compute"))
    assert low < 50
    assert high == pytest.approx(260, abs=1)
    assert found.gain_us(found.without("input")) == pytest.approx((715, 715), abs=1)


@pytest.mark.parametrize(
    # What holds the launching thread: its call, or a call that was not recorded.
    "held",
    [("cuLaunchKernel", 200, 3030), ("cuLaunchKernel", 3210, 20)],
)
def test_launches_that_a_copy_call_holds_wait_for_the_copy(
    program: Programs, held: tuple[str, float, float]
) -> None:
    """In steps of 7 ms a loader's pageable copy of 3 ms holds all launches.

    Copied ahead, the copy runs next to the kernel of 3 ms: 200 µs of the host, the
    kernel, and 750 µs of the host remain, and a step gains 3 ms.
    """
    lines: list[blueprint.Line] = []
    for at in range(STEPS):
        begin, (name, start, dur) = 7000 * at, held
        copy, kernel = {"correlation_id": 2 * at + 1}, {"correlation_id": 2 * at + 2}
        lines += [
            step(at, begin, 6990),
            ("loader", "cuMemcpyHtoDAsync", begin + 100, 3080, copy),
            ("gpu:0/8(MemcpyH2D)", "MemcpyH2D", begin + 150, 3000, copy),
            ("main", "a/Op:Op", begin + 190, 3050),
            ("main", name, begin + start, dur, kernel),
            ("gpu:0/7(Compute)", "sgemm", begin + 3240, 3000, kernel),
            ("main", "cuStreamSynchronize", begin + 3250, 3000),
        ]
    found = program(lines)
    replay = found.profile.derived("vm", host_replay)
    assert found.check.stands
    change = CopiesInParallel(owners=("copy_in",), effect_ms=3.0)
    gain, _ = replay.gains_of_edits(replay.edits_for_changes([change], 0))
    assert gain.low_ps / US == pytest.approx(3000, abs=100)
