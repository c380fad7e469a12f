"""Worker processes of a program: their number, their cores, and what they execute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.facts.evidence import MAX_RANGES_SHOWN, Part
from stepscope.derive.facts.processors import overall_mean, usable_cores
from stepscope.derive.host.core_time import MACHINE_USE, core_count, counter_readings
from stepscope.derive.host.function_frames import MIN_INTERVAL_SAMPLES
from stepscope.derive.host.function_names import name_with_location
from stepscope.derive.run_derivation import known_hosts, of_each_host, of_run
from stepscope.derive.step_windows.windows import window_bounds, windows_of_times
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from stepscope.derive.input_pipeline.worker_functions import (
        WorkerFunction,
        WorkerFunctions,
    )
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.run_derivation import OfHosts
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.trace.model import TraceData

_WORKERS: Final = "worker processes"
_USED: Final = "worker processes CPU (percent)"
#: Workers count as computing if they use at least this many cores each, on average. If
#: all cores are in use, computing workers get fewer.
_MIN_CORE_USE: Final = 0.5
_MIN_CORE_USE_IF_FULL: Final = 0.1
#: If workers mostly wait, this multiple of their number is advised.
_WORKER_FACTOR: Final = 2


class LoaderWorkers(Frozen, frozen=True, eq=True):
    """Worker processes that the program on one host started.

    Attributes:
        workers: Median number of worker processes.
        cores: Number of cores that the program may use.
        used: Number of cores that the workers use together; None if not recorded.
        full: Whether nearly all cores of the machine are in use; None if not recorded.
    """

    workers: int
    cores: int
    used: float | None = None
    full: bool | None = None

    @property
    def compute(self) -> bool | None:
        """Return whether the workers mostly compute; None if not recorded.

        Workers that do not compute are assumed to wait for a disk or a network.
        """
        limit = _MIN_CORE_USE_IF_FULL if self.full else _MIN_CORE_USE
        return None if self.used is None else self.used >= limit * self.workers

    @property
    def could_be(self) -> int | None:
        """Return a larger number of workers; None if the cores do not allow more.

        Computing workers need one core each. Workers that wait for a disk or a network
        leave their cores to others.
        """
        if self.compute is False:
            return max(_WORKER_FACTOR * self.workers, self.cores)
        if self.full:
            return None
        return self.cores if self.workers < self.cores else None


@of_each_host
def loader_workers(*, trace: TraceData, windows: Windows) -> LoaderWorkers | None:
    """Return the workers of each host that recorded their number."""
    cores, readings = usable_cores(trace), counter_readings(trace, _WORKERS)
    starts, ends = window_bounds(windows.measured)
    if cores is None or readings is None or not len(starts):
        return None
    # Counter samples are rare, so the last sample before the steps also counts.
    first = max(int(np.searchsorted(readings.time_ps, starts[0])) - 1, 0)
    past = int(np.searchsorted(readings.time_ps, ends[-1], side="right"))
    workers = round(float(np.median(readings.value[first : max(past, first + 1)])))
    if not workers:
        return None
    every, full = core_count(trace), None
    in_use, used = (
        overall_mean(trace, name, starts, ends) for name in (MACHINE_USE, _USED)
    )
    if every is not None and in_use is not None:
        full = in_use >= THRESHOLDS.busy_cores.value * every
    return LoaderWorkers(workers, cores, None if used is None else used / 100, full)


@of_each_host
def machine_cores(*, trace: TraceData) -> int | None:
    """Return the number of cores that the program may use on each host, if known."""
    return usable_cores(trace)


#: If workers are idle in at least this share of the steps' wait, in percent, the
#: workers do not cause the wait.
_MIN_IDLE_PERCENT: Final = 50.0


class WorkerTime(Frozen, frozen=True, eq=True):
    """Division of the time of one host's worker processes, in percent.

    Attributes:
        waits_percent: Share of the workers' time in which they wait for a task.
        functions: Functions that the workers execute, most time first.
        most: Function with most of the workers' total time: the program's own function,
            else a library's; None if no function has enough of the time.
        idle_percent: Share of the steps' waiting for batches in which no worker had a
            task; None with too few samples.
        alone_percent: Share of the steps' other waiting in which one worker works and
            the others have no task; None with one worker, or too few samples.
    """

    workers: int
    waits_percent: float
    functions: tuple[Part, ...]
    most: Part | None
    idle_percent: float | None
    alone_percent: float | None = None

    @property
    def are_idle(self) -> bool:
        """Return whether the steps wait although the workers are idle."""
        return self.idle_percent is not None and self.idle_percent >= _MIN_IDLE_PERCENT

    @property
    def place(self) -> str | None:
        """Return the function with most of the workers' time, with file and line."""
        if self.most is None:
            return None
        return name_with_location(f"`{self.most.name}`", self.most.file, self.most.line)


