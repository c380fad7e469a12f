"""Steps that wait for another thread, for the system, or for nobody.

Samples tell functions, and looks at the clocks of threads when each wanted a core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.traces import blueprint
from tests.support.traces.training import cores, on_host

from stepscope.xspace.samples_line import AWAKE, READ, SYSTEM

if TYPE_CHECKING:
    from collections.abc import Collection

    from stepscope.trace.model import TraceData

STEPS = [10_000.0 * number for number in range(20)]
AT_THE_TIME = [(begin + 50.0, begin + 3_850.0) for begin in STEPS]
GET = "$/usr/lib/python3.12/queue.py:154 Queue.get"
_NEXT = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
LOADER = "samples beside the steps of loader, 100 a second"


def core_time(
    thread: str, awake: list[tuple[float, float]], *, system: bool = False
) -> list[Any]:
    """When a thread wanted a core, of 200 ms; where asleep, maybe in the system."""
    line = f"core time of {thread}, 100 a second"
    begins = [0.0, *(end for _, end in awake)]
    ends = [*(begin for begin, _ in awake), 200_000.0]
    asleep = [
        (begin, end) for begin, end in zip(begins, ends, strict=True) if begin < end
    ]
    return [
        (line, READ, 0.0, 200_000.0),
        *((line, AWAKE, begin, end - begin) for begin, end in awake),
        *((line, SYSTEM, begin, end - begin) for begin, end in asleep if system),
    ]


def waiting(
    *,
    system: bool = False,
    inner: str | None = None,
    pool: float = 0.0,
    computing: Collection[int] = (),
) -> list[Any]:
    """Of each step of 10 ms `take_batch` sleeps for 3.8, from 50 µs on.

    Args:
        system: Whether it waits for the system, as for a file.
        inner: What it calls all that time.
        pool: For which share of it threads outside of Python compute.
        computing: Numbers of the steps in which it computes and does not sleep.
    """
    lines = [it for it in on_host(lead_us=4_000.0) if it[1] != "IteratorGetNext"]
    begins = STEPS
    for function in ("$/app/train.py:41 take_batch", *([inner] if inner else [])):
        lines += [("main", function, begin + 50.0, 3_800.0) for begin in begins]
    awake = [
        (begin + (50.0 if number in computing else 3_850.0), begin + 10_050.0)
        for number, begin in enumerate(begins)
    ]
    awake = [(0.0, 50.0), *((begin, min(end, 200_000.0)) for begin, end in awake)]
    lines += core_time("main", awake, system=system)
    others = [(begin, begin + pool * (end - begin)) for begin, end in AT_THE_TIME]
    return lines + core_time("other threads", others if pool else [])


def in_processes() -> list[Any]:
    """The steps wait, and two worker processes use 1.8 of four cores."""
    used: Any = {
        "CPU pressure (percent)": 60.0,
        "worker processes": 2.0,
        "worker processes CPU (percent)": 180.0,
    }
    return waiting(inner=GET) + cores(4, busy=60.0, **used)


def decoding(awake: list[tuple[float, float]]) -> list[Any]:
    """Thread `loader` is in `decode` while the steps wait."""
    frames = [
        (LOADER, "$/app/data.py:7 decode", begin, end - begin)
        for begin, end in AT_THE_TIME
    ]
    return frames + core_time("loader", awake)


#: Where looks at a worker process are.
WORKER = "samples beside the steps of worker process Process-1, 50 a second"


def for_workers(*, looked_at: bool = True) -> TraceData:
    """Of each step of 10 ms 6 wait for a loader whose workers make the batches.

    Of the 120 ms of the steps the worker augments for 99, and has nothing to do for 21.
    """
    lines: list[Any] = []
    for begin in [10_000.0 * number for number in range(12)]:
        number = round(begin / 10_000)
        lines += [
            ("main", "train", begin, 9_990.0, {"_r": 1, "step_num": number}),
            ("main", _NEXT, begin + 10.0, 6_000.0),
            ("main", "a/MatMul:MatMul", begin + 6_100.0, 3_800.0, {"is_eager": 0}),
        ]
    looks = [
        (WORKER, "$/lib/python3.12/site-packages/torch/worker.py:9 loop", 0.0, 12e4),
        (WORKER, "$/app/data.py:41 augment", 0.0, 99_000.0),
        (WORKER, GET.replace("queue", "multiprocessing/queues"), 99_000.0, 21_000.0),
    ]
    return blueprint.trace([*lines, *(looks if looked_at else ())])


def uneven_tasks() -> list[Any]:
    """Of the waits of each step four worker processes share the first 950 µs.

    Then one of them works alone, for 2,850 of 3,800 µs.
    """
    used: Any = {"worker processes": 4.0, "worker processes CPU (percent)": 60.0}
    used["CPU pressure (percent)"] = 10.0
    lines = waiting(inner=GET) + cores(4, busy=20.0, **used)
    for number in range(4):
        line = WORKER.replace("Process-1", f"Process-{number}")
        for begin in STEPS:
            end = begin + (3_850.0 if number == 2 else 1_000.0)
            take = GET.replace("queue.py", "multiprocessing/queues.py")
            lines += [
                (line, "$/app/sim.py:7 simulate", begin, end - begin),
                (line, take, end, begin + 10_000.0 - end),
            ]
    return lines
