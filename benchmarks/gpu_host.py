"""The host's plane of the GPU-shaped profile: what each thread recorded."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_device import CONTEXT, COPY_BYTES, LIMIT_BYTES, correlation_ids
from gpu_program import COLLECTIVE_OPS, COPY_IN_OPS, COPY_OUT_OP
from gpu_timeline import THREADS, Intervals, Timeline
from gpu_workers import iterator_thread, pool_threads, run_id, worker_threads
from grouped_events import Line, integers, new_line, reals, texts, unsigned
from stepscope.xspace.writing.builders import PlaneBuilder

US = 1_000  # nanoseconds
ALLOCATING_OPS = 7  # every seventh op allocates its output
HELD_BYTES = 9 << 30
# Tells the ids of closures from those of the executors that run them.
CONTEXT_BITS = 0x5A5A5A

Array = NDArray[np.int64]


def add_threads(host: PlaneBuilder, run: Timeline) -> list[Line]:
    """All threads of a run."""
    python = python_thread(host, run)
    return [
        python,
        input_thread(host, run),
        *executor_threads(host, run),
        *worker_threads(host, run),
        iterator_thread(host, run),
        *pool_threads(host, run, python),
    ]


def python_thread(host: PlaneBuilder, run: Timeline) -> Line:
    """Markers, and the calls under them."""
    line = new_line(host, -5073771376929216396, "python")
    base = run.step_start[:, None]
    numbers = np.arange(len(base))[:, None]
    line.add(
        "train",
        base,
        run.step_dur[:, None],
        {"step_num": integers(numbers), "_r": integers(1)},
    )
    waited = run.input_wait
    line.add("EagerLocalExecute: IteratorGetNext", base + waited.start - 8 * US,
             waited.dur + 14 * US)  # fmt: skip
    function = texts(host, "__inference_train_step_9021")
    line.add("train_step", base + run.call.start, run.call.dur,
             {"tf_function_call": texts(host, "notTraced-nonXla"),
              "tracing_count": integers(1)})  # fmt: skip
    line.add("EagerExecute", base + run.call.start + 10 * US, run.call.dur - 20 * US,
             {"eager_op": function, "is_func": integers(1)})  # fmt: skip
    line.add("EagerKernelExecute", base + run.call.start + 14 * US,
             run.call.dur - 28 * US)  # fmt: skip
    line.add(
        "FunctionRun",
        base + run.call.start + 20 * US,
        30 * US,
        {
            "id": integers(run_id(numbers)),
            "_r": integers(1),
            "_pt": integers(2),
            "_p": integers(run_id(numbers) ^ CONTEXT_BITS),
        },
    )
    return line


def input_thread(host: PlaneBuilder, run: Timeline) -> Line:
    """The step's wait for its batch, on the thread where TensorFlow does it."""
    thread = 3453949468817306361
    line = new_line(host, thread, f"tf_data_iterator_get_next/{thread}")
    start = run.step_start[:, None] + run.input_wait.start
    numbers = np.arange(len(start))[:, None]
    dur = run.input_wait.dur
    line.add("IteratorGetNextOp::DoCompute", start, dur,
             {"id": integers(run_id(numbers) ^ 0x77), "iter_num": integers(0),
              "element_size": integers(len(COPY_IN_OPS) * COPY_BYTES)})  # fmt: skip
    line.add("Iterator::Root", start + 4 * US, dur - 8 * US, {"id": integers(101)})
    line.add("Iterator::Root::Prefetch", start + 6 * US, dur - 12 * US,
             {"id": integers(102), "parent_id": integers(101),
              "buffer_limit": integers(2)})  # fmt: skip
    line.add("PrefetchConsume", start + dur - 9 * US, 2 * US,
             {"element_id": integers(numbers)})  # fmt: skip
    return line


def executor_threads(host: PlaneBuilder, run: Timeline) -> list[Line]:
    """Executor closures with their ops, launch calls and allocations."""
    base = run.step_start[:, None]
    correlations = correlation_ids(run)["kernel"]
    every = allocations(run)
    lines = []
    for number in range(THREADS):
        thread = 2367906686 + number
        line = new_line(host, thread, f"tf_gpu_private_0/{thread}")
        mine = np.flatnonzero(run.thread_of_op == number)
        add_closures(line, run, mine)
        line.add(
            [run.ops[i].name for i in mine],
            base + run.op.start[:, mine],
            run.op.dur[:, mine],
            {"shape": texts(host, *(run.ops[i].shape for i in mine))},
        )
        launched = np.flatnonzero(run.thread_of_op[run.op_of_kernel] == number)
        calls = Intervals(run.launch.start[:, launched], run.launch.dur[:, launched])
        add_calls(line, "cuLaunchKernel", base, calls, correlations[:, launched])
        add_allocations(line, run, every, mine)
        lines.append(line)
    add_other_calls(lines[0], lines[1], run)
    return lines


