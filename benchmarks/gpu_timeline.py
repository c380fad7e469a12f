"""The times of all events of the imagined GPU program.

Arrays are (steps, things in one step), in nanoseconds from the begin of the step's
marker. The rules that keep a timeline physical: an op lies on its thread after the one
before it, a launch call lies inside its op, a kernel begins after its launch call and
after the kernel before it on its stream, the first kernel waits for the input copies,
the optimizer for the reduced gradients, and the loss is read before the step ends.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_program import (
    COLLECTIVE_OPS,
    COPY_IN_OPS,
    KERNELS,
    Op,
    forward_and_backward,
    optimizer,
)

THREADS = 2
OPS_PER_PROCESS = 16
US = 1_000  # nanoseconds

Times = NDArray[np.int64]


@dataclass(frozen=True)
class Intervals:
    """Begins and durations of the same shape."""

    start: Times
    dur: Times

    @property
    def end(self) -> Times:
        """Where each interval ends."""
        return self.start + self.dur


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """All events, step by step; the module's docstring describes the arrays."""

    ops: tuple[Op, ...]
    thread_of_op: Times
    process_of_op: Times
    op: Intervals
    kernel_names: tuple[str, ...]
    op_of_kernel: Times
    launch: Intervals
    kernel: Intervals
    copy_launch: Intervals
    copy: Intervals
    collective_launch: Intervals
    collective: Intervals
    loss_launch: Intervals
    loss_copy: Intervals
    input_wait: Intervals
    call: Intervals
    step_start: Times
    step_dur: Times


@dataclass(frozen=True, kw_only=True)
class _HostSide:
    """What the host does until it has made its last launch call."""

    input_wait: Intervals
    copy_launch: Intervals
    op: Intervals
    launch: Intervals
    collective_launch: Intervals
    loss_launch: Intervals


@dataclass(frozen=True, kw_only=True)
class _DeviceSide:
    """What the device runs for the host's calls."""

    copy: Intervals
    kernel: Intervals
    collective: Intervals
    loss_copy: Intervals


def simulate(steps: int, random: np.random.Generator) -> Timeline:
    """Lay out the program `steps` times, each a little different."""
    gradients, updates = forward_and_backward(), optimizer()
    ops = (*gradients, *updates)
    launches = [(i, kernel) for i, op in enumerate(ops) for kernel in op.kernels]
    op_of_kernel = np.array([i for i, _ in launches])
    names = tuple(kernel for _, kernel in launches)
    process, thread = _processes(ops)
    host = _host_side(ops, len(gradients), op_of_kernel, steps, random)
    early = op_of_kernel < len(gradients)
    device = _device_side(host, names, early, random)
    called = host.input_wait.end + 90 * US
    returned = device.loss_copy.end + 40 * US
    step_dur = returned[:, 0] + 15 * US
    period = step_dur + 10 * US
    return Timeline(
        ops=ops,
        thread_of_op=thread,
        process_of_op=process,
        op=host.op,
        kernel_names=names,
        op_of_kernel=op_of_kernel,
        launch=host.launch,
        kernel=device.kernel,
        copy_launch=host.copy_launch,
        copy=device.copy,
        collective_launch=host.collective_launch,
        collective=device.collective,
        loss_launch=host.loss_launch,
        loss_copy=device.loss_copy,
        input_wait=host.input_wait,
        call=Intervals(called, returned - called),
        step_start=50 * US + np.cumsum(period) - period,
        step_dur=step_dur,
    )


def _host_side(
    ops: tuple[Op, ...],
    gradient_ops: int,
    op_of_kernel: Times,
    steps: int,
    random: np.random.Generator,
) -> _HostSide:
    """Wait for the batch, copy it, launch gradients, their reduction and the update."""
    input_wait = Intervals(
        _full(steps, 60 * US),
        (random.lognormal(0.2, 0.5, (steps, 1)) * 1000 * US).astype(np.int64),
    )
    copies, buckets = np.arange(len(COPY_IN_OPS)), np.arange(len(COLLECTIVE_OPS))
    copy_launch = Intervals(
        input_wait.end + 150 * US + 12 * US * copies,
        _around(random, 5 * US, (steps, len(copies))),
    )
    early, late = np.arange(gradient_ops), np.arange(gradient_ops, len(ops))
    first = _host_ops(ops, early, copy_launch.end[:, -1:] + 30 * US, random)
    collective_launch = Intervals(
        first.end.max(axis=1, keepdims=True) + 20 * US + 10 * US * buckets,
        _around(random, 5 * US, (steps, len(buckets))),
    )
    second = _host_ops(ops, late, collective_launch.end[:, -1:] + 5 * US, random)
    op = _side_by_side(first, second)
    return _HostSide(
        input_wait=input_wait,
        copy_launch=copy_launch,
        op=op,
        launch=_launch_calls(op, op_of_kernel, random),
        collective_launch=collective_launch,
        loss_launch=Intervals(
            op.end.max(axis=1, keepdims=True) + 3 * US,
            _around(random, 6 * US, (steps, 1)),
        ),
    )