@of_each_host
def worker_time(*, worker_functions: WorkerFunctions) -> WorkerTime | None:
    """Divide the time of the workers of each host that has enough samples."""
    workers = worker_functions
    if workers.looks < MIN_INTERVAL_SAMPLES:
        return None
    functions = tuple(_worker_part(function, workers) for function in workers.functions)
    named = workers.worth_naming

    def share_of_waits(part_ps: int, waited_ps: int) -> float | None:
        # If steps rarely wait, few samples show what the workers do during the waits.
        enough = waited_ps * workers.looks >= MIN_INTERVAL_SAMPLES * workers.sampled_ps
        return 100 * part_ps / waited_ps if enough and waited_ps else None

    return WorkerTime(
        workers=workers.workers,
        waits_percent=100 * workers.waits_ps / workers.sampled_ps,
        functions=functions[:MAX_RANGES_SHOWN],
        most=None if named is None else _worker_part(named, workers),
        idle_percent=share_of_waits(workers.idle_ps, workers.awaited_ps),
        alone_percent=share_of_waits(workers.alone_ps, workers.waited_ps)
        if workers.workers > 1
        else None,
    )


def _worker_part(function: WorkerFunction, workers: WorkerFunctions) -> Part:
    return Part(
        name=function.function,
        detail=function.inside,
        function=function.function,
        file=function.file,
        line=function.line,
        share_percent=100 * function.time_ps / workers.sampled_ps,
        inclusive=True,
    )


class WorkerOps(Frozen, frozen=True):
    """Ops that each worker executed in the judged steps.

    Attributes:
        runs: Host → name of an op → its mean number of executions per step.
    """

    runs: Mapping[str, Mapping[str, float]]

    def runs_op(self, host: str, name: str) -> bool:
        """Return whether the worker `host` runs an op."""
        return name in self.runs.get(host, {})

    def extra_ops_percent(self, host: str) -> float | None:
        """Return the percentage of a worker's op executions that other workers lack.

        Each op's number of executions is compared with the median of the other workers.
        The result is None if ops of too few workers were recorded.
        """
        own_runs = self.runs.get(host)
        peers = [ops for name, ops in self.runs.items() if name != host]
        if not own_runs or not peers or not all(peers):
            return None
        extra_runs = sum(
            max(runs - float(np.median([ops.get(name, 0.0) for ops in peers])), 0.0)
            for name, runs in own_runs.items()
        )
        return 100 * extra_runs / sum(own_runs.values())


def op_runs(
    *,
    event_kinds: EventKinds,
    windows: Windows,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
) -> dict[str, float]:
    """Return the mean number of executions per step of each op of a host."""
    kind = handles(events, "type")
    inside = windows_of_times(windows.measured, ints(events, "start_ps")) >= 0
    ops, count = np.unique(kind[inside & event_kinds.is_op()[kind]], return_counts=True)
    return {
        str(event_types["name"][kind]): number / len(windows.measured)
        for kind, number in zip(ops.tolist(), count.tolist(), strict=True)
    }


@of_run
def worker_ops(*, op_runs: OfHosts[dict[str, float]]) -> WorkerOps:
    """Collect the op executions of all hosts."""
    return WorkerOps(known_hosts(op_runs))