def add_closures(line: Line, run: Timeline, mine: Array) -> None:
    """What the executor runs in one go on one thread, around its ops."""
    base = run.step_start[:, None]
    ids = run_id(np.arange(len(base))[:, None])
    first = np.flatnonzero(np.diff(run.process_of_op[mine], prepend=-1))
    last = np.append(first[1:], len(mine)) - 1
    start = run.op.start[:, mine[first]] - 3 * US
    end = run.op.end[:, mine[last]] + 1 * US
    stats = {
        "id": integers(ids),
        "iter_num": integers(0),
        "_ct": integers(2),
        "_c": integers(ids ^ CONTEXT_BITS),
    }
    line.add("ExecutorState::Process", base + start, end - start, stats)


def add_other_calls(first: Line, second: Line, run: Timeline) -> None:
    """Copies and collectives, each in an op of its own, and the step's end."""
    base = run.step_start[:, None]
    ids = correlation_ids(run)
    for line, name, calls, key, ops in (
        (first, "cuMemcpyHtoDAsync_v2", run.copy_launch, "copy", COPY_IN_OPS),
        (first, "cuMemcpyDtoHAsync_v2", run.loss_launch, "loss", (COPY_OUT_OP,)),
        (second, "cuLaunchKernel", run.collective_launch, "collective", COLLECTIVE_OPS),
    ):
        line.add(ops, base + calls.start - US, calls.dur + 2 * US)
        add_calls(line, name, base, calls, ids[key])
    executor = run_id(np.arange(len(base))[:, None])
    first.add("ExecutorDoneCallback", base + run.call.end - 30 * US, 8 * US,
              {"id": integers(executor)})  # fmt: skip


def add_calls(
    line: Line, name: str, base: Array, calls: Intervals, correlations: Array
) -> None:
    """Calls of the CUDA driver."""
    stats = {
        "correlation_id": unsigned(correlations),
        "device_id": integers(0),
        "context_id": texts(line.plane, CONTEXT),
    }
    line.add(name, base + calls.start, calls.dur, stats)


@dataclass(frozen=True)
class Allocations:
    """Outputs that ops allocate and other ops free; arrays as in the timeline.

    Attributes:
        takers: Ops that allocate, in order.
        sizes: Bytes that each of these ops allocates.
        taken: When each op allocates, by step.
        freed: When the memory of each op is freed, by step.
        after_taking: Bytes in use after each allocation.
        after_freeing: Bytes in use after each memory is freed.
    """

    takers: Array
    sizes: Array
    taken: Array
    freed: Array
    after_taking: Array
    after_freeing: Array


def allocations(run: Timeline) -> Allocations:
    """Let every seventh op of a thread allocate; its fifth successor frees."""
    takers, givers = [], []
    for number in range(THREADS):
        mine = np.flatnonzero(run.thread_of_op == number)
        chosen = np.arange(0, len(mine), ALLOCATING_OPS)
        takers.append(mine[chosen])
        givers.append(mine[np.minimum(chosen + 5, len(mine) - 1)])
    taker, giver = np.concatenate(takers), np.concatenate(givers)
    sizes = 256 * (1 + (taker * 7919) % 40_000)
    taken = run.op.start[:, taker] + 700
    freed = run.op.end[:, giver] + 300
    # The threads share the allocator: what is in use follows from all in turn.
    when = np.concatenate([taken, freed], axis=1)
    order = np.argsort(when, axis=1, kind="stable")
    change = np.broadcast_to(np.concatenate([sizes, -sizes]), when.shape)
    level = np.empty_like(when)
    running = np.cumsum(np.take_along_axis(change, order, axis=1), axis=1)
    np.put_along_axis(level, order, HELD_BYTES + running, axis=1)
    middle = len(taker)
    return Allocations(taker, sizes, taken, freed, level[:, :middle], level[:, middle:])


def add_allocations(line: Line, run: Timeline, every: Allocations, mine: Array) -> None:
    """The allocator's events on the thread of the ops `mine`."""
    host, base = line.plane, run.step_start[:, None]
    here = np.isin(every.takers, mine)
    takers, sizes = every.takers[here], every.sizes[here]
    common = {
        "allocator_name": texts(host, "GPU_0_bfc"),
        "bytes_reserved": integers(0),
        "peak_bytes_in_use": integers(every.after_taking.max()),
        "fragmentation": reals(0.0625),
        "requested_bytes": integers(sizes - 64),
        "allocation_bytes": integers(sizes),
        "addr": integers(0x7F1A00000000 + (takers << 24)),
        "id": integers(0),
    }
    of_op = {
        "tf_op": texts(host, *(run.ops[i].name.partition(":")[0] for i in takers)),
        "region_type": texts(host, "output"),
        "data_type": integers(19),
        "shape": texts(host, *(run.ops[i].shape for i in takers)),
    }
    for name, at, level, more in (
        ("MemoryAllocation", every.taken, every.after_taking, of_op),
        ("MemoryDeallocation", every.freed, every.after_freeing,
         {"data_type": integers(0)}),
    ):  # fmt: skip
        used = level[:, here]
        state = {
            "bytes_allocated": integers(used),
            "bytes_available": integers(LIMIT_BYTES - used),
        }
        line.add(name, base + at[:, here], 0, common | state | more)