def _device_side(
    host: _HostSide,
    names: tuple[str, ...],
    early: NDArray[np.bool_],
    random: np.random.Generator,
) -> _DeviceSide:
    """Run what was launched, each activity when its inputs are ready."""
    steps = len(host.op.start)
    copy = _queue(
        host.copy_launch.end + 2 * US,
        _around(random, 900 * US, host.copy_launch.start.shape),
    )
    typical = np.array([KERNELS[name][0] for name in names]) * US
    durations = _around(random, typical, (steps, len(names)))
    before, after = np.flatnonzero(early), np.flatnonzero(~early)
    inputs_there = copy.end[:, -1:] + US
    first = _stage(host.launch, durations, before, inputs_there)
    collective = _collectives(first, host.collective_launch, random)
    reduced = collective.end[:, -1:] + US
    second = _stage(host.launch, durations, after, reduced)
    kernel = _side_by_side(first, second)
    kernels_done = kernel.end.max(axis=1, keepdims=True)
    return _DeviceSide(
        copy=copy,
        kernel=kernel,
        collective=collective,
        loss_copy=Intervals(
            np.maximum(host.loss_launch.end + 2 * US, kernels_done + US),
            _around(random, 2 * US, (steps, 1)),
        ),
    )


def _processes(ops: tuple[Op, ...]) -> tuple[Times, Times]:
    """Ops run in batches of an executor closure, which the threads take in turn."""
    process = np.arange(len(ops)) // OPS_PER_PROCESS
    return process, process % THREADS


def _host_ops(
    ops: tuple[Op, ...], members: Times, ready: Times, random: np.random.Generator
) -> Intervals:
    """Lay out the ops of a thread in a row; the begin of a closure takes longer."""
    steps = len(ready)
    process, thread = (column[members] for column in _processes(ops))
    launches = np.array([len(ops[i].kernels) for i in members])
    stretch = random.uniform(1, 1.5, (steps, len(members)))
    dur = ((5 + 6 * launches) * US * stretch).astype(np.int64)
    opens = np.diff(process, prepend=-1) > 0
    gap = _around(random, np.where(opens, 8 * US, 2 * US), dur.shape)
    start = np.empty_like(dur)
    for number in range(THREADS):
        mine = np.flatnonzero(thread == number)
        ends = np.cumsum(gap[:, mine] + dur[:, mine], axis=1)
        start[:, mine] = ready + ends - dur[:, mine]
    return Intervals(start, dur)


def _launch_calls(
    op: Intervals, op_of_kernel: Times, random: np.random.Generator
) -> Intervals:
    """Launch calls in the op that makes them, one every 6 us."""
    first = np.searchsorted(op_of_kernel, op_of_kernel)
    slot = np.arange(len(op_of_kernel)) - first
    shape = (len(op.start), len(op_of_kernel))
    late = random.integers(0, 800, shape)
    start = op.start[:, op_of_kernel] + 1_500 + 6 * US * slot + late
    return Intervals(start, random.integers(2_600, 4_800, shape))


def _stage(
    launch: Intervals, dur: Times, members: Times, not_before: Times
) -> Intervals:
    """Kernels on one stream in the order of their launch calls."""
    order = np.argsort(launch.start[:, members], axis=1, kind="stable")
    called = np.take_along_axis(launch.end[:, members], order, axis=1)
    wanted = np.take_along_axis(dur[:, members], order, axis=1)
    queued = _queue(np.maximum(called + 3 * US, not_before), wanted)
    start, durations = np.empty_like(wanted), np.empty_like(wanted)
    np.put_along_axis(start, order, queued.start, axis=1)
    np.put_along_axis(durations, order, queued.dur, axis=1)
    return Intervals(start, durations)


def _collectives(
    kernels: Intervals, launch: Intervals, random: np.random.Generator
) -> Intervals:
    """Reduce gradients in buckets, each when its last kernel has ended."""
    sorted_ends = np.sort(kernels.end, axis=1)
    buckets = np.arange(len(COLLECTIVE_OPS))
    last_of_bucket = sorted_ends.shape[1] * (buckets + 5) // 8 - 1
    ready = np.maximum(sorted_ends[:, last_of_bucket] + US, launch.end + 3 * US)
    return _queue(ready, _around(random, 700 * US, ready.shape))


def _queue(ready: Times, dur: Times) -> Intervals:
    """Begin each thing when it is ready and the one before it has ended.

    start[k] = max(ready[k], start[k-1] + dur[k-1] + gap), solved without a loop by
    taking the running maximum of `ready` less what lies before k.
    """
    gap = 700
    taken = np.cumsum(dur + gap, axis=1) - (dur + gap)
    return Intervals(taken + np.maximum.accumulate(ready - taken, axis=1), dur)


def _around(
    random: np.random.Generator, typical: Times | int, shape: tuple[int, int]
) -> Times:
    """Durations that spread by a tenth around the typical one."""
    spread = random.lognormal(0.0, 0.1, shape)
    return np.asarray(np.maximum(typical * spread, 1), dtype=np.int64)


def _side_by_side(left: Intervals, right: Intervals) -> Intervals:
    return Intervals(
        np.concatenate([left.start, right.start], axis=1),
        np.concatenate([left.dur, right.dur], axis=1),
    )


def _full(steps: int, value: int) -> Times:
    return np.full((steps, 1), value, dtype=np.int64)
