"""Threads beside the step: tf.data's workers and the thread pools' bookkeeping."""

import numpy as np
from numpy.typing import NDArray

from gpu_timeline import THREADS, Timeline
from grouped_events import Line, integers, new_line
from stepscope.xspace.writing.builders import PlaneBuilder

US = 1_000  # nanoseconds
BATCH = 16
POOL_TASKS = 96
PARALLEL_MAP = "Iterator::Root::Prefetch::BatchV2::ParallelMapV2"
# Ops that a worker runs on each example: begin and duration in us.
EXAMPLE_OPS = (
    ("ParseSingleExample/ParseExample/ParseExampleV2:ParseExampleV2", 55, 40),
    ("DecodeJpeg:DecodeJpeg", 100, 600),
    ("resize/ResizeBilinear:ResizeBilinear", 705, 180),
    ("truediv:RealDiv", 890, 50),
)

Array = NDArray[np.int64]


def worker_threads(host: PlaneBuilder, run: Timeline) -> list[Line]:
    """tf.data workers that prepare the next batch while the step runs."""
    base = run.step_start[:, None]
    steps = len(base)
    lines = []
    for number in range(THREADS):
        thread = 6654253372461660592 + number
        line = new_line(host, thread, f"tf_data_private_threadpool/{thread}")
        slots = np.arange(BATCH // THREADS)
        elements = np.arange(steps)[:, None] * BATCH + slots * THREADS + number
        start = base + run.input_wait.end + 200 * US + 1_100 * US * slots
        mapped = {"id": integers(run_id(elements) ^ 0x3333)}
        line.add("ParallelMapProduce", start, 40 * US,
                 {"element_id": integers(elements)})  # fmt: skip
        line.add(f"{PARALLEL_MAP}::TFRecord", start + 2 * US, 18 * US,
                 {"id": integers(105), "parent_id": integers(104)})  # fmt: skip
        line.add("InstantiatedCapturedFunction::RunAsync", start + 22 * US, 16 * US,
                 mapped)  # fmt: skip
        line.add("ExecutorState::Process", start + 50 * US, 900 * US,
                 mapped | {"iter_num": integers(0)})  # fmt: skip
        for op, begin, dur in EXAMPLE_OPS:
            line.add(op, start + begin * US, dur * US)
        lines.append(line)
    return lines


def iterator_thread(host: PlaneBuilder, run: Timeline) -> Line:
    """The thread that fills the prefetch buffer from the workers' examples."""
    thread = 4632075646013879844
    line = new_line(host, thread, f"tf_data_iterator_resource/{thread}")
    base = run.step_start[:, None]
    start = base + run.input_wait.end + 100 * US
    numbers = np.arange(len(base))[:, None]
    line.add(
        "PrefetchProduce", start, 9_800 * US, {"element_id": integers(numbers + 1)}
    )
    line.add("Iterator::Root::Prefetch::BatchV2", start + 5 * US, 9_790 * US,
             {"id": integers(103), "parent_id": integers(102)})  # fmt: skip
    line.add(PARALLEL_MAP, start + 10 * US + 600 * US * np.arange(BATCH), 580 * US,
             {"id": integers(104), "parent_id": integers(103)})  # fmt: skip
    return line


def pool_threads(host: PlaneBuilder, run: Timeline, recorder: Line) -> list[Line]:
    """Bookkeeping of the thread pools: a task is recorded, begun and ended."""
    base = run.step_start[:, None]
    tasks = np.arange(POOL_TASKS)
    start = base + run.call.start + 150 * US + 60 * US * tasks
    ids = np.arange(len(base))[:, None] * POOL_TASKS + tasks
    recorder.add("ThreadpoolListener::Record", start - 5 * US, 0,
                 {"_pt": integers(15), "_p": integers(ids)})  # fmt: skip
    lines = []
    for number in range(THREADS):
        thread = -1721384571 - number
        line = new_line(host, thread, f"tf_numa_-1_Eigen/{thread}")
        mine = tasks % THREADS == number
        line.add("ThreadpoolListener::StartRegion", start[:, mine], 0,
                 {"_ct": integers(15), "_c": integers(ids[:, mine])})  # fmt: skip
        line.add("ThreadpoolListener::StopRegion", start[:, mine] + 45 * US, 0)
        lines.append(line)
    return lines


def run_id(numbers: Array) -> Array:
    """An executor's id: unlike its neighbours, positive, and the same every time."""
    return (numbers + 1) * 0x9E3779B97F4A7C1 & 0x3FFFFFFFFFFFFFFF
